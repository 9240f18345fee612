"""Which steps a review goes through, and what the API server is told."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest

from admission.errors import BadCall
from admission.limits.defaults import ANNOTATION
from admission.objects import decode_review
from admission.quota.names import IGNORED_KINDS
from tests.unit.fakes import Namespace
from tests.unit.helpers import Json, encoded, limit_policy, pod_json, quota, review, table

LIMITS = limit_policy(
    "Container default cpu=2 defaultRequest cpu=2; PersistentVolumeClaim max storage=1Gi; Pod max cpu=1"
)
TOO_LARGE = "maximum cpu usage per Pod is 1, but limit is 2"
CLAIM_TOO_LARGE = "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
DELETED = {"deletionTimestamp": "2030-01-01T00:00:00Z", "resourceVersion": "1"}


def claim_json(storage: str = "2Gi", **metadata: Any) -> Json:
    return {"metadata": {"name": "c", **metadata}, "spec": {"resources": {"requests": {"storage": storage}}}}


def template_json() -> Json:
    return {"metadata": {"name": "w"}, "spec": {"template": pod_json("a: cpu 9/9"), "containers": [{"name": "a"}]}}


# -- LimitRange

LIMIT_RANGE_KINDS = """
pods                             | CREATE  | defaulted | judged
pods                             | UPDATE  |           |
pods                             | DELETE  |           |
pods                             | CONNECT |           |
pods/resize                      | CREATE  |           |
pods/resize                      | UPDATE  | defaulted | judged
pods/status                      | UPDATE  |           |
pods/ephemeralcontainers         | UPDATE  |           |
pods/binding                     | CREATE  |           |
pods/eviction                    | CREATE  |           |
pods/other                       | UPDATE  |           |
persistentvolumeclaims           | CREATE  |           | judged
persistentvolumeclaims           | UPDATE  |           | judged
persistentvolumeclaims           | DELETE  |           |
persistentvolumeclaims/status    | UPDATE  |           |
persistentvolumeclaims/other     | CREATE  |           |
pods.metrics.example.com         | CREATE  |           |
persistentvolumeclaims.example.com | CREATE |          |
deployments.apps                 | CREATE  |           |
replicasets.apps                 | CREATE  |           |
jobs.batch                       | UPDATE  |           |
podtemplates                     | CREATE  |           |
services                         | CREATE  |           |
"""


def documents(kind: str, operation: str, line: str) -> tuple[Json | None, Json | None]:
    """The new and the old object of a review."""
    if kind.startswith("persistentvolumeclaims"):
        made = claim_json()
    elif kind.startswith("pods"):
        made = pod_json(line)
    else:
        made = template_json()
    old = {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}}
    return (None if operation == "DELETE" else made), (None if operation == "CREATE" else old)


@pytest.mark.parametrize(("kind", "operation", "defaulted", "judged"), table(LIMIT_RANGE_KINDS))
def test_limit_ranges_see_these_operations_alone(kind, operation, defaulted, judged):
    world = Namespace(limits=[LIMITS])
    mutated = world.mutate(review(operation, kind, *documents(kind, operation, "a")))
    assert (mutated.allowed, bool(mutated.patch)) == (True, bool(defaulted))
    found = world.ask(operation, kind, *documents(kind, operation, "a: cpu 2/2"))
    expected = CLAIM_TOO_LARGE if kind.startswith("persistentvolumeclaims") else TOO_LARGE
    assert found == (expected if judged else "admitted")


@pytest.mark.parametrize(("kind", "new"), [("pods/resize", pod_json("a")), ("persistentvolumeclaims", claim_json())])
def test_what_is_being_deleted_already_is_neither_defaulted_nor_judged(kind, new):
    world = Namespace(limits=[LIMITS])
    gone, there = ({**new, "metadata": {**new["metadata"], **more}} for more in (DELETED, {"resourceVersion": "1"}))
    assert not world.mutate(review("UPDATE", kind, new, gone)).patch
    assert world.ask("UPDATE", kind, new, gone) == "admitted"
    assert world.ask("UPDATE", kind, gone, there) != "admitted"


def test_a_deletion_timestamp_in_a_new_object_means_nothing():
    world = Namespace(limits=[LIMITS])
    doomed = pod_json("a: cpu 2/2; b", metadata=DELETED)
    assert world.mutate(review("CREATE", "pods", doomed)).patch
    assert world.ask("CREATE", "pods", doomed) == TOO_LARGE
    assert world.ask("CREATE", "persistentvolumeclaims", claim_json(**DELETED)) == CLAIM_TOO_LARGE


def test_limit_ranges_hold_in_their_namespace_alone():
    world = Namespace(limits=[LIMITS])
    asked = review("CREATE", "pods", pod_json("a: cpu 2/2; b"), namespace="other")
    assert not world.mutate(asked).patch
    assert world.validate(asked).allowed


WITHOUT_DEFAULTS = (
    "Pod max cpu=200m memory=4Gi min cpu=50m memory=2Mi; Container max cpu=100m memory=2Gi min cpu=25m memory=1Mi"
)
SELECTION = """
pods        | CREATE |         | reject
pods        | UPDATE |         | admit
pods/status | UPDATE |         | admit
pods/resize | UPDATE |         | reject
pods        | UPDATE | deleted | admit
pods/resize | UPDATE | deleted | admit
"""


@pytest.mark.parametrize(("kind", "operation", "deleted", "outcome"), table(SELECTION))
def test_bounds_without_defaults_give_nothing_and_refuse_what_states_nothing(kind, operation, deleted, outcome):
    world = Namespace(limits=[limit_policy(WITHOUT_DEFAULTS)])
    old = None if operation == "CREATE" else pod_json("foo", metadata=DELETED if deleted else {"resourceVersion": "1"})
    assert not world.mutate(review(operation, kind, pod_json("foo"), old)).patch
    found = world.ask(operation, kind, pod_json("foo"), old)
    assert (found == "admitted") is (outcome == "admit")


def test_several_limit_ranges_are_taken_by_name_in_both_stages():
    policies = [
        limit_policy("Container default cpu=3 defaultRequest cpu=3; Pod max memory=1Gi", name="z"),
        limit_policy("Container default cpu=2 defaultRequest cpu=2; Pod max cpu=1", name="m"),
        limit_policy("Container max cpu=4", name="a"),
    ]
    world = Namespace(limits=policies)
    patched = jsonpatch.apply_patch(pod_json("x"), world.mutate(review("CREATE", "pods", pod_json("x"))).patch)
    assert patched["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    assert world.ask("CREATE", "pods", patched) == TOO_LARGE


def test_a_mirror_pod_of_a_node_is_never_patched_but_judged():
    world = Namespace(limits=[LIMITS])
    mirror = {"metadata": {"annotations": {"kubernetes.io/config.mirror": "hash"}}}
    node = ["system:nodes", "system:authenticated"]
    assert world.mutate(review("CREATE", "pods", pod_json("a", **mirror), groups=node)).patch == []
    assert world.mutate(review("CREATE", "pods", pod_json("a", **mirror))).patch != []
    assert world.ask("CREATE", "pods", pod_json("a: cpu 2/2", **mirror)) == TOO_LARGE


def test_a_dry_run_is_defaulted_and_judged_like_any_other():
    world = Namespace(limits=[LIMITS])
    assert world.mutate(review("CREATE", "pods", pod_json("a"), dry_run=True)).patch
    assert world.ask("CREATE", "pods", pod_json("a: cpu 2/2"), dry_run=True) == TOO_LARGE


def test_limit_ranges_come_before_quotas_and_what_they_refuse_is_not_charged():
    world = Namespace(limits=[LIMITS], quotas=[quota("q", "pods=0 requests.cpu=0")])
    assert world.ask("CREATE", "pods", pod_json("a: cpu 2/2")) == TOO_LARGE
    assert world.ledger.applications == []
    assert world.ask("CREATE", "pods", pod_json("a: cpu 1/1")).startswith("exceeded quota: q, ")


def test_the_patched_pod_is_what_is_counted():
    world = Namespace(
        limits=[limit_policy("Container default cpu=2 defaultRequest cpu=1")], quotas=[quota("q", "requests.cpu=9")]
    )
    before = pod_json("a; b")
    assert world.ask("CREATE", "pods", before) == "failed quota: q: must specify requests.cpu for: a,b"
    after = jsonpatch.apply_patch(before, world.mutate(review("CREATE", "pods", before)).patch)
    assert world.ask("CREATE", "pods", after) == "admitted"
    assert world.used() == {"q": {"requests.cpu": "2"}}


# -- reviews that cannot be judged


def base(**more: Any) -> Json:
    request = {"uid": "1", "operation": "CREATE", "resource": {"resource": "pods", "group": "", "version": "v1"}}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {**request, "namespace": "ns", "object": pod_json("a"), **more},
    }


BAD = [
    pytest.param({**base(), "apiVersion": "admission.k8s.io/v1beta1"}, "admissionReviewVersions", id="v1beta1"),
    pytest.param({**base(), "apiVersion": ""}, "apiVersion", id="no version"),
    pytest.param({**base(), "kind": "Pod"}, "AdmissionReview", id="another kind"),
    pytest.param({**base(), "request": None}, "request", id="no request"),
    pytest.param(base(uid=""), "request.uid", id="an empty uid"),
    pytest.param(base(object=None), "request.object", id="no object"),
    pytest.param(base(object={"spec": []}), "request.object", id="an object of another shape"),
    pytest.param(
        base(object={"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}), "request.object", id="cpu"
    ),
]


@pytest.mark.parametrize(("document", "part"), BAD)
@pytest.mark.parametrize("stage", ["mutate", "validate"])
def test_a_review_that_cannot_be_judged_is_a_bad_call_in_one_line(document, part, stage):
    world = Namespace(limits=[LIMITS])
    with pytest.raises(BadCall) as caught:
        getattr(world, stage)(decode_review(encoded(document)))
    assert part in caught.value.message
    assert caught.value.status == 400
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"apiVersion": "admission.k8s.io/v1"}',
        b'{"apiVersion": 1, "kind": "AdmissionReview"}',
        encoded(base(operation="PATCH")),
        encoded(base(resource=None)),
        encoded({**base(), "request": {"operation": "CREATE"}}),
        b"[" * 100_000,
        b'{"kind": "AdmissionReview", "unknown": ' + b"[" * 100_000,
        b'{"kind": "\xff"}',
    ],
    ids=lambda data: repr(data[:40]),
)
def test_a_body_that_is_no_review_is_a_bad_call(data):
    with pytest.raises(BadCall) as caught:
        decode_review(data)
    assert caught.value.status == 400
    assert "\n" not in caught.value.message


def test_the_answer_carries_the_uid_of_the_review():
    world = Namespace(limits=[LIMITS])
    for stage in (world.mutate, world.validate):
        assert stage(review("CREATE", "pods", pod_json("a: cpu 2/2; b"), uid="some-uid")).uid == "some-uid"


# -- kinds and operations that nobody asks about


@pytest.mark.parametrize("kind", sorted(IGNORED_KINDS))
def test_ignored_kinds_are_admitted_without_a_look(kind):
    world = Namespace(quotas=[quota("q", f"count/{kind}=0")])
    for operation in ("CREATE", "UPDATE"):
        assert world.ask(operation, kind, {"metadata": []}) == "admitted"
    assert world.ledger.applications == []


def test_what_has_no_namespace_and_namespaces_themselves_are_admitted():
    world = Namespace(quotas=[quota("q", "count/namespaces=0 count/nodes=0")])
    assert world.ask("CREATE", "nodes", {"metadata": {"name": "n"}}, namespace="") == "admitted"
    assert world.ask("CREATE", "namespaces", {"metadata": {"name": "ns"}}) == "admitted"
    assert world.ledger.applications == []


# -- warnings


def warnings_of(world: Namespace, document: Json, stage: str = "validate") -> list[str]:
    return list(getattr(world, stage)(review("CREATE", "pods", document)).warnings)


@pytest.mark.parametrize(
    ("used", "warned"),
    [("0", False), ("8", False), ("8001m", True), ("9", True)],
)
def test_a_quota_that_is_used_by_nine_tenths_is_told_of(used, warned):
    world = Namespace(quotas=[quota("q", "requests.cpu=10 pods=99", f"requests.cpu={used} pods=0")])
    found = warnings_of(world, pod_json("a: cpu 999m/1"))
    assert any("nearly full" in text and "requests.cpu" in text for text in found) is warned


def test_a_quota_that_is_used_up_is_told_of_as_full():
    world = Namespace(quotas=[quota("q", "pods=1"), quota("r", "pods=1 count/pods=10", "pods=0 count/pods=8")])
    assert warnings_of(world, pod_json("a")) == [
        'quota "q" is full: pods 1 of 1 used',
        'quota "r" is nearly full: count/pods 9 of 10 used, pods 1 of 1 used',
    ]


def test_warnings_are_short_few_and_each_given_once():
    line = "; ".join(f"{'x' * 200}{index}: cpu 9/9" for index in range(20))
    found = warnings_of(Namespace(limits=[limit_policy("Container max cpu=1")]), pod_json(line))
    assert len(found) == 8
    assert len(set(found)) == 8
    assert max(map(len, found)) <= 255
    assert found[-1] == "and 13 more"


def test_a_pod_that_needs_nothing_gets_no_warning_and_no_patch():
    world = Namespace(limits=[limit_policy("Container default cpu=1 max cpu=2")], quotas=[quota("q", "pods=99")])
    answer = world.mutate(review("CREATE", "pods", pod_json("a: cpu 1/1")))
    assert (list(answer.patch), list(answer.warnings), answer.message, answer.reason) == ([], [], "", "")
    assert warnings_of(world, pod_json("a: cpu 1/1")) == []


def test_a_refusal_changes_nothing_and_says_why():
    answer = Namespace(limits=[LIMITS]).validate(review("CREATE", "pods", pod_json("a: cpu 2/2")))
    assert (answer.allowed, answer.reason, list(answer.patch)) == (False, "limit-range", [])
    assert answer.message == TOO_LARGE
    assert answer.warnings


def test_the_annotation_comes_with_the_defaults():
    patch = Namespace(limits=[LIMITS]).mutate(review("CREATE", "pods", pod_json("a"))).patch
    assert jsonpatch.apply_patch(pod_json("a"), patch)["metadata"]["annotations"] == {
        ANNOTATION: "LimitRanger plugin set: cpu request for container a; cpu limit for container a"
    }


def test_a_pod_of_more_containers_than_can_be_stored_is_no_call_to_judge():
    many = {"spec": {"containers": [{}] * 20_001}}
    with pytest.raises(BadCall, match="a pod of more than 20000 containers is not judged"):
        Namespace().mutate(review("CREATE", "pods", many))


@pytest.mark.parametrize("kind", ["p" * 513, f"pods.{'g' * 513}"])
def test_a_name_longer_than_any_is_no_call_to_judge(kind):
    with pytest.raises(BadCall, match="a name of more than 512 characters"):
        Namespace().validate(review("CREATE", kind, {"metadata": {"name": "a"}}))
