"""Quantities as they stand in JSON."""

import pytest

from admission.errors import BadCall
from admission.objects import Decoder, ResourceRequirements
from admission.quantity import ERR_FORMAT, UNFORMATTED_ZERO, ZERO, Quantity
from tests.unit.helpers import table

decode_resources = Decoder(ResourceRequirements)


def decoded(token: str) -> Quantity:
    """A quantity from the JSON of a resource list."""
    return decode_resources(f'{{"limits": {{"cpu": {token}}}}}'.encode()).limits["cpu"]


SCALARS = """
1                     | 1
0.5                   | 500m
1e3                   | 1e3
1E3                   | 1E3
1.0                   | 1
1.500                 | 1.500
-1                    | -1
-0.5                  | -500m
" 1Gi "               | 1Gi
"1.500"               | 1.500
100000000000000000000 | 100E
12345678901234567890123 | 12345678901234567890123
"100100u"             | 101m
"1n"                  | 1m
"0.1Gi"               | 107374182400m
0.0001                | 1m
"""


@pytest.mark.parametrize(("token", "prints"), table(SCALARS))
def test_a_json_scalar_is_read_as_written_and_rounded_up_to_a_thousandth(token, prints):
    assert str(decoded(token)) == prints


def test_a_json_null_is_a_zero_without_format():
    assert decoded("null") == ZERO
    assert (str(decoded("null")), decoded("null").format, UNFORMATTED_ZERO.format) == ("0", "", "")
    assert str(decoded("null") + Quantity.parse("1Gi")) == "1Gi"


@pytest.mark.parametrize("token", ['""', '"abc"', "true", "false", "[]", "{}", "[1]", '"  "', '"1 Gi"'])
def test_any_other_json_is_refused_with_the_text_of_the_original(token):
    with pytest.raises(BadCall) as caught:
        decoded(token)
    assert ERR_FORMAT in caught.value.message
    assert caught.value.status == 400
