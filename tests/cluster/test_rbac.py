"""What the accounts of server and controller may do, and what not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.plane import ControlPlane
from tests.cluster.rig import CONTROLLER, MANIFESTS, NAMESPACE, SERVER, Rig

Json = dict[str, Any]

ours = pytest.mark.plane(plugins=False)
both = pytest.mark.rig(servers=1, controllers=1)

SERVER_MAY = [
    "list limitranges",
    "watch resourcequotas",
    "get resourcequotas",
    "update resourcequotas/status",
    "watch namespaces",
    "watch priorityclasses.scheduling.k8s.io",
    "watch deviceclasses.resource.k8s.io",
    "get pods",
    "list resourceclaims.resource.k8s.io",
    "get validatingwebhookconfigurations.admissionregistration.k8s.io/quota-admission",
]
SERVER_MAY_NOT = [
    "list pods",
    "get secrets",
    "update resourcequotas",
    "create resourcequotas",
    "delete resourcequotas",
    "update limitranges",
    "create validatingwebhookconfigurations.admissionregistration.k8s.io",
    "get validatingwebhookconfigurations.admissionregistration.k8s.io/another",
    "update validatingwebhookconfigurations.admissionregistration.k8s.io/quota-admission",
]
CONTROLLER_MAY = [
    "watch resourcequotas",
    "update resourcequotas/status",
    "watch pods",
    "get secrets",
    "list deployments.apps",
    "list jobs.batch",
    "update mutatingwebhookconfigurations.admissionregistration.k8s.io/quota-admission",
    "create validatingwebhookconfigurations.admissionregistration.k8s.io",
]
CONTROLLER_MAY_NOT = [
    "update resourcequotas",
    "create pods",
    "delete pods",
    "update secrets",
    "list nodes",
    "list widgets.example.com",
    "update mutatingwebhookconfigurations.admissionregistration.k8s.io/another",
    "delete validatingwebhookconfigurations.admissionregistration.k8s.io/another",
]
AT_HOME = [
    "create leases.coordination.k8s.io",
    "update leases.coordination.k8s.io/quota-admission-controller",
    "create resourcequotas",
    "update resourcequotas/quota-admission-probe",
    "create podtemplates",
]


def asked(what: str, namespace: str) -> Json:
    """`verb resource.group/name`; where the part after the slash is `status`, it is the subresource."""
    verb, _, rest = what.partition(" ")
    kind, _, name = rest.partition("/")
    resource, _, group = kind.partition(".")
    part = {"subresource": name} if name == "status" else {"name": name}
    return {"verb": verb, "group": group, "resource": resource, "namespace": namespace, **part}


def may(plane: ControlPlane, account: str, what: str, namespace: str = "default") -> bool:
    """Whether the authorizer of the API server lets a service account do it."""
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
    spec = {"user": user, "groups": groups, "resourceAttributes": asked(what, namespace)}
    answer = plane.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert answer.status == 201, answer.message
    return bool(answer.body["status"]["allowed"])


def manifests() -> Iterator[Json]:
    for file in sorted(MANIFESTS.glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text())


@ours
@both
def test_the_server_may_what_it_needs_and_no_more(control_plane: ControlPlane, rig: Rig) -> None:
    assert rig.servers[0].runs()
    assert [what for what in SERVER_MAY if not may(control_plane, SERVER, what)] == []
    assert [what for what in SERVER_MAY_NOT if may(control_plane, SERVER, what)] == []
    assert [what for what in AT_HOME if may(control_plane, SERVER, what, NAMESPACE)] == []


@ours
@both
def test_the_controller_may_what_it_needs_and_no_more(control_plane: ControlPlane, rig: Rig) -> None:
    assert rig.controllers[0].runs()
    assert [what for what in CONTROLLER_MAY if not may(control_plane, CONTROLLER, what)] == []
    assert [what for what in CONTROLLER_MAY_NOT if may(control_plane, CONTROLLER, what)] == []
    assert [what for what in AT_HOME if not may(control_plane, CONTROLLER, what, NAMESPACE)] == []
    assert [what for what in AT_HOME if may(control_plane, CONTROLLER, what)] == []


@ours
@both
def test_neither_is_ever_refused_for_lack_of_a_right(control_plane: ControlPlane, rig: Rig, namespace: str) -> None:
    hard = {"count/deployments.apps": "1", "pods": "1", "secrets": "1", "requests.storage": "1Gi"}
    quota = {"metadata": {"name": "all"}, "spec": {"hard": hard}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    assert control_plane.call("POST", path, quota).status == 201
    controller = rig.controllers[0]

    def used() -> Json:
        return control_plane.call("GET", f"{path}/all").body.get("status", {}).get("used", {})  # type: ignore[no-any-return]

    controller.wait_until(lambda: used().keys() == hard.keys(), 30)
    for replica in (*rig.servers, controller):
        refused = [line for line in replica.log_file.read_text().splitlines() if "403 " in line or "cannot " in line]
        assert refused == []


def test_no_rule_names_everything() -> None:
    roles = [one for one in manifests() if one["kind"] in ("Role", "ClusterRole")]
    assert len(roles) >= 5
    for role in roles:
        for rule in role["rules"]:
            for key in ("apiGroups", "resources", "verbs"):
                assert rule[key], role["metadata"]["name"]
                assert "*" not in rule[key], role["metadata"]["name"]


def test_every_role_is_bound_and_every_account_is_there() -> None:
    made = list(manifests())
    names = {(one["kind"], one["metadata"]["name"]) for one in made}
    bindings = [one for one in made if one["kind"].endswith("Binding")]
    bound = {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings}
    assert bound == {one for one in names if one[0] in ("Role", "ClusterRole")}
    accounts = {("ServiceAccount", one["name"]) for binding in bindings for one in binding["subjects"]}
    assert accounts == {one for one in names if one[0] == "ServiceAccount"}
