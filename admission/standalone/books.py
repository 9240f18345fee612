"""The count of one namespace: what its quotas hold, and for which objects.

Not thread-safe: the store holds its lock around every call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from admission.ledger import Application, Identity, share, use_of
from admission.objects import ObjectMeta
from admission.quantity import ZERO, Quantity
from admission.quota.check import Charge, LimitedResource, QuotaRequest, check
from admission.quota.devices import paid_for
from admission.quota.names import RESOURCE_CLAIMS, DeviceClasses, kinds_named
from admission.quota.observed import Observed
from admission.quota.policy import QuotaPolicy, QuotaState
from admission.resource_lists import EMPTY, ResourceList, add_into
from admission.standalone.entries import Entries, Entry
from admission.standalone.parts import QuotaSource
from admission.standalone.state import BaseRow, Row
from admission.standalone.world import FileObject, NamespaceWorld

NOWHERE = NamespaceWorld()


class Book:
    """The count of one namespace.

    A quota that the files give a status starts from it: what is used is that, plus what the store has seen change. A
    quota without one is counted from the objects that exist: those of the files, and those the store admitted.
    """

    def __init__(self, world: NamespaceWorld, devices: DeviceClasses) -> None:
        self._entries = Entries()
        self._used: dict[str, dict[str, Quantity]] = {}
        self._file_uids: dict[tuple[str, str], str] = {}
        self._bases: dict[str, BaseRow] = {}
        self._settled = False
        self.adopt(world, devices)

    def adopt(self, world: NamespaceWorld, devices: DeviceClasses) -> None:
        """Take over what the files say now; a recount must follow."""
        self._devices = devices
        self._settled = False
        self._sources = world.quotas
        self._files = {found.identity.uid: found for found in world.objects}
        before = self._file_uids
        self._file_uids = {(found.identity.kind, found.identity.name): found.identity.uid for found in world.objects}
        self._entries.drop_gone(name for name in self._file_uids if name not in before)
        self._used = {source.policy.name: self._used.get(source.policy.name, {}) for source in world.quotas}

    def settle_bases(self, namespace: str, now: float) -> list[BaseRow]:
        """Let a `status.used` that is new say what is used in all, and a known one what was used at the start.

        The bases to be recorded. Called once the rows of the namespace are known; a recount must follow.
        """
        changed = []
        for source in self._sources:
            name = source.policy.name
            known = self._bases.get(name)
            if source.used is None or (known is not None and known.used == _printed(source.used)):
                continue
            adjust: dict[str, Quantity] = dict.fromkeys(source.used, ZERO)
            self._add_changes(adjust, source.policy, now, -1)
            self._bases[name] = BaseRow(namespace, name, _printed(source.used), adjust)
            changed.append(self._bases[name])
        return changed

    def put_base(self, base: BaseRow) -> None:
        """Take over a base that was kept."""
        self._bases[base.quota] = base

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
        entry = self._entries.get(uid)
        if entry is not None:
            return entry.row.observed
        return self._files[uid].observed if uid in self._files else None

    def _existing(self) -> Iterator[tuple[Identity, Observed]]:
        shadowed = self._shadowed()
        for uid, found in self._files.items():
            if uid not in shadowed:
                yield found.identity, found.observed
        for entry in self._entries:
            if entry.row.observed is not None:
                yield entry.row.identity, entry.row.observed

    def _shadowed(self) -> set[str]:
        """The objects of files that an entry speaks of."""
        shadowed = self._entries.uids()
        for entry in self._entries:
            uid = self._file_uids.get((entry.row.identity.kind, entry.row.identity.name))
            # A file that gives no UID means the object of that name, whatever its UID.
            if uid is not None and not self._files[uid].identity.has_uid:
                shadowed.add(uid)
        return shadowed

    # -- changing

    def reserve(
        self, application: Application, limited: Sequence[LimitedResource]
    ) -> tuple[list[Charge], Entry | None]:
        """Judge, and charge what is admitted; raises Denied.

        The entry is to be recorded, then confirmed or undone. There is none at a dry run, nor for an object that is on
        its way out: what it used was given back at its deletion.
        """
        request = application.quota_request()
        identity = application.identity
        known = self._entries.find(identity) if application.old else self._entries.get(identity.uid)
        counted = None if _is_leaving(known, application.new) else known
        held = self._held(counted, request)
        # Of an object never seen the check finds out by itself what is held, once for all quotas.
        for_check = None if counted is None else held
        charges = check(request, self._states(), limited=limited, devices=self._devices, held=for_check)
        if application.dry_run or _is_leaving(known, application.new):
            return charges, None
        self._settled = self._settled and application.old is None and application.new.counts_until is None
        for charge in charges:
            used = self._used[charge.policy.name]
            used.update({name: amount.stored() for name, amount in charge.used.items()})
            held[charge.policy.name] = _sum(held[charge.policy.name], charge.amounts)
        if known is not None:
            row = known.row._replace(observed=application.new)
        else:
            row = Row(identity, application.new, self._covered(identity, application.old))
        entry = Entry(row, held, before=known)
        self._entries.put(entry)
        return charges, entry

    def confirm(self, entry: Entry) -> None:
        """The entry is on record."""
        entry.before = None

    def undo(self, entry: Entry) -> tuple[Row, bool] | None:
        """Undo what could not be recorded. A recount must follow.

        The row to be recorded instead, and whether it stays at all; None where a later call has replaced the entry.
        """
        entry.abandoned = True
        self._settled = False
        uid = entry.row.identity.uid
        if self._entries.get(uid) is not entry:
            return None
        before = entry.before
        while before is not None and before.abandoned:
            before = before.before
        if before is None:
            self._entries.drop(entry.row.identity)
            return entry.row, False
        self._entries.put(before)
        return before.row, True

    def renew(self, identity: Identity, new: Observed, old: Observed | None) -> Row | None:
        """Take note of what an object uses now; what is used is left to the recount. None where it is deleted."""
        known = self._entries.find(identity)
        if known is None:
            known = Entry(Row(identity, new, self._covered(identity, old)))
        elif _is_leaving(known, new) or known.row.observed == new:
            return None
        self._settled = False
        self._entries.put(Entry(known.row._replace(observed=new), known.charged, before=known.before))
        return known.row._replace(observed=new)

    def release(self, identity: Identity, old: Observed, now: float) -> tuple[list[Row], list[Row]]:
        """Give back what a deleted object used; the rows to be recorded, and those to be removed."""
        known = self._entries.find(identity) or self._anonymous(identity)
        if known is None:
            known = Entry(Row(identity, None, self._covered(identity, old)))
            self._settled = False
        elif not known.is_live:
            self.recount(now)
            return [], []
        row = known.row._replace(observed=None)
        forgotten = self._entries.put(Entry(row))
        if self._settled and known.row.covered is None and known.before is None:
            self._take_back(known.charged)
        else:
            self.recount(now)
        return [row], forgotten

    def _take_back(self, charged: Mapping[str, ResourceList]) -> None:
        """What a recount would do where nothing else has changed since the last, at the cost of one object."""
        for quota, amounts in charged.items():
            used = self._used.get(quota, {})
            for name, amount in amounts.items():
                left = used[name] - amount
                used[name] = left.stored() if left.nano > 0 else ZERO

    def put(self, row: Row) -> None:
        """Take over a row that was kept. A recount must follow."""
        self._settled = False
        self._entries.put(Entry(row))

    def _anonymous(self, identity: Identity) -> Entry | None:
        """What came in under this name without a UID, and lives."""
        named = self._entries.named(identity.kind, identity.name)
        return next((entry for entry in named if entry.is_live and not entry.row.identity.has_uid), None)

    def _covered(self, identity: Identity, old: Observed | None) -> Observed | None:
        """What was counted for an object before the store saw it: what the files say of it, else its old use."""
        found = self._files.get(identity.uid) or self._file_named(identity)
        return found.observed if found and old is not None else old

    def _file_named(self, identity: Identity) -> FileObject | None:
        uid = self._file_uids.get((identity.kind, identity.name))
        return self._files[uid] if uid is not None and not self._files[uid].identity.has_uid else None

    def _held(self, known: Entry | None, request: QuotaRequest) -> dict[str, ResourceList]:
        """What `used` of each quota holds for the object: of an object never seen, its old use is taken as counted."""
        if known is not None:
            return {source.policy.name: known.charged.get(source.policy.name, EMPTY) for source in self._sources}
        return {source.policy.name: share(source.policy, request.old) for source in self._sources}

    def _states(self) -> list[QuotaState]:
        return [QuotaState(source.policy, self._used[source.policy.name]) for source in self._sources]

    # -- counting

    def recount(self, now: float) -> None:
        """Set what is used to what exists, and what each object is charged to what it uses."""
        existing = list(self._existing())
        for source in self._sources:
            self._write_used(source.policy.name, self._count(source, existing, now))
        for entry in self._entries:
            use = use_of(entry.row.observed, now) if entry.row.observed else None
            entry.charged = {source.policy.name: share(source.policy, use) for source in self._sources}
        self._settled = not any(observed.counts_until for _, observed in existing)

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
        self._add_changes(total, policy, now, +1)
        _add_known(total, self._bases[policy.name].adjust if policy.name in self._bases else EMPTY, +1)
        return {name: amount if amount.nano >= 0 else ZERO for name, amount in total.items()}

    def _add_changes(self, total: dict[str, Quantity], policy: QuotaPolicy, now: float, sign: int) -> None:
        """Add, or take out, what the store has seen change."""
        for entry in self._entries:
            if entry.row.observed:
                _add_known(total, share(policy, use_of(entry.row.observed, now)), sign)
            if entry.row.covered:
                _add_known(total, share(policy, use_of(entry.row.covered, now)), -sign)

    def _write_used(self, quota: str, counted: Mapping[str, Quantity]) -> None:
        used = self._used[quota]
        # A number that is right keeps the form it is printed in.
        self._used[quota] = {
            name: used[name] if used.get(name) == amount else amount.stored() for name, amount in counted.items()
        }


def _is_leaving(known: Entry | None, new: Observed) -> bool:
    """Whether a deleted object is still being taken apart. One that is not marked for deletion exists after all."""
    return known is not None and not known.is_live and new.deleting


def _sum(left: ResourceList, right: ResourceList) -> ResourceList:
    total = dict(left)
    add_into(total, right)
    return total


def _printed(amounts: ResourceList) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _add_known(total: dict[str, Quantity], amounts: ResourceList, sign: int) -> None:
    """Add or subtract what `total` knows: a name whose use is unknown stays unknown."""
    for name, amount in amounts.items():
        if name in total:
            total[name] = total[name] + amount if sign > 0 else total[name] - amount
