"""What the API fills in when it reads an object, before any admission (Kubernetes 1.36, API defaulting).

Only what decides a quota or a limit range is filled in: requests from limits, the forms of quantities, the type of a
service, the counts of a claim for devices.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from admission.apiserver.shapes import Json, shaped
from admission.kinds import Resource
from admission.objects import AnyObject, Pod, ResourceClaim, Service, VolumeClaim, decode_quantity
from admission.pods import HUGEPAGES, limit_range_totals

SIDES: Final = ("limits", "requests")


def with_api_defaults(manifest: Json, resource: Resource, namespace: str) -> Json:
    """A new object with defaults; raises Malformed. `namespace` is where the request goes to."""
    wire, fill = _KINDS.get(resource.name, (AnyObject, _nothing))
    shaped(manifest, wire)
    obj = copy.deepcopy(manifest)
    obj["metadata"] = obj.get("metadata") or {}
    if resource.namespaced and not obj["metadata"].get("namespace"):
        obj["metadata"]["namespace"] = namespace
    fill(obj)
    return obj


def aggregates(pod: Pod) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Requests and limits of all containers together, whatever the pod states at pod level."""
    if pod.spec is None:
        return {}, {}
    return limit_range_totals(Pod(spec=msgspec.structs.replace(pod.spec, resources=None)))


# -- pods


def _pod(pod: Json) -> None:
    spec = pod.get("spec") or {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources")
        if resources:
            _print(resources)
            _copy_limits(resources, resources.get("limits") or {})
    if spec.get("overhead"):
        spec["overhead"] = _printed(spec["overhead"])
    if spec.get("resources"):
        _pod_level(spec["resources"], shaped(pod, Pod))


def _pod_level(resources: Json, pod: Pod) -> None:
    _print(resources)
    requests, limits = aggregates(pod)
    if not any(resources.get(side) for side in SIDES):
        return
    stated = {name for side in SIDES for name in resources.get(side) or ()}
    huge = {name: str(amount) for name, amount in limits.items() if name.startswith(HUGEPAGES) and name not in stated}
    if huge:
        resources["limits"] = {**resources.get("limits", {}), **huge}
    own = resources.get("limits")
    if own:
        summed = {name: str(requests[name]) for name in ("cpu", "memory") if name in requests}
        _copy_limits(resources, summed)
        _copy_limits(resources, {name: own[name] for name in own if _is_pod_level(name)})


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith(HUGEPAGES)


def _copy_limits(resources: Json, limits: Mapping[str, Any]) -> None:
    """Request what is limited and not requested."""
    missing = {name: amount for name, amount in limits.items() if name not in (resources.get("requests") or {})}
    if missing:
        resources["requests"] = {**(resources.get("requests") or {}), **missing}


def _print(resources: Json) -> None:
    for side in SIDES:
        if resources.get(side) is not None:
            resources[side] = _printed(resources[side])
        else:
            resources.pop(side, None)


def _printed(amounts: Mapping[str, Any]) -> dict[str, str]:
    """A resource list as the API gives it back: rounded up to thousandths, in canonical form."""
    return {name: str(decode_quantity(object, amount)) for name, amount in amounts.items()}


# -- other kinds


def _service(service: Json) -> None:
    spec = service["spec"] = service.get("spec") or {}
    spec["type"] = spec.get("type") or "ClusterIP"


def _volume_claim(claim: Json) -> None:
    spec = claim["spec"] = claim.get("spec") or {}
    spec["volumeMode"] = spec.get("volumeMode") or "Filesystem"
    if spec.get("resources"):
        _print(spec["resources"])


def _resource_claim(claim: Json) -> None:
    devices = (claim.get("spec") or {}).get("devices") or {}
    for request in devices.get("requests") or ():
        alternatives = request.get("firstAvailable") or ()
        for exact in alternatives or (request.get("exactly"),):
            if exact is not None:
                _device_request(exact)
        if not alternatives and request.get("exactly") is None and request.get("deviceClassName"):
            _device_request(request)  # v1beta1 has the fields in the request itself


def _device_request(request: Json) -> None:
    request["allocationMode"] = request.get("allocationMode") or "ExactCount"
    if request["allocationMode"] == "ExactCount":
        request["count"] = request.get("count") or 1


def _nothing(_: Json) -> None:
    pass


_KINDS: Final[Mapping[str, tuple[type[Any], Callable[[Json], None]]]] = {
    "pods": (Pod, _pod),
    "services": (Service, _service),
    "persistentvolumeclaims": (VolumeClaim, _volume_claim),
    "resourceclaims.resource.k8s.io": (ResourceClaim, _resource_claim),
}
