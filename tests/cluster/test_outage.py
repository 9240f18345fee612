"""What still works while the API server, the caches or a controller are away, and that all comes back by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster import reviews
from tests.cluster.plane import ControlPlane, Variant
from tests.cluster.processes import Group
from tests.cluster.programs import API_SERVER
from tests.cluster.rig import CONTROLLER, NAMESPACE, SERVER, Replica, Rig
from tests.cluster.rigs import Rigs
from tests.cluster.space import Space
from tests.cluster.test_drain import SETUP, VARIANT
from tests.standalone import manifests
from tests.standalone.server import eventually

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{CONTROLLER}"

pytestmark = pytest.mark.plane(plugins=False)


@pytest.fixture(scope="module")
def rig(control_planes: Callable[[Variant], ControlPlane], rigs: Rigs) -> Iterator[Rig]:
    plane = control_planes(VARIANT)
    yield rigs(plane, SETUP)
    rigs.end(plane)  # the tests that come after are about an API server without us


@pytest.fixture
def space(control_plane: ControlPlane, rig: Rig) -> Space:
    assert control_plane is rig.plane
    return Space.new(rig)


def ask(rig: Rig, space: Space, path: str, requests: str = "", limits: str = "", name: str = "") -> reviews.Answered:
    uid = manifests.fresh_uid(space.name)
    pod = manifests.pod(name or uid, ns=space.name, uid=uid, requests=requests, limits=limits)
    return reviews.ask(rig.servers[0], rig.ca_file, path, manifests.create(pod))


def metric(replica: Replica, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(replica.admin("/metrics")[1].decode())
    found = [one for family in families for one in family.samples if one.name == name]
    return sum(one.value for one in found if labels.items() <= one.labels.items())


def log_of(replica: Replica) -> str:
    return replica.log_file.read_text(errors="replace")


# -- before the caches are filled


@contextlib.contextmanager
def stranger(rig: Rig, space: Space) -> Iterator[Replica]:
    """A server whose account may not list anything yet."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stranger"}}
    answer = space.plane.call("POST", f"/api/v1/namespaces/{space.name}/serviceaccounts", account)
    assert answer.status == 201, answer.message
    kubeconfig = space.plane.service_account_kubeconfig(space.name, "stranger")
    options = ["serve", "--kubeconfig", str(kubeconfig), "--cert-dir", str(rig.cert_dir)]
    group = Group()
    replica = Replica("stranger", options, rig.home, group)
    try:
        replica.start()
        yield replica
    finally:
        group.kill()
        replica.stop(hard=True)
        replica.release()


def grant(space: Space) -> None:
    binding = {
        "metadata": {"name": f"{space.name}-stranger"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SERVER},
        "subjects": [{"kind": "ServiceAccount", "name": "stranger", "namespace": space.name}],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    assert space.plane.call("POST", path, binding).status == 201


def test_a_server_that_knows_no_policies_yet_is_alive_is_not_ready_and_admits_nothing(rig: Rig, space: Space) -> None:
    space.quota("team", "pods=0")
    with stranger(rig, space) as server:
        eventually(lambda: answers(server, "/healthz"), within=30)
        assert server.admin("/healthz") == (200, b"ok\n")
        status, text = server.admin("/readyz")
        assert status == 503
        waited_for = "limitranges, resourcequotas, namespaces, priorityclasses, deviceclasses, accounting"
        assert f"[-]caches failed: waiting for the first list of {waited_for}\n" in text.decode()
        pod = manifests.create(manifests.pod("one", ns=space.name, uid="one"))
        early = reviews.ask(server, rig.ca_file, "/validate?timeout=2s", pod)
        pid = server.pid
        grant(space)
        server.await_ready(within=30)
        late = reviews.ask(server, rig.ca_file, "/validate?timeout=2s", pod)
        assert server.pid == pid
    assert late.verdict == "exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0"
    assert early.verdict != "allowed"


def answers(server: Replica, path: str) -> bool:
    with contextlib.suppress(OSError):
        return server.admin(path)[0] == 200
    return False


# -- without an API server


@contextlib.contextmanager
def stopped(plane: ControlPlane) -> Iterator[None]:
    """Nobody listens."""
    plane.stop_apiserver(hard=True)
    try:
        yield
    finally:
        plane.start_apiserver()


@contextlib.contextmanager
def paused(plane: ControlPlane) -> Iterator[None]:
    """Connections are taken, and nothing is answered."""
    pid = plane.processes[API_SERVER].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("away", [stopped, paused])
def test_without_an_api_server_all_is_answered_in_time_and_what_needs_a_write_is_refused(
    rig: Rig, space: Space, away: Callable[[ControlPlane], contextlib.AbstractContextManager[None]]
) -> None:
    server, free = rig.servers[0], Space.new(rig)
    space.quota("team", "cpu=1 pods=3")
    space.limit_range(default="cpu=200m", max="cpu=800m")
    free.limit_range(default="cpu=300m")
    space.pods("one", requests="cpu=500m", limits="cpu=500m")
    pid = server.pid
    with away(space.plane):
        room = ask(rig, space, "/validate?timeout=3s", "cpu=100m", "cpu=100m")
        full = ask(rig, space, "/validate?timeout=3s", "cpu=700m", "cpu=700m")
        large = ask(rig, space, "/validate?timeout=3s", "cpu=900m", "cpu=900m")
        unlimited = ask(rig, free, "/validate?timeout=3s", "cpu=100m")
        defaulted = ask(rig, free, "/mutate?timeout=3s")
        assert f'the use of quota "team" could not be recorded in time ({space.plane.server} does not' in room.verdict
        assert room.verdict.endswith("): nothing was admitted, try again")
        assert full.verdict == "exceeded quota: team, requested: cpu=700m, used: cpu=500m, limited: cpu=1"
        assert large.verdict == "maximum cpu usage per Container is 800m, but limit is 900m"
        assert unlimited.verdict == "allowed"
        assert defaulted.response["patch"]
        for answered in (room, full, large, unlimited, defaulted):
            assert answered.seconds < 3, answered
        assert server.admin("/healthz")[0] == 200
        assert server.is_ready()
    # It comes back by itself. What was written although the answer came too late, runs out.
    eventually(lambda: space.pod("two", "cpu=300m", "cpu=300m") == "created", within=20)
    space.await_used("team", "cpu=800m pods=2", within=40)
    assert server.pid == pid
    assert server.runs()


def test_after_a_restart_of_the_api_server_the_caches_are_listed_anew_and_follow_again(rig: Rig, space: Space) -> None:
    server = rig.servers[0]
    space.quota("team", "pods=1")
    lists = metric(server, "quota_admission_cache_lists_total", resource="resourcequotas")
    for _ in range(3):  # what others write makes the position of our watches too old for the new API server
        assert space.create(manifests.config_map(space.fresh_name())) == "created"
    with stopped(space.plane):
        silent_since = time.monotonic()
        eventually(lambda: min(staleness(server)) > 1.0)
        assert metric(server, "quota_admission_cache_errors_total") > 0
    space.change_quota("team", "pods=2")
    assert metric(server, "quota_admission_cache_lists_total", resource="resourcequotas") > lists
    assert "relisting" in log_of(server)
    space.pods("one", "two")
    assert space.pod("three") == "exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"
    assert staleness(server)[0] < time.monotonic() - silent_since


def staleness(server: Replica) -> list[float]:
    """Seconds since each resource was last heard of."""
    resources = ("resourcequotas", "limitranges", "namespaces", "priorityclasses", "deviceclasses")
    return [metric(server, "quota_admission_cache_staleness_seconds", resource=one) for one in resources]


# -- without a controller


def leader(rig: Rig) -> Replica | None:
    found = [one for one in rig.controllers if one.runs() and metric(one, "quota_admission_controller_leader")]
    assert len(found) < 2
    return found[0] if found else None


@pytest.fixture
def watched(rig: Rig, space: Space) -> Space:
    """With a quota of two pods; every controller follows pods, so that one that takes over knows them."""
    space.quota("team", "pods=2")
    for one in rig.controllers:
        eventually(lambda one=one: metric(one, "quota_admission_cache_synced", resource="counted pods"), within=20)
    return space


def test_a_killed_controller_is_replaced_by_another_and_the_count_goes_on(rig: Rig, watched: Space) -> None:
    first = eventually(lambda: leader(rig), within=20)
    first.kill()
    # Nobody counts for a moment: what is admitted is on record, and what is deleted frees nothing yet.
    watched.pods("one", "two")
    watched.delete("Pod", "one")
    assert watched.pod("three") == "exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"
    second = eventually(lambda: leader(rig), within=15)
    assert second is not first
    watched.await_used("team", "pods=1")
    assert watched.pod("three") == "created"
    assert watched.plane.call("GET", LEASE).body["spec"]["leaseTransitions"] >= 1
    first.start()
    first.await_ready()
    assert leader(rig) is second


def test_a_controller_that_is_asked_to_end_hands_over_at_once(rig: Rig, watched: Space) -> None:
    watched.pods("one", "two")
    first = eventually(lambda: leader(rig), within=20)
    begun = time.monotonic()
    assert first.terminate(within=15) == 0
    eventually(lambda: leader(rig), within=15)
    assert time.monotonic() - begun < 3.0
    watched.delete("Pod", "one")
    watched.await_used("team", "pods=1")
    first.start()
    first.await_ready()


def test_a_controller_that_starts_when_the_last_object_of_a_kind_is_gone_counts_none(rig: Rig, watched: Space) -> None:
    everywhere = rig.plane.call("GET", "/api/v1/pods").body["items"]
    watched.pods("one")
    watched.await_used("team", "pods=1")
    for one in rig.controllers:
        one.kill()
    for where, name in [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in everywhere]:
        Space(rig.plane, where).delete("Pod", name)
    watched.delete("Pod", "one")
    for one in rig.controllers:
        one.start()
    watched.await_used("team", "pods=0", within=40)


def test_nothing_of_all_that_was_an_error_of_our_own(rig: Rig) -> None:
    for replica in (*rig.servers, *rig.controllers):
        assert "Traceback" not in log_of(replica)
    assert sum(metric(one, "quota_admission_reviews_total", outcome="error") for one in rig.servers) == 0
