"""Many calls to an API server from many threads, each on a connection that is kept open."""

from __future__ import annotations

import http.client
import ssl
import threading
from typing import Any
from urllib.parse import urlsplit

import orjson

from tests.cluster.plane import Answer, ControlPlane

Json = dict[str, Any]

TYPES = {"PATCH": "application/merge-patch+json"}


class Lost(Exception):
    """No answer came: nobody knows whether the call took effect."""


class Caller:
    """The admin of a control plane, or whoever the token belongs to. Each thread has a connection of its own."""

    def __init__(self, plane: ControlPlane, *, token: str = "", timeout: float = 60.0) -> None:
        address = urlsplit(plane.server)
        self._host, self._port = address.hostname or "", address.port
        self._context = ssl.create_default_context(cafile=str(plane.ca_file))
        self._authorization = f"Bearer {token or plane.token}"
        self._timeout = timeout
        self._own = threading.local()
        self._lock = threading.Lock()
        self._opened: list[http.client.HTTPConnection] = []

    def call(self, method: str, path: str, body: Json | None = None) -> Answer:
        """One call; raises Lost where no answer comes. A PATCH is a JSON merge patch.

        Only what changes nothing is made again where an old connection turns out to be dead.
        """
        try:
            return self._once(method, path, body)
        except Lost:
            if method != "GET":
                raise
            return self._once(method, path, body)

    def _once(self, method: str, path: str, body: Json | None) -> Answer:
        headers = {"Authorization": self._authorization, "Content-Type": TYPES.get(method, "application/json")}
        connection = self._connection()
        try:
            connection.request(method, path, None if body is None else orjson.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()  # the next call opens it again
            raise Lost(f"{method} {path}: {error!r}") from error
        is_json = response.getheader("Content-Type", "").startswith("application/json")
        return Answer(response.status, orjson.loads(content) if is_json else {"message": content.decode()})

    def done(self, method: str, path: str, body: Json | None = None) -> Json:
        """What is answered to a call that has to succeed."""
        answer = self.call(method, path, body)
        assert answer.status in (200, 201, 202), f"{method} {path}: {answer.status} {answer.message}"
        return answer.body

    def new_connection(self, timeout: float) -> tuple[http.client.HTTPSConnection, dict[str, str]]:
        """A connection for the caller alone, and the headers that say who calls: for watches."""
        made = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        return made, {"Authorization": self._authorization}

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            for connection in self._opened:
                connection.close()
            self._opened.clear()

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            found, _ = self.new_connection(self._timeout)
            self._own.connection = found
            with self._lock:
                self._opened.append(found)
        return found
