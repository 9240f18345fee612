"""What one object uses of a quota (Kubernetes 1.36, ResourceQuota, evaluators).

Resource claims have a home of their own: `admission.quota.devices`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from admission import objects
from admission.errors import BadCall
from admission.objects import ObjectMeta, Pod, Service, VolumeClaim
from admission.pods import HUGEPAGES, is_finished, quota_limits, quota_requests
from admission.quantity import ONE, ZERO, Quantity
from admission.quota.names import (
    CLASS_CLAIMS,
    CLASS_STORAGE,
    COUNTED_BY_PLAIN_NAME,
    IMPLICIT_EXTENDED,
    LIMITS,
    REQUESTS,
    VOLUME_CLAIMS,
    is_native,
)
from admission.quota.observed import COUNT_PODS, Observed, PodFacts, VolumeClaimFacts
from admission.selectors import is_qualified_name

_COMPUTE: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
_BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def observe_pod(pod: Pod) -> Observed:
    """A pod. A finished one counts as `count/pods` alone."""
    usage = {COUNT_PODS: ONE}
    if not is_finished(pod):
        usage["pods"] = ONE
        usage.update(_compute_usage(pod))
    claim = pod.status.extended_resource_claim_status if pod.status else None
    return Observed(
        usage,
        pod_facts(pod),
        _counts_until(pod.metadata),
        extended_claim=(claim and claim.resource_claim_name) or "",
    )


def _compute_usage(pod: Pod) -> dict[str, Quantity]:
    usage = {}
    for name, amount in quota_requests(pod).items():
        if name in _COMPUTE or name.startswith(HUGEPAGES):
            usage[name] = usage[REQUESTS + name] = amount
        elif _is_extended(name):
            usage[REQUESTS + name] = amount
    for name, amount in quota_limits(pod).items():
        if name in _COMPUTE:
            usage[LIMITS + name] = amount
    return usage


def _is_extended(name: str) -> bool:
    if name.startswith(IMPLICIT_EXTENDED):
        return True
    return not is_native(name) and not name.startswith(REQUESTS) and is_qualified_name(REQUESTS + name)


def _counts_until(meta: ObjectMeta | None) -> float | None:
    # The grace period is added again on top of a timestamp that already contains it: so does the original.
    if meta is None or meta.deletion_timestamp is None or meta.deletion_grace_period_seconds is None:
        return None
    try:
        deletion = datetime.fromisoformat(meta.deletion_timestamp)
        return deletion.timestamp() + meta.deletion_grace_period_seconds
    except (ValueError, OverflowError):
        raise BadCall("metadata.deletionTimestamp is not an RFC 3339 time") from None


def pod_facts(pod: Pod) -> PodFacts:
    """What of a pod decides its scopes."""
    spec = pod.spec
    if spec is None:
        return PodFacts(best_effort=True)
    deadline = spec.active_deadline_seconds
    return PodFacts(
        terminating=deadline is not None and deadline >= 0,
        best_effort=_is_best_effort(pod),
        priority_class=spec.priority_class_name or "",
        cross_namespace_affinity=spec.affinity is not None and _looks_across_namespaces(spec.affinity),
    )


def _is_best_effort(pod: Pod) -> bool:
    if pod.status and pod.status.qos_class:
        return pod.status.qos_class == "BestEffort"
    if pod.spec and pod.spec.resources is not None:
        stated = [pod.spec.resources]
    else:
        stated = [c.resources for c in (*pod.containers, *pod.init_containers) if c.resources]
    return not any(
        amounts.get(name, ZERO).nano > 0
        for resources in stated
        for amounts in (resources.requests, resources.limits)
        if amounts
        for name in ("cpu", "memory")
    )


def _looks_across_namespaces(affinity: objects.Affinity) -> bool:
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is None:
            continue
        preferred = side.preferred_during_scheduling_ignored_during_execution or ()
        terms = [
            *(side.required_during_scheduling_ignored_during_execution or ()),
            *(weighted.pod_affinity_term for weighted in preferred if weighted.pod_affinity_term),
        ]
        if any(term.namespaces or term.namespace_selector is not None for term in terms):
            return True
    return False


def observe_volume_claim(claim: VolumeClaim) -> Observed:
    """A PersistentVolumeClaim: itself and its storage, in total and under its storage class."""
    usage = {VOLUME_CLAIMS: ONE, f"count/{VOLUME_CLAIMS}": ONE}
    storage_class = _storage_class(claim)
    if storage_class:
        usage[storage_class + CLASS_CLAIMS] = ONE
    storage = _storage(claim)
    if storage is not None:
        usage["requests.storage"] = storage
        if storage_class:
            usage[storage_class + CLASS_STORAGE] = storage
    return Observed(usage, VolumeClaimFacts(_attributes_classes(claim)))


def _storage_class(claim: VolumeClaim) -> str:
    annotations = (claim.metadata and claim.metadata.annotations) or {}
    if _BETA_STORAGE_CLASS in annotations:
        return annotations[_BETA_STORAGE_CLASS] or ""
    return (claim.spec and claim.spec.storage_class_name) or ""


def _storage(claim: VolumeClaim) -> Quantity | None:
    resources = claim.spec.resources if claim.spec else None
    requested = ((resources and resources.requests) or {}).get("storage")
    if requested is None:
        return None
    requested = requested.round_up(0)
    allocated = ((claim.status and claim.status.allocated_resources) or {}).get("storage")
    return allocated.round_up(0) if allocated is not None and allocated > requested else requested


def _attributes_classes(claim: VolumeClaim) -> frozenset[str]:
    status = claim.status
    modify = status.modify_volume_status if status else None
    names = (
        claim.spec.volume_attributes_class_name if claim.spec else None,
        status.current_volume_attributes_class_name if status else None,
        modify.target_volume_attributes_class_name if modify else None,
    )
    return frozenset(name for name in names if name)


def observe_service(service: Service) -> Observed:
    """A service, its load balancer and its node ports."""
    load_balancers, node_ports = 0, 0
    spec = service.spec
    ports = (spec and spec.ports) or []
    if spec and spec.type == "NodePort":
        node_ports = len(ports)
    elif spec and spec.type == "LoadBalancer":
        load_balancers = 1
        allocates = spec.allocate_load_balancer_node_ports is not False
        node_ports = len(ports) if allocates else sum(1 for port in ports if port.node_port)
    return Observed(
        {
            "services": ONE,
            "count/services": ONE,
            "services.loadbalancers": Quantity.of_count(load_balancers),
            "services.nodeports": Quantity.of_count(node_ports),
        }
    )


def observe_any(kind: str) -> Observed:
    """An object of a kind that is only counted."""
    usage = {f"count/{kind}": ONE}
    if kind in COUNTED_BY_PLAIN_NAME:
        usage[kind] = ONE
    return Observed(usage)
