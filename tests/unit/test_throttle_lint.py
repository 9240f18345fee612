"""Lines for the authors of throttles."""

from __future__ import annotations

from typing import Any

import pytest

from admission.throttle.lint import lint_throttle
from admission.throttle.objects import ACTIONS
from admission.throttle.policy import ThrottleKey, compile_throttle
from tests.unit.helpers import table
from tests.unit.throttles import T1, read_throttle, terms_json, throttle_json

CT1 = ThrottleKey("", "ct1")


def doubts(limit: str, terms: str, times: str = "", *, key: ThrottleKey = T1, **spec: Any) -> list[str]:
    overrides = []
    for entry in filter(None, (part.strip() for part in times.split(";"))):
        begin, _, end = entry.partition("..")
        overrides.append((begin, end, "pod=1"))
    return lint_throttle(read_throttle(throttle_json(limit, terms, overrides, key=key, **spec)))


# limit | terms | begin and end of overrides | line
LINES = """
pod=1  |              |                    | spec.selector.selectorTerms: no term: no pod is affected
-      | all          |                    | spec.threshold: nothing is limited
pod=0  | all          |                    | spec.threshold.resourceCounts.pod: is 0, which is also what is read where it is not written: no pod fits
pod=-2 | all          |                    | spec.threshold.resourceCounts.pod: is -2: no pod fits
cpu=-1 | all          |                    | spec.threshold.resourceRequests[cpu]: -1 is negative: no pod that requests it fits
pod=1  | a Bogus      |                    | spec.selector.selectorTerms[0].podSelector: "Bogus" is not a valid label selector operator: pods that come to this term cannot be judged
pod=1  | a=1; a In    |                    | spec.selector.selectorTerms[1].podSelector: operator In needs at least one value: pods that come to this term cannot be judged
pod=1  | t=1 / a=1    |                    | spec.selector.selectorTerms[0].namespaceSelector: not read: a Throttle is about pods of its own namespace
pod=1  | all          | error..            | index 0: Failed to parse Begin: parsing time "error" as "2006-01-02T15:04:05Z07:00": cannot parse "error" as "2006"
pod=1  | all          | 2024-01-01T00:00:00Z..error | index 0: Failed to parse End: parsing time "error" as "2006-01-02T15:04:05Z07:00": cannot parse "error" as "2006"
pod=1  | all          | ..; 2024-01-02T00:00:00Z..2024-01-01T00:00:00Z | spec.temporaryThresholdOverrides[1]: it ends before it begins: it is never active
"""  # noqa: E501


@pytest.mark.parametrize(("limit", "terms", "times", "line"), table(LINES))
def test_what_a_throttle_does_not_do_is_told(limit, terms, times, line):
    assert doubts(limit, terms, times) == [line]


def test_a_namespace_selector_that_cannot_be_evaluated_is_told_of():
    assert doubts("pod=1", "t Bogus / all", key=CT1) == [
        'spec.selector.selectorTerms[0].namespaceSelector: "Bogus" is not a valid label selector operator: '
        "the term is never met"
    ]


def test_the_misspelt_terms_are_read_and_told_of():
    assert doubts("pod=1", "", selector={"selecterTerms": terms_json("a Bogus")}) == [
        "spec.selector.selecterTerms: misspelt, read as selectorTerms",
        'spec.selector.selecterTerms[0].podSelector: "Bogus" is not a valid label selector operator: '
        "pods that come to this term cannot be judged",
    ]


def test_an_action_that_is_not_known_leaves_the_choice_to_the_configuration():
    written = throttle_json("pod=1", "all", enforcementAction="block")
    assert lint_throttle(read_throttle(written)) == [
        'spec.enforcementAction: expected one of deny, hold, warn, dryrun, got "block": '
        "what the configuration says is done"
    ]
    assert compile_throttle(read_throttle(written)).action is None


@pytest.mark.parametrize("action", [*ACTIONS, None])
def test_an_action_that_is_known_is_taken(action):
    written = throttle_json("pod=1", "all", enforcementAction=action)
    assert lint_throttle(read_throttle(written)) == []
    assert compile_throttle(read_throttle(written)).action == action


def test_limits_of_overrides_are_told_of_as_well():
    overrides = [("", "", "pod=0 cpu=-1")]
    lines = lint_throttle(read_throttle(throttle_json("-", "all", overrides)))
    assert [line.split(": ")[0] for line in lines] == [
        "spec.temporaryThresholdOverrides[0].threshold.resourceCounts.pod",
        "spec.temporaryThresholdOverrides[0].threshold.resourceRequests[cpu]",
    ]


@pytest.mark.parametrize(
    ("limit", "terms", "times", "key"),
    [
        ("pod=5 cpu=200m memory=1Gi", "throttle=t1", "", T1),
        ("cpu=1", "t=1 / a NotIn 1; all", "", CT1),
        (
            "pod=1",
            "all",
            "2024-01-01T00:00:00Z..2024-01-01T00:00:00Z; ..; 0001-01-01T00:00:00Z..0001-01-01T00:00:00Z",
            CT1,
        ),
    ],
)
def test_a_sound_throttle_draws_no_line(limit, terms, times, key):
    assert doubts(limit, terms, times, key=key) == []


def test_a_throttle_without_a_spec_is_told_what_it_lacks():
    lines = lint_throttle(read_throttle({**throttle_json(), "spec": None}))
    assert lines == [
        "spec.selector.selectorTerms: no term: no pod is affected",
        "spec.threshold: nothing is limited",
    ]
