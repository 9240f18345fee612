"""Objects that were deleted a short while ago: an admission whose object is gone has come to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

REMEMBER: Final = 300.0
"""Seconds that a deletion is remembered: longer than any reservation of the object can be on its way."""


class GoneObjects:
    """UIDs of deleted objects, forgotten after a while. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._uids: dict[str, float] = {}

    def add(self, uid: str) -> None:
        """An object was deleted."""
        now = self._clock()
        with self._lock:
            self._uids.pop(uid, None)
            self._uids[uid] = now
            while self._uids:
                oldest, at = next(iter(self._uids.items()))
                if at > now - REMEMBER:
                    break
                del self._uids[oldest]

    def among(self, uids: Iterable[str]) -> set[str]:
        """Those of the UIDs that are gone."""
        with self._lock:
            return {uid for uid in uids if uid in self._uids}
