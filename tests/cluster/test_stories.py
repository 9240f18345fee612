"""The stories of the documentation, step by step, with their numbers, on a cluster."""

from __future__ import annotations

import re

import pytest

from tests.cluster.plane import ControlPlane
from tests.cluster.rig import Rig
from tests.cluster.space import Json, Space, line_of, priority_class
from tests.cluster.test_kubectl import CONFIG, CONTROLLERS
from tests.standalone import manifests
from tests.standalone.server import eventually

pytestmark = [
    pytest.mark.plane(plugins=False, controllers=CONTROLLERS),
    pytest.mark.rig(servers=2, controllers=1, config=CONFIG),
]

CREATED = "created"
SIX = "cpu=2 memory=2Gi pods=6"


@pytest.fixture
def space(rig: Rig) -> Space:
    return Space.new(rig)


@pytest.fixture
def team(space: Space) -> Space:
    """The namespace of the first story: cpu 2000m, memory 2048Mi, 6 pods; 200m/256Mi by default."""
    space.quota("team", SIX)
    space.limit_range(default="cpu=200m memory=256Mi", max="cpu=1 memory=1Gi")
    return space


def described(space: Space, quota: str) -> dict[str, tuple[str, str]]:
    """Resource -> used and hard, as `kubectl describe quota` prints them."""
    lines = space.done("describe", "quota", quota).splitlines()
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines[lines.index(next(filter(is_rule, lines))) + 1 :]]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}


def is_rule(line: str) -> bool:
    return line.startswith("---")


# -- the namespace


def test_a_pod_that_states_nothing_gets_the_defaults_and_is_counted_as_that(team: Space) -> None:
    assert team.pod("silent") == CREATED
    resources = team.read("Pod", "silent")["spec"]["containers"][0]["resources"]
    assert resources == {side: {"cpu": "200m", "memory": "256Mi"} for side in ("limits", "requests")}
    team.await_used("team", "cpu=200m memory=256Mi pods=1")


def test_without_a_limit_range_a_quota_makes_stating_a_duty(space: Space) -> None:
    space.quota("team", SIX)
    assert space.pod("silent") == "failed quota: team: must specify cpu for: c; memory for: c"
    assert space.used("team") == "cpu=0 memory=0 pods=0"


def test_the_bounds_of_one_come_before_the_room_of_all(team: Space) -> None:
    refusal = team.pod("large", "cpu=1500m memory=256Mi", "cpu=1500m memory=256Mi")
    assert refusal == "maximum cpu usage per Container is 1, but limit is 1500m"
    assert team.used("team") == "cpu=0 memory=0 pods=0"


def test_the_total_refuses_the_third_until_one_is_deleted(team: Space) -> None:
    for name in ("first", "second"):
        assert team.pod(name, "cpu=900m memory=256Mi", "cpu=900m memory=256Mi") == CREATED
    third = ("third", "cpu=300m memory=256Mi", "cpu=300m memory=256Mi")
    refusal = "exceeded quota: team, requested: cpu=300m, used: cpu=1800m, limited: cpu=2"
    for _ in range(10):
        assert team.pod(*third) == refusal
    team.await_used("team", "cpu=1800m memory=512Mi pods=2")
    # Nothing of it is Pending, so nothing of it is there for an autoscaler to see.
    assert team.names("Pod") == ["first", "second"]
    team.delete("Pod", "first")
    eventually(lambda: team.pod(*third) == CREATED, within=1.0)
    team.await_used("team", "cpu=1200m memory=512Mi pods=2")


def test_the_seventh_of_seven_small_pods_is_refused_by_the_number(team: Space) -> None:
    for number in range(6):
        assert team.pod(f"pod-{number}", "cpu=10m memory=1Mi", "cpu=10m memory=1Mi") == CREATED
    refusal = team.pod("seventh", "cpu=10m memory=1Mi", "cpu=10m memory=1Mi")
    assert refusal == "exceeded quota: team, requested: pods=1, used: pods=6, limited: pods=6"
    team.await_used("team", "cpu=60m memory=6Mi pods=6")


def test_a_default_above_the_maximum_never_gets_into_the_cluster(space: Space) -> None:
    # Without a cluster we tell the author and refuse the pods; here the API server refuses the LimitRange itself.
    answer = space.post(manifests.limit_range(default="cpu=2", max="cpu=1"))
    assert answer.status == 422
    assert "default value 2 is greater than max value 1" in answer.message


def test_two_limit_ranges_that_contradict_each_other_refuse_the_pod_that_states_nothing(space: Space) -> None:
    space.limit_range("a", default="cpu=2")
    space.limit_range("b", max="cpu=1")
    assert space.pod("silent") == "maximum cpu usage per Container is 1, but limit is 2"


# -- the quota documentation

CLASSES = {"high": 1000, "medium": 500, "low": 100}
OF_CLASS = {
    "high": "cpu=1k memory=200Gi pods=10",
    "medium": "cpu=10 memory=20Gi pods=10",
    "low": "cpu=5 memory=10Gi pods=10",
}


def selects(scope: str, operator: str, *values: str) -> Json:
    expression: Json = {"scopeName": scope, "operator": operator}
    return {"scopeSelector": {"matchExpressions": [{**expression, **({"values": list(values)} if values else {})}]}}


def test_a_pod_is_counted_by_the_quota_of_its_priority_class_alone(space: Space, control_plane: ControlPlane) -> None:
    for name, value in CLASSES.items():
        priority_class(control_plane, name, value)
        space.quota(f"pods-{name}", OF_CLASS[name], **selects("PriorityClass", "In", name))
    stated = "cpu=500m memory=10Gi"
    assert space.pod("high-priority", stated, stated, spec={"priorityClassName": "high"}) == CREATED
    space.await_used("pods-high", "cpu=500m memory=10Gi pods=1")
    assert described(space, "pods-high") == {"cpu": ("500m", "1k"), "memory": ("10Gi", "200Gi"), "pods": ("1", "10")}
    assert described(space, "pods-medium") == {"cpu": ("0", "10"), "memory": ("0", "20Gi"), "pods": ("0", "10")}
    assert described(space, "pods-low") == {"cpu": ("0", "5"), "memory": ("0", "10Gi"), "pods": ("0", "10")}


COMPUTE = "requests.cpu=1 requests.memory=1Gi limits.cpu=2 limits.memory=2Gi requests.nvidia.com/gpu=4"
COUNTS = (
    "configmaps=10 persistentvolumeclaims=4 pods=4 replicationcontrollers=20 secrets=10 services=10 "
    "services.loadbalancers=2"
)


def test_myspace_names_what_a_pod_without_requests_must_state(space: Space) -> None:
    space.quota("compute-resources", COMPUTE)
    space.quota("object-counts", COUNTS)
    assert space.pod("silent") == (
        "failed quota: compute-resources: must specify limits.cpu for: c; limits.memory for: c; "
        "requests.cpu for: c; requests.memory for: c"
    )
    limits = "cpu=500m memory=512Mi nvidia.com/gpu=3"
    assert space.pod("gpu", limits, limits) == CREATED
    assert space.pod("more", "cpu=100m memory=1Mi nvidia.com/gpu=2", "cpu=100m memory=1Mi nvidia.com/gpu=2") == (
        "exceeded quota: compute-resources, requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=3, "
        "limited: requests.nvidia.com/gpu=4"
    )
    for number in range(2):
        assert space.create(manifests.service(f"balanced-{number}", kind="LoadBalancer")) == CREATED
    assert space.create(manifests.service("third", kind="LoadBalancer")) == (
        "exceeded quota: object-counts, requested: services.loadbalancers=1, used: services.loadbalancers=2, "
        "limited: services.loadbalancers=2"
    )
    for number in range(10):
        assert space.create(manifests.config_map(f"settings-{number}")) == CREATED
    space.await_used(
        "object-counts",
        "configmaps=10 persistentvolumeclaims=0 pods=1 replicationcontrollers=0 secrets=0 services=2 "
        "services.loadbalancers=2",
    )
    # The API server asks us about a kind that no quota has named before from a moment later on.
    refusal = "exceeded quota: object-counts, requested: configmaps=1, used: configmaps=10, limited: configmaps=10"
    eventually(lambda: space.create(manifests.config_map("eleventh"), "?dryRun=All") == refusal, within=20)
    space.await_used(
        "compute-resources",
        "limits.cpu=500m limits.memory=512Mi requests.cpu=500m requests.memory=512Mi requests.nvidia.com/gpu=3",
    )


def test_a_deployment_of_two_counts_itself_one_replica_set_and_two_pods(space: Space) -> None:
    hard = "count/deployments.apps=2,count/replicasets.apps=4,count/pods=3,count/secrets=4"
    space.done("create", "quota", "test", f"--hard={hard}")
    space.await_hard("test", hard.replace(",", " "))
    space.done("create", "deployment", "nginx", "--image=nginx", "--replicas=2")
    space.await_used("test", "count/deployments.apps=1 count/pods=2 count/replicasets.apps=1 count/secrets=0")
    assert described(space, "test") == {
        "count/deployments.apps": ("1", "2"),
        "count/pods": ("2", "3"),
        "count/replicasets.apps": ("1", "4"),
        "count/secrets": ("0", "4"),
    }
    space.done("scale", "deployment", "nginx", "--replicas=5")
    space.await_used("test", "count/deployments.apps=1 count/pods=3 count/replicasets.apps=1 count/secrets=0")
    assert len(space.names("Pod")) == 3


GOLD = "gold.storageclass.storage.k8s.io"


def claim(name: str, storage: str, storage_class: str | None = None) -> Json:
    body = manifests.claim(name, storage)
    if storage_class:
        body["spec"]["storageClassName"] = storage_class
    return body


def test_storage_is_limited_in_all_and_by_class(space: Space) -> None:
    space.quota(
        "storage",
        "requests.storage=600Gi persistentvolumeclaims=3 "
        f"{GOLD}/requests.storage=500Gi {GOLD}/persistentvolumeclaims=2",
    )
    assert space.create(claim("gold", "400Gi", "gold")) == CREATED
    assert space.create(claim("more-gold", "200Gi", "gold")) == (
        f"exceeded quota: storage, requested: {GOLD}/requests.storage=200Gi, used: {GOLD}/requests.storage=400Gi, "
        f"limited: {GOLD}/requests.storage=500Gi"
    )
    assert space.create(claim("silver", "200Gi", "silver")) == CREATED
    assert space.create(claim("plain", "1Gi")) == (
        "exceeded quota: storage, requested: requests.storage=1Gi, used: requests.storage=600Gi, "
        "limited: requests.storage=600Gi"
    )
    space.await_used(
        "storage",
        f"{GOLD}/persistentvolumeclaims=1 {GOLD}/requests.storage=400Gi "
        "persistentvolumeclaims=2 requests.storage=600Gi",
    )


def test_ephemeral_storage_is_limited_on_both_sides(space: Space) -> None:
    space.quota("scratch", "requests.ephemeral-storage=2Gi limits.ephemeral-storage=4Gi")
    assert space.pod("one", "ephemeral-storage=1Gi", "ephemeral-storage=3Gi") == CREATED
    assert space.pod("two", "ephemeral-storage=1Gi", "ephemeral-storage=2Gi") == (
        "exceeded quota: scratch, requested: limits.ephemeral-storage=2Gi, used: limits.ephemeral-storage=3Gi, "
        "limited: limits.ephemeral-storage=4Gi"
    )
    space.await_used("scratch", "limits.ephemeral-storage=3Gi requests.ephemeral-storage=1Gi")


AFFINITY = {"podAffinityTerm": {"topologyKey": "zone", "namespaces": ["elsewhere"]}, "weight": 1}
SPREAD = {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [AFFINITY]}}}


@pytest.mark.parametrize(
    ("scope", "hard", "inside", "outside"),
    [
        ("Terminating", "pods=1", {"spec": {"activeDeadlineSeconds": 60}}, {}),
        ("NotTerminating", "pods=1", {}, {"spec": {"activeDeadlineSeconds": 60}}),
        ("BestEffort", "pods=1", {}, {"requests": "cpu=1m"}),
        ("NotBestEffort", "pods=1", {"requests": "cpu=1m"}, {}),
        ("PriorityClass", "pods=1", {"spec": {"priorityClassName": "low"}}, {}),
    ],
)
def test_a_scope_decides_which_pods_a_quota_is_for(
    space: Space, control_plane: ControlPlane, scope: str, hard: str, inside: Json, outside: Json
) -> None:
    priority_class(control_plane, "low", CLASSES["low"])
    space.quota("scoped", hard, scopes=[scope])
    assert space.pod("inside", **inside) == CREATED
    refusal = "exceeded quota: scoped, requested: pods=1, used: pods=1, limited: pods=1"
    assert space.pod("too-many", **inside) == refusal
    space.pods("outside", "outside-too", **outside)
    space.await_used("scoped", "pods=1")


def test_a_scope_allows_certain_resources_only(space: Space) -> None:
    for scope, name, allowed in (
        ("BestEffort", "pods", True),
        ("BestEffort", "cpu", False),
        ("NotBestEffort", "cpu", True),
        ("Terminating", "requests.memory", True),
        ("Terminating", "services", False),
    ):
        ended = space.kubectl("create", "quota", "scoped", f"--hard={name}=1", f"--scopes={scope}", "--dry-run=server")
        assert (ended.returncode == 0) == allowed, ended.stderr
        if not allowed:
            assert "unsupported scope applied to resource" in ended.stderr


def test_no_pod_of_a_namespace_may_look_into_others_where_none_is_allowed(space: Space) -> None:
    space.quota("no-cross", "pods=0", **selects("CrossNamespacePodAffinity", "Exists"))
    assert space.pod("near") == CREATED
    assert space.pod("far", spec=SPREAD) == (
        "exceeded quota: no-cross, requested: pods=1, used: pods=0, limited: pods=0"
    )


# -- only where a quota allows it: see the configuration

SERVICES = "cluster-services"


def test_a_priority_class_may_be_used_only_where_a_quota_covers_it(
    rig: Rig, space: Space, control_plane: ControlPlane
) -> None:
    priority_class(control_plane, SERVICES, 5000)
    priority_class(control_plane, "medium", CLASSES["medium"])
    system = Space(control_plane, "kube-system", rig.servers)
    uncovered = "insufficient quota to match these scopes: [{PriorityClass In [cluster-services]}]"
    of_class = {"spec": {"priorityClassName": SERVICES}}
    assert system.pod("early", **of_class) == uncovered
    system.quota("pods-cluster-services", "pods=1", **selects("PriorityClass", "In", SERVICES))
    try:
        assert system.pod("service", **of_class) == CREATED
        assert system.pod("second", **of_class) == (
            "exceeded quota: pods-cluster-services, requested: pods=1, used: pods=1, limited: pods=1"
        )
        assert space.pod("elsewhere", **of_class) == uncovered
        for parts in ({}, {"spec": {"priorityClassName": "medium"}}):
            for place in (space, system):
                name = place.fresh_name()
                assert place.pod(name, **parts) == CREATED
                place.delete("Pod", name)
    finally:
        for name in system.names("Pod"):
            system.delete("Pod", name)
        system.delete("ResourceQuota", "pods-cluster-services")


def test_affinity_across_namespaces_may_be_used_only_where_a_quota_covers_it(space: Space) -> None:
    assert space.pod("far", spec=SPREAD) == (
        "insufficient quota to match these scopes: [{CrossNamespacePodAffinity Exists []}]"
    )
    space.quota("cross", "pods=1", **selects("CrossNamespacePodAffinity", "Exists"))
    assert space.pod("far", spec=SPREAD) == CREATED
    assert space.pod("farther", spec=SPREAD).startswith("exceeded quota: cross")
    assert space.pod("near") == CREATED


# -- what is over, and what was changed


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_not_counted(space: Space, phase: str) -> None:
    space.quota("two", "pods=2 requests.cpu=1")
    space.pods("one", "two", requests="cpu=500m")
    assert space.pod("three", "cpu=500m").startswith("exceeded quota: two")
    space.finish("one", phase)
    space.await_used("two", "pods=1 requests.cpu=500m", within=1.0)
    assert space.pod("three", "cpu=500m") == CREATED
    assert space.names("Pod") == ["one", "three", "two"]


def test_a_quota_lowered_below_what_is_used_evicts_nobody_and_refuses_what_comes(space: Space) -> None:
    space.quota("team", "pods=3")
    space.pods("one", "two", "three")
    space.change_quota("team", "pods=1")
    assert space.pod("four") == "exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=1"
    assert space.names("Pod") == ["one", "three", "two"]
    space.await_used("team", "pods=3")
    for name in ("one", "two"):
        space.delete("Pod", name)
    space.await_used("team", "pods=1")
    assert space.pod("four") == "exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1"
    space.change_quota("team", "pods=2")
    assert space.pod("four") == CREATED


def test_more_nodes_do_not_raise_a_quota(space: Space, control_plane: ControlPlane) -> None:
    space.quota("team", "cpu=1")
    space.pods("one", requests="cpu=1")
    refusal = "exceeded quota: team, requested: cpu=1, used: cpu=1, limited: cpu=1"
    assert space.pod("two", "cpu=1") == refusal
    control_plane.add_node(space.fresh_name(), cpu="64")
    assert space.pod("two", "cpu=1") == refusal
    assert line_of(space.status("team")["hard"]) == "cpu=1"
