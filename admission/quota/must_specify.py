"""The duty to state what a quota limits (Kubernetes 1.36, ResourceQuota, pods): never counted as 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from admission.objects import Pod
from admission.pods import pod_level_names
from admission.quota.names import LIMITS, REQUESTS

MUST_SPECIFY: Final = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"),
)
"""Names that every container of a pod must state where a quota limits them."""


class Duty(NamedTuple):
    """A name that containers must state: which resource, and on which side."""

    name: str
    resource: str
    is_limit: bool


def duties(names: Iterable[str]) -> tuple[Duty, ...]:
    """Those of the names that containers must state, sorted."""
    return tuple(
        Duty(name, name.removeprefix(LIMITS).removeprefix(REQUESTS), name.startswith(LIMITS))
        for name in sorted(names)
        if name in MUST_SPECIFY
    )


def unstated(pod: Pod, required: Sequence[Duty]) -> dict[str, list[str]]:
    """Which of the duties which containers do not fulfil: name -> container names, both sorted.

    A pod that states anything at pod level is free of all duties.
    """
    if any(True for _ in pod_level_names(pod.spec.resources if pod.spec else None)):
        return {}
    lacking: dict[str, set[str]] = {}
    for container in (*pod.containers, *pod.init_containers):
        requests, limits = container.requests, container.limits
        for name, resource, is_limit in required:
            if resource not in (limits if is_limit else requests):
                lacking.setdefault(name, set()).add(container.name)
    return {name: sorted(lacking[name]) for name in sorted(lacking)}


def describe(missing: dict[str, list[str]]) -> str:
    """`must specify cpu for: a,b; memory for: a`."""
    return "must specify " + "; ".join(f"{name} for: {','.join(containers)}" for name, containers in missing.items())
