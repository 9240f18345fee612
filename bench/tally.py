"""Processor time: of a program with all its processes, and of the whole machine."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Tally:
    """Seconds of processor time so far: of each program, and of all that ran on the machine."""

    programs: Mapping[str, float]
    machine: float

    @classmethod
    def take(cls, pids: Mapping[str, int]) -> Tally:
        """A look at programs by the process that each was started as, which is counted with its descendants."""
        seconds, children = _processes()
        return cls({name: _sum(pid, seconds, children) for name, pid in pids.items()}, _machine())

    def since(self, before: Tally) -> Tally:
        """What was used since an earlier look."""
        programs = {name: used - before.programs.get(name, 0.0) for name, used in self.programs.items()}
        return Tally(programs, self.machine - before.machine)


def _processes() -> tuple[dict[int, float], dict[int, list[int]]]:
    """Seconds of each process, and its children."""
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            seconds[int(entry.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
            children[int(fields[1])].append(int(entry.name))
    return seconds, children


def _sum(pid: int, seconds: Mapping[int, float], children: Mapping[int, list[int]]) -> float:
    return seconds.get(pid, 0.0) + sum(_sum(child, seconds, children) for child in children.get(pid, ()))


def _machine() -> float:
    """Seconds that the processors were busy; time that the host took away counts, for nobody here had it."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _wait, interrupts, soft, steal = fields[:8]
    return (user + nice + system + interrupts + soft + steal) / _TICKS
