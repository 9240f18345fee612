"""Reservations whose object does not come: looked into once they are older than any request can be.

Age is by our own clock, from when this controller first saw the reservation. So no two clocks are compared, and one
that takes over has watched them all along.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from admission.cluster.quotas import StoredQuota
from admission.cluster.transport import ClusterError, Transport
from admission.controller.objects import ObjectCaches, identity_in
from admission.controller.recount import has_ended
from admission.ledger.account import Reservation
from admission.resource_lists import EMPTY

log = logging.getLogger(__name__)

LOOK_AGAIN: Final = 10.0
"""Seconds until one that could not be decided is looked into again."""


class _Key(NamedTuple):
    namespace: str
    quota: str
    uid: str


class _Watched(NamedTuple):
    reservation: Reservation
    due: float


class Expiry:
    """Watches reservations, and says which have come to nothing."""

    def __init__(
        self,
        transport: Transport,
        objects: ObjectCaches,
        after: float,
        expired: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`after` is in seconds; `expired` is told the namespace of an admission that is over."""
        self._transport = transport
        self._objects = objects
        self._after = after
        self._expired = expired
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: dict[_Key, _Watched] = {}
        self._over: dict[_Key, Reservation] = {}

    def quota_changed(self, namespace: str, name: str, was: StoredQuota | None, now: StoredQuota | None) -> None:
        """Take note of the reservations of a quota."""
        before = was.account.reservations if was and was.account else {}
        after = now.account.reservations if now and now.account else {}
        with self._lock:
            for uid in before.keys() - after.keys():
                self._watched.pop(_Key(namespace, name, uid), None)
                self._over.pop(_Key(namespace, name, uid), None)
            for uid, found in after.items():
                self._watch(_Key(namespace, name, uid), found._replace(covered=EMPTY))

    def _watch(self, key: _Key, reservation: Reservation) -> None:
        known = self._watched.get(key)
        if known is None or known.reservation != reservation:  # made anew: its age begins anew
            self._watched[key] = _Watched(reservation, self._clock() + self._after)

    def look(self) -> int:
        """Look into all that are due; how many have come to nothing."""
        ended = 0
        for key, watched in self._due():
            if self._has_ended(key, watched.reservation):
                ended += 1
                log.info("a reservation came to nothing", extra={"namespace": key.namespace, "quota": key.quota})
                with self._lock:
                    self._over[key] = watched.reservation
                self._expired(key.namespace)
        return ended

    def over(self, quota: StoredQuota) -> set[str]:
        """The UIDs of the quota's reservations that have come to nothing, as they stand in it."""
        reservations = quota.account.reservations if quota.account else {}
        with self._lock:
            return {
                uid
                for uid, found in reservations.items()
                if self._over.get(_Key(quota.namespace, quota.name, uid)) == found._replace(covered=EMPTY)
            }

    def _due(self) -> list[tuple[_Key, _Watched]]:
        now = self._clock()
        with self._lock:
            due = [(key, watched) for key, watched in self._watched.items() if watched.due <= now]
            for key, watched in due:
                self._watched[key] = watched._replace(due=now + LOOK_AGAIN)
        return due

    def _has_ended(self, key: _Key, reservation: Reservation) -> bool:
        path = self._objects.path(reservation.kind, key.namespace, reservation.name)
        if path is None:
            return True  # no such kind is served: there is nothing to be counted
        try:
            found = identity_in(self._transport, path)
        except ClusterError as error:
            log.warning(
                "a reservation cannot be looked into", extra={"namespace": key.namespace, "problem": str(error)}
            )
            return False
        if has_ended(reservation, found, key.uid):
            return True
        # It is there after all, so our view of its kind is behind.
        self._objects.relist(reservation.kind)
        return False
