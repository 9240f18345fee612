"""The check of one pod against throttles: does it fit, and if not, what is short and by how much.

Source: kube-throttler 1.7.4, `CheckThrottledFor`, with one rule for both kinds and limits of the moment: what is
reached is judged by what is used now, not by the flags of a status that may be stale.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from admission.quantity import ZERO, Quantity
from admission.throttle.amounts import Amount, demands
from admission.throttle.policy import ThrottleKey, ThrottlePolicy


class Outcome(StrEnum):
    """What a throttle says to a pod. Of those that keep it out the first that applies is said, in this order."""

    EXCEEDS = "pod-requests-exceeds-threshold"
    ACTIVE = "active"
    INSUFFICIENT = "insufficient"
    NOT_THROTTLED = "not-throttled"
    NOT_AFFECTED = "not-affected"


class Shortage(NamedTuple):
    """A resource (`pod` is the number of pods) of which a pod asks more than there is.

    `by` is what has to become free or, where the pod alone exceeds the limit, by how much it does.
    """

    resource: str
    asked: Quantity
    limit: Quantity
    used: Quantity
    by: Quantity


class Verdict(NamedTuple):
    """What one throttle says to a pod; `shortages` is empty where it lets the pod pass."""

    key: ThrottleKey
    outcome: Outcome
    shortages: tuple[Shortage, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether the throttle lets the pod pass."""
        return self.outcome in (Outcome.NOT_THROTTLED, Outcome.NOT_AFFECTED)


class ThrottleState(NamedTuple):
    """A throttle and what is used of it: what is counted, and what is reserved beside that."""

    policy: ThrottlePolicy
    used: Amount


def check(amount: Amount, states: Iterable[ThrottleState], now: int) -> list[Verdict]:
    """What each of the throttles that affect a pod says to it. It may run if all of them let it pass."""
    return [judge(amount, state.policy.key, state.policy.limit(now), state.used) for state in states]


def judge(amount: Amount, key: ThrottleKey, limit: Amount, used: Amount) -> Verdict:
    """What one throttle says to a pod of this amount, given its limit and what others use of it.

    A pod may fill a limit exactly; a limit that is filled takes no pod that asks for more of it.
    """
    too_large: list[Shortage] = []
    short: list[Shortage] = []
    full = False
    for resource, asked, most, taken in demands(amount, limit, used):
        before = ZERO if taken is None else taken
        if asked.nano > most.nano:
            too_large.append(Shortage(resource, asked, most, before, asked - most))
        full = full or (taken is not None and taken.nano >= most.nano)
        if before.nano + asked.nano > most.nano:
            short.append(Shortage(resource, asked, most, before, before + asked - most))
    if too_large:
        return Verdict(key, Outcome.EXCEEDS, tuple(too_large))
    if full or short:
        return Verdict(key, Outcome.ACTIVE if full else Outcome.INSUFFICIENT, tuple(short))
    return Verdict(key, Outcome.NOT_THROTTLED)
