"""What really was stored, in its order: pods and quotas as etcd has them, read from the first change on.

It is read from etcd itself and not from a watch of the API server: that one ends with each restart of the API server,
whose cache then begins anew and no longer has what happened meanwhile.
"""

from __future__ import annotations

import base64
import http.client
import socket
import threading
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from admission.quantity import Quantity

Json = dict[str, Any]

SOCKET = "etcd.sock"
STORED_AS_JSON = "--storage-media-type=application/json"
"""The API server's flag without which the history cannot be read."""
PODS, QUOTAS = "/registry/pods/", "/registry/resourcequotas/"
BEGIN, END = PODS, "/registry/resourcequotas0"  # all between them in the order of etcd, these two included
FINISHED = ("Succeeded", "Failed")
Amounts = dict[str, int]


@dataclass
class Breach:
    """More was there than a quota allowed."""

    quota: str
    resource: str
    was: int
    hard: int
    revision: int


@dataclass
class Tally:
    """What one quota allowed and what was there, as time went by."""

    hard: deque[tuple[float, Amounts]] = field(default_factory=deque)
    """The limits with the moment from which on they held; the last is in force."""
    peak: Amounts = field(default_factory=dict)
    writes: int = 0

    def set_hard(self, now: float, hard: Amounts) -> None:
        self.writes += 1
        if not self.hard or self.hard[-1][1] != hard:
            self.hard.append((now, hard))

    def allowed(self, resource: str, now: float, grace: float) -> int | None:
        """The largest limit in force since `grace` seconds ago; None where there was none."""
        while len(self.hard) > 1 and self.hard[1][0] < now - grace:
            self.hard.popleft()
        return max((hard[resource] for _, hard in self.hard if resource in hard), default=None)


class History:
    """Live amounts by namespace, after each change; breaches of what the quotas allowed.

    `grace`: for so long after a limit was lowered what was under way before may still arrive. A lowered limit evicts
    nobody, so only what is added counts.
    """

    def __init__(self, namespaces: list[str], *, grace: float = 15.0) -> None:
        self.namespaces = set(namespaces)
        self.breaches: list[Breach] = []
        self.quotas: dict[str, dict[str, Tally]] = defaultdict(lambda: defaultdict(Tally))
        self.created = 0
        self.revision = 0
        self._grace = grace
        self._live: dict[str, dict[str, Amounts]] = defaultdict(dict)
        self._stored: dict[str, set[str]] = defaultdict(set)
        self._totals: dict[str, Counter[str]] = defaultdict(Counter)
        self._lock = threading.Lock()

    # -- what is there now

    def stored(self, namespace: str) -> list[str]:
        """The names of the pods that are there, finished ones too."""
        with self._lock:
            return list(self._stored[namespace])

    def live(self, namespace: str) -> int:
        """How many pods are neither finished nor gone."""
        with self._lock:
            return len(self._live[namespace])

    def total(self, namespace: str) -> Amounts:
        """What the live pods amount to."""
        with self._lock:
            return dict(self._totals[namespace])

    # -- changes

    def take(self, key: str, value: Json | None, revision: int, now: float) -> None:
        """One change of the store; no value where the object is gone."""
        with self._lock:
            self.revision = max(self.revision, revision)
            for prefix, step in ((PODS, self._pod), (QUOTAS, self._quota)):
                if key.startswith(prefix):
                    namespace, _, name = key.removeprefix(prefix).partition("/")
                    if namespace in self.namespaces:
                        step(namespace, name, value, now)

    def _pod(self, namespace: str, name: str, pod: Json | None, now: float) -> None:
        if pod is None:
            self._stored[namespace].discard(name)
        elif name not in self._stored[namespace]:
            self._stored[namespace].add(name)
            self.created += 1
        live = self._live[namespace]
        if pod is not None and is_live(pod):
            if name not in live:
                live[name] = pod_amounts(pod)
                self._totals[namespace].update(live[name])
                self._judge(namespace, now)
        elif name in live:
            self._totals[namespace].subtract(live.pop(name))

    def _quota(self, namespace: str, name: str, quota: Json | None, now: float) -> None:
        status = (quota or {}).get("status", {})
        hard = {resource: thousandths(amount) for resource, amount in status.get("hard", {}).items()}
        self.quotas[namespace][name].set_hard(now, hard)

    def _judge(self, namespace: str, now: float) -> None:
        """After something was added."""
        for name, tally in self.quotas[namespace].items():
            for resource, amount in self._totals[namespace].items():
                allowed = tally.allowed(resource, now, self._grace)
                if allowed is None:
                    continue
                tally.peak[resource] = max(tally.peak.get(resource, 0), amount)
                if amount > allowed:
                    self.breaches.append(Breach(f"{namespace}/{name}", resource, amount, allowed, self.revision))


def is_live(pod: Json) -> bool:
    """Whether quotas count it: neither finished nor deleted without a period of grace."""
    meta = pod["metadata"]
    is_gone = "deletionTimestamp" in meta and not meta.get("deletionGracePeriodSeconds")
    return not is_gone and pod.get("status", {}).get("phase") not in FINISHED


def pod_amounts(pod: Json) -> Amounts:
    """What a pod is counted as, in thousandths. Pods here have ordinary containers only, all with requests."""
    found: Counter[str] = Counter({"pods": 1000})
    for container in pod["spec"]["containers"]:
        for resource, amount in container.get("resources", {}).get("requests", {}).items():
            found[f"requests.{resource}"] += thousandths(amount)
    return dict(found)


def thousandths(amount: str) -> int:
    """A quantity as an integer."""
    return Quantity.parse(str(amount)).milli_value()


class Recorder(threading.Thread):
    """Feeds a history from etcd, for as long as that runs or until it is closed."""

    def __init__(self, home: Path, history: History) -> None:
        super().__init__(name="recorder", daemon=True)
        self.history = history
        self.error: BaseException | None = None
        self._connection = _UnixConnection(home / SOCKET)
        self._closing = False
        asked = {"key": _encoded(BEGIN), "range_end": _encoded(END), "start_revision": "1"}
        self._connection.request("POST", "/v3/watch", orjson.dumps({"create_request": asked}))
        self._response = self._connection.getresponse()
        assert self._response.status == 200, self._response.read()

    def run(self) -> None:
        try:
            while line := self._response.readline():
                self._take(orjson.loads(line)["result"])
            self._failed(EOFError("the watch has ended"))
        except BaseException as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if not self._closing:
            self.error = error

    def close(self) -> None:
        """Stop reading; raises what went wrong before."""
        self._closing = True
        self._connection.close_now()
        self.join(10)
        if self.error is not None:
            raise self.error

    def _take(self, result: Json) -> None:
        assert not result.get("canceled"), result  # such as for a compaction that overtook it
        now = time.monotonic()
        for event in result.get("events", ()):
            stored = event["kv"]
            value = None if event.get("type") == "DELETE" else orjson.loads(base64.b64decode(stored["value"]))
            self.history.take(base64.b64decode(stored["key"]).decode(), value, int(stored["mod_revision"]), now)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))
        self._raw = self.sock

    def close_now(self) -> None:
        """Wake up who reads."""
        self._raw.shutdown(socket.SHUT_RDWR)
        self.close()


def _encoded(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
