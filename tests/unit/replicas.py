"""Replicas of the server and of the controller on one store in memory: without threads, with a clock that is moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from unittest import mock

from admission.cluster.caches import QuotaCache
from admission.cluster.commit import Batch, Request, Rules
from admission.cluster.quotas import StoredQuota, decode_stored_quota
from admission.cluster.stats import LedgerStats
from admission.cluster.transport import ClusterError
from admission.controller.keeper import Duties, QuotaKeeper
from admission.controller.workqueue import WorkQueue
from admission.ledger import Application, Identity
from admission.quota.check import LimitedResource
from admission.quota.observe import Surroundings, decode, observe
from tests.unit.api_server import ApiServer, Client, Json, Stepped
from tests.unit.helpers import encoded, quota_json, texts

QUOTAS = "/api/v1/resourcequotas"
NS = "/api/v1/namespaces/ns"
NOTHING = Surroundings({})


class Clock:
    """Stands in for the module `time`, too."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    monotonic = time = perf_counter = __call__

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@contextmanager
def without_threads(clock: Clock) -> Iterator[None]:
    """Reflectors are stepped, and everything goes by this clock."""
    modules = ("cluster.caches", "controller.objects")
    patches = [mock.patch(f"admission.{module}.Reflector", Stepped) for module in modules]
    timed = ("cluster.commit", "controller.objects", "controller.keeper")
    patches += [mock.patch(f"admission.{module}.time", clock) for module in timed]
    with mock.patch.multiple("admission.cluster.commit.random", uniform=lambda low, high: (low + high) / 2):
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()


# -- objects


def stored_quota_json(name: str, hard: str, used: str | None = None) -> Json:
    """A quota as it is posted, with a status as if the quota controller had seen it."""
    document = quota_json(name, hard, used)
    return {"apiVersion": "v1", "kind": "ResourceQuota", **document}


def small_pod(name: str, cpu: int, **parts: Any) -> Json:
    resources = {"requests": {"cpu": str(cpu)}}
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "resources": resources}]}, **parts}


def small_claim(name: str, storage: int) -> Json:
    return {"metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": str(storage)}}}}


def application(
    clock: Clock,
    kind: str,
    document: Json,
    old: Json | None = None,
    *,
    seconds: float = 8.0,
    dry_run: bool = False,
) -> Application:
    """A creation, or an update where there is an old object."""
    meta = document["metadata"]
    return Application(
        identity=Identity("ns", kind, meta["name"], meta["uid"]),
        new=observe(kind, decode(kind, encoded(document), ""), NOTHING),
        old=observe(kind, decode(kind, encoded(old), ""), NOTHING) if old else None,
        pod=None,
        dry_run=dry_run,
        now=0.0,
        deadline=clock.now + seconds,
        version=old["metadata"]["resourceVersion"] if old else "",
    )


# -- who is there


class Server:
    """One replica of the webhook server: its connection, its cache of quotas, and its batches."""

    def __init__(self, store: ApiServer, clock: Clock) -> None:
        self.client = Client(store)
        self.clock = clock
        self.quotas = QuotaCache(self.client.transport())
        self.stats = LedgerStats()
        self.rules = Rules((), {}, writes=True)

    @property
    def reflectors(self) -> dict[str, Stepped[Any]]:
        return {"resourcequotas": cast("Stepped[Any]", self.quotas.reflector)}

    def limit(self, *limited: LimitedResource, writes: bool = True) -> None:
        self.rules = Rules(limited, {}, writes)

    def ask(self, *applications: Application) -> list[Request]:
        """All as one batch."""
        requests = [Request(asked, asked.quota_request(), self.clock.now) for asked in applications]
        Batch(self.client.transport(), self.quotas, "ns", self.rules, self.stats).run(requests)
        return requests


class Controller:
    """One replica of the controller: the keeper, and what the service does around it."""

    def __init__(self, store: ApiServer, clock: Clock, *, leads: bool = False) -> None:
        self.client = Client(store)
        self.clock = clock
        self.leads = leads
        self.before_counting: list[Callable[[], object]] = []
        """What happens in the middle of the next recounts, each once."""
        self.quotas = QuotaCache(self.client.transport(), self._quota_changed)
        duties = Duties(lambda: self.leads, lambda: True, 60.0, ("none", "none"))
        self.keeper = QuotaKeeper(self.client.transport(), self.quotas, dict, duties)
        self.keeper.queue._clock = clock
        self.keeper.expiry._clock = clock
        self.keeper.gone._clock = clock
        self._synced: set[str] = set()
        self._over = self.keeper.expiry.over
        self.keeper.expiry.over = self._over_after_all  # type: ignore[method-assign]

    def _quota_changed(self, *change: Any) -> None:
        self.keeper.quota_changed(*change)

    def _over_after_all(self, quota: StoredQuota) -> set[str]:
        over = self._over(quota)
        if self.before_counting:
            self.before_counting.pop(0)()
        return over

    @property
    def queue(self) -> WorkQueue:
        return self.keeper.queue

    @property
    def reflectors(self) -> dict[str, Stepped[Any]]:
        counted = cast("dict[str, Stepped[Any]]", dict(self.keeper.objects.reflectors))
        return {"resourcequotas": cast("Stepped[Any]", self.quotas.reflector), **counted}

    def lead(self, leads: bool) -> None:
        begins = leads and not self.leads
        self.leads = leads
        if begins:
            self.keeper.mark_all()

    def work(self) -> bool:
        """Recount what is marked, once; whether anything was."""
        if not len(self.queue):
            return False
        self.clock.now += 2.0
        namespace = self.queue.get()
        assert namespace is not None
        try:
            self.keeper._sync_namespace(namespace)
        except ClusterError:
            self.keeper._mark(namespace, 0.3)
        finally:
            self.queue.done(namespace)
        return True

    def keep_house(self) -> None:
        """What the service does every second."""
        kinds, objects = self.keeper.kinds(), self.keeper.objects
        try:
            objects.ensure(kinds)
        except ClusterError:
            return
        synced = {kind for kind in kinds if objects.has_synced(kind)}
        if synced - self._synced:
            self.keeper.mark_all()
        self._synced = synced
        if self.leads:
            self.keeper.expiry.look()


def deliver(actor: Server | Controller, resource: str, most: int | None = None) -> None:
    """Let a watch of a replica tell so many events more, or all."""
    reflector = actor.reflectors.get(resource)
    if reflector is None:
        return
    actor.client.allowed.pop(reflector.path, None)
    if most is not None:
        actor.client.allowed[reflector.path] = most
    reflector.step()
    actor.client.allowed.pop(reflector.path, None)


def catch_up(*actors: Server | Controller) -> None:
    """Let all watches tell everything; twice, because a watch that is too old has to begin anew."""
    for actor in actors:
        for _ in range(2):
            for resource in list(actor.reflectors):
                deliver(actor, resource)


def in_store(store: ApiServer, name: str) -> StoredQuota:
    """A quota as anybody would read it now."""
    return decode_stored_quota(encoded(store.get(f"{NS}/resourcequotas/{name}")))


def outcome(request: Request) -> str:
    """`admitted`, or the text of the refusal."""
    return "admitted" if request.denied is None else str(request.denied.message)


def reserved(store: ApiServer, name: str) -> dict[str, dict[str, str]]:
    """UID -> amounts, as they stand in a quota."""
    account = in_store(store, name).account
    found = account.reservations if account else {}
    return {uid: {key: str(amount) for key, amount in one.amounts.items()} for uid, one in found.items()}


def used(store: ApiServer, name: str) -> dict[str, str]:
    """What people read."""
    return dict(store.get(f"{NS}/resourcequotas/{name}")["status"]["used"])


def set_hard(store: ApiServer, name: str, hard: str) -> None:
    """Somebody edits the quota; nobody has written its status yet."""
    store.update(f"{NS}/resourcequotas/{name}", lambda found: found["spec"].update(hard=texts(hard)))
