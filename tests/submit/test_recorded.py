"""Requests recorded from a real API server, played through ours: what it said and stored, so do we."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from admission.apiserver import Outcome
from tests.submit.inprocess import Json, Pipelined, api_server
from tests.vectors.replaying import WRITTEN_WITH_AN_EXPONENT, InProcess, as_listed, vectors

OUTCOMES = ("allowed", "denied", "invalid-after-defaults")
DENIED = 'admission webhook "enforce.quota-admission.dev" denied the request: '


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[Json]]:
    found = [v for name in ("admission", "wide") for v in vectors(name) if v["name"] not in WRITTEN_WITH_AN_EXPONENT]
    return {outcome: [v for v in found if v["outcome"] == outcome] for outcome in OUTCOMES}


def played(vector: Json) -> Outcome:
    request = vector["review"]["request"]
    server = api_server(Pipelined(InProcess(vector).namespace))
    if request["operation"] == "CREATE":
        return server.create(request["object"], request["namespace"], dry_run=request["dryRun"])
    return server.update(
        request["object"],
        request["oldObject"],
        request["namespace"],
        sub_resource=request.get("subResource", ""),
        dry_run=request["dryRun"],
    )


def resources_of(obj: Json) -> Json:
    spec = obj["spec"]
    lists = {
        where: [c.get("resources") or {} for c in spec.get(where, [])] for where in ("containers", "initContainers")
    }
    return {**lists, "pod": spec.get("resources") or {}, "annotations": obj["metadata"].get("annotations") or {}}


def error_list(message: str) -> list[str]:
    """The errors of an Invalid, in their order."""
    listed = message.partition(" is invalid: ")[2]
    bracketed = re.fullmatch(r"\[(.*)\]", listed)
    return re.split(r", (?=spec)", bracketed[1]) if bracketed else [listed]


def fields(errors: list[str]) -> list[str]:
    """The order of the fields is fixed; the original lists the resources of one field in no fixed order."""
    return [error.partition(": ")[0] for error in errors]


def test_what_was_allowed_is_stored_as_it_was(recorded):
    compared = Counter()
    for vector in recorded["allowed"]:
        outcome = played(vector)
        assert outcome.status is None, (vector["name"], outcome.status)
        kept = vector.get("object")
        if kept and "spec" in kept and vector["review"]["request"]["resource"]["resource"] == "pods":
            stored = outcome.stored
            assert resources_of(stored) == resources_of(kept), vector["name"]
            compared[vector["review"]["request"].get("subResource", "")] += 1
    assert compared == {"": 644, "resize": 30}


def test_what_was_denied_is_denied_in_the_same_words(recorded):
    for vector in recorded["denied"]:
        status = played(vector).status
        assert status is not None, vector["name"]
        assert (status.code, status.reason) == (403, "Forbidden"), (vector["name"], status)
        text = vector["status"]["message"].partition(" is forbidden: ")[2]
        assert status.message.startswith(DENIED)
        assert as_listed(status.message.removeprefix(DENIED)) == as_listed(text), vector["name"]
    assert len(recorded["denied"]) == 1200


def test_what_the_api_itself_refused_after_defaulting_is_refused_in_the_same_words(recorded):
    found = Counter()
    for vector in recorded["invalid-after-defaults"]:
        status = played(vector).status
        assert status is not None, vector["name"]
        wanted = vector["status"]
        assert (status.code, status.reason) == (wanted["code"], wanted["reason"]) == (422, "Invalid"), vector["name"]
        assert status.message.partition(" is invalid: ")[0] == wanted["message"].partition(" is invalid: ")[0]
        ours, theirs = error_list(status.message), error_list(wanted["message"])
        assert sorted(ours) == sorted(theirs), vector["name"]
        assert fields(ours) == fields(theirs), vector["name"]
        assert (status.kind, status.name) == ("Pod", vector["review"]["request"]["name"])
        found[len(theirs)] += 1
    assert sum(found.values()) == 149
    assert found[1] == 117
