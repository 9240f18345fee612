"""Where the time of the server or the controller goes under load: by thread, and in these by function with py-spy.

By thread, the kernel's own figures are given, of a load under which nobody looks. By function, py-spy looks at the
process from outside, so nothing of it is in the product: at whoever holds the interpreter lock, so it sees no waiting
and no system calls. It sees some threads less often than they work; so what it saw is scaled, thread by thread, to the
kernel's figures. On a busy machine a thread may lose its processor while it holds the lock, and stands out then.

py-spy needs the right to trace (root, or the capability SYS_PTRACE), and is not installed with the rest: `pip install
py-spy` anywhere, and name it by `--py-spy`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from bench.programs import worker_of
from bench.setups import ALLOWED, CONTROLLER, SERVER, SETUPS, Stage
from bench.throughput import Load, measure

LOOKS = 200
"""Looks a second."""
SETTLED = 2.0
"""Seconds of load before the first look."""
CLIENTS, NAMESPACES = 24, 20
WORTH_A_LINE = 0.005
"""Milliseconds a pod."""

Stack = tuple[str, ...]
Stacks = Mapping[str, Counter[Stack]]
Seconds = tuple[float, float]


@click.command("profile")
@click.option("--setup", "name", default="ours-webhook", show_default=True, type=click.Choice([s.name for s in SETUPS]))
@click.option("--program", default=SERVER, show_default=True, type=click.Choice([SERVER, CONTROLLER, ALLOWED]))
@click.option("--seconds", default=10.0, show_default=True, help="How long to look.")
@click.option("--top", default=40, show_default=True, help="Lines a table.")
@click.option("--py-spy", "tool", default="py-spy", show_default=True, help="The program.")
def main(name: str, program: str, seconds: float, top: int, tool: str) -> None:
    """Where the time of a program goes under load."""
    found = shutil.which(tool) or sys.exit(f"no {tool}: pip install py-spy, then --py-spy PATH")
    setup = next(setup for setup in SETUPS if setup.name == name)
    with Stage(setup) as stage:
        stage.start()
        pid = stage.programs[program].pid
        pid = pid if program == CONTROLLER else worker_of(pid)
        measure(stage, "warm-up", Load(SETTLED, CLIENTS, NAMESPACES))
        groups = _by_thread(stage, pid, found, seconds)
        stacks = _by_function(stage, pid, found, seconds)
    for group in sorted(groups, key=lambda group: -group.total):
        if group.total >= WORTH_A_LINE:
            _print(group, stacks.get(group.name, Counter()), top)


# -- by thread


@dataclass
class Group:
    """Threads of one kind, and their milliseconds of processor time a pod."""

    name: str
    threads: int = 0
    user: float = 0.0
    system: float = 0.0

    @property
    def total(self) -> float:
        return self.user + self.system


def _by_thread(stage: Stage, pid: int, tool: str, seconds: float) -> list[Group]:
    taken: list[dict[int, Seconds]] = []

    def under_load() -> None:
        taken.append(_threads(pid))
        time.sleep(seconds)
        taken.append(_threads(pid))

    figures = measure(stage, "threads", Load(seconds + 1, CLIENTS, NAMESPACES), under_load)
    costs = ", ".join(f"{name} {cost:.2f}" for name, cost in figures.cpu.items())
    print(f"{stage.setup.name}: {figures.rate:.0f} pods/s, ms CPU a pod: {costs}\n")
    before, after = taken
    names, groups = _names(tool, pid), dict[str, Group]()
    for thread, (user, system) in after.items():
        name = names.get(thread, "?")
        group = groups.setdefault(name, Group(name))
        old = before.get(thread, (0.0, 0.0))
        group.threads += 1
        group.user += (user - old[0]) * 1000 / (figures.rate * seconds)
        group.system += (system - old[1]) * 1000 / (figures.rate * seconds)
    return list(groups.values())


def _threads(pid: int) -> dict[int, Seconds]:
    """Thread -> processor time, of its own and of the kernel on its behalf."""
    found, ticks = {}, os.sysconf("SC_CLK_TCK")
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        found[int(task.name)] = (int(fields[11]) / ticks, int(fields[12]) / ticks)
    return found


def _names(tool: str, pid: int) -> dict[int, str]:
    """Thread -> its name in Python."""
    dump = subprocess.run([tool, "dump", "--pid", str(pid)], check=True, capture_output=True, text=True).stdout
    found = re.findall(r'^Thread (\d+) \([^)]*\): "(.*)"$', dump, re.MULTILINE)
    return {int(number): _without_number(name) for number, name in found}


def _without_number(name: str) -> str:
    return re.sub(r"[ \d_-]+$", "", name)


# -- by function


def _by_function(stage: Stage, pid: int, tool: str, seconds: float) -> Stacks:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "stacks")
        command = [tool, "record", "--gil", "--threads", "--pid", str(pid), "--duration", str(round(seconds))]
        command += ["--rate", str(LOOKS), "--format", "raw", "--output", str(output)]

        def look() -> None:
            time.sleep(SETTLED)
            subprocess.run(command, check=True, capture_output=True)

        measure(stage, "functions", Load(seconds + 2 * SETTLED, CLIENTS, NAMESPACES), look)
        return _stacks(output.read_text().splitlines())


def _stacks(lines: Iterable[str]) -> Stacks:
    """Name of the threads -> stacks, from lines `thread (NUMBER): NAME;outermost (file:line);...;innermost COUNT`."""
    stacks: dict[str, Counter[Stack]] = defaultdict(Counter)
    for line in lines:
        frames, _, count = line.rpartition(" ")
        thread, *functions = frames.split(";")
        name = _without_number(thread.partition(": ")[2])
        stacks[name][tuple(_without_line(function) for function in functions)] += int(count)
    return stacks


def _without_line(frame: str) -> str:
    name, _, place = frame.partition(" (")
    file = place.rstrip(")").partition(":")[0]
    return f"{name} ({file})" if file else name


def _print(group: Group, stacks: Counter[Stack], top: int) -> None:
    seen = sum(stacks.values())
    print(f"{group.name}, {group.threads} threads: {group.total:.2f} ms a pod, of which kernel {group.system:.2f}")
    itself: Counter[str] = Counter()
    with_callees: Counter[str] = Counter()
    for stack, number in stacks.items():
        itself[stack[-1]] += number
        with_callees.update(dict.fromkeys(stack, number))
    for title, counts in (("with what it calls", with_callees), ("itself", itself)):
        print(f"  ms a pod  {title} ({seen} looks)")
        for name, number in counts.most_common(top):
            print(f"  {group.user * number / seen:8.3f}  {name}")
    print()
