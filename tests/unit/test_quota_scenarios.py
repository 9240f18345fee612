"""The scenarios of the built-in ResourceQuota plugin, through the pipeline."""

from __future__ import annotations

import pytest

from tests.unit.helpers import Json, pod_json, quota, review, table, texts
from tests.unit.things import ADMITTED, claim, judged, service, stored

# A quota is written `cpu=3/1`: 3 allowed, 1 used. An outcome `exceeded cpu=3/1/2`: 3 requested, 1 used, 2 allowed.

ROOM = "cpu=3/1 memory=100Gi/50Gi pods=5/3"
STORAGE = "persistentvolumeclaims=3/1 requests.storage=100Gi/10Gi"

PODS = """
memory=2Gi/1Gi          | CREATE pods     | a: memory 2Gi/2Gi         |   | exceeded memory=2Gi/1Gi/2Gi |
memory=2Gi/1Gi          | CREATE pods/sub | a: memory 2Gi/2Gi         |   | admitted |
ROOM                    | CREATE pods     | a: cpu 100m/-, memory 2Gi/- | | admitted | cpu=1100m memory=52Gi pods=4
ROOM                    | CREATE pods     | a: cpu 3/-, memory 1/-    |   | exceeded cpu=3/1/3 |
ROOM                    | CREATE pods     | a: cpu 100m/-, memory 60Gi/- | | exceeded memory=60Gi/50Gi/100Gi |
cpu=3/1 limits.memory=9/0 pods=5/3 | CREATE pods | a: cpu 1/-, memory 1/- | | must specify limits.memory for: a |
services=3/4 pods=4/1   | CREATE pods     | a                         |   | admitted | pods=2
requests.cpu=1/5        | CREATE pods     | a: cpu 0/-                |   | admitted |
requests.cpu=1/5 pods=3/0 | CREATE pods   | a: cpu 100m/-             |   | exceeded requests.cpu=100m/5/1 |
requests.ephemeral-storage=0/0 | CREATE pods | a                      |   | admitted |
requests.cpu=2/1        | UPDATE pods/resize | a: cpu 1500m/-  | a: cpu 1/- | admitted | requests.cpu=1500m
requests.cpu=2/1        | UPDATE pods/resize | a: cpu 3/-      | a: cpu 1/- | exceeded requests.cpu=2/1/2 |
requests.cpu=2/1        | UPDATE pods/resize | a: cpu 500m/-   | a: cpu 1/- | admitted |
limits.cpu=9/0          | UPDATE pods/resize | a: cpu 2/-      | a: cpu 1/- | must specify limits.cpu for: a |
limits.cpu=9/0          | UPDATE pods        | a: cpu 2/-      | a: cpu 1/- | admitted |
count/pods=3/3          | CREATE pods        | a               |            | exceeded count/pods=1/3/3 |
requests.nvidia.com/gpu=1/0 | CREATE pods | a: nvidia.com/gpu 2/2 |        | exceeded requests.nvidia.com/gpu=2/0/1 |
nvidia.com/gpu=0/0 limits.nvidia.com/gpu=0/0 | CREATE pods | a: nvidia.com/gpu 2/2 | | admitted |
cpu=9/0 requests.cpu=9/0 | CREATE pods       | a: cpu 2/-      |            | admitted | cpu=2 requests.cpu=2
memory=9Gi/0            | CREATE pods        | a: memory 1500M/- |          | admitted | memory=1500M
memory=9Gi/500Mi        | CREATE pods        | a: memory 1G/-  |            | admitted | memory=1524288000
""".replace("ROOM", ROOM)


def state(line: str, name: str = "q", scopes: tuple[str, ...] = ()):
    """A quota from `cpu=3/1`."""
    pairs = {resource: amount.split("/") for resource, amount in texts(line).items()}
    hard, used = (" ".join(f"{resource}={pair[side]}" for resource, pair in pairs.items()) for side in (0, 1))
    return quota(name, hard, used, scopes=scopes)


def text_of(outcome: str) -> str:
    kind, _, listed = outcome.partition(" ")
    if kind == "must":
        return f"failed quota: q: {outcome}"
    if kind != "exceeded":
        return outcome
    parts = {name: amount.split("/") for name, amount in texts(listed).items()}
    requested, used, limited = (",".join(f"{name}={part[i]}" for name, part in parts.items()) for i in range(3))
    return f"exceeded quota: q, requested: {requested}, used: {used}, limited: {limited}"


def play(line: str, asked: str, new: Json, old: Json | None, *expected: str) -> None:
    """One request against one quota: the outcome, what is used after it, and that nothing is written in vain."""
    outcome, used = expected
    world = judged(state(line))
    before = world.used()
    assert world.ask(*asked.split(), new, old) == text_of(outcome)
    assert world.used() == {"q": {**before["q"], **texts(used)}}
    assert world.ledger.writes == (["q"] if used else [])


@pytest.mark.parametrize(("line", "asked", "new", "old", "outcome", "used"), table(PODS))
def test_a_quota_judges_and_counts_pods_as_the_built_in_plugin(line, asked, new, old, outcome, used):
    play(line, asked, pod_json(new), stored(pod_json(old)) if old else None, outcome, used)


def test_a_deletion_is_never_refused():
    world = judged(state("memory=2Gi/1Gi"))
    assert world.ask("DELETE", "pods", None, stored(pod_json("a: memory 2Gi/2Gi"))) == ADMITTED
    assert world.ledger.writes == []


def test_a_resize_is_charged_beyond_what_the_node_already_holds():
    busy = {"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "3"}}}]}
    new, old = (pod_json(line, status=busy) for line in ("a: cpu 2/-", "a: cpu 1/-"))
    play("requests.cpu=2/1", "UPDATE pods/resize", new, stored(old), ADMITTED, "")
    new = pod_json("a: cpu 3500m/-", status=busy)
    play("requests.cpu=9/3", "UPDATE pods/resize", new, stored(old), ADMITTED, "requests.cpu=3500m")


def test_an_empty_namespace_field_is_no_obstacle():
    play("pods=3/1", "CREATE pods", pod_json("a", metadata={"namespace": ""}), None, ADMITTED, "pods=2")


def test_the_quality_class_that_a_client_has_set_decides_the_scope():
    world = judged(state("pods=0/0", scopes=("NotBestEffort",)))
    claimed = pod_json("a: cpu 1/1", status={"qosClass": "BestEffort"})
    assert world.ask("CREATE", "pods", claimed) == ADMITTED
    assert world.ask("CREATE", "pods", pod_json("a: cpu 1/1")) != ADMITTED


CLAIMS = """
STORAGE | CREATE | 1Gi  |      | admitted | persistentvolumeclaims=2 requests.storage=11Gi
STORAGE | CREATE | -1Gi |      | quota usage is negative for resource(s): requests.storage |
STORAGE | CREATE | 91Gi |      | exceeded requests.storage=91Gi/10Gi/100Gi |
STORAGE | UPDATE | 5Gi  | 10Gi | admitted |
STORAGE | UPDATE | 15Gi | 10Gi | admitted | requests.storage=15Gi
persistentvolumeclaims=0/1 requests.storage=12Gi/10Gi | UPDATE | 15Gi | 10Gi | exceeded requests.storage=5Gi/10Gi/12Gi |
""".replace("STORAGE", STORAGE)


@pytest.mark.parametrize(("line", "operation", "new", "old", "outcome", "used"), table(CLAIMS))
def test_a_quota_judges_and_counts_claims_as_the_built_in_plugin(line, operation, new, old, outcome, used):
    before = stored(claim(old)) if old else None
    play(line, f"{operation} persistentvolumeclaims", claim(new), before, outcome, used)


@pytest.mark.parametrize(("version", "used"), [("1", "services.nodeports=1"), ("", "services=2 services.nodeports=1")])
def test_a_balancer_that_becomes_a_node_port_keeps_what_it_was_counted_for(version, used):
    line = "services=10/1 services.loadbalancers=10/1 services.nodeports=10/0"
    old = stored(service("LoadBalancer"), version)
    play(line, "UPDATE services", service("NodePort", 1), old, ADMITTED, used)


@pytest.mark.parametrize(
    ("line", "kind", "outcome"),
    [
        ("secrets=0/0 count/secrets=5/0", "secrets", "exceeded secrets=1/0/0"),
        ("secrets=5/0 count/secrets=0/0", "secrets", "exceeded count/secrets=1/0/0"),
        ("count/deployments.apps=0/0", "deployments.apps", "exceeded count/deployments.apps=1/0/0"),
        ("count/widgets.example.com=3/3", "widgets.example.com", "exceeded count/widgets.example.com=1/3/3"),
        ("count/deployments=0/0", "deployments.apps", ADMITTED),
    ],
)
def test_an_object_is_counted_by_each_of_its_names(line, kind, outcome):
    play(line, f"CREATE {kind}", {"metadata": {"name": "x"}}, None, outcome, "")


@pytest.mark.parametrize(("memory", "fits"), [("2Gi", True), ("60Gi", False)])
def test_a_dry_run_is_judged_and_leaves_nothing_behind(memory, fits):
    world = judged(state(ROOM))
    before = world.used()
    asked = pod_json(f"a: cpu 100m/-, memory {memory}/-")
    assert (world.ask("CREATE", "pods", asked, dry_run=True) == ADMITTED) is fits
    assert world.used() == before


def test_a_quota_of_another_namespace_is_not_asked():
    world = judged(quota("q", "pods=0"))
    assert world.ask("CREATE", "pods", pod_json("a"), namespace="other") == ADMITTED
    assert world.ask("CREATE", "pods", pod_json("a")) != ADMITTED


def test_a_pod_is_counted_by_the_quota_whose_scope_it_is_in_or_moves_into():
    limits, used = "cpu=3 memory=100Gi pods=5", "cpu=1 memory=50Gi pods=3"
    line = "a: cpu 100m/-, memory 2Gi/-"
    moving = pod_json(line, spec={"activeDeadlineSeconds": 30})
    for operation, old in (("CREATE", None), ("UPDATE", stored(pod_json(line)))):
        world = judged(*(quota(name, limits, used, scopes=[name]) for name in ("NotTerminating", "Terminating")))
        assert world.ask(operation, "pods", moving, old) == ADMITTED
        assert world.used() == {"NotTerminating": texts(used), "Terminating": texts("cpu=1100m memory=52Gi pods=4")}


@pytest.mark.parametrize("scopes", [("BestEffort", "NotBestEffort"), ("BestEffort",)])
@pytest.mark.parametrize(("line", "counted"), [("a", "BestEffort"), ("a: cpu 100m/-, memory 1Gi/-", "NotBestEffort")])
def test_a_pod_is_counted_by_its_quality_class(scopes, line, counted):
    world = judged(*(quota(name, "pods=5", "pods=3", scopes=[name]) for name in scopes))
    assert world.ask("CREATE", "pods", pod_json(line)) == ADMITTED
    assert world.used() == {name: {"pods": "4" if name == counted else "3"} for name in scopes}


ATTRIBUTES = """
CREATE |         |                    | gold               | gold
UPDATE |         |                    | gold               | gold
UPDATE | /status | gold               | gold,,gold         |
UPDATE | /status | gold               | gold,gold          |
UPDATE |         | gold,gold          | silver,gold        | silver
UPDATE | /status | silver,gold        | silver,gold,silver |
UPDATE |         | silver,gold,silver | copper,gold,silver | copper
"""


@pytest.mark.parametrize(("operation", "sub", "before", "after", "charged"), table(ATTRIBUTES))
def test_a_claim_is_counted_by_each_attributes_class_it_comes_to_refer_to(operation, sub, before, after, charged):
    limits, used = "persistentvolumeclaims=3 requests.storage=100Gi", "persistentvolumeclaims=1 requests.storage=10Gi"
    names = ("copper", "gold", "silver")
    world = judged(*(quota(name, limits, used, scopes=[f"VolumeAttributesClass In {name}"]) for name in names))
    new, old = (claim("1Gi", *classes.split(",")) for classes in (after, before))
    found = world.ask(operation, f"persistentvolumeclaims{sub}", new, None if operation == "CREATE" else stored(old))
    assert found == ADMITTED
    more = texts("persistentvolumeclaims=2 requests.storage=11Gi")
    assert world.used() == {name: more if name == charged else texts(used) for name in names}


def test_a_status_update_is_charged_beyond_the_limit():
    limits = "persistentvolumeclaims=1 requests.storage=10Gi"
    world = judged(
        quota("gold", limits.replace("=1", "=9"), limits, scopes=["VolumeAttributesClass In gold"]),
        quota("silver", limits, limits, scopes=["VolumeAttributesClass In silver"]),
    )
    new, old = claim("1Gi", "gold", "silver"), stored(claim("1Gi", "gold", "gold"))
    assert world.ask("UPDATE", "persistentvolumeclaims/status", new, old) == ADMITTED
    assert world.used()["silver"] == texts("persistentvolumeclaims=2 requests.storage=11Gi")
    assert world.ask("UPDATE", "persistentvolumeclaims", new, old).startswith("exceeded quota: silver, ")


def test_requests_one_after_another_see_what_was_charged_before():
    world = judged(quota("q", "cpu=5"))
    outcomes = [world.ask("CREATE", "pods", pod_json(f"a: cpu {cpu}/-")) for cpu in (0, 2, 2, 2, 1)]
    refused = text_of("exceeded cpu=2/4/5")
    assert outcomes == [ADMITTED, ADMITTED, ADMITTED, refused, ADMITTED]
    assert world.used() == {"q": {"cpu": "5"}}


def test_what_the_second_quota_refuses_is_not_charged_to_the_first():
    world = judged(quota("b", "pods=0"), quota("a", "pods=9"))
    assert world.ask("CREATE", "pods", pod_json("x")).startswith("exceeded quota: b, ")
    assert world.used() == {"a": {"pods": "0"}, "b": {"pods": "0"}}


def test_a_claim_for_devices_is_counted_by_class_and_by_extended_resource():
    implicit, devices = "requests.deviceclass.resource.kubernetes.io/gpu", "gpu.deviceclass.resource.k8s.io/devices"
    names = ("requests.example.com/gpu", implicit, devices)
    world = judged(quota("q", " ".join(f"{name}=2" for name in names)), devices={"gpu": "example.com/gpu"})
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    document = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    kind = "resourceclaims.resource.k8s.io"
    assert world.ask("CREATE", kind, document) == ADMITTED
    assert world.used() == {"q": dict.fromkeys(names, "2")}
    assert world.ask("CREATE", kind, document).startswith("exceeded quota: q, requested: gpu.deviceclass")
    assert world.ask("UPDATE", kind, document, stored(document)) == ADMITTED


def test_a_refusal_by_a_quota_is_told_with_its_reason_and_hints():
    answer = judged(quota("q", "pods=0")).validate(review("CREATE", "pods", pod_json("a")))
    assert (answer.allowed, answer.reason) == (False, "exceeded-quota")
    assert any('quota "q": pods is short by 1' in warning for warning in answer.warnings)
