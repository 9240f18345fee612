"""Leader election through a real API server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from admission.cluster.transport import Transport, Unreachable
from admission.controller.lease import Elector
from tests.cluster.plane import ControlPlane
from tests.cluster.transports import Transports
from tests.standalone.server import eventually

Json = dict[str, Any]

pytestmark = pytest.mark.plane(plugins=False)

TIMES: Json = {"lease_seconds": 4, "renew_seconds": 3.0, "retry_seconds": 0.2}
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

Candidate = Callable[[str], Elector]


class Cable:
    """A transport that can be cut."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.is_cut = False

    def call(self, *args: Any, **options: Any) -> Any:
        if self.is_cut:
            raise Unreachable("the cable is cut")
        return self._transport.call(*args, **options)


@pytest.fixture
def cables() -> dict[str, Cable]:
    return {}


@pytest.fixture
def candidate(control_plane: ControlPlane, namespace: str, cables: dict[str, Cable]) -> Iterator[Candidate]:
    started: list[Elector] = []
    connect = Transports()

    def start(name: str) -> Elector:
        cables[name] = Cable(connect(control_plane.kubeconfig))
        elector = Elector(cast(Transport, cables[name]), namespace, "controller", name, **TIMES)
        elector.start()
        started.append(elector)
        return elector

    with connect:
        yield start
        for elector in started:
            elector.stop()


def lease(plane: ControlPlane, namespace: str) -> Json:
    answer = plane.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/controller")
    assert answer.status == 200, answer.message
    return answer.body


def leading(*electors: Elector) -> list[str]:
    found = [elector.identity for elector in electors if elector.is_leader()]
    assert len(found) <= 1
    return found


def test_one_leads_and_the_lease_says_who(control_plane: ControlPlane, namespace: str, candidate: Candidate) -> None:
    one = candidate("one")
    eventually(one.is_leader)
    two = candidate("two")
    eventually(lambda: two.holder == "one")
    spec = lease(control_plane, namespace)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("one", 4)
    assert spec.get("leaseTransitions", 0) == 0
    assert MICRO_TIME.fullmatch(spec["acquireTime"])
    renewed = eventually(lambda: found if (found := lease(control_plane, namespace)["spec"]) != spec else None)
    assert renewed == {**spec, "renewTime": renewed["renewTime"]}
    assert leading(one, two) == ["one"]


def test_who_stops_hands_over_at_once(control_plane: ControlPlane, namespace: str, candidate: Candidate) -> None:
    one = candidate("one")
    eventually(one.is_leader)
    two = candidate("two")
    eventually(lambda: two.holder == "one")
    began = time.monotonic()
    one.stop()
    eventually(lambda: leading(one, two) == ["two"])
    assert time.monotonic() - began < TIMES["lease_seconds"]
    assert lease(control_plane, namespace)["spec"]["leaseTransitions"] == 1


def test_who_is_cut_off_is_replaced_and_comes_back_as_a_candidate(
    candidate: Candidate, cables: dict[str, Cable]
) -> None:
    one = candidate("one")
    eventually(one.is_leader)
    two = candidate("two")
    eventually(lambda: two.holder == "one")
    began = time.monotonic()
    cables["one"].is_cut = True
    eventually(lambda: leading(one, two) == [])
    assert time.monotonic() - began <= TIMES["renew_seconds"] + 0.9
    eventually(lambda: leading(one, two) == ["two"])
    cables["one"].is_cut = False
    eventually(lambda: one.holder == "two")
    assert leading(one, two) == ["two"]


def test_of_many_that_start_at_once_one_leads(candidate: Candidate) -> None:
    electors = [candidate(f"replica-{number}") for number in range(5)]
    give_up = time.monotonic() + 3
    seen: set[str] = set()
    while time.monotonic() < give_up:
        seen.update(leading(*electors))
        time.sleep(0.005)
    assert len(seen) == 1


def test_leadership_survives_or_comes_back_after_a_restart_of_the_api_server(
    control_plane: ControlPlane, candidate: Candidate
) -> None:
    electors = [candidate(name) for name in ("one", "two")]
    eventually(lambda: leading(*electors))
    control_plane.restart_apiserver(hard=True)
    eventually(lambda: leading(*electors), within=20)


def test_labels_of_others_stay_in_the_lease(control_plane: ControlPlane, namespace: str, candidate: Candidate) -> None:
    one = candidate("one")
    eventually(one.is_leader)
    control_plane.kubectl("label", "lease", "controller", "-n", namespace, "team=x", check=True)
    before = lease(control_plane, namespace)["spec"]["renewTime"]
    eventually(lambda: lease(control_plane, namespace)["spec"]["renewTime"] != before)
    assert lease(control_plane, namespace)["metadata"]["labels"] == {"team": "x"}
    assert one.is_leader()
