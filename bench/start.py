"""How long a server takes to be ready on many policies, and how much memory it needs."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import yaml

from bench.example import policies
from bench.figures import row, spread
from bench.processes import resident_megabytes, running

NAMESPACES = 5000
ROUNDS = 5


def run() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _write(folder / "policies")
        print(f"The start: {NAMESPACES} namespaces, {2 * NAMESPACES} policies in YAML; goal 5 s and 150 MB")
        results = [_start(folder) for _ in range(ROUNDS)]
        row("start to ready", spread([result[0] for result in results], "s", 2))
        row("resident memory, worker process", spread([result[1] for result in results], "MB"))
        row("resident memory, parent process", spread([result[2] for result in results], "MB"))


def _write(folder: Path) -> None:
    """One file a namespace: the namespace, a LimitRange, a quota."""
    folder.mkdir()
    for number in range(NAMESPACES):
        namespace, limit_range, _, quota, *_ = policies(f"team-{number:05d}")
        (folder / f"team-{number:05d}.yaml").write_text(yaml.safe_dump_all([namespace, limit_range, quota]))


def _start(scratch: Path) -> tuple[float, float, float]:
    arguments = ["serve", "--standalone", str(scratch / "policies"), "--cert-dir", str(scratch / "certs")]
    begin = time.perf_counter()
    with running("admission.cli", [*arguments, "--log-level", "error"]) as server:
        seconds = time.perf_counter() - begin
        return seconds, resident_megabytes(server.worker()), resident_megabytes(server.process.pid)
