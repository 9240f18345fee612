"""The status of a throttle: what is used, what is reached, and the limit that this is judged by.

Source: kube-throttler 1.7.4, the reconcile of both controllers; unlike there, `calculatedThreshold` is written from the
first time on even where nothing is limited.
"""

from __future__ import annotations

from admission.instants import InstantError, format_instant, parse_instant
from admission.throttle.amounts import Amount, Flags, reached, read_amount, write_amount
from admission.throttle.objects import CalculatedThreshold, Throttled, ThrottledCounts, ThrottleStatus
from admission.throttle.policy import ThrottlePolicy


def next_status(policy: ThrottlePolicy, used: Amount, now: int, stored: ThrottleStatus | None) -> ThrottleStatus:
    """The status as of an instant. The stored calculated threshold is kept, with its time, where it says the same."""
    calculated = CalculatedThreshold(
        write_amount(policy.limit(now)), format_instant(now), list(policy.thresholds.messages) or None
    )
    before = stored and stored.calculated_threshold
    if before and before.calculated_at and _says(before) == _says(calculated):
        calculated = before
    flags = reached(read_amount(calculated.threshold), used)
    return ThrottleStatus(calculated, _write_flags(flags), write_amount(used))


def differs(one: ThrottleStatus, other: ThrottleStatus) -> bool:
    """Whether two statuses say different things: amounts are compared by value, times by instant, empty is absent."""
    return _content(one) != _content(other)


def read_flags(throttled: Throttled | None) -> Flags:
    """The flags as they are written."""
    counts = throttled.resource_counts if throttled else None
    return Flags(bool(counts and counts.pod), (throttled and throttled.resource_requests) or {})


def _content(status: ThrottleStatus) -> tuple[object, ...]:
    calculated = status.calculated_threshold
    return (
        calculated and (*_says(calculated), _instant(calculated.calculated_at)),
        read_flags(status.throttled),
        read_amount(status.used),
    )


def _says(calculated: CalculatedThreshold) -> tuple[Amount, list[str]]:
    return read_amount(calculated.threshold), calculated.messages or []


def _instant(text: str | None) -> int | str | None:
    try:
        return parse_instant(text) if text else None
    except InstantError:
        return text


def _write_flags(flags: Flags) -> Throttled:
    return Throttled(ThrottledCounts(flags.pods), dict(flags.requests) or None)
