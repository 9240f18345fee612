"""Counting anew what a quota holds: pure, from the objects as they are known."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from admission.ledger import share, use_of
from admission.ledger.account import Account, Reservation, Seen
from admission.quantity import ZERO, Quantity
from admission.quota.names import DeviceClasses, kinds_named
from admission.quota.observed import Observed
from admission.quota.policy import QuotaPolicy
from admission.resource_lists import ResourceList, add_into


class LiveObject(NamedTuple):
    """An object as the store has it."""

    uid: str
    version: str
    observed: Observed


@dataclass(frozen=True)
class Count:
    """The result: what is counted, per name of `hard` that some known kind answers to, and those with a reservation."""

    counted: dict[str, Quantity]
    seen: dict[str, Seen]
    counts_until: float | None


def kinds_of(hard: Iterable[str], devices: DeviceClasses) -> set[str]:
    """The kinds whose objects a quota with these names counts."""
    return {kind for name in hard for kind in kinds_named(name, devices)}


def count(
    policy: QuotaPolicy,
    objects: Iterable[LiveObject],
    countable: Collection[str],
    reserved: Collection[str],
    now: float,
) -> Count:
    """Sum up what the objects use of a quota.

    `countable` are the names of `hard` whose kinds are known, `reserved` the UIDs that have a reservation.
    `counts_until` of the result is when the first of the objects stops counting by itself (seconds since the epoch).
    """
    total = dict.fromkeys((name for name in policy.hard if name in countable), ZERO)
    seen, until = {}, None
    for found in objects:
        use = share(policy, use_of(found.observed, now))
        add_into(total, {name: amount for name, amount in use.items() if name in total})
        if found.uid in reserved:
            seen[found.uid] = Seen(found.version, use)
        ends = found.observed.counts_until
        if ends is not None and ends >= now and (until is None or ends < until):
            until = ends
    return Count({name: amount.stored() for name, amount in total.items()}, seen, until)


def equal(left: ResourceList, right: ResourceList) -> bool:
    """Whether both have the same names with the same numbers, however they are printed."""
    return left.keys() == right.keys() and all(left[name] == right[name] for name in left)


def difference(before: ResourceList, after: ResourceList) -> dict[str, str]:
    """Name -> `before -> after`, of those that differ."""
    return {
        name: f"{before.get(name, '-')} -> {after.get(name, '-')}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }


def same_account(before: Account | None, after: Account) -> bool:
    """Whether a recount has changed nothing that is worth writing."""
    return (
        before is not None
        and equal(before.counted, after.counted)
        and before.reservations.keys() == after.reservations.keys()
        and all(equal(before.reservations[uid].covered, found.covered) for uid, found in after.reservations.items())
    )


def has_ended(reservation: Reservation, found: tuple[str, str] | None, uid: str) -> bool:
    """Whether an admission is over whose object was not seen for longer than a request can last.

    `found` is what a direct read of the name has given: UID and version of the object, None where there is none.
    """
    if found is None or found[0] != uid:
        return True
    return bool(reservation.version) and found[1] == reservation.version
