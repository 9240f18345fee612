"""Which pods a throttle is about, and finding the throttles of a pod.

S1 to S22 are the cases by which kube-throttler's selectors are described; none of them is decided anew here but S3.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.selectors import Labels, SelectorError
from admission.throttle.index import ThrottleIndex
from admission.throttle.policy import ThrottleKey, ThrottlePolicy, compile_throttle
from tests.unit.helpers import Json, table, texts
from tests.unit.throttles import THROTTLER, policy, read_throttle, terms_json, throttle_json

THROTTLE = ThrottleKey("ns", "t")
CLUSTER_THROTTLE = ThrottleKey("", "ct")


def answer(one: ThrottlePolicy, labels: Labels, namespace_labels: Labels | None = None) -> str:
    """`yes`, `no` or `error`: and the index says the same."""
    try:
        said = "yes" if one.matches("ns", labels, namespace_labels or {}) else "no"
    except SelectorError:
        said = "error"
    found = ThrottleIndex([one], THROTTLER).affecting("ns", labels, namespace_labels or {})
    assert found.policies == ([one] if said == "yes" else [])
    assert [broken for broken, _ in found.broken] == ([one] if said == "error" else [])
    return said


TERMS = """
S2  |                              | a=1         | no
S4  | all                          |             | yes
S5  | all                          | a=1         | yes
S6  | a=1, b Exists                | a=1         | no
S7  | a=1; b=2                     | b=2         | yes
S8  | test1=test1; test2=test2     | test1=test2 | no
S9  | a NotIn 1                    |             | yes
S10 | a In                         | a=1         | error
S11 | a Bogus 1                    | a=1         | error
S12 | a=1; a Bogus                 | a=1         | yes
S13 | a Bogus; a=1                 | a=1         | error
S14 | a Exists 1                   | a=1         | error
-   | a=1; a Bogus                 | a=2         | error
-   | a=1; b Exists; c DoesNotExist | c=1        | no
"""


@pytest.mark.parametrize(("case", "terms", "labels", "said"), table(TERMS))
def test_a_throttle_is_about_the_pods_of_its_namespace_that_one_of_its_terms_selects(case, terms, labels, said):
    assert answer(policy("-", terms, key=THROTTLE), texts(labels)) == said


ODD_SELECTORS: dict[str, tuple[Any, str]] = {
    "S1: no selector": (None, "no"),
    "S2: no terms": ({}, "no"),
    "S2: terms are null": ({"selectorTerms": None}, "no"),
    "S3, differs: the README's spelling is read": ({"selecterTerms": terms_json("a=1")}, "yes"),
    "S4: an empty term": ({"selectorTerms": [{}]}, "yes"),
    "S5: an empty selector": ({"selectorTerms": [{"podSelector": {}}]}, "yes"),
    "a selector that is null": ({"selectorTerms": [{"podSelector": None}]}, "yes"),
    "labels and expressions are null": (
        {"selectorTerms": [{"podSelector": {"matchLabels": None, "matchExpressions": None}}]},
        "yes",
    ),
    "both spellings, one of them met": (
        {"selectorTerms": terms_json("a=2"), "selecterTerms": terms_json("a=1")},
        "yes",
    ),
    "S14: a key that is none": ({"selectorTerms": [{"podSelector": {"matchLabels": {"bad key!": "1"}}}]}, "error"),
    "S14: a key that is none, in an expression": (
        {"selectorTerms": [{"podSelector": {"matchExpressions": [{"key": "bad key!", "operator": "Exists"}]}}]},
        "error",
    ),
    "a Throttle does not read namespace selectors": ({"selectorTerms": terms_json("t Bogus / a=1")}, "yes"),
}


@pytest.mark.parametrize("case", ODD_SELECTORS)
def test_what_a_selector_leaves_out_is_read_as_kube_throttler_does(case):
    written, said = ODD_SELECTORS[case]
    assert answer(policy("-", key=THROTTLE, selector=written), {"a": "1"}) == said


CLUSTER_TERMS = """
S15 | t=1 / a=1            | a=1 | t=1 | yes
S16 | t=1 / a=1            | a=1 | t=2 | no
S17 | a=1                  | a=1 | t=2 | yes
S18 | t=1 / -              | a=1 | t=1 | yes
S19 | t Bogus / a=1        | a=1 | t=1 | no
S20 | t=2 / a Bogus        | a=1 | t=1 | no
S21 | t=1 / a Bogus        | a=1 | t=1 | error
S22 | t=1 / a=1; t=2 / a=2 | a=2 | t=1 | no
-   | t=1 / a=1; t=2 / a=2 | a=2 | t=2 | yes
-   | t Bogus / -; a=1     | a=1 | t=1 | yes
-   | all / all            |     |     | yes
-   | kubernetes.io/metadata.name In x ns / - | | kubernetes.io/metadata.name=ns | yes
"""


@pytest.mark.parametrize(("case", "terms", "labels", "namespace_labels", "said"), table(CLUSTER_TERMS))
def test_a_cluster_throttle_is_about_pods_of_the_namespaces_that_the_same_term_selects(
    case, terms, labels, namespace_labels, said
):
    assert answer(policy("-", terms, key=CLUSTER_THROTTLE), texts(labels), texts(namespace_labels)) == said


def test_pods_of_other_namespaces_are_never_affected_by_a_throttle():
    assert not policy("-", "all", key=THROTTLE).matches("other", {}, {})


def test_in_an_unknown_namespace_no_cluster_throttle_can_be_evaluated_and_throttles_can():
    mine, everywhere, nowhere = (
        policy("-", "a=1", key=key) for key in (THROTTLE, CLUSTER_THROTTLE, ThrottleKey("other", "t"))
    )
    found = ThrottleIndex([mine, everywhere, nowhere], THROTTLER).affecting("ns", {"a": "1"}, None)
    assert found == ([mine], [(everywhere, 'the labels of namespace "ns" are not known')])


def test_what_cannot_be_evaluated_is_named_with_its_place_and_stops_no_other_throttle():
    sound, broken = policy("-", "a=1", key=THROTTLE), policy("-", "b=1; a Bogus", key=ThrottleKey("ns", "broken"))
    found = ThrottleIndex([sound, broken], THROTTLER).affecting("ns", {"a": "1"}, {})
    problem = 'spec.selector.selectorTerms[1].podSelector: "Bogus" is not a valid label selector operator'
    assert found == ([sound], [(broken, problem)])


def test_a_throttle_of_another_throttler_is_not_ours_and_does_no_harm():
    for name in ("", "Kube-throttler", "kube-throttler2"):
        theirs = policy("-", "a Bogus", key=THROTTLE, throttlerName=name)
        assert theirs.throttler == name
        assert ThrottleIndex([theirs], THROTTLER).affecting("ns", {"a": "1"}, {}) == ([], [])


def test_throttles_are_found_in_the_order_of_their_names_cluster_throttles_first():
    keys = [ThrottleKey(*key) for key in (("ns", "b"), ("", "z"), ("ns", "a"), ("", "y"), ("other", "a"))]
    found = ThrottleIndex([policy("-", "all", key=key) for key in keys], THROTTLER).affecting("ns", {}, {})
    assert [one.key for one in found.policies] == [("", "y"), ("", "z"), ("ns", "a"), ("ns", "b")]


def test_throttles_are_in_order_however_many_there_are_and_whatever_they_are_filed_under():
    keys = [ThrottleKey("ns", f"t{number:03}") for number in range(100)]
    listed = [policy("-", "b Exists" if number in (1, 64) else "a=1", key=key) for number, key in enumerate(keys)]
    index = ThrottleIndex(reversed(listed), THROTTLER)
    for labels, expected in (({"a": "1", "b": ""}, keys), ({"b": ""}, [keys[1], keys[64]])):
        assert [one.key for one in index.affecting("ns", labels, {}).policies] == expected


def test_only_throttles_of_the_rarest_label_are_looked_at(monkeypatch):
    listed = [
        policy("-", f"stage=live / tier=web, app In x{number} y{number}", key=ThrottleKey("", f"t{number}"))
        for number in range(100)
    ]
    index = ThrottleIndex(listed, THROTTLER)
    looked_at = []
    matches = ThrottlePolicy.matches
    monkeypatch.setattr(
        ThrottlePolicy, "matches", lambda one, *seen: looked_at.append(one.key.name) or matches(one, *seen)
    )
    found = index.affecting("ns", {"tier": "web", "app": "y7"}, {"stage": "live"})
    assert [one.key.name for one in found.policies] == looked_at == ["t7"]


def test_a_throttle_without_a_spec_affects_nobody():
    document: Json = {**throttle_json(key=THROTTLE), "spec": None}
    empty = compile_throttle(read_throttle(document))
    assert (empty.throttler, empty.action, empty.terms) == ("", None, ())


# -- any throttles, any pod: what the index finds is what a look at each of them finds

label_keys, label_values = st.sampled_from("abc"), st.sampled_from(["", "1", "2"])
label_sets = st.dictionaries(label_keys, label_values, max_size=3)
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": label_keys,
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(label_values, min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries({"key": label_keys, "operator": st.sampled_from(["Exists", "DoesNotExist", "Bogus"])}),
)
selectors = st.one_of(
    st.none(),
    st.fixed_dictionaries({"matchLabels": label_sets, "matchExpressions": st.lists(expressions, max_size=2)}),
)
term_lists = st.lists(st.fixed_dictionaries({"podSelector": selectors, "namespaceSelector": selectors}), max_size=3)
namespaces = st.sampled_from(["", "ns", "other"])


@given(st.lists(st.tuples(namespaces, term_lists), max_size=6), label_sets, st.one_of(st.none(), label_sets))
def test_the_index_finds_what_a_look_at_every_throttle_finds(listed, labels, namespace_labels):
    policies = [
        policy("-", key=ThrottleKey(namespace, f"t{number}"), selector={"selectorTerms": terms})
        for number, (namespace, terms) in enumerate(listed)
    ]
    matching, broken = [], []
    for one in sorted(policies, key=lambda one: one.key):
        try:
            if one.matches("ns", labels, namespace_labels):
                matching.append(one)
        except SelectorError:
            broken.append(one)
    found = ThrottleIndex(policies, THROTTLER).affecting("ns", labels, namespace_labels)
    assert found.policies == matching
    assert [one for one, _ in found.broken] == broken


@given(term_lists, label_sets, label_sets)
def test_a_term_more_never_loses_a_pod_that_was_selected(terms, labels, namespace_labels):
    fewer, more = (
        policy("-", key=CLUSTER_THROTTLE, selector={"selectorTerms": listed}) for listed in (terms[:-1], terms)
    )
    if answer(fewer, labels, namespace_labels) == "yes":
        assert answer(more, labels, namespace_labels) == "yes"
