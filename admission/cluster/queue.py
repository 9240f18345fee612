"""Group commit: whoever finds nobody at work does the work for all who wait.

There is no thread of its own behind it. The first caller takes what has gathered as one batch, itself among it; who
comes while a batch is under way waits. When a batch is done, its leader goes, and one of those who wait leads the next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Waiter(Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item
        self.wake = threading.Event()
        self.leads = False

    def is_leader(self) -> bool:
        """Whether it is to do the work."""
        return self.leads


class BatchQueue(Generic[T]):
    """Items are worked on in batches, in the order in which they came, one batch at a time."""

    def __init__(self, work: Callable[[list[T]], None]) -> None:
        """`work` deals with a batch; it must not raise, and leaves each result in its item."""
        self._work = work
        self._lock = threading.Lock()
        self._waiting: list[_Waiter[T]] = []
        self._busy = False

    def submit(self, item: T, deadline: float) -> bool:
        """Have an item dealt with; False where its turn did not come before the deadline (monotonic seconds).

        An item whose batch has begun is waited for: how long that takes is for `work` to bound.
        """
        waiter = _Waiter(item)
        with self._lock:
            self._waiting.append(waiter)
            if not self._busy:
                self._busy = waiter.leads = True
        if not waiter.is_leader():
            waiter.wake.wait(max(0.0, deadline - time.monotonic()))
            with self._lock:
                if waiter in self._waiting and not waiter.is_leader():
                    self._waiting.remove(waiter)
                    return False
            waiter.wake.wait()
        if waiter.is_leader():
            self._lead()
        return True

    def _lead(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, []
        try:
            self._work([waiter.item for waiter in batch])
        finally:
            with self._lock:
                next_leader = self._waiting[0] if self._waiting else None
                if next_leader is None:
                    self._busy = False
                else:
                    next_leader.leads = True
            for waiter in batch:
                waiter.wake.set()
            if next_leader is not None:
                next_leader.wake.set()
