"""Python programs beside a control plane: started, waited for, ended with it however that ends."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from bench.processes import free_port
from tests.cluster.processes import Group, Process

READY_WITHIN = 120.0


class Program(Process):
    """A Python module that takes `--admin-bind` and answers /readyz there."""

    def __init__(self, name: str, arguments: list[str], home: Path, group: Group) -> None:
        self.admin = f"127.0.0.1:{free_port()}"
        super().__init__(name, Path(sys.executable), ["-m", *arguments, "--admin-bind", self.admin], home, group)

    def start(self) -> None:
        """Start it, and do not wait."""
        if self.runs():
            return
        with self.log_file.open("ab") as log:
            # Python finds its packages by the name that it is started under.
            self._running = subprocess.Popen(
                [sys.executable, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=self._group.number,
            )

    def ready(self) -> bool:
        """Whether it says that it is ready."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{self.admin}/readyz", timeout=5):
            return True
        return False

    def start_and_wait(self, within: float = READY_WITHIN) -> float:
        """Start it; seconds until it is ready."""
        begin = time.monotonic()
        self.start()
        self.wait_until(self.ready, within)
        return time.monotonic() - begin

    def metrics(self) -> str:
        """What it exports."""
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=30) as response:
            return str(response.read().decode())


def worker_of(pid: int) -> int:
    """The one child of a process: gunicorn's worker."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0])
