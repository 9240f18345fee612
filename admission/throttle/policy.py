"""A throttle made ready to judge by."""

from __future__ import annotations

from typing import NamedTuple

from admission.selectors import Labels, SelectorError
from admission.throttle.amounts import Amount, read_amount
from admission.throttle.objects import ACTIONS, AnyThrottle, ClusterThrottle, ThrottleSpec
from admission.throttle.overrides import Thresholds, read_override
from admission.throttle.terms import Term, matches_any, terms_of


class ThrottleKey(NamedTuple):
    """Which throttle: the namespace of a ClusterThrottle is empty. Sorted, ClusterThrottles come first."""

    namespace: str
    name: str

    @property
    def is_cluster_wide(self) -> bool:
        """Whether it is a ClusterThrottle."""
        return not self.namespace

    @property
    def kind(self) -> str:
        """`throttle` or `clusterthrottle`."""
        return "throttle" if self.namespace else "clusterthrottle"

    def __str__(self) -> str:
        """`(default,t1)`, `(ct1)`: as kube-throttler's README names throttles in reasons."""
        return f"({','.join(filter(None, self))})"


class ThrottlePolicy:
    """What a throttle limits, for whom, and what is done with a pod that does not fit.

    `throttler` is the name of the throttler that it belongs to, `action` one of ACTIONS, None where the configuration
    decides.
    """

    __slots__ = ("action", "key", "terms", "thresholds", "throttler")

    def __init__(
        self,
        key: ThrottleKey,
        thresholds: Thresholds,
        terms: tuple[Term, ...],
        *,
        throttler: str = "",
        action: str | None = None,
    ) -> None:
        self.key = key
        self.thresholds = thresholds
        self.terms = terms
        self.throttler = throttler
        self.action = action

    def __repr__(self) -> str:
        return f"ThrottlePolicy({self.key.kind}{self.key})"

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels | None) -> bool:
        """Whether a pod is affected; raises SelectorError. `namespace_labels` is None where they are not known."""
        if not self.key.is_cluster_wide:
            return namespace == self.key.namespace and matches_any(self.terms, labels, {})
        if namespace_labels is None:
            raise SelectorError(f'the labels of namespace "{namespace}" are not known')
        return matches_any(self.terms, labels, namespace_labels)

    def limit(self, now: int) -> Amount:
        """The limit in force at an instant."""
        return self.thresholds.at(now)


def compile_throttle(throttle: AnyThrottle) -> ThrottlePolicy:
    """The policy of a stored throttle. An action that is not known is none (see `lint`)."""
    spec = throttle.spec or ThrottleSpec()
    overrides = [read_override(index, entry) for index, entry in enumerate(spec.temporary_threshold_overrides or ())]
    return ThrottlePolicy(
        key_of(throttle),
        Thresholds(read_amount(spec.threshold), overrides),
        terms_of(throttle),
        throttler=spec.throttler_name,
        action=spec.enforcement_action if spec.enforcement_action in ACTIONS else None,
    )


def key_of(throttle: AnyThrottle) -> ThrottleKey:
    """The key of a throttle; one without a namespace that needs one is in `default`."""
    meta = throttle.metadata
    namespace = "" if isinstance(throttle, ClusterThrottle) else meta.namespace or "default"
    return ThrottleKey(namespace, meta.name or "")
