"""What people and monitoring read of throttles. M1 to M5 are cases of kube-throttler; the tokens are those of its
README, with the resource and the amount that is missing (row 27)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from admission.throttle.amounts import NOTHING
from admission.throttle.check import Outcome, Verdict, judge
from admission.throttle.gauges import HELP, figures
from admission.throttle.policy import ThrottleKey
from admission.throttle.status import next_status
from admission.throttle.texts import MAX_SHORTAGES, denied, message, never_fits, reasons
from tests.unit.helpers import table
from tests.unit.throttles import T1, amount, policy

A, B, CT1, CT2 = (ThrottleKey(*key) for key in (("default", "a"), ("default", "b"), ("", "ct1"), ("", "ct2")))


def active(*keys: ThrottleKey) -> Iterator[Verdict]:
    return (judge(amount("pod=1 cpu=100m"), key, amount("cpu=200m"), amount("cpu=200m")) for key in keys)


def insufficient(*keys: ThrottleKey) -> Iterator[Verdict]:
    return (judge(amount("pod=1 cpu=300m"), key, amount("cpu=700m"), amount("cpu=500m")) for key in keys)


def exceeding(*keys: ThrottleKey) -> Iterator[Verdict]:
    return (judge(amount("pod=1 cpu=300m"), key, amount("cpu=200m"), NOTHING) for key in keys)


PASSING = Verdict(T1, Outcome.NOT_THROTTLED)


def test_m1_a_reason_names_the_kind_the_outcome_and_the_throttle():
    assert reasons(active(T1)) == ["throttles[active]=(default,t1)"]


def test_m2_reasons_are_ordered_by_outcome_and_names_are_sorted():
    assert reasons([*insufficient(CT1), *active(B), PASSING, *active(A)]) == [
        "throttles[active]=(default,a),(default,b)",
        "clusterthrottles[insufficient]=(ct1)",
    ]


def test_m3_within_an_outcome_cluster_throttles_come_first():
    verdicts = [*exceeding(T1, CT1), *insufficient(A, CT2), *active(B)]
    assert reasons(verdicts) == [
        "clusterthrottles[pod-requests-exceeds-threshold]=(ct1)",
        "throttles[pod-requests-exceeds-threshold]=(default,t1)",
        "throttles[active]=(default,b)",
        "clusterthrottles[insufficient]=(ct2)",
        "throttles[insufficient]=(default,a)",
    ]


def test_m3_the_warning_about_a_pod_that_never_fits_names_all_throttles_that_it_exceeds():
    assert never_fits([*exceeding(T1, CT1), *active(A)]) == (
        "It won't be scheduled unless decreasing resource requests or increasing ClusterThrottle/Throttle threshold "
        "because its resource requests exceeds their thresholds: (ct1),(default,t1)"
    )
    assert never_fits([*active(A), PASSING]) is None


MESSAGES = """
pod=1 cpu=100m | cpu=200m | cpu=200m | throttles[active]=(default,t1): cpu is short by 100m in throttle (default,t1), nothing left of 200m
pod=1 cpu=100m | cpu=200m | cpu=1    | throttles[active]=(default,t1): cpu is short by 900m in throttle (default,t1), nothing left of 200m
pod=1 cpu=300m | cpu=700m | cpu=500m | throttles[insufficient]=(default,t1): cpu is short by 100m in throttle (default,t1), 200m of 700m left
pod=1 cpu=300m | cpu=200m | cpu=200m | throttles[pod-requests-exceeds-threshold]=(default,t1): cpu 300m exceeds the whole threshold 200m of throttle (default,t1) by 100m
pod=1          | pod=5    | pod=5    | throttles[active]=(default,t1): pod is short by 1 in throttle (default,t1), nothing left of 5
"""  # noqa: E501


@pytest.mark.parametrize(("asked", "limit", "used", "text"), table(MESSAGES))
def test_row_27_a_message_says_which_resource_is_short_and_by_how_much(asked, limit, used, text):
    verdict = judge(amount(asked), T1, amount(limit), amount(used))
    assert message([verdict]) == text
    refusal = denied([PASSING, verdict])
    assert (refusal.message, refusal.reason) == (text, "throttled")


def test_a_message_about_several_throttles_has_all_tokens_first():
    text = message([*active(T1), *insufficient(CT1)])
    assert text.split(": ")[0] == "throttles[active]=(default,t1), clusterthrottles[insufficient]=(ct1)"
    assert text.endswith("in throttle (default,t1), nothing left of 200m; "
                         "cpu is short by 100m in clusterthrottle (ct1), 200m of 700m left")  # fmt: skip


def test_a_message_about_many_throttles_is_cut_where_it_stops_being_of_use():
    text = message(active(*(ThrottleKey("default", f"t{number:02}") for number in range(20))))
    assert text.count("is short by") == MAX_SHORTAGES - 1
    assert text.endswith(f"; and {20 - MAX_SHORTAGES + 1} more")


def test_where_every_throttle_lets_the_pod_pass_there_is_nothing_to_say():
    assert (message([PASSING]), reasons([PASSING]), reasons([])) == ("", [], [])


# -- metrics


def published(line: str, used: str = "-", *, key: ThrottleKey = T1) -> dict[tuple[str, str], int]:
    one = policy(line, "all", key=key)
    return {(name, resource): value for name, resource, value in figures(one, next_status(one, amount(used), 0, None))}


def test_m4_cpu_is_in_thousandths_and_memory_in_bytes():
    found = published("cpu=300m memory=1Gi")
    assert found["spec_threshold_resourceRequests", "cpu"] == 300
    assert found["spec_threshold_resourceRequests", "memory"] == 2**30
    assert found["status_calculated_threshold_resourceRequests", "memory"] == 2**30


def test_m5_a_number_of_pods_that_is_not_limited_shows_as_0():
    found = published("cpu=1", key=CT1)
    assert found["spec_threshold_resourceCounts", "pod"] == 0
    assert found["status_used_resourceCounts", "pod"] == 0
    assert ("status_used_resourceRequests", "cpu") not in found


def test_all_figures_of_a_throttle_are_published():
    found = published("pod=2 cpu=10 gpu=2", "pod=2 cpu=1500u memory=1500m")
    assert found == {
        ("spec_threshold_resourceCounts", "pod"): 2,
        ("spec_threshold_resourceRequests", "cpu"): 10_000,
        ("spec_threshold_resourceRequests", "gpu"): 2,
        ("status_throttled_resourceCounts", "pod"): 1,
        ("status_throttled_resourceRequests", "cpu"): 0,
        ("status_throttled_resourceRequests", "gpu"): 0,
        ("status_used_resourceCounts", "pod"): 2,
        ("status_used_resourceRequests", "cpu"): 2,
        ("status_used_resourceRequests", "memory"): 2,
        ("status_calculated_threshold_resourceCounts", "pod"): 2,
        ("status_calculated_threshold_resourceRequests", "cpu"): 10_000,
        ("status_calculated_threshold_resourceRequests", "gpu"): 2,
    }
    assert {name for name, _ in found} == set(HELP)
    assert len(HELP) == 8
