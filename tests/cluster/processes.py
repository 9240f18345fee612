"""Processes that end when the tests do, however these end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

# Reads until whoever holds the other end of the pipe is gone, then kills its process group, itself included.
KEEPER = "import os, signal, sys; sys.stdin.buffer.read(); os.killpg(0, signal.SIGKILL)"
LOG_SHOWN = 4000


class StartError(Exception):
    """A process ended, or was not ready in time; the text has the end of its log."""


class Group:
    """A process group under a keeper, which kills it when this process stops it or dies, by SIGKILL too."""

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", KEEPER], stdin=subprocess.PIPE, process_group=0
        )

    @property
    def number(self) -> int:
        return self._keeper.pid

    def kill(self) -> None:
        """End all at once. The number is used only once: later it may be another's."""
        if self._keeper.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.number, signal.SIGKILL)
        self._keeper.wait()
        if self._keeper.stdin:
            self._keeper.stdin.close()


class Process:
    """One program with its log; it can be started again."""

    def __init__(self, name: str, file: Path, options: Sequence[str], home: Path, group: Group) -> None:
        self.name = name
        self.log_file = home / f"{name}.log"
        self._file = file
        self._options = list(options)
        self._home = home
        self._group = group
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._running is not None, f"{self.name} was not started"
        return self._running.pid

    def runs(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def start(self) -> None:
        """Start it, and do not wait. What runs already is left alone."""
        if self.runs():
            return
        with self.log_file.open("ab") as log:
            self._running = subprocess.Popen(
                [self.name, *self._options],  # our binary looks at the name that it is started under
                executable=self._file,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
                process_group=self._group.number,
            )

    def stop(self, *, hard: bool = False, within: float = 20.0) -> None:
        """End it: by SIGTERM and only then SIGKILL, or with `hard` by SIGKILL at once."""
        if self._running is None:
            return
        if not hard:
            self._running.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running.wait(within)
        self._running.kill()
        self._running.wait()

    def wait_until(self, ready: Callable[[], bool], within: float) -> None:
        """Wait until it is ready; fails with the end of its log when it ends or takes too long."""
        give_up = time.monotonic() + within
        while not ready():
            if not self.runs():
                code = self._running.returncode if self._running else None
                raise StartError(f"{self.name} ended with {code}:\n{self.log_end()}")
            if time.monotonic() > give_up:
                raise StartError(f"{self.name} was not ready within {within} s:\n{self.log_end()}")
            time.sleep(0.05)

    def log_end(self) -> str:
        return self.log_file.read_text(errors="replace")[-LOG_SHOWN:] if self.log_file.exists() else ""
