"""Recorded reviews, spoilt in many ways at once: whatever comes, the answer is a defined one."""

import json
import logging
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.standalone.manifests import create, pod
from tests.standalone.server import ServerProcess
from tests.web.answers import judged
from tests.web.inprocess import Webhook, policies_of, vectors
from tests.web.mutations import paths, removed, replaced, value_at

EVERY = 25
ROWS = vectors("admission", "wide", every=EVERY)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.sampled_from(
        [
            "1e999999999",
            "-1",
            "0",
            "9Ei",
            "1e-9",
            "100m",
            "CREATE",
            "UPDATE",
            "DELETE",
            "CONNECT",
            "resize",
            "status",
            "pods",
            "services",
            "resourceclaims",
            "Always",
            "9999-12-31T23:59:59Z",
            "x" * 5000,
            "\x00",
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def spoilt_documents(draw):
    """A valid review after a few changes to its structure."""
    row = draw(st.sampled_from(ROWS))
    document = row["review"]
    for _ in range(draw(st.integers(1, 4))):
        places = [place for place in paths(document) if place]
        if not places:
            break
        place = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replace", "remove", "repeat", "swap", "transplant", "rename", "wrap"]))
        document = _changed(draw, document, place, change)
    return document


def _changed(draw, document, place, change):
    value = value_at(document, place)
    holder = value_at(document, place[:-1])
    if change == "remove":
        return removed(document, place)
    if change == "repeat" and isinstance(holder, list):
        return replaced(document, place[:-1], [*holder, *[value] * draw(st.integers(1, 50))])
    if change == "swap":
        other = draw(st.sampled_from([other for other in paths(document) if other]))
        return replaced(document, place, value_at(document, other))
    if change == "transplant":
        source = draw(st.sampled_from(ROWS))["review"]
        return replaced(document, place, value_at(source, draw(st.sampled_from(list(paths(source))))))
    if change == "rename" and isinstance(holder, dict):
        renamed = {draw(st.text(max_size=8)) if key == place[-1] else key: kept for key, kept in holder.items()}
        return replaced(document, place[:-1], renamed)
    if change == "wrap":
        return replaced(document, place, draw(st.sampled_from([[value], {"a": value}, [[value]]])))
    return replaced(document, place, draw(VALUES))


@st.composite
def spoilt_bytes(draw):
    """A review as text, after changes to its structure, its bytes, or both."""
    document = draw(spoilt_documents())
    data = bytearray(json.dumps(document, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["cut", "insert", "flip", "double", "delete"]))
        if kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = draw(
                st.sampled_from([b"\xff", b"\xc0\x80", b"NaN", b'"', b"{", b"[" * 500, b"\x00", b"1e99"])
            )
        elif kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "double":
            data[at:at] = data[at : at + 200]
        else:
            del data[at : at + draw(st.integers(1, 40))]
    return bytes(data)


@pytest.fixture(scope="module")
def webhook(tmp_path_factory):
    return Webhook(policies_of(ROWS), tmp_path_factory.mktemp("policies"))


FUZZ = settings(
    max_examples=4 * settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@given(data=st.one_of(spoilt_documents().map(lambda document: json.dumps(document).encode()), spoilt_bytes()))
@FUZZ
def test_whatever_comes_the_answer_is_a_defined_one(webhook, caplog, path, data):
    caplog.set_level(logging.ERROR)
    response = webhook.judge(path, data)
    if response is not None:
        asked = json.loads(data.decode("utf-8", "replace"), strict=False)
        assert response["uid"] == asked["request"]["uid"]
    assert not caplog.records


def test_what_came_has_left_the_count_in_order(webhook, tmp_path):
    """The same calls again, in one go, on a store whose numbers are looked at afterwards."""
    random_ = random.Random(1)
    fresh = Webhook(policies_of(ROWS), tmp_path)
    for row in ROWS:
        places = [place for place in paths(row["review"]) if place]
        for _ in range(3):
            value = random_.choice([None, 0, -1, "-1", "x", [], {}, "1e30"])
            fresh.judge("/validate", replaced(row["review"], random_.choice(places), value))
    for quotas in fresh.store.usage().values():
        for quota in quotas.values():
            assert not [amount for amount in quota.used.values() if amount.startswith("-")]
    fresh.store.recount()
    assert fresh.errors() == 0
    assert webhook.errors() == 0


def test_whatever_comes_over_the_wire_the_server_goes_on():
    with ServerProcess(policies_of(ROWS)) as server:

        @given(data=spoilt_bytes(), path=st.sampled_from(["/mutate", "/validate", "/validate?timeout=1s", "/"]))
        @settings(FUZZ, max_examples=2 * settings.default.max_examples)
        def send(data, path):
            reply = server.call(path, data)
            judged(reply.status, reply.headers, reply.body)

        send()
        assert server.errors() == 0
        assert server.validate(create(pod(ns="elsewhere"))) == "admitted"
