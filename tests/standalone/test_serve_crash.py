"""Sixteen clients on one nearly full quota, and a server that is killed twenty times in the middle of it.

The promises: what was answered `allowed` is never forgotten, what is used never exceeds what is allowed, and only calls
whose answer was lost may count beside those that were answered.
"""

import contextlib
import http.client
import random
import threading
import time

import pytest

from tests.standalone.manifests import create, delete, file_of, fresh_uid, pod, quota
from tests.standalone.server import ServerProcess, eventually, free_thread_pool

CLIENTS = 16
KILLS = 20
HARD_PODS, HARD_MILLICORES, EACH = 40, 9_900, 300
"""Room for 33 pods by CPU."""
ROOM = HARD_MILLICORES // EACH
POLICIES = {"q.yaml": file_of(quota("q", f"pods={HARD_PODS} requests.cpu={HARD_MILLICORES}m"))}


def made(uid):
    return pod(uid, uid=uid, requests=f"cpu={EACH}m")


class Record:
    """What the clients know."""

    def __init__(self):
        self.lock = threading.Lock()
        self.admitted: set[str] = set()
        self.creating: set[str] = set()
        """Sent, and not answered (yet)."""
        self.deleting: set[str] = set()
        self.refused = 0

    def bounds(self):
        """How many pods may be in use: those that surely are, and those that could be."""
        return len(self.admitted - self.deleting), len(self.admitted | self.deleting | self.creating)


def client(server, record, stop, number):
    """Creates, and deletes some of it again, until the server is gone."""
    choice = random.Random(number)
    mine = []
    while not stop.is_set():
        if mine and choice.random() < 0.5:
            uid = mine.pop(choice.randrange(len(mine)))
            with record.lock:
                record.deleting.add(uid)
            server.validate(delete(made(uid)))
            with record.lock:
                record.deleting.discard(uid)
                record.admitted.discard(uid)
            continue
        uid = fresh_uid("crash")
        with record.lock:
            record.creating.add(uid)
        answer = server.validate(create(made(uid)))
        with record.lock:
            record.creating.discard(uid)
            if answer == "admitted":
                record.admitted.add(uid)
                mine.append(uid)
            else:
                assert answer.startswith("exceeded quota: q"), answer
                record.refused += 1


def until_it_is_gone(server, record, stop, number):
    with contextlib.suppress(OSError, http.client.HTTPException):
        client(server, record, stop, number)


def in_use(server):
    """How many pods are in use; both resources must agree, and neither may exceed its limit."""
    used = server.usage()["q"]
    cpu = used["requests.cpu"]
    millicores = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
    assert millicores <= HARD_MILLICORES
    assert int(used["pods"]) * EACH == millicores
    return int(used["pods"])


def watch(server, stop):
    """What is used never exceeds the limit, whenever one looks."""
    while not stop.is_set():
        with contextlib.suppress(OSError, http.client.HTTPException):
            in_use(server)
        time.sleep(0.01)


def settle(server, record):
    """Calls whose answer was lost are made again, as API servers do: then nothing is left to doubt."""
    for uid in sorted(record.deleting):
        assert server.validate(delete(made(uid))) == "admitted"
        record.admitted.discard(uid)
    record.deleting.clear()
    assert in_use(server) <= record.bounds()[1]
    for uid in sorted(record.creating):
        if server.validate(create(made(uid))) == "admitted":
            record.admitted.add(uid)
    record.creating.clear()
    assert in_use(server) == len(record.admitted)


@pytest.mark.timeout(110)
def test_nothing_admitted_is_forgotten_and_nothing_too_much_is_admitted_when_the_server_is_killed():
    record, choice = Record(), random.Random(20)
    with ServerProcess(POLICIES) as server:
        for _ in range(ROOM - 4):
            uid = fresh_uid("crash")
            assert server.validate(create(made(uid))) == "admitted"
            record.admitted.add(uid)
        for kill in range(KILLS):
            stop, calls = threading.Event(), server.metric("quota_admission_reviews_total")
            workers = [
                lambda _, number=number: until_it_is_gone(server, record, stop, 100 * kill + number)  # noqa: B023
                for number in range(CLIENTS)
            ]
            workers.append(lambda _: watch(server, stop))  # noqa: B023
            with free_thread_pool(len(workers), lambda number: workers[number](number)):  # noqa: B023
                # Somewhere in the middle: after so many calls, and a moment more.
                enough = calls + choice.randrange(20, 120)
                eventually(lambda: server.metric("quota_admission_reviews_total") > enough, every=0.001)  # noqa: B023
                time.sleep(choice.random() * 0.01)
                server.kill9()
                stop.set()
            server.start()
            least, most = record.bounds()
            assert least <= in_use(server) <= min(most, ROOM)
            settle(server, record)
            for uid in sorted(record.admitted)[ROOM - 4 :]:  # nearly full, not full
                assert server.validate(delete(made(uid))) == "admitted"
                record.admitted.discard(uid)
        assert record.refused > KILLS
        assert in_use(server) == len(record.admitted)
        assert server.errors() == 0
