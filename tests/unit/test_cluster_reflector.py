"""A cache that follows a resource: what it holds after each list and each word of a watch, and when it asks again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.cluster.connections import RawResponse
from admission.cluster.reflector import (
    ABSENT_SECONDS,
    IDLE_TIMEOUT,
    METADATA,
    METADATA_LIST,
    PAGE_SIZE,
    Pace,
    Reflector,
    Source,
)
from admission.cluster.transport import ApiError, Transport, Unreachable
from tests.standalone.server import eventually
from tests.unit.api_server import Lines, Stepped

Json = dict[str, Any]
PATH = "/api/v1/things"


class Thing(NamedTuple):
    uid: str
    size: int


def decode(data: msgspec.Raw | bytes) -> Thing:
    document = json.loads(bytes(data))
    if not isinstance(document["size"], int):
        raise ValueError("size: expected a number")
    return Thing(document["metadata"].get("uid", ""), document["size"])


def thing(name: str, version: int, size: object = 1, *, namespace: str = "ns", uid: str = "u") -> Json:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": str(version), "uid": uid}
    return {"metadata": metadata, "size": size}


def page(version: int | str, *items: Json, more: str = "") -> Json:
    return {"metadata": {"resourceVersion": str(version), **({"continue": more} if more else {})}, "items": list(items)}


def told(what: str, document: Json) -> Json:
    return {"type": what, "object": document}


def bookmark(version: int) -> Json:
    return told("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def failed(code: int, reason: str) -> Json:
    return told("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "so it is"})


class Script:
    """Answers in this order; of a watch each is a list of lines, which may end in an error."""

    def __init__(self, *answers: Json | Exception | list[Json | bytes | Exception]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Mapping[str, str], str]] = []

    def call(self, method: str, path: str, *, query: Mapping[str, str], accept: str) -> RawResponse:
        assert (method, path) == ("GET", PATH)
        self.asked.append(("LIST", dict(query), accept))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return RawResponse(200, json.dumps(answer).encode())

    def stream(self, path: str, query: Mapping[str, str], idle_timeout: float, *, accept: str) -> Lines:
        assert (path, idle_timeout) == (PATH, IDLE_TIMEOUT)
        self.asked.append(("WATCH", dict(query), accept))
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return Lines(self._lines(cast("list[Json | bytes | Exception]", answer)))

    def _lines(self, answer: list[Json | bytes | Exception]) -> Iterator[bytes]:
        for line in answer:  # also one that does something in between
            if isinstance(line, Exception):
                raise line
            yield line if isinstance(line, bytes) else json.dumps(line).encode()

    def kinds(self) -> list[str]:
        return [what for what, _, _ in self.asked]


class Following:
    """A reflector on a script, and what it said of changes."""

    def __init__(self, *answers: Any, source: Source | None = None) -> None:
        self.script = Script(*answers)
        self.changes: list[tuple[str, str, Thing | None, Thing | None]] = []
        self.reflector: Stepped[Thing] = Stepped(
            cast(Transport, self.script), source or Source(PATH), decode, lambda *change: self.changes.append(change)
        )

    def step(self) -> None:
        """Until the watch ends, or something fails."""
        self.changes.clear()
        self.reflector.step()

    def sizes(self, namespace: str = "ns") -> dict[str, int]:
        return {name: found.size for name, found in self.reflector.namespace(namespace).items()}

    def resumed_at(self) -> str:
        """The version that the last watch began at."""
        return [query for what, query, _ in self.script.asked if what == "WATCH"][-1]["resourceVersion"]


# -- lists


def test_a_list_is_read_page_by_page_and_taken_as_a_whole() -> None:
    seen = Following(
        page(7, thing("b", 3), more="next"), page(7, thing("a", 2, 5), more="last"), page(7, thing("c", 4)), []
    )
    seen.step()
    assert list(seen.sizes()) == ["a", "b", "c"]
    lists = [query for what, query, _ in seen.script.asked if what == "LIST"]
    assert [query.get("continue") for query in lists] == [None, "next", "last"]
    assert all(query["limit"] == str(PAGE_SIZE) for query in lists)
    assert seen.resumed_at() == "7"
    assert len(seen.reflector) == 3


def test_it_has_synced_once_a_first_list_is_complete() -> None:
    seen = Following(page(7, thing("a", 3), more="next"), Unreachable("gone"), page(8, thing("a", 3)), [])
    assert not seen.reflector.has_synced()
    seen.step()
    assert not seen.reflector.has_synced()
    assert seen.sizes() == {}
    seen.step()
    assert seen.reflector.has_synced()
    assert seen.reflector.wait_synced(0)
    assert seen.sizes() == {"a": 1}


def test_pages_that_have_expired_are_asked_for_anew() -> None:
    seen = Following(page(7, thing("a", 3), more="next"), ApiError(410, "Expired", "old"), page(8, thing("b", 5)), [])
    seen.step()
    assert seen.sizes() == {"b": 1}


def test_an_empty_list_is_a_list() -> None:
    seen = Following({"metadata": {"resourceVersion": "5"}, "items": None}, [])
    seen.step()
    assert seen.reflector.has_synced()
    assert (seen.sizes(), seen.reflector.revision("ns"), seen.reflector.namespaces()) == ({}, 5, [])


def test_the_source_says_what_is_asked_for() -> None:
    seen = Following(page(1), [], source=Source(PATH, {"fieldSelector": "x=y"}, metadata_only=True))
    seen.step()
    (_, listed, list_form), (_, watched, object_form) = seen.script.asked
    assert listed["fieldSelector"] == watched["fieldSelector"] == "x=y"
    assert (list_form, object_form) == (METADATA_LIST, METADATA)
    assert (watched["watch"], watched["allowWatchBookmarks"]) == ("true", "true")
    assert 200 < int(watched["timeoutSeconds"]) < 400


# -- watches

EVENTS = [
    ([told("ADDED", thing("b", 8, 2))], {"a": 1, "b": 2}),
    ([told("MODIFIED", thing("a", 8, 2))], {"a": 2}),
    ([told("DELETED", thing("a", 8))], {}),
    ([told("DELETED", thing("x", 8))], {"a": 1}),
    ([told("MODIFIED", thing("x", 8))], {"a": 1, "x": 1}),
    ([told("ADDED", thing("a", 8, 3, uid="v"))], {"a": 3}),
    ([told("DELETED", thing("a", 8)), told("ADDED", thing("a", 9, 4, uid="v"))], {"a": 4}),
    ([told("MODIFIED", thing("a", 8, 2)), told("MODIFIED", thing("a", 9, 3))], {"a": 3}),
    ([b"", told("ADDED", thing("b", 8))], {"a": 1, "b": 1}),
]


@pytest.mark.parametrize(("lines", "sizes"), EVENTS)
def test_what_a_watch_tells_is_taken_in_order(lines: list[Any], sizes: dict[str, int]) -> None:
    seen = Following(page(7, thing("a", 3)), lines)
    seen.step()
    assert seen.sizes() == sizes


def test_a_watch_that_ends_goes_on_where_it_was() -> None:
    seen = Following(page(7), [told("ADDED", thing("a", 9))], [bookmark(30)], [], [])
    seen.step()
    seen.step()
    assert seen.resumed_at() == "9"
    seen.step()
    assert seen.resumed_at() == "30"
    assert seen.script.kinds().count("LIST") == 1
    assert seen.reflector.waits == []


def test_a_view_does_not_change_in_the_hand_of_its_reader() -> None:
    seen = Following(page(7, thing("a", 3)), [], [told("ADDED", thing("b", 8))])
    seen.step()
    before = seen.reflector.namespace("ns")
    assert seen.reflector.namespace("ns") is before
    seen.step()
    assert (list(before), list(seen.reflector.namespace("ns"))) == (["a"], ["a", "b"])


def test_namespaces_are_apart() -> None:
    seen = Following(page(7, thing("a", 3), thing("a", 4, 2, namespace="other"), thing("c", 5, namespace="")), [])
    seen.step()
    assert (seen.sizes(), seen.sizes("other"), seen.sizes("")) == ({"a": 1}, {"a": 2}, {"c": 1})
    assert sorted(seen.reflector.namespaces()) == ["", "ns", "other"]


def test_revisions_are_those_of_the_list_and_then_of_each_namespace() -> None:
    seen = Following(page(20, thing("a", 3)), [told("ADDED", thing("b", 25, namespace="other")), bookmark(30)])
    seen.step()
    assert [seen.reflector.revision(name) for name in ("ns", "other", "empty")] == [20, 25, 20]


def test_after_a_list_the_revision_is_that_of_the_list_everywhere() -> None:
    seen = Following(page(20), [told("ADDED", thing("b", 25))], ApiError(410, "Gone", "old"), page(40), [])
    seen.step()
    seen.step()
    assert [seen.reflector.revision(name) for name in ("ns", "empty")] == [40, 40]


# -- what fails


@pytest.mark.parametrize(
    "end", [[failed(410, "Expired")], ApiError(410, "Expired", "too old"), [bookmark(9), failed(410, "Gone")]]
)
def test_a_version_that_is_too_old_is_listed_anew_at_once(end: Any) -> None:
    seen = Following(page(7, thing("a", 3), thing("b", 4)), [], end, page(30, thing("a", 3), thing("c", 20)), [])
    seen.step()
    seen.step()
    assert seen.sizes() == {"a": 1, "c": 1}
    assert seen.resumed_at() == "30"
    assert seen.reflector.waits == []
    assert sorted(name for _, name, _, _ in seen.changes) == ["b", "c"]


@pytest.mark.parametrize(
    "end",
    [
        [told("ADDED", thing("b", 8)), Unreachable("the watch broke")],
        [told("ADDED", thing("b", 8)), failed(500, "InternalError")],
        [told("ADDED", thing("b", 8)), failed(429, "TooManyRequests")],
    ],
)
def test_a_broken_watch_goes_on_where_it_was_after_a_pause(end: Any) -> None:
    seen = Following(page(7, thing("a", 3)), end, [])
    seen.step()
    assert seen.sizes() == {"a": 1, "b": 1}
    assert len(seen.reflector.waits) == 1
    seen.step()
    assert seen.resumed_at() == "8"
    assert seen.script.kinds() == ["LIST", "WATCH", "WATCH"]
    assert seen.reflector.stats.errors == 1


def test_what_is_not_an_event_is_listed_anew_after_a_pause() -> None:
    seen = Following(page(7, thing("a", 3)), [b"{", told("ADDED", thing("x", 8))], page(9, thing("b", 5)), [])
    seen.step()
    seen.step()
    assert len(seen.reflector.waits) == 1
    assert seen.sizes() == {"b": 1}


def test_the_cache_stays_as_it_was_while_nothing_can_be_read() -> None:
    seen = Following(page(7, thing("a", 3)), ApiError(410, "Gone", "old"), *[Unreachable("no answer")] * 3)
    for _ in range(5):
        seen.step()
    assert seen.sizes() == {"a": 1}
    assert seen.reflector.has_synced()


def test_pauses_grow_with_jitter_and_begin_anew_after_a_success() -> None:
    seen = Following(*[Unreachable("no answer")] * 6, page(7), [bookmark(8)], Unreachable("no answer"))
    for _ in range(9):
        seen.step()
    waits = seen.reflector.waits
    for number, wait in enumerate([*waits[:6]]):
        longest = min(30.0, 0.2 * 2**number)
        assert longest / 2 <= wait <= longest
    assert waits[6] <= 0.2


@given(st.integers(1, 40), st.sampled_from([0.01, 0.2, 5.0]), st.sampled_from([1.0, 30.0]))
def test_a_pause_is_bounded_however_often_it_failed(failures: int, first: float, longest: float) -> None:
    pace = Pace(first, longest)
    waits = [pace.next_wait() for _ in range(failures)]
    bounds = [min(longest, first * 2.0 ** min(number, 10)) for number in range(failures)]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    pace.reset()
    assert pace.next_wait() <= first


def test_watches_that_end_at_once_are_not_begun_over_and_over() -> None:
    """As behind a proxy whose API server is away: that must not become a storm of calls."""
    script = Script(page(7))
    reflector = Reflector(cast(Transport, script), Source(PATH), decode)
    reflector.start()
    assert reflector.wait_synced(10)
    try:
        reflector._stop.wait(0.5)
        assert script.kinds().count("WATCH") < 20
    finally:
        reflector.stop()


def test_staleness_counts_from_when_the_api_server_was_last_heard_of() -> None:
    seen = Following(page(7), [b""])
    seen.reflector.stats.last_contact = 0.0
    assert seen.reflector.staleness() > 0
    seen.step()
    assert seen.reflector.staleness() < 60


# -- single objects


def test_what_cannot_be_used_keeps_what_was_last_known_of_it_and_stops_nothing() -> None:
    seen = Following(
        page(7, thing("a", 3), thing("b", 4, "none")),
        [told("MODIFIED", thing("a", 8, "none")), told("ADDED", thing("c", 9, "none")), told("ADDED", thing("d", 10))],
        ApiError(410, "Gone", "old"),
        page(20, thing("a", 8, "none"), thing("d", 10), thing("e", 11)),
        [told("MODIFIED", thing("a", 21, 6))],
    )
    seen.step()
    assert seen.sizes() == {"a": 1, "d": 1}
    assert seen.reflector.stats.undecodable == 3
    seen.step()
    seen.step()
    assert seen.sizes() == {"a": 6, "d": 1, "e": 1}


def test_what_cannot_be_used_goes_when_it_is_deleted() -> None:
    seen = Following(page(7, thing("a", 3)), [told("DELETED", thing("a", 8, "none"))])
    seen.step()
    assert seen.sizes() == {}


@pytest.mark.parametrize("relist", [False, True])
def test_an_object_that_took_the_place_of_another_is_told_as_a_change_of_both(relist: bool) -> None:
    one, other = thing("a", 3, 1, uid="one"), thing("a", 9, 2, uid="other")
    change = ("ns", "a", Thing("one", 1), Thing("other", 2))
    later: list[Any] = [ApiError(410, "Gone", "old"), page(20, other), []] if relist else [[told("MODIFIED", other)]]
    seen = Following(page(7, one), [], *later)
    seen.step()
    seen.step()
    assert change in seen.changes


def test_changes_are_told_once_and_only_what_changed() -> None:
    seen = Following(
        page(7, thing("a", 3), thing("b", 4)),
        [told("MODIFIED", thing("a", 8, 2)), told("DELETED", thing("b", 9)), bookmark(10)],
        ApiError(410, "Gone", "old"),
        page(20, thing("a", 8, 2), thing("c", 12)),
        [],
    )
    assert seen.reflector.namespaces() == []
    seen.step()
    assert sorted(seen.changes[:2], key=str) == [(*("ns", name, None), Thing("u", 1)) for name in "ab"]
    assert seen.changes[2:] == [("ns", "a", Thing("u", 1), Thing("u", 2)), ("ns", "b", Thing("u", 1), None)]
    seen.step()
    assert seen.changes == [("ns", "c", None, Thing("u", 1))]


def test_a_version_that_is_known_already_is_not_decoded_again() -> None:
    def refuse(_: object) -> Thing:
        raise AssertionError("it was decoded")

    script = Script(page(7), [told("ADDED", thing("a", 8))])
    known = {("ns", "a", "8"): Thing("known", 9)}
    reflector: Stepped[Thing] = Stepped(
        cast(Transport, script), Source(PATH), refuse, known=lambda *key: known.get(cast(Any, key))
    )
    reflector.step()
    assert reflector.namespace("ns") == {"a": Thing("known", 9)}


# -- asked to list again, and resources that are not there


def test_a_list_that_is_asked_for_comes_from_the_store_itself() -> None:
    seen = Following(page(7), [], [told("ADDED", thing("x", 9))], page(30, thing("a", 20)), [])
    seen.step()
    seen.reflector.relist()
    seen.step()
    seen.step()
    assert (seen.sizes(), seen.reflector.revision("ns")) == ({"a": 1}, 30)
    lists = [query for what, query, _ in seen.script.asked if what == "LIST"]
    assert len(lists) == 2
    assert all("resourceVersion" not in query for query in lists)


def test_a_list_that_is_asked_for_ends_the_watch_that_is_open() -> None:
    def lines() -> Iterator[Any]:
        yield told("ADDED", thing("x", 8))
        seen.reflector.relist()
        yield told("ADDED", thing("y", 9))

    seen = Following(page(7), lines(), page(30, thing("a", 20)), [])
    seen.step()
    assert seen.sizes() == {"x": 1}
    seen.step()
    assert seen.sizes() == {"a": 1}
    assert seen.reflector.waits == []


def test_a_list_that_is_asked_for_while_nothing_answers_is_tried_with_pauses() -> None:
    seen = Following(page(7), [], [], *[Unreachable("no answer")] * 200)
    seen.step()
    seen.reflector.relist()
    seen.step()
    seen.step()
    assert seen.reflector.failed_lists == 1
    assert len(seen.reflector.waits) == 1


ABSENT = ApiError(404, "NotFound", "the server could not find the requested resource")


def test_an_optional_resource_that_is_not_served_is_empty_and_asked_for_later() -> None:
    seen = Following(ABSENT, page(7, thing("a", 3)), [], ABSENT, source=Source(PATH, optional=True))
    seen.step()
    assert seen.reflector.has_synced()
    assert seen.sizes() == {}
    assert seen.reflector.waits == [ABSENT_SECONDS]
    seen.step()
    assert seen.sizes() == {"a": 1}
    seen.step()
    assert seen.sizes() == {}
    assert seen.changes == [("ns", "a", Thing("u", 1), None)]


def test_another_resource_that_is_not_served_is_waited_for() -> None:
    seen = Following(ABSENT, page(7, thing("a", 3)), [])
    seen.step()
    assert not seen.reflector.has_synced()
    assert seen.reflector.waits[0] <= 0.2
    seen.step()
    assert seen.sizes() == {"a": 1}


# -- in its thread


def test_it_follows_in_a_thread_until_it_is_stopped() -> None:
    script = Script(page(7, thing("a", 3)), [told("ADDED", thing("b", 8)), Unreachable("broke")], [])
    reflector = Reflector(cast(Transport, script), Source(PATH), decode)
    reflector.start()
    assert reflector.wait_synced(10)
    eventually(lambda: list(reflector.namespace("ns")) == ["a", "b"])
    reflector.stop()
    reflector._thread.join(10)
    assert not reflector._thread.is_alive()
