"""The check of a pod. C1 to C37 are cases of kube-throttler; those that are decided anew name the row that says so.

What is anew throughout: limits and flags are of the moment, never those of a stored status (row 24), and both kinds
follow one rule (row 8). So each case is played for both, and `used` is what is counted and reserved together.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.quantity import Quantity
from admission.throttle.amounts import NOTHING, Amount, amount_of, reached, total
from admission.throttle.check import Outcome, Shortage, ThrottleState, Verdict, check, judge
from admission.throttle.index import ThrottleIndex
from admission.throttle.policy import ThrottleKey, compile_throttle
from admission.throttle.texts import reasons
from tests.unit.helpers import pod, table
from tests.unit.throttles import T1, THROTTLER, amount, policy, read_throttle, throttle_json

KINDS = (T1, ThrottleKey("", "ct1"))
LIMIT = "pod=2 cpu=1"

# case | limit | used | reserved | pod | outcome
CASES = f"""
C1, row 24  | {LIMIT}    | -                  | -             | cpu=500m   | not-throttled
C2          | {LIMIT}    | pod=1 cpu=500m     | -             | cpu=500m   | not-throttled
C3          | {LIMIT}    | pod=1 cpu=500m     | -             | cpu=501m   | insufficient
C4          | {LIMIT}    | pod=1 cpu=900m     | -             | cpu=500m   | insufficient
C5          | {LIMIT}    | pod=1 cpu=1        | -             | cpu=500m   | active
C6          | {LIMIT}    | pod=2 cpu=200m     | -             | cpu=100m   | active
C7          | {LIMIT}    | -                  | -             | cpu=1.1    | pod-requests-exceeds-threshold
C8          | {LIMIT}    | pod=1 cpu=1        | -             | memory=1Gi | not-throttled
C9          | {LIMIT}    | pod=1 cpu=1        | -             | cpu=0      | not-throttled
C10         | {LIMIT}    | pod=2 cpu=100m     | -             |            | active
C11         | {LIMIT}    | pod=2 cpu=1        | -             | cpu=1100m  | pod-requests-exceeds-threshold
C12         | {LIMIT}    | -                  | -             | cpu=1      | not-throttled
C13         | pod=0      | -                  | -             |            | pod-requests-exceeds-threshold
C14         | pod=1      | -                  | -             |            | not-throttled
C15, row 8  | {LIMIT}    | pod=0 cpu=500m     | pod=1 cpu=500m | cpu=100m  | active
C16, row 8  | {LIMIT}    | pod=1 cpu=100m     | pod=1 cpu=100m | cpu=100m  | active
C17         | {LIMIT}    | pod=1 cpu=900m     | cpu=200m      | cpu=100m   | active
C20         | cpu=700m   | cpu=200m           | -             | cpu=300m   | not-throttled
C21         | cpu=700m   | pod=3 cpu=500m     | -             | cpu=300m   | insufficient
C22         | {LIMIT}    | pod=1 cpu=100m     | -             | gpu=64     | not-throttled
C23         | -          | pod=100 cpu=100    | -             | cpu=64     | not-throttled
C24         | cpu=1 memory=4Gi | cpu=3 memory=1Gi | -         | memory=1Gi | not-throttled
C25         | cpu=1      | cpu=2              | -             | cpu=1m     | active
C26         | cpu=0      | -                  | -             | cpu=1m     | pod-requests-exceeds-threshold
C27         | cpu=0      | -                  | -             | memory=1Mi | not-throttled
C28         | pod=-1     | -                  | -             |            | pod-requests-exceeds-threshold
C29, row 8  | {LIMIT}    | -                  | pod=2 cpu=1   | cpu=500m   | active
C30         | cpu=1 memory=1Gi | cpu=900m memory=1Gi | -      | cpu=200m memory=1Mi | active
C31, row 8  | {LIMIT}    | pod=1 cpu=500m     | -             | cpu=500m   | not-throttled
C32, row 8  | {LIMIT}    | pod=0 cpu=500m     | pod=1 cpu=500m | cpu=100m  | active
C34, row 29 | pod=4 cpu=4 | pod=2 cpu=200m    | -             | cpu=100m   | not-throttled
C35         | pod=4 cpu=4 | pod=2 cpu=200m    | -             | cpu=100m   | not-throttled
-           | cpu=0      | pod=1 cpu=0        | -             | cpu=0      | not-throttled
-           | cpu=1500u  | -                  | -             | cpu=2m     | pod-requests-exceeds-threshold
"""


@pytest.mark.parametrize(("case", "limit", "used", "reserved", "asked", "outcome"), table(CASES))
def test_a_pod_passes_where_all_that_it_requests_fits_and_else_the_gravest_outcome_is_said(
    case, limit, used, reserved, asked, outcome
):
    together = total((amount(used), amount(reserved)))
    for key in KINDS:
        state = ThrottleState(policy(limit, "all", key=key), together)
        (verdict,) = check(amount(f"pod=1 {asked}"), [state], now=0)
        assert (verdict.key, verdict.outcome) == (key, outcome)
        assert verdict.passes is (outcome == "not-throttled")


def test_c31_c32_a_limit_that_is_filled_exactly_is_full_for_the_next_pod():
    used = amount("pod=2 cpu=1")
    assert reached(amount(LIMIT), used) == (True, {"cpu": True})
    assert judge(amount("pod=1"), T1, amount(LIMIT), used).outcome is Outcome.ACTIVE


def test_f5_use_that_is_equal_to_the_limit_is_not_beyond_it():
    full = amount("pod=3 cpu=1 memory=1Gi")
    assert judge(full, T1, full, NOTHING).outcome is Outcome.NOT_THROTTLED


def test_c18_rows_24_and_25_what_is_in_force_now_decides_and_the_override_keeps_the_number_of_pods():
    one = policy(LIMIT, "all", [("2019-02-01T00:00:00Z", "", "cpu=5")])
    asked, used = amount("pod=1 cpu=3"), amount("pod=9 cpu=1")
    outcomes = [check(asked, [ThrottleState(one, used)], now)[0].outcome for now in (0, 1_600_000_000 * 10**9)]
    assert outcomes == [Outcome.EXCEEDS, Outcome.ACTIVE]
    few = ThrottleState(one, amount("pod=1 cpu=1"))
    assert check(asked, [few], 1_600_000_000 * 10**9)[0].passes


def test_c19_row_24_a_raised_limit_counts_before_any_status_is_written():
    raised = throttle_json("cpu=700m", "all")
    raised["status"] = {
        "calculatedThreshold": {
            "threshold": {"resourceRequests": {"cpu": "200m"}},
            "calculatedAt": "2024-01-01T00:00:00Z",
        },
        "throttled": {"resourceCounts": {"pod": False}, "resourceRequests": {"cpu": True}},
        "used": {"resourceRequests": {"cpu": "200m"}},
    }
    state = ThrottleState(compile_throttle(read_throttle(raised)), amount("cpu=200m"))
    assert check(amount("pod=1 cpu=100m"), [state], 0)[0].passes


def test_c33_of_21_pods_at_once_20_fit_and_the_last_is_told_that_the_limit_is_reached():
    one, used, outcomes = policy("cpu=1", "all"), NOTHING, []
    for _ in range(21):
        (verdict,) = check(amount("pod=1 cpu=50m"), [ThrottleState(one, used)], 0)
        outcomes.append(verdict.outcome)
        if verdict.passes:
            used = total((used, amount("pod=1 cpu=50m")))
    assert outcomes == [Outcome.NOT_THROTTLED] * 20 + [Outcome.ACTIVE]


def test_c36_where_a_throttle_cannot_be_evaluated_there_is_no_outcome_but_its_name():
    broken = policy("pod=0", "a Bogus")
    found = ThrottleIndex([broken], THROTTLER).affecting("default", {}, {})
    assert [one.key for one, _ in found.broken] == [T1]
    assert check(amount("pod=1"), [ThrottleState(one, NOTHING) for one in found.policies], 0) == []


def test_c37_a_pod_of_three_throttles_is_kept_out_by_two_of_them():
    states = [
        ThrottleState(policy("cpu=1", "all", key=ThrottleKey("default", name)), amount(used))
        for name, used in (("a", "-"), ("b", "cpu=1"), ("c", "cpu=900m"))
    ]
    verdicts = check(amount("pod=1 cpu=200m"), states, 0)
    assert [verdict.outcome for verdict in verdicts] == ["not-throttled", "active", "insufficient"]
    assert reasons(verdicts) == ["throttles[active]=(default,b)", "throttles[insufficient]=(default,c)"]


def test_a_pod_without_throttles_passes():
    assert check(amount("pod=1 cpu=1"), [], 0) == []


SHORTAGES = """
pod=1 cpu=300m           | cpu=200m                 | cpu=200m     | cpu 300m 200m 200m 100m
pod=1 cpu=300m memory=1  | cpu=200m memory=2        | memory=2     | cpu 300m 200m 0 100m
pod=1 cpu=100m           | cpu=200m                 | cpu=200m     | cpu 100m 200m 200m 100m
pod=1 cpu=300m           | pod=5 cpu=700m           | pod=3 cpu=500m | cpu 300m 700m 500m 100m
pod=1 cpu=300m           | pod=5 cpu=700m           | pod=7 cpu=500m | pod 1 5 7 3; cpu 300m 700m 500m 100m
pod=1 cpu=2 memory=2Gi   | cpu=4 memory=4Gi         | cpu=4 memory=3Gi | cpu 2 4 4 2; memory 2Gi 4Gi 3Gi 1Gi
pod=1 cpu=1              | pod=0                    | -            | pod 1 0 0 1
pod=1 memory=1500M       | memory=1Gi               | -            | memory 1500M 1Gi 0 426258176
"""


@pytest.mark.parametrize(("asked", "limit", "used", "expected"), table(SHORTAGES))
def test_every_resource_that_is_short_is_named_with_what_is_missing(asked, limit, used, expected):
    verdict = judge(amount(asked), T1, amount(limit), amount(used))
    assert "; ".join(" ".join(map(str, shortage)) for shortage in verdict.shortages) == expected


def test_the_story_of_the_throttle_t1():
    """A limit of 5 pods, cpu 200m, memory 1Gi, later of cpu 700m."""
    t1, raised = policy("pod=5 cpu=200m memory=1Gi", "throttle=t1"), policy("pod=5 cpu=700m memory=1Gi", "throttle=t1")
    pods = {
        name: amount_of(pod(f"a: {requests}"))
        for name, requests in (("pod1", "cpu 200m/-"), ("pod2", "cpu 300m/-"), ("pod1m", "memory 512Mi/-"))
    }

    def said(asked: Amount, limit: Amount, used: Amount) -> str:
        verdict = judge(asked, T1, limit, used)
        return ", ".join(reasons([verdict])) or "runs"

    assert said(pods["pod1"], t1.limit(0), NOTHING) == "runs"
    used = pods["pod1"]
    assert reached(t1.limit(0), used) == (False, {"cpu": True, "memory": False})
    assert said(pods["pod2"], t1.limit(0), used) == "throttles[pod-requests-exceeds-threshold]=(default,t1)"
    assert said(amount("pod=1 cpu=100m"), t1.limit(0), used) == "throttles[active]=(default,t1)"
    assert said(pods["pod1m"], t1.limit(0), used) == "runs"
    used = total((used, pods["pod1m"]))
    assert used == amount("pod=2 cpu=200m memory=512Mi")
    assert said(pods["pod2"], raised.limit(0), used) == "runs"
    used = total((used, pods["pod2"]))
    assert used == amount("pod=3 cpu=500m memory=512Mi")
    assert reached(raised.limit(0), used) == (False, {"cpu": False, "memory": False})
    verdict = judge(amount("pod=1 cpu=300m"), T1, raised.limit(0), used)
    assert verdict == Verdict(T1, Outcome.INSUFFICIENT, (shortage("cpu", "300m", "700m", "500m", "100m"),))


def shortage(resource: str, *quantities: str) -> Shortage:
    return Shortage(resource, *map(Quantity.parse, quantities))


# -- any pod, any limit

quantities = st.integers(0, 6).map(lambda number: Quantity(number * 10**8))
requests = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), quantities)
some_limits = st.builds(Amount, st.one_of(st.none(), st.integers(-1, 4)), requests)
some_use = st.builds(Amount, st.one_of(st.none(), st.integers(0, 4)), requests)
some_pods = st.builds(Amount, st.just(1), requests)


@given(some_pods, some_limits, some_use)
def test_a_pod_passes_exactly_where_what_it_asks_for_stays_within_the_limit(asked, limit, used):
    together = total((used, asked))
    fits = (limit.pods is None or (together.pods or 0) <= limit.pods) and all(
        together.requests[name] <= limit.requests[name]
        for name, request in asked.requests.items()
        if request and name in limit.requests
    )
    verdict = judge(asked, T1, limit, used)
    assert verdict.passes is fits
    assert bool(verdict.shortages) is not fits
    assert all(one.by.nano > 0 for one in verdict.shortages)


@given(some_pods, some_limits, some_use, some_use)
def test_a_pod_that_is_kept_out_is_kept_out_whatever_is_used_beside(asked, limit, used, more):
    if not judge(asked, T1, limit, used).passes:
        assert not judge(asked, T1, limit, total((used, more))).passes


@given(some_pods, some_limits, some_use)
def test_what_is_missing_is_just_what_has_to_become_free(asked, limit, used):
    verdict = judge(asked, T1, limit, used)
    if verdict.outcome in (Outcome.ACTIVE, Outcome.INSUFFICIENT):
        missing = {one.resource: one.by for one in verdict.shortages}
        pods = missing.pop("pod", None)
        freed = Amount(
            None if used.pods is None else used.pods - (0 if pods is None else pods.value()),
            {name: amount - missing.get(name, Quantity(0)) for name, amount in used.requests.items()},
        )
        assert judge(asked, T1, limit, freed).passes
