"""A queue of keys that are due at a time: a key that is added again while it waits is worked on once.

A key is never worked on by two at the same time; one that is added while it is worked on comes again afterwards.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable


class WorkQueue:
    """Keys by the time when they are due."""

    def __init__(self, rest: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """`rest` is the least number of seconds between two rounds of work on the same key."""
        self._rest = rest
        self._clock = clock
        self._changed = threading.Condition()
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._working: set[str] = set()
        self._ended_at: dict[str, float] = {}
        self._closed = False

    def __len__(self) -> int:
        with self._changed:
            return len(self._due)

    def add(self, key: str, delay: float = 0.0) -> None:
        """Have a key worked on within so many seconds, or sooner where it is due sooner already."""
        with self._changed:
            due = max(self._clock() + delay, self._ended_at.get(key, float("-inf")) + self._rest)
            if key in self._due and self._due[key] <= due:
                return
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))
            self._changed.notify()

    def get(self) -> str | None:
        """The next key that is due, as soon as one is; None when the queue is closed. To be followed by `done`."""
        with self._changed:
            while not self._closed:
                key, wait = self._next()
                if key is not None:
                    self._working.add(key)
                    return key
                self._changed.wait(wait)
            return None

    def _next(self) -> tuple[str | None, float | None]:
        now = self._clock()
        busy = []
        found, wait = None, None
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) != due:  # it was moved to an earlier time
                heapq.heappop(self._heap)
                continue
            if due > now:
                wait = due - now
                break
            heapq.heappop(self._heap)
            if key in self._working:
                busy.append((due, key))
                continue
            del self._due[key]
            found = key
            break
        for entry in busy:
            heapq.heappush(self._heap, entry)
        return found, wait

    def done(self, key: str) -> None:
        """The work on a key is done."""
        with self._changed:
            self._working.discard(key)
            self._ended_at[key] = self._clock()
            if key in self._due:
                self._due[key] = max(self._due[key], self._ended_at[key] + self._rest)
                heapq.heappush(self._heap, (self._due[key], key))
            self._forget_old()
            self._changed.notify_all()

    def _forget_old(self) -> None:
        if len(self._ended_at) > 20_000:
            horizon = self._clock() - self._rest
            self._ended_at = {key: ended for key, ended in self._ended_at.items() if ended > horizon}

    def close(self) -> None:
        """Wake everybody who waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
