"""Clients that stop in the middle of something, while others want to be served."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time

import pytest

from tests.standalone.manifests import create, file_of, pod, quota
from tests.standalone.server import ServerProcess, free_thread_pool

POLICIES = {"policies.yaml": file_of(quota("q", "pods=100k"))}
STALLED = 8
PATIENCE = 5.0
"""Seconds after which a call that should have been answered is given up: half of what an API server waits."""
JSON = {"Content-Type": "application/json"}
HEAD = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def _hello() -> bytes:
    """What a client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    speaking = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        speaking.do_handshake()
    return outgoing.read()


class Stalled:
    """Clients that have come to one point, and stay there until they are let go."""

    def __init__(self, server, count: int, sent: bytes, *, tls: bool) -> None:
        self.sockets = []
        self.over = False
        for _ in range(count):
            plain = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            self.sockets.append(plain)
            if tls:
                threading.Thread(target=self._speak, args=(server, plain, sent), daemon=True).start()
            elif sent:
                plain.sendall(sent)
        time.sleep(0.3)  # so that they are where they want to be; those that are not yet stall as well

    def _speak(self, server, plain, sent):
        with contextlib.suppress(OSError):
            connection = server.client_context().wrap_socket(plain.dup(), server_hostname="127.0.0.1")
            self.sockets.append(connection)
            if self.over:
                connection.close()
            connection.sendall(sent)

    def wait_until_given_up(self, within: float = 25.0) -> None:
        """Where they have begun to say something, and where the server lets them know."""
        for each in self.sockets:
            if isinstance(each, ssl.SSLSocket):
                each.settimeout(within)
                with contextlib.suppress(OSError):
                    each.recv(1000)

    def let_go(self) -> None:
        self.over = True
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.close()


@pytest.fixture(scope="module")
def server():
    with ServerProcess(POLICIES) as running:
        yield running


POINTS = {
    "before saying anything": (b"", False),
    "in the middle of the handshake": (_hello()[:60], False),
    "before the first request": (b"", True),
    "in the middle of the head": (HEAD, True),
    "in the middle of the body": (HEAD + b'Content-Length: 1000\r\n\r\n{"apiVersion":', True),
    "in the middle of a chunk": (HEAD + b'Transfer-Encoding: chunked\r\n\r\n400\r\n{"apiVersion":', True),
    "before a body that was asked for": (HEAD + b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n", True),
}


def send(connection, name):
    connection.request("POST", "/validate", json.dumps(create(pod(name, uid=name))), JSON)
    response = connection.getresponse()
    assert response.status == 200
    response.read()


@pytest.mark.parametrize(("sent", "tls"), POINTS.values(), ids=POINTS)
def test_clients_that_stall_do_not_stop_others_from_being_served(server, sent, tls):
    kept, new = server.new_connection(), server.new_connection(PATIENCE)
    send(kept, "before")
    kept.sock.settimeout(PATIENCE)
    stalled = Stalled(server, STALLED, sent, tls=tls)
    took = {}

    def call(number):
        name, connection = (("kept", kept), ("new", new))[number]
        started = time.monotonic()
        try:
            send(connection, name)
        except (OSError, http.client.HTTPException) as error:
            took[name] = repr(error)
        else:
            took[name] = round(time.monotonic() - started, 2)
        connection.close()

    try:
        with free_thread_pool(2, call):
            pass
    finally:
        stalled.let_go()
    assert all(isinstance(seconds, float) for seconds in took.values()), took


def test_stalled_clients_are_no_errors_of_the_server(server):
    """After a while the server gives up on them: that is no error of its own, and no news worth a traceback."""
    already = len(server.log())
    stalled = [Stalled(server, 1, sent, tls=tls) for sent, tls in POINTS.values()]
    for each in stalled:
        each.wait_until_given_up()
        each.let_go()
    assert server.create_pod() == "admitted"
    assert server.errors() == 0
    assert '"level":"error"' not in server.log()[already:]
