"""Whether the API server's own ResourceQuota plugin is on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from admission.controller.probe import Probe
from admission.controller.registration import Registration
from admission.controller.rules import UrlEndpoint, Webhooks
from tests.cluster.plane import QUOTA_CONTROLLER, ControlPlane
from tests.cluster.recorder import Recorder
from tests.cluster.transports import Transports
from tests.standalone.server import eventually

built_in = pytest.mark.plane(controllers=QUOTA_CONTROLLER)
bare = pytest.mark.plane(plugins=False)

OFF = ("webhook", "the API server admits what its own ResourceQuota plugin would refuse")
ON = ("apiserver", "the API server's own ResourceQuota plugin refuses what exceeds a quota")


@pytest.fixture
def connect() -> Iterator[Transports]:
    with Transports() as transports:
        yield transports


MakeProbe = Callable[..., Probe]


@pytest.fixture
def probe(control_plane: ControlPlane, connect: Transports, namespace: str) -> MakeProbe:
    """Makes a probe, in the namespace of the test and by the admin unless said otherwise."""

    def make(where: str = namespace, kubeconfig: Path | None = None, **options: float) -> Probe:
        return Probe(connect(kubeconfig or control_plane.kubeconfig), where, **options)

    return make


def quota_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/resourcequotas/quota-admission-probe"


@built_in
def test_the_plugin_is_found_where_it_is_on_and_at_the_first_probe(
    control_plane: ControlPlane, probe: MakeProbe, namespace: str
) -> None:
    asking = probe()
    assert asking.run() == ON
    began = time.monotonic()
    assert asking.run() == ON
    assert time.monotonic() - began < 1.5


@bare
def test_the_plugin_is_not_found_where_it_is_off_once_the_quota_has_been_in_place_for_a_while(
    control_plane: ControlPlane, probe: MakeProbe, namespace: str
) -> None:
    asking = probe()
    began = time.monotonic()
    assert asking.run() == OFF
    assert time.monotonic() - began > 2
    began = time.monotonic()
    assert asking.run() == OFF
    assert time.monotonic() - began < 1.5
    templates = control_plane.call("GET", f"/api/v1/namespaces/{namespace}/podtemplates")
    assert templates.body["items"] == []


@built_in
def test_a_quota_that_somebody_changed_is_put_right(
    control_plane: ControlPlane, probe: MakeProbe, namespace: str
) -> None:
    asking = probe()
    asking.run()
    changed = control_plane.call(
        "PATCH", quota_path(namespace), {"spec": {"hard": {"count/podtemplates": "9", "pods": "1"}}}
    )
    assert changed.status == 200

    def is_taken_over() -> bool:
        found = control_plane.call("GET", quota_path(namespace)).body
        return bool(found["status"]["hard"].get("pods") == "1")

    eventually(is_taken_over)
    assert asking.run() == ON
    assert control_plane.call("GET", quota_path(namespace)).body["spec"]["hard"] == {"count/podtemplates": "0"}


@bare
def test_a_status_that_was_lost_is_written_again_and_settles_again(
    control_plane: ControlPlane, probe: MakeProbe, namespace: str
) -> None:
    asking = probe()
    asking.run()
    control_plane.call("PATCH", f"{quota_path(namespace)}/status", {"status": {"hard": None}})
    began = time.monotonic()
    assert asking.run() == OFF
    assert time.monotonic() - began > 2
    assert control_plane.call("GET", quota_path(namespace)).body["status"]["hard"] == {"count/podtemplates": "0"}


@built_in
def test_templates_that_exist_do_not_disturb(control_plane: ControlPlane, probe: MakeProbe, namespace: str) -> None:
    container = {"name": "main", "image": "none"}
    body = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "mine"},
        "template": {"spec": {"containers": [container]}},
    }
    assert control_plane.call("POST", f"/api/v1/namespaces/{namespace}/podtemplates", body).status == 201
    assert probe().run() == ON


@bare
def test_what_cannot_be_told_is_unknown_and_says_why(
    control_plane: ControlPlane, probe: MakeProbe, namespace: str
) -> None:
    mode, reason = probe("no-such-namespace").run()
    assert mode == "unknown"
    assert 'namespaces "no-such-namespace" not found' in reason

    asking = probe(kubeconfig=control_plane.service_account_kubeconfig(namespace))
    mode, reason = asking.run()
    assert mode == "unknown"
    assert 'cannot get resource "resourcequotas"' in reason

    for what in (
        ["role", "prober", "--verb=get,create,update", "--resource=resourcequotas,resourcequotas/status"],
        ["rolebinding", "prober", "--role=prober", f"--serviceaccount={namespace}:default"],
    ):
        control_plane.kubectl("create", "-n", namespace, *what, check=True)
    eventually(lambda: 'cannot create resource "podtemplates"' in asking.run().reason)
    assert asking.run().mode == "unknown"


@bare
def test_a_refusal_of_our_own_webhook_is_not_taken_for_that_of_the_plugin(
    control_plane: ControlPlane, connect: Transports, probe: MakeProbe, tmp_path: Path
) -> None:
    transport = connect(control_plane.kubeconfig)
    asking = probe(settle_seconds=0.0)
    with Recorder(tmp_path) as recorder:
        recorder.refusal = "exceeded quota: quota-admission-probe, requested: count/podtemplates=1"
        registration = Registration(transport, Webhooks(), UrlEndpoint(recorder.url), recorder.ca_file)
        try:
            assert registration.sync(("podtemplates",), "webhook", "")
            mode, reason = eventually(lambda: found if (found := asking.run()) != OFF else None)
        finally:
            registration.remove()
            eventually(lambda: asking.run() == OFF)
    assert mode == "unknown"
    assert reason.startswith("a webhook refuses before the API server's own plugin could: admission webhook \"enforce.")


@bare
def test_the_quota_can_be_removed(control_plane: ControlPlane, probe: MakeProbe, namespace: str) -> None:
    asking = probe(settle_seconds=0.0)
    asking.remove()
    assert asking.run() == OFF
    asking.remove()
    assert control_plane.call("GET", quota_path(namespace)).status == 404
