"""What a real API server decided, word for word (see data/README.md)."""

from __future__ import annotations

import json

import pytest

from tests.vectors.replaying import (
    THOUSANDTHS,
    WRITTEN_WITH_AN_EXPONENT,
    Json,
    Replay,
    compared_defaults,
    expected,
    report,
    vectors,
)

FILES = {"admission": 1843, "wide": 845}


@pytest.fixture(scope="module", params=FILES)
def recorded(request):
    return request.param, vectors(request.param)


def test_every_vector_is_there_once(recorded):
    name, listed = recorded
    assert len(listed) == len({vector["name"] for vector in listed}) == FILES[name]


def test_every_recorded_request_is_answered_as_the_api_server_did(recorded):
    failed = {}
    for vector in recorded[1]:
        differences = Replay(expected(vector)).differences()
        if differences:
            failed[vector["name"]] = differences
    assert not failed, report(failed, len(recorded[1]))


def test_the_three_differ_in_nothing_but_the_exponent():
    named = [v for name in FILES for v in vectors(name) if v["name"] in WRITTEN_WITH_AN_EXPONENT]
    assert len(named) == len(WRITTEN_WITH_AN_EXPONENT)
    for vector in named:
        assert len(THOUSANDTHS.findall(json.dumps(expected(vector)))) == 0
        assert len(Replay(vector).differences()) == 1


def test_most_defaults_that_the_api_refused_are_compared():
    invalid = [v for name in FILES for v in vectors(name) if v["outcome"] == "invalid-after-defaults"]
    assert len(invalid) == 149
    assert sum(compared_defaults(vector) > 0 for vector in invalid) == 139


def outcome(vector: Json) -> None:
    vector["outcome"] = "denied" if vector["outcome"] == "allowed" else "allowed"


def message(vector: Json) -> None:
    vector["status"]["message"] += "."


def used(vector: Json) -> None:
    for names in vector["usedAfter"].values():
        names["pods"] = "4711"


def resources(vector: Json) -> None:
    vector["object"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4711"}}


def annotations(vector: Json) -> None:
    vector["object"]["metadata"]["annotations"] = {"of": "nobody"}


@pytest.mark.parametrize(
    ("recorded_as", "change"),
    [
        ("allowed", outcome),
        ("allowed", used),
        ("allowed", resources),
        ("allowed", annotations),
        ("denied", outcome),
        ("denied", message),
        ("denied", used),
    ],
)
def test_a_wrong_record_would_be_seen(recorded_as, change):
    pods = [v for v in vectors("admission") if v["name"].startswith("quota-pod") and v["outcome"] == recorded_as]
    for vector in pods[:10]:
        assert Replay(vector).differences() == []
        change(vector)
        assert len(Replay(vector).differences()) == 1
