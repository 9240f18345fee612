"""How the server ends, and what is left when it comes back."""

import contextlib
import json
import os
import signal
import socket
import threading
import time

import pytest

from tests.standalone.manifests import create, delete, file_of, fresh_uid, namespace, pod, quota, resized, update
from tests.standalone.server import ServerProcess, eventually, free_thread_pool

NAMESPACES = [f"ns-{number}" for number in range(20)]


def policies_of(ns):
    return file_of(
        namespace(ns),
        quota("counted", "pods=1k requests.cpu=1k", ns=ns),
        quota("stated", "pods=1k requests.cpu=1k", "pods=7 requests.cpu=100m", ns=ns),
        pod("there", ns=ns, uid=f"{ns}-there", requests="cpu=50m"),
    )


POLICIES = {f"{ns}.yaml": policies_of(ns) for ns in NAMESPACES}


@pytest.fixture(scope="module")
def shared():
    with ServerProcess(POLICIES) as running:
        yield running


@pytest.fixture
def server(shared):
    """Running, whatever the test before has done to it."""
    if shared.process.poll() is not None:
        shared.start()
    return shared


@pytest.fixture(scope="module")
def unused():
    return iter(NAMESPACES)


@pytest.fixture
def ns(unused):
    """A namespace that no other test uses."""
    return next(unused)


def fill(server, ns):
    """A bit of everything."""

    def made(name, cpu):
        return pod(name, ns=ns, uid=f"{ns}-{name}", requests=f"cpu={cpu}")

    def resize(name, before, after):
        return update(made(name, before), resized(made(name, before), f"cpu={after}"), sub_resource="resize")

    reviews = [create(made(f"a{index}", "300m")) for index in range(5)]
    reviews += [delete(made("a0", "300m")), resize("a1", "300m", "700m"), resize("there", "50m", "60m")]
    reviews += [resize("unseen", "1", "2"), delete(made("never", "10m"))]
    for review in reviews:
        assert server.validate(review) == "admitted"
    assert server.usage(ns) == FILLED


FILLED = {
    # 0.3 * 3 + 0.7 + 0.06 + 2; the object nobody knew exists now as well
    "counted": {"pods": "6", "requests.cpu": "3660m"},
    # 0.1 + 0.3 * 3 + 0.7 + (0.06 - 0.05) + (2 - 1) - 0.01
    "stated": {"pods": "10", "requests.cpu": "2700m"},
}


@pytest.mark.parametrize(
    "end",
    [lambda server: server.stop(signal.SIGTERM), lambda server: server.kill9()],
    ids=["SIGTERM", "kill -9"],
)
def test_after_a_restart_what_is_used_is_the_same(server, ns, end):
    fill(server, ns)
    end(server)
    server.start()
    assert server.usage(ns) == FILLED
    assert server.create_pod(ns, uid=f"{ns}-a2", requests="cpu=300m") == "admitted"
    assert server.usage(ns) == FILLED


def test_without_a_state_file_a_killed_server_comes_up_at_once_as_well_and_remembers_nothing():
    """Nothing tells the new process that the old one is gone but the ports."""
    with ServerProcess({"a.yaml": policies_of("ns")}, state=False) as server:
        for _ in range(2):
            assert server.usage()["counted"]["pods"] == "1"
            assert server.create_pod(requests="cpu=1m") == "admitted"
            server.kill9()
            server.start()
        assert server.usage()["counted"]["pods"] == "1"


def test_a_killed_worker_is_replaced_and_nothing_is_forgotten(server, ns):
    fill(server, ns)
    (worker,) = server.worker_pids()
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: server.worker_pids() not in ([], [worker]), within=10)

    def served():
        with contextlib.suppress(OSError):
            return server.usage(ns) == FILLED
        return False

    eventually(served, within=10)
    connection = server.new_connection()
    body = json.dumps(create(pod("after", ns=ns, uid=f"{ns}-after", requests="cpu=1")))
    connection.request("POST", "/validate", body, {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    connection.close()
    server.write(f"{ns}.yaml", file_of(quota("new", "pods=5", ns=ns)))
    eventually(lambda: "new" in server.usage(ns), within=5)


# -- signals


class Halfway:
    """A call whose second half is still to be sent."""

    def __init__(self, server, ns, name):
        body = json.dumps(create(pod(name, ns=ns, uid=f"{ns}-{name}", requests="cpu=1"))).encode()
        head = "POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        self.connection = server.tls_socket()
        self.connection.sendall(head.encode() + body[:100])
        self.rest = body[100:]

    def finish(self):
        """Status and body of the answer."""
        with self.connection:
            self.connection.sendall(self.rest)
            received = b""
            while part := self.connection.recv(65536):
                received += part
        head, _, body = received.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("with_signal", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_is_answered_and_the_server_ends_well(server, ns, with_signal):
    halves = [Halfway(server, ns, f"half-{number}") for number in range(3)]
    time.sleep(0.3)  # they are being read
    server.process.send_signal(with_signal)
    time.sleep(0.5)
    started = time.monotonic()
    for half in halves:
        status, answer = half.finish()
        assert status == 200
        assert answer["response"]["allowed"]
    assert server.process.wait(10) == 0
    assert time.monotonic() - started < 5
    server.start()
    assert server.usage(ns)["counted"]["pods"] == "4"


@pytest.mark.parametrize("with_signal", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("clients", ["kept", "silent"])
def test_a_signal_ends_the_server_within_a_few_seconds(server, with_signal, clients):
    already = len(server.log())
    with contextlib.ExitStack() as opened:
        if clients == "kept":
            server.create_pod("elsewhere")
        else:
            for port in [server.port, server.admin_port] * 3:
                opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        started = time.monotonic()
        assert server.stop(with_signal, leave_connections=True) == 0
        assert time.monotonic() - started < 8
    assert '"level":"error"' not in server.log()[already:]


def test_a_signal_to_the_whole_group_ends_it_as_well(server):
    """As Ctrl-C in a terminal: main process and worker are told at once, and the first tells the second again."""
    os.killpg(server.process.pid, signal.SIGINT)
    assert server.process.wait(10) == 0
    server.start()
    os.killpg(server.process.pid, signal.SIGINT)
    assert server.process.wait(10) == 0


def test_whatever_was_admitted_while_it_was_being_ended_is_there_afterwards(server, ns):
    admitted, unknown = set(), set()
    ended = threading.Event()

    def work(number):
        while not ended.is_set():
            uid = fresh_uid(f"busy-{number}")
            try:
                answer = server.create_pod(ns, uid=uid, requests="cpu=1m")
            except Exception:
                unknown.add(uid)
                return
            assert answer == "admitted"
            admitted.add(uid)

    with free_thread_pool(8, work):
        eventually(lambda: len(admitted) > 30)
        assert server.stop(leave_connections=True) == 0
        ended.set()
    server.start()
    pods = int(server.usage(ns)["counted"]["pods"]) - 1
    assert len(admitted) <= pods <= len(admitted) + len(unknown)
