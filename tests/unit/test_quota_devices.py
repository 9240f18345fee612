from __future__ import annotations

from typing import Any

import pytest

from admission.objects import ObjectMeta, ResourceClaim, decode_resource_claim
from admission.quota.devices import controlling_pod, nothing_paid, observe_resource_claim, paid_for
from admission.quota.usage import observe_pod
from admission.resource_lists import ResourceList
from tests.unit.helpers import Json, amounts, encoded, pod, printed, table

CLASSES = {"gpu": "example.com/gpu", "tpu": ""}
EXTENDED = {"resource.kubernetes.io/extended-resource-claim": "true"}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}
IMPLICIT = "requests.deviceclass.resource.kubernetes.io/"


def device(line: str) -> Json:
    """`gpu*2` two exactly, `gpu*All`, `gpu*future-mode`."""
    name, _, count = line.partition("*")
    mode = {"allocationMode": "ExactCount", "count": int(count)} if count.isdigit() else {"allocationMode": count}
    return {"deviceClassName": name, **mode}


def claim(line: str, metadata: Json | None = None) -> ResourceClaim:
    """Requests separated by blanks; `gpu*2` is exactly that, `gpu*2,tpu*All` the first available."""
    requests = []
    for index, part in enumerate(line.split()):
        entry = {"exactly": device(part)} if "," not in part and not part.startswith("=") else {}
        if not entry:
            entry = {"firstAvailable": [device(one) for one in part.strip("=").split(",")]}
        requests.append({"name": f"r{index}", **entry})
    return decode_resource_claim(
        encoded({"metadata": {"name": "c", **(metadata or {})}, "spec": {"devices": {"requests": requests}}})
    )


def usage(claimed: ResourceClaim, paid: str = "") -> dict[str, str]:
    found = printed(observe_resource_claim(claimed, CLASSES, lambda _uid, _claim: amounts(paid)).usage)
    assert found.pop("count/resourceclaims.resource.k8s.io") == "1"
    names = {".deviceclass.resource.k8s.io/devices": " devices", IMPLICIT: "implicit ", "requests.example.com/": "x/"}
    for long, short in names.items():
        found = {name.replace(long, short): amount for name, amount in found.items()}
    return found


REQUESTS = """
gpu*2 gpu*3,tpu*All     | gpu devices=5, tpu devices=32, implicit gpu=5, implicit tpu=32, x/gpu=5
gpu*1                   | gpu devices=1, implicit gpu=1, x/gpu=1
tpu*1                   | tpu devices=1, implicit tpu=1
other*1                 | other devices=1, implicit other=1
gpu*2,gpu*1             | gpu devices=2, implicit gpu=2, x/gpu=2
gpu*1,gpu*All           | gpu devices=32, implicit gpu=32, x/gpu=32
=gpu*3                  | gpu devices=3, implicit gpu=3, x/gpu=3
gpu*future-mode         | gpu devices=0
gpu*0                   | gpu devices=0
=gpu*0                  |
gpu*future-mode,tpu*1   | tpu devices=1, implicit tpu=1
gpu*All gpu*1           | gpu devices=33, implicit gpu=33, x/gpu=33
gpu*1,tpu*2 gpu*2,tpu*1 | gpu devices=3, tpu devices=3, implicit gpu=3, implicit tpu=3, x/gpu=3
                        |
"""


@pytest.mark.parametrize(("line", "expected"), table(REQUESTS))
def test_a_claim_uses_devices_by_class_and_the_extended_resources_they_stand_for(line, expected):
    assert usage(claim(line)) == dict(part.split("=") for part in expected.split(", ") if part)


def test_admin_access_does_not_exempt():
    exactly = {**device("gpu*2"), "adminAccess": True}
    document = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    assert usage(decode_resource_claim(encoded(document)))["gpu devices"] == "2"


@pytest.mark.parametrize(
    "spec", [None, {}, {"devices": None}, {"devices": {"requests": None}}, {"devices": {"requests": [{}]}}]
)
def test_a_claim_without_requests_uses_its_count_alone(spec):
    assert usage(decode_resource_claim(encoded({"spec": spec}))) == {}


def extended(line: str, **metadata: Any) -> ResourceClaim:
    return claim(line, {"annotations": EXTENDED, "ownerReferences": [OWNER], **metadata})


PAID = f"""
gpu*1       | {IMPLICIT}gpu=1                            | gpu devices=1, x/gpu=1
gpu*1       | requests.example.com/gpu=1                 | gpu devices=1, implicit gpu=1
gpu*1 gpu*1 | {IMPLICIT}gpu=1 requests.example.com/gpu=1 | gpu devices=2, implicit gpu=1, x/gpu=1
gpu*1 gpu*1 |                                            | gpu devices=2, implicit gpu=2, x/gpu=2
gpu*1       | {IMPLICIT}gpu=5 requests.example.com/gpu=5 | gpu devices=1
gpu*1       | requests.cpu=5                             | gpu devices=1, implicit gpu=1, x/gpu=1
"""


@pytest.mark.parametrize(("line", "paid", "expected"), table(PAID))
def test_what_the_owning_pod_pays_for_is_not_counted_again(line, paid, expected):
    assert usage(extended(line), paid) == dict(part.split("=") for part in expected.split(", "))


def test_the_pod_is_asked_for_by_its_uid_and_the_claims_metadata():
    asked = []

    def paid(uid: str, asking: ObjectMeta) -> ResourceList:
        asked.append((uid, asking.name))
        return {}

    observe_resource_claim(extended("gpu*1"), CLASSES, paid)
    assert asked == [("pod-uid", "c")]


CREATED = "2030-01-01T12:00:00Z"
BEFORE, AFTER = "2030-01-01T11:59:59Z", "2030-01-01T12:00:01Z"


@pytest.mark.parametrize(
    ("named", "siblings", "pays"),
    [
        pytest.param("c", [], True, id="the status names this claim"),
        pytest.param("c", [(BEFORE, "a")], True, id="the status names this claim, and another is older"),
        pytest.param("other", [], False, id="the status names another claim"),
        pytest.param("", [], True, id="the only claim"),
        pytest.param("", [(AFTER, "a")], True, id="another is younger"),
        pytest.param("", [(BEFORE, "z")], False, id="another is older"),
        pytest.param("", [(AFTER, "a"), (BEFORE, "z")], False, id="one of several is older"),
        pytest.param("", [(CREATED, "a")], False, id="as old, with a smaller name"),
        pytest.param("", [(CREATED, "d")], True, id="as old, with a larger name"),
        pytest.param("", [(BEFORE, "c")], True, id="a claim is no sibling of itself"),
    ],
)
def test_a_pod_pays_for_the_claim_its_status_names_or_for_its_oldest(named, siblings, pays):
    status = {"extendedResourceClaimStatus": {"resourceClaimName": named}} if named else {}
    owner = observe_pod(pod("a: example.com/gpu 1/1", status=status))
    meta = ObjectMeta(name="c", creation_timestamp=CREATED)
    assert paid_for(meta, owner, siblings, now=0.0) == (owner.usage if pays else {})


def test_a_pod_that_counts_no_more_pays_for_its_count_alone():
    gone = pod("a: example.com/gpu 1/1", metadata={"deletionTimestamp": CREATED, "deletionGracePeriodSeconds": 0})
    paid = paid_for(ObjectMeta(name="c"), observe_pod(gone), [], now=10.0**12)
    assert printed(paid) == {"count/pods": "1"}


def test_a_claim_remembers_the_pod_it_was_made_for_and_when():
    made = observe_resource_claim(extended("gpu*1", creationTimestamp=CREATED), CLASSES, nothing_paid)
    assert (made.owner_pod, made.created) == ("pod-uid", CREATED)
    plain = observe_resource_claim(claim("gpu*1"), CLASSES, nothing_paid)
    assert (plain.owner_pod, plain.created, plain.facts) == ("", "", None)


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": None},
        {"annotations": {"resource.kubernetes.io/extended-resource-claim": "True"}},
        {"ownerReferences": None},
        {"ownerReferences": [{**OWNER, "controller": False}]},
        {"ownerReferences": [{**OWNER, "controller": None}]},
        {"ownerReferences": [{**OWNER, "kind": "Job"}]},
        {"ownerReferences": [{**OWNER, "apiVersion": "v2"}]},
        {"ownerReferences": [{**OWNER, "kind": "Job"}, {**OWNER, "controller": False}]},
    ],
    ids=str,
)
def test_only_an_extended_resource_claim_controlled_by_a_pod_is_paid_for(metadata):
    claimed = extended("gpu*1", **metadata)
    assert controlling_pod(claimed) is None
    assert usage(claimed, f"{IMPLICIT}gpu=1") == usage(claim("gpu*1"))


def test_alternatives_come_before_an_exact_request():
    both = {"name": "r", "exactly": device("gpu*5"), "firstAvailable": [device("tpu*2")]}
    document = {"spec": {"devices": {"requests": [both]}}}
    assert usage(decode_resource_claim(encoded(document))) == {"tpu devices": "2", "implicit tpu": "2"}


def test_the_older_form_of_a_request_is_read_too():
    document = {"spec": {"devices": {"requests": [{"name": "r", **device("gpu*2")}]}}}
    assert usage(decode_resource_claim(encoded(document))) == usage(claim("gpu*2"))
