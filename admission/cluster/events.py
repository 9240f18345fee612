"""Events: what the author of an object should know, where `kubectl describe` shows it."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

import orjson

from admission.cluster.transport import ClusterError, Transport

log = logging.getLogger(__name__)

COMPONENT: Final = "quota-admission"
QUIET_SECONDS: Final = 300.0
"""How long the same is not said again of the same object."""
MAX_REMEMBERED: Final = 10_000
PATIENCE: Final = 5.0


class Regarding(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class EventRecorder:
    """Writes events, each reason of an object once in a while. What cannot be written is logged and forgotten."""

    def __init__(self, transport: Transport, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._clock = clock
        self._lock = threading.Lock()
        self._said: dict[tuple[str, str], float] = {}

    def warn(self, regarding: Regarding, reason: str, message: str) -> None:
        """Say what is wrong with an object; `reason` is one word in CamelCase."""
        if not self._is_news(regarding.uid, reason):
            return
        path = f"/api/v1/namespaces/{regarding.namespace}/events"
        try:
            self._transport.call("POST", path, orjson.dumps(_event(regarding, reason, message)), timeout=PATIENCE)
        except ClusterError as error:
            log.warning("an event could not be written", extra={"reason": reason, "problem": str(error)})

    def _is_news(self, uid: str, reason: str) -> bool:
        now = self._clock()
        with self._lock:
            if now < self._said.get((uid, reason), float("-inf")) + QUIET_SECONDS:
                return False
            if len(self._said) > MAX_REMEMBERED:
                self._said.clear()
            self._said[uid, reason] = now
        return True


def _event(regarding: Regarding, reason: str, message: str) -> dict[str, object]:
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{regarding.name}.{secrets.token_hex(8)}", "namespace": regarding.namespace},
        "involvedObject": {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
        },
        "reason": reason,
        "message": message,
        "type": "Warning",
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": COMPONENT},
    }
