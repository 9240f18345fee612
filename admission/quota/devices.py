"""What a ResourceClaim uses of a quota (Kubernetes 1.36, ResourceQuota, resource claim evaluator).

A claim counts itself, the devices it requests per class, and the same devices again under the extended resource names
that pods request them by, less what the pod that owns the claim already pays for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from admission.objects import NO_META, DeviceRequest, DeviceSubRequest, ObjectMeta, OwnerReference, ResourceClaim
from admission.quantity import ONE, Quantity
from admission.quota.names import CLASS_DEVICES, IMPLICIT_EXTENDED, REQUESTS, RESOURCE_CLAIMS, DeviceClasses
from admission.quota.observed import Observed
from admission.resource_lists import EMPTY, ResourceList

ALL_DEVICES: Final = 32
"""What `allocationMode: All` counts as: the most devices that a claim can hold."""
EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"

PaidByPod = Callable[[str, ObjectMeta], ResourceList]
"""Given the UID of the pod that an extended resource claim was made for, and the claim's metadata: what is paid for."""


def nothing_paid(_uid: str, _claim: ObjectMeta) -> ResourceList:
    """Where no pods are known."""
    return EMPTY


def observe_resource_claim(claim: ResourceClaim, devices: DeviceClasses, paid_by_pod: PaidByPod) -> Observed:
    """A claim for devices."""
    usage = {f"count/{RESOURCE_CLAIMS}": ONE}
    classes = _devices_by_class(claim)
    extended: dict[str, Quantity] = {}
    for name, count in classes.items():
        amount = Quantity.of_count(count)
        usage[name + CLASS_DEVICES] = amount
        extended[REQUESTS + IMPLICIT_EXTENDED + name] = amount
        if devices.get(name):
            extended[REQUESTS + devices[name]] = amount
    owner = controlling_pod(claim)
    paid = paid_by_pod(owner.uid, claim.metadata or NO_META) if owner else EMPTY
    for name, amount in extended.items():
        left = amount - paid[name] if name in paid else amount
        if left.nano > 0:
            usage[name] = left
    created = (claim.metadata and claim.metadata.creation_timestamp) or ""
    return Observed(usage, owner_pod=owner.uid if owner else "", created=created)


def paid_for(claim: ObjectMeta, pod: Observed, siblings: Iterable[tuple[str, str]], now: float) -> ResourceList:
    """What a pod pays for on behalf of an extended resource claim.

    `siblings` are the other extended claims of the pod, as pairs of creation time and name. Only one claim is paid for:
    the one that the pod's status names or, as long as it names none, the oldest.
    """
    name, created = claim.name or "", claim.creation_timestamp or ""
    if pod.extended_claim:
        is_paid = pod.extended_claim == name
    else:
        is_paid = not any(sibling < (created, name) for sibling in siblings if sibling[1] != name)
    return pod.usage_at(now) if is_paid else EMPTY


def controlling_pod(claim: ResourceClaim) -> OwnerReference | None:
    """The pod that an extended resource claim was made for, if it is such a claim."""
    meta = claim.metadata
    if meta is None or (meta.annotations or {}).get(EXTENDED_CLAIM) != "true":
        return None
    owner = next((owner for owner in meta.owner_references or () if owner.controller), None)
    return owner if owner and (owner.api_version, owner.kind) == ("v1", "Pod") else None


def _devices_by_class(claim: ResourceClaim) -> dict[str, int]:
    devices = claim.spec.devices if claim.spec else None
    total: dict[str, int] = {}
    for request in (devices and devices.requests) or ():
        for name, count in _request(request).items():
            total[name] = total.get(name, 0) + count
    return total


def _request(request: DeviceRequest) -> dict[str, int]:
    if request.first_available:
        most: dict[str, int] = {}
        for alternative in request.first_available:
            name = alternative.device_class_name or ""
            most[name] = max(most.get(name, 0), _count(alternative))
        return {name: count for name, count in most.items() if count}
    exactly = request.exactly or _exactly_in_v1beta1(request)
    return {exactly.device_class_name or "": _count(exactly)} if exactly else {}


def _exactly_in_v1beta1(request: DeviceRequest) -> DeviceSubRequest | None:
    if request.device_class_name is None:
        return None
    return DeviceSubRequest(request.device_class_name, request.allocation_mode, request.count)


def _count(request: DeviceSubRequest) -> int:
    # An empty mode is what the API server defaults to ExactCount, and a missing count to 1.
    if request.allocation_mode in (None, "", "ExactCount"):
        return 1 if request.count is None else request.count
    return ALL_DEVICES if request.allocation_mode == "All" else 0
