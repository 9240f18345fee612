"""Minimum, maximum and limit-to-request ratio of LimitRanges (Kubernetes 1.36, LimitRanger, validation).

All bounds of the first LimitRange that is broken are reported together; a LimitRange after it is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from admission.errors import Denied
from admission.limits.defaults import ANNOTATION
from admission.limits.policy import CONTAINER, POD, VOLUME_CLAIM, BoundSet, LimitPolicy
from admission.objects import Pod, VolumeClaim
from admission.pods import limit_range_totals
from admission.quantity import ZERO, Quantity, comparable, value_fits_milli
from admission.resource_lists import EMPTY, ResourceList


@dataclass(frozen=True)
class Subject:
    """Something that bounds apply to: one container, or the pod or claim as a whole. `where` names it for people."""

    where: str
    requests: ResourceList
    limits: ResourceList


class Violation(NamedTuple):
    """A broken bound: the built-in text, whom it concerns, and the amount that broke it (None where none is stated)."""

    text: str
    where: str
    resource: str
    amount: Quantity | None


def check_pod(pod: Pod, policies: Sequence[LimitPolicy]) -> None:
    """Raise Denied with the texts of the first LimitRange that the pod breaks."""
    subjects: dict[str, list[Subject]] = {}
    for policy in policies:
        violations = [
            violation
            for bounds in policy.bounds
            if bounds.kind in (CONTAINER, POD)
            for subject in _pod_subjects(pod, bounds.kind, subjects)
            for violation in _violations(bounds, subject)
        ]
        if violations:
            defaulted = _defaulted_amounts(pod, policies)
            raise Denied(
                aggregate([violation.text for violation in violations]),
                reason="limit-range",
                hints=_hints(violations, policy, defaulted),
            )


def check_volume_claim(claim: VolumeClaim, policies: Iterable[LimitPolicy]) -> None:
    """Raise Denied with the texts of the first LimitRange that the claim breaks; limits and ratios do not matter."""
    resources = claim.spec.resources if claim.spec else None
    subject = Subject("the claim", (resources and resources.requests) or EMPTY, EMPTY)
    for policy in policies:
        violations = [
            violation
            for bounds in policy.bounds
            if bounds.kind == VOLUME_CLAIM
            for violation in (
                *_each(_minimum, bounds.minimum, bounds.kind, subject),
                *_each(_claim_maximum, bounds.maximum, bounds.kind, subject),
            )
        ]
        if violations:
            raise Denied(
                aggregate([violation.text for violation in violations]),
                reason="limit-range",
                hints=_hints(violations, policy, {}),
            )


def aggregate(texts: Iterable[str]) -> str:
    """Several error texts as one: each once, in brackets where more than one is left."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _pod_subjects(pod: Pod, kind: str, known: dict[str, list[Subject]]) -> list[Subject]:
    if kind not in known:
        if kind == POD:
            known[kind] = [Subject("the pod", *limit_range_totals(pod))]
        else:
            known[kind] = [Subject(f'container "{c.name}"', c.requests, c.limits) for c in pod.containers] + [
                Subject(f'init container "{c.name}"', c.requests, c.limits) for c in pod.init_containers
            ]
    return known[kind]


def _violations(bounds: BoundSet, subject: Subject) -> Iterator[Violation]:
    yield from _each(_minimum, bounds.minimum, bounds.kind, subject)
    yield from _each(_maximum, bounds.maximum, bounds.kind, subject)
    yield from _each(_ratio, bounds.ratio, bounds.kind, subject)


class _Case(NamedTuple):
    """One bound against one subject."""

    name: str
    kind: str
    bound: Quantity
    request: Quantity | None
    limit: Quantity | None

    def numbers(self) -> list[int]:
        """Request, limit and bound as the numbers that are compared; what is absent counts as 0."""
        return comparable(
            ZERO if self.request is None else self.request, ZERO if self.limit is None else self.limit, self.bound
        )


_Broken = tuple[str, Quantity | None]
"""The text, and the amount at fault."""
_Check = Callable[[_Case], "_Broken | None"]


def _each(check: _Check, bounds: Iterable[tuple[str, Quantity]], kind: str, subject: Subject) -> Iterator[Violation]:
    for name, bound in bounds:
        broken = check(_Case(name, kind, bound, subject.requests.get(name), subject.limits.get(name)))
        if broken:
            yield Violation(broken[0], subject.where, name, broken[1])


def _minimum(case: _Case) -> _Broken | None:
    if case.request is None:
        return _bound("minimum", case, ".  No request is specified", None)
    request, limit, bound = case.numbers()
    if request < bound:
        return _bound("minimum", case, ", but request is", case.request)
    if case.limit is not None and limit < bound:
        return _bound("minimum", case, ", but limit is", case.limit)
    return None


def _maximum(case: _Case) -> _Broken | None:
    if case.limit is None:
        return _bound("maximum", case, ".  No limit is specified", None)
    request, limit, bound = case.numbers()
    if limit > bound:
        return _bound("maximum", case, ", but limit is", case.limit)
    if case.request is not None and request > bound:
        return _bound("maximum", case, ", but request is", case.request)
    return None


def _claim_maximum(case: _Case) -> _Broken | None:
    if case.request is None:
        return _bound("maximum", case, ".  No request is specified", None)
    request, _, bound = case.numbers()
    return _bound("maximum", case, ", but request is", case.request) if request > bound else None


def _bound(which: str, case: _Case, ending: str, amount: Quantity | None) -> _Broken:
    found = "" if amount is None else f" {amount}"
    return f"{which} {case.name} usage per {case.kind} is {case.bound}{ending}{found}", amount


def _ratio(case: _Case) -> _Broken | None:
    request, limit, _ = case.numbers()
    if not request:
        return _ratio_broken(case, "no request is specified or request is 0")
    if not limit:
        return _ratio_broken(case, "no limit is specified or limit is 0")
    # Doubles, not exact numbers: the original decides by them, rounding included.
    ratio = float(limit) / float(request)
    if value_fits_milli(case.bound):
        exceeded = ratio * 1000 > float(case.bound.milli_value())
    else:
        exceeded = ratio > float(case.bound.value())
    return _ratio_broken(case, f"provided ratio is {ratio:f}") if exceeded else None


def _ratio_broken(case: _Case, ending: str) -> _Broken:
    return f"{case.name} max limit to request ratio per {case.kind} is {case.bound}, but {ending}", case.limit


def _defaulted_amounts(pod: Pod, policies: Iterable[LimitPolicy]) -> dict[tuple[str, Quantity], str]:
    """Which amounts in the pod are likely a LimitRange's own default: (resource, amount) -> name of the LimitRange."""
    annotations = (pod.metadata and pod.metadata.annotations) or {}
    if ANNOTATION not in annotations:
        return {}
    return {
        (name, amount): policy.name
        for policy in policies
        for defaults in (policy.default_requests, policy.default_limits)
        for name, amount in defaults.items()
    }


def _hints(
    violations: Iterable[Violation], policy: LimitPolicy, defaulted: dict[tuple[str, Quantity], str]
) -> Iterator[str]:
    for violation in violations:
        yield f'{violation.where}: {violation.text} (LimitRange "{policy.name}")'
        source = violation.amount and defaulted.get((violation.resource, violation.amount))
        if source:
            yield (
                f'{violation.where}: {violation.resource} {violation.amount} is the default of LimitRange "{source}", '
                f'which LimitRange "{policy.name}" does not allow: their author must change one of them'
            )
