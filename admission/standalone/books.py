"""The count of one namespace: what its quotas hold, and for which objects.

Not thread-safe: the store holds its lock around every call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from admission.ledger import Application, Identity, held_for, share, use_of
from admission.objects import ObjectMeta
from admission.quantity import ZERO, Quantity
from admission.quota.check import Charge, LimitedResource, check
from admission.quota.devices import paid_for
from admission.quota.names import RESOURCE_CLAIMS, DeviceClasses, kinds_named
from admission.quota.observed import Observed
from admission.quota.policy import QuotaPolicy, QuotaState
from admission.resource_lists import EMPTY, ResourceList, add_into
from admission.standalone.parts import QuotaSource
from admission.standalone.state import Row
from admission.standalone.world import FileObject, NamespaceWorld

NOWHERE = NamespaceWorld()


class _Entry:
    """A row, and what each quota was charged for it (quota name -> amounts)."""

    __slots__ = ("charged", "row")

    def __init__(self, row: Row, charged: dict[str, ResourceList]) -> None:
        self.row = row
        self.charged = charged


class Change(NamedTuple):
    """A row to be recorded, and what was known of its object before."""

    row: Row
    before: _Entry | None


class Book:
    """The count of one namespace.

    A quota that the files give a status starts from it: what is used is that, plus what the store has seen change. A
    quota without one is counted from the objects that exist: those of the files, and those the store admitted.
    """

    def __init__(self, world: NamespaceWorld, devices: DeviceClasses) -> None:
        self._entries: dict[str, _Entry] = {}
        self._used: dict[str, dict[str, Quantity]] = {}
        self.adopt(world, devices)

    def adopt(self, world: NamespaceWorld, devices: DeviceClasses) -> None:
        """Take over what the files say now; a recount must follow."""
        self._devices = devices
        self._sources = world.quotas
        self._files = {found.identity.uid: found for found in world.objects}
        self._file_uids: dict[tuple[str, str], str] = {
            (found.identity.kind, found.identity.name): found.identity.uid for found in world.objects
        }
        self._used = {source.policy.name: self._used.get(source.policy.name, {}) for source in world.quotas}

    # -- looking

    def usage(self) -> dict[str, tuple[QuotaPolicy, dict[str, Quantity]]]:
        """Quota name -> its policy and what is used of it."""
        return {source.policy.name: (source.policy, dict(self._used[source.policy.name])) for source in self._sources}

    def is_empty(self) -> bool:
        """Whether there is nothing to keep."""
        return not (self._sources or self._entries or self._files)

    def paid_by_pod(self, uid: str, claim: ObjectMeta, now: float) -> ResourceList:
        """What a pod of this namespace pays for on behalf of an extended resource claim."""
        pod = self._known(uid)
        if pod is None:
            return EMPTY
        siblings = [
            (observed.created, identity.name)
            for identity, observed in self._existing()
            if identity.kind == RESOURCE_CLAIMS and observed.owner_pod == uid
        ]
        return paid_for(claim, pod, siblings, now)

    def _known(self, uid: str) -> Observed | None:
        if uid in self._entries:
            return self._entries[uid].row.observed
        return self._files[uid].observed if uid in self._files else None

    def _existing(self) -> Iterator[tuple[Identity, Observed]]:
        shadowed = self._shadowed()
        for uid, found in self._files.items():
            if uid not in shadowed:
                yield found.identity, found.observed
        for entry in self._entries.values():
            if entry.row.observed is not None:
                yield entry.row.identity, entry.row.observed

    def _shadowed(self) -> set[str]:
        """The objects of files that an entry speaks of."""
        shadowed = set(self._entries)
        for entry in self._entries.values():
            uid = self._file_uids.get((entry.row.identity.kind, entry.row.identity.name))
            # A file that gives no UID means the object of that name, whatever its UID.
            if uid is not None and not self._files[uid].identity.has_uid:
                shadowed.add(uid)
        return shadowed

    # -- changing

    def reserve(
        self, application: Application, limited: Sequence[LimitedResource]
    ) -> tuple[list[Charge], Change | None]:
        """Judge, and charge what is admitted. The change to be recorded is None at a dry run; raises Denied."""
        request = application.quota_request()
        entry = self._entry_of(application.identity, existed=application.old is not None)
        held = self._held(entry, application) if entry else None
        charges = check(request, self._states(), limited=limited, devices=self._devices, held=held)
        if application.dry_run:
            return charges, None
        before = entry and _Entry(entry.row, entry.charged)
        for charge in charges:
            used = self._used[charge.policy.name]
            for name, amount in charge.used.items():
                used[name] = amount.stored()
        row = Row(
            entry.row.identity if entry else application.identity,
            application.new,
            entry.row.covered if entry else self._covered(application.identity, application.old),
        )
        charged = dict(held or {})
        for charge in charges:
            held_before = charged.get(charge.policy.name, EMPTY)
            charged[charge.policy.name] = _sum(held_before, charge.amounts) if held_before else charge.amounts
        self._entries[row.identity.uid] = _Entry(row, charged)
        return charges, Change(row, before)

    def renew(self, identity: Identity, new: Observed, old: Observed | None) -> Row:
        """Take note of what an object uses now; what is used is left to the recount."""
        entry = self._entry_of(identity, existed=True)
        if entry is None:
            row = Row(identity, new, self._covered(identity, old))
            self._entries[identity.uid] = _Entry(row, {})
        else:
            row = entry.row._replace(observed=new)
            entry.row = row
        return row

    def release(self, identity: Identity, old: Observed) -> list[Row]:
        """Forget an object that is deleted; the rows to be kept. A recount must follow."""
        uids = [identity.uid] if identity.uid in self._entries else self._uids_named(identity)
        if not uids:
            row = Row(identity, None, self._covered(identity, old))
            if not row.is_void():
                self._entries[identity.uid] = _Entry(row, {})
            return [row]
        rows = []
        for uid in uids:
            row = self._entries[uid].row._replace(observed=None)
            rows.append(row)
            if row.is_void():
                del self._entries[uid]
            else:
                self._entries[uid].row = row
        return rows

    def undo(self, change: Change) -> Row:
        """Undo a change that could not be recorded; the row as it was. A recount must follow."""
        uid = change.row.identity.uid
        if change.before is None:
            self._entries.pop(uid, None)
            return Row(change.row.identity, None, None)
        self._entries[uid] = change.before
        return change.before.row

    def put(self, row: Row) -> None:
        """Take over a row that was kept. A recount must follow."""
        self._entries[row.identity.uid] = _Entry(row, {})

    def _entry_of(self, identity: Identity, *, existed: bool) -> _Entry | None:
        """What is known of an object; one that existed before and comes without a UID is found by its name."""
        entry = self._entries.get(identity.uid)
        if entry is None and existed and not identity.has_uid:
            named = self._uids_named(identity)
            entry = self._entries[named[-1]] if named else None
        return entry if entry and entry.row.observed is not None else None

    def _uids_named(self, identity: Identity) -> list[str]:
        return [
            uid
            for uid, entry in self._entries.items()
            if entry.row.observed is not None
            and (entry.row.identity.kind, entry.row.identity.name) == (identity.kind, identity.name)
        ]

    def _covered(self, identity: Identity, old: Observed | None) -> Observed | None:
        """What was counted for an object before the store saw it: what the files say of it, else its old use."""
        found = self._files.get(identity.uid) or self._file_named(identity)
        return found.observed if found and old is not None else old

    def _file_named(self, identity: Identity) -> FileObject | None:
        uid = self._file_uids.get((identity.kind, identity.name))
        return self._files[uid] if uid is not None and not self._files[uid].identity.has_uid else None

    def _held(self, entry: _Entry, application: Application) -> dict[str, ResourceList]:
        old = use_of(application.old, application.now) if application.old else None
        return {
            source.policy.name: held_for(source.policy, entry.charged.get(source.policy.name, EMPTY), old)
            for source in self._sources
        }

    def _states(self) -> list[QuotaState]:
        return [QuotaState(source.policy, self._used[source.policy.name]) for source in self._sources]

    # -- counting

    def recount(self, now: float) -> None:
        """Set what is used to what exists, and what each object is charged to what it uses."""
        existing = list(self._existing())
        for source in self._sources:
            self._write_used(source.policy.name, self._count(source, existing, now))
        for entry in self._entries.values():
            use = use_of(entry.row.observed, now) if entry.row.observed else None
            entry.charged = {source.policy.name: share(source.policy, use) for source in self._sources}

    def _count(
        self, source: QuotaSource, existing: Sequence[tuple[Identity, Observed]], now: float
    ) -> Mapping[str, Quantity]:
        policy = source.policy
        if source.used is None:
            total = {name: ZERO for name in policy.hard if kinds_named(name, self._devices)}
            for _, observed in existing:
                _add_known(total, share(policy, use_of(observed, now)), +1)
            return total
        total = dict(source.used)
        for entry in self._entries.values():
            if entry.row.observed:
                _add_known(total, share(policy, use_of(entry.row.observed, now)), +1)
            if entry.row.covered:
                _add_known(total, share(policy, use_of(entry.row.covered, now)), -1)
        return {name: amount if amount.nano >= 0 else ZERO for name, amount in total.items()}

    def _write_used(self, quota: str, counted: Mapping[str, Quantity]) -> None:
        used = self._used[quota]
        # A number that is right keeps the form it is printed in.
        self._used[quota] = {
            name: used[name] if used.get(name) == amount else amount.stored() for name, amount in counted.items()
        }


def _sum(left: ResourceList, right: ResourceList) -> ResourceList:
    total = dict(left)
    add_into(total, right)
    return total


def _add_known(total: dict[str, Quantity], amounts: ResourceList, sign: int) -> None:
    """Add or subtract what `total` knows: a name whose use is unknown stays unknown."""
    for name, amount in amounts.items():
        if name in total:
            total[name] = total[name] + amount if sign > 0 else total[name] - amount
