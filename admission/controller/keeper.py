"""Keeps the count of every quota true: recounts what changed, settles what was reserved, writes what differs.

Everything is one compare-and-swap of the quota's status, as the servers do it, so neither can undo what the other has
done. A recount counts only what is known at least up to the revision that the last one knew: a controller that takes
over with an older view reads it anew first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from admission.cluster.caches import QuotaCache
from admission.cluster.events import EventRecorder, Regarding
from admission.cluster.quotas import StoredQuota
from admission.cluster.transport import ApiError, ClusterError, Transport
from admission.controller.expiry import Expiry
from admission.controller.gone import GoneObjects
from admission.controller.objects import ObjectCaches, Tracked
from admission.controller.recount import Count, count, difference, equal, kinds_of, same_account
from admission.controller.stats import ControllerStats
from admission.controller.workqueue import WorkQueue
from admission.ledger.account import Account
from admission.ledger.annotation import ANNOTATION
from admission.quantity import Quantity
from admission.quota.names import DeviceClasses, kinds_named
from admission.quota.policy import QuotaPolicy, QuotaState

log = logging.getLogger(__name__)

AT_ONCE: Final = 0.0
SOON: Final = 0.05
"""Delay after something became free, in seconds: what happens together is counted together."""
SETTLE: Final = 1.0
"""Delay after something was admitted: nobody waits for that, and each write of ours may cost a server a retry."""
SETTLE_MANY: Final = 0.25
MANY: Final = 50
"""Reservations of a quota from which on they are settled sooner, so that its annotation stays short."""
REST: Final = 0.2
"""Least time between two recounts of a namespace, so that the servers seldom lose a race against us."""
AGAIN: Final = 0.3
RECHECK_DRIFT: Final = 1.0
WORKERS: Final = 4


class Duties(NamedTuple):
    """What a keeper has to do.

    `active`: whether this controller leads. `owns_count`: whether the count is ours, not the API server's.
    `expire_after` is in seconds. `probe` is namespace and name of the one quota that is not for counting.
    """

    active: Callable[[], bool]
    owns_count: Callable[[], bool]
    expire_after: float
    probe: tuple[str, str]


class QuotaKeeper:
    """Recounts the quotas of namespaces, as long as that is its duty."""

    def __init__(
        self,
        transport: Transport,
        quotas: QuotaCache,
        devices: Callable[[], DeviceClasses],
        duties: Duties,
    ) -> None:
        self._probe = duties.probe
        self._transport = transport
        self._quotas = quotas
        self._devices = devices
        self._active = duties.active
        self._owns_count = duties.owns_count
        self.objects = ObjectCaches(transport, self._object_changed, devices)
        self.queue = WorkQueue(REST)
        self.gone = GoneObjects()
        self.expiry = Expiry(
            transport, self.objects, duties.expire_after, lambda namespace: self._mark(namespace, AT_ONCE)
        )
        self.stats = ControllerStats()
        self._events = EventRecorder(transport)
        self._lock = threading.Lock()
        self._heard: set[str] = set()
        self._audits: dict[str, int] = {}

    # -- what happens

    def quota_changed(self, namespace: str, name: str, was: StoredQuota | None, now: StoredQuota | None) -> None:
        """Take note of a change of a quota."""
        self.expiry.quota_changed(namespace, name, was, now)
        if now is None:
            return
        known = was.account.reservations.keys() if was and was.account else set()
        reserved = now.account.reservations.keys() if now.account else set()
        if was is None or not _status_is_in_order(now) or now.damage:
            self._mark(namespace, AT_ONCE)
        elif reserved - known or not _says_what_is_used(now):
            self._mark(namespace, SETTLE if len(reserved) < MANY else SETTLE_MANY)

    def _object_changed(self, namespace: str, was: Tracked | None, now: Tracked | None) -> None:
        if was is not None and (now is None or now.uid != was.uid):
            self.gone.add(was.uid)
        quotas = self._quotas.reflector.namespace(namespace)
        if not quotas:
            return
        if was is None or (now is not None and was.observed is now.observed and was.uid == now.uid):
            uid = now.uid if now else ""
            if was is None or any(uid in _reserved(quota) for quota in quotas.values()):
                self._mark(namespace, SETTLE)
        else:
            self._mark(namespace, SOON)

    def _mark(self, namespace: str, delay: float = AT_ONCE) -> None:
        with self._lock:
            self._heard.add(namespace)
        self.queue.add(namespace, delay)

    def mark_all(self, *, audit: bool = False) -> None:
        """Recount everything; with `audit`, what differs although nothing was heard of it is reported as drift."""
        for namespace in self._quotas.reflector.namespaces():
            if audit:
                with self._lock:
                    self._audits[namespace] = 0
                self.queue.add(namespace)
            else:
                self._mark(namespace, AT_ONCE)

    def kinds(self) -> set[str]:
        """The kinds that the quotas of the cluster name."""
        devices = self._devices()
        found: set[str] = set()
        quotas = (quota for quota in self._quotas.all() if not self._is_probe(quota))
        for names in {frozenset((*quota.spec_hard, *quota.policy.hard)) for quota in quotas}:
            found |= kinds_of(names, devices)
        return found

    def _is_probe(self, quota: StoredQuota) -> bool:
        return (quota.namespace, quota.name) == self._probe

    # -- working

    def start(self) -> None:
        """Begin to work, in threads."""
        for number in range(WORKERS):
            threading.Thread(target=self._work, name=f"recount {number}", daemon=True).start()

    def stop(self) -> None:
        """End the threads."""
        self.queue.close()
        self.objects.stop()

    def _work(self) -> None:
        while (namespace := self.queue.get()) is not None:
            try:
                self._sync_namespace(namespace)
            except ClusterError as error:
                self.stats.failures += 1
                log.warning("recount failed", extra={"namespace": namespace, "problem": str(error)})
                self._mark(namespace, AGAIN)
            except Exception:
                self.stats.failures += 1
                log.exception("recount failed", extra={"namespace": namespace})
                self._mark(namespace, AGAIN)
            finally:
                self.queue.done(namespace)

    def _sync_namespace(self, namespace: str) -> None:
        if not self._active():
            return
        with self._lock:
            heard = namespace in self._heard
            self._heard.discard(namespace)
            audit = self._audits.pop(namespace, None)
        for quota in self._quotas.of(namespace):
            if self._is_probe(quota):
                continue
            if not self._owns_count():
                self._leave_to_the_plugin(quota)
            elif not self._sync(quota, audit if not heard else None):
                self._mark(namespace, AGAIN)

    def _sync(self, quota: StoredQuota, audit: int | None) -> bool:
        """Recount one quota; False where that is not possible yet, or another was faster."""
        hard = quota.spec_hard
        named = kinds_of(hard, self._devices())
        self.objects.ensure(named)
        kinds = {kind for kind in named if self.objects.has_synced(kind)}
        if any(self.objects.is_awaited(kind) for kind in named - kinds) or self._is_behind(quota, kinds):
            return False
        expired = self.expiry.over(quota)
        ended = self.gone.among(_reserved(quota)) | expired
        found = self._count(quota, kinds)
        # Taken afterwards, so that nothing is counted that is not claimed to be known: who takes over must know it too.
        revisions = {kind: self.objects.revision(kind, quota.namespace) for kind in sorted(kinds)}
        if found.counts_until is not None:
            self.queue.add(quota.namespace, max(0.0, found.counts_until - time.time()) + SOON)
        before = quota.account or Account(quota.status_used)
        revisions = {
            **{kind: before.revisions[kind] for kind in named - kinds if kind in before.revisions},
            **revisions,
        }
        counted = {**self._unknown(quota, named - kinds, before), **found.counted}
        account = before.recount(counted, found.seen, revisions, ended)
        differs = not equal(before.counted, account.counted)
        if audit is not None and differs and not self._is_drift(quota, account, audit):
            return True
        return self._write(quota, account, len(expired))

    def _count(self, quota: StoredQuota, kinds: set[str]) -> Count:
        started = time.perf_counter()
        devices = self._devices()
        policy = self._policy(quota)
        countable = {name for name in policy.hard if kinds.intersection(kinds_named(name, devices))}
        objects = (found for kind in sorted(kinds) for found in self.objects.live(kind, quota.namespace))
        result = count(policy, objects, countable, _reserved(quota), time.time())
        self.stats.recounts += 1
        self.stats.recount_seconds = time.perf_counter() - started
        return result

    def _policy(self, quota: StoredQuota) -> QuotaPolicy:
        """What the quota is to limit, whatever its status says yet."""
        if equal(quota.policy.hard, quota.spec_hard):
            return quota.policy
        return QuotaPolicy(quota.name, quota.spec_hard, quota.policy.scopes)

    def _unknown(self, quota: StoredQuota, kinds: set[str], before: Account) -> dict[str, Quantity]:
        """Of kinds that cannot be listed now, what was counted last stays."""
        listable = {kind for kind in kinds if self.objects.is_served(kind)}
        return {
            name: before.counted[name]
            for name in quota.spec_hard
            if name in before.counted and listable.intersection(kinds_named(name, self._devices()))
        }

    def _is_behind(self, quota: StoredQuota, kinds: set[str]) -> bool:
        """Whether the last recount knew more than we do; then what is missing is read anew."""
        known = quota.account.revisions if quota.account else {}
        behind = [kind for kind in kinds if self.objects.revision(kind, quota.namespace) < known.get(kind, 0)]
        for kind in behind:
            log.info("an earlier recount knew more: reading anew", extra={"namespace": quota.namespace, "kind": kind})
            self.objects.relist(kind)
        return bool(behind)

    def _is_drift(self, quota: StoredQuota, account: Account, looks: int) -> bool:
        """Whether the count was wrong although nothing was heard of: a second look tells it from a late message."""
        if not looks:
            with self._lock:
                self._audits[quota.namespace] = 1
            self.queue.add(quota.namespace, RECHECK_DRIFT)
            return False
        self.stats.drifts += 1
        log.warning(
            "the count of a quota had drifted",
            extra={
                "namespace": quota.namespace,
                "quota": quota.name,
                "drift": difference(quota.account.counted if quota.account else quota.status_used, account.counted),
            },
        )
        return True

    # -- writing

    def _write(self, quota: StoredQuota, account: Account, expired: int) -> bool:
        used = account.used()
        unchanged = same_account(quota.account, account) or (
            quota.account is None and not account.reservations and not quota.damage
        )
        if unchanged and equal(used, quota.status_used) and _status_is_in_order(quota):
            return True
        wanted = replace(
            quota,
            account=account,
            state=QuotaState(self._policy(quota), used),
            status_hard=quota.spec_hard,
            hard_texts=quota.spec_hard_texts,
        )
        settled = len(_reserved(quota)) - len(account.reservations) - expired
        if not self._put(wanted, wanted.body()):
            return False
        self.stats.settled += max(0, settled)
        self.stats.expired += expired
        if quota.damage:
            self.stats.rebuilt += 1
            named = {"namespace": quota.namespace, "quota": quota.name}
            log.warning("the ledger of a quota was made anew", extra=named)
            self._events.warn(
                Regarding("v1", "ResourceQuota", quota.namespace, quota.name, quota.uid),
                "LedgerRebuilt",
                f"the annotation {ANNOTATION} could not be read ({quota.damage}); it was made anew from what exists",
            )
        return True

    def _leave_to_the_plugin(self, quota: StoredQuota) -> None:
        """Take our count away where the API server keeps one: it would be out of date when it is ours again."""
        if quota.account is not None or quota.damage:
            bare = replace(quota, account=None, state=QuotaState(quota.policy, quota.status_used))
            self._put(bare, bare.body_without_account())

    def _put(self, wanted: StoredQuota, body: bytes) -> bool:
        asked_at = time.monotonic()
        try:
            response = self._transport.call("PUT", wanted.path(), body)
        except ApiError as error:
            if error.status == 404:
                return True
            if not error.is_conflict:
                raise
            self.stats.conflicts += 1
            return False
        self.stats.writes += 1
        self._quotas.learn(wanted.written(response.body, asked_at))
        return True


def _reserved(quota: StoredQuota) -> Mapping[str, object]:
    return quota.account.reservations if quota.account else {}


def _says_what_is_used(quota: StoredQuota) -> bool:
    """Whether `status.used` is what our account says."""
    used = quota.state.used
    return equal({name: used[name] for name in quota.policy.hard if name in used}, quota.status_used)


def _status_is_in_order(quota: StoredQuota) -> bool:
    return equal(quota.status_hard, quota.spec_hard)
