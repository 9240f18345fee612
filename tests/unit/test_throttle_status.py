"""The status of a throttle. U1 to U11 and O21 are cases of kube-throttler; U2, U9, U10 and U12 count pods and have
their tests where that is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.instants import SECOND, parse_instant
from admission.throttle.amounts import Amount
from admission.throttle.objects import ThrottleStatus, decode_throttle, document
from admission.throttle.policy import ThrottlePolicy
from admission.throttle.status import differs, next_status
from tests.unit.helpers import Json, encoded, table
from tests.unit.throttles import amount, amount_json, policy, throttle_json

THEN = parse_instant("2024-01-01T00:00:00Z")
LATER = THEN + 3600 * SECOND
LIMIT = "pod=3 cpu=300m memory=1Gi"


def stored(written: Json) -> ThrottleStatus:
    status = decode_throttle(encoded({**throttle_json(), "status": written})).status
    assert status is not None
    return status


def after(one: ThrottlePolicy, used: str, now: int = THEN, before: ThrottleStatus | None = None) -> ThrottleStatus:
    return next_status(one, amount(used), now, before)


def test_u1_without_pods_what_is_used_is_empty_and_nothing_is_reached():
    assert document(after(policy(LIMIT), "-")) == {
        "calculatedThreshold": {"threshold": amount_json(LIMIT), "calculatedAt": "2024-01-01T00:00:00Z"},
        "throttled": {"resourceCounts": {"pod": False}, "resourceRequests": {"cpu": False, "memory": False}},
        "used": {},
    }


STATUSES = f"""
U4, section 15 | -    | pod=3 cpu=300m     |          |
U7  | pod=2 cpu=1     | pod=1 cpu=500m     |          | cpu
U8  | pod=2 cpu=1     | pod=2 cpu=200m     | pod      | cpu
U9  | cpu=1           | pod=20 cpu=1       | cpu      |
U10 | pod=100 cpu=100m | pod=100 cpu=100m  | pod cpu  |
U2  | {LIMIT}         | pod=4 cpu=400m     | pod cpu  | memory
U12 | {LIMIT}         | -                  |          | cpu memory
"""


@pytest.mark.parametrize(("case", "limit", "used", "full", "free"), table(STATUSES))
def test_a_status_has_all_that_is_used_and_a_flag_for_each_resource_of_the_limit(case, limit, used, full, free):
    written = document(after(policy(limit), used))
    flags = {name: name in full.split() for name in [*full.split(), *free.split()] if name != "pod"}
    assert written["throttled"].get("resourceRequests", {}) == flags
    assert written["throttled"]["resourceCounts"] == {"pod": "pod" in full}
    assert written["used"] == amount_json(used)
    assert written["calculatedThreshold"] == {
        "threshold": amount_json(limit),
        "calculatedAt": "2024-01-01T00:00:00Z",
    }


def test_u3_o21_what_says_the_same_is_not_written_again_and_keeps_its_time():
    first = after(policy(LIMIT), "pod=3 cpu=300m")
    again = after(policy("pod=3 cpu=0.3 memory=1024Mi"), "pod=3 cpu=0.3", LATER, first)
    assert not differs(first, again)
    assert document(again)["calculatedThreshold"] == document(first)["calculatedThreshold"]


def test_u11_a_raised_limit_is_written_with_its_time_and_what_it_frees():
    first = after(policy("cpu=200m"), "cpu=200m")
    raised = after(policy("cpu=700m"), "cpu=200m", LATER, first)
    assert differs(first, raised)
    assert document(raised)["calculatedThreshold"]["calculatedAt"] == "2024-01-01T01:00:00Z"
    assert [document(one)["throttled"]["resourceRequests"]["cpu"] for one in (first, raised)] == [True, False]


def test_more_use_under_the_same_limit_is_written_and_leaves_the_time_of_the_limit():
    first = after(policy(LIMIT), "pod=1")
    more = after(policy(LIMIT), "pod=2", LATER, first)
    assert differs(first, more)
    assert document(more)["calculatedThreshold"]["calculatedAt"] == "2024-01-01T00:00:00Z"


def test_messages_are_written_and_their_change_is_a_change():
    bad = policy(LIMIT, "all", [("error", "", "cpu=5")])
    first = after(bad, "-")
    (message,) = document(first)["calculatedThreshold"]["messages"]
    assert message.startswith("index 0: Failed to parse Begin: ")
    repaired = after(policy(LIMIT), "-", LATER, first)
    assert "messages" not in document(repaired)["calculatedThreshold"]
    assert document(repaired)["calculatedThreshold"]["calculatedAt"] == "2024-01-01T01:00:00Z"
    assert not differs(first, after(bad, "-", LATER, first))


def test_an_override_that_begins_changes_what_is_written():
    one = policy("cpu=200m", "all", [("2024-01-01T00:30:00Z", "", "cpu=5")])
    first = after(one, "cpu=1")
    second = after(one, "cpu=1", LATER, first)
    assert document(second)["calculatedThreshold"]["threshold"] == amount_json("cpu=5")
    assert [document(status)["throttled"]["resourceRequests"] for status in (first, second)] == [
        {"cpu": True},
        {"cpu": False},
    ]


def test_a_calculated_threshold_without_a_time_is_written_anew():
    before = stored({"calculatedThreshold": {"threshold": amount_json(LIMIT), "calculatedAt": None}})
    assert document(after(policy(LIMIT), "-", before=before))["calculatedThreshold"]["calculatedAt"]


# one | other | whether they differ
COMPARED: dict[str, tuple[Json, Json, bool]] = {
    "nothing, and empty": ({}, {"used": {}, "throttled": {}}, False),
    "null, and absent": ({"used": None, "throttled": None, "calculatedThreshold": None}, {}, False),
    "no messages, and an empty list": (
        {"calculatedThreshold": {"threshold": {}, "calculatedAt": "2024-01-01T00:00:00Z", "messages": []}},
        {"calculatedThreshold": {"threshold": {}, "calculatedAt": "2024-01-01T09:00:00+09:00"}},
        False,
    ),
    "another instant": (
        {"calculatedThreshold": {"threshold": {}, "calculatedAt": "2024-01-01T00:00:00Z"}},
        {"calculatedThreshold": {"threshold": {}, "calculatedAt": "2024-01-01T00:00:01Z"}},
        True,
    ),
    "a time that is none": (
        {"calculatedThreshold": {"threshold": {}, "calculatedAt": "2024-01-01T00:00:00Z"}},
        {"calculatedThreshold": {"threshold": {}, "calculatedAt": "yesterday"}},
        True,
    ),
    "no number of pods, and 0": ({"used": {}}, {"used": {"resourceCounts": {"pod": 0}}}, True),
    "the same by value": (
        {"used": {"resourceRequests": {"cpu": "1000m"}}},
        {"used": {"resourceRequests": {"cpu": "1"}}},
        False,
    ),
    "a resource more, of 0": ({"used": {}}, {"used": {"resourceRequests": {"cpu": "0"}}}, True),
    "another flag": (
        {"throttled": {"resourceRequests": {"cpu": True}}},
        {"throttled": {"resourceRequests": {"cpu": False}}},
        True,
    ),
    "a calculated threshold, and none": (
        {"calculatedThreshold": {"threshold": {}, "calculatedAt": "2024-01-01T00:00:00Z"}},
        {},
        True,
    ),
}


@pytest.mark.parametrize("case", COMPARED)
def test_statuses_are_compared_by_what_they_say(case):
    one, other, different = COMPARED[case]
    assert differs(stored(one), stored(other)) is different
    assert differs(stored(other), stored(one)) is different


def test_fields_that_others_keep_in_the_status_are_not_ours_to_judge():
    assert not differs(stored({"ledger": {"a": 1}}), stored({}))


amounts = st.builds(
    Amount,
    st.one_of(st.none(), st.integers(0, 3)),
    st.dictionaries(
        st.sampled_from(["cpu", "memory"]), st.sampled_from(list(amount("a=0 b=1 c=1500m").requests.values()))
    ),
)


@given(amounts, amounts, amounts)
def test_what_is_written_is_read_back_as_it_was(limit, used, other):
    one = policy()
    one.thresholds.base = limit
    first = next_status(one, used, THEN, None)
    back = stored(document(first))
    assert not differs(first, back)
    assert not differs(back, next_status(one, used, LATER, back))
    assert differs(back, next_status(one, other, LATER, back)) is (used != other)
