"""The API's own rules for the resources of a pod, and their texts (Kubernetes 1.36, pod validation).

They come after defaulting and before the validating webhooks: a default that does not fit what a container states
itself shows here. Several errors come container by container, and by resource name inside one container.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from admission.apiserver.defaulting import aggregates
from admission.apiserver.statuses import Cause
from admission.objects import Container, Pod, ResourceRequirements
from admission.pods import HUGEPAGES
from admission.quantity import Quantity
from admission.resource_lists import EMPTY, ResourceList

_RESIZABLE: Final = frozenset(("cpu", "memory"))


def pod_errors(pod: Pod) -> list[Cause]:
    """What the API would refuse of a pod's resources."""
    errors: list[Cause] = []
    for where, containers in (("containers", pod.containers), ("initContainers", pod.init_containers)):
        for index, container in enumerate(containers):
            errors += _request_errors(container.resources, f"spec.{where}[{index}].resources")
    if pod.spec and pod.spec.resources is not None:
        errors += _request_errors(pod.spec.resources, "spec.resources")
        errors += _pod_level_errors(pod, pod.spec.resources)
    return errors


def resize_errors(new: Pod, old: Pod) -> list[Cause]:
    """What the API would refuse of a resize."""
    errors = pod_errors(new)
    pairs = [*zip(new.containers, old.containers, strict=False), *zip(new.init_containers, old.init_containers)]  # noqa: B905
    if any(_fixed(after) != _fixed(before) for after, before in pairs):
        errors.append(Cause("spec", "Forbidden: only cpu and memory resources are mutable"))
    return errors


def _request_errors(resources: ResourceRequirements | None, path: str) -> Iterator[Cause]:
    if resources is None:
        return
    limits = resources.limits or EMPTY
    for name, request in sorted((resources.requests or EMPTY).items()):
        limit, overcommit = limits.get(name), _may_be_overcommitted(name)
        if limit is None:
            if not overcommit:
                yield Cause(f"{path}.limits", "Required value: Limit must be set for non overcommitable resources")
        elif request != limit and not overcommit:
            yield _invalid(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")
        elif request > limit:
            yield _invalid(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")


def _pod_level_errors(pod: Pod, resources: ResourceRequirements) -> Iterator[Cause]:
    requests, limits = aggregates(pod)
    yield from _too_small(resources.requests or EMPTY, requests, "requests", sorted(requests))
    yield from _too_small(
        resources.limits or EMPTY, limits, "limits", [name for name in sorted(limits) if name.startswith(HUGEPAGES)]
    )
    for index, container in enumerate(pod.containers):
        for name, limit in sorted(container.limits.items()):
            most = (resources.limits or EMPTY).get(name)
            if most is not None and limit > most:
                path = f"spec.resources.containers[{index}][{name}].limits"
                yield _invalid(path, limit, f"must be less than or equal to pod limits of {most}")


def _too_small(stated: ResourceList, total: ResourceList, side: str, names: Sequence[str]) -> Iterator[Cause]:
    for name in names:
        if name in stated and total[name] > stated[name]:
            problem = f"must be greater than or equal to aggregate container {side} of {total[name]}"
            yield _invalid(f"spec.resources.{side}[{name}]", stated[name], problem)


def _invalid(field: str, value: Quantity, problem: str) -> Cause:
    return Cause(field, f'Invalid value: "{value}": {problem}')


def _may_be_overcommitted(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith(HUGEPAGES)


def _fixed(container: Container) -> tuple[ResourceList, ResourceList]:
    """What of a container's resources a resize may not change."""
    requests, limits = (
        {name: amount for name, amount in amounts.items() if name not in _RESIZABLE}
        for amounts in (container.requests, container.limits)
    )
    return requests, limits
