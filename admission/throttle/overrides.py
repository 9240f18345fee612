"""Thresholds that hold for a time: which overrides are active, and what limit they make.

Source: kube-throttler 1.7.4, temporary threshold overrides, with the merge of its README: what no active override
names keeps the value of `spec.threshold`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from admission.instants import InstantError, parse_instant
from admission.quantity import Quantity
from admission.throttle.amounts import Amount, read_amount
from admission.throttle.objects import ThresholdOverride

MAX_MESSAGES: Final = 100
"""How many overrides a status says something about: a throttle with thousands of bad ones must still be writable."""
MAX_MESSAGE: Final = 1024
"""How long one of these texts may be, in characters."""
UNBOUNDED: Final = parse_instant("0001-01-01T00:00:00Z")
"""An end that is none."""


class Override(NamedTuple):
    """An override with its times read; `problem` says which of them cannot be, and then it is never active.

    `begin` and `end` are None where they are not given or not read.
    """

    begin: int | None
    end: int | None
    threshold: Amount
    problem: str | None = None

    def is_active(self, now: int) -> bool:
        """Whether it holds at an instant; both ends are part of it."""
        if self.problem is not None or (self.begin is not None and now < self.begin):
            return False
        return self.end is None or now <= self.end or self.end == UNBOUNDED


def read_override(index: int, written: ThresholdOverride) -> Override:
    """An override as it is written. Where `begin` is bad, `end` is not looked at."""
    threshold = read_amount(written.threshold)
    begin = None
    try:
        begin = _read(written.begin)
    except InstantError as error:
        return Override(None, None, threshold, _problem(index, "Begin", error))
    try:
        return Override(begin, _read(written.end), threshold)
    except InstantError as error:
        return Override(begin, None, threshold, _problem(index, "End", error))


def _read(text: str | None) -> int | None:
    return parse_instant(text) if text else None


def _problem(index: int, what: str, error: InstantError) -> str:
    text = f"index {index}: Failed to parse {what}: {error}"
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 1]}…"


class Thresholds:
    """The limit of a throttle over time: `base`, and the overrides that are active, merged onto it."""

    __slots__ = ("_changes", "_instants", "_latest", "base", "messages", "overrides")

    def __init__(self, base: Amount, overrides: Iterable[Override] = ()) -> None:
        self.base = base
        self.overrides = tuple(overrides)
        self.messages = _messages([entry.problem for entry in self.overrides if entry.problem is not None])
        self._instants = sorted({instant for entry in self.overrides for instant in _instants(entry)})
        self._changes = sorted({change for entry in self.overrides for change in _changes(entry)})
        self._latest: tuple[int, Amount] | None = None

    def at(self, now: int) -> Amount:
        """The limit at an instant."""
        if not self.overrides:
            return self.base
        # Between two changes the limit is the same: it is merged once, however often it is asked for.
        stretch = bisect_right(self._changes, now)
        latest = self._latest
        if latest is None or latest[0] != stretch:
            active = (entry.threshold for entry in self.overrides if entry.is_active(now))
            latest = self._latest = (stretch, _merge(self.base, active))
        return latest[1]

    def wake_up(self, now: int) -> int | None:
        """Nanoseconds from now to the next begin or end, None where none is to come."""
        following = bisect_right(self._instants, now)
        return self._instants[following] - now if following < len(self._instants) else None

    def ends_now(self, now: int) -> bool:
        """Whether an override holds at this instant for the last time: then there is no begin or end to wait for."""
        return any(entry.end == now and entry.is_active(now) for entry in self.overrides)


def _instants(entry: Override) -> Iterator[int]:
    return (instant for instant in (entry.begin, entry.end) if instant is not None)


def _changes(entry: Override) -> Iterator[int]:
    """From when on it may make a difference that time has passed."""
    if entry.problem is None:
        if entry.begin is not None:
            yield entry.begin
        if entry.end is not None:
            yield entry.end + 1


def _merge(base: Amount, active: Iterable[Amount]) -> Amount:
    """The first active override that names a resource decides it; the number of pods is one thing."""
    pods: int | None = None
    requests: dict[str, Quantity] = {}
    for threshold in active:
        if pods is None:
            pods = threshold.pods
        for name, amount in threshold.requests.items():
            requests.setdefault(name, amount)
    return Amount(base.pods if pods is None else pods, {**base.requests, **requests})


def _messages(problems: Sequence[str]) -> tuple[str, ...]:
    if len(problems) <= MAX_MESSAGES:
        return tuple(problems)
    return (*problems[: MAX_MESSAGES - 1], f"and {len(problems) - MAX_MESSAGES + 1} more")
