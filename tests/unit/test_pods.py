from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.pods import (
    is_finished,
    limit_range_totals,
    pod_level_names,
    quota_limits,
    quota_requests,
    scheduler_requests,
)
from admission.quantity import Quantity
from tests.unit.helpers import amounts, pod, printed, requirements, table, texts

# -- as LimitRange sees them


def limit_range_requests(line: str, **parts: Any) -> dict[str, str]:
    return printed(limit_range_totals(pod(line, **parts))[0])


def limit_range_limits(line: str, **parts: Any) -> dict[str, str]:
    return printed(limit_range_totals(pod(line, **parts))[1])


TOTALS = """
sidecar s1: cpu 100m/-; init i1: cpu 500m/-; sidecar s2: cpu 200m/-; a: cpu 100m/- | cpu=600m
a: cpu 1/-; b: cpu 2/-                                                   | cpu=3
a: cpu 1/-; init i: cpu 4/-; init j: cpu 1/-                             | cpu=4
a: cpu 1/-; b: cpu 2/-; init i: cpu 2/-                                  | cpu=3
a: cpu 1/-; sidecar s: cpu 1/-                                           | cpu=2
a: cpu 1/-; init i: cpu 5/-; sidecar s: cpu 1/-                          | cpu=5
a: cpu 1/-; sidecar s: cpu 1/-; init i: cpu 5/-                          | cpu=6
a: cpu 1/-; b: memory 1Gi/-                                              | cpu=1 memory=1Gi
a: cpu 1/-; init i: memory 1Gi/-; init j: cpu 2/-                        | cpu=2 memory=1Gi
a: example.com/gpu 1/-; b: example.com/gpu 2/-                           | example.com/gpu=3
a; b: cpu 0/-                                                            | cpu=0
a                                                                        |
a: memory 1Gi/-; b: memory 500M/-                                        | memory=1573741824
a: memory 0/-; b: memory 1Gi/-                                           | memory=1Gi
a: memory 500M/-; b: memory 1Gi/-                                        | memory=1573741824
a: memory 1G/-; init i: memory 1Gi/-                                     | memory=1Gi
a: cpu 1.500/-                                                           | cpu=1.500
a: cpu 1.500/-; b: cpu 1/-                                               | cpu=2500m
a: cpu 1/-; overhead: cpu=250m memory=120Mi                              | cpu=1
a: cpu 1/-; ephemeral e: cpu 5/-                                         | cpu=1
a: cpu 1/-; pod: cpu 500m/-                                              | cpu=500m
a: cpu 1/-; pod: memory 1Gi/-                                            | cpu=1 memory=1Gi
a: cpu 1/-, hugepages-2Mi 2Mi/-; pod: cpu 2/-, hugepages-2Mi 10Mi/-      | cpu=2 hugepages-2Mi=2Mi
a: cpu 1/-; pod: hugepages-2Mi 10Mi/-                                    | cpu=1
"""


@pytest.mark.parametrize(("line", "total"), table(TOTALS))
def test_a_limit_range_total_is_the_most_that_runs_together(line, total):
    as_limits = re.sub(r"(\S+)/-", r"-/\1", line)
    assert (limit_range_requests(line), limit_range_limits(line)) == (texts(total), {})
    assert (limit_range_requests(as_limits), limit_range_limits(as_limits)) == ({}, texts(total))


def test_pod_level_requests_and_limits_replace_each_their_own_side():
    line = "a: cpu 1/2; pod: cpu -/4, memory 1Gi/-"
    assert limit_range_requests(line) == {"cpu": "1", "memory": "1Gi"}
    assert limit_range_limits(line) == {"cpu": "4"}


def test_a_limit_range_total_ignores_status_and_resizes():
    status = {
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
        "containerStatuses": [
            {"name": "a", "resources": {"requests": {"cpu": "9"}}, "allocatedResources": {"cpu": "8"}}
        ],
    }
    assert limit_range_requests("a: cpu 1/2", status=status) == {"cpu": "1"}
    assert limit_range_limits("a: cpu 1/2", status=status) == {"cpu": "2"}


def test_a_total_limit_exists_where_any_container_has_one():
    assert limit_range_limits("a: cpu 1/2; b: cpu 1/-") == {"cpu": "2"}


def test_of_equal_amounts_the_first_decides_how_the_total_prints():
    assert limit_range_requests("a: memory 1Gi/-; init i: memory 1073741824/-") == {"memory": "1Gi"}
    assert limit_range_requests("a: memory 1073741824/-; init i: memory 1Gi/-") == {"memory": "1073741824"}


# -- as ResourceQuota counts them

INFEASIBLE = [{"type": "PodResizePending", "reason": "Infeasible"}]


def container_status(line: str, allocated: str = "", name: str = "a") -> dict[str, Any]:
    return {"name": name, "resources": requirements(line), "allocatedResources": texts(allocated)}


def counted(line: str, status: dict[str, Any] | None = None, **parts: Any) -> tuple[dict[str, str], dict[str, str]]:
    counted_pod = pod(line, status=status or {}, **parts)
    return printed(quota_requests(counted_pod)), printed(quota_limits(counted_pod))


SUMS = """
init i: cpu 4/-; init j: cpu 1/-; a: cpu 1/-; b: cpu 2/-                          | cpu=4    |
sidecar s: cpu 1/-; a: cpu 1/-                                                    | cpu=2    |
init i: cpu 5/-; sidecar s: cpu 1/-; sidecar t: cpu 2/-; sidecar u: cpu 3/-; a: cpu 1/- | cpu=7 |
init i: cpu 5/-; sidecar s: cpu 1/-; sidecar t: cpu 2/-; init j: cpu 5/-; sidecar u: cpu 3/-; a: cpu 1/- | cpu=8 |
sidecar s: cpu 10/-; init i: cpu 200/-; a: cpu 100/-                              | cpu=210  |
a: cpu 1/2; overhead: cpu=1                                                       | cpu=2    | cpu=3
a; overhead: cpu=100m                                                             | cpu=100m |
a: cpu -/0; overhead: cpu=100m                                                    | cpu=100m | cpu=0
a: cpu 1/1, memory 1Gi/-; pod: cpu 1/4, memory 1Gi/4Gi; overhead: cpu=100m | cpu=1100m memory=1Gi | cpu=4100m memory=4Gi
a: memory 3Mi/-; pod: memory 2Mi/-                                                | memory=2Mi |
a: hugepages-2Mi 2Mi/2Mi; pod: hugepages-2Mi 10Mi/10Mi           | hugepages-2Mi=10Mi | hugepages-2Mi=10Mi
a: example.com/gpu 1/1; pod: example.com/gpu 9/9                 | example.com/gpu=1 | example.com/gpu=1
a: cpu 1/-; overhead: memory=120Mi                                                | cpu=1 memory=120Mi |
a: memory 1Gi/1Gi; overhead: memory=120Mi                                         | memory=1144Mi | memory=1144Mi
a: memory 1G/-; overhead: memory=1Gi                                              | memory=2073741824 |
a: cpu 1/-; ephemeral e: cpu 5/-                                                  | cpu=1    |
a                                                                                 |          |
"""


@pytest.mark.parametrize(("line", "requests", "limits"), table(SUMS))
def test_a_quota_counts_the_most_that_runs_together_pod_level_and_overhead(line, requests, limits):
    assert counted(line) == (texts(requests), texts(limits))


RESIZES = """
cpu 4/-         | cpu 2/-      |       | infeasible | cpu=2      |
cpu 6/-         | cpu 2/-      | cpu=4 | infeasible | cpu=4      |
cpu 4/-         | cpu 2/-      |       |            | cpu=4      |
cpu 1/4         | cpu 2/5      | cpu=3 |            | cpu=3      | cpu=5
cpu 9/10        | cpu 2/5      | cpu=3 | infeasible | cpu=3      | cpu=5
memory -/2Gi    | memory -/1Gi |       |            |            | memory=2Gi
memory -/1Gi    | memory -/2Gi |       |            |            | memory=2Gi
cpu 1/-         | memory 1Gi/- |       |            | cpu=1 memory=1Gi |
cpu 1/-         | memory 1Gi/- |       | infeasible | memory=1Gi |
cpu 1/2         | memory 1Gi/- | cpu=3 | infeasible | cpu=3 memory=1Gi |
"""


def resized(name: str, allocated: str, line: str, infeasible: str) -> dict[str, Any]:
    conditions = INFEASIBLE if infeasible else []
    return {"conditions": conditions, "containerStatuses": [container_status(line, allocated, name)]}


@pytest.mark.parametrize(("spec", "actual", "allocated", "infeasible", "requests", "limits"), table(RESIZES))
def test_during_a_resize_a_quota_counts_desired_and_actual(spec, actual, allocated, infeasible, requests, limits):
    status = resized("a", allocated, actual, infeasible)
    assert counted(f"a: {spec}", status) == (texts(requests), texts(limits))


@pytest.mark.parametrize(("spec", "actual", "allocated", "infeasible", "requests", "limits"), table(RESIZES))
def test_sidecars_are_resized_like_containers(spec, actual, allocated, infeasible, requests, limits):
    status = resized("s", allocated, actual, infeasible)
    status["initContainerStatuses"] = status.pop("containerStatuses")
    assert counted(f"a; sidecar s: {spec}", status) == (texts(requests), texts(limits))


def test_plain_init_containers_count_as_stated_during_a_resize():
    status = {"initContainerStatuses": [container_status("cpu 9/9", "cpu=9", "i")]}
    assert counted("a; init i: cpu 1/1", status) == ({"cpu": "1"}, {"cpu": "1"})


def test_a_status_without_resources_has_no_effect_even_with_allocated_resources():
    status = {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "9"}}]}
    assert counted("a: cpu 1/1", status) == ({"cpu": "1"}, {"cpu": "1"})
    status = {"conditions": INFEASIBLE, **status}
    assert counted("a: cpu 1/1", status) == ({"cpu": "1"}, {"cpu": "1"})


def test_a_status_of_another_name_has_no_effect():
    assert counted("a: cpu 1/1", {"containerStatuses": [container_status("cpu 9/9", name="b")]})[0] == {"cpu": "1"}


def test_the_status_of_containers_comes_before_that_of_init_containers():
    status = {
        "containerStatuses": [container_status("cpu 3/-")],
        "initContainerStatuses": [container_status("cpu 9/-")],
    }
    assert counted("a: cpu 1/-", status)[0] == {"cpu": "3"}


@pytest.mark.parametrize(
    ("conditions", "requests"),
    [
        ([("PodResizePending", "Infeasible"), ("PodResizePending", "Deferred")], "2"),
        ([("PodResizePending", "Deferred"), ("PodResizePending", "Infeasible")], "4"),
        ([("PodResizePending", "Deferred")], "4"),
        ([("PodResizeInProgress", "Infeasible")], "4"),
        ([("Ready", "Infeasible"), ("PodResizePending", "Infeasible")], "2"),
    ],
)
def test_only_the_first_pending_condition_says_whether_a_resize_is_infeasible(conditions, requests):
    listed = [{"type": kind, "reason": reason} for kind, reason in conditions]
    status = {"conditions": listed, "containerStatuses": [container_status("cpu 2/-")]}
    assert counted("a: cpu 4/-", status)[0] == {"cpu": requests}


def test_pod_level_values_in_status_are_ignored():
    status = {"resources": {"requests": {"cpu": "9"}}, "allocatedResources": {"cpu": "9"}}
    assert counted("a: cpu 1/1; pod: cpu 2/2", status) == ({"cpu": "2"}, {"cpu": "2"})


# -- as the scheduler counts them


@pytest.mark.parametrize(("line", "requests", "limits"), table(SUMS))
def test_the_scheduler_counts_requests_as_a_quota_does(line, requests, limits):
    assert printed(scheduler_requests(pod(line))) == texts(requests)


POD_LEVEL_RESIZES = """
cpu 2/-            | cpu 1/-    |       |            | cpu=2
cpu 2/-            | cpu 3/-    |       |            | cpu=3
cpu 2/-            | cpu 3/-    | cpu=4 |            | cpu=4
cpu 2/-            | cpu 1/-    |       | infeasible | cpu=1
cpu 2/-            | cpu 1/-    | cpu=4 | infeasible | cpu=4
cpu 2/-            | memory 1/- |       |            | cpu=2
cpu 2/-            | memory 1/- |       | infeasible | cpu=0
memory 1Gi/-       | cpu 9/-    | cpu=9 |            | cpu=1 memory=1Gi
cpu -/4            | cpu 9/-    |       |            | cpu=1
"""


@pytest.mark.parametrize(("level", "actual", "allocated", "infeasible", "requests"), table(POD_LEVEL_RESIZES))
def test_during_a_resize_at_pod_level_the_scheduler_counts_desired_and_actual(
    level, actual, allocated, infeasible, requests
):
    conditions = INFEASIBLE if infeasible else []
    status = {"resources": requirements(actual), "allocatedResources": texts(allocated), "conditions": conditions}
    assert printed(scheduler_requests(pod(f"a: cpu 1/-; pod: {level}", status=status))) == texts(requests)


def test_allocated_resources_alone_say_nothing_at_pod_level():
    resized_pod = pod("a; pod: cpu 2/-", status={"allocatedResources": {"cpu": "9"}})
    assert printed(scheduler_requests(resized_pod)) == {"cpu": "2"}


@pytest.mark.parametrize(
    ("phase", "finished"),
    [("Succeeded", True), ("Failed", True), ("Running", False), ("Pending", False), ("Unknown", False), (None, False)],
)
def test_a_pod_is_finished_when_it_succeeded_or_failed(phase, finished):
    assert is_finished(pod("a", status={"phase": phase})) is finished
    assert not is_finished(pod("a"))


def test_the_names_that_count_at_pod_level():
    stated = pod("a; pod: cpu 1/2, memory -/1Gi, hugepages-1Gi 1Gi/1Gi, ephemeral-storage 1/1, example.com/gpu 1/1")
    assert set(pod_level_names(stated.spec.resources)) == {"cpu", "memory", "hugepages-1Gi"}
    assert list(pod_level_names(None)) == []


def test_a_pod_without_spec_or_containers_holds_nothing():
    empty = pod("", spec={"containers": None, "initContainers": None})
    assert (limit_range_totals(empty), quota_requests(empty), quota_limits(empty)) == (({}, {}), {}, {})


# -- any pod, against its course in time

Container = tuple[str, dict[str, int], dict[str, int]]
NAMES = ["cpu", "memory", "hugepages-2Mi", "example.com/gpu"]
lists = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), max_size=3)
containers = st.tuples(st.just("app"), lists, lists)
init_containers = st.tuples(st.sampled_from(["init", "sidecar"]), lists, lists)


def moments(apps: Iterable[Container], inits: Iterable[Container]) -> list[list[Container]]:
    """Which containers run at the same time, from the first init container to the end."""
    course, sidecars = [], []
    for container in inits:
        course.append([*sidecars, container])
        if container[0] == "sidecar":
            sidecars.append(container)
    course.append([*sidecars, *apps])
    return course


def most(course: list[list[Container]], side: Callable[[Container], dict[str, int]]) -> dict[str, int]:
    listed = [name for moment in course for container in moment for name in side(container)]
    return {name: max(sum(side(c).get(name, 0) for c in moment) for moment in course) for name in listed}


def document(apps: list[Container], inits: list[Container], **spec: Any) -> Any:
    def written(index: int, container: Container) -> dict[str, Any]:
        kind, requests, limits = container
        resources = {"requests": as_text(requests), "limits": as_text(limits)}
        restart = {"restartPolicy": "Always"} if kind == "sidecar" else {}
        return {"name": f"{kind}{index}", "resources": resources, **restart}

    listed = {
        "containers": [written(i, c) for i, c in enumerate(apps)],
        "initContainers": [written(i, c) for i, c in enumerate(inits)],
    }
    return pod("", spec={**listed, **spec})


def as_text(listed: dict[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in listed.items()}


def counts(listed: dict[str, Quantity]) -> dict[str, int]:
    return {name: amount.value() for name, amount in listed.items()}


@given(st.lists(containers, max_size=3), st.lists(init_containers, max_size=5), lists, lists)
def test_the_limit_range_totals_are_the_peaks_of_the_pods_course(apps, inits, pod_requests, pod_limits):
    stated = document(apps, inits, resources={"requests": as_text(pod_requests), "limits": as_text(pod_limits)})
    course = moments(apps, inits)
    replaced = ("cpu", "memory")
    expected = [
        {**most(course, lambda c, side=side: c[side]), **{name: level[name] for name in replaced if name in level}}
        for side, level in ((1, pod_requests), (2, pod_limits))
    ]
    assert [counts(total) for total in limit_range_totals(stated)] == expected


@given(st.lists(containers, max_size=3), st.lists(init_containers, max_size=5), lists, lists, lists)
def test_the_quota_sums_are_the_peaks_of_the_pods_course(apps, inits, pod_requests, pod_limits, overhead):
    level = {"requests": as_text(pod_requests), "limits": as_text(pod_limits)}
    stated = document(apps, inits, resources=level, overhead=as_text(overhead))
    course = moments(apps, inits)
    replaced = ("cpu", "memory", "hugepages-2Mi")
    requests = most(course, lambda c: c[1]) | {n: pod_requests[n] for n in replaced if n in pod_requests}
    limits = most(course, lambda c: c[2]) | {n: pod_limits[n] for n in replaced if n in pod_limits}
    for name, extra in overhead.items():
        requests[name] = requests.get(name, 0) + extra
        if limits.get(name):
            limits[name] += extra
    assert counts(quota_requests(stated)) == requests
    assert counts(quota_limits(stated)) == limits


@given(st.lists(containers, max_size=3), st.lists(init_containers, max_size=4))
def test_without_pod_level_overhead_or_status_both_count_the_same(apps, inits):
    stated = document(apps, inits)
    assert limit_range_totals(stated) == (quota_requests(stated), quota_limits(stated))
    assert scheduler_requests(stated) == quota_requests(stated)


def test_sums_do_not_change_the_pod():
    stated = pod("a: cpu 1/1; b: cpu 2/2; sidecar s: cpu 1/1; init i: cpu 9/9; overhead: cpu=1")
    first = quota_requests(stated), quota_limits(stated), limit_range_totals(stated)
    assert (quota_requests(stated), quota_limits(stated), limit_range_totals(stated)) == first
    assert stated.containers[0].requests == amounts("cpu=1")
