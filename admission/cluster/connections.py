"""Connections to the API server for short calls, kept open between them.

The same as the library's pool for what is needed here, at little more than half of its cost: it is called for every
object that is admitted (see `docs/performance.md`). Long streams, and API servers behind a proxy, are left to the
library.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

MAX_IDLE: Final = 64
"""Connections kept open; what comes back beyond that is closed."""
MAX_IDLE_SECONDS: Final = 60.0
"""How long one is kept: API servers close theirs after 90 s."""


class RawResponse(NamedTuple):
    """What came back."""

    status: int
    body: bytes


class _Idle(NamedTuple):
    connection: http.client.HTTPSConnection
    since: float


class Connections:
    """A pool. Safe to use from many threads; each connection serves one call at a time."""

    def __init__(self, url: str, context: Callable[[], ssl.SSLContext], server_hostname: str | None = None) -> None:
        """`url` is one of `https`. `context` is asked for each new connection.

        `server_hostname` is given where the certificate is for another name.
        """
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._prefix = parts.path.rstrip("/")
        self._context = context
        self._server_hostname = server_hostname
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []

    def call(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> RawResponse:
        """One call; raises OSError or http.client.HTTPException, and then nobody knows whether it took effect."""
        connection = self._take(timeout)
        try:
            connection.request(method, self._prefix + target, body, dict(headers))
            response = connection.getresponse()
            found = RawResponse(response.status, response.read())
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._give_back(connection)
        return found

    def _take(self, timeout: float) -> http.client.HTTPSConnection:
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None:
                return self._new(timeout)
            if _is_fit(idle):
                idle.connection.sock.settimeout(timeout)
                return idle.connection
            idle.connection.close()

    def _new(self, timeout: float) -> http.client.HTTPSConnection:
        return _NamedConnection(self._host, self._port, timeout, self._context(), self._server_hostname)

    def _give_back(self, connection: http.client.HTTPSConnection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(_Idle(connection, time.monotonic()))
                return
        connection.close()

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for found in idle:
            found.connection.close()


class _NamedConnection(http.client.HTTPSConnection):
    """Expects a certificate for a name that may be another than the host's."""

    def __init__(self, host: str, port: int, timeout: float, context: ssl.SSLContext, name: str | None) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls = context
        self._name = name

    def connect(self) -> None:
        """Connect and shake hands."""
        if self._name is None:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _is_fit(idle: _Idle) -> bool:
    """Whether an idle connection can be used: one with something to read has been closed by the other side."""
    if time.monotonic() - idle.since > MAX_IDLE_SECONDS or idle.connection.sock is None:
        return False
    with contextlib.suppress(OSError, ValueError):
        poll = select.poll()
        poll.register(idle.connection.sock, select.POLLIN)
        return not poll.poll(0)
    return False
