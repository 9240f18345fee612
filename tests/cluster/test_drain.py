"""The end of a server: it says so, answers what is under way, and no creation fails meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.cluster import reviews
from tests.cluster.calls import Caller
from tests.cluster.plane import ControlPlane, Variant
from tests.cluster.programs import API_SERVER
from tests.cluster.rig import Replica, Rig, Setup
from tests.cluster.rigs import Rigs
from tests.cluster.space import Space
from tests.standalone import manifests
from tests.standalone.server import eventually

VARIANT = Variant(plugins=False)
DRAIN = 1.5
SETUP = Setup(
    servers=2,
    controllers=2,
    config=f"server: {{drainSeconds: {DRAIN}}}\ncontroller: {{leaseSeconds: 3}}\nledger: {{expireAfterSeconds: 2}}\n",
)
"""One for test_outage too, so that what runs here serves both."""
CLIENTS = 4

pytestmark = pytest.mark.plane(plugins=False)


@pytest.fixture(scope="module")
def rig(control_planes: Callable[[Variant], ControlPlane], rigs: Rigs) -> Rig:
    return rigs(control_planes(VARIANT), SETUP)


@pytest.fixture
def space(control_plane: ControlPlane, rig: Rig) -> Space:
    assert control_plane is rig.plane
    return Space.new(rig)


def review(space: Space) -> dict[str, object]:
    uid = manifests.fresh_uid(space.name)
    return manifests.create(manifests.pod(uid, ns=space.name, uid=uid))


def start_again(rig: Rig, server: Replica) -> None:
    server.start()
    server.await_ready()
    assert rig.balancer is not None
    rig.balancer.put_back(server)


def test_a_server_that_is_asked_to_end_is_not_ready_first_and_closes_each_connection_with_its_next_answer(
    rig: Rig, space: Space
) -> None:
    server = rig.servers[0]
    space.quota("team", "pods=100")
    kept, untouched = reviews.Line(server, rig.ca_file), reviews.Line(server, rig.ca_file)
    for line in (kept, untouched):
        assert not line.ask("/validate?timeout=5s", review(space)).closes
    begun = time.monotonic()
    os.kill(server.pid, signal.SIGTERM)
    status, text = eventually(lambda: not_ready(server), within=2)
    assert (status, "[-]shutdown failed: stopping\n" in text.decode()) == (503, True)
    assert server.admin("/healthz")[0] == 200
    # Who has not heard of it yet is still served, on old connections and on new ones.
    for answered in (
        kept.ask("/validate?timeout=5s", review(space)),
        reviews.ask(server, rig.ca_file, "/validate?timeout=5s", review(space)),
    ):
        assert answered.verdict == "allowed"
        assert answered.closes
    assert exit_code(server) == 0
    assert DRAIN < time.monotonic() - begun < 25
    untouched.close()
    assert "Traceback" not in server.log_file.read_text()
    start_again(rig, server)


def not_ready(server: Replica) -> tuple[int, bytes] | None:
    found = server.admin("/readyz")
    return found if found[0] != 200 else None


def exit_code(server: Replica) -> int | None:
    """How the process ended, which was asked to."""
    assert server._running is not None
    return server._running.wait(30)


def test_what_is_under_way_when_the_end_is_asked_for_is_answered(rig: Rig, space: Space) -> None:
    server = rig.servers[0]
    space.quota("team", "pods=100")
    api_server = space.plane.processes[API_SERVER].pid
    answers: list[reviews.Answered] = []
    os.kill(api_server, signal.SIGSTOP)
    try:
        # These wait for the API server, longer than the server would go on by itself.
        threads = [
            threading.Thread(
                target=lambda: answers.append(reviews.ask(server, rig.ca_file, "/validate?timeout=20s", review(space)))
            )
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        os.kill(server.pid, signal.SIGTERM)
        time.sleep(2 * DRAIN)  # longer than it takes calls
        assert server.runs()
        assert not answers
    finally:
        os.kill(api_server, signal.SIGCONT)
    for thread in threads:
        thread.join(20)
    assert [answered.verdict for answered in answers] == ["allowed"] * 3
    assert all(answered.closes for answered in answers)
    assert exit_code(server) == 0
    start_again(rig, server)


class Creators:
    """Clients that create pods one after the other, until they are told to stop."""

    def __init__(self, space: Space) -> None:
        self.answers: Counter[str] = Counter()
        self._space = space
        self._caller = Caller(space.plane)
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._create, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> Creators:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)
        self._caller.close()

    def _create(self, client: int) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            body = manifests.pod(f"pod-{client}-{number}", ns=self._space.name)
            answer = self._caller.call("POST", self._space.path("Pod"), body)
            self.answers["created" if answer.status == 201 else f"{answer.status} {answer.message}"] += 1
            time.sleep(0.01)


def test_in_a_rolling_restart_not_one_creation_fails_and_not_one_pod_is_left_without_defaults(
    rig: Rig, space: Space
) -> None:
    space.quota("team", "pods=100k requests.cpu=100k")
    space.limit_range(defaultRequest="cpu=10m")
    assert rig.balancer is not None
    with Creators(space) as creators:
        for server in rig.servers:
            os.kill(server.pid, signal.SIGTERM)
            eventually(lambda server=server: not_ready(server), within=2)
            rig.balancer.take_out(server)
            assert exit_code(server) == 0
            start_again(rig, server)
    assert set(creators.answers) == {"created"}, creators.answers
    pods = space.plane.call("GET", space.path("Pod")).body["items"]
    assert len(pods) == creators.answers["created"] > 100
    requests = [pod["spec"]["containers"][0]["resources"].get("requests") for pod in pods]
    assert all(one == {"cpu": "10m"} for one in requests)
    space.await_used("team", f"pods={len(pods)} requests.cpu={cpu(len(pods))}", within=20)


def cpu(pods: int) -> str:
    """What so many pods of 10m request, as Kubernetes prints it."""
    return str(pods // 100) if pods % 100 == 0 else f"{pods * 10}m"


def test_who_is_killed_in_the_middle_of_a_call_loses_no_more_than_that_call(rig: Rig, space: Space) -> None:
    space.quota("team", "pods=100k")
    server = rig.servers[1]
    with Creators(space) as creators:
        eventually(lambda: creators.answers["created"] > 30, within=20)
        server.kill()
        eventually(lambda: creators.answers["created"] > 100, within=30)
    failed = {text: number for text, number in creators.answers.items() if text != "created"}
    assert sum(failed.values()) <= 2 * CLIENTS, failed
    assert all(text.startswith("500 Internal error occurred: failed calling webhook") for text in failed), failed
    start_again(rig, server)
