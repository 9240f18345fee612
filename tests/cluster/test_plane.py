"""The control plane itself: what the other tests of this folder rely on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import build
from tests.cluster.plane import ALL_CONTROLLERS, QUOTA_CONTROLLER, ControlPlane, Variant
from tests.cluster.processes import StartError
from tests.cluster.programs import API_SERVER
from tests.standalone.server import eventually

Json = dict[str, Any]

built_in = pytest.mark.plane(controllers=QUOTA_CONTROLLER)
bare = pytest.mark.plane(plugins=False)
full = pytest.mark.plane(controllers=ALL_CONTROLLERS, scheduler=True)


def made(kind: str, name: str, spec: Json, api: str = "v1") -> Json:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


LIMITS = made("LimitRange", "limits", {"limits": [{"type": "Container", "default": {"cpu": "300m"}}]})
ONE_POD = made("ResourceQuota", "quota", {"hard": {"pods": "1"}})
POD_SPEC = {"containers": [{"name": "main", "image": "none"}]}


def create(plane: ControlPlane, ns: str, manifest: Json) -> str:
    """`created`, or what kubectl wrote instead."""
    ended = plane.kubectl("create", "-n", ns, "-f", "-", stdin=manifest)
    return "created" if ended.returncode == 0 else ended.stderr


def read(plane: ControlPlane, ns: str, what: str) -> Json:
    found = plane.kubectl("get", "-n", ns, what, "-o", "json", check=True)
    return json.loads(found.stdout)  # type: ignore[no-any-return]


def hard(plane: ControlPlane, ns: str) -> Json:
    """The limits in the quota's status, which are those that the built-in plugin looks at."""
    return read(plane, ns, "quota/quota").get("status", {}).get("hard", {})  # type: ignore[no-any-return]


def cpu_limit(pod: Json) -> str | None:
    return pod["spec"]["containers"][0].get("resources", {}).get("limits", {}).get("cpu")  # type: ignore[no-any-return]


@built_in
def test_kubectl_shows_the_version_that_go_mod_asks_for(control_plane: ControlPlane) -> None:
    if control_plane.programs.version is None:
        pytest.skip("the API server is the one of KUBEBUILDER_ASSETS")
    shown = json.loads(control_plane.kubectl("version", "-o", "json", check=True).stdout)
    assert control_plane.programs.version == build.kubernetes_version()
    assert shown["serverVersion"]["gitVersion"] == build.kubernetes_version()
    assert (shown["serverVersion"]["major"], shown["serverVersion"]["minor"]) == ("1", "36")


@built_in
def test_the_built_in_limit_range_sets_its_default(control_plane: ControlPlane, namespace: str) -> None:
    assert create(control_plane, namespace, LIMITS) == "created"
    assert eventually(lambda: create(control_plane, namespace, made("Pod", "one", POD_SPEC))) == "created"
    assert cpu_limit(read(control_plane, namespace, "pod/one")) == "300m"


@built_in
def test_the_built_in_quota_refuses_what_exceeds_it(control_plane: ControlPlane, namespace: str) -> None:
    assert create(control_plane, namespace, ONE_POD) == "created"
    eventually(lambda: hard(control_plane, namespace))
    assert create(control_plane, namespace, made("Pod", "one", POD_SPEC)) == "created"
    refusal = create(control_plane, namespace, made("Pod", "two", POD_SPEC))
    assert "exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1" in refusal


@built_in
def test_the_quota_controller_writes_the_limits_into_the_status(control_plane: ControlPlane, namespace: str) -> None:
    assert create(control_plane, namespace, ONE_POD) == "created"
    assert eventually(lambda: hard(control_plane, namespace)) == {"pods": "1"}


@bare
def test_without_the_plugins_nothing_is_set_and_nothing_refused(control_plane: ControlPlane, namespace: str) -> None:
    assert create(control_plane, namespace, LIMITS) == "created"
    assert create(control_plane, namespace, ONE_POD) == "created"
    status = {"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}}
    quota = f"/api/v1/namespaces/{namespace}/resourcequotas/quota/status"
    assert control_plane.call("PATCH", quota, status).status == 200
    for name in ("one", "two"):
        assert create(control_plane, namespace, made("Pod", name, POD_SPEC)) == "created"
        assert cpu_limit(read(control_plane, namespace, f"pod/{name}")) is None


@bare
def test_without_the_quota_controller_the_status_stays_empty(control_plane: ControlPlane, namespace: str) -> None:
    assert create(control_plane, namespace, ONE_POD) == "created"
    time.sleep(0.5)
    assert hard(control_plane, namespace) == {}


@bare
def test_a_service_account_may_do_what_its_role_says(control_plane: ControlPlane, namespace: str) -> None:
    as_account = control_plane.service_account_kubeconfig(namespace)
    refused = control_plane.kubectl("get", "pods", kubeconfig=as_account)
    assert f'User "system:serviceaccount:{namespace}:default" cannot list resource "pods"' in refused.stderr
    for what in (
        ["role", "reader", "--verb=list", "--resource=pods"],
        ["rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:default"],
    ):
        control_plane.kubectl("create", "-n", namespace, *what, check=True)
    allowed = eventually(lambda: control_plane.kubectl("get", "pods", kubeconfig=as_account).returncode == 0)
    assert allowed
    assert "forbidden" in control_plane.kubectl("get", "secrets", kubeconfig=as_account).stderr


@bare
@pytest.mark.parametrize("hard_end", [False, True], ids=["asked to end", "killed"])
def test_a_new_api_server_has_the_data_of_the_old_one(
    control_plane: ControlPlane, namespace: str, hard_end: bool
) -> None:
    assert create(control_plane, namespace, made("Pod", "one", POD_SPEC)) == "created"
    uid = read(control_plane, namespace, "pod/one")["metadata"]["uid"]
    as_account = control_plane.service_account_kubeconfig(namespace)
    old = control_plane.processes[API_SERVER].pid
    control_plane.restart_apiserver(hard=hard_end)
    assert control_plane.processes[API_SERVER].pid != old
    assert read(control_plane, namespace, "pod/one")["metadata"]["uid"] == uid
    who = control_plane.kubectl("auth", "whoami", kubeconfig=as_account, check=True)
    assert f"system:serviceaccount:{namespace}:default" in who.stdout


@full
def test_the_controllers_make_pods_and_the_scheduler_places_them(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.add_node("node", cpu="2")
    control_plane.kubectl("create", "deployment", "app", "--image=none", "--replicas=2", "-n", namespace, check=True)

    def placed() -> bool:
        pods = read(control_plane, namespace, "pods")["items"]
        return [pod["spec"].get("nodeName") for pod in pods] == ["node", "node"]

    eventually(placed, within=30, every=0.2)
    pod = read(control_plane, namespace, "pods")["items"][0]
    assert pod["spec"]["serviceAccountName"] == "default"


@bare
@pytest.mark.usefixtures("control_plane")  # to be left out without programs
def test_a_start_that_fails_shows_the_log() -> None:
    with pytest.raises(StartError, match=r"(?s)kube-apiserver ended with 1:.*unknown flag: --no-such-flag"):
        with ControlPlane(Variant(api_server_flags=("--no-such-flag",))):
            pass


def test_without_a_binary_the_summary_has_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "quota", __file__],
        env={"QUOTA_ADMISSION_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    skipped = [line for line in ended.stdout.splitlines() if line.startswith("SKIPPED")]
    assert len(skipped) == 1, ended.stdout
    assert skipped[0].endswith('no control plane: run "make controlplane" (needs Go)')
    assert ended.returncode == 0
