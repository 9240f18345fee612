"""Pods created per second through one API server, and what each costs every process: setups side by side.

All setups run at once, idle ones cost about a hundredth of a processor, and are put under load in turn, round by round,
because machines drift. Every round has namespaces of its own, and its pods are deleted after it. The first round is not
counted. Where everything shares two processors, pods a second follow from processor time; that is the steadier figure.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import click

from bench.clients import NAME, Order, Result, run_clients
from bench.setups import ALLOWED, BUILT_IN, CONTROLLER, SERVER, SETUPS, Setup, Stage
from bench.shown import shown
from bench.tally import Tally
from tests.cluster.programs import API_SERVER, CONTROLLER_MANAGER, ETCD

SETTLE = 1.5
"""Seconds after the load in which what follows the objects may catch up; they count as part of what a pod costs."""
WARM_UP = 4.0
COLUMNS = (API_SERVER, ETCD, CONTROLLER_MANAGER, SERVER, CONTROLLER, "client")
HEADINGS = {CONTROLLER_MANAGER: "kube-ctrl-mgr", SERVER: "webhook", API_SERVER: "API server"}

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": NAME, "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "app", "image": "registry.example/team/app:1"}]},
}
DEFAULTS = {"default": {"cpu": "500m", "memory": "512Mi"}, "defaultRequest": {"cpu": "100m", "memory": "128Mi"}}
BOUNDS = {"min": {"cpu": "10m", "memory": "16Mi"}, "max": {"cpu": "2", "memory": "4Gi"}}
HARD = {"requests.cpu": "1M", "requests.memory": "1Ei", "limits.cpu": "1M", "limits.memory": "1Ei", "pods": "10M"}


def policies(_namespace: str) -> list[dict[str, Any]]:
    """A LimitRange that gives the pod all it states, and a quota that never refuses it."""
    limits = {"limits": [{"type": "Container", **DEFAULTS, **BOUNDS}]}
    return [
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "containers"}, "spec": limits},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute"}, "spec": {"hard": HARD}},
    ]


@dataclass(frozen=True)
class Load:
    """What each setup is put under."""

    seconds: float
    clients: int
    namespaces: int


@dataclass(frozen=True)
class Figures:
    """What one setup showed in one round; `cpu` is in milliseconds a pod, by program, `others` in processors."""

    rate: float
    median: float
    slow: float
    cpu: dict[str, float]
    others: float
    problems: list[str]

    @property
    def total(self) -> float:
        """Processor time of all programs together, in milliseconds a pod."""
        return sum(self.cpu.values())


@click.command("throughput")
@click.option("--seconds", default=10.0, show_default=True, help="Length of a round, for each setup.")
@click.option("--clients", default=24, show_default=True, help="Clients that create at once.")
@click.option("--namespaces", default=20, show_default=True, help="Namespaces, each with a LimitRange and a quota.")
@click.option("--rounds", default=5, show_default=True, help="Rounds that are counted.")
@click.option(
    "--only", multiple=True, type=click.Choice([setup.name for setup in SETUPS]), help="Repeat.  [default: all]"
)
def main(seconds: float, clients: int, namespaces: int, rounds: int, only: Sequence[str]) -> None:
    """Pods created per second through one API server, setups side by side."""
    load = Load(seconds, clients, namespaces)
    found: dict[str, list[Figures]] = defaultdict(list)
    with ExitStack() as stack:
        stages = [stack.enter_context(Stage(setup)) for setup in SETUPS if not only or setup.name in only]
        for stage in stages:
            stage.start()
        for number in range(rounds + 1):
            first = number % len(stages)
            for stage in stages[first:] + stages[:first]:
                figures = measure(stage, f"round-{number}", load if number else Load(WARM_UP, clients, namespaces))
                print(f"  {stage.setup.name}, {_round(number)}: {figures.rate:.0f} pods/s", file=sys.stderr, flush=True)
                if number:
                    found[stage.setup.name].append(figures)
    print(f"\nPods created by {clients} clients in {namespaces} namespaces, {rounds} rounds of {seconds:.0f} s each;")
    print(f"medians, in brackets the 10th and 90th percentile; {os.cpu_count()} processors for everything\n")
    found = {stage.setup.name: found[stage.setup.name] for stage in stages}
    _print_rates(found)
    _print_costs(found)
    _print_ratios(found)
    _print_problems(found)


def _round(number: int) -> str:
    return f"round {number}" if number else "not counted"


def measure(stage: Stage, prefix: str, load: Load, meanwhile: Callable[[], None] = lambda: None) -> Figures:
    """Put a setup under load; `meanwhile` is called when the load has begun."""
    names = [f"{prefix}-{number}" for number in range(load.namespaces)]
    stage.create_namespaces(names, policies)
    time.sleep(0.5)
    before, begin = Tally.take(stage.pids()), time.monotonic()
    result = run_clients(_order(stage, names, prefix, load), meanwhile)
    time.sleep(SETTLE)
    used, seconds = Tally.take(stage.pids()).since(before), time.monotonic() - begin
    problems = [f"{count} x {text}" for text, count in result.refused.items()]
    if stage.setup.counts and (counted := _counted(stage, names, result.done)) != result.done:
        problems.append(f"{result.done} pods created, {counted} counted")
    stage.delete_pods(names)
    return _figures(stage.setup, result, used, seconds, problems)


def _figures(setup: Setup, result: Result, used: Tally, seconds: float, problems: list[str]) -> Figures:
    pods = max(result.done, 1)
    cpu = {name: spent * 1000 / pods for name, spent in used.programs.items()}
    if setup.accounting == ALLOWED:
        cpu[SERVER] = cpu.pop(ALLOWED)
    cpu["client"] = result.cpu * 1000 / pods
    others = (used.machine - sum(used.programs.values()) - result.cpu) / seconds
    return Figures(result.done / result.seconds, result.median, result.slow, cpu, others, problems)


def _order(stage: Stage, names: list[str], prefix: str, load: Load) -> Order:
    return Order(
        port=int(stage.plane.server.rpartition(":")[2]),
        ca=str(stage.plane.ca_file),
        token=stage.plane.token,
        paths=[f"/api/v1/namespaces/{name}/pods" for name in names],
        body=json.dumps(POD, separators=(",", ":")),
        prefix=prefix,
        clients=load.clients,
        seconds=load.seconds,
    )


def _counted(stage: Stage, names: list[str], expected: int) -> int:
    """The pods that the quotas count, once they count as many as expected or have had time enough."""
    give_up = time.monotonic() + 10
    while (counted := stage.used_pods(names)) != expected and time.monotonic() < give_up:
        time.sleep(0.2)
    return counted


# -- printing


def _print_rates(found: dict[str, list[Figures]]) -> None:
    print(f"{'':<16}{'pods/s':>18}{'ms, median':>20}{'ms, 99th':>20}{'ms CPU a pod, all':>22}{'others, CPUs':>20}")
    for name, rounds in found.items():
        cells = [
            f"{shown([figures.rate for figures in rounds], 0):>18}",
            f"{shown([figures.median for figures in rounds], 1):>20}",
            f"{shown([figures.slow for figures in rounds], 0):>20}",
            f"{shown([figures.total for figures in rounds], 2):>22}",
            f"{shown([figures.others for figures in rounds], 2):>20}",
        ]
        print(f"{name:<16}{''.join(cells)}")
    print()


def _print_costs(found: dict[str, list[Figures]]) -> None:
    headings = "".join(f"{HEADINGS.get(column, column):>18}" for column in COLUMNS)
    print(f"{'ms CPU a pod':<16}{headings}")
    for name, rounds in found.items():
        cells = [
            shown([figures.cpu[column] for figures in rounds], 2) if column in rounds[0].cpu else "-"
            for column in COLUMNS
        ]
        print(f"{name:<16}{''.join(f'{cell:>18}' for cell in cells)}")
    print()


def _print_ratios(found: dict[str, list[Figures]]) -> None:
    """Against the built-in, round by round, so that drift hits both sides of a ratio."""
    yardstick = found.get(BUILT_IN.name)
    if not yardstick or len(found) < 2:
        return
    print(f"{'of the built-in':<16}{'pods/s':>20}{'CPU a pod':>20}")
    for name, rounds in found.items():
        pairs = list(zip(rounds, yardstick, strict=True))
        rates = shown([ours.rate / theirs.rate for ours, theirs in pairs], 2)
        costs = shown([ours.total / theirs.total for ours, theirs in pairs], 2)
        goal = "   goal 0.75" if name.startswith("ours") else ""
        print(f"{name:<16}{rates:>20}{costs:>20}{goal}")
    print()


def _print_problems(found: dict[str, list[Figures]]) -> None:
    for name, rounds in found.items():
        for problem in [text for figures in rounds for text in figures.problems]:
            print(f"{name}: {problem}")
