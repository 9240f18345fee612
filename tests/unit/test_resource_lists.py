import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.quantity import Quantity
from admission.resource_lists import add_into, growth, max_into, pretty, restricted
from tests.unit.helpers import amounts, printed, table, texts

ADDED = """
cpu=100m            | cpu=100m             | cpu=200m
cpu=100m            |                      | cpu=100m
                    | cpu=1.500            | cpu=1.500
cpu=1.500           | cpu=0                | cpu=1500m
cpu=1 memory=1Gi    | memory=1Gi pods=1    | cpu=1 memory=2Gi pods=1
memory=0            | memory=1500M         | memory=1500M
memory=500Mi        | memory=1G            | memory=1524288000
cpu=1               | cpu=-1               | cpu=0
"""
LARGER = """
cpu=100m            | cpu=200m             | cpu=200m
cpu=200m            | cpu=100m             | cpu=200m
cpu=1 memory=1Gi    | memory=2Gi pods=1    | cpu=1 memory=2Gi pods=1
cpu=1.000           | cpu=1                | cpu=1
memory=1Gi          | memory=1073741824    | memory=1Gi
memory=1073741824   | memory=1Gi           | memory=1073741824
                    | cpu=0                | cpu=0
cpu=0               | cpu=-1               | cpu=0
"""
GROWN = """
cpu=200m            | cpu=50m              | cpu=150m
cpu=200m            | cpu=200m             |
cpu=50m             | cpu=200m             |
cpu=1 memory=1Gi    | cpu=500m             | cpu=500m memory=1Gi
cpu=1               | memory=1Gi           | cpu=1
cpu=0 pods=1        |                      | pods=1
cpu=-1              |                      |
memory=15Gi         | memory=10Gi          | memory=5Gi
cpu=1.500           |                      | cpu=1.500
cpu=1.500           | cpu=0                | cpu=1500m
"""


@pytest.mark.parametrize(("first", "second", "total"), table(ADDED))
def test_lists_add_per_name_over_the_union(first, second, total):
    result = amounts(first)
    add_into(result, amounts(second))
    assert printed(result) == texts(total)


@pytest.mark.parametrize(("first", "second", "larger"), table(LARGER))
def test_the_larger_is_kept_per_name_and_the_first_of_equals(first, second, larger):
    result = amounts(first)
    max_into(result, amounts(second))
    assert printed(result) == texts(larger)


@pytest.mark.parametrize(("new", "old", "grown"), table(GROWN))
def test_growth_is_what_is_more_and_never_negative(new, old, grown):
    assert printed(growth(amounts(new), amounts(old))) == texts(grown)


def test_a_restricted_list_has_only_the_names_asked_for():
    assert printed(restricted(amounts("a=1 b=2 c=3"), ["c", "x", "a"])) == {"c": "3", "a": "1"}


def test_a_list_prints_sorted_by_name():
    listed = (
        "pods=10 services=10 replicationcontrollers=10 services.nodeports=10 "
        "requests.cpu=100m requests.memory=100Mi limits.cpu=100m limits.memory=100Mi"
    )
    assert pretty(amounts(listed)) == (
        "limits.cpu=100m,limits.memory=100Mi,pods=10,replicationcontrollers=10,"
        "requests.cpu=100m,requests.memory=100Mi,services=10,services.nodeports=10"
    )
    assert pretty(amounts("b=1.500 B=1 a=1024Ki")) == "B=1,a=1Mi,b=1.500"
    assert pretty({}) == ""


lists = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9).map(Quantity.of_count))


@given(lists, lists)
def test_growth_added_to_the_old_covers_the_new(new, old):
    total = dict(old)
    add_into(total, growth(new, old))
    largest = dict(old)
    max_into(largest, {name: amount for name, amount in new.items() if amount})
    assert total == largest
