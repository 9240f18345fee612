"""The queue of keys that are due at a time, by a clock that is moved."""

from __future__ import annotations

import threading
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.controller.workqueue import WorkQueue
from tests.unit.replicas import Clock


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock(100.0)


def due(queue: WorkQueue) -> str | None:
    """The next key, None where none is due."""
    with mock.patch.object(queue._changed, "wait", side_effect=lambda _: queue.close()):
        found = queue.get()
    queue._closed = False
    return found


def waits(queue: WorkQueue) -> float | None:
    """How long the next one would be waited for."""
    waited: list[float | None] = []
    with mock.patch.object(queue._changed, "wait", side_effect=lambda wait: (waited.append(wait), queue.close())):
        assert queue.get() is None
    queue._closed = False
    return waited[0]


def test_keys_come_when_they_are_due_the_earliest_first(clock: Clock) -> None:
    queue = WorkQueue(clock=clock)
    queue.add("late", 2.0)
    queue.add("soon", 1.0)
    queue.add("now")
    assert len(queue) == 3
    assert due(queue) == "now"
    assert due(queue) is None
    assert waits(queue) == 1.0
    clock.now += 2.0
    assert [due(queue), due(queue), due(queue)] == ["soon", "late", None]
    assert len(queue) == 0
    assert waits(queue) is None


@pytest.mark.parametrize(("first", "second", "at"), [(5.0, 1.0, 1.0), (1.0, 5.0, 1.0), (3.0, 3.0, 3.0)])
def test_a_key_that_is_added_again_comes_once_at_the_earlier_time(
    clock: Clock, first: float, second: float, at: float
) -> None:
    queue = WorkQueue(clock=clock)
    queue.add("key", first)
    queue.add("key", second)
    assert len(queue) == 1
    assert waits(queue) == at
    clock.now += 10
    assert [due(queue), due(queue)] == ["key", None]


def test_a_key_is_never_worked_on_twice_at_once_and_comes_again_afterwards(clock: Clock) -> None:
    queue = WorkQueue(clock=clock)
    queue.add("key")
    assert due(queue) == "key"
    queue.add("key")
    queue.add("other")
    assert [due(queue), due(queue)] == ["other", None]
    queue.done("key")
    assert [due(queue), due(queue)] == ["key", None]


def test_a_key_rests_after_its_work_and_others_do_not(clock: Clock) -> None:
    queue = WorkQueue(rest=0.5, clock=clock)
    queue.add("key")
    assert due(queue) == "key"
    queue.add("key")  # while it is worked on
    clock.now += 3.0
    queue.done("key")
    queue.add("other")
    assert due(queue) == "other"
    assert due(queue) is None
    assert waits(queue) == 0.5
    clock.now += 0.5
    assert due(queue) == "key"
    queue.done("key")
    queue.add("key", 0.1)
    assert waits(queue) == 0.5
    clock.now += 0.4
    assert due(queue) is None
    clock.now += 0.1
    assert due(queue) == "key"


def test_a_key_that_is_due_later_than_its_rest_comes_when_it_is_due(clock: Clock) -> None:
    queue = WorkQueue(rest=0.5, clock=clock)
    queue.add("key")
    due(queue)
    queue.done("key")
    queue.add("key", 2.0)
    assert waits(queue) == 2.0


def test_what_has_rested_is_forgotten_in_the_end(clock: Clock) -> None:
    queue = WorkQueue(rest=0.5, clock=clock)
    for number in range(20_001):
        queue.add(str(number))
        assert queue.get() == str(number)
        queue.done(str(number))
        clock.now += 0.001
    assert len(queue._ended_at) <= 501


def test_a_queue_that_is_closed_wakes_everybody_and_gives_nothing(clock: Clock) -> None:
    queue = WorkQueue(clock=clock)
    got: list[str | None] = []
    waiting = [threading.Thread(target=lambda: got.append(queue.get())) for _ in range(3)]
    for thread in waiting:
        thread.start()
    queue.close()
    for thread in waiting:
        thread.join(10)
    assert got == [None, None, None]
    queue.add("key")
    assert queue.get() is None


def test_who_waits_gets_what_is_added() -> None:
    queue = WorkQueue()
    got: list[str | None] = []
    waiting = threading.Thread(target=lambda: got.append(queue.get()))
    waiting.start()
    queue.add("late", 60.0)
    queue.add("key", 0.01)
    waiting.join(10)
    assert got == ["key"]
    queue.close()


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "get", "done", "wait"]), st.sampled_from("abc"), st.integers(0, 4)), max_size=40
)


@given(STEPS, st.sampled_from([0.0, 1.0, 3.0]))
def test_nothing_that_was_added_is_lost_or_comes_too_early(steps: list[tuple[str, str, int]], rest: float) -> None:
    clock = Clock(100.0)
    queue = WorkQueue(rest, clock)
    wanted: dict[str, float] = {}
    working: set[str] = set()
    ended: dict[str, float] = {}
    for step, key, number in steps:
        if step == "add":
            earliest = max(clock.now + number, ended.get(key, 0.0) + rest)
            wanted[key] = min(wanted.get(key, earliest), earliest)
            queue.add(key, number)
        elif step == "done" and key in working:
            working.remove(key)
            ended[key] = clock.now
            if key in wanted:
                wanted[key] = max(wanted[key], clock.now + rest)
            queue.done(key)
        elif step == "wait":
            clock.now += number
        elif step == "get":
            able = {name: at for name, at in wanted.items() if at <= clock.now and name not in working}
            found = due(queue)
            assert (found is None) == (not able)
            if found is not None:
                assert wanted[found] == min(able.values())
                del wanted[found]
                working.add(found)
    assert len(queue) == len(wanted)
