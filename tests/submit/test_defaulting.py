"""What the API fills in when it reads an object."""

from __future__ import annotations

import copy

import pytest

from admission.apiserver.defaulting import with_api_defaults
from admission.apiserver.shapes import Malformed
from admission.kinds import resource_of
from tests.submit.inprocess import unchanged
from tests.submit.objects import Json, amounts, container, deployment, obj, pod, resources
from tests.vectors.replaying import vectors


def defaulted(body: Json, namespace: str = "ns") -> Json:
    return with_api_defaults(body, resource_of(body["apiVersion"], body["kind"]), namespace)


def line(listed: Json | None) -> str | None:
    """A resource list as `cpu=1 memory=2Gi`, sorted."""
    return None if listed is None else " ".join(f"{name}={amount}" for name, amount in sorted(listed.items()))


def sides(stated: Json) -> tuple[str | None, str | None]:
    return line(stated.get("requests")), line(stated.get("limits"))


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ("", "cpu=1", "cpu=1"),
        ("", "cpu=1 memory=1Gi", "cpu=1 memory=1Gi"),
        ("cpu=500m", "cpu=1", "cpu=500m"),
        ("memory=1Gi", "cpu=1", "cpu=1 memory=1Gi"),
        ("cpu=0", "cpu=1", "cpu=0"),
        ("cpu=2", "", "cpu=2"),
        ("", "nvidia.com/gpu=1 hugepages-2Mi=4Mi", "hugepages-2Mi=4Mi nvidia.com/gpu=1"),
    ],
)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_a_container_requests_what_it_is_limited_to_and_does_not_request_itself(where, requests, limits, expected):
    body = pod("web", container("other"))
    body["spec"][where] = [container(requests=requests, limits=limits)]
    assert sides(defaulted(body)["spec"][where][0]["resources"]) == (
        expected,
        line(amounts(limits)) if limits else None,
    )


def test_a_container_that_states_nothing_stays_as_it_is():
    body = pod("web", {"name": "a"}, {"name": "b", "resources": {}}, {"name": "c", "resources": {"claims": []}})
    assert defaulted(body)["spec"]["containers"] == body["spec"]["containers"]


def test_a_side_that_is_null_is_as_good_as_none():
    body = pod("web", {"name": "a", "resources": {"requests": None, "limits": {"cpu": 1}}})
    assert defaulted(body)["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}


def test_ephemeral_containers_are_left_alone():
    body = pod("web", container(), ephemeralContainers=[container("debug", limits="cpu=1")])
    assert defaulted(body)["spec"]["ephemeralContainers"] == body["spec"]["ephemeralContainers"]


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("100100u", "101m"),
        ("1n", "1m"),
        ("1000m", "1"),
        ("2048Mi", "2Gi"),
        ("129e6", "129e6"),
        (1, "1"),
        (0.1, "100m"),
        (2.0, "2"),
        (1000000000, "1G"),
    ],
)
def test_quantities_are_rounded_up_to_thousandths_and_printed_as_the_api_prints_them(written, printed):
    body = pod("web", {"name": "c", "resources": {"limits": {"cpu": written}}}, overhead={"cpu": written})
    spec = defaulted(body)["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": printed}, "requests": {"cpu": printed}}
    assert spec["overhead"] == {"cpu": printed}


@pytest.mark.parametrize(
    ("own", "containers", "expected"),
    [
        pytest.param(
            resources(limits="cpu=4 memory=4Gi"),
            [container(limits="cpu=1", requests="memory=1Gi")],
            ("cpu=1 memory=1Gi", "cpu=4 memory=4Gi"),
            id="requests are the sum of the containers'",
        ),
        pytest.param(
            resources(limits="cpu=4"), [container()], ("cpu=4", "cpu=4"), id="requests are the limits without a sum"
        ),
        pytest.param(
            resources(limits="cpu=4", requests="cpu=2"),
            [container(requests="cpu=1 memory=1Gi")],
            ("cpu=2 memory=1Gi", "cpu=4"),
            id="a request that is stated stays",
        ),
        pytest.param(
            resources(requests="cpu=2"), [container(requests="memory=1Gi")], ("cpu=2", None), id="no limits, no sum"
        ),
        pytest.param(
            resources(limits="cpu=4"),
            [container(requests="cpu=1"), container("d", limits="cpu=500m")],
            ("cpu=1500m", "cpu=4"),
            id="containers add up",
        ),
        pytest.param(
            resources(limits="cpu=4"),
            [container(limits="hugepages-2Mi=4Mi memory=1Gi"), container("d", limits="hugepages-2Mi=2Mi memory=1Gi")],
            ("cpu=4 hugepages-2Mi=6Mi memory=2Gi", "cpu=4 hugepages-2Mi=6Mi"),
            id="huge pages become a limit of the pod",
        ),
        pytest.param(
            resources(requests="cpu=1"),
            [container(limits="hugepages-2Mi=4Mi cpu=1")],
            ("cpu=1 hugepages-2Mi=4Mi", "hugepages-2Mi=4Mi"),
            id="huge pages become a limit where only a request is stated",
        ),
        pytest.param(
            resources(limits="hugepages-2Mi=8Mi cpu=1"),
            [container(limits="hugepages-2Mi=4Mi cpu=1")],
            ("cpu=1 hugepages-2Mi=8Mi", "cpu=1 hugepages-2Mi=8Mi"),
            id="huge pages that are stated stay",
        ),
        pytest.param(
            resources(limits="cpu=1 nvidia.com/gpu=1"),
            [container()],
            ("cpu=1", "cpu=1 nvidia.com/gpu=1"),
            id="only what may be stated for a pod is copied",
        ),
        pytest.param({}, [container(limits="cpu=1")], (None, None), id="nothing is stated"),
    ],
)
def test_pod_level_resources(own, containers, expected):
    assert sides(defaulted(pod("web", *containers, resources=own))["spec"]["resources"]) == expected


def test_pod_level_requests_count_sidecars_and_the_largest_init_container():
    spec = {
        "resources": resources(limits="cpu=9"),
        "initContainers": [
            {**container("side", requests="cpu=1"), "restartPolicy": "Always"},
            container("init", requests="cpu=5"),
        ],
    }
    assert sides(defaulted(pod("web", container(requests="cpu=2"), **spec))["spec"]["resources"])[0] == "cpu=6"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (pod(), "ns"),
        (pod(ns="own"), "own"),
        (deployment(), "ns"),
        (obj("Widget", version="example.com/v1"), "ns"),
        (obj("Namespace"), None),
        ({"apiVersion": "v1", "kind": "Pod"}, "ns"),
    ],
)
def test_an_object_is_in_the_namespace_of_the_request_unless_it_says_another(body, expected):
    assert defaulted(body)["metadata"].get("namespace") == expected


@pytest.mark.parametrize(
    ("stated", "expected"), [({}, "ClusterIP"), ({"type": ""}, "ClusterIP"), ({"type": "NodePort"}, "NodePort")]
)
def test_a_service_is_of_type_cluster_ip(stated, expected):
    assert defaulted(obj("Service", spec=stated))["spec"]["type"] == expected


def test_a_volume_claim_has_a_mode_and_printed_quantities():
    claim = obj("PersistentVolumeClaim", spec={"resources": {"requests": {"storage": "0.5Gi"}}})
    assert defaulted(claim)["spec"] == {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "512Mi"}}}


@pytest.mark.parametrize(
    ("version", "request_", "expected"),
    [
        ("v1", {"exactly": {"deviceClassName": "gpu"}}, {"exactly": {"allocationMode": "ExactCount", "count": 1}}),
        ("v1", {"exactly": {"count": 3}}, {"exactly": {"allocationMode": "ExactCount", "count": 3}}),
        ("v1", {"exactly": {"allocationMode": "All"}}, {"exactly": {"allocationMode": "All"}}),
        (
            "v1",
            {"firstAvailable": [{"deviceClassName": "gpu"}, {"count": 2}]},
            {
                "firstAvailable": [
                    {"allocationMode": "ExactCount", "count": 1},
                    {"allocationMode": "ExactCount", "count": 2},
                ]
            },
        ),
        ("v1beta1", {"deviceClassName": "gpu"}, {"allocationMode": "ExactCount", "count": 1}),
    ],
)
def test_a_claim_for_devices_asks_for_exactly_one(version, request_, expected):
    body = obj("ResourceClaim", version=f"resource.k8s.io/{version}", spec={"devices": {"requests": [request_]}})
    (found,) = defaulted(body)["spec"]["devices"]["requests"]
    without_class = copy.deepcopy(found)
    for part in (without_class, without_class.get("exactly") or {}, *(without_class.get("firstAvailable") or [])):
        part.pop("deviceClassName", None)
    assert without_class == expected


@pytest.mark.parametrize("body", [obj("ConfigMap", data={"cpu": "1.5"}), deployment(spec={"replicas": 2})])
def test_other_kinds_get_a_namespace_and_nothing_else(body):
    assert defaulted(body) == {**body, "metadata": {**body["metadata"], "namespace": "ns"}}


def test_what_is_given_is_not_changed():
    body = pod("web", container(limits="cpu=1.0"), resources=resources(limits="cpu=2.0"))
    same = unchanged(body)
    defaulted(body)
    assert same()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            pod("web", container(limits="cpu=abc")),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (pod("web", container(limits="cpu=1mm")), "unable to parse quantity's suffix"),
        (
            pod("web", {"name": "c", "resources": []}),
            "spec.containers[0].resources: expected `object | null`, got `array`",
        ),
        (obj("Pod", spec="x"), "spec: expected `object | null`, got `str`"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}, "metadata: expected `object | null`, got `array`"),
        (obj("Service", spec={"ports": [1]}), "spec.ports[0]: expected `object`, got `int`"),
    ],
)
def test_what_the_api_could_not_read_is_malformed(body, problem):
    with pytest.raises(Malformed) as raised:
        defaulted(body)
    assert str(raised.value) == problem


def requests_that_equal_limits_taken_out(body: Json) -> Json:
    taken = copy.deepcopy(body)
    for where in ("containers", "initContainers"):
        for each in taken["spec"].get(where, []):
            limits = each["resources"].get("limits", {})
            requests = each["resources"].get("requests", {})
            each["resources"]["requests"] = {k: v for k, v in requests.items() if limits.get(k) != v}
            if not each["resources"]["requests"]:
                del each["resources"]["requests"]
    return taken


def test_recorded_pods_come_out_as_the_api_server_made_them():
    objects = [v["review"]["request"]["object"] for name in ("admission", "wide") for v in vectors(name)]
    pods = [body for body in objects if body["kind"] == "Pod"]
    taken = [requests_that_equal_limits_taken_out(body) for body in pods]
    assert sum(before != after for before, after in zip(pods, taken, strict=True)) > 500
    for body, less in zip(pods, taken, strict=True):
        assert defaulted(body) == body
        assert defaulted(less) == body
