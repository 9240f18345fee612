"""The review that is sent, and the answers that are taken."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from admission.apiserver import BadAnswer
from admission.apiserver.review import Change, Target, build_review, read_answer
from admission.apiserver.shapes import Malformed
from admission.kinds import resource_of
from tests.submit.objects import Json
from tests.vectors.replaying import vectors

THEIR_OWN = ("object", "oldObject", "uid", "userInfo", "name")
"""Parts of a review that are not about its form."""


def target_of(request: Json) -> Target:
    kind = request["kind"]
    version = f"{kind['group']}/{kind['version']}".strip("/")
    return Target(
        version,
        kind["kind"],
        resource_of(version, kind["kind"]),
        request["namespace"],
        request.get("name", ""),
        request.get("subResource", ""),
    )


def test_a_review_has_the_form_that_a_real_api_server_gives_it():
    forms = set()
    for vector in (*vectors("admission"), *vectors("wide")):
        recorded = vector["review"]["request"]
        change = Change(recorded["operation"], recorded["object"], recorded["oldObject"], recorded["dryRun"])
        sent = json.loads(build_review(target_of(recorded), change, "u"))
        assert (sent["apiVersion"], sent["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        request = sent["request"]
        assert {k: v for k, v in request.items() if k not in THEIR_OWN} == {
            k: v for k, v in recorded.items() if k not in THEIR_OWN
        }
        assert (request["uid"], request["object"], request["oldObject"]) == (
            "u",
            recorded["object"],
            recorded["oldObject"],
        )
        forms.add((request["resource"]["resource"], request["operation"], request.get("subResource")))
    assert len(forms) > 15


def test_what_has_no_namespace_is_sent_without_one():
    target = Target("v1", "Namespace", resource_of("v1", "Namespace"), "", "team")
    assert "namespace" not in json.loads(build_review(target, Change("CREATE", {}, None, False), "u"))["request"]


@pytest.mark.parametrize("value", [float("nan"), b"bytes", {1, 2}])
def test_an_object_that_is_no_json_is_malformed(value):
    target = Target("v1", "ConfigMap", resource_of("v1", "ConfigMap"), "ns", "a")
    with pytest.raises(Malformed):
        build_review(target, Change("CREATE", {"data": value}, None, False), "u")


def answer(response: Any, **review: Any) -> bytes:
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response, **review}
    ).encode()


def patch_of(operations: Any) -> str:
    return base64.b64encode(json.dumps(operations).encode()).decode()


def test_an_answer_is_read():
    operations = [{"op": "add", "path": "/a", "value": 1}]
    found = read_answer(
        answer(
            {
                "uid": "u",
                "allowed": True,
                "patchType": "JSONPatch",
                "patch": patch_of(operations),
                "warnings": ["one", "", "two"],
            }
        ),
        "u",
    )
    assert (found.allowed, found.patch, found.warnings, found.status) == (True, tuple(operations), ("one", "two"), {})


def test_only_true_is_admission():
    for allowed in (False, None, "yes", 1):
        assert not read_answer(answer({"uid": "u", "allowed": allowed, "status": {"code": 403}}), "u").allowed


JSON_PATCH = {"uid": "u", "allowed": True, "patchType": "JSONPatch"}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "json parse error"),
        (b"<html>", "json parse error"),
        (b"[" * 100_000, "json parse error"),
        (b"[]", "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"),
        (answer({}, kind="Status"), "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"),
        (answer({}, apiVersion="admission.k8s.io/v1beta1"), "expected webhook response of admission.k8s.io/v1"),
        (answer(None), "did not include a response"),
        (answer({"allowed": True}), 'expected response.uid="u", got ""'),
        (answer({"uid": "v", "allowed": True}), 'expected response.uid="u", got "v"'),
        (answer({"uid": "u", "allowed": True, "patch": patch_of([])}), 'unsupported patch type ""'),
        (answer({**JSON_PATCH, "patchType": "Full", "patch": patch_of([])}), 'unsupported patch type "Full"'),
        (answer({**JSON_PATCH, "patch": "%%"}), "undecodable patch"),
        (answer({**JSON_PATCH, "patch": base64.b64encode(b"{").decode()}), "undecodable patch"),
        (answer({**JSON_PATCH, "patch": patch_of({"op": "add"})}), "undecodable patch"),
        (answer({**JSON_PATCH, "patch": patch_of(["add"])}), "undecodable patch"),
        (answer({**JSON_PATCH, "patch": 5}), "undecodable patch"),
    ],
)
def test_an_answer_that_an_api_server_would_not_take(body, problem):
    with pytest.raises(BadAnswer) as raised:
        read_answer(body, "u")
    assert problem in str(raised.value)
