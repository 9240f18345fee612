"""A sample of the recorded requests, made again by a client of a real API server: `make vectors-cluster` makes all."""

from __future__ import annotations

import pytest

from tests.cluster.plane import ControlPlane
from tests.cluster.recreating import changed_alike
from tests.cluster.rigs import Rigs
from tests.cluster.vectors import OURS, Result, against_plugins, against_server, sample
from tests.vectors.replaying import expected

SAMPLE = 150


def assert_as_recorded(result: Result) -> None:
    assert not result.failed, result.text()
    assert not result.impossible, result.text()


@pytest.mark.plane(plugins=OURS.plugins)
def test_a_client_is_answered_through_our_webhooks_as_by_the_built_in_plugins(
    control_plane: ControlPlane, rigs: Rigs
) -> None:
    rigs.end(control_plane)  # the webhooks have one name
    assert_as_recorded(against_server([expected(one) for one in sample(SAMPLE)], control_plane, jobs=8))


@pytest.mark.plane
def test_the_built_in_plugins_answer_requests_made_again_as_when_they_were_recorded(
    control_plane: ControlPlane,
) -> None:
    assert_as_recorded(against_plugins(sample(SAMPLE), control_plane, jobs=8))


def test_the_sample_is_spread_over_all_kinds_of_requests() -> None:
    chosen = {one["name"].rsplit("-", 1)[0] for one in sample(SAMPLE)}
    everything = {one["name"].rsplit("-", 1)[0] for one in sample(0)}
    assert len(sample(SAMPLE)) == SAMPLE
    assert len(everything - chosen) <= 2, everything - chosen


def test_an_object_is_changed_as_the_recorded_one_was() -> None:
    before = {"kept": 1, "changed": "a", "gone": True, "nested": {"ip": "recorded", "type": "A"}, "list": [{"n": 1}]}
    after = {"kept": 1, "changed": "b", "new": [2], "nested": {"ip": "recorded", "type": "B"}, "list": [{"n": 2}]}
    here = {"kept": 9, "changed": "a", "gone": True, "nested": {"ip": "ours", "type": "A"}, "list": [{"n": 1, "p": 5}]}
    assert changed_alike(before, after, here) == {
        "kept": 9,
        "changed": "b",
        "new": [2],
        "nested": {"ip": "ours", "type": "B"},
        "list": [{"n": 2, "p": 5}],
    }


def test_a_difference_is_reported() -> None:
    result = Result(3, failed={"pod-1": ["used: {}"]}, impossible={"pod-2": "why"})
    assert result.line() == "1 passed, 1 failed, 1 not reproducible"
    assert "not reproducible: pod-2: why" in result.text()
