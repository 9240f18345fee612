"""Which kind of object a name in `hard` is about (Kubernetes 1.36, ResourceQuota, evaluators).

A kind is written as in `count/<kind>`: `pods`, `deployments.apps`. Several kinds may answer to one name; a name that
no kind answers to is inert: the API accepts it, and it limits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PODS: Final = "pods"
VOLUME_CLAIMS: Final = "persistentvolumeclaims"
SERVICES: Final = "services"
QUOTAS: Final = "resourcequotas"
RESOURCE_CLAIMS: Final = "resourceclaims.resource.k8s.io"

COUNTED_BY_PLAIN_NAME: Final = frozenset(("configmaps", "secrets", "replicationcontrollers", "resourcequotas"))
"""Kinds that have a name of their own in `hard` beside `count/<kind>`."""

CLASS_STORAGE: Final = ".storageclass.storage.k8s.io/requests.storage"
CLASS_CLAIMS: Final = ".storageclass.storage.k8s.io/persistentvolumeclaims"
CLASS_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
IMPLICIT_EXTENDED: Final = "deviceclass.resource.kubernetes.io/"
REQUESTS: Final = "requests."
LIMITS: Final = "limits."

IGNORED_KINDS: Final = frozenset(
    (
        "bindings",
        "componentstatuses",
        "events",
        "events.events.k8s.io",
        "tokenreviews.authentication.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "localsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
    )
)
"""Kinds that are never counted."""

DeviceClasses = Mapping[str, str]
"""Name of each DeviceClass that exists -> its `extendedResourceName`, empty where it has none."""

_POD_NAMES: Final = frozenset(
    (
        "pods",
        "count/pods",
        *(
            f"{side}{resource}"
            for side in ("", REQUESTS, LIMITS)
            for resource in ("cpu", "memory", "ephemeral-storage")
        ),
    )
)
_VOLUME_CLAIM_NAMES: Final = frozenset((VOLUME_CLAIMS, f"count/{VOLUME_CLAIMS}", "requests.storage"))
_SERVICE_NAMES: Final = frozenset(("services", "count/services", "services.nodeports", "services.loadbalancers"))


def is_native(name: str) -> bool:
    """Whether a resource name belongs to Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


def answers(kind: str, name: str, devices: DeviceClasses) -> bool:
    """Whether objects of this kind use the resource of this name."""
    if kind == PODS:
        return _is_pod_name(name)
    if kind == VOLUME_CLAIMS:
        return name in _VOLUME_CLAIM_NAMES or name.endswith((CLASS_STORAGE, CLASS_CLAIMS))
    if kind == SERVICES:
        return name in _SERVICE_NAMES
    if kind == RESOURCE_CLAIMS:
        return _is_resource_claim_name(name, devices)
    return name == f"count/{kind}" or (name == kind and kind in COUNTED_BY_PLAIN_NAME)


def kinds_named(name: str, devices: DeviceClasses) -> list[str]:
    """The kinds that answer to a name, so that a count of existing objects knows where to look."""
    special = [kind for kind in (PODS, VOLUME_CLAIMS, SERVICES, RESOURCE_CLAIMS) if answers(kind, name, devices)]
    if special:
        return special
    if name in COUNTED_BY_PLAIN_NAME:
        return [name]
    kind = name.removeprefix("count/")
    return [kind] if kind != name and kind not in IGNORED_KINDS else []


def _is_pod_name(name: str) -> bool:
    if name in _POD_NAMES or name.startswith(("hugepages-", "requests.hugepages-", REQUESTS + IMPLICIT_EXTENDED)):
        return True
    return name.startswith(REQUESTS) and not is_native(name)


def _is_resource_claim_name(name: str, devices: DeviceClasses) -> bool:
    if name == f"count/{RESOURCE_CLAIMS}" or name.endswith(CLASS_DEVICES):
        return True
    if name.startswith(REQUESTS + IMPLICIT_EXTENDED):
        return name.removeprefix(REQUESTS + IMPLICIT_EXTENDED) in devices
    extended = name.removeprefix(REQUESTS)
    return extended not in ("", name) and extended in devices.values()
