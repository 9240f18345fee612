"""What containers get from LimitRanges that state no requests or limits (Kubernetes 1.36, LimitRanger, mutation)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from admission.limits.policy import LimitPolicy
from admission.objects import Container, Pod
from admission.patch import Operation, add_members
from admission.quantity import Quantity

ANNOTATION: Final = "kubernetes.io/limit-ranger"


@dataclass
class ContainerDefaults:
    """One container of the pod and what it is given: `label` is how the annotation names it."""

    label: str
    path: str
    container: Container
    requests: dict[str, Quantity] = field(default_factory=dict)
    limits: dict[str, Quantity] = field(default_factory=dict)

    def fill(self, policy: LimitPolicy) -> list[str]:
        """Take what is still missing from a policy; the parts of the annotation that say what was taken."""
        parts = []
        for side, defaults, own, given in (
            ("request", policy.default_requests, self.container.requests, self.requests),
            ("limit", policy.default_limits, self.container.limits, self.limits),
        ):
            missing = [name for name in defaults if name not in own and name not in given]
            if missing:
                given.update({name: defaults[name] for name in missing})
                parts.append(f"{', '.join(sorted(missing))} {side} for {self.label}")
        return parts

    def operations(self) -> list[Operation]:
        """The JSON Patch that adds what the container is given, and nothing else."""
        resources = self.container.resources
        given = {
            side: {name: str(amount) for name, amount in amounts.items()}
            for side, amounts in (("limits", self.limits), ("requests", self.requests))
            if amounts
        }
        if resources is None:
            return add_members(f"{self.path}/resources", None, given)
        return [
            operation
            for side, amounts in given.items()
            for operation in add_members(f"{self.path}/resources/{side}", getattr(resources, side), amounts)
        ]


@dataclass(frozen=True)
class Injection:
    """What the LimitRanges of a namespace give a pod.

    `annotation` describes the last LimitRange that gave anything; `sources` names every one that did, with the labels
    of the containers that got something from it.
    """

    containers: Sequence[ContainerDefaults]
    annotation: str | None
    sources: Sequence[tuple[str, Sequence[str]]]

    def operations(self) -> list[Operation]:
        """The JSON Patch for the containers' resources."""
        return [operation for target in self.containers for operation in target.operations()]


def inject(pod: Pod, policies: Iterable[LimitPolicy]) -> Injection:
    """Fill what containers and init containers do not state, from each policy in turn; nothing stated is touched."""
    targets = _targets(pod)
    annotation = None
    sources = []
    for policy in policies:
        if not policy.sets_defaults():
            continue
        parts, labels = [], []
        for target in targets:
            taken = target.fill(policy)
            if taken:
                parts += taken
                labels.append(target.label)
        if parts:
            annotation = f"LimitRanger plugin set: {'; '.join(parts)}"
            sources.append((policy.name, labels))
    return Injection(targets, annotation, sources)


def _targets(pod: Pod) -> list[ContainerDefaults]:
    return [
        ContainerDefaults(f"{kind} {container.name}", f"/spec/{where}/{index}", container)
        for kind, where, containers in (
            ("container", "containers", pod.containers),
            ("init container", "initContainers", pod.init_containers),
        )
        for index, container in enumerate(containers)
    ]
