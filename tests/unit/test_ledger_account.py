"""The account of one quota as a value: what a reservation adds, what a recount settles, and its text form."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.ledger.account import Account, Reservation, Seen, is_settled
from admission.ledger.annotation import DamagedAnnotation, decode, encode
from admission.quantity import Quantity
from admission.resource_lists import ResourceList
from tests.unit.helpers import amounts, printed, table, texts

UID, QUOTA = "u", "quota-uid"


def reservation(wanted: str, covered: str = "", *, version: str = "", name: str = "p", token: str = "") -> Reservation:
    return Reservation("pods", name, version, amounts(wanted), amounts(covered), token)


def account(counted: str, **reservations: Reservation) -> Account:
    return Account(amounts(counted), reservations)


def seen(version: int, use: str) -> Seen:
    return Seen(str(version), amounts(use))


def numbers(found: ResourceList) -> dict[str, int]:
    """Names with nothing are left out."""
    return {name: amount.nano for name, amount in found.items() if amount.nano}


# -- what is used: `counted` plus what each reservation adds, never less than nothing

USED = """
counted        | reserved        | covered         | used
cpu=1          | cpu=2           |                 | cpu=3
cpu=1          | cpu=2           | cpu=1           | cpu=2
cpu=1          | cpu=2           | cpu=2           | cpu=1
cpu=5          | cpu=2           | cpu=5           | cpu=5
cpu=5 pods=1   | cpu=2 pods=1    | cpu=5           | cpu=5 pods=2
cpu=5 pods=1   | cpu=9 pods=1    | cpu=5 pods=1    | cpu=9 pods=1
cpu=1          | memory=1Gi      |                 | cpu=1
cpu=0 memory=0 | memory=1Gi      |                 | cpu=0 memory=1Gi
"""


@pytest.mark.parametrize(("counted", "wanted", "covered", "total"), table(USED)[1:])
def test_what_is_used_is_what_is_counted_and_what_is_reserved_beyond_that(
    counted: str, wanted: str, covered: str, total: str
) -> None:
    assert printed(account(counted, u=reservation(wanted, covered)).used()) == texts(total)


def test_one_reservation_that_is_covered_takes_nothing_from_another() -> None:
    some = account("cpu=5", a=reservation("cpu=1", "cpu=4"), b=reservation("cpu=2"))
    assert printed(some.used()) == {"cpu": "7"}


# -- one object, several requests


@pytest.mark.parametrize("version", ["", "7"])
def test_a_call_that_comes_again_adds_nothing(version: str) -> None:
    asked = reservation("cpu=2 pods=1", "cpu=1 pods=1" if version else "", version=version)
    once = account("cpu=3 pods=1").reserve(UID, asked)
    assert numbers(once.reserve(UID, asked).used()) == numbers(once.used())
    assert list(once.reserve(UID, asked).reservations) == [UID]


OVER = """
standing             | standing covers  | new               | new covers     | kept                 | covers
cpu=5                |                  | cpu=3             | cpu=1          | cpu=5                |
cpu=3                |                  | cpu=5             | cpu=1          | cpu=5                |
cpu=3                | cpu=1            | cpu=5             | cpu=3          | cpu=5                | cpu=1
cpu=3 memory=5       | cpu=1 memory=1   | cpu=5 memory=2    | cpu=3 memory=1 | cpu=5 memory=5       | cpu=1 memory=1
cpu=3                | cpu=1            | cpu=3 memory=2    | cpu=3 memory=1 | cpu=3 memory=2       | cpu=1 memory=1
cpu=3 memory=2       | cpu=1            | cpu=4             | cpu=3          | cpu=4 memory=2       | cpu=1
"""


@pytest.mark.parametrize(("stood", "stood_on", "new", "new_on", "kept", "covers"), table(OVER)[1:])
def test_of_two_requests_for_one_object_the_larger_is_kept_and_what_is_counted_stays(
    stood: str, stood_on: str, new: str, new_on: str, kept: str, covers: str
) -> None:
    made = reservation(new, new_on).over(reservation(stood, stood_on))
    assert printed(made.amounts) == texts(kept)
    assert printed(made.covered) == texts(covers)


@pytest.mark.parametrize(
    ("standing", "new", "kept"),
    [("10", "11", "11"), ("11", "10", "11"), ("9", "10", "10"), ("", "10", "10"), ("10", "", "10"), ("", "", "")],
)
def test_of_two_requests_for_one_object_the_later_version_is_waited_for(standing: str, new: str, kept: str) -> None:
    """The one on the earlier version can be stored no more, whichever call came last."""
    assert reservation("cpu=1", version=new).over(reservation("cpu=1", version=standing)).version == kept


# -- what is refused after all


def test_what_is_rolled_back_is_as_it_was_before() -> None:
    for before in (account("cpu=1"), account("cpu=1", other=reservation("cpu=1"))):
        written = reservation("cpu=2")
        assert before.reserve(UID, written).roll_back(UID, written, None) == before


def test_rolling_back_restores_what_stood_before() -> None:
    standing = reservation("cpu=2", version="7")
    before = account("cpu=1", u=standing)
    after = before.reserve(UID, reservation("cpu=4", "cpu=2", version="8"))
    assert after.roll_back(UID, after.reservations[UID], standing) == before


def test_what_another_request_has_replaced_is_not_rolled_back() -> None:
    written = reservation("cpu=2", version="7")
    after = account("cpu=1").reserve(UID, written).reserve(UID, reservation("cpu=4", version="8", token="another"))
    assert after.roll_back(UID, written, None) is after


def test_what_is_not_there_is_not_rolled_back() -> None:
    some = account("cpu=1", other=reservation("cpu=1"))
    assert some.roll_back(UID, reservation("cpu=1"), None) is some


def test_a_recount_in_between_does_not_keep_a_refused_request() -> None:
    """It rewrites what is covered, of a reservation that is the same otherwise."""
    written = reservation("cpu=4", "cpu=1", version="7")
    recounted = account("cpu=1").reserve(UID, written).recount(amounts("cpu=0"), {}, {})
    assert recounted.roll_back(UID, written, None).reservations == {}


# -- recount

SETTLED = """
judged on | seen at | uses   | settled
          | 7       | cpu=1  | yes
          | 7       |        | yes
7         | 6       | cpu=9  | no
7         | 7       | cpu=9  | no
7         | 8       | cpu=1  | yes
9         | 10      | cpu=1  | yes
10        | 9       | cpu=9  | no
a         | b       | cpu=4  | yes
a         | b       | cpu=3  | no
7         | b       | cpu=5  | yes
"""


@pytest.mark.parametrize(("judged", "version", "use", "settled"), table(SETTLED)[1:])
def test_a_creation_is_settled_when_it_is_seen_and_an_update_by_a_later_version(
    judged: str, version: str, use: str, settled: str
) -> None:
    asked = reservation("cpu=4", version=judged)
    assert is_settled(asked, Seen(version, amounts(use))) == (settled == "yes")
    after = account("cpu=0", u=asked).recount(amounts("cpu=1"), {UID: Seen(version, amounts(use))}, {})
    assert (UID not in after.reservations) == (settled == "yes")


def test_what_is_covered_is_what_the_recount_saw() -> None:
    before = account(
        "cpu=9", old=reservation("cpu=5", "cpu=2", version="7"), new=reservation("cpu=3", "cpu=1", version="7")
    )
    after = before.recount(amounts("cpu=4"), {"old": seen(6, "cpu=4")}, {"pods": 6})
    assert printed(after.reservations["old"].covered) == {"cpu": "4"}
    assert after.reservations["new"].covered == {}
    assert printed(after.used()) == {"cpu": "8"}
    assert after.revisions == {"pods": 6}


def test_what_has_ended_is_gone_whether_seen_or_not() -> None:
    before = account("cpu=0", a=reservation("cpu=1", version="7"), b=reservation("cpu=1"), c=reservation("cpu=1"))
    after = before.recount(amounts("cpu=0"), {"a": seen(7, "cpu=0")}, {}, ended=["a", "b", "nobody"])
    assert list(after.reservations) == ["c"]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans())),
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 3), st.integers(0, 9))),
    st.integers(0, 9),
)
def test_after_a_recount_what_is_used_holds_everything_seen_and_everything_on_its_way(
    standing: dict[str, tuple[int, int, bool]], found: dict[str, tuple[int, int]], others: int
) -> None:
    before = Account(
        amounts("cpu=0"),
        {
            uid: reservation(f"cpu={wanted}", f"cpu={covered}", version="2" if update else "")
            for uid, (wanted, covered, update) in standing.items()
        },
    )
    counted = others + sum(use for _, use in found.values())
    after = before.recount(
        amounts(f"cpu={counted}"), {uid: seen(version, f"cpu={use}") for uid, (version, use) in found.items()}, {}
    )
    on_their_way = {
        uid: wanted
        for uid, (wanted, _, update) in standing.items()
        if uid not in found or (update and found[uid][0] <= 2)
    }
    expected = others
    for uid in {*found, *on_their_way}:
        expected += max(found.get(uid, (0, 0))[1], on_their_way.get(uid, 0))
    assert after.reservations.keys() == on_their_way.keys()
    assert printed(after.used()) == {"cpu": str(expected)}


# -- any sequence of calls for one quota, against the rule of the design

REQUESTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(1, 3)), max_size=12)


@given(REQUESTS, st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)))
def test_each_object_is_held_at_the_most_that_any_of_its_requests_wants(
    requests: list[tuple[str, int, int]], counted: dict[str, int]
) -> None:
    some = Account(amounts(f"cpu={sum(counted.values())}"))
    most = dict(counted)
    for uid, wanted, version in requests:
        some = some.reserve(uid, reservation(f"cpu={wanted}", f"cpu={counted.get(uid, 0)}", version=str(version)))
        most[uid] = max(most.get(uid, 0), wanted)
    assert printed(some.used()) == {"cpu": str(sum(most.values()))}


# -- printed formats: as additions one after the other leave them, once they are written and read again

SUMS = """
counted      | reserved                   | used
cpu=0        | cpu=1500m                  | cpu=1500m
memory=0     | memory=1500M               | memory=1500M
memory=500Mi | memory=1G                  | memory=1524288k
memory=0     | memory=1Gi memory=1G       | memory=2073741824
memory=0     | memory=1Gi memory=1Gi      | memory=2Gi
memory=1G    | memory=1Gi                 | memory=2073741824
memory=1Gi   | memory=0 memory=1Gi        | memory=2Gi
cpu=1.5      | cpu=1.5                    | cpu=3
cpu=1.500    | memory=1                   | cpu=1.500
cpu=1e3      | cpu=1                      | cpu=1001
memory=0     | memory=1e3 memory=1Ki      | memory=2024
"""


@pytest.mark.parametrize(("counted", "reserved", "used"), table(SUMS)[1:])
def test_what_is_used_is_printed_as_a_sum(counted: str, reserved: str, used: str) -> None:
    parts = {str(number): reservation(part) for number, part in enumerate(reserved.split())}
    assert printed(account(counted, **parts).used()) == texts(used)


FORMS = st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E2"])
QUANTITIES = st.builds(lambda number, form: f"{number}{form}", st.integers(0, 3000), FORMS)


@given(QUANTITIES, st.lists(QUANTITIES, max_size=5))
def test_what_is_used_is_printed_as_sequential_additions_print(counted: str, added: list[str]) -> None:
    some = Account({"x": Quantity.parse(counted)})
    for number, text in enumerate(added):
        some = some.reserve(str(number), Reservation("pods", "p", "", {"x": Quantity.parse(text)}))
    terms = [Quantity.parse(text) for text in added if Quantity.parse(text).nano]
    total = reduce(Quantity.__add__, terms, Quantity.parse(counted))
    assert str(some.used()["x"]) == str(total.stored())


# -- the text form

ODD = """
0 1 1.5 1.500 100m 0.1 1e3 1E3 12e6 1Gi 1.5Gi 1000Ki 1n 3u +5 5E 9223372036854775807 9223372036854775808 1e18
0.000000001 7Ei 100k 0Ki 1e-3
"""
ODD_QUANTITIES = st.sampled_from([Quantity.parse(text) for text in ODD.split()])
NAMES = st.sampled_from(["cpu", "pods", "count/a.b", "ä", 'quo"te', "x\\y", ""]) | st.text(max_size=5)
LISTS = st.dictionaries(NAMES, ODD_QUANTITIES, max_size=4)


@st.composite
def accounts(draw: st.DrawFn) -> Account:
    """As they are written: reservations name what is counted alone."""
    counted = draw(LISTS)
    within = st.dictionaries(st.sampled_from(sorted(counted)), ODD_QUANTITIES) if counted else st.just({})
    made = st.builds(Reservation, st.text(max_size=5), st.text(max_size=9), st.text(max_size=5), within, within)
    reservations = draw(st.dictionaries(st.text(max_size=9), made, max_size=4))
    return Account(counted, reservations, draw(st.dictionaries(st.text(max_size=5), st.integers(0, 2**63), max_size=3)))


@given(accounts(), st.text(max_size=9))
def test_an_account_is_read_as_it_was_written(some: Account, uid: str) -> None:
    found = decode(encode(some, uid), uid)
    assert found == some
    assert encode(found, uid) == encode(some, uid)
    assert printed(found.counted) == printed(some.counted)
    assert printed(found.used()) == printed(some.used())


@given(accounts())
def test_the_account_of_another_quota_is_not_taken(some: Account) -> None:
    with pytest.raises(DamagedAnnotation, match="copied from another quota"):
        decode(encode(some, QUOTA), "another")


def test_names_that_are_not_counted_are_not_written() -> None:
    some = account("cpu=1", u=reservation("cpu=1 memory=1Gi"))
    assert decode(encode(some, QUOTA), QUOTA).reservations == {UID: reservation("cpu=1")}


def test_the_text_is_short() -> None:
    """One line, each name once; 1,000 reservations stay far below what an object may carry."""
    names = "pods=1 requests.cpu=500m requests.memory=512Mi"
    many = {f"4a5f0000-0000-4000-8000-{number:012}": reservation(names, name=f"web-{number}") for number in range(1000)}
    text = encode(account(names, **many), QUOTA)
    assert text.count("requests.memory") == 1
    assert "\n" not in text
    assert len(text) < 128 * 1024


WHOLE: dict[str, Any] = {
    "v": 1,
    "quota": QUOTA,
    "names": ["cpu"],
    "counted": ["1"],
    "kinds": ["pods"],
    "r": {"u": [0, "p", "7", "t", ["2"], ["1"]]},
    "revisions": {"pods": 5},
}


def damaged(**parts: object) -> str:
    return json.dumps({**WHOLE, **parts})


DAMAGE = {
    "nothing": "",
    "no JSON": "{",
    "another type": "[]",
    "null": "null",
    "cut off": json.dumps(WHOLE)[:-5],
    "a later version": damaged(v=2),
    "no version": json.dumps({key: part for key, part in WHOLE.items() if key != "v"}),
    "no quantity": damaged(counted=["one"]),
    "an empty quantity": damaged(counted=[""]),
    "a number": damaged(counted=[1]),
    "more amounts than names": damaged(counted=["1", "2"]),
    "a kind that is not listed": damaged(kinds=[]),
    "a kind from the end": damaged(r={"u": [-1, "p", "7", "t", ["2"], []]}),
    "a short reservation": damaged(r={"u": [0, "p", "7", "t", ["2"]]}),
    "names that are none": damaged(names=[1]),
    "revisions that are none": damaged(revisions={"pods": "5"}),
    "an absurd exponent": damaged(counted=["1e999999999"]),
    "an absurd length": damaged(counted=["1" * 100_000]),
    "deep brackets": damaged()[:-1] + ', "x": ' + "[" * 5_000 + "]" * 5_000 + "}",
}


@pytest.mark.parametrize("text", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(DamagedAnnotation) as caught:
        decode(text, QUOTA)
    assert str(caught.value)
    assert "\n" not in str(caught.value)


def is_readable_or_damaged(text: str) -> bool:
    """Nothing else may come of any text."""
    try:
        decode(text, QUOTA).used()
    except DamagedAnnotation:
        return True
    return True


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("1Gi"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")))
def test_any_text_is_an_account_or_damaged(text: str) -> None:
    assert is_readable_or_damaged(text)


@given(st.sampled_from(sorted(WHOLE)), JSON_VALUES)
def test_any_part_that_is_something_else_makes_it_an_account_or_damaged(part: str, value: object) -> None:
    assert is_readable_or_damaged(damaged(**{part: value}))


@given(st.data())
def test_any_single_changed_character_makes_it_an_account_or_damaged(data: st.DataObject) -> None:
    text = damaged()
    at = data.draw(st.integers(0, len(text) - 1))
    assert is_readable_or_damaged(text[:at] + data.draw(st.characters(codec="utf-8")) + text[at + 1 :])


def test_what_is_read_can_be_judged_by() -> None:
    found = decode(damaged(), QUOTA)
    assert printed(found.used()) == {"cpu": "2"}
