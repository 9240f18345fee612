"""The order of the stages, and what happens to an object between them."""

from __future__ import annotations

import base64
import json

import pytest

from admission.apiserver import CallFailed, Cause, Status
from tests.submit.inprocess import Json, Scripted, api_server, unchanged
from tests.submit.objects import container, deployment, obj, pod, resources

TIME = "2026-01-02T03:04:05Z"
MUTATING = "defaults.quota-admission.dev"
ENFORCING = "enforce.quota-admission.dev"


def patching(*operations: Json) -> Json:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def add(path: str, value: object) -> Json:
    return {"op": "add", "path": path, "value": value}


def steps(webhooks: Scripted) -> list[tuple[str, str]]:
    return [(path, request["operation"]) for path, request in webhooks.asked]


# -- creating


def test_a_pod_is_mutated_then_named_and_dated_then_validated():
    webhooks = Scripted()
    body = pod("web", container(limits="cpu=1.0"))
    same = unchanged(body)
    outcome = api_server(webhooks).create(body, "team")
    assert steps(webhooks) == [("/mutate", "CREATE"), ("/validate", "CREATE")]
    first, second = (request for _, request in webhooks.asked)
    full = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    assert first["object"] == {**pod(ns="team"), "spec": {"containers": [{"name": "c", "resources": full}]}}
    assert second["object"] == outcome.stored
    assert outcome.stored == {
        **first["object"],
        "metadata": {"name": "web", "namespace": "team", "uid": "uid-2", "creationTimestamp": TIME},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    for request in (first, second):
        assert (request["name"], request["namespace"], request["oldObject"]) == ("web", "team", None)
        assert request["dryRun"] is False
    assert first["uid"] != second["uid"]
    assert outcome.status is None
    assert same()


def test_the_patch_is_applied_and_defaults_are_filled_in_once_more():
    limits = add("/spec/containers/0/resources", {"limits": {"cpu": "200m"}})
    webhooks = Scripted(mutate=lambda _: patching(limits))
    outcome = api_server(webhooks).create(pod(), "team")
    assert outcome.patch == (limits,)
    assert webhooks.asked[1][1]["object"]["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "200m"},
        "requests": {"cpu": "200m"},
    }


def test_a_name_is_generated_after_the_mutating_stage():
    webhooks = Scripted()
    outcome = api_server(webhooks).create(obj("Pod", "", metadata={"generateName": "job-"}, spec={}), "team")
    assert "name" not in webhooks.asked[0][1]["object"]["metadata"]
    assert outcome.stored["metadata"]["name"] == "job-aaaaa"
    assert [request["name"] for _, request in webhooks.asked] == ["", ""]


def test_a_generated_name_is_not_longer_than_a_name_may_be():
    outcome = api_server(Scripted()).create(obj("Pod", "", metadata={"generateName": "x" * 70}, spec={}), "team")
    assert outcome.stored["metadata"]["name"] == "x" * 58 + "aaaaa"


def test_a_name_is_needed_and_that_is_said_after_the_mutating_stage():
    webhooks = Scripted()
    outcome = api_server(webhooks).create(obj("Pod", "", spec={}), "team")
    cause = Cause("metadata.name", "Required value: name or generateName is required")
    assert outcome.status == Status(422, "Invalid", f'Pod "" is invalid: {cause}', "Pod", "", (cause,))
    assert steps(webhooks) == [("/mutate", "CREATE")]


def test_what_only_the_server_decides_is_not_taken_from_the_client():
    body = pod()
    body["metadata"].update(uid="mine", resourceVersion="7", generation=4, creationTimestamp="then", selfLink="/x")
    body["metadata"].update(deletionTimestamp="then", deletionGracePeriodSeconds=30)
    stored = api_server(Scripted()).create({**body, "status": {"phase": "Succeeded"}}, "team").stored
    assert stored["metadata"] == {"name": "web", "namespace": "team", "uid": "uid-2", "creationTimestamp": TIME}
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (pod(requests="cpu=1"), {"phase": "Pending", "qosClass": "Burstable"}),
        (
            {**pod(requests="cpu=1"), "status": {"qosClass": "BestEffort"}},
            {"phase": "Pending", "qosClass": "BestEffort"},
        ),
        (obj("PersistentVolumeClaim", status={"phase": "Bound"}), {"phase": "Pending"}),
        (deployment(status={"replicas": 3}), None),
        (obj("Service"), None),
        (obj("Widget", version="example.com/v1", status={"own": 1}), {"own": 1}),
    ],
)
def test_the_status_that_a_kind_begins_with(body, status):
    assert api_server(Scripted()).create(body, "team").stored.get("status") == status


def test_what_has_no_namespace_is_sent_without_one():
    webhooks = Scripted()
    api_server(webhooks).create(obj("Namespace", "team"), "")
    assert all("namespace" not in request for _, request in webhooks.asked)
    assert all("namespace" not in request["object"]["metadata"] for _, request in webhooks.asked)


def test_the_api_itself_refuses_before_the_validating_stage():
    webhooks = Scripted(mutate=lambda _: patching(add("/spec/containers/0/resources/limits", {"cpu": "500m"})))
    outcome = api_server(webhooks).create(pod(requests="cpu=1"), "team")
    cause = Cause(
        "spec.containers[0].resources.requests", 'Invalid value: "1": must be less than or equal to cpu limit of 500m'
    )
    assert outcome.status == Status(422, "Invalid", f'Pod "web" is invalid: {cause}', "Pod", "web", (cause,))
    assert outcome.stored is None
    assert len(outcome.patch) == 1
    assert steps(webhooks) == [("/mutate", "CREATE")]


# -- refusals


def refusing(**status: object) -> dict[str, object]:
    return {"allowed": False, "status": status}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"code": 403, "reason": "Forbidden", "message": "no"}, Status(403, "Forbidden", "denied the request: no")),
        ({"code": 403, "reason": "Forbidden"}, Status(403, "Forbidden", "denied the request: Forbidden")),
        ({"code": 200, "message": "no"}, Status(400, "", "denied the request: no")),
        ({}, Status(400, "", "denied the request without explanation")),
    ],
)
@pytest.mark.parametrize(("stage", "webhook"), [("mutate", MUTATING), ("validate", ENFORCING)])
def test_a_webhook_that_refuses_is_named(stage, webhook, status, expected):
    webhooks = Scripted(**{stage: lambda _: {**refusing(**status), "warnings": ["careful"]}})
    outcome = api_server(webhooks).create(pod(), "team")
    message = f'admission webhook "{webhook}" {expected.message}'
    assert outcome.status == Status(expected.code, expected.reason, message)
    assert outcome.stored is None
    assert outcome.warnings == ("careful",)
    assert webhooks.asked[-1][0] == f"/{stage}"


def test_warnings_of_both_stages_are_kept_in_their_order():
    webhooks = Scripted(mutate=lambda _: {"warnings": ["a", "b"]}, validate=lambda _: {"warnings": ["c"]})
    assert api_server(webhooks).create(pod(), "team").warnings == ("a", "b", "c")


def failing(error: Exception):
    def answer(_: Json) -> Json:
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (failing(CallFailed("Post: EOF")), "failed to call webhook: Post: EOF"),
        (lambda _: {"uid": "other"}, 'received invalid webhook response: expected response.uid="uid-1", got "other"'),
        (lambda _: {"patch": "e30="}, 'received invalid webhook response: unsupported patch type ""'),
    ],
)
def test_a_webhook_that_fails_is_an_internal_error(answer, message):
    status = api_server(Scripted(mutate=answer)).create(pod(), "team").status
    assert status == Status(
        500, "InternalError", f'Internal error occurred: failed calling webhook "{MUTATING}": {message}'
    )


def test_a_patch_that_does_not_fit_is_an_internal_error():
    webhooks = Scripted(mutate=lambda _: patching(add("/spec/no/where", 1)))
    status = api_server(webhooks).create(pod(), "team").status
    assert (status.code, status.reason) == (500, "InternalError")
    assert status.message == "Internal error occurred: patch cannot be applied: add /spec/no/where"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (pod(limits="cpu=abc"), 'Pod in version "v1" cannot be handled as a Pod: quantities must match'),
        ({**deployment(), "metadata": []}, 'Deployment in version "v1" cannot be handled as a Deployment: '),
        (obj("Secret", data={"a": float("nan")}), 'Secret in version "v1" cannot be handled as a Secret: '),
    ],
)
def test_an_object_that_cannot_be_read_is_a_bad_request_and_nobody_is_asked(body, problem):
    webhooks = Scripted()
    status = api_server(webhooks).create(body, "team").status
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message.startswith(problem)
    assert webhooks.asked == []


# -- replacing and deleting


def stored_pod(**spec: object) -> Json:
    body = pod(ns="team", **spec)
    body["metadata"].update(uid="u", resourceVersion="9", creationTimestamp="then")
    return {**body, "status": {"phase": "Running", "qosClass": "Burstable"}}


def test_an_update_brings_the_old_object_and_keeps_what_it_may_not_change():
    webhooks = Scripted()
    old = stored_pod()
    new = {**pod(activeDeadlineSeconds=5), "status": {"phase": "Failed"}}
    outcome = api_server(webhooks).update(new, old, "team")
    assert steps(webhooks) == [("/mutate", "UPDATE"), ("/validate", "UPDATE")]
    assert all(request["oldObject"] == old for _, request in webhooks.asked)
    assert outcome.stored["metadata"] == old["metadata"]
    assert outcome.stored["status"] == old["status"]
    assert outcome.stored["spec"]["activeDeadlineSeconds"] == 5


def test_an_old_object_without_uid_and_version_gets_a_version_and_no_uid():
    webhooks = Scripted()
    outcome = api_server(webhooks).update(obj("Service"), obj("Service"), "team")
    expected = {"name": "web", "namespace": "team", "resourceVersion": "1"}
    assert webhooks.asked[1][1]["oldObject"]["metadata"] == expected
    assert outcome.stored["metadata"] == expected


def test_an_update_of_what_is_not_there_asks_nobody():
    webhooks = Scripted()
    status = api_server(webhooks).update(deployment(), None, "team").status
    assert status == Status(404, "NotFound", 'deployments.apps "web" not found')
    assert webhooks.asked == []


def test_a_resize_changes_resources_and_nothing_else():
    webhooks = Scripted(mutate=lambda _: patching(add("/metadata/annotations", {"a": "b"})))
    old = stored_pod(requests="cpu=1", activeDeadlineSeconds=5)
    new = pod("web", container(requests="cpu=2", limits="memory=1Gi"), resources=resources(limits="cpu=4"))
    outcome = api_server(webhooks).update(new, old, "team", sub_resource="resize")
    assert {request["subResource"] for _, request in webhooks.asked} == {"resize"}
    assert outcome.stored["metadata"] == old["metadata"]
    assert outcome.stored["status"] == old["status"]
    assert outcome.stored["spec"] == {
        "activeDeadlineSeconds": 5,
        "containers": [container(requests="cpu=2 memory=1Gi", limits="memory=1Gi")],
        "resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "2", "memory": "1Gi"}},
    }
    assert webhooks.asked[1][1]["object"] == outcome.stored


def test_a_resize_may_not_change_other_resources():
    webhooks = Scripted()
    new = pod(requests="cpu=1 ephemeral-storage=1Gi")
    status = api_server(webhooks).update(new, stored_pod(requests="cpu=1"), "team", sub_resource="resize").status
    assert status.message == 'Pod "web" is invalid: spec: Forbidden: only cpu and memory resources are mutable'
    assert steps(webhooks) == [("/mutate", "UPDATE")]


def test_an_update_of_the_status_changes_nothing_else():
    webhooks = Scripted()
    new = {**pod(requests="cpu=2"), "status": {"phase": "Succeeded"}}
    old = stored_pod(requests="cpu=1")
    outcome = api_server(webhooks).update(new, old, "team", sub_resource="status")
    assert outcome.stored == {**old, "status": {"phase": "Succeeded"}}


def test_a_deletion_is_validated_alone_with_the_old_object():
    webhooks = Scripted()
    outcome = api_server(webhooks).delete(pod(limits="cpu=1"), "team", dry_run=True)
    assert steps(webhooks) == [("/validate", "DELETE")]
    request = webhooks.asked[0][1]
    assert request["object"] is None
    assert request["dryRun"] is True
    assert request["options"] == {"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "dryRun": ["All"]}
    assert request["oldObject"] == {
        **pod(ns="team", limits="cpu=1", requests="cpu=1"),
        "metadata": {"name": "web", "namespace": "team", "resourceVersion": "1"},
    }
    assert (outcome.stored, outcome.status) == (None, None)


def test_a_deletion_can_be_refused():
    webhooks = Scripted(validate=lambda _: refusing(code=403, reason="Forbidden", message="no"))
    assert api_server(webhooks).delete(pod(), "team").status.code == 403


def test_an_object_that_says_its_uid_is_deleted_by_it():
    webhooks = Scripted()
    api_server(webhooks).delete(stored_pod(), "team")
    assert webhooks.asked[0][1]["oldObject"]["metadata"]["uid"] == "u"
