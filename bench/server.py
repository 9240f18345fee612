"""What a review costs over keep-alive TLS, against an empty Flask endpoint that is served in the same way.

Client and servers share the machine, so that what counts is the server's processor time a request; requests a second
say how it all feels together. The servers are measured in turn, round by round, because machines drift.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.example import policies
from bench.figures import row, spread
from bench.processes import Running, cpu_seconds, running
from certs import ensure

CONNECTIONS, SECONDS, ROUNDS = 8, 3.0, 5


def run(threads: int = 4) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        (folder / "policies").mkdir()
        items = {"apiVersion": "v1", "kind": "List", "items": policies()}
        (folder / "policies" / "policies.json").write_text(json.dumps(items))
        (folder / "config.yaml").write_text(f"server: {{threads: {threads}}}\n")
        ensure(folder / "certs", ["localhost"], ["127.0.0.1"], now=datetime.now(UTC))
        empty = stack.enter_context(running("bench.empty", _options(folder, "--threads", str(threads))))
        memory = stack.enter_context(running("admission.cli", _serve(folder)))
        on_disk = stack.enter_context(running("admission.cli", _serve(folder, "--state", str(folder / "usage.db"))))
        print(f"The server: {CONNECTIONS} connections, {threads} threads; goal as fast as the empty endpoint")
        _compare(
            folder / "certs" / "ca.crt",
            {
                "empty Flask endpoint": (empty, "/validate"),
                "/mutate, defaults injected": (memory, "/mutate"),
                "/validate, counted in memory": (memory, "/validate"),
                "/validate, counted in a state file": (on_disk, "/validate"),
            },
        )


def _options(folder: Path, *more: str) -> list[str]:
    return ["--cert-dir", str(folder / "certs"), *more]


def _serve(folder: Path, *more: str) -> list[str]:
    served = ["serve", "--standalone", str(folder / "policies"), "--config", str(folder / "config.yaml")]
    return [*served, "--log-level", "error", *_options(folder, *more)]


def _compare(ca: Path, servers: dict[str, tuple[Running, str]]) -> None:
    cpu: dict[str, list[float]] = defaultdict(list)
    rate: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, (server, path) in servers.items():
            before = cpu_seconds(server.worker())
            requests, seconds = _load(server, ca, path)
            cpu[name].append((cpu_seconds(server.worker()) - before) / requests * 1000)
            rate[name].append(requests / seconds)
    yardstick = median(next(iter(cpu.values())))
    for name in servers:
        times = f"{median(cpu[name]) / yardstick:.2f} x"
        row(name, f"{spread(cpu[name], 'ms CPU', 2)}, {times}; {spread(rate[name], 'requests/s', 0)}")


def _load(server: Running, ca: Path, path: str) -> tuple[int, float]:
    arguments: Sequence[str] = (str(server.webhook_port), str(ca), str(CONNECTIONS), str(SECONDS), path)
    done = subprocess.run([sys.executable, "-m", "bench.load", *arguments], check=True, capture_output=True, text=True)
    requests, seconds = done.stdout.split()
    return int(requests), float(seconds)
