"""Kinds and resources: which resource (`deployments.apps`) an object of a kind (`apps/v1`, `Deployment`) belongs to.

An API server knows this by discovery. Where there is none, the built-in kinds are listed here, custom resources are
learned from their CustomResourceDefinition, and for what is left the usual plural is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

GroupKind = tuple[str, str]
"""The group, empty for the core API, and the kind."""


class Resource(NamedTuple):
    """A resource: `group` is empty for the core API."""

    group: str
    plural: str
    namespaced: bool = True

    @property
    def name(self) -> str:
        """`pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_NAMESPACED: Final = {
    "": "Binding ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController "
    "ResourceQuota Secret Service ServiceAccount",
    "apps": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling": "HorizontalPodAutoscaler",
    "batch": "CronJob Job",
    "coordination.k8s.io": "Lease",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    "networking.k8s.io": "Ingress NetworkPolicy",
    "policy": "PodDisruptionBudget",
    "rbac.authorization.k8s.io": "Role RoleBinding",
    "resource.k8s.io": "ResourceClaim ResourceClaimTemplate",
    "storage.k8s.io": "CSIStorageCapacity",
}
_CLUSTER_WIDE: Final = {
    "": "Namespace Node PersistentVolume",
    "admissionregistration.k8s.io": "MutatingWebhookConfiguration ValidatingWebhookConfiguration "
    "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
    "apiextensions.k8s.io": "CustomResourceDefinition",
    "networking.k8s.io": "IngressClass",
    "node.k8s.io": "RuntimeClass",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
    "resource.k8s.io": "DeviceClass ResourceSlice",
    "scheduling.k8s.io": "PriorityClass",
    "storage.k8s.io": "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
}


def usual_plural(kind: str) -> str:
    """`Ingress` -> `ingresses`, `NetworkPolicy` -> `networkpolicies`, `Pod` -> `pods`."""
    word = kind.lower()
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}s"


def _listed() -> dict[GroupKind, Resource]:
    table = {}
    for groups, namespaced in ((_NAMESPACED, True), (_CLUSTER_WIDE, False)):
        for group, kinds in groups.items():
            for kind in kinds.split():
                plural = "endpoints" if kind == "Endpoints" else usual_plural(kind)
                table[group, kind] = Resource(group, plural, namespaced)
    return table


BUILT_IN: Final[Mapping[GroupKind, Resource]] = _listed()
"""(group, kind) -> resource."""


def group_of(api_version: str) -> str:
    """`apps/v1` -> `apps`, `v1` -> empty."""
    group, slash, _ = api_version.rpartition("/")
    return group if slash else ""


def resource_of(api_version: str, kind: str) -> Resource:
    """The resource of an object, by its `apiVersion` and `kind`; one that is not built in is taken for namespaced."""
    return resource_for((group_of(api_version), kind))


def resource_for(group_kind: GroupKind, custom: Mapping[GroupKind, Resource] | None = None) -> Resource:
    """The resource of a kind; one that is neither built in nor among `custom` is taken for namespaced."""
    known = BUILT_IN.get(group_kind) or (custom or {}).get(group_kind)
    return known or Resource(group_kind[0], usual_plural(group_kind[1]))
