"""What a pod requests and what it is limited to: the one home of pod sums.

LimitRange, ResourceQuota and the scheduler share the walk over the containers and differ in the rest:

| | LimitRange | ResourceQuota | scheduler |
|---|---|---|---|
| in-place resize (status, allocated) | ignored | the larger of desired and actual counts | the same |
| pod-level resources that replace the sum | cpu, memory | cpu, memory, hugepages-* | the same |
| in-place resize at pod level | ignored | ignored | the larger of desired and actual counts |
| overhead | ignored | added | added |

Source: Kubernetes 1.36, LimitRanger, the pod evaluator of ResourceQuota, the scheduler's PodInfo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from admission.objects import Container, ContainerStatus, Pod, ResourceRequirements
from admission.quantity import ZERO, Quantity
from admission.resource_lists import EMPTY, ResourceList, add_into, max_into

SIDECAR = "Always"
HUGEPAGES = "hugepages-"
FINISHED = frozenset(("Failed", "Succeeded"))

_Choose = Callable[[ResourceRequirements], "ResourceList | None"]
_Amounts = Callable[[Container], ResourceList]


def requests_of(resources: ResourceRequirements) -> ResourceList | None:
    """The request side of a resources field."""
    return resources.requests


def limits_of(resources: ResourceRequirements) -> ResourceList | None:
    """The limit side of a resources field."""
    return resources.limits


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the app containers."""
    return container.restart_policy == SIDECAR


def is_finished(pod: Pod) -> bool:
    """Whether the pod has come to its end and holds nothing any more."""
    return pod.status is not None and pod.status.phase in FINISHED


def limit_range_totals(pod: Pod) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """The pod's total requests and total limits, as LimitRange bounds of type Pod see them."""
    totals = []
    for choose in (requests_of, limits_of):
        amounts = _stated(choose)
        total = _sum_containers(pod, amounts, amounts)
        total.update(_pod_level(pod, choose, hugepages=False))
        totals.append(total)
    return totals[0], totals[1]


def quota_requests(pod: Pod) -> dict[str, Quantity]:
    """The pod's total requests as ResourceQuota counts them, overhead included."""
    return _requests(pod, _pod_level(pod, requests_of, hugepages=True))


def scheduler_requests(pod: Pod) -> dict[str, Quantity]:
    """The pod's total requests as the scheduler counts them on a node, overhead included."""
    return _requests(pod, _held_at_pod_level(pod))


def _requests(pod: Pod, pod_level: ResourceList) -> dict[str, Quantity]:
    total = _sum_containers(pod, _effective(pod, requests_of), _stated(requests_of))
    total.update(pod_level)
    if pod.spec and pod.spec.overhead:
        add_into(total, pod.spec.overhead)
    return total


def quota_limits(pod: Pod) -> dict[str, Quantity]:
    """The pod's total limits as ResourceQuota counts them; overhead is added to what is limited at all."""
    total = _sum_containers(pod, _effective(pod, limits_of), _stated(limits_of))
    total.update(_pod_level(pod, limits_of, hugepages=True))
    if pod.spec and pod.spec.overhead:
        for name, amount in pod.spec.overhead.items():
            if total.get(name):
                total[name] = total[name] + amount
    return total


def pod_level_names(resources: ResourceRequirements | None) -> Iterable[str]:
    """The names that a pod may state at pod level (cpu, memory, hugepages-*) and does."""
    for amounts in (resources.requests, resources.limits) if resources else ():
        yield from (name for name in amounts or EMPTY if _counts_at_pod_level(name, hugepages=True))


def _counts_at_pod_level(name: str, *, hugepages: bool) -> bool:
    return name in ("cpu", "memory") or (hugepages and name.startswith(HUGEPAGES))


def _stated(choose: _Choose) -> _Amounts:
    def amounts(container: Container) -> ResourceList:
        return (choose(container.resources) if container.resources else None) or EMPTY

    return amounts


def _sum_containers(pod: Pod, running: _Amounts, starting: _Amounts) -> dict[str, Quantity]:
    """The most that the pod holds at any time.

    `running` gives the amounts of app containers and sidecars, which run together; `starting` those of plain init
    containers, which run one after the other beside the sidecars started before them.
    """
    containers = pod.containers
    total = dict(running(containers[0])) if containers else {}
    for container in containers[1:]:
        add_into(total, running(container))
    if not pod.init_containers:
        return total
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in pod.init_containers:
        if is_sidecar(container):
            amounts = running(container)
            add_into(total, amounts)
            add_into(sidecars, amounts)
            max_into(peak, sidecars)
        else:
            step = dict(starting(container))
            add_into(step, sidecars)
            max_into(peak, step)
    max_into(total, peak)
    return total


def _pod_level(pod: Pod, choose: _Choose, *, hugepages: bool) -> ResourceList:
    """What the pod states as a whole, which replaces the sum of its containers."""
    resources = pod.spec.resources if pod.spec else None
    amounts = (choose(resources) if resources else None) or EMPTY
    return {name: amounts[name] for name in amounts if _counts_at_pod_level(name, hugepages=hugepages)}


def _held_at_pod_level(pod: Pod) -> ResourceList:
    """What the pod states as a whole, while an in-place resize of that may be under way."""
    stated = _pod_level(pod, requests_of, hugepages=True)
    status = pod.status
    if not stated or status is None or status.resources is None:
        return stated
    held: dict[str, Quantity] = {} if _resize_is_infeasible(pod) else dict(stated)
    max_into(held, requests_of(status.resources) or EMPTY)
    max_into(held, status.allocated_resources or EMPTY)
    return {name: held.get(name, ZERO) for name in stated}


def _effective(pod: Pod, choose: _Choose) -> _Amounts:
    """What a running container counts as while an in-place resize may be under way."""
    stated = _stated(choose)
    statuses = _resource_statuses(pod)
    if not statuses:
        return stated
    infeasible = _resize_is_infeasible(pod)

    def amounts(container: Container) -> ResourceList:
        status = statuses.get(container.name)
        if status is None or status.resources is None:
            return stated(container)
        larger: dict[str, Quantity] = {} if infeasible else dict(stated(container))
        max_into(larger, choose(status.resources) or EMPTY)
        if choose is requests_of:
            max_into(larger, status.allocated_resources or EMPTY)
        return larger

    return amounts


def _resource_statuses(pod: Pod) -> dict[str, ContainerStatus]:
    if pod.status is None:
        return {}
    statuses: dict[str, ContainerStatus] = {}
    for status in (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ())):
        statuses.setdefault(status.name, status)
    return statuses


def _resize_is_infeasible(pod: Pod) -> bool:
    conditions = (pod.status.conditions if pod.status else None) or ()
    first = next((condition for condition in conditions if condition.type == "PodResizePending"), None)
    return first is not None and first.reason == "Infeasible"
