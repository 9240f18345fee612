"""Servers that are measured: started, waited for, looked at, stopped."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Running:
    """A server under measurement."""

    webhook_port: int
    admin_port: int
    process: subprocess.Popen[bytes]

    def worker(self) -> int:
        """The process that serves."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _parent(entry) == self.process.pid:
                return int(entry.name)
        raise SystemExit("the server has no worker process")


@contextlib.contextmanager
def running(module: str, arguments: Sequence[str]) -> Iterator[Running]:
    """Run `python -m MODULE ARGUMENTS --bind ... --admin-bind ...` until the block ends; ready when it begins."""
    webhook, admin = free_port(), free_port()
    command = [sys.executable, "-m", module, *arguments]
    command += ["--bind", f"127.0.0.1:{webhook}", "--admin-bind", f"127.0.0.1:{admin}"]
    with subprocess.Popen(command) as process:
        try:
            _wait_until_ready(admin, process)
            yield Running(webhook, admin, process)
        finally:
            process.send_signal(signal.SIGTERM)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int) -> float:
    """Memory that a process holds."""
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) / 1000 if match else 0.0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except OSError:
            time.sleep(0.02)
    raise SystemExit("the server did not start")
