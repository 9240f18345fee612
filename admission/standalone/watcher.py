"""Keeps the store up to date: re-reads changed files, recounts now and then.

Files are looked at, not subscribed to: that also works on network file systems and mounted volumes.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Final

from admission.standalone.errors import PolicyError
from admission.standalone.store import StandaloneStore
from admission.standalone.world import Folder

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 0.4
"""Seconds between looks at the files. A change is read at the second look that finds it, and in force within two."""
RECOUNT_EVERY: Final = 30.0
"""Seconds between recounts."""


@dataclass(frozen=True)
class ReloadState:
    """How the last reload ended. `error` is None where what the files say is in force."""

    error: str | None
    succeeded: int
    failed: int
    loaded_at: float
    """Wall-clock time, in seconds, of the set that is in force."""


class Watcher:
    """A thread that looks after a store. A set of files that cannot be used leaves the last good set in force."""

    def __init__(self, folder: Folder, store: StandaloneStore, seen: object) -> None:
        """`seen` are the fingerprints of the files that the store has in force."""
        self._folder = folder
        self._store = store
        self._seen = seen
        self._looked_at = seen
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="policy-watcher", daemon=True)
        self.state = ReloadState(None, 0, 0, time.time())

    def start(self) -> None:
        """Start looking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until it has stopped."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        recount_at = time.monotonic() + RECOUNT_EVERY
        while not self._stop.wait(LOOK_EVERY):
            try:
                self.look(settled=True)
                if time.monotonic() >= recount_at:
                    self._store.recount()
                    recount_at = time.monotonic() + RECOUNT_EVERY
            except Exception as error:  # whatever it is, the next look may do better
                self._seen = None
                self._fail(f"{type(error).__name__}, a fault of the server")

    def look(self, *, settled: bool = False) -> bool:
        """Re-read the files if any changed; whether a new set came into force.

        With `settled`, files that changed since the last look are left alone until the next: they may be half written.
        """
        try:
            files = self._folder.fingerprints()
        except PolicyError as error:
            self._seen = None
            self._fail(str(error))
            return False
        before, self._looked_at = self._looked_at, files
        if files == self._seen or (settled and files != before):
            return False
        self._seen = files
        try:
            world = self._folder.load(files)
        except PolicyError as error:
            self._fail(str(error))
            return False
        self._store.adopt(world)
        for doubt in world.doubts:
            log.warning("policy: %s", doubt)
        self.state = ReloadState(None, self.state.succeeded + 1, self.state.failed, time.time())
        log.info("policies reloaded: %d files", len(files))
        return True

    def _fail(self, error: str) -> None:
        if error != self.state.error:
            log.error("policies not reloaded, the last good set stays in force: %s", error)
        self.state = ReloadState(error, self.state.succeeded, self.state.failed + 1, self.state.loaded_at)
