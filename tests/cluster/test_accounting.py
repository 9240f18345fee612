"""Who keeps the count: the API server where its own ResourceQuota plugin is on, else we; and how that changes."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.plane import QUOTA_CONTROLLER, ControlPlane, Variant
from tests.cluster.programs import API_SERVER
from tests.cluster.rig import Replica, Rig, Setup
from tests.cluster.rigs import Rigs
from tests.cluster.space import Json, Space
from tests.cluster.test_kubectl import CONFIG, CONTROLLERS
from tests.cluster.test_outage import metric
from tests.cluster.webhooks import NAME, PATHS
from tests.standalone import manifests
from tests.standalone.server import eventually

VARIANT = Variant(controllers=QUOTA_CONTROLLER)
CONFIGURATION = "quota: {{accounting: {}}}\ncontroller: {{leaseSeconds: 3}}\n"
SETUP = Setup(servers=1, controllers=1, config=CONFIGURATION.format("auto"))

PLUGIN_ON = "the API server's own ResourceQuota plugin refuses what exceeds a quota"
PLUGIN_OFF = "the API server admits what its own ResourceQuota plugin would refuse"
CONFIGURED = "the configuration says so"
OURS = 'admission webhook "enforce.quota-admission.dev" denied the request: '
ANNOTATION = "quota-admission.dev/accounting"

built_in = pytest.mark.plane(controllers=QUOTA_CONTROLLER)


@pytest.fixture(scope="module")
def beside_the_plugin(control_planes: Callable[[Variant], ControlPlane], rigs: Rigs) -> Iterator[Rig]:
    """A server and a controller in a cluster whose API server has the built-in plugins on."""
    plane = control_planes(VARIANT)
    rigs.end(plane)
    with Rig(plane, SETUP) as rig:
        yield rig


@pytest.fixture
def space(control_plane: ControlPlane, beside_the_plugin: Rig) -> Space:
    assert control_plane is beside_the_plugin.plane
    await_mode(beside_the_plugin, "apiserver", within=40)
    return Space.new(beside_the_plugin)


def mode_of(replica: Replica) -> str:
    """Who keeps the count, as a server says."""
    lines = replica.admin("/metrics")[1].decode().splitlines()
    found = [
        line.split('"')[1] for line in lines if re.fullmatch(r'quota_admission_accounting\{mode=".*"\} 1\.0', line)
    ]
    assert len(found) == 1
    return found[0]


def await_mode(rig: Rig, mode: str, within: float = 20.0) -> None:
    """Wait until the servers and the registration say who keeps the count."""
    eventually(lambda: all(mode_of(server) == mode for server in rig.servers), within=within, every=0.1)
    eventually(lambda: registered(rig).get(ANNOTATION) == mode, within=within, every=0.1)


def registered(rig: Rig) -> Json:
    """The annotations of what the controller has registered."""
    answer = rig.plane.call("GET", f"{PATHS['ValidatingWebhookConfiguration']}/{NAME}")
    return answer.body["metadata"].get("annotations", {})  # type: ignore[no-any-return]


def said(replica: Replica, *messages: str) -> list[tuple[str, str]]:
    """Who keeps the count and why, each time that it was logged."""
    lines = [json.loads(line) for line in replica.log_file.read_text().splitlines()]
    return [(line["accounting"], line["why"]) for line in lines if line["message"] in messages]


def configure(rig: Rig, setting: str) -> None:
    """Change the configuration file of server and controller, at once as volumes do."""
    draft = rig.home / "config.new"
    draft.write_text(CONFIGURATION.format(setting))
    draft.replace(rig.home / "config.yaml")


# -- auto


@pytest.mark.plane(plugins=False, controllers=CONTROLLERS)
@pytest.mark.rig(servers=2, controllers=1, config=CONFIG)
def test_where_the_plugin_is_off_the_count_is_ours(rig: Rig) -> None:
    await_mode(rig, "webhook")
    assert registered(rig)[f"{ANNOTATION}-reason"] == PLUGIN_OFF
    assert said(rig.controllers[0], "accounting") == [("webhook", PLUGIN_OFF)]
    space = Space.new(rig)
    space.quota("team", "pods=2")
    space.pods("one")
    assert space.ledger("team")
    assert sum(metric(server, "quota_admission_ledger_writes_total", result="succeeded") for server in rig.servers) > 0


@built_in
def test_where_the_plugin_is_on_the_server_judges_early_and_writes_nothing(
    beside_the_plugin: Rig, space: Space
) -> None:
    rig = beside_the_plugin
    assert registered(rig)[f"{ANNOTATION}-reason"] == PLUGIN_ON
    assert said(rig.controllers[0], "accounting")[0] == ("apiserver", PLUGIN_ON)
    before = writes(rig)
    space.quota("team", "requests.cpu=1 pods=2")
    space.pods("one", "two", requests="cpu=100m")
    space.await_used("team", "pods=2 requests.cpu=200m")
    answer = space.post(manifests.pod("three", requests="cpu=100m"))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == f"{OURS}exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"
    assert space.ledger("team") is None
    assert writes(rig) == before


def writes(rig: Rig) -> float:
    """How often a server has tried to write a quota."""
    return sum(metric(server, "quota_admission_ledger_writes_total") for server in rig.servers)


@built_in
def test_what_the_plugin_would_admit_is_never_refused_early(space: Space) -> None:
    space.quota("team", "pods=1")
    texts = set()
    for number in range(20):
        body = manifests.pod(f"pod-{number}")
        # At the very moment when the API server says that there is room, whatever our watch has told us so far.
        eventually(lambda: space.used("team") == "pods=0", every=0.0)
        answer = space.post(body)
        while answer.status != 201:
            texts.add(answer.message)  # the plugin looks at a cache of its own, and may refuse what has become free
            answer = space.post(body)
        assert space.post(manifests.pod("more")).status == 403
        space.delete("Pod", f"pod-{number}")
    assert not [text for text in texts if text.startswith("admission webhook")], texts


# -- a change without a restart


@built_in
def test_another_setting_in_the_configuration_is_taken_up_without_a_restart_and_logged(
    beside_the_plugin: Rig, space: Space
) -> None:
    rig, server, controller = beside_the_plugin, beside_the_plugin.servers[0], beside_the_plugin.controllers[0]
    pids = [server.pid, controller.pid]
    space.quota("team", "pods=10")
    space.pods("one")
    space.await_used("team", "pods=1")
    try:
        configure(rig, "webhook")
        await_mode(rig, "webhook")
        assert said(server, "accounting changed")[-1] == ("webhook", CONFIGURED)
        assert said(controller, "accounting")[-1] == ("webhook", CONFIGURED)
        # What was there before is counted, by us from now on.
        space.pods("two", "three")
        space.await_used("team", "pods=3")
        assert (space.ledger("team") or {})["names"] == ["pods"]
        space.delete("Pod", "two")
        space.await_used("team", "pods=2")
        configure(rig, "nobody")
        eventually(lambda: "configuration not taken" in server.log_file.read_text())
        assert mode_of(server) == "webhook"
        configure(rig, "apiserver")
        await_mode(rig, "apiserver")
        assert said(server, "accounting changed")[-1] == ("apiserver", CONFIGURED)
        # A count that nobody keeps any more would be wrong when it is needed again.
        eventually(lambda: space.ledger("team") is None)
        written = writes(rig)
        space.pods("four")
        space.await_used("team", "pods=3")
        assert writes(rig) == written
    finally:
        configure(rig, "auto")
    assert [server.pid, controller.pid] == pids


@built_in
def test_auto_in_place_of_another_setting_is_taken_up_at_once(beside_the_plugin: Rig, space: Space) -> None:
    assert space.name
    configure(beside_the_plugin, "webhook")
    await_mode(beside_the_plugin, "webhook")
    configure(beside_the_plugin, "auto")
    await_mode(beside_the_plugin, "apiserver", within=10)


def restart_api_server(plane: ControlPlane, *, plugins: bool) -> None:
    """Have another API server, with the built-in plugins on or off."""
    plane.variant = dataclasses.replace(plane.variant, plugins=plugins)
    plane.processes[API_SERVER]._options[:] = plane._api_server_options()
    plane.restart_apiserver(hard=True)


def replace_controller(rig: Rig) -> None:
    """Have a new one, which probes at once: the one that runs does so every 30 s."""
    rig.controllers[0].kill()
    rig.controllers[0].start()


@built_in
@pytest.mark.slow
def test_an_api_server_that_comes_back_without_the_plugin_leaves_the_count_to_us_and_then_takes_it_back(
    beside_the_plugin: Rig, space: Space
) -> None:
    rig = beside_the_plugin
    space.quota("team", "pods=2")
    space.pods("one")
    try:
        restart_api_server(rig.plane, plugins=False)
        replace_controller(rig)
        await_mode(rig, "webhook", within=30)
        assert said(rig.controllers[0], "accounting")[-1] == ("webhook", PLUGIN_OFF)
        space.pods("two")
        assert space.pod("three") == "exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"
        assert space.ledger("team")
    finally:
        restart_api_server(rig.plane, plugins=True)
    replace_controller(rig)
    await_mode(rig, "apiserver", within=30)
    eventually(lambda: space.ledger("team") is None)
    assert "exceeded quota: team" in space.pod("three")
