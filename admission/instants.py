"""Instants: RFC 3339 texts to and from whole nanoseconds since 1970-01-01T00:00:00Z.

What is accepted, and the text about what is not, are those of the time package that Kubernetes and kube-throttler use
(Go 1.26, `time.Parse` with the layout RFC3339): stricter than Python in most, laxer in a one-digit hour, a comma before
the fraction, and offsets up to 24:60.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

SECOND: Final = 10**9
"""Nanoseconds in a second."""
LAYOUT: Final = "2006-01-02T15:04:05Z07:00"

_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAYS_IN_400_YEARS: Final = 146_097
_MONTH_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class InstantError(ValueError):
    """A text that is not an instant. The message is the one of Go."""


def parse_instant(text: str) -> int:
    """The instant of an RFC 3339 text, in nanoseconds. Raises InstantError."""
    return _Scanner(text.encode("utf-8", "surrogatepass")).instant()


def format_instant(instant: int) -> str:
    """The instant in UTC and whole seconds, `2024-01-01T00:00:00Z`, as Kubernetes writes times."""
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Part(NamedTuple):
    """A number of the layout: how it is written there, what reads it, its bounds and their name."""

    name: str
    digits: re.Pattern[bytes]
    low: int
    high: int
    what: str


_TWO: Final = re.compile(rb"[0-9]{2}")
_YEAR: Final = _Part("2006", re.compile(rb"[0-9]{4}"), 0, 9999, "year")
_MONTH: Final = _Part("01", _TWO, 1, 12, "month")
_DAY: Final = _Part("02", _TWO, 0, 99, "day")  # judged last, when month and year are known
_HOUR: Final = _Part("15", re.compile(rb"[0-9]{1,2}"), 0, 23, "hour")
_MINUTE: Final = _Part("04", _TWO, 0, 59, "minute")
_SECOND: Final = _Part("05", _TWO, 0, 59, "second")
_FRACTION: Final = re.compile(rb"[.,]([0-9]+)")
_OFFSET: Final = re.compile(rb"(.)(..):(..)", re.DOTALL)
_UNSHOWN: Final = re.compile(r'[\x00-\x1f"\\\x80-\xff]')


class _Scanner:
    """Reads a text from left to right, as Go does; `rest` is what is not read yet."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._rest = text

    def instant(self) -> int:
        year = self._number(_YEAR)
        month = self._number(_MONTH, b"-")
        day = self._number(_DAY, b"-")
        hour = self._number(_HOUR, b"T")
        minute = self._number(_MINUTE, b":")
        second = self._number(_SECOND, b":")
        fraction = self._fraction()
        offset = self._offset()
        if self._rest:
            raise self._error(f": extra text: {_quoted(self._rest)}")
        if not 1 <= day <= _days_in(month, year):
            raise self._error(": day out of range")
        seconds = ((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second - offset
        return seconds * SECOND + fraction

    def _number(self, part: _Part, before: bytes = b"") -> int:
        if not self._rest.startswith(before):
            raise self._unread(before.decode())
        self._rest = self._rest[len(before) :]
        match = part.digits.match(self._rest)
        if match is None:
            raise self._unread(part.name)
        number = int(match[0])
        if not part.low <= number <= part.high:
            raise self._out_of_range(part.what)
        self._rest = self._rest[match.end() :]
        return number

    def _fraction(self) -> int:
        """Digits beyond the ninth are cut off."""
        match = _FRACTION.match(self._rest)
        if match is None:
            return 0
        self._rest = self._rest[match.end() :]
        return int(match[1][:9].ljust(9, b"0"))

    def _offset(self) -> int:
        """Seconds east of Greenwich."""
        if self._rest.startswith(b"Z"):
            self._rest = self._rest[1:]
            return 0
        match = _OFFSET.match(self._rest)
        if match is None:
            raise self._unread("Z07:00")
        sign, hours_text, minutes_text = match.groups()
        hours, minutes = _offset_numbers(hours_text, minutes_text)
        if (minutes or 0) > 60:
            raise self._out_of_range("time zone offset minute")
        if (hours or 0) > 24:
            raise self._out_of_range("time zone offset hour")
        if hours is None or minutes is None or sign not in b"+-":
            raise self._unread("Z07:00")
        self._rest = self._rest[match.end() :]
        return (hours * 60 + minutes) * (60 if sign == b"+" else -60)

    def _unread(self, expected: str) -> InstantError:
        return self._error(f' as "{LAYOUT}": cannot parse {_quoted(self._rest)} as "{expected}"')

    def _out_of_range(self, what: str) -> InstantError:
        return self._error(f": {what} out of range")

    def _error(self, message: str) -> InstantError:
        return InstantError(f"parsing time {_quoted(self._text)}{message}")


def _offset_numbers(hours: bytes, minutes: bytes) -> tuple[int | None, int | None]:
    """Each None where it is not read: after hours that are none, minutes are not looked at."""
    if not _TWO.fullmatch(hours):
        return None, None
    return int(hours), int(minutes) if _TWO.fullmatch(minutes) else None


def _days_in(month: int, year: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _MONTH_LENGTHS[month - 1]


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970; the year 0 exists here, and has the calendar of the year 400."""
    if year == 0:
        return date(400, month, day).toordinal() - _DAYS_IN_400_YEARS - _EPOCH
    return date(year, month, day).toordinal() - _EPOCH


def _quoted(text: bytes) -> str:
    """In double quotes; what is not printable ASCII byte by byte, as Go's time package writes it."""
    return f'"{_UNSHOWN.sub(_shown, text.decode("latin-1"))}"'


def _shown(match: re.Match[str]) -> str:
    letter = match[0]
    return f"\\{letter}" if letter in '"\\' else f"\\x{ord(letter):02x}"
