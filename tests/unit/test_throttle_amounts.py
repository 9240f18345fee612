"""Amounts: of a pod, summed, and against a limit. R1 to R10 and F1 to F10 are cases of kube-throttler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.quantity import Quantity
from admission.throttle.amounts import Amount, amount_of, reached, read_amount, total, write_amount
from admission.throttle.objects import decode_throttle
from tests.unit.helpers import encoded, pod, table
from tests.unit.throttles import amount, as_json, shown, throttle_json

# R7 to R9 are those of its newer line (row 28): what the scheduler sets aside.
REQUESTS = """
R1  | a: cpu 100m/-; b: cpu 200m/-, memory 1Gi/-                     | pod=1 cpu=300m memory=1Gi
R2  | a: cpu 200m/-; b: cpu 200m/-, memory 1Gi/-; init i: cpu 500m/-; init j: cpu 300m/-, memory 2Gi/- | pod=1 cpu=500m memory=2Gi
R3  | a: cpu 400m/-; init i: cpu 300m/-; overhead: cpu=50m memory=64Mi | pod=1 cpu=450m memory=64Mi
R4  | a: cpu -/1                                                     | pod=1
R5  | a                                                              | pod=1
R6  | a: cpu 0/-                                                     | pod=1 cpu=0
R7  | a: cpu 200m/-; sidecar s: cpu 100m/-; init i: cpu 300m/-       | pod=1 cpu=400m
R8  | a: cpu 250m/-; init i: cpu 300m/-; sidecar s: cpu 100m/-; overhead: cpu=10m | pod=1 cpu=360m
R9  | a: cpu 200m/-, memory 1Gi/-; pod: cpu 3/-; overhead: cpu=50m   | pod=1 cpu=3050m memory=1Gi
R10 | a: example.com/gpu 2/-, cpu 1500m/-; b: cpu 500m/-             | pod=1 example.com/gpu=2 cpu=2
"""  # noqa: E501


@pytest.mark.parametrize(("case", "line", "expected"), table(REQUESTS))
def test_a_pod_counts_as_one_and_as_what_the_scheduler_sets_aside_for_it(case, line, expected):
    assert shown(amount_of(pod(line))) == expected


SUMS = """
-                      | -                  | -
-                      | pod=1              | pod=1
pod=1                  | pod=2 cpu=1        | pod=3 cpu=1
cpu=1                  | memory=1Gi         | cpu=1 memory=1Gi
pod=0                  | -                  | pod=0
cpu=0                  | -                  | cpu=0
cpu=900m               | cpu=100m           | cpu=1
cpu=100m               | cpu=1              | cpu=1100m
memory=1Gi             | memory=512Mi       | memory=1536Mi
memory=1Gi             | memory=1G          | memory=2073741824
memory=0               | memory=1G          | memory=1G
"""


@pytest.mark.parametrize(("one", "other", "expected"), table(SUMS))
def test_what_no_amount_names_stays_absent_in_the_sum_and_the_first_decides_how_it_prints(one, other, expected):
    assert shown(total((amount(one), amount(other)))) == expected


FULL = "pod=3 cpu=1 memory=1Gi"
# limit | used | what is reached | what is not
FLAGS = f"""
F1  | -             | pod=3 cpu=9               |            | pod
F2  | {FULL}        | -                         |            | pod cpu memory
F3  | {FULL}        | pod=3 cpu=1               | pod cpu    | memory
F4  | {FULL}        | pod=2 cpu=999m memory=1024Mi | memory  | pod cpu
F6  | r1=10 r2=20   | r3=3000                   |            | pod r1 r2
F7  | pod=0         | -                         |            | pod
F8  | cpu=0         | pod=1 cpu=0               | cpu        | pod
F9  | cpu=200m      | cpu=0.2                   | cpu        | pod
F10 | pod=0         | pod=1                     | pod        |
-   | pod=0         | pod=0                     | pod        |
-   | cpu=0         | pod=1                     |            | pod cpu
-   | pod=-1        | pod=0                     | pod        |
-   | cpu=-1        | cpu=0                     | cpu        | pod
"""


@pytest.mark.parametrize(("case", "limit", "used", "full", "free"), table(FLAGS))
def test_a_limit_is_reached_when_as_much_is_used_and_absent_use_reaches_none(case, limit, used, full, free):
    flags = reached(amount(limit), amount(used))
    assert {"pod": flags.pods, **flags.requests} == {
        **dict.fromkeys(full.split(), True),
        **dict.fromkeys(free.split(), False),
    }


WRITTEN = {
    "-": {},
    "pod=0": {"resourceCounts": {"pod": 0}},
    "cpu=200m": {"resourceRequests": {"cpu": "200m"}},
    "pod=2 memory=1Gi": {"resourceCounts": {"pod": 2}, "resourceRequests": {"memory": "1Gi"}},
}


def threshold(written: object) -> Amount:
    document = {**throttle_json(), "spec": {"threshold": written}}
    spec = decode_throttle(encoded(document)).spec
    assert spec is not None
    return read_amount(spec.threshold)


@pytest.mark.parametrize("line", WRITTEN)
def test_an_amount_is_written_without_what_is_absent(line):
    assert as_json(write_amount(amount(line))) == WRITTEN[line]
    assert threshold(WRITTEN[line]) == amount(line)


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (None, "-"),
        ({"resourceCounts": None, "resourceRequests": None}, "-"),
        ({"resourceCounts": {}}, "pod=0"),  # F10
        ({"resourceCounts": {"pod": None}}, "pod=0"),
        ({"resourceRequests": {}}, "-"),
        ({"resourceRequests": {"cpu": 2}}, "cpu=2"),
        ({"resourceRequests": {"cpu": 0.5}}, "cpu=500m"),
    ],
)
def test_counts_without_a_number_are_a_limit_of_no_pods(written, line):
    assert threshold(written) == amount(line)


def test_a_threshold_is_not_rounded_to_thousandths_as_built_in_kinds_are():
    assert str(threshold({"resourceRequests": {"cpu": "1500u"}}).requests["cpu"]) == "1500u"


quantities = st.integers(0, 10**12).map(lambda number: Quantity(number * 10**6))
some_amounts = st.builds(
    Amount, st.one_of(st.none(), st.integers(0, 5)), st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities)
)


@given(st.lists(some_amounts, max_size=4), st.randoms())
def test_the_order_of_the_summands_does_not_change_the_sum(listed, random):
    shuffled = random.sample(listed, len(listed))
    assert total(listed) == total(shuffled) == total([total(listed[:2]), total(listed[2:])])


@given(some_amounts, some_amounts, some_amounts)
def test_more_use_never_frees_a_limit(limit, used, more):
    before, after = reached(limit, used), reached(limit, total((used, more)))
    assert after.pods >= before.pods
    assert all(after.requests[name] >= flag for name, flag in before.requests.items())
