"""Thresholds that hold for a time. O1 to O21 are cases of kube-throttler; where an override is active, what it does
not name keeps its base value (row 25), and the cases that this changes say so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.instants import SECOND, parse_instant
from admission.quantity import Quantity
from admission.throttle.amounts import Amount
from admission.throttle.overrides import MAX_MESSAGE, MAX_MESSAGES, Override, Thresholds
from admission.throttle.policy import ThrottlePolicy
from tests.unit.helpers import table
from tests.unit.throttles import policy, shown

BASE = "pod=3 cpu=200m memory=1Gi gpu=2"
HOUR = 3600 * SECOND
DAY = "2019-02-16T00:00:00Z"


def overridden(entries: str, base: str = BASE) -> ThrottlePolicy:
    """Entries `begin..end amount`, separated by `;`."""
    overrides = []
    for entry in filter(None, (part.strip() for part in entries.split(";"))):
        times, _, line = entry.partition(" ")
        begin, _, end = times.partition("..")
        overrides.append((begin, end, line or "-"))
    return policy(base, "all", overrides)


def hours(one: ThrottlePolicy, now: str) -> str:
    distance = one.thresholds.wake_up(parse_instant(now))
    return "-" if distance is None else f"{distance / HOUR:g}"


README = "2019-02-01T00:00:00+09:00..2019-03-01T00:00:00+09:00 cpu=5"
README_2 = "2019-02-15T00:00:00+09:00..2019-03-01T00:00:00+09:00 cpu=1 memory=8Gi"

# case | entries | now | limit | hours to the next wake-up
CASES = f"""
O1  |                               | {DAY}                           | {BASE}                           | -
O2, row 25 | {README}; {README_2}   | 2019-02-16T00:00:00+09:00       | pod=3 cpu=5 memory=8Gi gpu=2     | 312
O3, row 25 | {README}               | 2019-02-01T00:00:00+09:00       | pod=3 cpu=5 memory=1Gi gpu=2     | 672
-   | {README}                      | 2019-01-31T14:59:59.999999999Z  | {BASE}                           | 2.77778e-13
O4, row 25 | {README}               | 2019-02-28T15:00:00Z            | pod=3 cpu=5 memory=1Gi gpu=2     | -
O5  | {README}                      | 2019-02-28T15:00:00.000000001Z  | {BASE}                           | -
O6, row 25 | .. cpu=5               | {DAY}                           | pod=3 cpu=5 memory=1Gi gpu=2     | -
O7, row 25 | 2019-02-01T00:00:00Z.. cpu=5 | {DAY}                     | pod=3 cpu=5 memory=1Gi gpu=2     | -
O8, row 25 | ..2019-02-20T00:00:00Z cpu=5 | {DAY}                     | pod=3 cpu=5 memory=1Gi gpu=2     | 96
O9  | 2019-02-20T00:00:00Z..2019-02-10T00:00:00Z cpu=5 | {DAY}        | {BASE}                           | 96
O10 | error..error cpu=5            | {DAY}                           | {BASE}                           | -
O11 | 2019-02-20T00:00:00Z..tomorrow cpu=5 | {DAY}                    | {BASE}                           | 96
O14, row 25 | .. pod=7; .. pod=9 cpu=4 | {DAY}                        | pod=7 cpu=4 memory=1Gi gpu=2     | -
O15, row 25 | bad.. cpu=9; ..2019-02-17T00:00:00Z cpu=4; ..bad2 cpu=9 | {DAY} | pod=3 cpu=4 memory=1Gi gpu=2 | 24
O16, row 25 | ..                    | {DAY}                           | {BASE}                           | -
O17, row 25 | 2019-02-15T23:59:59.5Z.. cpu=5 | {DAY}                  | pod=3 cpu=5 memory=1Gi gpu=2     | -
O19, row 25 | 0001-01-01T00:00:00Z..0001-01-01T00:00:00Z cpu=5 | {DAY} | pod=3 cpu=5 memory=1Gi gpu=2    | -
O20, row 25 | 2019-02-18T00:00:00Z.. cpu=9; ..2019-02-17T00:00:00Z cpu=5 | {DAY} | pod=3 cpu=5 memory=1Gi gpu=2 | 24
-   | ..0001-01-01T09:00:00+09:00 cpu=5 | {DAY}                       | pod=3 cpu=5 memory=1Gi gpu=2     | -
-   | .. memory=0 r1=1              | {DAY}                           | pod=3 cpu=200m memory=0 gpu=2 r1=1 | -
"""


@pytest.mark.parametrize(("case", "entries", "now", "limit", "wake_up"), table(CASES))
def test_an_active_override_replaces_what_it_names_and_nothing_else(case, entries, now, limit, wake_up):
    one = overridden(entries)
    assert shown(one.limit(parse_instant(now))) == limit
    assert hours(one, now) == wake_up


def test_of_several_active_overrides_the_first_that_names_a_resource_decides_it():
    o12 = overridden(".. pod=2 cpu=2; .. pod=3 cpu=3 memory=3", base="pod=0 cpu=1")
    o13 = overridden(".. pod=2 cpu=2; error..error cpu=9", base="pod=0 cpu=1")
    assert shown(o12.limit(0)) == "pod=2 cpu=2 memory=3"
    assert shown(o13.limit(0)) == "pod=2 cpu=2"


def test_the_number_of_pods_of_an_override_is_0_where_its_counts_are_empty():
    entries = [{"threshold": {"resourceCounts": {}}}]
    assert policy("pod=3", "all", temporaryThresholdOverrides=entries).limit(0).pods == 0


BAD_TIMES = """
error..error         | Begin | "error" as "2006-01-02T15:04:05Z07:00": cannot parse "error" as "2006"
2019-02-01..         | Begin | "2019-02-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"
2019-02-01T00:00:00..    | Begin | "2019-02-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"
2019-02-01t00:00:00Z..   | Begin | "2019-02-01t00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse "t00:00:00Z" as "T"
2019-02-01T00:00:00z..   | Begin | "2019-02-01T00:00:00z" as "2006-01-02T15:04:05Z07:00": cannot parse "z" as "Z07:00"
..2019-02-30T00:00:00Z   | End   | "2019-02-30T00:00:00Z": day out of range
2018-01-01T00:00:00Z..tomorrow | End | "tomorrow" as "2006-01-02T15:04:05Z07:00": cannot parse "tomorrow" as "2006"
"""  # noqa: E501


@pytest.mark.parametrize(("times", "which", "text"), table(BAD_TIMES))
def test_o10_o11_o18_an_override_with_a_bad_time_is_never_active_and_says_so_once(times, which, text):
    one = overridden(f"{times} cpu=5")
    assert shown(one.limit(parse_instant(DAY))) == BASE
    assert one.thresholds.messages == (f"index 0: Failed to parse {which}: parsing time {text}",)


def test_o18_a_time_with_a_blank_is_bad():
    one = policy(BASE, "all", [("2019-02-01 00:00:00Z", "", "cpu=5")])
    (message,) = one.thresholds.messages
    assert message.endswith('cannot parse " 00:00:00Z" as "T"')


def test_o13_o15_messages_are_in_the_order_of_the_list_and_say_where():
    one = overridden("bad.. cpu=9; ..2019-02-17T00:00:00Z cpu=4; ..bad2 cpu=9")
    assert [text.split(": parsing")[0] for text in one.thresholds.messages] == [
        "index 0: Failed to parse Begin",
        "index 2: Failed to parse End",
    ]


def test_thousands_of_bad_times_leave_a_status_that_can_be_written():
    one = policy(BASE, "all", [("x" * 500, "", "cpu=5")] * 10_000)
    assert len(one.thresholds.messages) == MAX_MESSAGES
    assert one.thresholds.messages[-1] == f"and {10_000 - MAX_MESSAGES + 1} more"
    assert all(len(text) <= MAX_MESSAGE for text in one.thresholds.messages)
    assert one.thresholds.messages[0].startswith('index 0: Failed to parse Begin: parsing time "xxx')


def test_an_override_that_ends_this_instant_is_told_of_because_no_time_to_come_is_its_end():
    one, end = overridden(README), parse_instant("2019-02-28T15:00:00Z")
    assert [one.thresholds.ends_now(now) for now in (end - 1, end, end + 1)] == [False, True, False]
    assert not overridden("2019-03-20T00:00:00Z..2019-02-28T15:00:00Z cpu=5").thresholds.ends_now(end)


def test_the_limit_is_not_remembered_beyond_the_end_of_an_override():
    one, end = overridden(README), parse_instant("2019-02-28T15:00:00Z")
    moments = (end, end + 1, end, end - 1)
    assert [str(one.limit(now).requests["cpu"]) for now in moments] == ["5", "200m", "5", "5"]


# -- any overrides

instants = st.one_of(st.none(), st.integers(-3, 8))
limits = st.builds(
    Amount,
    st.one_of(st.none(), st.integers(0, 5)),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9).map(Quantity.of_count)),
)
overrides = st.builds(Override, instants, instants, limits, st.sampled_from([None, None, None, "a bad time"]))


def merged(base: Amount, listed: list[Override], now: int) -> Amount:
    """The same, resource by resource."""
    active = [
        entry.threshold
        for entry in listed
        if entry.problem is None
        and (entry.begin is None or entry.begin <= now)
        and (entry.end is None or now <= entry.end)
    ]
    names = {name for one in (base, *active) for name in one.requests}
    pods = next((one.pods for one in (*active, base) if one.pods is not None), None)
    return Amount(
        pods, {name: next(one.requests[name] for one in (*active, base) if name in one.requests) for name in names}
    )


@given(limits, st.lists(overrides, max_size=5), st.lists(st.integers(-5, 10), max_size=8))
def test_the_limit_is_the_first_active_value_of_each_resource_whenever_it_is_asked_for(base, listed, moments):
    thresholds = Thresholds(base, listed)
    for now in moments:
        assert thresholds.at(now) == merged(base, listed, now)


@given(limits, st.lists(overrides, max_size=5), st.integers(-5, 10))
def test_between_two_times_of_waking_up_the_limit_does_not_change(base, listed, now):
    thresholds = Thresholds(base, listed)
    while thresholds.ends_now(now):
        now += 1
    distance = thresholds.wake_up(now)
    for later in range(now, now + (20 if distance is None else distance)):
        assert thresholds.at(later) == thresholds.at(now)
