import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.patch import add, add_members, escape


@pytest.mark.parametrize(
    ("key", "escaped"),
    [("cpu", "cpu"), ("example.com/gpu", "example.com~1gpu"), ("a~b", "a~0b"), ("~1", "~01"), ("/~", "~1~0"), ("", "")],
)
def test_a_key_is_escaped_as_a_step_of_a_pointer(key, escaped):
    assert escape(key) == escaped


def test_an_addition_is_one_operation():
    assert add("/a/b", 1) == {"op": "add", "path": "/a/b", "value": 1}


def test_members_are_added_one_by_one_where_the_object_is_there():
    assert add_members("/a", {}, {"x/y": "1", "z": "2"}) == [add("/a/x~1y", "1"), add("/a/z", "2")]


def test_members_are_added_with_their_object_where_it_is_missing():
    assert add_members("/a", None, {"x/y": "1"}) == [add("/a", {"x/y": "1"})]


@pytest.mark.parametrize("present", [None, {}, {"x": 1}])
def test_no_members_need_no_operation(present):
    assert add_members("/a", present, {}) == []


keys = st.text("ab/~01", max_size=4)


@given(st.none() | st.dictionaries(keys, st.integers(), max_size=3), st.dictionaries(keys, st.integers(), max_size=3))
def test_the_operations_add_the_members_and_keep_the_others(present, members):
    for document in ({"at": present}, {} if present is None else {"at": present}):
        result = jsonpatch.apply_patch(document, add_members("/at", present, members))
        assert (result.get("at") or {}) == {**(present or {}), **members}
