from __future__ import annotations

from typing import Any

import pytest

from admission.objects import decode_volume_claim
from admission.quota.observed import PodFacts, VolumeClaimFacts
from admission.quota.scopes import ALL_SCOPES, Scope, matching, scopes_of
from admission.quota.usage import observe_pod, observe_volume_claim
from admission.resource_lists import add_into
from tests.unit.helpers import Json, amounts, encoded, pod, printed, quota, quota_of, scope, table


def in_scope(line: str, pod_line: str, **parts: Any) -> bool:
    return scope(line).matches(observe_pod(pod(pod_line, **parts)).facts)


# -- terminating


@pytest.mark.parametrize(("deadline", "terminating"), [(None, False), (0, True), (1, True), (30, True), (-1, False)])
def test_a_pod_with_a_deadline_is_terminating(deadline, terminating):
    spec = {"activeDeadlineSeconds": deadline}
    assert in_scope("Terminating", "a", spec=spec) is terminating
    assert in_scope("NotTerminating", "a", spec=spec) is not terminating


def test_terminating_has_nothing_to_do_with_deletion():
    metadata = {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    assert in_scope("NotTerminating", "a", metadata=metadata)


# -- quality of service

BEST_EFFORT = """
a                                              | yes
a: cpu 0/0, memory 0/0                         | yes
a: ephemeral-storage 1Gi/1Gi                   | yes
a: hugepages-2Mi 2Mi/2Mi                       | yes
a: example.com/gpu 1/1                         | yes
a; ephemeral e: cpu 1/1                        | yes
a; overhead: cpu=250m                          | yes
a: cpu 1m/-                                    | no
a: cpu -/1m                                    | no
a: memory 1/-                                  | no
a: memory -/1                                  | no
a; b: cpu 1/-                                  | no
a; init i: cpu 1/-                             | no
a; sidecar s: memory -/1                       | no
a; pod: cpu 1/-                                | no
a; pod: memory -/1Gi                           | no
a: cpu 1/1; pod: hugepages-2Mi 2Mi/2Mi         | yes
a: cpu 1/1; pod: cpu 0/0                       | yes
"""


@pytest.mark.parametrize(("line", "best_effort"), table(BEST_EFFORT))
def test_a_pod_that_is_promised_nothing_is_best_effort(line, best_effort):
    assert in_scope("BestEffort", line) is (best_effort == "yes")
    assert in_scope("NotBestEffort", line) is (best_effort == "no")


def test_empty_pod_level_resources_are_looked_at_alone():
    assert in_scope("BestEffort", "a: cpu 1/1", spec={"resources": {}})
    assert in_scope("NotBestEffort", "a: cpu 1/1", spec={"resources": None})


@pytest.mark.parametrize(("qos", "best_effort"), [("BestEffort", True), ("Burstable", False), ("Guaranteed", False)])
def test_a_quality_class_in_the_status_decides(qos, best_effort):
    for line in ("a", "a: cpu 1/1"):
        assert in_scope("BestEffort", line, status={"qosClass": qos}) is best_effort
        assert in_scope("NotBestEffort", line, status={"qosClass": qos}) is not best_effort
    assert in_scope("BestEffort", "a", status={"qosClass": ""})


# -- priority class

PRIORITY = """
PriorityClass                            | high | yes
PriorityClass                            |      | no
PriorityClass DoesNotExist               | high | no
PriorityClass DoesNotExist               |      | yes
PriorityClass In high low                | high | yes
PriorityClass In high low                | mid  | no
PriorityClass In high low                |      | no
PriorityClass NotIn high low             | high | no
PriorityClass NotIn high low             | mid  | yes
PriorityClass NotIn high low             |      | yes
PriorityClass in high                    | high | no
PriorityClass Gt 1                       | high | no
PriorityClass In bad_/value              | bad_/value | yes
PriorityClass NotIn bad_/value           | bad_/value | no
PriorityClass In                         | high | no
PriorityClass NotIn                      | high | yes
PriorityClass Exists high                | low  | yes
"""


@pytest.mark.parametrize(("line", "name", "matches"), table(PRIORITY))
def test_a_priority_class_is_selected_by_operator(line, name, matches):
    spec = {"priorityClassName": name} if name else {}
    assert in_scope(line, "a", spec=spec) is (matches == "yes")


def test_a_scope_without_operator_in_a_selector_matches_nothing():
    assert not Scope("PriorityClass", "").matches(PodFacts(priority_class="high"))
    assert not Scope("PriorityClass", "").matches(PodFacts())


@pytest.mark.parametrize("line", ["Terminating In x", "NotBestEffort DoesNotExist", "NotTerminating Nonsense"])
def test_other_scopes_ignore_operator_and_values(line):
    deadline = {"activeDeadlineSeconds": 5} if line.startswith("Terminating") else {}
    assert in_scope(line, "a: cpu 1/1", spec=deadline)


# -- affinity across namespaces

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS = [
    pytest.param({"namespaces": ["other"]}, True, id="a namespace"),
    pytest.param({"namespaceSelector": {"matchLabels": {"a": "b"}}}, True, id="a selector"),
    pytest.param({"namespaceSelector": {}}, True, id="an empty selector"),
    pytest.param({"namespaces": []}, False, id="an empty list"),
    pytest.param({"namespaces": None, "namespaceSelector": None}, False, id="nulls"),
    pytest.param({"topologyKey": "zone"}, False, id="neither"),
]


@pytest.mark.parametrize(("term", "across"), TERMS)
@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("strength", [REQUIRED, PREFERRED])
def test_a_pod_that_looks_at_other_namespaces_is_in_the_affinity_scope(term, across, side, strength):
    plain = {"topologyKey": "host"}
    terms = [plain, term] if strength == REQUIRED else [{"weight": 1, "podAffinityTerm": t} for t in (plain, term)]
    spec = {"affinity": {side: {strength: terms}}}
    assert in_scope("CrossNamespacePodAffinity", "a", spec=spec) is across


@pytest.mark.parametrize(
    "affinity", [None, {}, {"podAffinity": None}, {"podAffinity": {REQUIRED: None}}, {"nodeAffinity": {}}]
)
def test_a_pod_without_affinity_to_pods_is_not(affinity):
    assert not in_scope("CrossNamespacePodAffinity", "a", spec={"affinity": affinity})


# -- volume attributes class

ATTRIBUTES = """
VolumeAttributesClass              |             | no
VolumeAttributesClass              | gold        | yes
VolumeAttributesClass DoesNotExist |             | yes
VolumeAttributesClass DoesNotExist | gold        | no
VolumeAttributesClass In gold      |             | no
VolumeAttributesClass In gold      | gold        | yes
VolumeAttributesClass In gold      | silver      | no
VolumeAttributesClass In gold      | gold silver | yes
VolumeAttributesClass NotIn gold   |             | yes
VolumeAttributesClass NotIn gold   | gold        | no
VolumeAttributesClass NotIn gold   | silver      | yes
VolumeAttributesClass NotIn gold   | gold silver | yes
VolumeAttributesClass NotIn gold silver | gold silver | no
VolumeAttributesClass Nonsense gold | gold       | no
"""


def attributes_claim(spec: str = "", current: str = "", target: str = "") -> Json:
    modify = {"targetVolumeAttributesClassName": target} if target else None
    status = {"currentVolumeAttributesClassName": current or None, "modifyVolumeStatus": modify}
    return {"spec": {"volumeAttributesClassName": spec or None}, "status": status}


@pytest.mark.parametrize(("line", "classes", "matches"), table(ATTRIBUTES))
def test_a_claim_is_selected_by_the_attributes_classes_it_refers_to(line, classes, matches):
    assert scope(line).matches(VolumeClaimFacts(frozenset(classes.split()))) is (matches == "yes")


@pytest.mark.parametrize(
    ("document", "classes"),
    [
        (attributes_claim(), set()),
        (attributes_claim(spec="a"), {"a"}),
        (attributes_claim(current="b"), {"b"}),
        (attributes_claim(target="c"), {"c"}),
        (attributes_claim("a", "b", "c"), {"a", "b", "c"}),
        (attributes_claim("a", "a", "b"), {"a", "b"}),
        ({"spec": {"volumeAttributesClassName": ""}}, set()),
        ({"spec": None, "status": None}, set()),
    ],
)
def test_a_claim_refers_to_its_desired_current_and_target_class(document, classes):
    facts = observe_volume_claim(decode_volume_claim(encoded(document))).facts
    assert facts == VolumeClaimFacts(frozenset(classes))


# -- which kinds a scope can match

ANY_OPERATOR = [
    f"{name} {rest}" for name in sorted(ALL_SCOPES) for rest in ("Exists", "DoesNotExist", "NotIn x", "In x")
]


@pytest.mark.parametrize("line", ANY_OPERATOR)
def test_objects_that_are_neither_pods_nor_claims_match_no_scope(line):
    assert not scope(line).matches(None)


@pytest.mark.parametrize("line", [line for line in ANY_OPERATOR if not line.startswith("VolumeAttributesClass")])
def test_claims_match_no_scope_of_pods(line):
    assert not scope(line).matches(VolumeClaimFacts(frozenset(("x",))))
    assert not scope(line).matches(VolumeClaimFacts())


@pytest.mark.parametrize("operator", ["Exists", "DoesNotExist", "In x", "NotIn x"])
@pytest.mark.parametrize("name", ["VolumeAttributesClass", "Unknown"])
def test_pods_match_no_scope_of_claims_and_nothing_matches_an_unknown_scope(name, operator):
    for facts in (PodFacts(), PodFacts(True, True, "x", True)):
        assert not scope(f"{name} {operator}").matches(facts)
    assert not scope(f"Unknown {operator}").matches(VolumeClaimFacts(frozenset(("x",))))


# -- the scopes of a quota


def test_the_scopes_of_a_quota_are_its_list_and_then_its_selector():
    document = {
        "metadata": {"name": "q"},
        "spec": {
            "scopes": ["Terminating", "BestEffort"],
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a", "b"]}]
            },
        },
    }
    scopes = quota_of(document).policy.scopes
    assert [str(one) for one in scopes] == [
        "{Terminating Exists []}",
        "{BestEffort Exists []}",
        "{PriorityClass In [a b]}",
    ]


def test_a_quota_without_spec_has_no_scopes():
    assert scopes_of(None) == ()


@pytest.mark.parametrize(
    ("scopes", "applies"),
    [
        ([], True),
        (["Terminating"], True),
        (["Terminating", "NotBestEffort"], True),
        (["Terminating", "BestEffort"], False),
    ],
)
def test_a_quota_applies_where_all_its_scopes_match(scopes, applies):
    facts = observe_pod(pod("a: cpu 1/1", spec={"activeDeadlineSeconds": 1})).facts
    assert quota("q", "pods=1", scopes=scopes).policy.applies_to(facts) is applies


def test_the_scopes_an_object_is_in_keep_their_order():
    scopes = [scope(line) for line in ("PriorityClass In x", "BestEffort", "PriorityClass", "Terminating")]
    facts = PodFacts(best_effort=True, priority_class="x")
    assert matching(scopes, facts) == scopes[:3]


PODS_OF_A_NAMESPACE = [
    ("a: cpu 500m/-, memory 50Gi/-", {"priorityClassName": "high"}, "Running"),
    ("a: cpu 100m/-, memory 1Gi/-", {"priorityClassName": "low"}, "Running"),
    ("a: cpu 9/-, memory 9Gi/-", {}, "Failed"),
]
COUNTED = """
PriorityClass               | cpu=600m memory=51Gi pods=2
PriorityClass In high low   | cpu=600m memory=51Gi pods=2
PriorityClass In high       | cpu=500m memory=50Gi pods=1
PriorityClass In low        | cpu=100m memory=1Gi pods=1
PriorityClass NotIn high    | cpu=100m memory=1Gi pods=1
PriorityClass In random     |
NotBestEffort               | cpu=600m memory=51Gi pods=2
Terminating                 |
"""


@pytest.mark.parametrize(("line", "total"), table(COUNTED))
def test_what_the_pods_of_a_scope_use_together(line, total):
    used: dict[str, Any] = {}
    for stated, spec, phase in PODS_OF_A_NAMESPACE:
        observed = observe_pod(pod(stated, spec=spec, status={"phase": phase}))
        if scope(line).matches(observed.facts):
            add_into(used, observed.usage)
    listed = {name: used[name] for name in ("cpu", "memory", "pods") if name in used}
    assert printed(listed) == printed(amounts(total))


# -- what is wrong with a scope

SOUND = """
Terminating | NotTerminating | BestEffort | NotBestEffort | CrossNamespacePodAffinity | PriorityClass
VolumeAttributesClass | PriorityClass In a b | PriorityClass NotIn a | PriorityClass DoesNotExist
VolumeAttributesClass In a_B-c.9 | PriorityClass Exists | PriorityClass Exists a
"""


@pytest.mark.parametrize("line", [line for row in table(SOUND) for line in row])
def test_a_sound_scope_has_no_problem(line):
    assert scope(line).problem() is None


@pytest.mark.parametrize(
    ("broken", "part"),
    [
        (Scope("Nonsense"), "unknown"),
        (Scope("PriorityClass", ""), '"" is not a valid scope selector operator'),
        (Scope("PriorityClass", "Gt", ("1",)), '"Gt" is not a valid scope selector operator'),
        (Scope("VolumeAttributesClass", "exists"), '"exists" is not a valid scope selector operator'),
        (Scope("PriorityClass", "In"), "needs at least one value"),
        (Scope("VolumeAttributesClass", "NotIn"), "needs at least one value"),
        (Scope("PriorityClass", "In", ("ok", "bad value")), '"bad value" is not a valid label value'),
        (Scope("PriorityClass", "NotIn", ("a" * 64,)), "is not a valid label value"),
        (Scope("PriorityClass", "DoesNotExist", ("a",)), "DoesNotExist"),
    ],
    ids=str,
)
def test_a_broken_scope_says_what_is_wrong(broken, part):
    assert part in (broken.problem() or "nothing")
