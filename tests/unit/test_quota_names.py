import pytest

from admission.quota.names import (
    COUNTED_BY_PLAIN_NAME,
    IGNORED_KINDS,
    PODS,
    RESOURCE_CLAIMS,
    SERVICES,
    VOLUME_CLAIMS,
    answers,
    is_native,
    kinds_named,
)
from tests.unit.helpers import table

DEVICES = {"gpu": "example.com/gpu", "tpu": ""}
CLAIMS = RESOURCE_CLAIMS

NAMES = """
pods                                       | pods
count/pods                                 | pods
cpu                                        | pods
requests.cpu                               | pods
memory                                     | pods
requests.memory                            | pods
ephemeral-storage                          | pods
requests.ephemeral-storage                 | pods
limits.cpu                                 | pods
limits.memory                              | pods
limits.ephemeral-storage                   | pods
hugepages-2Mi                              | pods
requests.hugepages-1Gi                     | pods
hugepages-whatever                         | pods
requests.nvidia.com/gpu                    | pods
requests.example.com/gpu                   | pods resourceclaims.resource.k8s.io
requests.deviceclass.resource.kubernetes.io/gpu   | pods resourceclaims.resource.k8s.io
requests.deviceclass.resource.kubernetes.io/tpu   | pods resourceclaims.resource.k8s.io
requests.deviceclass.resource.kubernetes.io/other | pods
gpu.deviceclass.resource.k8s.io/devices    | resourceclaims.resource.k8s.io
other.deviceclass.resource.k8s.io/devices  | resourceclaims.resource.k8s.io
count/resourceclaims.resource.k8s.io       | resourceclaims.resource.k8s.io
persistentvolumeclaims                     | persistentvolumeclaims
count/persistentvolumeclaims               | persistentvolumeclaims
requests.storage                           | persistentvolumeclaims
gold.storageclass.storage.k8s.io/requests.storage       | persistentvolumeclaims
gold.storageclass.storage.k8s.io/persistentvolumeclaims | persistentvolumeclaims
a.b.storageclass.storage.k8s.io/requests.storage        | persistentvolumeclaims
services                                   | services
count/services                             | services
services.nodeports                         | services
services.loadbalancers                     | services
configmaps                                 | configmaps
count/configmaps                           | configmaps
secrets                                    | secrets
count/secrets                              | secrets
replicationcontrollers                     | replicationcontrollers
count/replicationcontrollers               | replicationcontrollers
resourcequotas                             | resourcequotas
count/resourcequotas                       | resourcequotas
count/deployments.apps                     | deployments.apps
count/widgets.example.com                  | widgets.example.com
"""
ROWS = [(name, kinds.split()) for name, kinds in table(NAMES)]

INERT = """
nvidia.com/gpu | limits.nvidia.com/gpu | requests.x.kubernetes.io/y | deployments.apps | widgets | limits.hugepages-2Mi
limits.storage | storage | requests.pods | limits.pods | services.nodeport | requests.widgets | deployments | ingresses
gold.storageclass.storage.k8s.io/limits.storage | deviceclass.resource.kubernetes.io/gpu | requests.
"""
EVERY_KIND = [
    PODS,
    VOLUME_CLAIMS,
    SERVICES,
    CLAIMS,
    *sorted(COUNTED_BY_PLAIN_NAME),
    "deployments.apps",
    "widgets.example.com",
    "ingresses.networking.k8s.io",
]


@pytest.mark.parametrize(("name", "kinds"), ROWS)
def test_a_name_is_answered_to_by_its_kinds_alone(name, kinds):
    assert sorted(kind for kind in EVERY_KIND if answers(kind, name, DEVICES)) == sorted(kinds)
    assert sorted(kinds_named(name, DEVICES)) == sorted(kinds)


@pytest.mark.parametrize("name", [name for row in table(INERT) for name in row])
def test_a_name_that_no_kind_answers_to_is_inert(name):
    assert [kind for kind in EVERY_KIND if answers(kind, name, DEVICES)] == []
    assert kinds_named(name, DEVICES) == []


@pytest.mark.parametrize("name", ["count/events", "count/bindings", "count/events.events.k8s.io"])
def test_kinds_that_are_never_counted_have_no_count(name):
    assert kinds_named(name, DEVICES) == []


def test_without_device_classes_extended_names_are_those_of_pods_alone():
    for name in ("requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/gpu"):
        assert kinds_named(name, {}) == [PODS]
    assert kinds_named("gpu.deviceclass.resource.k8s.io/devices", {}) == [CLAIMS]


def test_the_version_is_no_part_of_a_name():
    assert answers("deployments.apps", "count/deployments.apps", {})
    assert not answers("deployments.apps", "count/deployments.v1.apps", {})
    assert not answers("deployments.apps", "count/deployments", {})
    assert not answers("deployments", "count/deployments.apps", {})


@pytest.mark.parametrize(
    ("name", "native"),
    [
        ("cpu", True),
        ("hugepages-2Mi", True),
        ("kubernetes.io/x", True),
        ("a.kubernetes.io/x", True),
        ("example.com/gpu", False),
        ("requests.example.com/gpu", False),
        ("k8s.io/x", False),
    ],
)
def test_a_name_without_a_slash_or_of_kubernetes_is_native(name, native):
    assert is_native(name) is native


def test_the_ignored_kinds_are_those_of_the_original():
    core = {"bindings", "componentstatuses", "events"}
    authentication = {"tokenreviews", "selfsubjectreviews"}
    authorization = {
        "subjectaccessreviews",
        "selfsubjectaccessreviews",
        "localsubjectaccessreviews",
        "selfsubjectrulesreviews",
    }
    assert (
        core
        | {"events.events.k8s.io"}
        | {f"{kind}.authentication.k8s.io" for kind in authentication}
        | {f"{kind}.authorization.k8s.io" for kind in authorization}
    ) == IGNORED_KINDS
