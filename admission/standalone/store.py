"""The standalone store: the policies and the ledger of the pipeline, from files and a state file.

One lock guards the count. It is held while a request is judged, never while a write is waited for: a request is charged
in memory at once, so that the next is judged on top of it, and answered when its row is durable.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from admission.errors import Denied
from admission.ledger import Application, Identity
from admission.limits import LimitPolicy
from admission.objects import ObjectMeta
from admission.quota.check import Charge, LimitedResource
from admission.quota.observe import Surroundings
from admission.quota.observed import Observed
from admission.resource_lists import ResourceList
from admission.standalone.books import NOWHERE, Book
from admission.standalone.state import MemoryState, Pending, Row, State
from admission.standalone.world import World

log = logging.getLogger(__name__)

RECORD_SECONDS: Final = 5.0
"""How long a second attempt to record something may take."""


@dataclass(frozen=True)
class QuotaUsage:
    """A quota as a status would show it: resource names -> printed quantities."""

    hard: dict[str, str]
    used: dict[str, str]


class StandaloneStore:
    """Implements `Policies` and `Ledger`."""

    def __init__(self, world: World, state: State | None = None, limited: Sequence[LimitedResource] = ()) -> None:
        self._world = world
        self._state = state or MemoryState()
        self._limited = tuple(limited)
        self._lock = threading.Lock()
        self._unrecorded: dict[tuple[str, str], Row] = {}
        self._last_failure: str | None = None
        self._books = {name: Book(namespace, world.devices) for name, namespace in world.namespaces.items()}
        for row in self._state.rows():
            self._book(row.identity.namespace).put(row)
        for base in self._state.bases():
            self._book(base.namespace).put_base(base)
        with self._lock:
            settled = self._settle_bases()
            self._recount_locked()
        self._wait_for(settled)

    # -- policies

    def limit_policies(self, namespace: str) -> Sequence[LimitPolicy]:
        """The LimitRanges of one namespace, by name."""
        return self._world.namespaces.get(namespace, NOWHERE).limits

    def adopt(self, world: World) -> None:
        """Put what the files say now in force, and recount."""
        with self._lock:
            self._world = world
            for name in {*self._books, *world.namespaces}:
                self._book(name).adopt(world.namespaces.get(name, NOWHERE), world.devices)
            settled = self._settle_bases()
            self._recount_locked()
        self._wait_for(settled)

    # -- ledger

    def surroundings(self, namespace: str) -> Surroundings:
        """What decides an object's usage beside the object itself."""

        def paid_by_pod(uid: str, claim: ObjectMeta) -> ResourceList:
            with self._lock:
                return self._book(namespace).paid_by_pod(uid, claim, time.time())

        return Surroundings(self._world.devices, paid_by_pod)

    def reserve(self, application: Application) -> Sequence[Charge]:
        """Judge, charge and record; raises Denied. What is returned survives a crash."""
        namespace = application.identity.namespace
        with self._lock:
            book = self._book(namespace)
            charges, entry = book.reserve(application, self._limited)
            if entry is None:
                return charges
            pending = self._state.write(entry.row)
        if not self._is_recorded(pending, application.deadline):
            with self._lock:
                self._record(book.undo(entry))
                book.recount(time.time())
            raise Denied(
                "the use of quotas could not be recorded in time: nothing was admitted, try again",
                reason="not-recorded",
            )
        book.confirm(entry)
        return charges

    def renew(self, identity: Identity, new: Observed, old: Observed | None, deadline: float) -> None:
        """Take note of a change that quotas do not judge."""
        with self._lock:
            row = self._book(identity.namespace).renew(identity, new, old)
            pending = self._state.write(row) if row is not None else None
        if row is not None and pending is not None:
            self._remember(row, self._is_recorded(pending, deadline))

    def release(self, identity: Identity, old: Observed, deadline: float) -> None:
        """Give back what a deleted object used."""
        with self._lock:
            book = self._book(identity.namespace)
            changed, forgotten = book.release(identity, old, time.time())
            written = [(row, self._state.write(row)) for row in changed]
            for row in forgotten:
                self._state.remove(row.identity)
        for row, pending in written:
            self._remember(row, self._is_recorded(pending, deadline))

    def recount(self) -> None:
        """Set what is used to what exists, and try again to record what could not be recorded."""
        with self._lock:
            self._recount_locked()
            again = [(row, self._state.write(row)) for row in self._unrecorded.values()]
        for row, pending in again:
            self._remember(row, self._is_recorded(pending, time.monotonic() + RECORD_SECONDS))

    @property
    def problem(self) -> str | None:
        """What is wrong with the state file; None where all is on record."""
        if self._unrecorded:
            return f"{len(self._unrecorded)} changes are not on record: {self._last_failure}"
        return self._last_failure

    def _remember(self, row: Row, recorded: bool) -> None:
        """Keep what was answered but could not be recorded, for the next attempt."""
        key = (row.identity.namespace, row.identity.uid)
        with self._lock:
            if recorded:
                self._unrecorded.pop(key, None)
            else:
                self._unrecorded[key] = row

    def doubts(self) -> Sequence[str]:
        """What the policies in force say that is hardly meant."""
        return self._world.doubts

    def usage(self, namespace: str | None = None) -> dict[str, dict[str, QuotaUsage]]:
        """Namespace -> quota name -> hard and used; of one namespace where it is named."""
        with self._lock:
            if namespace is None:
                found = {name: book.usage() for name, book in sorted(self._books.items())}
            else:
                found = {namespace: self._books[namespace].usage()} if namespace in self._books else {}
        return {
            name: {quota: QuotaUsage(_printed(policy.hard), _printed(used)) for quota, (policy, used) in quotas.items()}
            for name, quotas in found.items()
        }

    def close(self) -> None:
        """Finish the writes under way."""
        self._state.close()

    def _book(self, namespace: str) -> Book:
        book = self._books.get(namespace)
        if book is None:
            book = self._books[namespace] = Book(NOWHERE, self._world.devices)
        return book

    def _settle_bases(self) -> list[Pending]:
        now = time.time()
        return [self._state.write(base) for name, book in self._books.items() for base in book.settle_bases(name, now)]

    def _wait_for(self, written: Sequence[Pending]) -> None:
        give_up = time.monotonic() + RECORD_SECONDS
        for pending in written:
            self._is_recorded(pending, give_up)

    def _recount_locked(self) -> None:
        now = time.time()
        for book in self._books.values():
            book.recount(now)
        self._books = {
            name: book for name, book in self._books.items() if name in self._world.namespaces or not book.is_empty()
        }

    def _record(self, undone: tuple[Row, bool] | None) -> None:
        if undone is not None:
            row, stays = undone
            if stays:
                self._state.write(row)
            else:
                self._state.remove(row.identity)

    def _is_recorded(self, pending: Pending, deadline: float) -> bool:
        if not pending.wait(deadline - time.monotonic()):
            self._last_failure = "the state file could not be written in time"
        elif pending.error:
            self._last_failure = f"the state file could not be written: {pending.error}"
        else:
            self._last_failure = None
            return True
        log.error(self._last_failure)
        return False


def _printed(amounts: ResourceList) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}
