"""What a pod requests and what it is limited to: the one home of pod sums.

LimitRange and ResourceQuota share the walk over the containers and differ in the rest:

| | LimitRange | ResourceQuota |
|---|---|---|
| in-place resize (status, allocated) | ignored | the larger of desired and actual counts |
| pod-level resources that replace the sum | cpu, memory | cpu, memory, hugepages-* |
| overhead | ignored | added |

Source: Kubernetes 1.36, LimitRanger and the pod evaluator of ResourceQuota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from admission.objects import Container, ContainerStatus, Pod, ResourceRequirements
from admission.quantity import Quantity
from admission.resource_lists import EMPTY, ResourceList, add_into, max_into

SIDECAR = "Always"
HUGEPAGES = "hugepages-"

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


def limit_range_totals(pod: Pod) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """The pod's total requests and total limits, as LimitRange bounds of type Pod see them."""
    totals = []
    for choose in (requests_of, limits_of):
        amounts = _stated(choose)
        total = _sum_containers(pod, amounts, amounts)
        _replace_by_pod_level(total, pod, choose, hugepages=False)
        totals.append(total)
    return totals[0], totals[1]


def quota_requests(pod: Pod) -> dict[str, Quantity]:
    """The pod's total requests as ResourceQuota counts them, overhead included."""
    total = _sum_containers(pod, _effective(pod, requests_of), _stated(requests_of))
    _replace_by_pod_level(total, pod, requests_of, hugepages=True)
    if pod.spec and pod.spec.overhead:
        add_into(total, pod.spec.overhead)
    return total


def quota_limits(pod: Pod) -> dict[str, Quantity]:
    """The pod's total limits as ResourceQuota counts them; overhead is added to what is limited at all."""
    total = _sum_containers(pod, _effective(pod, limits_of), _stated(limits_of))
    _replace_by_pod_level(total, pod, limits_of, hugepages=True)
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


def _replace_by_pod_level(total: dict[str, Quantity], pod: Pod, choose: _Choose, *, hugepages: bool) -> None:
    resources = pod.spec.resources if pod.spec else None
    amounts = (choose(resources) if resources else None) or EMPTY
    total.update({name: amounts[name] for name in amounts if _counts_at_pod_level(name, hugepages=hugepages)})


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
