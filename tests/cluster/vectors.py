"""The recorded requests, made again by a client of a real API server that asks our webhooks.

    python -m tests.cluster.vectors [--sample N] [--jobs N] [--built-in] [--only NAME]

The plugins of the API server are off, and one server of ours is registered by hand; no controller runs, because the
records say what the status of each quota was. With `--built-in` it is the other way round: the plugins are on and
nothing of ours runs, which shows that the requests are made as they were when they were recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.cluster.calls import Caller
from tests.cluster.plane import ControlPlane, Variant
from tests.cluster.recreating import CLUSTER_WIDE, NotReproducible, Recreation
from tests.cluster.rig import Replica, Rig, Setup
from tests.vectors.replaying import Json, expected, report, vectors

CONFIG = "quota: {accounting: webhook}\n"
OURS = Variant(plugins=False)
THEIRS = Variant(plugins=True)
SEEN_WITHIN = 20.0
BUILT_IN_SEES_WITHIN = 2.0  # its caches cannot be looked at
BUILT_IN_TRIES = 40  # until it takes the policies of a namespace in the order of the record


@dataclass
class Result:
    """How it went, by the names of the records."""

    played: int
    failed: dict[str, list[str]] = field(default_factory=dict)
    impossible: dict[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """`N passed, N failed, N not reproducible`."""
        passed = self.played - len(self.failed) - len(self.impossible)
        return f"{passed} passed, {len(self.failed)} failed, {len(self.impossible)} not reproducible"

    def text(self) -> str:
        """The line, and all that is not as recorded."""
        parts = [f"not reproducible: {name}: {reason}" for name, reason in self.impossible.items()]
        if self.failed:
            parts.append(report(self.failed, self.played))
        return "\n".join([*parts, self.line()])


def sample(count: int) -> list[Json]:
    """So many of the records, spread over all kinds; all for 0."""
    listed = [vector for name in ("admission", "wide") for vector in vectors(name)]
    if not 0 < count < len(listed):
        return listed
    by_kind = sorted(listed, key=lambda vector: vector["name"])
    return [by_kind[number * len(by_kind) // count] for number in range(count)]


class Playing:
    """All records at once: first everything that was there before, then the requests."""

    def __init__(self, listed: list[Json], caller: Caller, jobs: int) -> None:
        self.result = Result(len(listed))
        self._recreations = [Recreation(vector, caller) for vector in listed]
        self._caller = caller
        self._jobs = jobs

    def prepare(self) -> None:
        """Cluster-wide objects, namespaces, old objects, and only then policies."""
        for path, body in CLUSTER_WIDE:
            answer = self._caller.call("POST", path, body)
            assert answer.status in (201, 409), answer.message
        self._each(Recreation.create_namespace)
        self._each(Recreation.create_policies)

    def play(self, ready: Callable[[Recreation], None], *, tries: int = 1) -> Result:
        """Make each request and compare; `ready` waits until whoever judges knows the policies."""

        def one(recreation: Recreation) -> None:
            ready(recreation)
            found = recreation.differences(tries)
            if found:
                self.result.failed[recreation.name] = found

        self._each(one)
        return self.result

    def _each(self, step: Callable[[Recreation], None]) -> None:
        """Take a step with all that got so far, several at once."""

        def guarded(recreation: Recreation) -> None:
            try:
                step(recreation)
            except NotReproducible as error:
                self.result.impossible[recreation.name] = str(error)

        going = [one for one in self._recreations if one.name not in self.result.impossible]
        with ThreadPoolExecutor(self._jobs) as pool:
            list(pool.map(guarded, going))


def knows(server: Replica, recreation: Recreation) -> None:
    """Wait until the server's caches have what was written last."""
    give_up = time.monotonic() + SEEN_WITHIN
    while True:
        shown = server.usage(recreation.namespace)
        seen = {
            kind: {name: one.get("resourceVersion") for name, one in shown.get(kind, {}).items()}
            for kind in recreation.versions
        }
        if seen == recreation.versions:
            return
        if time.monotonic() > give_up:
            raise AssertionError(f"{recreation.name}: the server knows {seen}, stored is {recreation.versions}")
        time.sleep(0.02)


@contextlib.contextmanager
def callers(plane: ControlPlane) -> Iterator[Caller]:
    """A caller whose connections are closed afterwards."""
    caller = Caller(plane)
    try:
        yield caller
    finally:
        caller.close()


def against_plugins(listed: list[Json], plane: ControlPlane, jobs: int) -> Result:
    """Have the plugins of the API server judge."""
    with callers(plane) as caller:
        playing = Playing(listed, caller, jobs)
        playing.prepare()
        time.sleep(BUILT_IN_SEES_WITHIN)
        return playing.play(lambda _: None, tries=BUILT_IN_TRIES)


def against_server(listed: list[Json], plane: ControlPlane, jobs: int) -> Result:
    """Have a server of ours judge; it is registered only when all is prepared."""
    with Rig(plane, Setup(config=CONFIG)) as rig, callers(plane) as caller:
        playing = Playing(listed, caller, jobs)
        playing.prepare()
        rig.register()
        return playing.play(lambda recreation: knows(rig.servers[0], recreation))


def main() -> int:
    """The command line; 1 where something is not as recorded."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.vectors", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="only so many, spread over all kinds")
    parser.add_argument("--only", help="only the one of this name")
    parser.add_argument("--jobs", type=int, default=8, help="requests at the same time")
    parser.add_argument("--built-in", action="store_true", help="have the plugins of the API server judge")
    given = parser.parse_args()
    listed = [vector for vector in sample(given.sample) if given.only in (None, vector["name"])]
    begin = time.monotonic()
    with ControlPlane(THEIRS if given.built_in else OURS) as plane:
        if given.built_in:
            result = against_plugins(listed, plane, given.jobs)
        else:
            result = against_server([expected(vector) for vector in listed], plane, given.jobs)
    sys.stdout.write(f"{result.text()}\n{time.monotonic() - begin:.0f} s\n")
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
