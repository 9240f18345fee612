"""Objects written straight into the store of a control plane: many in seconds, as if they had been there for long.

The API server reads JSON from its store whatever it writes itself; etcd takes JSON over HTTP on its client socket.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

BATCH = 100
"""Objects in a transaction; etcd takes 128."""


class Store:
    """The etcd of a control plane."""

    def __init__(self, plane_home: Path) -> None:
        self._connection = _UnixConnection(plane_home / "etcd.sock")

    def put(self, objects: Iterable[tuple[str, dict[str, Any]]]) -> int:
        """Write objects, each with the path below /registry; their number."""
        number = 0
        for batch in _batches(objects):
            puts = [
                {"requestPut": {"key": _encoded(f"/registry/{path}"), "value": _json(body)}} for path, body in batch
            ]
            self._call("/v3/kv/txn", {"success": puts})
            number += len(batch)
        return number

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _call(self, path: str, body: dict[str, Any]) -> None:
        self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise SystemExit(f"etcd: {response.status} {answer[:300]!r}")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _batches(objects: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    rest = iter(objects)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _json(body: dict[str, Any]) -> str:
    return _encoded(json.dumps(body, separators=(",", ":")))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
