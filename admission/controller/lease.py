"""Leader election by a Lease, in the way of client-go: of several replicas, at most one leads at a time.

Whoever writes its name into the Lease leads, and writes again to go on. Another takes over when the record has not
changed for as long as the Lease says, measured by its own clock from when it saw the record first. Who leads stops
earlier than that by itself, measured from when its last successful write was sent. So no two clocks are compared, and a
replica that is paused or cut off does not lead any more when it comes back.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson

from admission.cluster.transport import ApiError, ClusterError, Transport

log = logging.getLogger(__name__)

NEVER: Final = float("-inf")


class Record(NamedTuple):
    """What a Lease says; times are text, because nobody compares them."""

    holder: str
    lease_seconds: int
    acquired: str
    renewed: str
    transitions: int


class Sighting(NamedTuple):
    """A record, and since when it has been seen as it is, by the observer's monotonic clock."""

    record: Record
    since: float


def see(before: Sighting | None, record: Record | None, now: float) -> Sighting | None:
    """What is known after the Lease was read, at `now`; `record` is None where there is no Lease."""
    if record is None:
        return None
    return before if before is not None and before.record == record else Sighting(record, now)


def claim(seen: Sighting | None, identity: str, lease_seconds: int, now: float, stamp: str) -> Record | None:
    """The record to write in order to lead, or to go on leading; None while another holds the Lease.

    `stamp` is the present time of the day, in the format of MicroTime.
    """
    if seen is None:
        return Record(identity, lease_seconds, stamp, stamp, 0)
    held = seen.record
    if held.holder == identity:
        return held._replace(lease_seconds=lease_seconds, renewed=stamp)
    # Who holds it may have been told other times than we: the longer one is safe for both.
    if held.holder and now < seen.since + max(lease_seconds, held.lease_seconds):
        return None
    return Record(identity, lease_seconds, stamp, stamp, held.transitions + 1)


def unique_identity() -> str:
    """A name that no other process has had or will have, not even this one after a restart."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:12]}"


def micro_time(moment: datetime) -> str:
    """A time as Kubernetes writes its MicroTime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class _Lease(NamedTuple):
    body: dict[str, Any]
    record: Record


class Elector:
    """Takes part in the election, in a thread of its own."""

    def __init__(  # noqa: PLR0913 - most have a default
        self,
        transport: Transport,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_seconds: int = 15,
        renew_seconds: float = 10.0,
        retry_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        on_started: Callable[[], None] | None = None,
        on_stopped: Callable[[], None] | None = None,
    ) -> None:
        """`identity` must belong to this process alone: see `unique_identity`.

        `lease_seconds` is how long others wait for a sign of life, `renew_seconds` after how long without a successful
        write leadership is given up, `retry_seconds` about how long to wait between attempts; each has to be longer
        than the next (ValueError). The callbacks run in the elector's thread, so they must be quick; `on_stopped` may
        be late where a call to the API server hangs, `is_leader` never is.
        """
        if not 0 < retry_seconds < renew_seconds < lease_seconds:
            raise ValueError("expected 0 < retry_seconds < renew_seconds < lease_seconds")
        self.identity = identity
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._callbacks = {True: on_started, False: on_stopped}
        self._seen: Sighting | None = None
        self._leads_until = NEVER
        self._announced = False
        self._problem = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"elector {namespace}/{name}", daemon=True)

    # -- asking

    def is_leader(self) -> bool:
        """Whether this replica leads at this moment."""
        return self._clock() < self._leads_until

    @property
    def holder(self) -> str:
        """Who holds the Lease, as last seen; empty where nobody does."""
        seen = self._seen
        return seen.record.holder if seen else ""

    # -- running

    def start(self) -> None:
        """Begin to take part."""
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Stop leading, then release the Lease, so that another takes over at once; waits up to this long for it."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def attempt(self) -> None:
        """Try once to get the Lease, or to keep it; raises ClusterError."""
        lease = self._read()
        now = self._clock()
        self._seen = see(self._seen, lease.record if lease else None, now)
        wanted = claim(self._seen, self.identity, self._lease_seconds, now, micro_time(datetime.now(UTC)))
        if wanted is None:
            self._leads_until = NEVER
            return
        sent = self._clock()
        self._write(lease, wanted)
        self._leads_until = sent + self._renew_seconds
        self._seen = see(self._seen, wanted, self._clock())

    def release(self) -> None:
        """Stop leading, and say so in the Lease; raises ClusterError."""
        self._leads_until = NEVER
        lease = self._read()
        if lease is None or lease.record.holder != self.identity:
            return
        stamp = micro_time(datetime.now(UTC))
        self._write(lease, Record("", 1, stamp, stamp, lease.record.transitions))

    def _run(self) -> None:
        while not self._stop.is_set():
            self._try(self.attempt)
            self._announce()
            self._stop.wait(self._pause())
        self._leads_until = NEVER
        self._announce()
        self._try(self.release)

    def _try(self, work: Callable[[], None]) -> None:
        problem = ""
        try:
            work()
        except ClusterError as error:
            # That another was faster is how an election goes.
            if not (isinstance(error, ApiError) and error.status == 409):
                problem = str(error)
        except Exception as error:  # a bug must not end the thread: nobody would ever lead again
            problem = type(error).__name__
        if problem and problem != self._problem:
            log.warning("leader election failed", extra={"lease": self._name, "problem": problem})
        self._problem = problem

    def _announce(self) -> None:
        leads = self.is_leader()
        if leads == self._announced:
            return
        self._announced = leads
        log.info("leading" if leads else "no longer leading", extra={"lease": self._name, "identity": self.identity})
        callback = self._callbacks[leads]
        if callback is not None:
            self._try(callback)

    def _pause(self) -> float:
        """Seconds until the next attempt: jitter keeps candidates apart, and the end of leadership is not missed."""
        if self._announced:
            wait = self._retry_seconds * random.uniform(0.8, 1.0)  # noqa: S311
            return max(0.0, min(wait, self._leads_until - self._clock()))
        return self._retry_seconds * random.uniform(1.0, 1.5)  # noqa: S311

    # -- the Lease

    @property
    def _collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"

    def _call(self, method: str, path: str, body: bytes | None = None) -> Any:
        # A call that hangs must leave time for another attempt, and must not outlast leadership by much.
        timeout = self._renew_seconds / 4
        left = self._leads_until - self._clock()
        if left > 0:
            timeout = min(timeout, max(left, 0.1))
        return orjson.loads(self._transport.call(method, path, body, timeout=timeout).body)

    def _read(self) -> _Lease | None:
        try:
            body = self._call("GET", f"{self._collection}/{self._name}")
        except ApiError as error:
            if error.status == 404 and error.reason == "NotFound":
                return None
            raise
        return _Lease(body, _record(body.get("spec") or {}))

    def _write(self, lease: _Lease | None, record: Record) -> None:
        """Write if nobody else has since the Lease was read: its resourceVersion goes along."""
        if lease is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            body: dict[str, Any] = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            self._call("POST", self._collection, orjson.dumps({**body, "spec": _spec(record)}))
            return
        metadata = {key: value for key, value in lease.body["metadata"].items() if key != "managedFields"}
        body = {**lease.body, "metadata": metadata, "spec": {**(lease.body.get("spec") or {}), **_spec(record)}}
        self._call("PUT", f"{self._collection}/{self._name}", orjson.dumps(body))


def _record(spec: dict[str, Any]) -> Record:
    return Record(
        spec.get("holderIdentity") or "",
        spec.get("leaseDurationSeconds") or 0,
        spec.get("acquireTime") or "",
        spec.get("renewTime") or "",
        spec.get("leaseTransitions") or 0,
    )


def _spec(record: Record) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.lease_seconds,
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }
