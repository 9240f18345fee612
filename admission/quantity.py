"""Exact Kubernetes quantities: parsing, printing, arithmetic (Kubernetes 1.36, `resource.Quantity`).

A quantity is a number, the *format* it prints in (`DecimalSI`, `BinarySI`, `DecimalExponent`) and, where the text it
was read from is canonical enough, that text itself (the *echo*), which is printed back unchanged. Every quantity is a
whole number of 10^-9, so the number is one Python integer and nothing is ever rounded by accident; floats never occur.

Two facts of the original are kept although nobody would design them today, because they decide which text a user
reads: the echo, and the 64-bit views `value()` and `milli_value()`, which overflow for absurd numbers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent", ""]

DECIMAL_SI: Final = "DecimalSI"
BINARY_SI: Final = "BinarySI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

ERR_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
ERR_SUFFIX: Final = "unable to parse quantity's suffix"
ERR_NUMERIC: Final = "unable to parse numeric part of quantity"

MAX_TEXT: Final = 2048
"""Longest text read, in characters: far above any use, and below what makes Python's integers slow."""
MAX_EXPONENT: Final = 1000
"""Largest power of ten read in `e` notation. The original has no bound here and computes without end."""

_DECIMAL_POWERS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_POWERS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {power: suffix for suffix, power in _DECIMAL_POWERS.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

# Possessive, as the original's scanner never looks back; a text that fits nowhere would take for ever otherwise.
_SYNTAX: Final = re.compile(r"([+-]?+)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")

_MAX_INT64: Final = 2**63 - 1
_MILLI_GUARD: Final = _MAX_INT64 // 1000
_KIBI: Final = 1024 * 10**9
_LARGEST_BINARY: Final = _MAX_INT64 * 10**9
_WRAPPING_SHIFTS: Final = frozenset((1, 2, 3, 6, 9))
_CACHED_TEXT: Final = 24
"""Texts up to this length are remembered: longer ones are rare, and must not be able to fill the memory."""


class QuantityError(ValueError):
    """A text that is not a quantity. The message is the one Kubernetes gives."""


def _int64(number: int) -> int:
    """What is left of a number in 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def _divide_away(number: int, divisor: int) -> int:
    """`number / divisor` rounded away from zero."""
    return -(-number // divisor) if number >= 0 else number // divisor


class _Views(NamedTuple):
    """The 64-bit views of a quantity, and whether the first is small enough for the second to be used."""

    value: int
    milli: int
    fits_milli: bool


class Quantity:
    """An immutable quantity; compares by number alone, whatever its format (`1Gi == 1073741824`).

    `nano` is the number in units of 10^-9. `scale` and `wide` say how the original would hold it (a 64-bit integer
    times 10^scale, or a big decimal), which only the overflowing views `value` and `milli_value` can tell apart.
    """

    __slots__ = ("_text", "_views", "format", "nano", "scale", "wide")

    format: Format
    nano: int
    scale: int
    wide: bool

    def __init__(
        self, nano: int, fmt: Format = DECIMAL_SI, *, scale: int = -9, wide: bool = False, text: str | None = None
    ) -> None:
        self.nano = nano
        self.format = fmt
        self.scale = scale
        self.wide = wide
        self._text = text
        self._views: _Views | None = None

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity. Raises QuantityError with Kubernetes' text (bounds: MAX_TEXT, MAX_EXPONENT)."""
        return _parse_cached(text) if len(text) <= _CACHED_TEXT else _parse(text)

    @classmethod
    def of_count(cls, count: int) -> Quantity:
        """A whole number of things, such as pods or ports."""
        return cls(count * 10**9, DECIMAL_SI, scale=0)

    # -- printing

    def __str__(self) -> str:
        if self._text is None:
            self._text = _canonical(self.nano, self.format)
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    # -- comparison

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    def __bool__(self) -> bool:
        return self.nano != 0

    # -- arithmetic: exact; the result prints canonically

    def __add__(self, other: Quantity) -> Quantity:
        if self.scale == other.scale and self.nano and not (self.wide or other.wide):
            nano = self.nano + other.nano
            if -_ALWAYS_ROOM < nano < _ALWAYS_ROOM:  # the usual case, spelt out for speed
                return Quantity(nano, self.format, scale=self.scale)
        return self._combine(other, other.nano)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._combine(other, -other.nano)

    def _combine(self, other: Quantity, term: int) -> Quantity:
        # A receiver that is zero before the operation takes the operand's format, even if that is zero too.
        fmt = self.format if self.nano else other.format
        nano = self.nano + term
        if self.wide or other.wide:
            return Quantity(nano, fmt, wide=True)
        if not term:
            return Quantity(nano, fmt, scale=self.scale)
        scale = other.scale if not self.nano or other.scale < self.scale else self.scale
        room = _INT64_ROOM.get(scale) or _int64_room(scale)
        wide = not (-room <= nano <= room and -room <= self.nano <= room and -room <= term <= room)
        return Quantity(nano, fmt, scale=scale, wide=wide)

    def stored(self) -> Quantity:
        """What comes back where it is written and read again: the format may be another, the number is not."""
        if self.format == DECIMAL_SI:
            return self
        if self.format == BINARY_SI and self.nano % _KIBI == 0 and abs(self.nano) <= _LARGEST_BINARY:
            return self
        return Quantity.parse(str(self))

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format, scale=self.scale, wide=self.wide)

    def round_up(self, scale: int) -> Quantity:
        """Rounded away from zero to a multiple of 10^scale (scale -9 to 0); itself, echo included, where it is one."""
        unit = 10 ** (9 + scale)
        if self.nano % unit == 0:
            return self
        nano = _divide_away(self.nano, unit) * unit
        return Quantity(nano, self.format, scale=max(scale, self.scale), wide=self.wide)

    # -- 64-bit views

    def value(self) -> int:
        """The number rounded away from zero to an integer, with the original's 64-bit overflow."""
        return (self._views or self._look()).value

    def milli_value(self) -> int:
        """The number in thousandths, rounded away from zero, with the original's 64-bit overflow."""
        return (self._views or self._look()).milli

    def _look(self) -> _Views:
        value = self._scaled(0)
        self._views = views = _Views(value, self._scaled(-3), value <= _MILLI_GUARD)
        return views

    def _scaled(self, target: int) -> int:
        unit = 10 ** (9 + target)
        if self.wide:
            whole, rest = divmod(abs(self.nano), unit)
            # The original truncates and then adds one, also below zero.
            return _int64((whole if self.nano >= 0 else -whole) + (1 if rest else 0))
        number = _divide_away(self.nano, unit)
        if -(2**63) <= number <= _MAX_INT64:
            return number
        return _int64(number) if self.scale - target in _WRAPPING_SHIFTS else 0


ZERO: Final = Quantity(0, DECIMAL_SI, scale=0)
ONE: Final = Quantity.of_count(1)
UNFORMATTED_ZERO: Final = Quantity(0, "", scale=0)
"""What JSON `null` decodes to."""


def comparable(request: Quantity, limit: Quantity, bound: Quantity) -> tuple[int, int, int]:
    """The numbers by which LimitRange compares: thousandths where all are small enough for that, else integers.

    Source: Kubernetes 1.36, LimitRanger (limits are compared as 64-bit integers).
    """
    views = (request._views or request._look(), limit._views or limit._look(), bound._views or bound._look())
    if views[0].fits_milli and views[1].fits_milli and views[2].fits_milli:
        return views[0].milli, views[1].milli, views[2].milli
    return views[0].value, views[1].value, views[2].value


def value_fits_milli(quantity: Quantity) -> bool:
    """Whether the integer view is small enough to be used in thousandths."""
    return (quantity._views or quantity._look()).fits_milli


def _int64_room(scale: int) -> int:
    """The largest number of 10^-9 that a 64-bit integer times 10^scale can hold."""
    return int(_MAX_INT64 * 10 ** (scale + 9))


_ALWAYS_ROOM: Final = _int64_room(-9)
_INT64_ROOM: Final = {scale: _int64_room(scale) for scale in range(-9, 19)}


def _canonical(nano: int, fmt: Format) -> str:
    if nano == 0:
        return "0"
    sign, magnitude = ("-", -nano) if nano < 0 else ("", nano)
    if fmt == BINARY_SI and magnitude % 10**9 == 0 and magnitude >= 1024 * 10**9:
        return sign + _canonical_binary(magnitude // 10**9)
    exponent = -9
    while magnitude % 1000 == 0:
        magnitude //= 1000
        exponent += 3
    if fmt in (DECIMAL_SI, BINARY_SI):
        # Beyond E the original prints no suffix at all (1000E prints 1), and so do we.
        return f"{sign}{magnitude}{_DECIMAL_SUFFIXES.get(exponent, '')}"
    return f"{sign}{magnitude}e{exponent}" if exponent else f"{sign}{magnitude}"


def _canonical_binary(number: int) -> str:
    divisions = 0
    while number % 1024 == 0:
        number //= 1024
        divisions += 1
    return f"{number}{_BINARY_SUFFIXES[divisions] if divisions < len(_BINARY_SUFFIXES) else ''}"


class _Number(NamedTuple):
    """The parts of a quantity's text before its suffix; `integer` is without leading zeros, "0" where none is left."""

    text: str
    factor: int
    integer: str
    fraction: str
    has_digit: bool


def _parse(text: str) -> Quantity:
    match = _SYNTAX.fullmatch(text) if 0 < len(text) <= MAX_TEXT else None
    if match is None:
        raise QuantityError(ERR_FORMAT)
    sign, zeros, integer, fraction, suffix = match.groups()
    if not (integer or fraction or suffix) and fraction is None:
        return Quantity(0, DECIMAL_SI, scale=0)
    number = _Number(
        text, -1 if sign == "-" else 1, integer or "0", fraction or "", has_digit=bool(zeros or integer or fraction)
    )
    if suffix in _BINARY_POWERS:
        return _binary(number, _BINARY_POWERS[suffix])
    if suffix in _DECIMAL_POWERS:
        return _decimal(number, _DECIMAL_POWERS[suffix], DECIMAL_SI)
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None or abs(power := int(exponent[1])) > MAX_EXPONENT:
        raise QuantityError(ERR_SUFFIX)
    return _decimal(number, power, DECIMAL_EXPONENT)


_parse_cached = lru_cache(maxsize=8192)(_parse)


def _decimal(number: _Number, power: int, fmt: Format) -> Quantity:
    digits = number.integer + number.fraction
    scale = power - len(number.fraction)
    if len(digits) <= 18 and scale >= -9:
        echoes = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        nano = number.factor * int(digits) * 10 ** (scale + 9)
        return Quantity(nano, fmt, scale=scale, text=number.text if echoes else None)
    if not number.has_digit:
        raise QuantityError(ERR_NUMERIC)
    mantissa = int(digits)
    nano = mantissa * 10 ** (scale + 9) if scale >= -9 else _divide_away(mantissa, 10 ** (-9 - scale))
    return Quantity(number.factor * nano, fmt, wide=True)


def _binary(number: _Number, power: int) -> Quantity:
    places = len(number.fraction)
    if not places and len(number.integer) <= 14 - 3 * power // 10:
        whole = int(number.integer)
        nano = number.factor * (whole << power) * 10**9
        return Quantity(nano, BINARY_SI, scale=0, text=number.text if whole % 8 else None)
    if not number.has_digit:
        raise QuantityError(ERR_NUMERIC)
    mantissa = int(number.integer + number.fraction) << power
    nano = mantissa * 10 ** (9 - places) if places <= 9 else _divide_away(mantissa, 10 ** (places - 9))
    nano = min(nano, _LARGEST_BINARY)
    # A binary quantity below 1 turns decimal in the original.
    fmt: Format = DECIMAL_SI if 0 < nano < 10**9 else BINARY_SI
    return Quantity(number.factor * nano, fmt, wide=True)
