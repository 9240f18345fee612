import copy
import time
from itertools import pairwise

import pytest

from admission.quantity import (
    BINARY_SI,
    DECIMAL_EXPONENT,
    DECIMAL_SI,
    ERR_FORMAT,
    ERR_NUMERIC,
    ERR_SUFFIX,
    ONE,
    ZERO,
    Quantity,
    QuantityError,
    comparable,
)
from tests.unit.helpers import table
from tests.unit.quantity_tables import BINARY, DECIMAL, EXPONENT, OPERATIONS

FORMATS = {"D": DECIMAL_SI, "B": BINARY_SI, "X": DECIMAL_EXPONENT, "-": ""}


def q(text: str) -> Quantity:
    return Quantity.parse(text)


def calculated(expression: str) -> Quantity:
    """Left to right, as the original is called."""
    first, *rest = expression.replace("(", "").replace(")", "").split()
    result = q(first)
    for sign, operand in zip(rest[::2], rest[1::2], strict=True):
        result = result + q(operand) if sign == "+" else result - q(operand)
    return result


def negated_twice(quantity: Quantity) -> Quantity:
    negated = -quantity
    return -negated


# -- reading

FORMAT_ERRORS = """
1 Gi | 1,5 | 1_000 | 0x10 | 1e3.5 | 1e3Ki | 1.2.3 | ..5 | 1..5 | 1kb | 1KB | 1B | 1g | 1t | 1gi | 1N | 1U
abc | NaN | inf | 1/2 | 1Exa | 1e5E | 1e5- | 1e-+3 | 1Gi. | 1EI | 1µ | µ | ١ | 1٠ | 1e٣ | Infinity
"""
EDGED = ["", " ", " 1", "1 ", "1Gi ", "1\n", "\t1", "1\u00a0Gi"]
SUFFIX_ERRORS = """
1K | 1mi | 1ki | 1mm | 1ii | 1Mii | 1e | 1e- | 1e+ | 1EE | 1Gi5 | 2Ki2 | 1u1 | 5m5 | m5 | --5 | 1+1 | +-5 | 1kk | 1iK
"""


def cells(text: str) -> list[str]:
    return [cell for row in table(text) for cell in row]


@pytest.mark.parametrize("text", [*EDGED, *cells(FORMAT_ERRORS)])
def test_a_text_of_another_shape_is_refused(text):
    with pytest.raises(QuantityError) as caught:
        q(text)
    assert str(caught.value) == ERR_FORMAT


@pytest.mark.parametrize("text", cells(SUFFIX_ERRORS))
def test_an_unknown_suffix_is_refused(text):
    with pytest.raises(QuantityError) as caught:
        q(text)
    assert str(caught.value) == ERR_SUFFIX


@pytest.mark.parametrize("text", ["Ei", "Pi", "+Ei", "-Pi", ".Ei"])
def test_a_suffix_alone_is_refused_where_the_original_reads_it_slowly(text):
    with pytest.raises(QuantityError) as caught:
        q(text)
    assert str(caught.value) == ERR_NUMERIC


def test_the_errors_are_those_of_the_original():
    assert ERR_FORMAT == ("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    assert ERR_SUFFIX == "unable to parse quantity's suffix"
    assert ERR_NUMERIC == "unable to parse numeric part of quantity"


@pytest.mark.parametrize("text", [".", "+", "-", "m", "E", "e5", "Gi", "Ti", "n", "-m", "0", "00", "0.", ".0"])
def test_a_text_without_a_digit_that_counts_is_zero(text):
    assert q(text) == ZERO
    assert str(q(text)) == "0"


@pytest.mark.parametrize(
    ("text", "fmt"), [("0", "D"), ("00", "D"), ("0Ki", "B"), ("0e3", "X"), ("0m", "D"), ("0Ei", "B")]
)
def test_zero_keeps_the_format_of_its_suffix(text, fmt):
    assert (str(q(text)), q(text).format) == ("0", FORMATS[fmt])


@pytest.mark.parametrize("length", [2049, 100_000, 10_000_000])
@pytest.mark.parametrize("digit", ["0", "1", ".", "e", "+"])
def test_a_text_of_more_than_2048_characters_is_refused(digit, length):
    with pytest.raises(QuantityError):
        q("1" + digit * (length - 1))


def test_a_text_of_2048_characters_is_read_exactly():
    assert q("1" * 2048).nano == int("1" * 2048) * 10**9
    assert str(q("1" * 2048)) == "1" * 2048
    assert q("0." + "0" * 2045 + "1") == q("1n")


@pytest.mark.parametrize(
    "text",
    ["1e999999999", "1e2147483648", "1e1001", "1E-1001", "1e-999999999", "1e99999999999999999999", "0e1001", "e1001"],
)
def test_an_exponent_beyond_1000_is_refused_at_once(text):
    begin = time.perf_counter()
    with pytest.raises(QuantityError):
        q(text)
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize(
    "text",
    [
        "0" * 2047 + "x",
        "1" * 2047 + "x",
        "0" * 1023 + "." + "0" * 1023 + "x",
        "0" * 700 + "1" * 700 + "x",
        "E" * 2047 + ".",
    ],
    ids=["zeros", "ones", "zeros and a point", "zeros and ones", "letters"],
)
def test_a_long_text_that_fits_nowhere_is_refused_without_trying_every_way_to_read_it(text):
    with pytest.raises(QuantityError, match="must match"):
        q(text)


def test_an_exponent_of_1000_is_read_exactly():
    assert q("1e1000").nano == 10**1009
    assert str(q("1e1000") + ZERO) == "10e999"
    assert q("1e-1000") == q("1n")


# -- printing


@pytest.mark.parametrize(("text", "prints", "canonical", "fmt"), table(DECIMAL + BINARY + EXPONENT))
def test_a_quantity_prints_as_the_original_does(text, prints, canonical, fmt):
    read = q(text)
    assert (str(read), read.format) == (prints, FORMATS[fmt])
    assert str(read + ZERO) == canonical
    assert str(read - ZERO) == canonical
    assert str(negated_twice(read)) == canonical


INTEGERS = """
512        | 512        | 512
1000       | 1k         | 1k
1023       | 1023       | 1023
1024       | 1Ki        | 1024
1025       | 1025       | 1025
1536       | 1536       | 1536
2048       | 2Ki        | 2048
1000000    | 1000000    | 1M
1536000    | 1500Ki     | 1536k
1048576    | 1Mi        | 1048576
1524288000 | 1524288000 | 1524288k
1610612736 | 1536Mi     | 1610612736
-1024      | -1Ki       | -1024
-1000      | -1k        | -1k
0          | 0          | 0
"""


@pytest.mark.parametrize(("number", "binary", "decimal"), table(INTEGERS))
def test_an_integer_prints_by_its_format(number, binary, decimal):
    assert str(Quantity(int(number) * 10**9, BINARY_SI)) == binary
    assert str(Quantity(int(number) * 10**9, DECIMAL_SI)) == decimal


def test_a_binary_number_that_is_not_whole_prints_in_thousandths():
    assert str(q("1Ki") + q("1m")) == "1024001m"
    assert str(q("1Ki") - q("1n")) == "1023999999999n"


def test_a_quantity_without_format_prints_with_an_exponent():
    assert [str(Quantity(n * 10**9, "")) for n in (0, 7, 1000, 10_000)] == ["0", "7", "1e3", "10e3"]


def test_a_count_prints_as_a_decimal_number():
    assert [str(Quantity.of_count(n)) for n in (0, 1, 32, 1000)] == ["0", "1", "32", "1k"]
    assert str(ONE) == "1"


ECHOED = (
    "+5 | 01 | 5. | 1E3 | 1.500 | 1.Gi | 1e+3 | 1e0 | 100.035k | 01Ki | 10.035M | 123456789.123456789 | 1.001 | +1Ki"
)


@pytest.mark.parametrize("text", cells(ECHOED))
def test_the_spelling_survives_copies_and_a_rounding_that_changes_nothing(text):
    kept = [copy.copy(q(text)), copy.deepcopy(q(text)), q(text).round_up(-9), q(str(q(text)))]
    assert {str(copied) for copied in kept} == {text}


@pytest.mark.parametrize("text", cells(ECHOED))
def test_the_spelling_goes_with_every_calculation(text):
    changed = [q(text) + ZERO, q(text) - ZERO, ZERO + q(text), negated_twice(q(text))]
    assert text not in {str(result) for result in changed}
    assert {result.nano for result in changed} == {q(text).nano}


SPELLINGS = """
+8Ki | 8Ki
016Gi | 16Gi
+1000 | 1k
01000 | 1k
1.0000 | 1
+1.0 | 1
+0.500 | 500m
+1e1 | 10
+123456789012345678 | +123456789012345678
+1234567890123456789 | 1234567890123456789
+12345678901234567.8 | 12345678901234567800m
+1.000000001 | +1.000000001
+1.0000000001 | 1000000001n
+1n | +1n
+0.1n | 1n
+12345678901Ki | +12345678901Ki
+123456789011Ki | 123456789011Ki
+12345679Mi | +12345679Mi
+123456789Mi | 123456789Mi
+12345Gi | +12345Gi
+123457Gi | 123457Gi
+99Ti | +99Ti
+999Ti | 999Ti
+1Pi | 1Pi
+1Ei | 1Ei
+1.0Gi | 1Gi
"""


@pytest.mark.parametrize(("text", "prints"), table(SPELLINGS))
def test_the_spelling_is_kept_only_where_the_original_takes_it_for_canonical(text, prints):
    assert str(q(text)) == prints


def test_the_spelling_goes_with_a_rounding_that_changes_the_number():
    assert str(q("123456789.123456789").round_up(-3)) == "123456789124m"
    assert str(q("1.500").round_up(0)) == "2"


# -- arithmetic


@pytest.mark.parametrize(("expression", "prints", "fmt"), table(OPERATIONS))
def test_a_sum_or_difference_is_exact_and_takes_its_format_from_the_receiver(expression, prints, fmt):
    result = calculated(expression)
    assert (str(result), result.format) == (prints, FORMATS[fmt])


SEVERAL = "0 1m 500m 1 1.500 1k 1e3 1000 1Ki 1G 1Gi 1Ti 8Ei 100E 1e30"


def test_quantities_compare_by_number_whatever_their_format():
    for left, right in (("1Gi", "1073741824"), ("1000m", "1"), ("1e3", "1k"), ("0.1n", "1n"), ("8Ei", "16Ei")):
        assert q(left) == q(right)
        assert hash(q(left)) == hash(q(right))
        assert q(left) <= q(right) <= q(left)
        assert not q(left) < q(right)
        assert not q(left) > q(right)
    assert q("1G") < q("1Gi")
    assert q("1Gi") > q("1G")
    assert q("1Gi") >= q("1G")
    assert q("-1") < ZERO
    assert q("1") != 1


def test_quantities_are_ordered():
    ordered = [q(text) for text in SEVERAL.replace("1e3 1000 ", "").split()]
    assert all(smaller < larger for smaller, larger in pairwise(ordered))
    assert max(ordered) == q("1e30")
    assert min(ordered) == ZERO


def test_only_zero_is_false():
    assert [bool(q(text)) for text in ("0", "0Gi", "1n", "-1n", "1E")] == [False, False, True, True, True]


ROUNDING = """
1001m     | 0  | 2
1000m     | 0  | 1
0.1Gi     | 0  | 107374183
-1.1Ki    | 0  | -1127
-1.5      | 0  | -2
100100u   | -3 | 101m
1n        | -3 | 1m
0.1Gi     | -3 | 107374182400m
-100100u  | -3 | -101m
1e-1      | 0  | 1
1.1E-9    | -3 | 1e-3
"""


@pytest.mark.parametrize(("text", "scale", "prints"), table(ROUNDING))
def test_rounding_goes_away_from_zero_and_keeps_the_format(text, scale, prints):
    rounded = q(text).round_up(int(scale))
    assert (str(rounded), rounded.format) == (prints, q(text).format)
    assert (rounded == q(text)) is (q(text).nano % 10 ** (9 + int(scale)) == 0)


def test_negation_keeps_the_format():
    assert [(str(-q(text)), (-q(text)).format) for text in ("1Gi", "1e3", "5")] == [
        ("-1Gi", BINARY_SI),
        ("-1e3", DECIMAL_EXPONENT),
        ("-5", DECIMAL_SI),
    ]


# -- 64-bit views

VIEWS = """
1m                   | 1                    | 1
1500m                | 2                    | 1500
0.1Ki                | 103                  | 102400
100100u              | 1                    | 101
1n                   | 1                    | 1
0                    | 0                    | 0
-1.5                 | -2                   | -1500
10E                  | 0                    | 0
100E                 | 0                    | 0
1e19                 | 0                    | 0
1e30                 | 0                    | 0
1E                   | 1000000000000000000  | 0
9E                   | 9000000000000000000  | 0
999999999999999999   | 999999999999999999   | 3875820019684211736
9223372036854775807  | 9223372036854775807  | -1000
9223372036854775808  | -9223372036854775808 | 0
18446744073709551616 | 0                    | 0
8Ei                  | 9223372036854775807  | -1000
-1.1Ki               | -1125                | -1126400
"""


@pytest.mark.parametrize(("text", "value", "milli"), table(VIEWS))
def test_the_64_bit_views_round_up_and_overflow_as_in_the_original(text, value, milli):
    assert (q(text).value(), q(text).milli_value()) == (int(value), int(milli))
    assert (q(text).value(), q(text).milli_value()) == (int(value), int(milli))  # they are remembered


def test_what_the_original_holds_in_big_decimals_stays_there():
    assert (q("9E") + q("9E")).value() == 0
    assert (q("9E") + q("1m") + q("9E")).value() == 18 * 10**18 + 1 - 2**64
    assert [n.value() for n in (q("-1.1Ki") + ZERO, ZERO + q("-1.1Ki"), -q("1.1Ki"))] == [-1125] * 3
    assert q("-1.0001Ki").round_up(-3).value() == -1023
    assert (q("-1.5") + q("-0.5001")).value() == -3


COMPARABLE = """
1 1500m 1001m                           | 1000 1500 1001
9223372036854775 1m 0                   | 9223372036854775000 1 0
9223372036854776 1500m 100m             | 9223372036854776 2 1
9223372036854775500m 0 1m               | 9223372036854776 0 1
100E 1500m 1                            | 0 1500 1000
"""


@pytest.mark.parametrize(("texts", "numbers"), table(COMPARABLE))
def test_thousandths_are_compared_only_where_all_are_small_enough(texts, numbers):
    request, limit, bound = map(q, texts.split())
    assert list(comparable(request, limit, bound)) == [int(number) for number in numbers.split()]
