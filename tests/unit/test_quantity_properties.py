"""Quantities against a second reading of the rules, made of fractions and character by character."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from hypothesis import assume, example, given
from hypothesis import strategies as st

from admission.quantity import (
    BINARY_SI,
    DECIMAL_EXPONENT,
    DECIMAL_SI,
    ERR_FORMAT,
    ERR_NUMERIC,
    ERR_SUFFIX,
    ZERO,
    Quantity,
    QuantityError,
)

NANO = Fraction(1, 10**9)
LARGEST = 2**63 - 1
DECIMAL_LETTERS = "numkMGTPE"
BINARY_LETTERS = "KMGTPE"


@dataclass(frozen=True)
class Read:
    """What a text means."""

    number: Fraction
    format: str


class Refused(Exception):
    """The text of the error."""


def away_from_zero(number: Fraction, unit: Fraction) -> Fraction:
    steps = ceil(abs(number) / unit)
    return steps * unit if number >= 0 else -steps * unit


def split(text: str) -> tuple[bool, str, str, str]:
    """Whether it is negative, the digits before the point, those after it, the suffix."""
    if not text:
        raise Refused(ERR_FORMAT)
    at = 1 if text[0] in "+-" else 0

    def run(allowed: str) -> str:
        nonlocal at
        begin = at
        while at < len(text) and text[at] in allowed:
            at += 1
        return text[begin:at]

    before, after = run("0123456789"), ""
    if at < len(text) and text[at] == ".":
        at += 1
        after = run("0123456789")
    begin = at
    run("eEinumkKMGTP")
    if at < len(text) and text[at] in "+-":
        at += 1
    run("0123456789")
    if at < len(text):
        raise Refused(ERR_FORMAT)
    return text[0] == "-", before, after, text[begin:]


def multiplier(suffix: str) -> tuple[str, Fraction, int]:
    """The format, what the number is multiplied by, and the power (of ten, or of two)."""
    if suffix == "":
        return DECIMAL_SI, Fraction(1), 0
    if len(suffix) == 1 and suffix in DECIMAL_LETTERS:
        power = (-9, -6, -3, 3, 6, 9, 12, 15, 18)[DECIMAL_LETTERS.index(suffix)]
        return DECIMAL_SI, Fraction(10) ** power, power
    if len(suffix) == 2 and suffix[1] == "i" and suffix[0] in BINARY_LETTERS:
        power = 10 * (BINARY_LETTERS.index(suffix[0]) + 1)
        return BINARY_SI, Fraction(2) ** power, power
    if re.fullmatch(r"[eE][+-]?[0-9]+", suffix) and abs(int(suffix[1:])) <= 1000:
        return DECIMAL_EXPONENT, Fraction(10) ** int(suffix[1:]), int(suffix[1:])
    raise Refused(ERR_SUFFIX)


def read(text: str) -> Read:
    negative, before, after, suffix = split(text)
    fmt, factor, power = multiplier(suffix)
    if not before and not after:
        if 14 - 3 * power // 10 < 1 if fmt == BINARY_SI else power < -9:
            raise Refused(ERR_NUMERIC)
        return Read(Fraction(0), fmt)
    number = Fraction(int(before + after or "0"), 10 ** len(after)) * factor
    number = away_from_zero(number, NANO)
    if fmt == BINARY_SI:
        number = min(number, Fraction(LARGEST))
        if 0 < number < 1:
            fmt = DECIMAL_SI
    return Read(-number if negative else number, fmt)


def printed(number: Fraction, fmt: str) -> str:
    if number == 0:
        return "0"
    sign, size = ("-" if number < 0 else ""), abs(number)
    if fmt == BINARY_SI and size >= 1024 and size.denominator == 1:
        divisions = 0
        while (size / 1024).denominator == 1:
            size, divisions = size / 1024, divisions + 1
        return f"{sign}{size}{['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei', *[''] * 2000][divisions]}"
    exponent = -9
    while (size / Fraction(10) ** (exponent + 3)).denominator == 1:
        exponent += 3
    mantissa = size / Fraction(10) ** exponent
    assert mantissa.denominator == 1
    if fmt == DECIMAL_EXPONENT:
        return f"{sign}{mantissa}e{exponent}" if exponent else f"{sign}{mantissa}"
    letters = dict(zip(range(-9, 19, 3), ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), strict=True))
    return f"{sign}{mantissa}{letters.get(exponent, '')}"


def outcome(read_it: Callable[[], Fraction], error: type[Exception]) -> Fraction | str:
    """The number, or the text of the error."""
    try:
        return read_it()
    except error as caught:
        return str(caught)


def number_of(quantity: Quantity) -> Fraction:
    return quantity.nano * NANO


def canonical(quantity: Quantity) -> str:
    return str(quantity + ZERO)


# -- what is drawn

suffixes = st.sampled_from(["", *DECIMAL_LETTERS, *(f"{letter}i" for letter in BINARY_LETTERS)]) | st.builds(
    "{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 40)
)


def digits(most: int) -> st.SearchStrategy[str]:
    return st.text("0123456789", min_size=1, max_size=most)


def numbers(most: int) -> st.SearchStrategy[str]:
    return st.builds(
        "{}{}{}".format,
        st.sampled_from(["", "", "-", "+"]),
        digits(most) | st.builds("{}{}".format, digits(2), st.integers(1, most).map(lambda count: "0" * count)),
        st.just("") | st.just(".") | digits(most).map(".{}".format),
    )


small_texts = st.builds("{}{}".format, numbers(6), suffixes)
any_texts = small_texts | st.builds("{}{}".format, numbers(400), suffixes)
quantities = any_texts.map(Quantity.parse)
scribbles = st.text("0013579+-.eEinumkKMGTP x", max_size=8) | st.text("0011.+-eEiKm", max_size=6)


# -- reading and printing


@given(any_texts)
def test_a_text_is_read_exactly_at_any_size(text):
    expected = read(text)
    found = Quantity.parse(text)
    assert (number_of(found), found.format) == (expected.number, expected.format)


@given(scribbles)
@example("1e1001")
@example("1e-1000")
@example(".e-10")
@example(".Ti")
@example("Pi")
def test_any_scribble_is_read_or_refused_as_the_scanner_says(text):
    expected = outcome(lambda: read(text).number, Refused)
    assert outcome(lambda: number_of(Quantity.parse(text)), QuantityError) == expected


@given(quantities)
def test_a_calculated_quantity_prints_canonically(quantity):
    assert canonical(quantity) == printed(number_of(quantity), quantity.format)


@given(small_texts)
def test_what_prints_is_the_text_itself_or_its_canonical_form(text):
    quantity = Quantity.parse(text)
    assert str(quantity) in (text, canonical(quantity))


@given(quantities)
def test_what_prints_reads_back_as_the_same_number(quantity):
    assume(quantity.format != DECIMAL_SI or quantity.nano % 10**30)  # beyond E the suffix is lost: 1000E prints 1
    assert Quantity.parse(str(quantity)) == quantity
    assert Quantity.parse(canonical(quantity)) == quantity


@given(quantities)
def test_canonical_text_is_canonical(quantity):
    text = canonical(quantity)
    # A binary number without a suffix comes back as a decimal one: 1000000 prints 1M the next time.
    assume(quantity.format != BINARY_SI or not text[-1].isdigit())
    assert canonical(Quantity.parse(text)) == text


# -- arithmetic


@given(quantities, quantities)
def test_sums_and_differences_are_exact(left, right):
    assert number_of(left + right) == number_of(left) + number_of(right)
    assert number_of(left - right) == number_of(left) - number_of(right)
    assert (left + right).format == (left if left else right).format
    assert (left - right).format == (left if left else right).format


@given(quantities, quantities, quantities)
def test_the_number_of_a_sum_does_not_depend_on_the_order(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b) - b == a
    assert a - b == -(b - a)


@given(quantities, quantities)
def test_a_sum_prints_canonically(left, right):
    total = left + right
    assert str(total) == printed(number_of(left) + number_of(right), total.format)


@given(small_texts.map(Quantity.parse), small_texts.map(Quantity.parse))
def test_a_sum_that_is_stored_and_read_again_has_the_format_of_what_was_printed(left, right):
    total = left + right
    assume(total and abs(number_of(total)) <= LARGEST)
    again = total.stored()
    assert (again, str(again)) == (total, str(total))
    assert again.format == read(str(total)).format


@given(quantities, quantities)
def test_comparisons_are_those_of_the_numbers(left, right):
    a, b = number_of(left), number_of(right)
    assert (left < right, left <= right, left == right, left >= right, left > right) == (
        a < b,
        a <= b,
        a == b,
        a >= b,
        a > b,
    )


@given(quantities, st.sampled_from([-9, -6, -3, 0]))
def test_rounding_goes_away_from_zero(quantity, scale):
    rounded = quantity.round_up(scale)
    assert number_of(rounded) == away_from_zero(number_of(quantity), Fraction(10) ** scale)
    assert rounded.format == quantity.format
    assert rounded.round_up(scale) is rounded


@given(small_texts.map(Quantity.parse))
def test_the_integer_views_of_moderate_numbers_round_up(quantity):
    assume(0 <= number_of(quantity) <= LARGEST // 1000)
    assert quantity.value() == ceil(number_of(quantity))
    assert quantity.milli_value() == ceil(number_of(quantity) * 1000)


@given(st.lists(small_texts.map(Quantity.parse), min_size=1, max_size=6))
def test_the_integer_views_of_moderate_sums_round_up(parts):
    total = sum(parts[1:], parts[0])
    assume(0 <= number_of(total) <= LARGEST // 1000)
    assert total.value() == ceil(number_of(total))
    assert total.milli_value() == ceil(number_of(total) * 1000)
