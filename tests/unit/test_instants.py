"""Instants: what Go's time package made of each of these texts (`time.Parse`, layout RFC3339, Go 1.26)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.instants import SECOND, InstantError, format_instant, parse_instant
from tests.unit.helpers import table

READ = """
1970-01-01T00:00:00Z           | 0                     | 0
2019-02-01T00:00:00Z           | 1548979200            | 0
2019-02-01T00:00:00+09:00      | 1548946800            | 0
2019-02-01T00:00:00-07:30      | 1549006200            | 0
2019-02-01T00:00:00-00:00      | 1548979200            | 0
2019-02-01T00:00:00+24:60      | 1548889200            | 0
2019-02-01T00:00:00.5Z         | 1548979200            | 500000000
2019-02-01T00:00:00,5Z         | 1548979200            | 500000000
2019-02-01T00:00:00.000000001Z | 1548979200            | 1
2019-02-01T00:00:00.1234567899999+09:00 | 1548946800   | 123456789
2019-02-01T7:00:00Z            | 1549004400            | 0
2024-02-29T23:59:59Z           | 1709251199            | 0
0001-01-01T00:00:00Z           | -62135596800          | 0
0000-02-29T00:00:00Z           | -62162121600          | 0
0000-01-01T00:00:00+24:00      | -62167305600          | 0
9999-12-31T23:59:59-24:00      | 253402387199          | 0
"""


@pytest.mark.parametrize(("text", "seconds", "nanoseconds"), table(READ))
def test_an_instant_is_read_to_the_nanosecond(text, seconds, nanoseconds):
    assert parse_instant(text) == int(seconds) * SECOND + int(nanoseconds)


REFUSED = r"""
error                       | cannot parse "error" as "2006"
2019                        | cannot parse "" as "-"
20a9-02-01T00:00:00Z        | cannot parse "20a9-02-01T00:00:00Z" as "2006"
2019-2-01T00:00:00Z         | cannot parse "2-01T00:00:00Z" as "01"
2019-02-1T00:00:00Z         | cannot parse "1T00:00:00Z" as "02"
2019-02-01                  | cannot parse "" as "T"
2019-02-01 00:00:00Z        | cannot parse " 00:00:00Z" as "T"
2019-02-01t00:00:00Z        | cannot parse "t00:00:00Z" as "T"
2019-02-01Tx                | cannot parse "x" as "15"
2019-02-01T00:0:00Z         | cannot parse "0:00Z" as "04"
2019-02-01T00:00            | cannot parse "" as ":"
2019-02-01T00:00:0Z         | cannot parse "0Z" as "05"
2019-02-01T00:00:00         | cannot parse "" as "Z07:00"
2019-02-01T00:00:00.Z       | cannot parse ".Z" as "Z07:00"
2019-02-01T00:00:00z        | cannot parse "z" as "Z07:00"
2019-02-01T00:00:00+0900    | cannot parse "+0900" as "Z07:00"
2019-02-01T00:00:00+9:00    | cannot parse "+9:00" as "Z07:00"
2019-02-01T00:00:00*09:00   | cannot parse "*09:00" as "Z07:00"
2019-02-01T00:00:00+09:a0   | cannot parse "+09:a0" as "Z07:00"
2019-02-01T00:00:00é9:00    | cannot parse "\xc3\xa99:00" as "Z07:00"
2019-02-01T00:00:00"\       | cannot parse "\"\\" as "Z07:00"
"""
JUDGED = r"""
2019-13-01T00:00:00Z        | month out of range
2019-00-01T00:00:00Z        | month out of range
2019-02-30T00:00:00Z        | day out of range
2019-02-00T00:00:00Z        | day out of range
1900-02-29T00:00:00Z        | day out of range
2019-02-01T24:00:00Z        | hour out of range
2019-02-01T00:60:00Z        | minute out of range
2019-02-01T00:00:60Z        | second out of range
2019-02-01T00:00:00+25:00   | time zone offset hour out of range
2019-02-01T00:00:00*25:00   | time zone offset hour out of range
2019-02-01T00:00:00+25:a0   | time zone offset hour out of range
2019-02-01T00:00:00+25:61   | time zone offset minute out of range
2019-02-01T00:00:00Zulu     | extra text: "ulu"
2019-02-30T00:00:00Z+09:00  | extra text: "+09:00"
"""


def refusal(text: str) -> str:
    with pytest.raises(InstantError) as caught:
        parse_instant(text)
    return str(caught.value)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("é", r"\xc3\xa9")
    return f'"{escaped}"'


@pytest.mark.parametrize(("text", "reason"), [*table(REFUSED), ("", 'cannot parse "" as "2006"')])
def test_what_is_no_instant_is_refused_where_reading_stops(text, reason):
    assert refusal(text) == f'parsing time {quoted(text)} as "2006-01-02T15:04:05Z07:00": {reason}'


@pytest.mark.parametrize(("text", "reason"), table(JUDGED))
def test_what_cannot_be_is_refused_by_name(text, reason):
    assert refusal(text) == f"parsing time {quoted(text)}: {reason}"


def test_the_day_is_judged_after_the_whole_text_was_read():
    assert 'cannot parse "z" as "Z07:00"' in refusal("2019-02-99T00:00:00z")


moments = st.datetimes(timezones=st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m))))


@given(moments)
def test_what_python_writes_is_read_as_the_same_instant(moment):
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    expected = (elapsed.days * 86400 + elapsed.seconds) * SECOND + elapsed.microseconds * 1000
    assert parse_instant(moment.isoformat()) == expected


@given(st.integers(0, 10**10), st.integers(0, SECOND - 1))
def test_an_instant_is_written_in_utc_and_whole_seconds(seconds, nanoseconds):
    text = format_instant(seconds * SECOND + nanoseconds)
    assert text.endswith("Z")
    assert parse_instant(text) == seconds * SECOND


@given(st.text(max_size=18))
def test_a_text_that_is_too_short_is_always_refused(text):
    assert refusal(text).startswith('parsing time "')
