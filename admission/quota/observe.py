"""Measuring an object of any kind: from its JSON to what quotas know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission import objects
from admission.objects import AnyObject, ObjectMeta, Pod, ResourceClaim, Service, VolumeClaim
from admission.quota.devices import PaidByPod, nothing_paid, observe_resource_claim
from admission.quota.names import PODS, RESOURCE_CLAIMS, SERVICES, VOLUME_CLAIMS, DeviceClasses
from admission.quota.observed import Observed
from admission.quota.usage import observe_any, observe_pod, observe_service, observe_volume_claim

CountedObject = Pod | VolumeClaim | Service | ResourceClaim | AnyObject

TYPES: Final[Mapping[str, type[CountedObject]]] = {
    PODS: Pod,
    VOLUME_CLAIMS: VolumeClaim,
    SERVICES: Service,
    RESOURCE_CLAIMS: ResourceClaim,
}
"""The kinds that are measured; every other kind is only counted."""

_DECODERS: Final[Mapping[str, Callable[[Any, str], CountedObject]]] = {
    PODS: objects.decode_pod,
    VOLUME_CLAIMS: objects.decode_volume_claim,
    SERVICES: objects.decode_service,
    RESOURCE_CLAIMS: objects.decode_resource_claim,
}


@dataclass(frozen=True)
class Surroundings:
    """What of the cluster decides an object's usage: the DeviceClasses, and what pods pay for on a claim's behalf."""

    devices: DeviceClasses
    paid_by_pod: PaidByPod = nothing_paid


def decode(kind: str, data: msgspec.Raw | bytes, what: str) -> CountedObject:
    """The object in a review; `what` names it in the line of a BadCall."""
    return _DECODERS.get(kind, objects.decode_any)(data, what)


def observe(kind: str, counted: CountedObject, surroundings: Surroundings) -> Observed:
    """What quotas know of an object."""
    observed = _measure(kind, counted, surroundings)
    if meta_of(counted).deletion_timestamp is not None:
        return msgspec.structs.replace(observed, deleting=True)
    return observed


def _measure(kind: str, counted: CountedObject, surroundings: Surroundings) -> Observed:
    if isinstance(counted, Pod):
        return observe_pod(counted)
    if isinstance(counted, VolumeClaim):
        return observe_volume_claim(counted)
    if isinstance(counted, Service):
        return observe_service(counted)
    if isinstance(counted, ResourceClaim):
        return observe_resource_claim(counted, surroundings.devices, surroundings.paid_by_pod)
    return observe_any(kind)


def meta_of(counted: CountedObject) -> ObjectMeta:
    """The object's metadata, empty where it has none."""
    return counted.metadata or objects.NO_META


def handles(kind: str, sub_resource: str, operation: str, new: Observed, old: Observed | None) -> bool:
    """Whether quotas judge this operation on this kind (deletions are never judged)."""
    if operation not in ("CREATE", "UPDATE"):
        return False
    if kind == PODS:
        if operation == "CREATE" or sub_resource:
            return sub_resource == ("" if operation == "CREATE" else "resize")
        return old is not None and _terminating(new) != _terminating(old)
    if kind == VOLUME_CLAIMS:
        return not sub_resource or (sub_resource == "status" and operation == "UPDATE")
    if kind in (SERVICES, RESOURCE_CLAIMS):
        return not sub_resource
    return not sub_resource and operation == "CREATE"


def _terminating(observed: Observed) -> bool:
    return bool(getattr(observed.facts, "terminating", False))
