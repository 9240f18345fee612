"""The ledger that is kept on the API server: see `admission.ledger` for its rules, `commit` for how it is written.

The counter lives where the objects live. No lock service and no leader stands in the way of a request: replicas race,
and one compare-and-swap of the quota's status decides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from admission.cluster.caches import PolicyCaches
from admission.cluster.claims import paid_by_pods
from admission.cluster.commit import Batch, Request, Rules, not_recorded
from admission.cluster.queue import BatchQueue
from admission.cluster.quotas import StoredQuota
from admission.cluster.stats import LedgerStats
from admission.cluster.transport import Transport
from admission.errors import Denied
from admission.ledger import Application, Identity
from admission.quota.check import Charge, LimitedResource, check
from admission.quota.observe import Surroundings
from admission.quota.observed import Observed


class ApiServerLedger:
    """Implements `Ledger`. Safe to use from many threads."""

    def __init__(
        self,
        transport: Transport,
        caches: PolicyCaches,
        limited: Sequence[LimitedResource] = (),
        *,
        writes: Callable[[], bool] = lambda: True,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`waiting` is entered by a thread for as long as it waits.

        `writes` says whether the count is ours to keep; where it is the API server's, requests are only judged."""
        self._transport = transport
        self._caches = caches
        self._limited = tuple(limited)
        self._writes = writes
        self._waiting = waiting
        self._lock = threading.Lock()
        self._queues: dict[str, BatchQueue[Request]] = {}
        self.stats = LedgerStats()

    def surroundings(self, namespace: str) -> Surroundings:
        """What decides an object's usage beside the object itself."""
        return Surroundings(self._caches.devices(), paid_by_pods(self._transport, namespace))

    def reserve(self, application: Application) -> Sequence[Charge]:
        """Judge, and record what is admitted; raises Denied."""
        namespace = application.identity.namespace
        quotas = self._caches.quotas.of(namespace)
        request = Request(application, application.quota_request(), time.monotonic())
        if not self._concerned(quotas, application.identity.kind):
            return check(request.asked, [quota.state for quota in quotas])
        with self._waiting():
            dealt_with = self._queue(namespace).submit(request, application.deadline)
        if not dealt_with:
            raise Denied(not_recorded(quotas[0].name if quotas else "", "others came first"), reason="not-recorded")
        if request.failure is not None:
            raise request.failure
        if request.denied is not None:
            raise request.denied
        return [request.charges[name] for name in sorted(request.charges)]

    def renew(self, identity: Identity, new: Observed, old: Observed | None, deadline: float) -> None:
        """Nothing: what quotas do not judge is left to the recount."""

    def release(self, identity: Identity, old: Observed, deadline: float) -> None:
        """Nothing: only the recount lowers what is used."""

    def _concerned(self, quotas: Sequence[StoredQuota], kind: str) -> bool:
        """Whether any quota or limited resource could have a say."""
        devices = self._caches.devices()
        return bool(self._limited) or any(quota.policy.names_for(kind, devices).names for quota in quotas)

    def _queue(self, namespace: str) -> BatchQueue[Request]:
        queue = self._queues.get(namespace)
        if queue is None:
            with self._lock:
                queue = self._queues.get(namespace)
                if queue is None:
                    queue = self._queues[namespace] = BatchQueue(lambda batch: self._work(namespace, batch))
        return queue

    def _work(self, namespace: str, requests: list[Request]) -> None:
        self.stats.batches += 1
        self.stats.batched += len(requests)
        rules = Rules(self._limited, self._caches.devices(), self._writes())
        try:
            Batch(self._transport, self._caches.quotas, namespace, rules, self.stats).run(requests)
        except Exception as error:  # each caller is to know, not the first alone
            for request in requests:
                request.failure = error
