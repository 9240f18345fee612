"""Group commit with real threads: every item is dealt with once, in order, and somebody always leads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from admission.cluster.queue import BatchQueue

LONG = 30.0


@dataclass
class Desk:
    """Takes batches down; the first of them waits until it is let go."""

    hold: bool = False
    batches: list[list[int]] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    at_work: int = 0
    most_at_work: int = 0

    def work(self, batch: list[int]) -> None:
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        self.batches.append(batch)
        self.begun.set()
        if self.hold and len(self.batches) == 1:
            assert self.go.wait(LONG)
        self.at_work -= 1


def until(reached: str, queue: BatchQueue[int], waiting: int) -> None:
    """Until so many wait in the queue."""
    give_up = time.monotonic() + LONG
    while len(queue._waiting) < waiting:
        assert time.monotonic() < give_up, reached
        time.sleep(0.001)


def soon() -> float:
    return time.monotonic() + LONG


def test_who_comes_alone_is_a_batch_of_its_own() -> None:
    desk = Desk()
    queue = BatchQueue(desk.work)
    assert queue.submit(1, soon())
    assert queue.submit(2, soon())
    assert desk.batches == [[1], [2]]


def test_who_comes_while_a_batch_is_under_way_is_in_the_next_one_in_order() -> None:
    desk = Desk(hold=True)
    queue = BatchQueue(desk.work)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(queue.submit, 0, soon())]
        assert desk.begun.wait(LONG)
        for item in range(1, 6):
            asked.append(pool.submit(queue.submit, item, soon()))
            until("a place in the queue", queue, item)
        desk.go.set()
        assert all(one.result(LONG) for one in asked)
    assert desk.batches == [[0], [1, 2, 3, 4, 5]]


def test_every_item_is_dealt_with_exactly_once_by_one_at_a_time() -> None:
    desk = Desk()
    queue = BatchQueue(desk.work)
    with ThreadPoolExecutor(12) as pool:
        dealt_with = list(pool.map(lambda item: queue.submit(item, soon()), range(600)))
    assert all(dealt_with)
    assert sorted(item for batch in desk.batches for item in batch) == list(range(600))
    assert desk.most_at_work == 1


def test_the_items_of_one_caller_keep_their_order() -> None:
    desk = Desk()
    queue = BatchQueue(desk.work)

    def call(caller: int) -> None:
        for number in range(50):
            assert queue.submit(caller * 1000 + number, soon())

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(call, caller) for caller in range(6)]:
            done.result(LONG)
    order = [item for batch in desk.batches for item in batch]
    for caller in range(6):
        mine = [item for item in order if item // 1000 == caller]
        assert mine == sorted(mine)
        assert len(mine) == 50


def test_a_leader_goes_after_its_own_batch_and_another_leads_the_next() -> None:
    led: list[int] = []
    desk = Desk(hold=True)

    def work(batch: list[int]) -> None:
        led.append(threading.get_ident())
        desk.work(batch)

    queue = BatchQueue(work)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(queue.submit, 0, soon())
        assert desk.begun.wait(LONG)
        others = [pool.submit(queue.submit, item, soon()) for item in (1, 2)]
        until("two who wait", queue, 2)
        desk.go.set()
        assert first.result(LONG)
        assert all(other.result(LONG) for other in others)
    assert len(desk.batches) == 2
    assert len(set(led)) == 2


def test_who_waits_too_long_goes_and_its_item_is_not_dealt_with() -> None:
    desk = Desk(hold=True)
    queue = BatchQueue(desk.work)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(queue.submit, 0, soon())
        assert desk.begun.wait(LONG)
        patient = pool.submit(queue.submit, 1, soon())
        until("one who waits", queue, 1)
        started = time.monotonic()
        assert not queue.submit(2, started + 0.05)
        assert time.monotonic() - started < LONG / 2
        assert not queue.submit(3, started - 1)
        desk.go.set()
        assert first.result(LONG)
        assert patient.result(LONG)
    assert desk.batches == [[0], [1]]
    assert queue.submit(4, soon())


def test_who_finds_nobody_at_work_is_dealt_with_whatever_its_deadline() -> None:
    desk = Desk()
    assert BatchQueue(desk.work).submit(1, time.monotonic() - 1)
    assert desk.batches == [[1]]


@pytest.mark.parametrize("error", [RuntimeError("a bug"), SystemExit(), KeyboardInterrupt()])
def test_what_the_work_raises_ends_its_leader_and_nobody_else(error: BaseException) -> None:
    desk = Desk(hold=True)

    def work(batch: list[int]) -> None:
        desk.work(batch)
        if batch == [0]:
            raise error

    queue = BatchQueue(work)
    caught: Future[BaseException] = Future()

    def lead() -> None:
        try:
            queue.submit(0, soon())
        except BaseException as raised:  # also what ends a worker
            caught.set_result(raised)

    leader = threading.Thread(target=lead)
    leader.start()
    assert desk.begun.wait(LONG)
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(queue.submit, item, soon()) for item in (1, 2)]
        until("two who wait", queue, 2)
        desk.go.set()
        assert caught.result(LONG) is error
        assert all(other.result(LONG) for other in others)
    leader.join(LONG)
    assert sorted(item for batch in desk.batches for item in batch) == [0, 1, 2]
    assert queue.submit(3, soon())
