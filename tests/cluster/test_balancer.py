"""The balancer that stands for a Service."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.processes import Group
from tests.cluster.rig import Balancing


class Backend:
    """Says its name to whoever connects, then echoes; it can die."""

    def __init__(self, name: str, port: int = 0) -> None:
        self.name = name
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._open.append(connection)
                connection.sendall(self.name.encode())

    def die(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        for one in (self._socket, *self._open):
            one.close()


@pytest.fixture
def backends() -> Iterator[list[Backend]]:
    made = [Backend(name) for name in ("a", "b", "c")]
    yield made
    for one in made:
        with contextlib.suppress(OSError):
            one.die()


@pytest.fixture
def balancing(backends: list[Backend], tmp_path: Path) -> Iterator[Balancing]:
    group = Group()
    made = Balancing([one.port for one in backends], tmp_path, group)
    yield made
    group.kill()
    made.close()


def connect(balancing: Balancing) -> tuple[str, socket.socket]:
    made = socket.create_connection(("127.0.0.1", balancing.port), timeout=5)
    return made.recv(1).decode(), made


def asked(balancing: Balancing, times: int) -> list[str]:
    found = []
    for _ in range(times):
        name, made = connect(balancing)
        made.close()
        found.append(name)
    return found


def test_connections_go_to_the_backends_in_turn(balancing: Balancing) -> None:
    assert asked(balancing, 6) == ["a", "b", "c"] * 2


def test_a_dead_backend_is_passed_over_and_comes_back(balancing: Balancing, backends: list[Backend]) -> None:
    backends[1].die()
    assert set(asked(balancing, 4)) == {"a", "c"}
    backends[1] = Backend("b", backends[1].port)
    assert set(asked(balancing, 4)) == {"a", "b", "c"}


def test_the_connections_of_a_backend_that_dies_are_cut(balancing: Balancing, backends: list[Backend]) -> None:
    name, made = connect(balancing)
    assert name == "a"
    backends[0].die()
    with contextlib.suppress(ConnectionError):
        assert made.recv(1) == b""
    made.close()


def test_without_a_backend_a_connection_is_ended_at_once(balancing: Balancing, backends: list[Backend]) -> None:
    for one in backends:
        one.die()
    made = socket.create_connection(("127.0.0.1", balancing.port), timeout=5)
    with contextlib.suppress(ConnectionError):
        assert made.recv(1) == b""
    made.close()
