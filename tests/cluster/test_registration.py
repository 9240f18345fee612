"""Registering with a real API server: that it takes the configurations, and what it sends to whom."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from admission.cluster.transport import ApiError, Transport
from admission.controller.health import health_problem, healthy
from admission.controller.registration import MUTATING_PATH, VALIDATING_PATH, Registration
from admission.controller.rules import ServiceEndpoint, UrlEndpoint, Webhooks
from tests.cluster.plane import ControlPlane
from tests.cluster.recorder import Asked, Recorder, new_authority
from tests.cluster.transports import Transports
from tests.standalone.server import eventually

Json = dict[str, Any]

# A control plane of its own: that of others has webhooks already.
pytestmark = pytest.mark.plane(plugins=False, api_server_flags=("--v=1",))

LEDGER = "quota-admission.dev/ledger"
PATHS = {"mutating": f"{MUTATING_PATH}/quota-admission", "validating": f"{VALIDATING_PATH}/quota-admission"}
KINDS = ("pods", "deployments.apps", "configmaps", "widgets.example.com", "secrets")
POD = {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]}


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(tmp_path) as recorder:
        yield recorder


@pytest.fixture
def connect() -> Iterator[Transports]:
    with Transports() as transports:
        yield transports


@pytest.fixture
def transport(control_plane: ControlPlane, connect: Transports) -> Transport:
    return connect(control_plane.kubeconfig)


Register = Callable[..., Registration]


@pytest.fixture
def register(
    control_plane: ControlPlane, transport: Transport, recorder: Recorder, namespace: str
) -> Iterator[Register]:
    """Registers the recorder; at the end nothing is registered any more, and the API server knows it."""
    registrations: list[Registration] = []

    def register(settings: Webhooks = Webhooks(), *, sync: bool = True, **options: Any) -> Registration:  # noqa: B008
        registration = Registration(transport, settings, UrlEndpoint(recorder.url), recorder.ca_file, **options)
        registrations.append(registration)
        if sync:
            assert registration.sync(KINDS, "webhook", "a reason"), registration.problem
            eventually(lambda: is_sent(control_plane, recorder, namespace))
        return registration

    yield register
    Registration(transport, Webhooks(), UrlEndpoint(recorder.url), None).remove()
    if registrations:
        eventually(lambda: not is_sent(control_plane, recorder, namespace))


def is_sent(plane: ControlPlane, recorder: Recorder, namespace: str) -> bool:
    """Whether the API server asks the recorder; it takes a moment to notice a registration."""
    recorder.asked(namespace)
    body = made("v1", "Service", "dry-run", {"ports": [{"port": 1}]})
    done(plane, "POST", f"/api/v1/namespaces/{namespace}/services?dryRun=All", body)
    return bool(recorder.asked(namespace))


def made(api: str, kind: str, name: str, spec: Json | None = None, **more: Any) -> Json:
    body: Json = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **more}
    return body if spec is None else {**body, "spec": spec}


def done(plane: ControlPlane, method: str, path: str, body: Json | None = None, **options: Any) -> Json:
    answer = plane.call(method, path, body, **options)
    assert answer.status in (200, 201), answer.message
    return answer.body


def stored(plane: ControlPlane) -> dict[str, Json]:
    return {name: done(plane, "GET", path) for name, path in PATHS.items()}


def versions(plane: ControlPlane) -> list[str]:
    return [configuration["metadata"]["resourceVersion"] for configuration in stored(plane).values()]


def annotations(plane: ControlPlane) -> Json:
    return stored(plane)["validating"]["metadata"]["annotations"]  # type: ignore[no-any-return]


# -- what is written


def test_the_api_server_takes_both_and_what_it_fills_in_is_no_difference(
    control_plane: ControlPlane, register: Register
) -> None:
    registration = register(Webhooks(own_users=("a",), own_groups=("b",)))
    before = versions(control_plane)
    assert registration.sync(KINDS[::-1], "webhook", "a reason")
    assert versions(control_plane) == before
    names = [
        webhook["name"] for configuration in stored(control_plane).values() for webhook in configuration["webhooks"]
    ]
    assert names == [f"{name}.quota-admission.dev" for name in ("defaults", "enforce", "guard")]


def test_the_api_server_takes_a_service_as_the_endpoint(
    control_plane: ControlPlane, transport: Transport, recorder: Recorder, register: Register
) -> None:
    register(sync=False)
    endpoint = ServiceEndpoint("quota-admission", "webhook", 8443)
    asked: list[str] = []

    def check(url: str, bundle: bytes | None) -> str:
        asked.append(url)
        return ""

    settings = Webhooks(validating_failure_policy="Ignore", guard_failure_policy="Ignore", exempt_namespaces=())
    registration = Registration(transport, settings, endpoint, recorder.ca_file, check=check)
    assert registration.sync((), "webhook", ""), registration.problem
    assert asked == ["https://webhook.quota-admission.svc:8443/readyz"]
    before = versions(control_plane)
    assert registration.sync((), "webhook", ""), registration.problem
    assert versions(control_plane) == before
    registration.remove()
    assert registration.sync((), "webhook", "")
    registration.remove()


def test_it_says_who_accounts_and_why(control_plane: ControlPlane, register: Register) -> None:
    registration = register()
    expected = {"quota-admission.dev/accounting": "webhook", "quota-admission.dev/accounting-reason": "a reason"}
    assert annotations(control_plane) == expected
    assert registration.sync(KINDS, "apiserver", "another")
    assert list(annotations(control_plane).values()) == ["apiserver", "another"]


def test_what_was_edited_or_deleted_is_put_right_and_what_others_added_stays(
    control_plane: ControlPlane, register: Register
) -> None:
    registration = register()
    for path in PATHS.values():
        added = {"metadata": {"annotations": {"team": "x"}, "labels": {"team": "y"}}}
        done(control_plane, "PATCH", path, added)
    before = versions(control_plane)
    assert registration.sync(KINDS, "webhook", "a reason")
    assert versions(control_plane) == before

    webhook = stored(control_plane)["validating"]["webhooks"][0]
    done(control_plane, "PATCH", PATHS["validating"], {"webhooks": [{**webhook, "failurePolicy": "Ignore"}]})
    done(control_plane, "DELETE", PATHS["mutating"])
    assert registration.sync(KINDS, "webhook", "a reason")
    configurations = stored(control_plane)
    assert [webhook["failurePolicy"] for webhook in configurations["validating"]["webhooks"]] == ["Fail", "Fail"]
    assert configurations["validating"]["metadata"]["annotations"]["team"] == "x"
    assert configurations["validating"]["metadata"]["labels"] == {
        "team": "y",
        "app.kubernetes.io/name": "quota-admission",
        "app.kubernetes.io/managed-by": "quota-admission",
    }


def test_who_writes_between_our_read_and_our_write_is_not_overwritten(
    control_plane: ControlPlane, transport: Transport, register: Register
) -> None:
    registration = register()
    interfered: list[str] = []

    class Interfering(Transport):
        def call(self, method: str, path: str, *args: Any, **options: Any) -> Any:
            if method == "PUT" and path not in interfered:
                interfered.append(path)
                done(control_plane, "PATCH", path, {"metadata": {"labels": {"team": "x"}}})
            return transport.call(method, path, *args, **options)

    registration._transport = Interfering(transport._client)
    registration.settings = Webhooks(timeout_seconds=9)
    assert registration.sync(KINDS, "webhook", "a reason"), registration.problem
    assert interfered == list(PATHS.values())
    for configuration in stored(control_plane).values():
        assert configuration["metadata"]["labels"]["team"] == "x"
        assert configuration["webhooks"][0]["timeoutSeconds"] == 9


def test_the_bundle_follows_its_file(control_plane: ControlPlane, recorder: Recorder, register: Register) -> None:
    registration = register()
    first = recorder.ca_file.read_bytes()

    def bundles() -> set[bytes]:
        configurations = stored(control_plane).values()
        found = [webhook["clientConfig"]["caBundle"] for each in configurations for webhook in each["webhooks"]]
        return set(map(base64.b64decode, found))

    assert bundles() == {first}
    new_authority(recorder.ca_file)
    both = recorder.ca_file.read_bytes() + first
    recorder.ca_file.write_bytes(b"a comment\n" + both)
    assert registration.sync(KINDS, "webhook", "a reason")
    assert bundles() == {both}

    for spoil, problem in (
        (recorder.ca_file.unlink, f"{recorder.ca_file} cannot be read: No such file or directory"),
        (lambda: recorder.ca_file.write_text("nonsense"), f"{recorder.ca_file} holds no certificates in PEM"),
    ):
        spoil()
        seconds = registration.settings.timeout_seconds + 1
        registration.settings = Webhooks(timeout_seconds=seconds)
        assert not registration.sync(KINDS, "webhook", "a reason")
        assert registration.problem == problem
        assert bundles() == {both}
        assert (
            stored(control_plane)["validating"]["webhooks"][0]["timeoutSeconds"]
            == registration.settings.timeout_seconds
        )


# -- when it is written


def test_the_first_registration_waits_for_a_healthy_endpoint_and_says_so_once(
    control_plane: ControlPlane, recorder: Recorder, register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    registration = register(sync=False)
    recorder.ready = False
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not registration.sync(KINDS, "webhook", "")
    assert len(caplog.records) == 1
    assert registration.problem == (
        f"not registered yet, the endpoint is not healthy: {recorder.url}/readyz answers 503 Service Unavailable"
    )
    assert [control_plane.call("GET", path).status for path in PATHS.values()] == [404, 404]
    recorder.ready = True
    assert registration.sync(KINDS, "webhook", "")
    assert registration.problem == ""


def test_what_is_registered_is_changed_whether_the_endpoint_is_healthy_or_not(
    control_plane: ControlPlane, recorder: Recorder, register: Register
) -> None:
    registration = register()
    recorder.ready = False
    registration.settings = Webhooks(timeout_seconds=9)
    assert registration.sync(KINDS, "webhook", "a reason")
    assert stored(control_plane)["mutating"]["webhooks"][0]["timeoutSeconds"] == 9
    # Somebody frees the cluster from webhooks that do not answer: they do not come back before they do.
    done(control_plane, "DELETE", PATHS["validating"])
    assert not registration.sync(KINDS, "webhook", "a reason")
    assert control_plane.call("GET", PATHS["validating"]).status == 404
    recorder.ready = True
    assert registration.sync(KINDS, "webhook", "a reason")
    assert stored(control_plane)


def test_without_a_certificate_file_nothing_is_registered(
    control_plane: ControlPlane, recorder: Recorder, register: Register
) -> None:
    registration = register(sync=False)
    recorder.ca_file.unlink()
    assert not registration.sync(KINDS, "webhook", "")
    assert registration.problem == f"{recorder.ca_file} cannot be read: No such file or directory"
    assert [control_plane.call("GET", path).status for path in PATHS.values()] == [404, 404]


@pytest.mark.usefixtures("control_plane")
def test_an_endpoint_is_healthy_where_the_api_server_would_call_it(recorder: Recorder, tmp_path: Path) -> None:
    bundle = recorder.ca_file.read_bytes()
    url = f"{recorder.url}/readyz"
    assert healthy(url, bundle)
    new_authority(tmp_path / "other.crt")
    port = recorder.url.rpartition(":")[2]
    for wrong, text in {
        (url, (tmp_path / "other.crt").read_bytes()): "its certificate is not accepted: ",
        (url, None): "its certificate is not accepted: ",
        (f"https://localhost:{port}/readyz", bundle): "its certificate is not accepted: Hostname mismatch",
        ("https://127.0.0.1:1/readyz", bundle): "Connection refused",
        ("https://no-such-name.invalid/readyz", bundle): "its name cannot be looked up: ",
    }.items():
        assert health_problem(*wrong).startswith(f"{wrong[0]}: {text}")
        assert "\n" not in health_problem(*wrong)


def test_an_account_that_may_not_register_is_told_so(
    control_plane: ControlPlane, connect: Transports, recorder: Recorder, namespace: str
) -> None:
    as_account = connect(control_plane.service_account_kubeconfig(namespace))
    registration = Registration(as_account, Webhooks(), UrlEndpoint(recorder.url), recorder.ca_file)
    assert not registration.sync(KINDS, "webhook", "")
    assert 'cannot get resource "mutatingwebhookconfigurations"' in registration.problem
    with pytest.raises(ApiError, match="cannot delete"):
        registration.remove()


# -- what is sent


def test_pods_are_sent_when_it_matters(
    control_plane: ControlPlane, recorder: Recorder, register: Register, namespace: str
) -> None:
    register()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    one = f"{pods}/one"

    def sent(method: str, path: str, body: Json) -> list[Asked]:
        recorder.asked(namespace)
        done(control_plane, method, path, body)
        return recorder.asked(namespace)

    creation = [Asked("mutate", "CREATE", "pods"), Asked("validate", "CREATE", "pods")]
    assert sent("POST", pods, made("v1", "Pod", "one", POD)) == creation
    assert sent("PATCH", one, {"metadata": {"labels": {"a": "b"}}}) == []
    assert sent("PATCH", f"{one}/status", {"status": {"phase": "Running"}}) == []
    assert sent("PATCH", f"{one}/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}) == []
    update = [Asked("validate", "UPDATE", "pods")]
    assert sent("PATCH", one, {"spec": {"activeDeadlineSeconds": 60}}) == update
    assert sent("PATCH", one, {"metadata": {"labels": {"a": "c"}}}) == []
    assert sent("PATCH", one, {"spec": {"activeDeadlineSeconds": 30}}) == update
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}}}]
    resize = [Asked("mutate", "UPDATE", "pods/resize"), Asked("validate", "UPDATE", "pods/resize")]
    assert sent("PATCH", f"{one}/resize", {"spec": {"containers": containers}}) == resize


def test_what_else_is_measured_is_sent_when_it_is_created_and_updated(
    control_plane: ControlPlane, recorder: Recorder, register: Register, namespace: str
) -> None:
    register()
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    device = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}
    for api, plural, kind, spec in (
        ("v1", "services", "Service", {"ports": [{"port": 1}]}),
        ("v1", "persistentvolumeclaims", "PersistentVolumeClaim", claim),
        ("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", device),
    ):
        path = f"/{'apis' if '/' in api else 'api'}/{api}/namespaces/{namespace}/{plural}"
        recorder.asked(namespace)
        done(control_plane, "POST", path, made(api, kind, "one", spec))
        done(control_plane, "PATCH", f"{path}/one", {"metadata": {"labels": {"a": "b"}}})
        assert recorder.asked(namespace) == [Asked("validate", "CREATE", plural), Asked("validate", "UPDATE", plural)]
    status = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/one/status"
    done(control_plane, "PATCH", status, {"status": {"phase": "Bound"}})
    assert recorder.asked(namespace) == [Asked("validate", "UPDATE", "persistentvolumeclaims/status")]


def test_other_kinds_are_sent_when_they_are_created_as_long_as_a_quota_counts_them(
    control_plane: ControlPlane, recorder: Recorder, register: Register, namespace: str
) -> None:
    registration = register()
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    def sent(name: str) -> list[Asked]:
        recorder.asked(namespace)
        done(control_plane, "POST", path, made("v1", "ConfigMap", name, data={"a": "b"}))
        done(control_plane, "PATCH", f"{path}/{name}", {"data": {"a": "c"}})
        done(control_plane, "DELETE", f"{path}/{name}")
        return recorder.asked(namespace)

    assert sent("one") == [Asked("validate", "CREATE", "configmaps")]
    assert registration.sync(("secrets",), "webhook", "")
    eventually(lambda: not sent("two"))
    assert registration.sync(("secrets", "configmaps"), "webhook", "")
    eventually(lambda: sent("three"))


def test_nothing_is_sent_from_exempt_namespaces(
    control_plane: ControlPlane, recorder: Recorder, register: Register, namespace: str
) -> None:
    exempt = f"{namespace}-exempt"
    control_plane.create_namespace(exempt)
    register(Webhooks(exempt_namespaces=("kube-system", exempt)))
    for where in (namespace, exempt):
        recorder.asked(where)
        path = f"/api/v1/namespaces/{where}"
        done(control_plane, "POST", f"{path}/pods", made("v1", "Pod", "one", POD))
        done(
            control_plane, "POST", f"{path}/resourcequotas", made("v1", "ResourceQuota", "one", {"hard": {"pods": "1"}})
        )
        done(control_plane, "PATCH", f"{path}/resourcequotas/one", {"metadata": {"annotations": {LEDGER: "forged"}}})
    assert len(recorder.asked(namespace)) == 3
    assert recorder.asked(exempt) == []


# -- the guard

GUARDED = [Asked("validate", "UPDATE", "resourcequotas")]


@pytest.fixture
def quota(control_plane: ControlPlane, namespace: str) -> str:
    """The path of a quota."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    done(control_plane, "POST", path, made("v1", "ResourceQuota", "one", {"hard": {"pods": "1"}}))
    return f"{path}/one"


def test_the_guard_is_asked_where_the_ledger_changes_and_only_there(
    control_plane: ControlPlane, recorder: Recorder, register: Register, namespace: str, quota: str
) -> None:
    register(Webhooks(own_users=("somebody",), own_groups=("system:serviceaccounts:quota-admission",)))

    def sent(body: Json, sub_resource: str = "") -> list[Asked]:
        recorder.asked(namespace)
        done(control_plane, "PATCH", quota + sub_resource, body)
        return recorder.asked(namespace)

    by_status = [Asked("validate", "UPDATE", "resourcequotas/status")]
    assert sent({"metadata": {"labels": {"a": "b"}}}) == []
    assert sent({"metadata": {"annotations": {"another": "one"}}}) == []
    assert sent({"spec": {"hard": {"pods": "2"}}}) == []
    assert sent({"metadata": {"annotations": {LEDGER: "forged"}}}) == GUARDED
    assert sent({"metadata": {"annotations": {"another": None}}}) == []
    assert sent({"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}}, "/status") == []
    assert sent({"metadata": {"annotations": {LEDGER: "forged again"}}}) == GUARDED
    assert sent({"metadata": {"annotations": {LEDGER: "by status"}}}, "/status") == by_status
    assert sent({"metadata": {"annotations": {LEDGER: None}}}) == GUARDED
    assert sent({"metadata": {"labels": {"a": "c"}}}) == []
    recorder.refusal = "it is not yours"
    refused = control_plane.call("PATCH", quota, {"metadata": {"annotations": {LEDGER: "forged"}}})
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.message == 'admission webhook "guard.quota-admission.dev" denied the request: it is not yours'


@pytest.mark.parametrize("by_group", [True, False], ids=["named by a group", "named as a user"])
def test_our_own_accounts_write_the_ledger_without_being_asked(
    control_plane: ControlPlane, recorder: Recorder, register: Register, namespace: str, quota: str, by_group: bool
) -> None:
    ours = {
        "own_groups": (f"system:serviceaccounts:{namespace}",) if by_group else (),
        "own_users": () if by_group else (f"system:serviceaccount:{namespace}:default",),
    }
    control_plane.kubectl(
        *("create", "role", "writer", "-n", namespace, "--verb=get,patch", "--resource=resourcequotas"), check=True
    )
    control_plane.kubectl(
        *("create", "rolebinding", "writer", "-n", namespace, "--role=writer"),
        f"--serviceaccount={namespace}:default",
        check=True,
    )
    token = control_plane.service_account_token(namespace)
    eventually(lambda: control_plane.call("GET", quota, token=token).status == 200)
    register(Webhooks(**ours))
    recorder.asked(namespace)
    done(control_plane, "PATCH", quota, {"metadata": {"annotations": {LEDGER: "one"}}}, token=token)
    assert recorder.asked(namespace) == []
    done(control_plane, "PATCH", quota, {"metadata": {"annotations": {LEDGER: "two"}}})
    assert recorder.asked(namespace) == GUARDED
