"""The API's own rules for resources, and the QoS class."""

from __future__ import annotations

import pytest

from admission.apiserver.qos import qos_class
from admission.apiserver.shapes import shaped
from admission.apiserver.statuses import invalid
from admission.apiserver.validation import pod_errors, resize_errors
from admission.objects import Pod
from tests.submit.objects import Json, container, pod, resources


def errors(body: Json) -> list[str]:
    return [str(error) for error in pod_errors(shaped(body, Pod))]


C0 = "spec.containers[0].resources"
NO_LIMIT = f"{C0}.limits: Required value: Limit must be set for non overcommitable resources"


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ("", "", []),
        ("cpu=1", "", []),
        ("cpu=1", "cpu=1", []),
        ("cpu=500m", "cpu=1", []),
        (
            "cpu=1001m",
            "cpu=1",
            [f'{C0}.requests: Invalid value: "1001m": must be less than or equal to cpu limit of 1'],
        ),
        (
            "memory=2Gi cpu=2",
            "cpu=1 memory=1Gi",
            [
                f'{C0}.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
                f'{C0}.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi',
            ],
        ),
        (
            "ephemeral-storage=2G",
            "ephemeral-storage=1G",
            [f'{C0}.requests: Invalid value: "2G": must be less than or equal to ephemeral-storage limit of 1G'],
        ),
        ("nvidia.com/gpu=1", "nvidia.com/gpu=1", []),
        ("nvidia.com/gpu=1", "", [NO_LIMIT]),
        (
            "nvidia.com/gpu=1",
            "nvidia.com/gpu=2",
            [f'{C0}.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2'],
        ),
        (
            "nvidia.com/gpu=3",
            "nvidia.com/gpu=2",
            [f'{C0}.requests: Invalid value: "3": must be equal to nvidia.com/gpu limit of 2'],
        ),
        ("hugepages-2Mi=2Mi", "", [NO_LIMIT]),
        (
            "hugepages-2Mi=2Mi",
            "hugepages-2Mi=4Mi",
            [f'{C0}.requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 4Mi'],
        ),
        ("", "hugepages-2Mi=4Mi", []),
        ("attachable.kubernetes.io/disk=1", "attachable.kubernetes.io/disk=2", []),
    ],
)
def test_requests_against_limits(requests, limits, expected):
    assert errors(pod("web", container(requests=requests, limits=limits))) == expected


def test_every_container_is_looked_at_init_containers_last():
    too_much = {"requests": "cpu=2", "limits": "cpu=1"}
    body = pod("web", container(), container("b", **too_much), initContainers=[container("i", **too_much)])
    rest = 'resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'
    assert errors(body) == [f"spec.containers[1].{rest}", f"spec.initContainers[0].{rest}"]


@pytest.mark.parametrize(
    ("own", "containers", "expected"),
    [
        (resources(requests="cpu=2", limits="cpu=2"), [container(requests="cpu=1", limits="cpu=2")] * 2, []),
        (
            resources(requests="cpu=3 memory=1Gi", limits="cpu=4"),
            [container(requests="cpu=2 memory=1Gi"), container("d", requests="cpu=1500m memory=1Gi")],
            [
                'requests[cpu]: Invalid value: "3": must be greater than or equal to aggregate container requests '
                "of 3500m",
                'requests[memory]: Invalid value: "1Gi": must be greater than or equal to aggregate container requests '
                "of 2Gi",
            ],
        ),
        (resources(requests="memory=1Gi"), [container(requests="cpu=1")], []),
        (
            resources(requests="cpu=5", limits="cpu=4"),
            [container()],
            ['requests: Invalid value: "5": must be less than or equal to cpu limit of 4'],
        ),
        (
            resources(requests="cpu=4", limits="cpu=4 memory=1Gi"),
            [container(), container("d", limits="memory=2Gi cpu=5 ephemeral-storage=9Gi")],
            [
                'containers[1][cpu].limits: Invalid value: "5": must be less than or equal to pod limits of 4',
                'containers[1][memory].limits: Invalid value: "2Gi": must be less than or equal to pod limits of 1Gi',
            ],
        ),
        (
            resources(requests="hugepages-2Mi=4Mi", limits="hugepages-2Mi=4Mi"),
            [container(limits="hugepages-2Mi=4Mi"), container("d", limits="hugepages-2Mi=4Mi")],
            [
                'limits[hugepages-2Mi]: Invalid value: "4Mi": must be greater than or equal to aggregate container '
                "limits of 8Mi",
            ],
        ),
        ({}, [container(requests="cpu=1")], []),
    ],
)
def test_pod_level_resources(own, containers, expected):
    assert errors(pod("web", *containers, resources=own)) == [f"spec.resources.{error}" for error in expected]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"requests": "cpu=1"}, {"requests": "cpu=2 memory=1Gi", "limits": "cpu=2"}, []),
        (
            {"requests": "cpu=1"},
            {"requests": "cpu=1 ephemeral-storage=1Gi"},
            ["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        (
            {"limits": "ephemeral-storage=1Gi"},
            {},
            ["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        (
            {"requests": "cpu=1"},
            {"requests": "cpu=2", "limits": "cpu=1 ephemeral-storage=1Gi"},
            [
                f'{C0}.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
                "spec: Forbidden: only cpu and memory resources are mutable",
            ],
        ),
    ],
)
def test_a_resize_may_change_cpu_and_memory(before, after, expected):
    old, new = (shaped(pod("web", container(**stated)), Pod) for stated in (before, after))
    assert [str(error) for error in resize_errors(new, old)] == expected


def test_several_errors_are_listed_in_brackets_and_each_text_once():
    gpus = resources(requests="nvidia.com/gpu=1 example.com/tpu=1")
    twice = pod_errors(shaped(pod("web", {"name": "c", "resources": gpus}), Pod))
    assert len(twice) == 2
    assert invalid("Pod", "web", twice).message == f'Pod "web" is invalid: {NO_LIMIT}'
    others = pod_errors(shaped(pod("web", container(requests="cpu=2 memory=2Gi", limits="cpu=1 memory=1Gi")), Pod))
    assert invalid("Pod", "web", others).message == f'Pod "web" is invalid: [{others[0]}, {others[1]}]'


FULL = "cpu=1 memory=1Gi"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (pod(), "BestEffort"),
        (pod(requests="cpu=0", limits="cpu=0"), "BestEffort"),
        (pod(requests="ephemeral-storage=1Gi nvidia.com/gpu=1"), "BestEffort"),
        (pod(requests="cpu=1"), "Burstable"),
        (pod(limits="cpu=1", requests="cpu=1"), "Burstable"),
        (pod(limits=FULL, requests="cpu=500m memory=1Gi"), "Burstable"),
        (pod(limits=FULL, requests=FULL), "Guaranteed"),
        (pod(limits=f"{FULL} ephemeral-storage=2Gi", requests=FULL), "Guaranteed"),
        (pod("a", container(limits=FULL, requests=FULL), container("b")), "Burstable"),
        (pod("a", container(limits=FULL, requests=FULL), initContainers=[container("b")]), "Burstable"),
        (
            pod(
                "a", container(limits=FULL, requests=FULL), initContainers=[container("b", limits=FULL, requests=FULL)]
            ),
            "Guaranteed",
        ),
        (pod("a", container(limits=FULL), resources=resources(requests="cpu=1")), "Burstable"),
        (pod("a", container(), resources=resources(requests=FULL, limits=FULL)), "Guaranteed"),
        (pod("a", container(requests="cpu=1"), resources={}), "BestEffort"),
    ],
)
def test_qos_class(body, expected):
    assert qos_class(shaped(body, Pod)) == expected
