"""Short forms of `make chaos`: replicas that are killed, an API server that restarts, a crowd at a small quota."""

from __future__ import annotations

import pytest

from tests.cluster import chaos
from tests.cluster.history import STORED_AS_JSON
from tests.cluster.plan import Plan, Report
from tests.cluster.plane import QUOTA_CONTROLLER, ControlPlane
from tests.cluster.rig import Rig, Setup

stored_as_json = pytest.mark.plane(plugins=False, controllers=QUOTA_CONTROLLER, api_server_flags=(STORED_AS_JSON,))

PLAN = Plan(
    seconds=35.0,
    clients=16,
    namespaces=2,
    hold=60,
    kill_controller_every=8.0,
    api_restarts=1,
    quiet=14.0,
    quota_controller=True,
    config="quota: {accounting: webhook}\nledger: {expireAfterSeconds: 8}\ncontroller: {leaseSeconds: 3}\n",
)
CROWD = Plan(
    seconds=10.0,
    clients=24,
    namespaces=1,
    hold=40,
    quotas=("count",),
    servers=2,
    controllers=1,
    kill_every=0.0,
    kill_controller_every=0.0,
    api_restarts=0,
    resizes=False,
    quiet=4.0,
    prefix="crowd",  # the control plane may be that of the other test
    quota_controller=True,
)
"""Nothing is killed, but many want the same few places, which are given back at once: often nothing at all is there."""


def played(plan: Plan, control_plane: ControlPlane) -> Report:
    assert control_plane.variant == plan.variant
    with Rig(control_plane, Setup(plan.servers, plan.controllers, plan.config)) as rig:
        report = chaos.Chaos(plan, control_plane, rig).run()
    assert not report.problems, report.text()
    return report


@stored_as_json
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_count_holds_while_replicas_are_killed_and_the_api_server_restarts(control_plane: ControlPlane) -> None:
    report = played(PLAN, control_plane)
    assert report.answers["created"] > PLAN.namespaces * PLAN.hold, report.text()


@stored_as_json
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_many_clients_at_a_small_quota_neither_exceed_it_nor_block_it(control_plane: ControlPlane) -> None:
    report = played(CROWD, control_plane)
    assert report.answers["created"] > 2 * CROWD.hold, report.text()
