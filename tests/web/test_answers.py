"""What the answers of both endpoints look like, over the wire."""

import json

import pytest

from tests.standalone.manifests import (
    claim,
    config_map,
    create,
    delete,
    file_of,
    limit_range,
    pod,
    quota,
    resized,
    update,
)
from tests.standalone.server import ServerProcess
from tests.web.answers import judged, patch_of

LONG = "l" * 253
"""The longest name that an object may have."""
POLICIES = {
    "policies.yaml": file_of(
        quota("q", "pods=3 requests.cpu=2", ns="full"),
        limit_range("limits", ns="defaulted", default="cpu=500m memory=128Mi", defaultRequest="cpu=100m"),
        limit_range("limits", ns="bounded", max="cpu=1 memory=1Gi", min="cpu=100m"),
        limit_range("claims", ns="bounded", type="PersistentVolumeClaim", max="storage=1Gi"),
        quota("q", "pods=10 requests.cpu=2", "pods=1", ns="unknown"),
        quota(LONG, "pods=1 requests.cpu=1", ns="long"),
        limit_range(LONG, ns="longdefaults", default="cpu=1", max="cpu=2"),
        quota("near", "pods=10 requests.cpu=1", "pods=8 requests.cpu=0", ns="near"),
    )
}


@pytest.fixture(scope="module")
def server():
    with ServerProcess(POLICIES) as running:
        yield running


def ask(server, path, review):
    """The `response`, checked for its form, and for the uid that was asked with."""
    reply = server.call(f"{path}?timeout=10s", json.dumps(review).encode())
    response = judged(reply.status, reply.headers, reply.body)
    assert response is not None, reply.text
    assert response["uid"] == review["request"]["uid"]
    return response


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize(
    "uid", ["705ab4f5-6393-11e8-b7cc-42010a800002", "x", "ü-∑-\U0001f980", 'quote" \\ /', "u" * 1000]
)
def test_the_uid_comes_back_as_it_was(server, path, uid):
    assert ask(server, path, create(pod(ns="elsewhere"), uid=uid))["allowed"]


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize(
    "review",
    [
        create(pod(ns="elsewhere")),
        create(pod(ns="full", requests="cpu=1"), dry_run=True),
        create(config_map(ns="full")),
        delete(pod(ns="elsewhere")),
        update(pod(ns="elsewhere"), pod(ns="elsewhere"), sub_resource="status"),
    ],
    ids=["pod", "dry run", "config map", "deletion", "status"],
)
def test_where_there_is_nothing_to_say_nothing_is_said(server, path, review):
    assert ask(server, path, review) == {"uid": review["request"]["uid"], "allowed": True}


def test_defaults_are_a_patch_of_what_is_missing(server):
    response = ask(server, "/mutate", create(pod(ns="defaulted")))
    assert patch_of(response) == [
        {
            "op": "add",
            "path": "/spec/containers/0/resources",
            "value": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        },
        {
            "op": "add",
            "path": "/metadata/annotations",
            "value": {
                "kubernetes.io/limit-ranger": (
                    "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"
                )
            },
        },
    ]
    assert response["warnings"] == ['LimitRange "limits" set defaults for container c']


def test_what_has_everything_gets_no_patch(server):
    everything = "cpu=100m memory=1Mi"
    assert "patch" not in ask(server, "/mutate", create(pod(ns="defaulted", requests=everything, limits=everything)))


REFUSALS = [
    (
        "quota",
        create(pod(ns="full", requests="cpu=3")),
        "exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=0, limited: requests.cpu=2",
    ),
    ("duty", create(pod(ns="full")), "failed quota: q: must specify requests.cpu for: c"),
    (
        "maximum",
        create(pod(ns="bounded", requests="cpu=1", limits="cpu=2 memory=1Gi")),
        "maximum cpu usage per Container is 1, but limit is 2",
    ),
    (
        "several bounds",
        create(pod(ns="bounded", requests="cpu=1m", limits="cpu=2 memory=2Gi")),
        "[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1Gi, but limit "
        "is 2Gi, minimum cpu usage per Container is 100m, but request is 1m]",
    ),
    (
        "claim",
        create(claim(storage="2Gi", ns="bounded")),
        "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi",
    ),
    (
        "status unknown",
        create(pod(ns="unknown", requests="cpu=1")),
        "status unknown for quota: q, resources: pods,requests.cpu",
    ),
    (
        "resize",
        update(
            pod(ns="full", uid="r", requests="cpu=1"),
            resized(pod(ns="full", uid="r", requests="cpu=1"), "cpu=4"),
            sub_resource="resize",
        ),
        "exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=0, limited: requests.cpu=2",
    ),
    (
        "negative",
        create(pod(ns="full", requests="cpu=-1")),
        "quota usage is negative for resource(s): cpu,requests.cpu",
    ),
]


def parts_of(message):
    """The list in brackets has no fixed order."""
    return sorted(message[1:-1].split(", ")) if message.startswith("[") else message


@pytest.mark.parametrize(("review", "text"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_a_refusal_is_a_403_with_the_built_in_text(server, review, text):
    response = ask(server, "/validate", review)
    assert not response["allowed"]
    status = response["status"]
    assert (status["code"], status["reason"], status["status"]) == (403, "Forbidden", "Failure")
    assert parts_of(status["message"]) == parts_of(text)


def test_whoever_comes_close_to_a_quota_is_warned(server):
    assert ask(server, "/validate", create(pod(ns="near", uid="near", requests="cpu=1m")))["warnings"] == [
        'quota "near" is nearly full: pods 9 of 10 used'
    ]


@pytest.mark.parametrize(
    ("path", "review"),
    [
        ("/mutate", create(pod(LONG, ns="longdefaults"))),
        ("/validate", create(pod(LONG, ns="longdefaults"))),
        ("/validate", create(pod(LONG, ns="longdefaults", requests="cpu=1", limits="cpu=3"))),
        ("/validate", create(pod(LONG, ns="long"))),
        ("/validate", create(pod(LONG, ns="long", requests="cpu=5"))),
        ("/validate", create(pod(LONG, ns="long", requests="cpu=1"), dry_run=True)),
    ],
)
@pytest.mark.parametrize("containers", [1, 40])
@pytest.mark.parametrize("letter", ["c", "ü", "\U0001f980"])
def test_warnings_are_short_whatever_the_names(server, path, review, containers, letter):
    """The API server cuts, and counts, what is longer than 256 characters."""
    made = json.loads(json.dumps(review))
    spec = made["request"]["object"]["spec"]
    spec["containers"] = [{**spec["containers"][0], "name": f"{letter * 250}{index}"} for index in range(containers)]
    response = ask(server, path, made)
    assert response["warnings"]
    assert all(len(warning) < 256 for warning in response["warnings"])


def test_what_is_answered_is_counted(server):
    def count(outcome, stage="validate", **labels):
        return server.metric("quota_admission_reviews_total", stage=stage, outcome=outcome, **labels)

    before = {outcome: count(outcome) for outcome in ("allowed", "denied", "bad_call", "error")}
    before_mutate = count("allowed", "mutate")
    timed = server.metric("quota_admission_review_duration_seconds_count", stage="validate")
    for _ in range(3):
        server.review("/validate", create(pod(ns="elsewhere")))
    server.review("/validate", create(pod(ns="full", requests="cpu=3")))
    server.call("/validate", b"nonsense")
    server.review("/mutate", create(pod(ns="elsewhere")))
    after = {outcome: count(outcome) for outcome in before}
    assert {outcome: after[outcome] - before[outcome] for outcome in before} == {
        "allowed": 3,
        "denied": 1,
        "bad_call": 1,
        "error": 0,
    }
    assert count("denied", reason="exceeded-quota") >= 1
    assert count("bad_call", reason="400") >= 1
    assert count("allowed", "mutate") - before_mutate == 1
    assert server.metric("quota_admission_review_duration_seconds_count", stage="validate") - timed == 5
