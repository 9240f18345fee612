from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from admission.errors import BadCall
from admission.quota.observe import Surroundings, decode, meta_of, observe
from admission.quota.observed import Observed
from tests.unit.helpers import Json, encoded, pod_json, printed, table, texts

NO_DEVICES = Surroundings({})


def observed(kind: str, document: Json, surroundings: Surroundings = NO_DEVICES) -> Observed:
    return observe(kind, decode(kind, encoded(document), ""), surroundings)


def usage(kind: str, document: Json) -> dict[str, str]:
    return printed(observed(kind, document).usage)


# -- pods

COUNT = {"count/pods": "1"}
COUNTS = {"count/pods": "1", "pods": "1"}

PODS = """
a                                      |
a: cpu 1/-                             | cpu=1 requests.cpu=1
a: cpu -/2                             | limits.cpu=2
a: cpu 1/2, memory 1Gi/2Gi | cpu=1 requests.cpu=1 limits.cpu=2 memory=1Gi requests.memory=1Gi limits.memory=2Gi
a: ephemeral-storage 1/2               | ephemeral-storage=1 requests.ephemeral-storage=1 limits.ephemeral-storage=2
a: hugepages-2Mi 2Mi/2Mi               | hugepages-2Mi=2Mi requests.hugepages-2Mi=2Mi
a: hugepages-2Mi -/2Mi                 |
a: example.com/gpu 2/2                 | requests.example.com/gpu=2
a: example.com/gpu -/2                 |
a: deviceclass.resource.kubernetes.io/gpu 1/1 | requests.deviceclass.resource.kubernetes.io/gpu=1
a: x.kubernetes.io/gpu 1/1             |
a: kubernetes.io/gpu 1/1               |
a: requests.example.com/gpu 1/1        |
a: storage 1Gi/1Gi                     |
a: gpu 1/1                             |
a: Example.com/gpu 1/1                 |
a: example.com/a/b 1/1                 |
a: cpu 0/0                             | cpu=0 requests.cpu=0 limits.cpu=0
a: cpu 1.500/-                         | cpu=1.500 requests.cpu=1.500
a: cpu 1/1; b: cpu 1/1; init i: cpu 9/1 | cpu=9 requests.cpu=9 limits.cpu=2
a; overhead: cpu=250m memory=120Mi     | cpu=250m requests.cpu=250m memory=120Mi requests.memory=120Mi
a; overhead: pods=3                    |
"""


@pytest.mark.parametrize(("line", "expected"), table(PODS))
def test_a_pod_uses_itself_and_what_it_states(line, expected):
    assert usage("pods", pod_json(line)) == {**COUNTS, **texts(expected)}


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_finished_pod_uses_its_count_alone(phase):
    assert usage("pods", pod_json("a: cpu 1/1", status={"phase": phase})) == COUNT


@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Unknown"])
def test_any_other_pod_uses_everything(phase):
    found = usage("pods", pod_json("a: cpu 1/-", status={"phase": phase}))
    assert found == {**COUNTS, "cpu": "1", "requests.cpu": "1"}


DELETED = datetime(2030, 1, 1, 12, tzinfo=UTC)


def deleted_pod(grace: int | None, **more: Any) -> Observed:
    metadata = {"deletionTimestamp": "2030-01-01T12:00:00Z", "deletionGracePeriodSeconds": grace, **more}
    return observed("pods", pod_json("a: cpu 1/-", metadata=metadata, spec={"terminationGracePeriodSeconds": 1}))


@pytest.mark.parametrize(("grace", "after"), [(30, -1), (30, 29), (30, 30), (0, 0)])
def test_a_pod_being_deleted_counts_until_its_grace_period_has_passed_twice(grace, after):
    moment = (DELETED + timedelta(seconds=after)).timestamp()
    assert printed(deleted_pod(grace).usage_at(moment)) == {**COUNTS, "cpu": "1", "requests.cpu": "1"}


@pytest.mark.parametrize(("grace", "after"), [(30, 30.001), (30, 31), (0, 0.001), (-5, -4), (30, 10**9)])
def test_after_that_only_its_count_is_left(grace, after):
    moment = (DELETED + timedelta(seconds=after)).timestamp()
    assert printed(deleted_pod(grace).usage_at(moment)) == COUNT


def test_without_a_grace_period_a_pod_being_deleted_counts_for_ever():
    assert "cpu" in deleted_pod(None).usage_at(10.0**12)


def test_a_pod_that_is_not_being_deleted_counts_for_ever():
    kept = observed("pods", pod_json("a: cpu 1/-", metadata={"deletionGracePeriodSeconds": 30}))
    assert "cpu" in kept.usage_at(10.0**12)


def test_a_time_zone_in_the_deletion_timestamp_is_understood():
    zoned = deleted_pod(0, deletionTimestamp="2030-01-01T13:00:00+01:00")
    assert "cpu" in zoned.usage_at(DELETED.timestamp())
    assert "cpu" not in zoned.usage_at(DELETED.timestamp() + 1)


@pytest.mark.parametrize("text", ["yesterday", "", "2030-13-01T00:00:00Z"])
def test_a_deletion_timestamp_that_is_no_time_is_a_bad_call(text):
    with pytest.raises(BadCall):
        deleted_pod(30, deletionTimestamp=text)


# -- volume claims

BETA = "volume.beta.kubernetes.io/storage-class"
CLAIM = {"persistentvolumeclaims": "1", "count/persistentvolumeclaims": "1"}


def claim_json(storage: str | None, *, allocated: str | None = None, beta: str | None = None, **spec: Any) -> Json:
    resources = {"requests": {"storage": storage}} if storage else {"requests": {"cpu": "1"}}
    annotations = {} if beta is None else {BETA: beta}
    status = {"allocatedResources": {"storage": allocated}} if allocated else {}
    return {
        "metadata": {"name": "c", "annotations": annotations},
        "spec": {"resources": resources, **spec},
        "status": status,
    }


def of_class(name: str, storage: str | None) -> dict[str, str]:
    names = {f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims": "1"}
    return {**names, f"{name}.storageclass.storage.k8s.io/requests.storage": storage} if storage else names


CLAIM_ROWS = [
    pytest.param(claim_json("10Gi"), {"requests.storage": "10Gi"}, id="no class"),
    pytest.param(claim_json(None), {}, id="no storage"),
    pytest.param(
        claim_json("10Gi", storageClassName="gold"),
        {"requests.storage": "10Gi", **of_class("gold", "10Gi")},
        id="class",
    ),
    pytest.param(claim_json(None, storageClassName="gold"), of_class("gold", None), id="a class and no storage"),
    pytest.param(claim_json("1Gi", storageClassName=""), {"requests.storage": "1Gi"}, id="the empty class"),
    pytest.param(
        claim_json("1Gi", storageClassName="gold", beta="beta"),
        {"requests.storage": "1Gi", **of_class("beta", "1Gi")},
        id="the annotation comes first",
    ),
    pytest.param(
        claim_json("1Gi", storageClassName="gold", beta=""), {"requests.storage": "1Gi"}, id="also when empty"
    ),
    pytest.param(
        claim_json("1Gi", beta="b"), {"requests.storage": "1Gi", **of_class("b", "1Gi")}, id="annotation alone"
    ),
    pytest.param(claim_json("0.1Gi"), {"requests.storage": "107374183"}, id="whole bytes"),
    pytest.param(claim_json("1500m"), {"requests.storage": "2"}, id="a fraction of a byte"),
    pytest.param(claim_json("1.000"), {"requests.storage": "1"}, id="one byte"),
    pytest.param(claim_json("10Gi", allocated="15Gi"), {"requests.storage": "15Gi"}, id="more is allocated"),
    pytest.param(claim_json("10Gi", allocated="5Gi"), {"requests.storage": "10Gi"}, id="less is allocated"),
    pytest.param(claim_json("1", allocated="1500m"), {"requests.storage": "2"}, id="allocated is rounded up"),
    pytest.param(claim_json("1Gi", allocated="1073741824"), {"requests.storage": "1Gi"}, id="as much is allocated"),
    pytest.param(claim_json(None, allocated="15Gi"), {}, id="allocated alone"),
    pytest.param(claim_json("-1Gi"), {"requests.storage": "-1Gi"}, id="negative"),
]


@pytest.mark.parametrize(("document", "expected"), CLAIM_ROWS)
def test_a_volume_claim_uses_itself_and_its_storage_in_total_and_by_class(document, expected):
    assert usage("persistentvolumeclaims", document) == {**CLAIM, **expected}


def test_an_empty_volume_claim_uses_itself():
    assert usage("persistentvolumeclaims", {"spec": None}) == CLAIM


# -- services

SERVICES = """
ClusterIP    | 80 443      |       | 0 | 0
ExternalName | 80          |       | 0 | 0
             | 80:30080    |       | 0 | 0
NodePort     | 80          |       | 0 | 1
NodePort     | 80 443      |       | 0 | 2
NodePort     |             |       | 0 | 0
NodePort     | 80 443      | false | 0 | 2
LoadBalancer | 80 443      |       | 1 | 2
LoadBalancer | 80 443      | true  | 1 | 2
LoadBalancer | 80 443      | false | 1 | 0
LoadBalancer | 80:30080 443 81:30081 82:0 | false | 1 | 2
LoadBalancer |             |       | 1 | 0
"""


def service_json(kind: str, ports: str = "", allocates: str = "") -> Json:
    listed = [port.split(":") for port in ports.split()]
    spec: Json = {"ports": [{"port": int(p[0]), **({"nodePort": int(p[1])} if len(p) > 1 else {})} for p in listed]}
    if kind:
        spec["type"] = kind
    if allocates:
        spec["allocateLoadBalancerNodePorts"] = allocates == "true"
    return {"metadata": {"name": "s"}, "spec": {**spec, "healthCheckNodePort": 31000}}


@pytest.mark.parametrize(("kind", "ports", "allocates", "balancers", "nodeports"), table(SERVICES))
def test_a_service_uses_load_balancers_and_node_ports_by_its_type(kind, ports, allocates, balancers, nodeports):
    assert usage("services", service_json(kind, ports, allocates)) == {
        "services": "1",
        "count/services": "1",
        "services.loadbalancers": balancers,
        "services.nodeports": nodeports,
    }


def test_a_service_without_ports_or_spec_uses_none():
    empty = {"services": "1", "count/services": "1", "services.loadbalancers": "0", "services.nodeports": "0"}
    assert usage("services", {"spec": {"type": "NodePort", "ports": None}}) == empty
    assert usage("services", {"metadata": {"name": "s"}}) == empty


# -- objects that are only counted


@pytest.mark.parametrize("kind", ["configmaps", "secrets", "replicationcontrollers", "resourcequotas"])
def test_kinds_with_a_plain_name_use_both_names(kind):
    assert usage(kind, {"metadata": {"name": "x"}}) == {kind: "1", f"count/{kind}": "1"}


@pytest.mark.parametrize("kind", ["deployments.apps", "widgets.example.com", "serviceaccounts", "namespaces"])
def test_all_other_kinds_use_their_count(kind):
    assert usage(kind, {"metadata": {"name": "x"}}) == {f"count/{kind}": "1"}


def test_an_object_without_metadata_has_empty_metadata():
    assert meta_of(decode("configmaps", b"{}", "")).name is None


@pytest.mark.parametrize(
    ("kind", "document", "path"),
    [
        ("pods", b'{"spec": {"containers": {}}}', "object: "),
        ("pods", b'{"spec": {"containers": [{"resources": {"limits": {"cpu": "1 Gi"}}}]}}', "quantities must match"),
        ("services", b'{"spec": {"ports": [{"nodePort": "x"}]}}', "nodePort"),
        ("configmaps", b'{"metadata": []}', "metadata"),
        ("configmaps", b"[]", "object: "),
    ],
)
def test_an_object_of_another_shape_is_a_bad_call_that_names_the_field(kind, document, path):
    with pytest.raises(BadCall) as caught:
        decode(kind, document, "object: ")
    assert path in caught.value.message
    assert caught.value.status == 400
    assert "\n" not in caught.value.message
