"""One batch of requests for room in the quotas of one namespace: judged in memory, then written by compare-and-swap.

Each request is judged on top of those before it. A quota that changed is written with all that the batch reserves in it
at once; where somebody else was faster, everything is read and judged again. A reservation that stands is recognised by
the UID of its object, so judging again never charges twice, and a write whose answer was lost is found or repeated.
"""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from admission.cluster.caches import QuotaCache
from admission.cluster.quotas import StoredQuota, decode_stored_quota
from admission.cluster.stats import LedgerStats
from admission.cluster.transport import ApiError, ClusterError, Transport
from admission.errors import Denied
from admission.ledger import Application, share
from admission.ledger.account import Account, Reservation
from admission.ledger.annotation import MAX_BYTES, MAX_RESERVATIONS
from admission.quota.check import Charge, LimitedResource, QuotaRequest, check
from admission.quota.names import DeviceClasses
from admission.resource_lists import EMPTY, growth

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 20
"""How often a batch is judged and written before it is given up."""
FIRST_PAUSE: Final = 0.004
LONGEST_PAUSE: Final = 0.1
SHORTEST_CALL: Final = 0.1
"""Seconds that a call to the API server is given, however little is left."""

FEW: Final = 100
"""So many reservations never make an annotation too large."""


class _QuotaList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_QuotaList).decode


@dataclass
class Request:
    """One request in a batch; `denied` or `charges` hold its outcome.

    `needed` are the quotas in which it must be on record to be admitted.
    `written` is what was sent for it, by quota, with what it replaced; nobody knows whether that took effect, unless
    the quota is in `recorded`. A request that is `final` is not judged any more.
    """

    application: Application
    asked: QuotaRequest
    arrived: float
    charges: dict[str, Charge] = field(default_factory=dict)
    denied: Denied | None = None
    planned: dict[str, tuple[Reservation, Reservation | None]] = field(default_factory=dict)
    written: dict[str, tuple[Reservation, Reservation | None]] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    deferred_by: str = ""
    final: bool = False
    failure: Exception | None = None

    @property
    def uid(self) -> str:
        """The key of its reservations."""
        return self.application.identity.uid

    def deny(self, text: str, reason: str) -> None:
        """Refuse it for good, whatever the quotas say."""
        self.denied, self.charges, self.final = Denied(text, reason=reason), {}, True
        self.needed = set()


@dataclass(frozen=True)
class Rules:
    """What a batch is judged by beside the quotas; `writes` is False where somebody else keeps the count."""

    limited: Sequence[LimitedResource]
    devices: DeviceClasses
    writes: bool


class Batch:
    """Deals with the requests of one namespace that came together."""

    def __init__(
        self, transport: Transport, cache: QuotaCache, namespace: str, rules: Rules, stats: LedgerStats
    ) -> None:
        self._transport = transport
        self._cache = cache
        self._namespace = namespace
        self._rules = rules
        self._stats = stats
        self._quotas: dict[str, StoredQuota] = {}
        self._listed_at = float("-inf")
        self._full: set[str] = set()
        self._conflicting = ""
        self._problem = ""

    def run(self, requests: Sequence[Request]) -> None:
        """Judge all, and record what is admitted; the outcome of each is left in it."""
        self._take({quota.name: quota for quota in self._cache.of(self._namespace)})
        attempts = 0
        while attempts < MAX_ATTEMPTS:
            work = self._judge(requests)
            if self._wants_fresh_read(requests):
                if self._read(requests):
                    work = self._judge(requests)
                elif not self._rules.writes:
                    self._leave_to_the_plugin(requests)
            written = self._write(work, requests)
            deferred = any(request.deferred_by for request in requests)
            if written and not deferred:
                return
            attempts += not written  # to wait for the recount is no attempt
            if not self._time_left(requests):
                break
            self._pause(attempts, deferred=deferred)
            self._refresh(requests)
        self._give_up(requests)

    # -- judging

    def _judge(self, requests: Iterable[Request]) -> dict[str, StoredQuota]:
        """The quotas as they would be; what is not to be written is the same object as before."""
        work = dict(self._quotas)
        for request in requests:
            request.deferred_by = ""
            request.planned = {}
            try:
                charges = [] if request.final else self._check(request, work)
            except Denied as denied:
                request.denied, request.charges, request.needed = denied, {}, set()
            else:
                if not request.final:
                    request.denied = None
                    self._reserve(request, charges, work)
            if request.denied is not None:
                self._roll_back(request, work)
        for name in [name for name, quota in work.items() if self._overflows(quota)]:
            self._full.add(name)
            return self._judge(requests)
        return work

    def _check(self, request: Request, work: Mapping[str, StoredQuota]) -> list[Charge]:
        held = {
            name: quota.account.reservations[request.uid].held()
            for name, quota in work.items()
            if quota.account is not None and request.uid in quota.account.reservations
        }
        return check(
            request.asked,
            [quota.state for quota in work.values()],
            limited=self._rules.limited,
            devices=self._rules.devices,
            held=held or None,
        )

    def _reserve(self, request: Request, charges: Sequence[Charge], work: dict[str, StoredQuota]) -> None:
        self._find_recorded(request, work)
        on_record = {name: charge for name, charge in request.charges.items() if name in request.recorded}
        request.charges = {**on_record, **{charge.policy.name: charge for charge in charges}}
        if request.application.dry_run or not self._rules.writes:
            return
        used = {charge.policy.name: charge.used for charge in charges}
        leaning = [name for name, quota in work.items() if name not in used and self._leans_on(request, quota)]
        request.needed = {*request.charges, *leaning}
        full = [name for name in used if name in self._full]
        if full:
            request.deferred_by = full[0]
            return
        for name in (*used, *leaning):
            quota = work[name]
            account = quota.account_to_change()
            before = account.reservations.get(request.uid)
            account = account.reserve(request.uid, self._reservation(request, quota))
            request.planned[name] = (account.reservations[request.uid], before)
            request.recorded.discard(name)
            after = {resource: amount.stored() for resource, amount in used.get(name, EMPTY).items()}
            work[name] = quota.with_account(account, after)

    def _find_recorded(self, request: Request, work: Mapping[str, StoredQuota]) -> None:
        """See what of this request stands, also where the answer to its write was lost."""
        for name in request.written:
            quota = work.get(name)
            standing = quota.account.reservations.get(request.uid) if quota and quota.account else None
            if standing is not None and standing.token == request.token:
                request.recorded.add(name)

    def _leans_on(self, request: Request, quota: StoredQuota) -> bool:
        """Whether what another request has reserved for the object stands for this one too.

        Then it is made this one's as well: the other may be taken back, or grow old, or end with an earlier version.
        """
        if quota.name in request.recorded or quota.account is None or not _adds(request.asked):
            return False
        return request.uid in quota.account.reservations

    def _reservation(self, request: Request, quota: StoredQuota) -> Reservation:
        identity, asked = request.application.identity, request.asked
        return Reservation(
            kind=identity.kind,
            name=identity.name,
            version=request.application.version,
            amounts=share(quota.policy, asked.new),
            covered=share(quota.policy, asked.old) if asked.old is not None else EMPTY,
            token=request.token,
        )

    def _roll_back(self, request: Request, work: dict[str, StoredQuota]) -> None:
        for name, (written, before) in request.written.items():
            quota = work.get(name)
            if quota is None or quota.account is None:
                continue
            account = quota.account.roll_back(request.uid, written, before)
            if account is not quota.account:
                work[name] = quota.with_account(account)

    def _overflows(self, quota: StoredQuota) -> bool:
        if quota is self._quotas[quota.name] or quota.name in self._full or quota.account is None:
            return False
        known = self._quotas[quota.name].account or Account()
        grew = len(quota.account.reservations) > len(known.reservations)
        number = len(quota.account.reservations)
        return grew and (number > MAX_RESERVATIONS or (number > FEW and quota.annotation_size() > MAX_BYTES))

    def _wants_fresh_read(self, requests: Iterable[Request]) -> bool:
        """Whether somebody would be refused on less than the newest: only what was asked for since it came counts."""
        return any(
            request.denied is not None
            and not request.final
            and self._listed_at < request.arrived
            and (not self._quotas or any(quota.read_at < request.arrived for quota in self._quotas.values()))
            for request in requests
        )

    def _leave_to_the_plugin(self, requests: Iterable[Request]) -> None:
        """Where the API server judges after us, what we know may be old must not refuse what it would admit."""
        for request in requests:
            request.denied = None

    # -- reading and writing

    def _take(self, quotas: Mapping[str, StoredQuota]) -> None:
        self._quotas = dict(sorted(quotas.items()))
        self._full.clear()

    def _refresh(self, requests: Sequence[Request]) -> None:
        """Newer versions: from the cache where it has caught up, else from the API server."""
        cached = {quota.name: quota for quota in self._cache.of(self._namespace)}
        if self._conflicting in cached and cached[self._conflicting].is_newer_than(self._quotas[self._conflicting]):
            self._take(cached)
        else:
            self._read(requests)

    def _read(self, requests: Sequence[Request]) -> bool:
        """Read all quotas of the namespace from the store itself; False where that fails."""
        asked_at = time.monotonic()
        try:
            path = f"/api/v1/namespaces/{self._namespace}/resourcequotas"
            response = self._transport.call("GET", path, timeout=self._patience(requests))
            items = _decode_list(response.body).items or ()
            found = [decode_stored_quota(item, asked_at) for item in items]
        except (ClusterError, ValueError) as error:
            self._stats.reads.failed += 1
            self._problem = str(error)
            return False
        self._stats.reads.succeeded += 1
        self._listed_at = asked_at
        self._take({quota.name: quota for quota in found})
        for quota in found:
            self._cache.learn(quota)
        return True

    def _write(self, work: Mapping[str, StoredQuota], requests: Sequence[Request]) -> bool:
        """Write the quotas that changed, in the order of their names; False where one could not be."""
        self._conflicting = ""
        for name, wanted in work.items():
            if wanted is not self._quotas[name] and not self._put(wanted, requests):
                self._conflicting = name
                return False
        return True

    def _put(self, wanted: StoredQuota, requests: Sequence[Request]) -> bool:
        asked_at = time.monotonic()
        try:
            response = self._transport.call("PUT", wanted.path(), wanted.body(), timeout=self._patience(requests))
        except ApiError as error:
            self._problem = f"{error.status} {error.reason}"
            if error.status >= 500:
                self._note_sent(wanted.name, requests)
            if error.is_conflict or error.status == 404:
                self._stats.writes.conflicts += 1
                return False
            self._stats.writes.failed += 1
            if error.status < 500 and error.status != 429:
                self._refuse_all(wanted, requests, error)
            return False
        except ClusterError as error:
            self._note_sent(wanted.name, requests)
            self._stats.writes.failed += 1
            self._problem = str(error)
            return False
        self._stats.writes.succeeded += 1
        before = self._quotas[wanted.name].account or Account()
        self._quotas[wanted.name] = written = wanted.written(response.body, asked_at)
        self._cache.learn(written)
        for request in self._note_sent(wanted.name, requests):
            request.recorded.add(wanted.name)
        for request in requests:
            if request.denied is not None:
                request.written.pop(wanted.name, None)
        self._stats.reservations += len(_uids(wanted.account) - _uids(before))
        return True

    def _note_sent(self, quota: str, requests: Iterable[Request]) -> list[Request]:
        """Keep what was sent for each request, for the case that it has to be taken back; those it concerns."""
        concerned = [request for request in requests if quota in request.planned]
        for request in concerned:
            made, before = request.planned[quota]
            earlier = request.written.get(quota)
            request.written[quota] = (made, earlier[1] if earlier else before)
        return concerned

    def _refuse_all(self, quota: StoredQuota, requests: Iterable[Request], error: ApiError) -> None:
        log.error(
            "a quota cannot be written",
            extra={"namespace": quota.namespace, "quota": quota.name, "problem": f"{error.status} {error.reason}"},
        )
        for request in requests:
            if quota.name in request.needed:
                request.deny(not_recorded(quota.name, f"{error.status} {error.reason}"), "not-recorded")

    # -- time

    def _patience(self, requests: Iterable[Request]) -> float:
        last = max(request.application.deadline for request in requests)
        return max(SHORTEST_CALL, last - time.monotonic())

    def _time_left(self, requests: Sequence[Request]) -> bool:
        """Refuse those whose callers have no time left; whether anybody is left to go on for."""
        now = time.monotonic()
        for request in requests:
            if not request.final and request.application.deadline <= now and self._is_open(request):
                self._deny_late(request)
        return any(not request.final and request.application.deadline > now for request in requests)

    def _is_open(self, request: Request) -> bool:
        """Whether something that it is admitted for is not on record."""
        if request.denied is not None or request.application.dry_run or not self._rules.writes:
            return False
        return bool(request.deferred_by) or not request.needed <= request.recorded

    def _deny_late(self, request: Request) -> None:
        if request.deferred_by:
            request.deny(
                f'quota "{request.deferred_by}": too many admissions wait to be counted; try again in a moment',
                "not-counted",
            )
        else:
            name = self._conflicting or min(request.needed)
            request.deny(not_recorded(name, self._problem or "it changed too often"), "not-recorded")

    def _pause(self, attempt: int, *, deferred: bool) -> None:
        longest = LONGEST_PAUSE if deferred else FIRST_PAUSE * 1.6**attempt
        time.sleep(min(longest, LONGEST_PAUSE) * random.uniform(0.3, 1.0))  # noqa: S311

    def _give_up(self, requests: Sequence[Request]) -> None:
        """Refuse what is not on record, and take back what is on record of it in other quotas, as far as that goes."""
        for request in requests:
            if not request.final and self._is_open(request):
                self._deny_late(request)
            request.final = True
        for _ in range(2):
            if not any(request.denied is not None and request.written for request in requests):
                return
            # Nobody is kept waiting for it: what cannot be taken back now ends by itself in a minute.
            if not self._read(requests) or self._write(self._judge(requests), requests):
                return


def _adds(asked: QuotaRequest) -> bool:
    """Whether the object will use more of anything than before."""
    return asked.old is None or bool(growth(asked.new.usage, asked.old.usage))


def _uids(account: Account | None) -> set[str]:
    return set(account.reservations) if account else set()


def not_recorded(quota: str, problem: str) -> str:
    """The text for what would fit, but cannot be put on record."""
    return f'the use of quota "{quota}" could not be recorded in time ({problem}): nothing was admitted, try again'
