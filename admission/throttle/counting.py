"""Which pods count, and which a throttle may hold.

A pod counts while it may use what it requests: from its release on, until it has finished. It need not be bound, and
it may be older than the throttle or than this program. A pod that is being deleted counts until it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from admission.objects import NO_META, Pod, labels_of
from admission.pods import is_finished
from admission.selectors import Labels
from admission.throttle.amounts import Amount, amount_of, total
from admission.throttle.policy import ThrottlePolicy

GATE_PREFIX: Final = "quota-admission.dev/"
DEFAULT_SCHEDULER: Final = "default-scheduler"


class Throttler(NamedTuple):
    """Whose throttles are ours, and which pods: those of these schedulers, of all where none is named."""

    name: str
    schedulers: frozenset[str] = frozenset()

    @property
    def gate(self) -> str:
        """The scheduling gate by which it holds pods: its own, so that two throttlers can hold the same pod."""
        return GATE_PREFIX + self.name

    def includes(self, pod: Pod) -> bool:
        """Whether the pod is of a scheduler that is throttled."""
        name = (pod.spec and pod.spec.scheduler_name) or DEFAULT_SCHEDULER
        return not self.schedulers or name in self.schedulers

    def holds(self, pod: Pod) -> bool:
        """Whether the pod waits behind our gate."""
        return self.gate in gates_of(pod)

    def alone_holds(self, pod: Pod) -> bool:
        """Whether our gate is all that the pod waits for: only then its release is decided."""
        return gates_of(pod) == [self.gate]

    def counts(self, pod: Pod) -> bool:
        """Whether the pod uses what it requests."""
        return self.includes(pod) and not self.holds(pod) and not is_finished(pod)


def gates_of(pod: Pod) -> list[str]:
    """The names of what holds a pod back from its scheduler."""
    return [gate.name for gate in (pod.spec and pod.spec.scheduling_gates) or ()]


def used_of(
    policy: ThrottlePolicy, pods: Iterable[Pod], namespaces: Mapping[str, Labels], throttler: Throttler
) -> Amount:
    """What pods use of a throttle, summed in their order; `namespaces` are their labels by name.

    Raises SelectorError where it cannot be told which pods it is about.
    """
    return total(amount_of(pod) for pod in pods if throttler.counts(pod) and _affects(policy, pod, namespaces))


def _affects(policy: ThrottlePolicy, pod: Pod, namespaces: Mapping[str, Labels]) -> bool:
    namespace = (pod.metadata or NO_META).namespace or "default"
    return policy.matches(namespace, labels_of(pod.metadata), namespaces.get(namespace))
