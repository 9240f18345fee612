from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.selectors import LabelSelector, Requirement, SelectorError, is_label_value, is_qualified_name
from tests.unit.helpers import table, texts

PREFIX_253 = ".".join(["a" * 62] * 4) + ".b"


@pytest.mark.parametrize(
    "text",
    ["a", "A9", "a-b_c.d", "9", "a" * 63, "example.com/a", "x/a", "a-b.c/Name_1", "1.2/x", f"{PREFIX_253[:253]}/a"],
)
def test_a_qualified_name_is_a_name_with_or_without_a_dns_prefix(text):
    assert is_qualified_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-a",
        "a-",
        ".a",
        "a_",
        "a b",
        "a\n",
        "ä",
        "a" * 64,
        "/a",
        "a/",
        "a/b/c",
        "A.com/a",
        "a_b/c",
        "-a/b",
        "a-/b",
        "a..b/c",
        ".a/b",
        "a./b",
        f"{'a' * 254}/b",
        f"x/{'a' * 64}",
        "x/-a",
    ],
)
def test_any_other_text_is_no_qualified_name(text):
    assert not is_qualified_name(text)


@pytest.mark.parametrize("text", ["", "a", "MyValue", "my_value", "12345", "a.b-c_d", "a" * 63, "A-9"])
def test_a_label_value_is_short_and_alphanumeric_at_both_ends(text):
    assert is_label_value(text)


@pytest.mark.parametrize("text", ["bad value", "-a", "a-", "_a", "a.", "a/b", "ä", "a" * 64, "a\n", " "])
def test_any_other_text_is_no_label_value(text):
    assert not is_label_value(text)


# -- label selectors: `a=1` is a label, `b In 1 2` a requirement


def selector(line: str) -> LabelSelector:
    labels, requirements = {}, []
    for part in filter(None, (part.strip() for part in line.split(","))):
        key, _, rest = part.partition(" ")
        operator, *values = rest.split()
        if operator == "=":
            labels[key] = " ".join(values)
        else:
            requirements.append(Requirement.of(key, operator, values))
    return LabelSelector(labels, requirements)


SELECTED = """
                        |         | yes
                        | a=1     | yes
a = 1                   | a=1     | yes
a = 1                   | a=2     | no
a = 1                   | b=1     | no
a =                     | a=      | yes
a =                     |         | no
a = 1, b = 2            | a=1 b=2 | yes
a = 1, b = 2            | a=1     | no
a = 1, b Exists         | a=1     | no
a = 1, a NotIn 1        | a=1     | no
a In 1 2                | a=2     | yes
a In 1 2                | a=3     | no
a In 1 2                |         | no
a NotIn 1 2             | a=3     | yes
a NotIn 1 2             | a=2     | no
a NotIn 1 2             |         | yes
a Exists                | a=      | yes
a Exists                | b=1     | no
a DoesNotExist          | b=1     | yes
a DoesNotExist          | a=      | no
example.com/a In x      | example.com/a=x | yes
"""


@pytest.mark.parametrize(("line", "labels", "outcome"), table(SELECTED))
def test_all_that_a_label_selector_says_must_be_so(line, labels, outcome):
    assert selector(line).matches(texts(labels)) is (outcome == "yes")


BROKEN = """
a Bogus 1       | "Bogus" is not a valid label selector operator
a in 1          | "in" is not a valid label selector operator
a Gt 1          | "Gt" is not a valid label selector operator
a In            | operator In needs at least one value
a NotIn         | operator NotIn needs at least one value
a Exists 1      | operator Exists takes no values
a DoesNotExist 1 | operator DoesNotExist takes no values
a In 1 -x       | "-x" is not a valid label value
a- Exists       | "a-" is not a valid label key
a/b/c In 1      | "a/b/c" is not a valid label key
a- = 1          | "a-" is not a valid label key
a = b c         | "b c" is not a valid label value
"""


@pytest.mark.parametrize(("line", "problem"), table(BROKEN))
def test_a_label_selector_that_cannot_be_evaluated_says_why(line, problem):
    with pytest.raises(SelectorError) as caught:
        selector(line)
    assert str(caught.value) == problem


keys, values = st.sampled_from("abc"), st.sampled_from(["", "1", "2"])
some_values = st.lists(values, min_size=1, max_size=3)
requirements = st.one_of(
    st.builds(Requirement.of, keys, st.sampled_from(["In", "NotIn"]), some_values),
    st.builds(Requirement.of, keys, st.sampled_from(["Exists", "DoesNotExist"])),
)
label_sets = st.dictionaries(keys, values)


def met(requirement: Requirement, labels: dict[str, str]) -> bool:
    return LabelSelector({}, [requirement]).matches(labels)


@given(keys, some_values, label_sets)
def test_opposite_operators_never_agree(key, listed, labels):
    for one, other, operands in (("In", "NotIn", listed), ("Exists", "DoesNotExist", [])):
        assert met(Requirement.of(key, one, operands), labels) is not met(Requirement.of(key, other, operands), labels)


@given(label_sets, label_sets, st.lists(requirements, max_size=3))
def test_a_label_selector_is_the_conjunction_of_its_parts(wanted, labels, listed):
    parts = [Requirement.of(key, "In", [value]) for key, value in wanted.items()] + listed
    assert LabelSelector(wanted, listed).matches(labels) is all(met(part, labels) for part in parts)
