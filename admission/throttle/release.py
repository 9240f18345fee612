"""Which held pods are released now.

By priority, then by how long they wait: each that fits in all of its throttles goes, and takes its room before the
next is looked at, so a smaller pod may pass a larger one. A pod that waits longer than `fair_after` is not passed: its
room is kept for it, and what comes after it must fit beside that. One that is larger than a limit keeps no room, since
it could wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from admission.instants import parse_instant
from admission.objects import NO_META, Pod
from admission.throttle.amounts import Amount, amount_of
from admission.throttle.policy import ThrottleKey

_PODS: Final = "*"
"""Stands for the number of pods among the names of resources, none of which may be this."""

_Needs = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A pod that nothing but our gate keeps from its scheduler; it waits `since` an instant.

    `key` names it, and decides between pods of the same priority and age; `throttles` are those that hold it. `order`
    says who is looked at first, `needs` what it asks for: whole pods, and 10^-9 of each resource.
    """

    key: str
    priority: int
    since: int
    amount: Amount
    throttles: Sequence[ThrottleKey]
    order: tuple[int, int, str] = field(init=False, repr=False)
    needs: _Needs = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Made once, when the pod is seen, and not in every round.
        object.__setattr__(self, "order", (-self.priority, self.since, self.key))
        object.__setattr__(self, "needs", _needs(self.amount))


def _needs(amount: Amount) -> _Needs:
    needs = tuple((name, request.nano) for name, request in amount.requests.items() if request.nano > 0)
    return (*needs, (_PODS, amount.pods)) if amount.pods else needs


class Room(NamedTuple):
    """The limit of a throttle, and what is used of it, reservations included."""

    limit: Amount
    used: Amount


class Round(NamedTuple):
    """What is decided: who is released, in order, and which pods would fit if they might pass another one.

    `behind` says which: key of the pod -> key of the one that it may not pass.
    """

    released: list[HeldPod]
    behind: dict[str, str]


def held_pod(pod: Pod, throttles: Sequence[ThrottleKey]) -> HeldPod:
    """A pod as it waits; its age counts from its creation."""
    meta = pod.metadata or NO_META
    priority = (pod.spec and pod.spec.priority) or 0
    since = parse_instant(meta.creation_timestamp) if meta.creation_timestamp else 0
    return HeldPod(meta.uid or "", priority, since, amount_of(pod), throttles)


def release(
    held: Iterable[HeldPod],
    rooms: Mapping[ThrottleKey, Room],
    *,
    now: int,
    fair_after: int,
    at_most: int | None = None,
) -> Round:
    """Decide, and release `at_most` so many. Times are in nanoseconds; a throttle without a room is gone."""
    spaces = {key: _Space(room) for key, room in rooms.items()}
    decided = Round([], {})
    something_is_kept = False
    for pod in sorted(held, key=attrgetter("order")):
        if at_most is not None and len(decided.released) >= at_most:
            break
        mine = [spaces[key] for key in pod.throttles if key in spaces]
        needs = pod.needs
        lacking = [(space, name) for space in mine if (name := _lacking(needs, space.left)) is not None]
        if not lacking:
            for space in mine:
                space.take(needs)
            decided.released.append(pod)
            continue
        if something_is_kept and all(space.would_fit(needs) for space, _ in lacking):
            space, name = lacking[0]
            decided.behind[pod.key] = space.keepers[name]
        if now - pod.since > fair_after and not any(_lacking(needs, space.limit) for space in mine):
            for space in mine:
                space.keep(needs, pod.key)
            something_is_kept = True
    return decided


def _lacking(needs: _Needs, room: Mapping[str, int]) -> str | None:
    """The first of what is asked for that there is too little of; what is not limited is never lacking."""
    for name, need in needs:
        if name in room and need > room[name]:
            return name
    return None


class _Space:
    """A throttle as the round goes on: its limit, what is left beside what is used and kept, and for whom it is kept.

    `keepers` has, by resource, the first pod for which some is kept.
    """

    __slots__ = ("_kept", "keepers", "left", "limit")

    def __init__(self, room: Room) -> None:
        self.limit = {name: most.nano for name, most in room.limit.requests.items()}
        self.left = dict(self.limit)
        for name, amount in room.used.requests.items():
            if name in self.left:
                self.left[name] -= amount.nano
        if room.limit.pods is not None:
            self.limit[_PODS] = room.limit.pods
            self.left[_PODS] = room.limit.pods - (room.used.pods or 0)
        self._kept = dict.fromkeys(self.left, 0)
        self.keepers: dict[str, str] = {}

    def take(self, needs: _Needs) -> None:
        """Use the room."""
        for name, need in needs:
            if name in self.left:
                self.left[name] -= need

    def keep(self, needs: _Needs, key: str) -> None:
        """Keep the room, there or not, for a pod that waits too long."""
        for name, need in needs:
            if name in self.left:
                self.left[name] -= need
                self._kept[name] += need
                self.keepers.setdefault(name, key)

    def would_fit(self, needs: _Needs) -> bool:
        """Whether there is room if nothing were kept."""
        return all(need <= self.left[name] + self._kept[name] for name, need in needs if name in self.left)
