"""Applying patches."""

from __future__ import annotations

import copy

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.apiserver.patching import PatchError, apply_patch

DOCUMENT = {"a": {"b/c": 1, "d~e": [1, 2, 3]}, "": {"x": None}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/new", "value": {"a": 1}},
        {"op": "add", "path": "/a/b~1c", "value": 2},
        {"op": "add", "path": "/a/d~0e/0", "value": 0},
        {"op": "add", "path": "/a/d~0e/3", "value": 4},
        {"op": "add", "path": "/a/d~0e/-", "value": 4},
        {"op": "add", "path": "//y", "value": 1},
        {"op": "replace", "path": "/a/b~1c", "value": 2},
        {"op": "replace", "path": "/a/d~0e/2", "value": 9},
        {"op": "remove", "path": "/a"},
        {"op": "remove", "path": "/a/d~0e/0"},
        {"op": "remove", "path": "//x"},
    ],
)
def test_operations_do_what_the_standard_says(operation):
    before = copy.deepcopy(DOCUMENT)
    result = apply_patch(DOCUMENT, [operation])
    assert result == jsonpatch.apply_patch(DOCUMENT, [operation])
    assert result != DOCUMENT
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/no/where", "value": 1},
        {"op": "add", "path": "/a/d~0e/4", "value": 1},
        {"op": "add", "path": "/a/d~0e/-1", "value": 1},
        {"op": "add", "path": "/a/d~0e/x", "value": 1},
        {"op": "add", "path": "/a/b~1c/x", "value": 1},
        {"op": "add", "path": "/a/b~1c"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "value": 1},
        {"op": "replace", "path": "/new", "value": 1},
        {"op": "replace", "path": "/a/d~0e/3", "value": 1},
        {"op": "remove", "path": "/new"},
        {"op": "remove", "path": "/a/d~0e/-"},
        {"op": "spread", "path": "/a", "value": 1},
        {"op": "spread", "path": "/a/d~0e/0", "value": 1},
        {"path": "/a", "value": 1},
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_operation(operation):
    with pytest.raises(PatchError, match=f"patch cannot be applied: {operation.get('op')} {operation.get('path')}"):
        apply_patch(DOCUMENT, [operation])


def test_what_is_added_is_not_shared_with_the_patch():
    operation = {"op": "add", "path": "/new", "value": {"a": []}}
    first = apply_patch(DOCUMENT, [operation, {"op": "add", "path": "/new/a/-", "value": 1}])
    assert first["new"] == {"a": [1]}
    assert operation["value"] == {"a": []}


values = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b/", "c~"]), inner, max_size=3),
)
documents = st.dictionaries(st.sampled_from(["a", "b/", "c~"]), values, max_size=3)


@given(documents, documents)
def test_a_difference_made_by_another_library_leads_there(before, after):
    operations = jsonpatch.make_patch(before, after).patch
    for operation in operations:
        if operation["op"] == "move":
            return
    assert apply_patch(before, operations) == after
