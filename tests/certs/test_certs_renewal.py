from datetime import datetime, timedelta, timezone

import pytest
from certs_helpers import DAY, NOW, foreign
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import bundle, needs_renewal, renewal_time
from certs._renewal import utc

SECOND = timedelta(seconds=1)


def made(begin: int, end: int):
    """A certificate that lives from one day to another, counted from NOW."""
    return foreign(begin=NOW + begin * DAY, end=NOW + end * DAY, name=f"{begin} to {end}")[0]


EXPIRED, OLD, CURRENT = made(-30, -1), made(-20, 10), made(-1, 30)


@pytest.mark.parametrize(("begin", "end", "renew"), [(0, 90, 60), (0, 3, 2), (-30, 60, 30), (-90, -60, -70)])
def test_a_certificate_is_to_be_renewed_two_thirds_into_its_life(begin, end, renew):
    assert renewal_time(made(begin, end)) == NOW + renew * DAY


@pytest.mark.parametrize(
    ("after", "due"), [(-SECOND, False), (timedelta(0), True), (SECOND, True), (100 * DAY, True), (-100 * DAY, False)]
)
def test_renewal_is_needed_from_that_second_on(after, due):
    certificate = made(0, 90)
    assert needs_renewal(certificate, NOW + 60 * DAY + after) is due


def test_the_time_zone_of_now_makes_no_difference():
    certificate = made(0, 90)
    for hours in (-11, 0, 14):
        zone = timezone(timedelta(hours=hours))
        assert needs_renewal(certificate, (NOW + 60 * DAY).astimezone(zone))
        assert not needs_renewal(certificate, (NOW + 60 * DAY - SECOND).astimezone(zone))


def test_a_moment_without_a_time_zone_is_refused():
    with pytest.raises(ValueError, match="time zone"):
        needs_renewal(CURRENT, datetime(2030, 1, 1))


def test_a_moment_is_cut_to_the_second_as_in_certificates():
    assert utc(NOW + timedelta(microseconds=999_999)) == NOW


@pytest.mark.parametrize(
    ("current", "previous", "expected"),
    [
        (CURRENT, [], [CURRENT]),
        (CURRENT, [OLD], [CURRENT, OLD]),
        (CURRENT, [EXPIRED], [CURRENT]),
        (CURRENT, [EXPIRED, OLD, EXPIRED], [CURRENT, OLD]),
        (CURRENT, [CURRENT, OLD, OLD], [CURRENT, OLD]),
        (EXPIRED, [OLD], [EXPIRED, OLD]),
    ],
    ids=["alone", "new first", "expired dropped", "the living kept", "no doubles", "the current one always"],
)
def test_a_bundle_is_the_current_ca_and_the_previous_ones_that_live(current, previous, expected):
    assert bundle(current, previous, NOW) == tuple(expected)


def test_the_last_second_of_a_ca_still_counts():
    assert bundle(CURRENT, [OLD], NOW + 10 * DAY) == (CURRENT, OLD)
    assert bundle(CURRENT, [OLD], NOW + 10 * DAY + SECOND) == (CURRENT,)


POOL = [made(-20, day) for day in range(-4, 5)]


@settings(deadline=None)
@given(st.sampled_from(POOL), st.lists(st.sampled_from(POOL), max_size=12), st.integers(-6, 6))
def test_a_bundle_made_of_a_bundle_is_the_same(current, previous, day):
    now = NOW + day * DAY
    made_once = bundle(current, previous, now)
    assert made_once[0] == current
    assert len(set(made_once)) == len(made_once)
    assert set(made_once[1:]) <= set(previous)
    assert bundle(made_once[0], made_once[1:], now) == made_once
