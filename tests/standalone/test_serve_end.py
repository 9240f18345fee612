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

POLICIES = {
    "policies.yaml": file_of(
        namespace(),
        quota("counted", "pods=1k requests.cpu=1k"),
        quota("stated", "pods=1k requests.cpu=1k", "pods=7 requests.cpu=100m"),
        pod("there", uid="there", requests="cpu=50m"),
    )
}


@pytest.fixture
def server():
    with ServerProcess(POLICIES) as running:
        yield running


def fill(server):
    """A bit of everything."""
    for index in range(5):
        assert server.create_pod(uid=f"pod-a{index}", requests="cpu=300m") == "admitted"
    first = pod("pod-a0", uid="pod-a0", requests="cpu=300m")
    assert server.validate(delete(first)) == "admitted"
    second = pod("pod-a1", uid="pod-a1", requests="cpu=300m")
    assert server.validate(update(second, resized(second, "cpu=700m"), sub_resource="resize")) == "admitted"
    there = pod("there", uid="there", requests="cpu=50m")
    assert server.validate(update(there, resized(there, "cpu=60m"), sub_resource="resize")) == "admitted"
    unseen = pod("unseen", uid="unseen", requests="cpu=1")
    assert server.validate(update(unseen, resized(unseen, "cpu=2"), sub_resource="resize")) == "admitted"
    assert server.validate(delete(pod("never", uid="never", requests="cpu=10m"))) == "admitted"
    return server.usage()


FILLED = {
    # 0.3 * 3 + 0.7 + 0.06 + 2; the object nobody knew exists now as well
    "counted": {"pods": "6", "requests.cpu": "3660m"},
    # 0.1 + 0.3 * 3 + 0.7 + (0.06 - 0.05) + (2 - 1) - 0.01
    "stated": {"pods": "10", "requests.cpu": "2700m"},
}


@pytest.mark.parametrize(
    "end",
    [
        lambda server: server.stop(signal.SIGTERM),
        lambda server: server.stop(signal.SIGINT),
        lambda server: server.kill9(),
    ],
    ids=["SIGTERM", "SIGINT", "kill -9"],
)
def test_after_a_restart_what_is_used_is_the_same(server, end):
    assert fill(server) == FILLED
    end(server)
    server.start()
    assert server.usage() == FILLED
    assert server.create_pod(uid="pod-a2", requests="cpu=300m") == "admitted"
    assert server.usage() == FILLED


@pytest.mark.parametrize("state", [True, False], ids=["with a state file", "without"])
def test_a_killed_server_comes_up_at_once_on_the_same_ports(state):
    with ServerProcess(POLICIES, state=state) as server:
        for restarts in range(3):
            assert server.usage()["counted"]["pods"] == str(1 + (restarts if state else 0)), (
                "there is no memory but the file"
            )
            assert server.create_pod(requests="cpu=1m") == "admitted"
            server.kill9()
            server.start()


def test_a_killed_worker_is_replaced_and_nothing_is_forgotten(server):
    assert fill(server) == FILLED
    (worker,) = server.worker_pids()
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: server.worker_pids() not in ([], [worker]), within=10)

    def served():
        with contextlib.suppress(OSError):
            return server.usage() == FILLED
        return False

    eventually(served, within=10)
    connection = server.new_connection()
    connection.request("POST", "/validate", json.dumps(create(pod("after", uid="after", requests="cpu=1"))),
                       {"Content-Type": "application/json"})  # fmt: skip
    assert connection.getresponse().status == 200
    connection.close()
    server.write("policies.yaml", file_of(quota("new", "pods=5")))
    eventually(lambda: "new" in server.usage(), within=5)


# -- signals


class Halfway:
    """A call whose second half is still to be sent."""

    def __init__(self, server, uid):
        body = json.dumps(create(pod(uid, uid=uid, requests="cpu=1"))).encode()
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
def test_what_is_under_way_is_answered_and_the_server_ends_well(server, with_signal):
    halves = [Halfway(server, f"half-{number}") for number in range(3)]
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
    assert server.usage()["counted"]["pods"] == "4"


@pytest.mark.parametrize("with_signal", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("clients", ["kept", "silent"])
def test_a_signal_ends_the_server_within_a_few_seconds(server, with_signal, clients):
    with contextlib.ExitStack() as opened:
        if clients == "kept":
            server.create_pod(requests="cpu=1")
        else:
            for port in [server.port, server.admin_port] * 3:
                opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        started = time.monotonic()
        assert server.stop(with_signal, leave_connections=True) == 0
        assert time.monotonic() - started < 8
    assert not [line for line in server.log_lines() if line["level"] == "error"]


def test_a_signal_to_the_whole_group_ends_it_as_well(server):
    """As Ctrl-C in a terminal: main process and worker are told at once, and the first tells the second again."""
    for _ in range(2):
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.process.wait(10) == 0
        server.start()


def test_whatever_was_admitted_while_it_was_being_ended_is_there_afterwards(server):
    admitted, unknown = set(), set()
    ended = threading.Event()

    def work(number):
        while not ended.is_set():
            uid = fresh_uid(f"busy-{number}")
            try:
                answer = server.create_pod(uid=uid, requests="cpu=1m")
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
    pods = int(server.usage()["counted"]["pods"]) - 1
    assert len(admitted) <= pods <= len(admitted) + len(unknown)
