"""The duty to state what a quota limits (Kubernetes 1.36, ResourceQuota, pods): never counted as 0."""

from __future__ import annotations

from collections.abc import Iterable

from admission.objects import Pod
from admission.pods import pod_level_names
from admission.quota.names import LIMITS, REQUESTS


def unstated(pod: Pod, names: Iterable[str]) -> dict[str, list[str]]:
    """Which of the names which containers do not state: name -> container names, both sorted.

    A pod that states anything at pod level is free of the duty.
    """
    if any(True for _ in pod_level_names(pod.spec.resources if pod.spec else None)):
        return {}
    containers = (*pod.containers, *pod.init_containers)
    missing = {}
    for name in sorted(names):
        if name.startswith(LIMITS):
            resource = name.removeprefix(LIMITS)
            lacking = {container.name for container in containers if resource not in container.limits}
        else:
            resource = name.removeprefix(REQUESTS)
            lacking = {container.name for container in containers if resource not in container.requests}
        if lacking:
            missing[name] = sorted(lacking)
    return missing


def describe(missing: dict[str, list[str]]) -> str:
    """`must specify cpu for: a,b; memory for: a`."""
    return "must specify " + "; ".join(f"{name} for: {','.join(containers)}" for name, containers in missing.items())
