"""The account of one quota: what its objects use, and what is reserved for objects on their way in.

Pure rules; see `admission.ledger` for the ones that hold for every ledger. An account is a value: each change makes a
new one. `counted` is what the last recount of live objects found. A reservation stands for one admission whose object
the recount has not seen yet: what the object will use (`amounts`), and what of that is counted already (`covered`). So
what is used in all is `counted` plus what the reservations add to it, never less than nothing each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from admission.quantity import ZERO, Quantity
from admission.resource_lists import EMPTY, ResourceList, add_into, growth, max_into


class Reservation(NamedTuple):
    """What one object will use of a quota.

    `kind` is as in `count/<kind>`. `version` is the resourceVersion of the object that was judged, empty at creation.
    `token` is the request's own, so that nobody takes back, or grows old with, what another request made.
    """

    kind: str
    name: str
    version: str
    amounts: ResourceList
    covered: ResourceList = EMPTY
    token: str = ""

    def held(self) -> ResourceList:
        """What the account holds for the object: per name, the larger of what it will use and what is counted."""
        total = dict(self.amounts)
        max_into(total, self.covered)
        return total

    def added(self) -> ResourceList:
        """What it adds to what is counted."""
        return growth(self.amounts, self.covered)

    def over(self, standing: Reservation) -> Reservation:
        """This one, made while another of the same object stands.

        The larger of both is kept per name, because nobody knows yet which of the two requests will be stored, and the
        later of the versions, as both have come to their end only when a still later one is seen. What is counted for
        the object is what the standing one says: this one only knows what the object used before it.
        """
        amounts = dict(self.amounts)
        max_into(amounts, standing.amounts)
        unknown = {name: amount for name, amount in self.covered.items() if name not in standing.amounts}
        version = max(self.version, standing.version, key=_order)
        return self._replace(version=version, amounts=amounts, covered={**unknown, **standing.covered})


class Seen(NamedTuple):
    """An object as a recount found it; `use` is its share in the quota, and a part of what is counted."""

    version: str
    use: ResourceList


@dataclass(frozen=True)
class Account:
    """The state of one quota; `revisions` says, per kind, up to which revision of the store `counted` is known."""

    counted: ResourceList = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    revisions: Mapping[str, int] = field(default_factory=dict)

    def used(self) -> dict[str, Quantity]:
        """What is used in all, of the names that are counted."""
        total = dict(self.counted)
        for reservation in self.reservations.values():
            add_into(total, {name: amount for name, amount in reservation.added().items() if name in total})
        return {name: amount.stored() for name, amount in total.items()}

    def reserve(self, uid: str, reservation: Reservation) -> Account:
        """With a reservation; one that stands for the same object is replaced, never added to."""
        standing = self.reservations.get(uid)
        made = reservation if standing is None else reservation.over(standing)
        return replace(self, reservations={**self.reservations, uid: made})

    def roll_back(self, uid: str, written: Reservation, before: Reservation | None) -> Account:
        """Without a reservation that was made for a request that is refused after all.

        It stays where another request for the same object has replaced it meanwhile. What a recount has found out about
        the object since then holds for what it replaced, too.
        """
        standing = self.reservations.get(uid)
        if standing is None or standing.token != written.token:
            return self
        others = {key: found for key, found in self.reservations.items() if key != uid}
        if before is not None:
            others[uid] = before._replace(covered=standing.covered)
        return replace(self, reservations=others)

    def recount(
        self,
        counted: ResourceList,
        seen: Mapping[str, Seen],
        revisions: Mapping[str, int],
        ended: Collection[str] = (),
    ) -> Account:
        """After a recount: `seen` are the objects that were found and have a reservation.

        `ended` are UIDs whose admission is known to have come to its end: objects that were deleted, and requests that
        are too old to be stored any more.
        """
        kept = {}
        for uid, reservation in self.reservations.items():
            found = seen.get(uid)
            if uid in ended or (found is not None and is_settled(reservation, found)):
                continue
            kept[uid] = reservation._replace(covered=found.use if found else EMPTY)
        return Account(dict(counted), kept, dict(revisions))


def _order(version: str) -> tuple[int, str]:
    """The order of resourceVersions; none at all is the first."""
    return (int(version) if version.isdecimal() else 0, version)


def is_settled(reservation: Reservation, seen: Seen) -> bool:
    """Whether the object as it was seen shows that the admission has come to its end.

    A creation has, once the object is there. An update was judged on one version of the object and can only be stored
    on that: as soon as there is a later one, it was either stored, or has failed, or is being judged anew.
    """
    if not reservation.version:
        return True
    if reservation.version.isdecimal() and seen.version.isdecimal():
        return int(seen.version) > int(reservation.version)
    return all(seen.use.get(name, ZERO) >= amount for name, amount in reservation.amounts.items())
