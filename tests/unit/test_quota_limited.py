"""Resources that may be used only where a quota covers them."""

from __future__ import annotations

import pytest

from admission.errors import Denied
from admission.quota.check import QuotaRequest, Use, check
from admission.quota.observed import PodFacts
from admission.quota.usage import observe_pod
from tests.unit.asking import limited, refusal, request
from tests.unit.helpers import pod, quota


def test_a_limited_name_needs_a_quota_that_has_it():
    asked = request("cpu=3 requests.cpu=3 memory=2Gi limits.cpu=0")
    text = "insufficient quota to consume: cpu,requests.cpu"
    assert refusal(asked, limited=[limited("cpu")]) == (text, "uncovered")
    assert refusal(asked, quota("q", "requests.cpu=9"), limited=[limited("cpu")])[0] == text.replace(
        ",requests.cpu", ""
    )
    assert check(asked, [quota("q", "requests.cpu=9"), quota("r", "cpu=9")], limited=[limited("cpu")])
    assert check(asked, [quota("r", "memory=9Gi")], limited=[limited("cpu", kind="services"), limited("storage")])


def test_a_quota_that_does_not_apply_covers_no_name():
    scoped = quota("q", "cpu=9 requests.cpu=9", scopes=["Terminating"])
    assert refusal(request("cpu=1"), scoped, limited=[limited("cpu")])[1] == "uncovered"


def test_an_update_that_adds_nothing_needs_no_cover_but_one_that_adds_anything_needs_all():
    needs = [limited("loadbalancers", kind="services")]
    same = request("services.loadbalancers=1", "services.loadbalancers=1", kind="services", facts=None)
    assert check(same, [], limited=needs) == []
    more = request(
        "services.loadbalancers=1 services.nodeports=2",
        "services.loadbalancers=1 services.nodeports=1",
        kind="services",
        facts=None,
    )
    assert refusal(more, limited=needs)[0] == "insufficient quota to consume: services.loadbalancers"


def test_a_limited_scope_is_covered_by_the_same_scope_with_any_operator_and_an_empty_status():
    empty = quota("q", "", scopes=["PriorityClass NotIn other"])
    asked = request("pods=1", facts=PodFacts(priority_class="x"))
    needs = [limited(scopes=["PriorityClass In x"])]
    assert check(asked, [empty], limited=needs) == []
    text = "insufficient quota to match these scopes: [{PriorityClass In [x]}]"
    assert refusal(asked, quota("q", "", scopes=["PriorityClass NotIn x"]), limited=needs) == (text, "uncovered")


def test_limited_scopes_hold_for_every_resource_of_the_configuration():
    asked = request("pods=1", facts=PodFacts(priority_class="x"))
    needs = [limited(scopes=["PriorityClass In x y"], kind="services"), limited(scopes=["NotTerminating"])]
    text = "insufficient quota to match these scopes: [{PriorityClass In [x y]} {NotTerminating Exists []}]"
    assert refusal(asked, limited=needs)[0] == text
    assert check(request("services=1", kind="services", facts=None), [], limited=needs) == []


def test_what_uses_nothing_needs_no_cover():
    asked = request("cpu=0", facts=PodFacts(priority_class="x"))
    needs = [limited("cpu", ["PriorityClass"])]
    assert check(asked, [], limited=needs) == []
    assert refusal(request("cpu=0 pods=1", facts=PodFacts(priority_class="x")), limited=needs)[1] == "uncovered"


def test_names_are_looked_at_before_scopes_and_cover_before_fit():
    asked = request("cpu=5", facts=PodFacts(priority_class="x"))
    needs = [limited("cpu", ["PriorityClass"])]
    assert refusal(asked, limited=needs)[0].startswith("insufficient quota to consume: cpu")
    assert refusal(asked, quota("q", "cpu=1"), limited=needs)[0].startswith("insufficient quota to match these scopes")
    covered = quota("q", "cpu=1", scopes=["PriorityClass"])
    assert refusal(asked, covered, limited=needs)[1] == "exceeded-quota"


def test_a_broken_limited_scope_matches_nothing_and_hides_nothing():
    asked = request("pods=1", facts=PodFacts(priority_class="x"))
    assert refusal(asked, quota("q", "pods=0"), limited=[limited(scopes=["PriorityClass Gt 1"])])[1] == "exceeded-quota"


# -- the scenarios of the built-in plugin

CS = "cluster-services"
TWO = [limited(scopes=["BestEffort"]), limited(scopes=[f"PriorityClass In {CS}"])]
ONE_OF_TWO = [limited(scopes=["PriorityClass In another-priorityclass-name cluster-services"])]
PC_EXISTS = [limited(scopes=["PriorityClass"])]
BEST_EFFORT = quota("best", "pods=5", "pods=3", scopes=["BestEffort"])
OF_CLASS = quota("class", "pods=5", "pods=3", scopes=[f"PriorityClass In {CS}"])
EMPTY_OF_CLASS = quota("quota", "", scopes=["PriorityClass"])
STATED, UNSTATED, SMALL = "a: cpu 3/-, memory 2Gi/-", "a", "a: cpu 100m/-, memory 1Gi/-"


def consume(names: str) -> str:
    return f"insufficient quota to consume: {names}"


def match(scopes: str) -> str:
    return f"insufficient quota to match these scopes: [{scopes}]"


NO_CLASS = match(f"{{PriorityClass In [{CS}]}}")
NO_BEST = match("{BestEffort Exists []}")
NEITHER = match(f"{{BestEffort Exists []}} {{PriorityClass In [{CS}]}}")
NO_OTHER = match("{PriorityClass In [another-priorityclass-name cluster-services]}")
MEMORY = quota("quota", "memory=10Gi", "memory=1Gi")
CPU = quota("cpu", "requests.cpu=10", "requests.cpu=1")
CLASS_MEMORY = quota("quota", "memory=10Gi", "memory=1Gi", scopes=["PriorityClass"])
TOO_MUCH = "exceeded quota: quota, requested: memory=20Gi, used: memory=1Gi, limited: memory=10Gi"
UNRELATED = quota("quota", "")

SCENARIOS = [
    ("pods with cpu, no quota", [limited("cpu")], [], STATED, "", consume("cpu,requests.cpu")),
    ("services with services, no quota", [limited("services", kind="services")], [], STATED, "", "admit"),
    ("a quota of requests.cpu", [limited("requests.cpu")], [CPU], STATED, "", "admit"),
    ("a quota of requests.cpu beside one of memory", [limited("requests.cpu")], [CPU, MEMORY], STATED, "", "admit"),
    ("a quota of memory alone", [limited("cpu")], [MEMORY], STATED, "", consume("cpu,requests.cpu")),
    ("an empty quota of the class", PC_EXISTS, [EMPTY_OF_CLASS], STATED, "fake", "admit"),
    (
        "an empty quota of the class, and a name",
        [limited("requests.cpu", ["PriorityClass"])],
        [EMPTY_OF_CLASS],
        STATED,
        "fake",
        consume("requests.cpu"),
    ),
    ("an unrelated quota", PC_EXISTS, [UNRELATED], STATED, "fake", match("{PriorityClass Exists []}")),
    ("best effort without a quota", [limited(scopes=["BestEffort"])], [], UNSTATED, "", NO_BEST),
    ("best effort with its quota", [limited(scopes=["BestEffort"])], [BEST_EFFORT], UNSTATED, "", "admit"),
    ("neither scope is met", TWO, [UNRELATED], SMALL, "fake", "admit"),
    ("the first scope is met", TWO, [], UNSTATED, "fake", NO_BEST),
    ("the second scope is met", TWO, [], SMALL, CS, NO_CLASS),
    ("both scopes are met", TWO, [], UNSTATED, CS, NEITHER),
    ("both are met, one is covered", TWO, [BEST_EFFORT], UNSTATED, CS, NO_CLASS),
    ("both are met, the other is covered", TWO, [OF_CLASS], UNSTATED, CS, NO_BEST),
    ("both are met and covered", TWO, [BEST_EFFORT, OF_CLASS], UNSTATED, CS, "admit"),
    ("nothing is limited", [], [], STATED, "fake", "admit"),
    ("covered but too much", PC_EXISTS, [CLASS_MEMORY], "a: memory 20Gi/-", "fake", TOO_MUCH),
    ("another class", [limited(scopes=[f"PriorityClass In {CS}"])], [OF_CLASS], STATED, "fake", "admit"),
    ("one of two classes, a quota of it", ONE_OF_TWO, [OF_CLASS], STATED, CS, "admit"),
    (
        "one of two classes, a quota of the other",
        ONE_OF_TWO,
        [quota("q", "pods=5", scopes=["PriorityClass In another-priorityclass-name"])],
        STATED,
        CS,
        NO_OTHER,
    ),
    ("one of two classes, no quota", ONE_OF_TWO, [], STATED, CS, NO_OTHER),
    (
        "one of two classes, a quota of any",
        ONE_OF_TWO,
        [quota("q", "pods=5", scopes=["PriorityClass"])],
        STATED,
        CS,
        "admit",
    ),
]


@pytest.mark.parametrize(
    ("needs", "quotas", "line", "priority", "outcome"),
    [pytest.param(*rest, id=name) for name, *rest in SCENARIOS],
)
def test_limited_resources_need_a_quota(needs, quotas, line, priority, outcome):
    stated = pod(line, spec={"priorityClassName": priority})
    observed = observe_pod(stated)
    asked = QuotaRequest("pods", Use(observed.usage, observed.facts), pod=stated)
    try:
        check(asked, quotas, limited=needs)
    except Denied as denied:
        found = denied.message
    else:
        found = "admit"
    assert found == outcome


NODE_PORT = "services=1 services.loadbalancers=0 services.nodeports=1"
BALANCER = "services=1 services.loadbalancers=1 services.nodeports=1"


@pytest.mark.parametrize(
    ("new", "old", "admitted"),
    [
        pytest.param(BALANCER, BALANCER, True, id="stays a load balancer"),
        pytest.param(BALANCER, NODE_PORT, False, id="becomes a load balancer"),
        pytest.param(NODE_PORT, BALANCER, True, id="is one no more"),
    ],
)
def test_a_limited_load_balancer_is_needed_only_by_what_becomes_one(new, old, admitted):
    needs = [limited("services.loadbalancers", kind="services")]
    asked = request(new, old, kind="services", facts=None)
    if admitted:
        assert check(asked, [], limited=needs) == []
    else:
        assert refusal(asked, limited=needs)[0] == consume("services.loadbalancers")
