"""Scopes: which objects a quota is about (Kubernetes 1.36, ResourceQuota, `spec.scopes` and `spec.scopeSelector`).

A quota applies to an object only if all of its scopes match. Kinds other than pods and volume claims match none.

The original turns a selector that it cannot evaluate into an error for every request of the namespace. Here the values
are compared as they are written, an unknown operator matches nothing, and `problem` says what is wrong with the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.objects import ResourceQuotaSpec, ScopeRequirement
from admission.quota.observed import Facts, PodFacts, VolumeClaimFacts
from admission.selectors import OPERATORS, values_problem

TERMINATING: Final = "Terminating"
NOT_TERMINATING: Final = "NotTerminating"
BEST_EFFORT: Final = "BestEffort"
NOT_BEST_EFFORT: Final = "NotBestEffort"
PRIORITY_CLASS: Final = "PriorityClass"
CROSS_NAMESPACE_AFFINITY: Final = "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS: Final = "VolumeAttributesClass"

SCOPES_WITH_VALUES: Final = frozenset((PRIORITY_CLASS, VOLUME_ATTRIBUTES_CLASS))
ALL_SCOPES: Final = frozenset(
    (TERMINATING, NOT_TERMINATING, BEST_EFFORT, NOT_BEST_EFFORT, CROSS_NAMESPACE_AFFINITY, *SCOPES_WITH_VALUES)
)
_POD_SCOPES: Final[Mapping[str, Callable[[PodFacts], bool]]] = {
    TERMINATING: lambda pod: pod.terminating,
    NOT_TERMINATING: lambda pod: not pod.terminating,
    BEST_EFFORT: lambda pod: pod.best_effort,
    NOT_BEST_EFFORT: lambda pod: not pod.best_effort,
    CROSS_NAMESPACE_AFFINITY: lambda pod: pod.cross_namespace_affinity,
}


@dataclass(frozen=True)
class Scope:
    """One scope of a quota or of a limited resource. An entry of `spec.scopes` has the operator Exists."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, requirement: ScopeRequirement) -> Scope:
        """The scope of a match expression."""
        return cls(requirement.scope_name, requirement.operator, tuple(requirement.values or ()))

    def __str__(self) -> str:
        return f"{{{self.name} {self.operator} [{' '.join(self.values)}]}}"

    def matches(self, facts: Facts | None) -> bool:
        """Whether an object with these facts is in the scope."""
        if isinstance(facts, PodFacts):
            return self._matches_pod(facts)
        if isinstance(facts, VolumeClaimFacts) and self.name == VOLUME_ATTRIBUTES_CLASS:
            return self._matches_names(facts.attributes_classes)
        return False

    def _matches_pod(self, pod: PodFacts) -> bool:
        if self.name == PRIORITY_CLASS:
            return self._matches_names(frozenset((pod.priority_class,)) if pod.priority_class else frozenset())
        matches = _POD_SCOPES.get(self.name)
        return matches is not None and matches(pod)

    def _matches_names(self, names: frozenset[str]) -> bool:
        if self.operator == "Exists":
            return bool(names)
        if self.operator == "DoesNotExist":
            return not names
        if self.operator == "In":
            return not names.isdisjoint(self.values)
        if self.operator == "NotIn":
            # A claim on its way from one class to another is both in and not in the first.
            return not names or not names.issubset(self.values)
        return False

    def problem(self) -> str | None:
        """What the original would stumble over in this scope; None where it is sound."""
        if self.name not in ALL_SCOPES:
            return f'scope "{self.name}" is unknown and matches nothing'
        if self.name not in SCOPES_WITH_VALUES or self.operator == "Exists":
            return None
        if self.operator not in OPERATORS:
            return f'"{self.operator}" is not a valid scope selector operator: scope {self} matches nothing'
        problem = values_problem(self.operator, self.values)
        return None if problem is None else f"scope {self}: {problem}"


def scopes_of(spec: ResourceQuotaSpec | None) -> tuple[Scope, ...]:
    """All scopes of a quota, `spec.scopes` first."""
    if spec is None:
        return ()
    expressions = (spec.scope_selector and spec.scope_selector.match_expressions) or ()
    return (*(Scope(name) for name in spec.scopes or ()), *(Scope.of(expression) for expression in expressions))


def matching(scopes: Iterable[Scope], facts: Facts | None) -> list[Scope]:
    """The scopes that an object is in."""
    return [scope for scope in scopes if scope.matches(facts)]
