"""Few threads run, many may wait.

More threads at work than cores only get in each other's way, for they share one interpreter lock. But a thread that
waits for the API server does no work: it gives its slot to another meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final

WAITING_THREADS: Final = 60
"""How many threads may wait beside those that run."""


class Slots:
    """As a context: runs in a slot. Not for use within itself."""

    def __init__(self, number: int) -> None:
        self._free = threading.BoundedSemaphore(number)

    def __enter__(self) -> None:
        self._free.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._free.release()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Give the slot away for as long as the block takes."""
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()
