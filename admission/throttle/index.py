"""Finding the throttles of a pod among many.

A throttle is filed under labels that a pod, or its namespace, must have for one of its terms to be met; only those
filed under what is at hand are looked at. Which label of a term that is, is chosen by how few other terms need it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from admission.selectors import EXISTS, IN, Labels, LabelSelector, SelectorError
from admission.throttle.policy import ThrottlePolicy
from admission.throttle.terms import Selection, Term

ON_POD: Final = "pod"
ON_NAMESPACE: Final = "namespace"


class _Place(NamedTuple):
    """A label of a pod or of a namespace; its value is None where any will do."""

    side: str
    label: str
    value: str | None


_Places = tuple[_Place, ...]
"""A requirement on a label: one of these places."""


class Affected(NamedTuple):
    """What there is to say about a pod: the throttles that apply, and those that cannot be evaluated, with why."""

    policies: list[ThrottlePolicy]
    broken: list[tuple[ThrottlePolicy, str]]


class ThrottleIndex:
    """The throttles of one throttler, by name. Ownership is judged first: others' broken throttles do no harm."""

    def __init__(self, policies: Iterable[ThrottlePolicy], throttler: str) -> None:
        by_namespace: dict[str, list[ThrottlePolicy]] = {}
        for policy in sorted((one for one in policies if one.throttler == throttler), key=lambda one: one.key):
            by_namespace.setdefault(policy.key.namespace, []).append(policy)
        self._files = {namespace: _File(listed) for namespace, listed in by_namespace.items()}

    def affecting(self, namespace: str, labels: Labels, namespace_labels: Labels | None) -> Affected:
        """The throttles of a pod, ClusterThrottles first, then by name.

        `namespace_labels` is None where the namespace is not known: no ClusterThrottle can be evaluated then.
        """
        affected = Affected([], [])
        for file, at_hand in ((self._files.get(""), namespace_labels), (self._files.get(namespace), {})):
            for policy in file.candidates(labels, at_hand) if file else ():
                try:
                    if policy.matches(namespace, labels, namespace_labels):
                        affected.policies.append(policy)
                except SelectorError as error:
                    affected.broken.append((policy, str(error)))
        return affected


class _File:
    """The throttles of one namespace, or those that are cluster-wide."""

    def __init__(self, policies: Sequence[ThrottlePolicy]) -> None:
        self.policies = policies
        self._everywhere: set[int] = set()
        self._shelves: dict[str, dict[str, dict[str | None, list[int]]]] = {ON_POD: {}, ON_NAMESPACE: {}}
        needed = [[list(_needed(term)) for term in policy.terms if _can_match(term)] for policy in policies]
        crowd = Counter(place for terms in needed for term in terms for places in term for place in places)
        for number, terms in enumerate(needed):
            for term in terms:
                self._put(number, min(term, key=lambda places: max(crowd[place] for place in places), default=None))

    def _put(self, number: int, places: _Places | None) -> None:
        if places is None:
            self._everywhere.add(number)
        for side, label, value in places or ():
            self._shelves[side].setdefault(label, {}).setdefault(value, []).append(number)

    def candidates(self, labels: Labels, namespace_labels: Labels | None) -> Iterable[ThrottlePolicy]:
        """Those that may be about a pod, in their order: all that are, and few that are not."""
        if namespace_labels is None:
            return self.policies
        found = set(self._everywhere)
        for side, at_hand in ((ON_POD, labels), (ON_NAMESPACE, namespace_labels)):
            shelf = self._shelves[side]
            if not shelf:
                continue
            for label, value in at_hand.items():
                values = shelf.get(label)
                if values is not None:
                    found.update(values.get(value, ()), values.get(None, ()))
        return [self.policies[number] for number in sorted(found)]


def _can_match(term: Term) -> bool:
    return isinstance(term.namespaces, LabelSelector)


def _needed(term: Term) -> Iterator[_Places]:
    """For each requirement that a label must be there: where it is. A term is met only at one place of each."""
    yield from _places(ON_POD, term.pods)
    yield from _places(ON_NAMESPACE, term.namespaces)


def _places(side: str, selector: Selection) -> Iterator[_Places]:
    if isinstance(selector, str):  # every pod comes to it
        return
    for label, value in selector.labels:
        yield (_Place(side, label, value),)
    for requirement in selector.requirements:
        if requirement.operator == EXISTS:
            yield (_Place(side, requirement.key, None),)
        elif requirement.operator == IN:
            yield tuple(_Place(side, requirement.key, value) for value in sorted(requirement.values))
