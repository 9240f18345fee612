"""Who is released now (rows 10, 11, 20): by priority, then age; smaller pods may pass, but not one that waits long."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.quantity import Quantity
from admission.throttle.amounts import NOTHING, Amount, total
from admission.throttle.check import ThrottleState, check
from admission.throttle.policy import ThrottleKey
from admission.throttle.release import HeldPod, Room, Round, held_pod, release
from tests.unit.helpers import pod, table
from tests.unit.throttles import amount, policy

NOW = 1000
FAIR_AFTER = 100


def key(name: str) -> ThrottleKey:
    return ThrottleKey("default", name)


def held(line: str) -> list[HeldPod]:
    """`name priority waits amount throttles` separated by `;`, the amount without its pod and with `+` for blanks."""
    pods = []
    for entry in filter(None, (part.strip() for part in line.split(";"))):
        name, priority, waits, asked, *throttles = entry.split()
        asked = "" if asked == "-" else asked.replace("+", " ")
        pods.append(HeldPod(name, int(priority), NOW - int(waits), amount(f"pod=1 {asked}"), [*map(key, throttles)]))
    return pods


def rooms(line: str) -> dict[ThrottleKey, Room]:
    """`name limit used` separated by `;`."""
    found = {}
    for entry in filter(None, (part.strip() for part in line.split(";"))):
        name, limit, used = entry.split()
        found[key(name)] = Room(amount(limit.replace("+", " ")), amount(used.replace("+", " ")))
    return found


def decide(pods: list[HeldPod], spaces: dict[ThrottleKey, Room], at_most: int | None = None) -> Round:
    return release(pods, spaces, now=NOW, fair_after=FAIR_AFTER, at_most=at_most)


# rooms | held | released, in order | who may not pass whom
CASES = """
t cpu=3 cpu=1         | a 0 9 cpu=1 t; b 0 8 cpu=1 t; c 0 7 cpu=1 t            | a b     |
t cpu=3 cpu=1         | a 0 1 cpu=1 t; b 0 8 cpu=1 t; c 5 0 cpu=1 t            | c b     |
t cpu=3 cpu=1         | b 0 9 cpu=1 t; a 0 9 cpu=1 t; c 0 9 cpu=1 t            | a b     |
t cpu=3 cpu=1         | a 0 9 cpu=3 t; b 0 8 cpu=1 t                           | b       |
t cpu=3 cpu=1         | a 0 100 cpu=3 t; b 0 8 cpu=1 t                         | b       |
t cpu=3 cpu=1         | a 0 101 cpu=3 t; b 0 8 cpu=1 t                         |         | b behind a
t cpu=3 cpu=1         | a 0 101 cpu=4 t; b 0 8 cpu=1 t                         | b       |
t cpu=3 cpu=1         | a 0 101 cpu=3 t; b 5 8 cpu=1 t                         | b       |
t cpu=3 cpu=1         | a 0 101 cpu=3 t; b 0 102 cpu=3 t; c 0 8 cpu=1 t        |         | c behind b
t cpu=3 cpu=1         | a 0 101 cpu=3 t; b 0 8 memory=1 t                      | b       |
t pod=3+cpu=3 pod=2+cpu=1 | a 0 101 cpu=3 t; b 0 8 memory=1 t                  |         | b behind a
t pod=4+cpu=3 pod=2+cpu=1 | a 0 101 cpu=3 t; b 0 8 memory=1 t                  | b       |
t pod=2 pod=0         | a 0 9 - t; b 0 8 - t; c 0 7 - t                        | a b     |
t pod=2 -             | a 0 9 - t; b 0 8 - t; c 0 7 - t                        | a b     |
t pod=1 pod=5         | a 0 999 - t; b 0 7 - t                                 |         |
t cpu=1 cpu=1         | a 0 9 cpu=0 t; b 0 8 cpu=1 t; c 0 7 memory=1 t         | a c     |
t cpu=1 cpu=5         | a 0 9 memory=1 t                                       | a       |
t cpu=1 cpu=5         | a 0 9 cpu=0 t; b 0 8 cpu=1 t                           | a       |
t cpu=2 cpu=1; u cpu=2 cpu=1 | a 0 103 cpu=2 t; b 0 102 cpu=2 u; c 0 8 cpu=1 t u |       | c behind a
t cpu=0 -             | a 0 999 cpu=1 t; b 0 7 cpu=1 t                         |         |
t cpu=2 cpu=0; u cpu=2 cpu=2 | a 0 9 cpu=1 t u; b 0 8 cpu=1 t; c 0 7 cpu=1 t   | b c     |
t cpu=2 cpu=0; u cpu=2 cpu=2 | a 0 101 cpu=1 t u; b 0 8 cpu=1 t; c 0 7 cpu=1 t | b       | c behind a
t cpu=2 cpu=0; u cpu=2 cpu=2 | a 0 101 cpu=1 t u; b 0 8 cpu=1 u                |         |
t cpu=2 cpu=0; u cpu=0 cpu=0 | a 0 101 cpu=1 t u; b 0 8 cpu=2 t                | b       |
                      | a 0 9 cpu=1 t                                          | a       |
                      | a 0 9 cpu=1                                            | a       |
t cpu=2 cpu=0         | a 0 9 cpu=1 t gone                                     | a       |
t cpu=2 cpu=0         |                                                        |         |
"""


@pytest.mark.parametrize(("spaces", "pods", "released", "behind"), table(CASES))
def test_every_pod_that_fits_is_released_in_order_but_none_passes_one_that_waits_too_long(
    spaces, pods, released, behind
):
    for shuffled in permutations(held(pods)):
        decided = decide([*shuffled], rooms(spaces))
        assert [one.key for one in decided.released] == released.split()
        assert [" behind ".join(pair) for pair in decided.behind.items()] == [behind] * bool(behind)


def test_row_20_a_rate_limits_how_many_go_at_once_and_the_first_of_them_go():
    waiting = held("a 0 9 - t; b 9 8 - t; c 0 7 - t")
    spaces = rooms("t pod=9 -")
    assert [[one.key for one in decide(waiting, spaces, most).released] for most in (0, 1, 2, 5)] == [
        [],
        ["b"],
        ["b", "a"],
        ["b", "a", "c"],
    ]


def test_a_held_pod_is_as_old_as_its_creation_and_as_large_as_its_requests():
    line = "a: cpu 1/-"
    meta = {"uid": "u1", "creationTimestamp": "1970-01-01T00:00:01Z"}
    one = held_pod(pod(line, metadata=meta, spec={"priority": 7}), [key("t")])
    assert one == HeldPod("u1", 7, 10**9, amount("pod=1 cpu=1"), [key("t")])
    bare = held_pod(pod("a"), [])
    assert (bare.key, bare.priority, bare.since) == ("", 0, 0)


# -- any pods, any rooms

NAMES = ("t", "u", "v")
quantities = st.integers(0, 4).map(lambda number: Quantity(number * 10**8))
requests = st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities)
limits = st.builds(Amount, st.one_of(st.none(), st.integers(0, 4)), requests)
used = st.builds(Amount, st.one_of(st.none(), st.integers(0, 2)), requests)
spaces = st.dictionaries(st.sampled_from([key(name) for name in NAMES]), st.builds(Room, limits, used))
waiting = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 200),
        requests,
        st.lists(st.sampled_from([key(name) for name in NAMES]), unique=True),
    ),
    max_size=6,
).map(
    lambda listed: [
        HeldPod(f"p{number}", priority, NOW - waits, Amount(1, asked), throttles)
        for number, (priority, waits, asked, throttles) in enumerate(listed)
    ]
)


def after(room: Room, name: ThrottleKey, released: list[HeldPod]) -> Amount:
    return total((room.used, *(one.amount for one in released if name in one.throttles)))


def passes(one: HeldPod, found: dict[ThrottleKey, Room], released: list[HeldPod]) -> bool:
    """What the check says of a pod, after these were released."""
    states = [
        ThrottleState(policy_of(found[name].limit, name), after(found[name], name, released))
        for name in one.throttles
        if name in found
    ]
    return all(verdict.passes for verdict in check(one.amount, states, 0))


def policy_of(limit: Amount, name: ThrottleKey):
    one = policy(key=name)
    one.thresholds.base = limit
    return one


@given(waiting, spaces)
def test_whoever_is_released_passes_the_check_at_that_moment(pods, found):
    decided = decide(pods, found)
    for number, one in enumerate(decided.released):
        assert passes(one, found, decided.released[:number])


@given(waiting, spaces)
def test_no_limit_is_exceeded_by_a_release(pods, found):
    decided = decide(pods, found)
    for name, room in found.items():
        mine = [one for one in decided.released if name in one.throttles]
        together = after(room, name, decided.released)
        if mine and room.limit.pods is not None:
            assert (together.pods or 0) <= room.limit.pods
        for one in mine:
            for resource, request in one.amount.requests.items():
                if request and resource in room.limit.requests:
                    assert together.requests[resource] <= room.limit.requests[resource]


@given(waiting, spaces)
def test_whoever_fits_when_all_is_decided_is_released_unless_it_would_pass_one_that_waits_too_long(pods, found):
    decided = decide(pods, found)
    for one in pods:
        if one not in decided.released and passes(one, found, decided.released):
            ahead = next(other for other in pods if other.key == decided.behind[one.key])
            assert (-ahead.priority, ahead.since, ahead.key) < (-one.priority, one.since, one.key)
            assert NOW - ahead.since > FAIR_AFTER
            assert ahead not in decided.released
            assert set(ahead.throttles) & set(one.throttles)


@given(waiting, spaces)
def test_a_pod_that_waits_too_long_loses_nothing_to_those_after_it(pods, found):
    """What one that waits too long lacks when all is decided, it lacked before those after it were looked at."""
    decided = decide(pods, found)
    ordered = sorted(pods, key=lambda one: (-one.priority, one.since, one.key))
    for number, one in enumerate(ordered):
        alone = passes(one, {name: Room(room.limit, NOTHING) for name, room in found.items()}, [])
        if one in decided.released or NOW - one.since <= FAIR_AFTER or not alone:
            continue
        before = [other for other in decided.released if other in ordered[:number]]
        for name in one.throttles:
            if name in found:
                mine = {name: found[name]}
                assert passes(one, mine, before) is passes(one, mine, decided.released)


@given(waiting, spaces, st.randoms())
def test_the_order_in_which_held_pods_are_listed_is_of_no_matter(pods, found, random):
    assert decide(random.sample(pods, len(pods)), found) == decide(pods, found)


@given(waiting, spaces, st.integers(0, 6))
def test_rounds_of_a_few_release_whom_one_round_of_all_would_have(pods, found, most):
    whole = decide(pods, found)
    assert decide(pods, found, most).released == whole.released[:most]


@given(waiting, spaces)
def test_with_room_for_everything_nobody_is_held(pods, found):
    plenty = {name: Room(NOTHING, room.used) for name, room in found.items()}
    assert len(decide(pods, plenty).released) == len(pods)
