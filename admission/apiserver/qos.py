"""The QoS class of a pod (Kubernetes 1.36, ComputePodQOS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from admission.objects import Pod, ResourceRequirements
from admission.quantity import Quantity
from admission.resource_lists import ResourceList, add_into

_COMPUTE: Final = ("cpu", "memory")


def qos_class(pod: Pod) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`; what a pod states at pod level replaces what its containers state."""
    stated = _stated(pod)
    requests, limits = _total([each.requests for each in stated]), _total([each.limits for each in stated])
    if not requests and not limits:
        return "BestEffort"
    limited = all(set(_positive(each.limits)) == set(_COMPUTE) for each in stated)
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _stated(pod: Pod) -> Sequence[ResourceRequirements]:
    if pod.spec and pod.spec.resources is not None:
        return [pod.spec.resources]
    return [each.resources or ResourceRequirements() for each in (*pod.containers, *pod.init_containers)]


def _total(lists: Sequence[ResourceList | None]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for amounts in lists:
        add_into(total, _positive(amounts))
    return total


def _positive(amounts: ResourceList | None) -> ResourceList:
    return {name: amount for name, amount in (amounts or {}).items() if name in _COMPUTE and amount.nano > 0}
