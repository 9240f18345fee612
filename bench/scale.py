"""A large cluster: the server's start, memory and cost of a decision; the controller's memory and time for a recount.

What the cluster holds is written straight into the store. Decisions are asked for as dry runs, so that the count is not
written; a small cluster is asked in turn, because machines drift.
"""

from __future__ import annotations

import http.client
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

import click

from bench import crowded
from bench.clients import NAME, Order, run_clients
from bench.example import BARE, FILLED, review
from bench.figures import row
from bench.processes import resident_megabytes
from bench.programs import worker_of
from bench.setups import CONTROLLER, SERVER, Setup, Stage
from bench.shown import shown
from bench.store import Store
from bench.tally import Tally
from tests.cluster.plane import Variant
from tests.cluster.programs import API_SERVER

SETUP = Setup("scale", Variant(plugins=False), "webhook")
CONNECTIONS, SECONDS, ROUNDS = 4, 3.0, 5
WITHIN = 600.0


@click.command("scale")
@click.option("--namespaces", default=5000, show_default=True, help="Namespaces, each with a LimitRange and a quota.")
@click.option("--pods", default=100_000, show_default=True, help="Pods for the controller; 0 leaves it out.")
@click.option("--starts", default=3, show_default=True, help="Starts of the server that are measured.")
def main(namespaces: int, pods: int, starts: int) -> None:
    """A large cluster: start, memory, cost of a decision; memory and recount of the controller."""
    with ExitStack() as stack:
        large = stack.enter_context(Stage(SETUP))
        small = stack.enter_context(Stage(SETUP))
        print(f"A large cluster: {namespaces} namespaces, {2 * namespaces} policies; goals 30 s and 150 MB", flush=True)
        _fill(small, "a small cluster filled", crowded.example())
        _fill(large, "the large cluster filled", crowded.example(), crowded.namespaces(namespaces))
        _starts(large, starts)
        small.start_server()
        _decisions({"small": small, "large": large})
        small.stop()
        if pods:
            _fill(large, f"{pods} pods put into the store", crowded.pods(pods, namespaces))
            _controller(large, namespaces + 3, pods)
            _starts(large, starts)


def _fill(stage: Stage, what: str, *sources: Iterable[crowded.Stored]) -> None:
    store, begin = Store(stage.plane.home), time.monotonic()
    number = sum(store.put(source) for source in sources)
    store.close()
    row(what, f"{number} objects in {time.monotonic() - begin:.1f} s")


def _starts(stage: Stage, number: int) -> None:
    """Start the server as often as said; the last one keeps running."""
    seconds, cpu, memory, parent = [], [], [], []
    for _ in range(number):
        if SERVER in stage.programs:
            stage.programs[SERVER].stop()
        seconds.append(stage.start_server())
        time.sleep(1.0)
        pid = stage.programs[SERVER].pid
        cpu.append(Tally.take({SERVER: pid}).programs[SERVER])
        memory.append(resident_megabytes(worker_of(pid)))
        parent.append(resident_megabytes(pid))
    row("server: start to ready", f"{shown(seconds, 2)} s")
    row("server: processor time of that", f"{shown(cpu, 2)} s")
    row("server: resident memory, worker process", f"{shown(memory, 1)} MB")
    row("server: resident memory, parent process", f"{shown(parent, 1)} MB")


# -- decisions


def _decisions(stages: dict[str, Stage]) -> None:
    bodies = {"mutate": review(BARE), "validate": review(FILLED).replace(b'"dryRun":false', b'"dryRun":true')}
    cpu: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(ROUNDS + 1):
        for path, body in bodies.items():
            for name, stage in stages.items():
                figure = _decide(stage, path, body)
                if number:  # the first round warms up
                    cpu[path, name].append(figure)
    for path in bodies:
        for name in stages:
            times = f"{median(cpu[path, name]) / median(cpu[path, 'small']):.2f} x"
            row(f"/{path}, {name} cluster", f"{shown(cpu[path, name], 3)} ms CPU a request, {times}")


def _decide(stage: Stage, path: str, body: bytes) -> float:
    """Milliseconds of processor time a review."""
    text = body.decode().replace(FILLED["metadata"]["name"], NAME, 1)
    ca = str(stage.plane.home / "webhook-certs" / "ca.crt")
    order = Order(stage.port, ca, [f"/{path}?timeout=10s"], text, "web", CONNECTIONS, SECONDS, expected=200)
    pids = {SERVER: stage.programs[SERVER].pid}
    before = Tally.take(pids)
    result = run_clients(order)
    if result.refused:
        raise SystemExit(f"/{path}: {result.refused}")
    return Tally.take(pids).since(before).programs[SERVER] * 1000 / result.done


# -- the controller


def _controller(stage: Stage, quotas: int, pods: int) -> None:
    """Its first start, where all quotas are written, and another one, where the count is right already."""
    seconds = _recounted(stage, quotas)
    while _counted(stage) != pods:
        _look_again(seconds.begin, 1.0)
    row("controller: start to all pods counted", f"{time.monotonic() - seconds.begin:.1f} s")
    _print_start(seconds)
    _change(stage)
    stage.programs[CONTROLLER].stop()
    seconds = _recounted(stage, quotas)
    row("controller: another start to all recounted", f"{seconds.recounted:.1f} s")
    _print_start(seconds)
    recount = _metric(stage, "recount_seconds") * 1000
    row("controller: count of one quota in memory", f"{recount:.2f} ms")


@dataclass(frozen=True)
class _Start:
    begin: float
    registered: float
    recounted: float
    cpu: dict[str, float]
    memory: float


def _recounted(stage: Stage, quotas: int) -> _Start:
    """Start the controller, and wait until it has counted every quota anew."""
    before, begin = Tally.take(stage.pids()), time.monotonic()
    registered = stage.start_controller()
    while _metric(stage, "recounts_total") < quotas:
        _look_again(begin, 0.2)
    recounted = time.monotonic() - begin
    pids = stage.pids()
    return _Start(
        begin,
        registered,
        recounted,
        dict(Tally.take(pids).since(before).programs),
        resident_megabytes(pids[CONTROLLER]),
    )


def _print_start(start: _Start) -> None:
    used = f"{start.cpu[CONTROLLER]:.1f} s; of the API server {start.cpu[API_SERVER]:.1f} s"
    row("controller: ... of which to registered", f"{start.registered:.1f} s")
    row("controller: processor time of that", used)
    row("controller: resident memory", f"{start.memory:.0f} MB")


def _metric(stage: Stage, name: str) -> float:
    """A figure that the controller exports."""
    exported = stage.programs[CONTROLLER].metrics().splitlines()
    prefix = f"quota_admission_controller_{name} "
    return sum(float(line.removeprefix(prefix)) for line in exported if line.startswith(prefix))


def _change(stage: Stage) -> None:
    """How soon one deletion is in the count."""
    namespace, taken = crowded.namespace_name(0), []
    path = f"/api/v1/namespaces/{namespace}"
    for pod in stage.plane.call("GET", f"{path}/pods").body["items"][:5]:
        less = _used(stage, namespace) - 1
        begin = time.monotonic()
        stage.plane.call("DELETE", f"{path}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
        while _used(stage, namespace) != less:
            _look_again(begin, 0.01)
        taken.append(time.monotonic() - begin)
    row("controller: a deletion to its recount", f"{shown(taken, 2)} s")


def _used(stage: Stage, namespace: str) -> int:
    quota = stage.plane.call("GET", f"/api/v1/namespaces/{namespace}/resourcequotas/compute").body
    return int(quota["status"]["used"]["pods"])


def _counted(stage: Stage) -> int:
    """The pods that all quotas named `compute` count."""
    try:
        items = stage.plane.call("GET", "/api/v1/resourcequotas?resourceVersion=0").body["items"]
    except (OSError, http.client.HTTPException, json.JSONDecodeError):
        return 0
    named = [item for item in items if item["metadata"]["name"] == "compute"]
    return sum(int(item.get("status", {}).get("used", {}).get("pods", "0")) for item in named)


def _look_again(begin: float, after: float) -> None:
    if time.monotonic() - begin > WITHIN:
        raise SystemExit(f"not done within {WITHIN:.0f} s")
    time.sleep(after)
