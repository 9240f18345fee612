"""Servers and controllers around a control plane: what the other tests of this folder rely on."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from tests.cluster.plane import ControlPlane
from tests.cluster.rig import JUDGED, Rig, Setup
from tests.cluster.rigs import Rigs
from tests.standalone.server import eventually

ours = pytest.mark.plane(plugins=False)
two_and_one = pytest.mark.rig(servers=2, controllers=1)

ONE_POD = {"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "1"}}}


def make_pod(plane: ControlPlane, namespace: str, name: str) -> str:
    """`created`, or the text of the refusal."""
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    answer = plane.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    return "created" if answer.status == 201 else answer.message


def make_quota(plane: ControlPlane, namespace: str) -> None:
    """A quota of one pod, waited for until its status says so."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    assert plane.call("POST", path, ONE_POD).status == 201
    eventually(lambda: plane.call("GET", f"{path}/quota").body.get("status", {}).get("hard"))


@ours
@two_and_one
def test_the_controller_registers_the_servers_and_they_judge(
    control_plane: ControlPlane, rig: Rig, namespace: str
) -> None:
    make_quota(control_plane, namespace)
    assert make_pod(control_plane, namespace, "one") == "created"
    refusal = make_pod(control_plane, namespace, "two")
    assert "denied the request: exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1" in refusal
    assert rig.controllers[0].runs()


@ours
@two_and_one
def test_while_one_server_is_killed_the_other_answers(control_plane: ControlPlane, rig: Rig, namespace: str) -> None:
    make_quota(control_plane, namespace)
    assert make_pod(control_plane, namespace, "one") == "created"
    rig.servers[0].kill()
    answers = {make_pod(control_plane, namespace, f"pod-{number}") for number in range(10)}
    rig.servers[0].start()
    rig.servers[0].await_ready()
    # A call that was on its way may be lost with the server; none is let through.
    assert all("exceeded quota" in one or "failed calling webhook" in one for one in answers), answers
    assert any("exceeded quota" in one for one in answers)


@ours
@two_and_one
def test_when_the_last_pod_of_the_cluster_is_gone_there_is_room_again(
    control_plane: ControlPlane, rig: Rig, namespace: str
) -> None:
    assert rig.controllers[0].runs()
    make_quota(control_plane, namespace)

    def ledger() -> str:
        quota = control_plane.call("GET", f"/api/v1/namespaces/{namespace}/resourcequotas/quota").body
        return str(quota["metadata"].get("annotations", {}).get("quota-admission.dev/ledger", ""))

    def is_made(name: str) -> bool:
        return make_pod(control_plane, namespace, name) == "created"

    for name in ("one", "two"):
        eventually(functools.partial(is_made, name), every=0.2)
        eventually(lambda: '"counted":["1"]' in ledger() and '"r":{}' in ledger())  # a recount has seen it
        for pod in control_plane.call("GET", "/api/v1/pods").body["items"]:
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}?gracePeriodSeconds=0"
            assert control_plane.call("DELETE", path).status == 200
    eventually(lambda: '"counted":["0"]' in ledger())


@ours
def test_servers_can_be_registered_without_a_controller(control_plane: ControlPlane, rigs: Rigs) -> None:
    rigs.end(control_plane)
    with Rig(control_plane, Setup(servers=1, config="quota: {accounting: webhook}")) as rig:
        rig.register()
        refusal = make_pod(control_plane, "rig-probe", "one")
        assert JUDGED in refusal
    # Its webhooks went with it.
    eventually(lambda: "webhook" not in make_pod(control_plane, "rig-probe", "after"))


@ours
def test_a_server_that_does_not_start_shows_its_log(control_plane: ControlPlane) -> None:
    with pytest.raises(Exception, match=r"server-0 ended with [1-9]") as raised:
        with Rig(control_plane, Setup(config="nonsense: true")):
            pass
    assert "nonsense" in str(raised.value)


@ours
def test_nothing_outlives_a_rig(control_plane: ControlPlane, rigs: Rigs) -> None:
    rigs.end(control_plane)
    with Rig(control_plane) as rig:
        home = rig.home
        pids = [replica.pid for replica in rig.servers]
        children = [int(one) for pid in pids for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    assert children
    assert not home.exists()
    eventually(lambda: not any(_runs(pid) for pid in pids + children))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
