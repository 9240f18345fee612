"""Every field of a valid review replaced by a value of every type, one at a time."""

import json
import logging

import pytest

from tests.standalone.manifests import create
from tests.standalone.server import ServerProcess
from tests.web.answers import judged
from tests.web.inprocess import Webhook
from tests.web.mutations import WRONG, around, paths, removed, replaced, shown
from tests.web.reviews import POLICIES, plain_pod, valid_reviews

REVIEWS = valid_reviews()

STRANGE = [
    "NaN",
    "-Infinity",
    "1e999999999",
    "-1e-999999999",
    '"1e999999999"',
    '"1e-999999999"',
    '"-1e1000"',
    '"1E+1000"',
    '"9223372036854775808Ei"',
    '"' + "9" * 3000 + '"',
    "9" * 5000,
    "1" + "0" * 400 + ".5",
    "-9223372036854775809",
    '"0.' + "0" * 2000 + '1Ki"',
    '"\\ud800"',
    '"\\u0000"',
    '"caf\udce9"',
    '"\udc80"',
    "[" * 3000 + "]" * 3000,
    '{"a":' * 3000 + "1" + "}" * 3000,
    '{"cpu": "1", "cpu": "2"}',
    '"2025-13-45T99:99:99Z"',
    '"9999-12-31T23:59:59-23:59"',
    '"0001-01-01T00:00:00Z"',
    "tru",
    '"unterminated',
    "",
]
"""Written as they stand, in the place of a value."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    return Webhook(POLICIES, tmp_path_factory.mktemp("policies"))


@pytest.fixture
def webhook(served, caplog):
    """Whatever the test does with it, it leaves no error behind."""
    caplog.set_level(logging.ERROR)
    yield served
    assert served.errors() == 0
    assert not caplog.records


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("name", REVIEWS)
def test_a_valid_review_is_admitted(webhook, name, path):
    assert webhook.judge(path, REVIEWS[name])["allowed"]


BOTH = [
    *(("/validate", name) for name in REVIEWS),
    *(("/mutate", name) for name in ("pod created", "pod resized", "service created")),
]
"""The mutating stage looks at pods alone."""


@pytest.mark.parametrize(("path", "name"), BOTH)
def test_a_wrong_type_anywhere_is_answered(webhook, name, path):
    for place in paths(REVIEWS[name]):
        for value in WRONG:
            spoilt = replaced(REVIEWS[name], place, value)
            try:
                webhook.judge(path, spoilt)
            except Exception as error:
                error.add_note(f"{shown(place)} = {json.dumps(value)}")
                raise


@pytest.mark.parametrize(("path", "name"), BOTH)
def test_a_missing_field_is_answered(webhook, name, path):
    for place in paths(REVIEWS[name]):
        if place:
            try:
                webhook.judge(path, removed(REVIEWS[name], place))
            except Exception as error:
                error.add_note(f"{shown(place)} removed")
                raise


@pytest.mark.parametrize(
    "name", ["pod created", "pod deleted", "claim with a new status", "service created", "devices claimed"]
)
def test_a_strange_value_anywhere_is_answered(webhook, name):
    for place in paths(REVIEWS[name]):
        before, after = around(REVIEWS[name], place)
        for text in STRANGE:
            try:
                webhook.judge("/validate", before + text.encode("utf-8", "surrogateescape") + after)
            except Exception as error:
                error.add_note(f"{shown(place)} = {text[:60]!a}")
                raise


@pytest.mark.parametrize(
    ("place", "value", "line"),
    [
        ("spec.containers", 1, "request.object: Expected `array | null`, got `int` - at `$.spec.containers`"),
        ("metadata.name", [], "request.object: Expected `str | null`, got `array` - at `$.metadata.name`"),
        ("metadata", "x", "request.object: Expected `object | null`, got `str` - at `$.metadata`"),
    ],
)
def test_the_line_says_which_field_is_wrong_and_what_was_expected(webhook, place, value, line):
    spoilt = replaced(REVIEWS["pod created"], ("request", "object", *place.split(".")), value)
    status, _, body = webhook.post("/validate", json.dumps(spoilt).encode())
    assert (status, body.decode().strip()) == (400, line)


def test_a_wrong_type_anywhere_is_answered_over_the_wire():
    valid = REVIEWS["pod created"]
    with ServerProcess(POLICIES) as server:
        for place in paths(valid):
            for value in WRONG[::2]:
                reply = server.call("/validate", json.dumps(replaced(valid, place, value)).encode())
                judged(reply.status, reply.headers, reply.body)
        assert server.errors() == 0
        assert server.validate(create(plain_pod("afterwards"))) == "admitted"
