from __future__ import annotations

import pytest

from admission.errors import Denied
from admission.limits import LimitPolicy, check_pod, check_volume_claim
from admission.limits.bounds import aggregate
from admission.objects import Pod, VolumeClaim, decode_pod, decode_volume_claim
from tests.unit.helpers import api_defaulted, encoded, limit_policy, pod, pod_json, table, texts


def claim(requests: str, limits: str = "") -> VolumeClaim:
    resources = {"requests": texts(requests), "limits": texts(limits)}
    return decode_volume_claim(encoded({"metadata": {"name": "c"}, "spec": {"resources": resources}}))


def verdict(judged: Pod | VolumeClaim, *policies: LimitPolicy) -> str:
    """`allow`, or the text of the refusal."""
    try:
        if isinstance(judged, Pod):
            check_pod(judged, policies)
        else:
            check_volume_claim(judged, policies)
    except Denied as denied:
        return denied.message
    return "allow"


# -- minimum, maximum and ratio on pods as they are

ALLOWED_OR_NOT = """
Container min cpu=50m          | a: cpu 100m/-                                    | allow
Container min cpu=50m          | a: cpu 100m/200m                                 | allow
Container min cpu=50m          | a: cpu 40m/-                                     | reject
Container min cpu=50m          | a: cpu 40m/200m                                  | reject
Container min cpu=50m          | a                                                | reject
Container min memory=50Mi      | a: memory 60Mi/-                                 | allow
Container min memory=50Mi      | a: memory 60Mi/100Mi                             | allow
Container min memory=50Mi      | a: memory 40Mi/-                                 | reject
Container min memory=50Mi      | a: memory 40Mi/100Mi                             | reject
Container min memory=50Mi      | a                                                | reject
Container max cpu=2            | a: cpu 500m/1                                    | allow
Container max cpu=2            | a: cpu -/1                                       | allow
Container max cpu=2            | a: cpu 500m/2500m                                | reject
Container max cpu=2            | a: cpu -/2500m                                   | reject
Container max cpu=2            | a                                                | reject
Container max memory=1Gi       | a: memory 250Mi/500Mi                            | allow
Container max memory=1Gi       | a: memory -/500Mi                                | allow
Container max memory=1Gi       | a: memory 250Mi/2Gi                              | reject
Container max memory=1Gi       | a: memory -/2Gi                                  | reject
Container max memory=1Gi       | a                                                | reject
Container ratio cpu=1.5        | a: cpu 500m/750m                                 | allow
Container ratio cpu=1          | a: cpu 1250m/2500m                               | reject
Pod min cpu=100m               | a*2: cpu 75m/-                                   | allow
Pod min cpu=100m               | a*2: cpu 75m/200m                                | allow
Pod min cpu=100m               | a: cpu 75m/-                                     | reject
Pod min cpu=100m               | a: cpu 75m/200m                                  | reject
Pod min memory=100Mi           | a*2: memory 60Mi/-                               | allow
Pod min memory=100Mi           | a*2: memory 60Mi/100Mi                           | allow
Pod min memory=100Mi           | a: memory 60Mi/-                                 | reject
Pod min memory=100Mi           | a: memory 60Mi/100Mi                             | reject
Pod min memory=100Mi           | a*2: memory 60Mi/-; init i: memory 100Mi/-       | allow
Pod min memory=100Mi           | a*2: memory 60Mi/100Mi; init i: memory 80Mi/100Mi | allow
Pod max cpu=2                  | a*2: cpu 500m/1                                  | allow
Pod max cpu=2                  | a*2: cpu -/1                                     | allow
Pod max cpu=2                  | a*3: cpu 500m/1                                  | reject
Pod max cpu=2                  | a*3: cpu -/1                                     | reject
Pod max cpu=2                  | a*2: cpu 500m/1; init i: cpu 1/2; init j: cpu 1/1 | allow
Pod max cpu=2                  | a*2: cpu -/1; init i: cpu -/2; init j: cpu -/2   | allow
Pod max cpu=2                  | a: cpu 1/1500m; sidecar s: cpu 1500m/-           | reject
Pod max memory=1Gi             | a*2: memory 250Mi/500Mi                          | allow
Pod max memory=1Gi             | a*2: memory -/500Mi                              | allow
Pod max memory=1Gi             | a*3: memory 250Mi/500Mi                          | reject
Pod max memory=1Gi             | a*3: memory -/500Mi                              | reject
Pod max memory=1Gi             | a: memory -/500Mi; init i: memory -/1.5Gi        | reject
Pod max memory=2Gi ratio memory=1.5 | a*3: memory 300Mi/450Mi                     | allow
Pod max memory=2Gi ratio memory=1.5 | a*3: memory 250Mi/500Mi                     | reject
"""

STORAGE = """
Container min E=50Mi           | a: E 60Mi/-                                      | allow
Container min E=50Mi           | a*2: E 60Mi/-                                    | allow
Container min E=50Mi           | a: E 60Mi/100Mi                                  | allow
Container min E=50Mi           | a*2: E 60Mi/100Mi                                | allow
Container min E=50Mi           | a: E 40Mi/-                                      | reject
Container min E=50Mi           | a*2: E 40Mi/-                                    | reject
Container min E=50Mi           | a: E 40Mi/100Mi                                  | reject
Container min E=50Mi           | a*2: E 40Mi/100Mi                                | reject
Container min E=50Mi           | a                                                | reject
Container min E=50Mi           | a*2                                              | reject
Container max E=1Gi            | a: E 250Mi/500Mi                                 | allow
Container max E=1Gi            | a: E -/500Mi                                     | allow
Container max E=600Mi          | a*2: E 250Mi/500Mi                               | allow
Container max E=600Mi          | a*2: E -/500Mi                                   | allow
Container max E=1Gi            | a: E 250Mi/2Gi                                   | reject
Container max E=1Gi            | a*2: E 250Mi/2Gi                                 | reject
Container max E=1Gi            | a: E -/2Gi                                       | reject
Container max E=1Gi            | a*2: E -/2Gi                                     | reject
Container max E=1Gi            | a                                                | reject
Container max E=1Gi            | a*2                                              | reject
Pod min E=100Mi                | a*2: E 60Mi/-                                    | allow
Pod min E=100Mi                | a*2: E 60Mi/100Mi                                | allow
Pod min E=100Mi                | a*2: E 60Mi/-; init i: E 100Mi/-                 | allow
Pod min E=100Mi                | a*2: E 60Mi/100Mi; init i: E 80Mi/100Mi          | allow
Pod min E=100Mi                | a: E 60Mi/-                                      | reject
Pod min E=100Mi                | a: E 60Mi/100Mi                                  | reject
Pod max E=1Gi                  | a*2: E 250Mi/500Mi                               | allow
Pod max E=1Gi                  | a*2: E -/500Mi                                   | allow
Pod max E=1Gi                  | a*3: E 250Mi/500Mi                               | reject
Pod max E=1Gi                  | a*3: E -/500Mi                                   | reject
Pod max E=1Gi                  | a: E -/500Mi; init i: E -/1.5Gi                  | reject
Pod max E=2Gi ratio E=1.5      | a*3: E 300Mi/450Mi                               | allow
Pod max E=2Gi ratio E=1.5      | a*3: E 250Mi/500Mi                               | reject
""".replace("E=", "ephemeral-storage=").replace("E ", "ephemeral-storage ")

POD_LEVEL = """
max cpu=400m memory=200Mi | a*3: cpu 100m/200m, memory 60Mi/100Mi; pod: cpu 200m/400m, memory 180Mi/200Mi | allow
max cpu=400m memory=200Mi | a*3: cpu 100m/200m, memory 60Mi/100Mi; pod: cpu 200m/500m, memory 180Mi/280Mi | reject
min cpu=160m memory=200Mi | a*3: cpu 50m/-, memory 60Mi/-; pod: cpu 160m/-, memory 200Mi/-               | allow
min cpu=160m memory=200Mi | a*3: cpu 50m/-, memory 60Mi/-; pod: cpu 100m/-, memory 200Mi/-               | reject
max cpu=160m memory=200Mi | a*3: cpu -/50m, memory -/60Mi; pod: cpu -/160m, memory -/200Mi               | allow
max cpu=160m memory=200Mi | a*3: cpu -/50m, memory -/60Mi; pod: cpu -/160m, memory -/300Mi               | reject
"""
SCENARIOS = table(ALLOWED_OR_NOT) + table(STORAGE) + [(f"Pod {item}", *rest) for item, *rest in table(POD_LEVEL)]


@pytest.mark.parametrize(("bounds", "line", "outcome"), SCENARIOS)
def test_bounds_hold_for_containers_and_for_pod_totals(bounds, line, outcome):
    found = verdict(pod(line), limit_policy(bounds))
    assert ("allow" if found == "allow" else "reject") == outcome


# -- texts; the pods are as the API hands them out

TEXTS = """
Container min cpu=50m  | a: cpu 60m/40m | minimum cpu usage per Container is 50m, but limit is 40m
Container min cpu=100m | a: cpu 10m/50m | minimum cpu usage per Container is 100m, but request is 10m
Container max cpu=100m | a: cpu 1/2     | maximum cpu usage per Container is 100m, but limit is 2
Container max memory=1Gi | a: memory 2Gi/1Gi | maximum memory usage per Container is 1Gi, but request is 2Gi
Container max memory=1Gi | a: memory -/1.5Gi | maximum memory usage per Container is 1Gi, but limit is 1536Mi
Container ratio cpu=2  | a              | cpu max limit to request ratio per Container is 2, but no request is specified or request is 0
Container ratio cpu=2  | a: cpu 0/1     | cpu max limit to request ratio per Container is 2, but no request is specified or request is 0
Container ratio cpu=2  | a: cpu 1/-     | cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0
Container ratio cpu=2  | a: cpu 1/0     | cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0
Container ratio cpu=1.5 | a: cpu 300m/1 | cpu max limit to request ratio per Container is 1500m, but provided ratio is 3.333333
Container ratio cpu=3  | a: cpu 333m/999m | allow
Container ratio cpu=1.1 | a: cpu 100m/110m | allow
Container ratio cpu=1.15 | a: cpu 20m/23m | allow
Container ratio cpu=2007m | a: cpu 1/2007m | cpu max limit to request ratio per Container is 2007m, but provided ratio is 2.007000
Container ratio memory=2 | a: memory 100Mi/1Gi | memory max limit to request ratio per Container is 2, but provided ratio is 10.240000
Container ratio memory=2 | a: memory 1/9223372036854776 | memory max limit to request ratio per Container is 2, but provided ratio is 9223372036854776.000000
Container ratio memory=9223372036854776 | a: memory 1/9223372036854776 | allow
Container ratio memory=9223372036854776 | a: memory 1/18446744073709552 | memory max limit to request ratio per Container is 9223372036854776, but provided ratio is 18446744073709552.000000
Container min cpu=0    | a              | minimum cpu usage per Container is 0.  No request is specified
Container min cpu=0    | a: cpu 0/-     | allow
Container max cpu=0    | a              | maximum cpu usage per Container is 0.  No limit is specified
Container max cpu=0    | a: cpu -/0     | allow
Container min cpu=50m  | a; b           | minimum cpu usage per Container is 50m.  No request is specified
Container min cpu=100m | a; pod: cpu 500m/- | minimum cpu usage per Container is 100m.  No request is specified
Pod min cpu=1          | a; pod: cpu 500m/- | minimum cpu usage per Pod is 1, but request is 500m
Pod max cpu=1          | a; pod: cpu 500m/- | maximum cpu usage per Pod is 1.  No limit is specified
Pod max cpu=1 memory=1Gi | a: cpu -/100m, memory -/1Gi; pod: cpu 100m/2, memory 1Gi/- | maximum cpu usage per Pod is 1, but limit is 2
Pod max hugepages-2Mi=4Mi | a: hugepages-2Mi -/2Mi; pod: hugepages-2Mi 10Mi/10Mi | allow
Pod max cpu=1          | a: cpu -/1; overhead: cpu=5 | allow
Pod ratio cpu=2        | a: cpu 100m/500m; b: cpu 1/1 | allow
Container max cpu=100m | a: cpu -/100100u | maximum cpu usage per Container is 100m, but limit is 101m
Container max memory=1Gi | a: memory -/100E | allow
Container max memory=1Gi | a: memory -/8Ei | maximum memory usage per Container is 1Gi, but limit is 9223372036854775807
Container max memory=9223372036854776 | a: memory -/9223372036854776500m | maximum memory usage per Container is 9223372036854776, but limit is 9223372036854776500m
Container max memory=9223372036854776 | a: memory -/9223372036854775500m | allow
Container max memory=9223372036854775 | a: memory -/9223372036854774500m | allow
example.com/Foo max cpu=100m | a       | allow
PersistentVolumeClaim max storage=1Gi min cpu=1 | a | allow
Container max cpu=1    | a: cpu -/1; ephemeral e: cpu -/5 | allow
Pod max cpu=1          | a: cpu -/1; ephemeral e: cpu -/5 | allow
Container min cpu=-1   | a: cpu 0/-    | allow
Container max cpu=-1   | a: cpu -/0    | maximum cpu usage per Container is -1, but limit is 0
Pod max memory=1Gi     | a: memory -/1Gi; b: memory -/500M | maximum memory usage per Pod is 1Gi, but limit is 1573741824
"""  # noqa: E501

SEVERAL = [
    (
        "Container min cpu=50m",
        "a; b: cpu 10m/-",
        [
            "minimum cpu usage per Container is 50m.  No request is specified",
            "minimum cpu usage per Container is 50m, but request is 10m",
        ],
    ),
    (
        "Container max nvidia.com/gpu=1",
        "a: nvidia.com/gpu -/2; b",
        [
            "maximum nvidia.com/gpu usage per Container is 1, but limit is 2",
            "maximum nvidia.com/gpu usage per Container is 1.  No limit is specified",
        ],
    ),
    (
        "Container max cpu=1.500 memory=1.5Gi",
        "a: cpu -/2.50, memory -/2000000000",
        [
            "maximum cpu usage per Container is 1.500, but limit is 2500m",
            "maximum memory usage per Container is 1536Mi, but limit is 2G",
        ],
    ),
    (
        "Pod min cpu=200m; Container min cpu=100m",
        "a: cpu 50m/-",
        [
            "minimum cpu usage per Pod is 200m, but request is 50m",
            "minimum cpu usage per Container is 100m, but request is 50m",
        ],
    ),
    (
        "Pod max cpu=1; Container max cpu=500m",
        "a: cpu 500m/600m; b: cpu 500m/2; sidecar s: cpu 1m/1m",
        [
            "maximum cpu usage per Pod is 1, but limit is 2601m",
            "maximum cpu usage per Container is 500m, but limit is 600m",
            "maximum cpu usage per Container is 500m, but limit is 2",
        ],
    ),
    (
        "Container min memory=2Gi cpu=50m max memory=1Mi cpu=10m ratio cpu=1",
        "a: cpu 40m/80m, memory 1Gi/1Gi",
        [
            "minimum cpu usage per Container is 50m, but request is 40m",
            "minimum memory usage per Container is 2Gi, but request is 1Gi",
            "maximum cpu usage per Container is 10m, but limit is 80m",
            "maximum memory usage per Container is 1Mi, but limit is 1Gi",
            "cpu max limit to request ratio per Container is 1, but provided ratio is 2.000000",
        ],
    ),
    (
        "Container min cpu=50m",
        "b: cpu 2m/-; a: cpu 1m/-; sidecar s: cpu 3m/-; init i: cpu 4m/-",
        [
            "minimum cpu usage per Container is 50m, but request is 2m",
            "minimum cpu usage per Container is 50m, but request is 1m",
            "minimum cpu usage per Container is 50m, but request is 3m",
            "minimum cpu usage per Container is 50m, but request is 4m",
        ],
    ),
    (
        "Container min cpu=50m max cpu=1 ratio cpu=2",
        "a",
        [
            "minimum cpu usage per Container is 50m.  No request is specified",
            "maximum cpu usage per Container is 1.  No limit is specified",
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ],
    ),
    (
        "Container max cpu=1; Container min cpu=1",
        "a: cpu 500m/2",
        [
            "maximum cpu usage per Container is 1, but limit is 2",
            "minimum cpu usage per Container is 1, but request is 500m",
        ],
    ),
]


@pytest.mark.parametrize(("bounds", "line", "text"), table(TEXTS))
def test_a_broken_bound_is_told_in_the_words_of_the_built_in_plugin(bounds, line, text):
    judged = decode_pod(encoded(api_defaulted(pod_json(line))))
    assert verdict(judged, limit_policy(bounds)) == text


@pytest.mark.parametrize(("bounds", "line", "errors"), SEVERAL)
def test_all_broken_bounds_of_a_limit_range_are_told_together_items_and_containers_in_order(bounds, line, errors):
    judged = decode_pod(encoded(api_defaulted(pod_json(line))))
    assert verdict(judged, limit_policy(bounds)) == f"[{', '.join(errors)}]"


def test_a_broken_bound_counts_as_a_matter_of_limit_ranges():
    with pytest.raises(Denied) as caught:
        check_pod(pod("a"), [limit_policy("Container min cpu=1")])
    assert caught.value.reason == "limit-range"


# -- volume claims

CLAIMS = """
min storage=1Gi                      | storage=1Gi   | allow
max storage=1Gi                      | storage=1Gi   | allow
max cpu=1; Pod max storage=1Gi       | cpu=1 storage=100Gi | allow
min storage=1Gi max storage=10Gi     | storage=5Gi   | allow
min storage=1Gi                      | storage=500Mi | minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi
min storage=1Gi max storage=1Gi      | storage=100Gi | maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 100Gi
max storage=10Gi                     | storage=11Gi  | maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 11Gi
min storage=1Gi max storage=10Gi     |               | [minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, maximum storage usage per PersistentVolumeClaim is 10Gi.  No request is specified]
max storage=1Gi cpu=1                | storage=1Gi   | maximum cpu usage per PersistentVolumeClaim is 1.  No request is specified
max storage=1Gi ratio storage=1      | storage=1Gi   | allow
max storage=1.500                    | storage=1.500001 | maximum storage usage per PersistentVolumeClaim is 1.500, but request is 1501m
min storage=9223372036854776         | storage=9223372036854775500m | allow
"""  # noqa: E501


@pytest.mark.parametrize(("bounds", "requests", "text"), table(CLAIMS))
def test_a_claim_is_held_to_its_bounds_by_what_it_requests(bounds, requests, text):
    assert verdict(claim(requests), limit_policy(f"PersistentVolumeClaim {bounds}")) == text


def test_without_bounds_a_claim_may_be_of_any_size():
    assert verdict(claim("storage=100Gi"), limit_policy("PersistentVolumeClaim")) == "allow"


def test_the_limits_of_a_claim_do_not_matter():
    bounds = limit_policy("PersistentVolumeClaim min storage=1Gi max storage=10Gi")
    assert verdict(claim("storage=5Gi", "storage=1Ti"), bounds) == "allow"
    assert verdict(claim("storage=5Gi", "storage=1Mi"), bounds) == "allow"


@pytest.mark.parametrize("kind", ["Container", "Pod", "example.com/Foo"])
def test_bounds_of_other_kinds_do_not_concern_claims(kind):
    assert verdict(claim("storage=5Gi"), limit_policy(f"{kind} min cpu=1 storage=9Gi max storage=1Gi")) == "allow"


def test_a_claim_without_spec_requests_nothing():
    text = "minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified"
    empty = decode_volume_claim(b'{"metadata": {"name": "c"}, "spec": null}')
    assert verdict(empty, limit_policy("PersistentVolumeClaim min storage=1Gi")) == text


# -- several LimitRanges


def test_the_errors_of_the_first_broken_limit_range_alone_are_reported():
    policies = [
        limit_policy("Container max cpu=4", name="a"),
        limit_policy("Container max cpu=2; Pod max cpu=1", name="b"),
        limit_policy("Container max cpu=1", name="c"),
    ]
    assert verdict(pod("x: cpu 3/3"), *policies) == (
        "[maximum cpu usage per Container is 2, but limit is 3, maximum cpu usage per Pod is 1, but limit is 3]"
    )


def test_a_pod_must_satisfy_every_limit_range():
    policies = [limit_policy("Container max cpu=4", name="a"), limit_policy("Container min cpu=2", name="b")]
    assert verdict(pod("x: cpu 3/3"), *policies) == "allow"
    assert verdict(pod("x: cpu 1/1"), *policies) == "minimum cpu usage per Container is 2, but request is 1"
    assert verdict(claim("storage=1Gi"), *policies) == "allow"


def test_no_limit_ranges_allow_everything():
    assert verdict(pod("a: cpu 100/1")) == "allow"
    assert verdict(claim("")) == "allow"


# -- how errors become one text


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        (["a"], "a"),
        (["a", "a"], "a"),
        (["a", "b"], "[a, b]"),
        (["b", "a", "b", "a", "c"], "[b, a, c]"),
    ],
)
def test_errors_are_listed_once_each_and_in_brackets_where_several_are_left(errors, text):
    assert aggregate(errors) == text


# -- what people are told beside


def hints(line: str, bounds: str, **parts: object) -> list[str]:
    with pytest.raises(Denied) as caught:
        check_pod(pod(line, **parts), [limit_policy(bounds, name="team")])
    return list(caught.value.hints)


def test_a_hint_names_the_container_and_the_limit_range():
    found = hints("a: cpu 1/1; init b: cpu 3/3", "Container max cpu=2")
    assert found == ['init container "b": maximum cpu usage per Container is 2, but limit is 3 (LimitRange "team")']
    assert hints("a: cpu 3/3", "Pod max cpu=2")[0].startswith("the pod: maximum cpu usage per Pod is 2")


def test_a_hint_says_where_the_default_of_a_limit_range_breaks_a_bound():
    bounds = "Container default cpu=3 max cpu=2"
    defaulted = {"annotations": {"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu limit for container a"}}
    assert any("is the default of LimitRange" in hint for hint in hints("a: cpu 3/3", bounds, metadata=defaulted))
    assert not any("is the default of LimitRange" in hint for hint in hints("a: cpu 3/3", bounds))
