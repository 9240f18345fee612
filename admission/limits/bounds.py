"""Minimum, maximum and limit-to-request ratio of LimitRanges (Kubernetes 1.36, LimitRanger, validation).

All bounds of the first LimitRange that is broken are reported together; a LimitRange after it is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from admission.errors import Denied
from admission.limits.defaults import ANNOTATION
from admission.limits.policy import CONTAINER, POD, VOLUME_CLAIM, BoundSet, LimitPolicy
from admission.objects import Pod, VolumeClaim
from admission.pods import limit_range_totals
from admission.quantity import ZERO, Quantity, comparable, value_fits_milli
from admission.resource_lists import EMPTY, ResourceList


class Subject(NamedTuple):
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
                *_each(MINIMUM, bounds.minimum, bounds.kind, subject),
                *_each(CLAIM_MAXIMUM, bounds.maximum, bounds.kind, subject),
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
    for bound, amounts in ((MINIMUM, bounds.minimum), (MAXIMUM, bounds.maximum), (RATIO, bounds.ratio)):
        if amounts:
            yield from _each(bound, amounts, bounds.kind, subject)


_Broken = tuple[str, Quantity | None]
"""The end of the text, and the amount at fault."""
_Check = Callable[[Quantity, Quantity | None, Quantity | None], "_Broken | None"]
"""A bound against a request and a limit, each None where it is not stated."""


class _Bound(NamedTuple):
    """A way to break a bound, and how the text about it begins."""

    check: _Check
    beginning: str


def _each(bound: _Bound, bounds: Iterable[tuple[str, Quantity]], kind: str, subject: Subject) -> Iterator[Violation]:
    for name, amount in bounds:
        broken = bound.check(amount, subject.requests.get(name), subject.limits.get(name))
        if broken:
            ending, fault = broken
            yield Violation(f"{bound.beginning.format(name, kind)} is {amount}{ending}", subject.where, name, fault)


def _numbers(bound: Quantity, request: Quantity | None, limit: Quantity | None) -> tuple[int, int, int]:
    """Request, limit and bound as the numbers that are compared; what is not stated counts as 0."""
    return comparable(ZERO if request is None else request, ZERO if limit is None else limit, bound)


def _minimum(bound: Quantity, request: Quantity | None, limit: Quantity | None) -> _Broken | None:
    if request is None:
        return ".  No request is specified", None
    request_number, limit_number, least = _numbers(bound, request, limit)
    if request_number < least:
        return f", but request is {request}", request
    if limit is not None and limit_number < least:
        return f", but limit is {limit}", limit
    return None


def _maximum(bound: Quantity, request: Quantity | None, limit: Quantity | None) -> _Broken | None:
    if limit is None:
        return ".  No limit is specified", None
    request_number, limit_number, most = _numbers(bound, request, limit)
    if limit_number > most:
        return f", but limit is {limit}", limit
    if request is not None and request_number > most:
        return f", but request is {request}", request
    return None


def _claim_maximum(bound: Quantity, request: Quantity | None, limit: Quantity | None) -> _Broken | None:
    if request is None:
        return ".  No request is specified", None
    request_number, _, most = _numbers(bound, request, limit)
    return (f", but request is {request}", request) if request_number > most else None


def _ratio(bound: Quantity, request: Quantity | None, limit: Quantity | None) -> _Broken | None:
    request_number, limit_number, _ = _numbers(bound, request, limit)
    if not request_number:
        return ", but no request is specified or request is 0", request
    if not limit_number:
        return ", but no limit is specified or limit is 0", limit
    # Doubles, not exact numbers: the original decides by them, rounding included.
    ratio = float(limit_number) / float(request_number)
    scaled, most = (ratio * 1000, bound.milli_value()) if value_fits_milli(bound) else (ratio, bound.value())
    return (f", but provided ratio is {ratio:f}", limit) if scaled > float(most) else None


MINIMUM: Final = _Bound(_minimum, "minimum {} usage per {}")
MAXIMUM: Final = _Bound(_maximum, "maximum {} usage per {}")
CLAIM_MAXIMUM: Final = _Bound(_claim_maximum, "maximum {} usage per {}")
RATIO: Final = _Bound(_ratio, "{} max limit to request ratio per {}")


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
