from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.limits import LimitPolicy, compile_limit_range, with_api_defaults
from admission.limits.defaults import ANNOTATION
from tests.unit.fakes import Namespace
from tests.unit.helpers import (
    Json,
    api_defaulted,
    limit_policy,
    limit_range,
    pod_json,
    printed,
    review,
    table,
    texts,
)

PREFIX = "LimitRanger plugin set: "
L = (
    "Pod max cpu=200m memory=4Gi min cpu=50m memory=2Mi; Container max cpu=100m memory=2Gi min cpu=25m memory=1Mi "
    "default cpu=75m memory=10Mi defaultRequest cpu=50m memory=5Mi"
)


def patch_of(document: Json, *policies: LimitPolicy, kind: str = "pods", operation: str = "CREATE") -> list[Json]:
    old = document if operation == "UPDATE" else None
    answer = Namespace(limits=policies).mutate(review(operation, kind, document, old))
    assert answer.allowed
    return list(answer.patch)


def patched(document: Json, *policies: LimitPolicy) -> Json:
    return jsonpatch.apply_patch(document, patch_of(document, *policies))


def with_annotation(line: str, text: str | None, **parts: Any) -> Json:
    document = pod_json(line, **parts)
    if text:
        document["metadata"].setdefault("annotations", {})[ANNOTATION] = text
    return document


# -- the LimitRange as the API stores it

STORED = """
max cpu=2 memory=1Gi min cpu=100m x.y/z=1 default memory=500Mi | cpu=2 memory=500Mi | cpu=2 memory=500Mi x.y/z=1
max cpu=1                                       | cpu=1       | cpu=1
min cpu=1                                       |             | cpu=1
default cpu=1                                   | cpu=1       | cpu=1
defaultRequest cpu=1                            |             | cpu=1
max cpu=2 default cpu=1                         | cpu=1       | cpu=1
max cpu=2 default cpu=1 defaultRequest cpu=500m | cpu=1       | cpu=500m
max cpu=2 min cpu=100m                          | cpu=2       | cpu=2
max memory=1Gi min cpu=100m                     | memory=1Gi  | memory=1Gi cpu=100m
min cpu=100m defaultRequest cpu=200m            |             | cpu=200m
max cpu=2 min cpu=100m default cpu=0            | cpu=0       | cpu=0
ratio cpu=2                                     |             |
"""


@pytest.mark.parametrize(("item", "default", "default_request"), table(STORED))
def test_the_api_completes_the_defaults_of_a_container_item(item, default, default_request):
    stored = with_api_defaults(limit_range(f"Container {item}"))
    assert printed(stored.spec.limits[0].default or {}) == texts(default)
    assert printed(stored.spec.limits[0].default_request or {}) == texts(default_request)
    assert compile_limit_range(with_api_defaults(stored)) == compile_limit_range(stored)


@pytest.mark.parametrize("kind", ["Pod", "PersistentVolumeClaim", "example.com/Foo"])
def test_the_api_completes_no_other_item(kind):
    line = f"{kind} max cpu=2 min cpu=1"
    assert with_api_defaults(limit_range(line)).spec.limits == limit_range(line).spec.limits


def test_the_api_completes_every_container_item_and_leaves_the_rest_in_place():
    stored = with_api_defaults(limit_range("Pod max cpu=4; Container max cpu=2; PersistentVolumeClaim max storage=1Gi"))
    assert [item.type for item in stored.spec.limits] == ["Pod", "Container", "PersistentVolumeClaim"]
    assert stored.metadata.name == "limits"
    assert compile_limit_range(stored).default_limits == limit_policy("Container default cpu=2").default_limits


def test_all_five_lists_of_a_limit_range_are_rounded_up_to_a_thousandth():
    line = "max cpu=100100u min cpu=1n default cpu=1.0001 defaultRequest cpu=0.1Ki ratio cpu=1500001u"
    (item,) = limit_range(f"Container {line}").spec.limits
    lists = (item.max, item.min, item.default, item.default_request, item.max_limit_request_ratio)
    assert [str(listed["cpu"]) for listed in lists] == ["101m", "1m", "1001m", "102400m", "1501m"]


# -- which defaults there are


def test_only_container_items_have_defaults_to_give():
    policy = limit_policy(L)
    assert printed(policy.default_requests) == {"cpu": "50m", "memory": "5Mi"}
    assert printed(policy.default_limits) == {"cpu": "75m", "memory": "10Mi"}


@pytest.mark.parametrize("kind", ["Pod", "PersistentVolumeClaim", "example.com/Foo"])
def test_other_items_inject_nothing(kind):
    policy = limit_policy(f"{kind} default cpu=1 defaultRequest cpu=1")
    assert not policy.sets_defaults()
    assert patch_of(pod_json("a"), policy) == []


def test_a_later_container_item_overwrites_an_earlier_one_by_resource():
    line = "Container default cpu=1 memory=1Gi; Pod max cpu=9; Container default cpu=2 defaultRequest cpu=1"
    assert printed(limit_policy(line).default_limits) == {"cpu": "2", "memory": "1Gi"}
    assert printed(limit_policy(line).default_requests) == {"cpu": "1"}


# -- one resource of one container

TRUTH = """
-/-      | defaultRequest cpu=1 default cpu=2 | 1/2 | cpu request for container a; cpu limit for container a
-/-      | defaultRequest cpu=1               | 1/- | cpu request for container a
-/-      | default cpu=2                      | -/2 | cpu limit for container a
3/-      | defaultRequest cpu=1 default cpu=2 | 3/2 | cpu limit for container a
-/3      | defaultRequest cpu=1 default cpu=2 | 3/3 |
3/4      | defaultRequest cpu=1 default cpu=2 | 3/4 |
3/4      | defaultRequest cpu=1               | 3/4 |
0/-      | defaultRequest cpu=1 default cpu=2 | 0/2 | cpu limit for container a
-/0      | defaultRequest cpu=1 default cpu=2 | 0/0 |
1.500/-  | default cpu=2.500                  | 1.500/2.500 | cpu limit for container a
"""


@pytest.mark.parametrize(("own", "defaults", "result", "annotation"), table(TRUTH))
@pytest.mark.parametrize("role", ["", "init ", "sidecar "])
def test_a_container_gets_what_it_does_not_state(own, defaults, result, annotation, role):
    before = api_defaulted(pod_json(f"z: cpu 1/1, memory 1/1; {role}a: cpu {own}"))
    text = annotation.replace("container", "init container") if role else annotation
    expected = with_annotation(f"z: cpu 1/1, memory 1/1; {role}a: cpu {result}", text and PREFIX + text)
    policy = limit_policy(f"Container {defaults}")
    assert patched(before, policy) == expected


def test_a_limit_without_request_is_copied_by_the_api_so_no_default_request_applies():
    policy = limit_policy("Container defaultRequest cpu=100m memory=1Mi")
    before = api_defaulted(pod_json("a: cpu -/1"))
    assert patched(before, policy)["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "1Mi"},
        "limits": {"cpu": "1"},
    }


def test_an_injected_limit_may_be_smaller_than_the_request_and_an_injected_request_larger_than_the_limit():
    policy = limit_policy("Container default cpu=500m defaultRequest memory=2Gi")
    expected = with_annotation(
        "a: cpu 1/500m, memory 2Gi/1Gi", f"{PREFIX}memory request for container a; cpu limit for container a"
    )
    assert patched(pod_json("a: cpu 1/-, memory -/1Gi"), policy) == expected


def test_defaults_keep_their_spelling_and_names_with_a_slash_are_escaped():
    policy = limit_policy("Container default example.com/gpu=1 cpu=1.500 defaultRequest example.com/gpu=1 memory=01Gi")
    expected = with_annotation(
        "a: cpu 2/1.500, memory 01Gi/-, example.com/gpu 1/1; b: cpu -/1.500, memory 01Gi/-, example.com/gpu 1/1",
        f"{PREFIX}example.com/gpu, memory request for container a; cpu, example.com/gpu limit for container a; "
        "example.com/gpu, memory request for container b; cpu, example.com/gpu limit for container b",
    )
    before = pod_json("a: cpu 2/-; b")
    assert patched(before, policy) == expected
    paths = [operation["path"] for operation in patch_of(pod_json("a: cpu 2/1"), policy)]
    assert "/spec/containers/0/resources/limits/example.com~1gpu" in paths


# -- the whole pod


def test_the_annotation_lists_containers_then_init_containers_with_sorted_names():
    policy = limit_policy("Container default memory=1Gi cpu=1 ephemeral-storage=1Gi defaultRequest memory=1Gi cpu=1")
    result = patched(pod_json("b; a; init i; sidecar s"), policy)
    assert result["metadata"]["annotations"] == {
        ANNOTATION: "LimitRanger plugin set: cpu, memory request for container b; "
        "cpu, ephemeral-storage, memory limit for container b; cpu, memory request for container a; "
        "cpu, ephemeral-storage, memory limit for container a; cpu, memory request for init container i; "
        "cpu, ephemeral-storage, memory limit for init container i; cpu, memory request for init container s; "
        "cpu, ephemeral-storage, memory limit for init container s"
    }


FULL = "cpu, memory request for container foo-0; cpu, memory limit for container foo-0"
SCENARIOS = [
    pytest.param("foo-0", "foo-0: cpu 50m/75m, memory 5Mi/10Mi", FULL, id="nothing stated"),
    pytest.param(
        "foo-0: memory 512Mi/-; init foo-0: memory 512Mi/-",
        "foo-0: cpu 50m/75m, memory 512Mi/10Mi; init foo-0: cpu 50m/75m, memory 512Mi/10Mi",
        "cpu request for container foo-0; cpu, memory limit for container foo-0; "
        "cpu request for init container foo-0; cpu, memory limit for init container foo-0",
        id="a memory request each",
    ),
    pytest.param(
        "a: cpu 100m/200m, memory 512Mi/1G; init i: cpu 200m/400m, memory 1G/2G",
        "a: cpu 100m/200m, memory 512Mi/1G; init i: cpu 200m/400m, memory 1G/2G",
        "",
        id="all stated",
    ),
    pytest.param(
        "foo-0; init foo-0",
        "foo-0: cpu 50m/75m, memory 5Mi/10Mi; init foo-0: cpu 50m/75m, memory 5Mi/10Mi",
        f"{FULL}; {FULL.replace('container', 'init container')}",
        id="a container and an init container",
    ),
]


@pytest.mark.parametrize(("before", "after", "annotation"), SCENARIOS)
def test_the_defaults_of_a_limit_range_complete_the_pod(before, after, annotation):
    assert patched(pod_json(before), limit_policy(L)) == with_annotation(after, annotation and PREFIX + annotation)


def test_pod_level_resources_do_not_suppress_defaults_and_are_left_alone():
    policy = limit_policy("Container default cpu=1 defaultRequest cpu=1")
    text = f"{PREFIX}cpu request for container a; cpu limit for container a"
    line = "pod: cpu 2/4, memory 1Gi/1Gi; overhead: cpu=250m; ephemeral e; a"
    assert patched(pod_json(line), policy) == with_annotation(f"{line}: cpu 1/1", text)


@pytest.mark.parametrize(
    "resources",
    [None, {}, {"limits": {}}, {"limits": None, "requests": None}, {"requests": {}}, {"claims": [{"name": "c"}]}],
    ids=repr,
)
def test_empty_or_null_resources_are_completed_in_place(resources):
    document = pod_json("a")
    document["spec"]["containers"][0]["resources"] = resources
    result = patched(document, limit_policy("Container default cpu=2 memory=2Gi defaultRequest cpu=1"))
    expected = {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "1"}}
    kept = {"claims": [{"name": "c"}]} if resources and "claims" in resources else {}
    assert result["spec"]["containers"][0]["resources"] == expected | kept


def test_a_list_that_is_there_is_added_to_member_by_member():
    document = pod_json("a")
    document["spec"]["containers"][0]["resources"] = {"limits": {}}
    operations = patch_of(document, limit_policy("Container default cpu=2 memory=2Gi defaultRequest cpu=1"))
    paths = {operation["path"] for operation in operations if "resources" in operation["path"]}
    assert paths == {f"/spec/containers/0/resources/{end}" for end in ("limits/cpu", "limits/memory", "requests")}


def test_no_empty_maps_are_written():
    result = patched(pod_json("a; b: cpu 1/-"), limit_policy("Container default cpu=2"))
    assert [container["resources"] for container in result["spec"]["containers"]] == [
        {"limits": {"cpu": "2"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
    ]


@pytest.mark.parametrize(
    "annotations", [None, {}, {"a/b~c": "kept"}, {ANNOTATION: "of the user", "x": "kept"}], ids=repr
)
def test_the_annotation_is_added_to_those_there_are_and_replaces_one_of_its_name(annotations):
    document = pod_json("a", metadata={"annotations": annotations})
    result = patched(document, limit_policy("Container default cpu=2"))
    expected = {**(annotations or {}), ANNOTATION: f"{PREFIX}cpu limit for container a"}
    assert result["metadata"]["annotations"] == expected


def test_an_annotation_of_the_user_stays_where_nothing_is_set():
    document = pod_json("a: cpu 1/1", metadata={"annotations": {ANNOTATION: "of the user"}})
    assert patch_of(document, limit_policy("Container default cpu=2")) == []


def test_a_resize_gets_defaults_but_no_annotation():
    policy = limit_policy("Container default cpu=2")
    operations = patch_of(pod_json("a: cpu 1/-"), policy, kind="pods/resize", operation="UPDATE")
    assert operations == [{"op": "add", "path": "/spec/containers/0/resources/limits", "value": {"cpu": "2"}}]


# -- several LimitRanges


def test_the_first_limit_range_by_name_wins_and_later_ones_fill_gaps():
    first = limit_policy("Container default cpu=1", name="a")
    second = limit_policy("Container default cpu=2 memory=2Gi defaultRequest cpu=2", name="b")
    text = f"{PREFIX}cpu request for container c; memory limit for container c"
    expected = with_annotation("c: cpu 2/1, memory -/2Gi", text)
    assert patched(pod_json("c"), second, first) == expected


def test_only_the_last_limit_range_that_set_something_is_described():
    policies = [
        limit_policy("Container default cpu=1", name="a"),
        limit_policy("Container default memory=1Gi", name="b"),
        limit_policy("Container default cpu=9; Pod max cpu=1", name="c"),
    ]
    expected = with_annotation("x: cpu -/1, memory -/1Gi", f"{PREFIX}memory limit for container x")
    assert patched(pod_json("x"), *policies) == expected


def test_every_limit_range_that_set_something_is_named_in_a_warning():
    policies = [
        limit_policy("Container default cpu=1", name="a"),
        limit_policy("Container default memory=1Gi", name="b"),
    ]
    answer = Namespace(limits=policies).mutate(review("CREATE", "pods", pod_json("x: cpu 1/1; y")))
    assert answer.warnings == [
        'LimitRange "a" set defaults for container y',
        'LimitRange "b" set defaults for container x, container y',
    ]


# -- any pod

NAMES = ["cpu", "memory", "example.com/gpu", "hugepages-2Mi"]
lists = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["0", "1", "1.500", "2Gi"]))
sides = st.none() | st.just({}) | lists
resources_fields = st.none() | st.fixed_dictionaries({}, optional={"requests": sides, "limits": sides})
container_lists = st.lists(st.fixed_dictionaries({}, optional={"resources": resources_fields}), max_size=3)
annotation_maps = st.none() | st.dictionaries(st.sampled_from(["a", "b/c", ANNOTATION]), st.just("text"))


def line_of(default: dict[str, str], default_request: dict[str, str]) -> str:
    words = [" ".join(f"{k}={v}" for k, v in listed.items()) for listed in (default, default_request)]
    return f"Container default {words[0]} defaultRequest {words[1]}"


def stated(resources: Json | None, side: str) -> dict[str, str]:
    return (resources or {}).get(side) or {}


@given(container_lists, container_lists, st.lists(st.tuples(lists, lists), max_size=3), annotation_maps)
def test_a_patch_only_adds_what_is_missing_and_once(containers, inits, defaults, annotations):
    policies = [limit_policy(line_of(*pair), name=f"l{index}") for index, pair in enumerate(defaults)]
    spec = {
        "containers": [{"name": f"c{i}", **container} for i, container in enumerate(containers)],
        "initContainers": [{"name": f"i{i}", **container} for i, container in enumerate(inits)],
    }
    before = pod_json("", spec=spec, metadata={"annotations": annotations})
    operations = patch_of(before, *policies)
    for operation in operations:
        assert operation["op"] == "add"
        present = jsonpointer.resolve_pointer(before, operation["path"], None)
        assert present is None or operation["path"].endswith("limit-ranger")
    after = jsonpatch.apply_patch(before, operations)
    assert patch_of(after, *policies) == []
    for field in ("containers", "initContainers"):
        for old, new in zip(before["spec"][field], after["spec"][field], strict=True):
            for side, index in (("limits", 0), ("requests", 1)):
                own = stated(old.get("resources"), side)
                expected = copy.copy(own)
                for pair in defaults:
                    expected = {**pair[index], **expected}
                assert stated(new.get("resources"), side) == expected
            assert {k: v for k, v in new.items() if k != "resources"} == {
                k: v for k, v in old.items() if k != "resources"
            }
    assert bool(operations) == (ANNOTATION in (after["metadata"]["annotations"] or {}) and before != after)
