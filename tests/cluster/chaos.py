"""Does the count hold, whatever dies? Many clients, replicas that are killed, an API server that restarts.

    python -m tests.cluster.chaos [--seconds 600] [--quota-controller on|off|both] [--built-in] ...

Judged by what was really stored, in its order (`history`): at no moment more than the quotas allowed; after a time of
quiet `status.used` is what a recount gives; and all that there is room for gets in. With `--built-in` the plugins of
the API server are judged by the same, with the quota controller that belongs to them.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.cluster.calls import Caller, Lost
from tests.cluster.history import History, Recorder
from tests.cluster.plan import Plan, Report, kind_of, pod, same_amounts
from tests.cluster.plane import ControlPlane
from tests.cluster.programs import API_SERVER, CONTROLLER_MANAGER
from tests.cluster.rig import Replica, Rig, Setup

ANNOTATIONS_SHOWN = 1000
TIMES = ("kill_every", "kill_controller_every", "down_for", "quiet", "grace")
API_SERVER_ENDS_WITHIN = 3.0


Work = Callable[[random.Random], None]


class Chaos:
    """One run against a control plane."""

    def __init__(self, plan: Plan, plane: ControlPlane, rig: Rig | None) -> None:
        self.plan, self.plane, self.rig = plan, plane, rig
        self.report = Report(plan)
        self.history = History(plan.names, grace=plan.grace)
        self.caller = Caller(plane, timeout=30.0)
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._number = 0

    def run(self) -> Report:
        """All of it."""
        recorder = Recorder(self.plane.home, self.history)
        recorder.start()
        try:
            self._prepare()
            self._rage()
            self._settle()
            self._recount("after the quiet")
            self._fill()
        finally:
            recorder.close()
            self.caller.close()
        self._judge()
        return self.report

    # -- before

    def _prepare(self) -> None:
        for namespace in self.plan.names:
            self.plane.create_namespace(namespace)
            for name, hard in self.plan.hard(self.plan.hold).items():
                body = {"metadata": {"name": name}, "spec": {"hard": hard}}
                self.caller.done("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", body)
        for namespace in self.plan.names:
            for name, hard in self.plan.hard(self.plan.hold).items():
                self._await_hard(namespace, name, hard)

    def _await_hard(self, namespace: str, name: str, hard: dict[str, str], within: float = 30.0) -> None:
        give_up = time.monotonic() + within
        path = f"/api/v1/namespaces/{namespace}/resourcequotas/{name}"
        while not same_amounts(self.caller.done("GET", path).get("status", {}).get("hard", {}), hard):
            assert time.monotonic() < give_up, f"{namespace}/{name}: nobody writes status.hard"
            time.sleep(0.05)

    # -- meanwhile

    def _rage(self) -> None:
        """Clients, and whoever makes their life hard, until the time is over."""
        workers: list[tuple[Work, int]] = [(self._client, number) for number in range(self.plan.clients)]
        if self.rig is not None:
            workers.append((self._killer, 0))
        if self.plan.api_restarts:
            workers.append((self._restarter, 0))
        if self.plan.resizes:
            workers.append((self._resizer, 0))
        errors: list[BaseException] = []

        def guarded(work: Work, number: int) -> None:
            try:
                work(random.Random(f"{self.plan.seed}-{work.__name__}-{number}"))
            except BaseException as error:
                errors.append(error)
                self._over.set()

        threads = [threading.Thread(target=guarded, args=one, daemon=True) for one in workers]
        for thread in threads:
            thread.start()
        self._over.wait(self.plan.seconds)
        self._over.set()
        for thread in threads:
            thread.join(120)
        if errors:
            raise errors[0]

    def _count(self, where: Counter[str], what: str) -> None:
        with self._lock:
            where[what] += 1

    def _create(self, namespace: str) -> str:
        with self._lock:
            self._number += 1
            name = f"pod-{self._number}"
        try:
            kind = kind_of(self.caller.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod(name)))
        except Lost:
            kind = "no answer"
        self._count(self.report.answers, kind)
        return kind

    def _client(self, chance: random.Random) -> None:
        while not self._over.is_set():
            namespace = chance.choice(self.plan.names)
            # What ends and what is created balance each other just below the limit.
            answered = self._create(namespace)
            if answered == "no answer":
                time.sleep(0.2)
            is_full = answered == "no room" or (answered == "created" and self._is_nearly_full(namespace))
            if is_full and chance.random() < 0.5:
                with contextlib.suppress(Lost):
                    self._end_one(namespace, chance)

    def _is_nearly_full(self, namespace: str) -> bool:
        return self.history.live(namespace) > 0.9 * self.plan.hold

    def _end_one(self, namespace: str, chance: random.Random) -> None:
        """Delete a pod, or let it finish."""
        names = self.history.stored(namespace)
        if not names:
            return
        path = f"/api/v1/namespaces/{namespace}/pods/{chance.choice(names)}"
        if chance.random() < 0.3:
            self.caller.call("PATCH", f"{path}/status", {"status": {"phase": "Succeeded"}})
            self._count(self.report.events, "pods finished")
        else:
            self.caller.call("DELETE", f"{path}?gracePeriodSeconds=0")
            self._count(self.report.events, "pods deleted")

    def _killer(self, chance: random.Random) -> None:
        """kill -9 of a server that runs, every second; another second later it is started again.

        A controller is killed less often: it leads only once the Lease of the one before it has run out, and where it
        never does, nothing that ends makes room.
        """
        assert self.rig is not None
        replicas = self.rig.servers + self.rig.controllers
        down: dict[Replica, float] = {}
        groups = [(self.rig.servers, self.plan.kill_every), (self.rig.controllers, self.plan.kill_controller_every)]
        due = [time.monotonic() + (every or math.inf) for _, every in groups]
        while not self._over.wait(0.05):
            now = time.monotonic()
            for replica in [one for one, since in down.items() if now - since >= self.plan.down_for]:
                del down[replica]
                replica.start()
            for replica in replicas:
                if replica not in down and not replica.runs():
                    down[replica] = now  # whoever ends by itself is started again too, as a kubelet does
                    self._count(self.report.events, f"ended by itself: {replica.name}")
            for number, (group, every) in enumerate(groups):
                running = [one for one in group if one not in down]
                if now >= due[number] and running:
                    due[number] = now + every
                    victim = chance.choice(running)
                    victim.kill()
                    down[victim] = now
                    self._count(self.report.events, f"killed: {victim.name.partition('-')[0]}")
        for replica in replicas:
            replica.start()

    def _restarter(self, _: random.Random) -> None:
        """The API server ends and comes back, by SIGTERM and by SIGKILL in turn."""
        for number in range(self.plan.api_restarts):
            if self._over.wait(self.plan.seconds / (self.plan.api_restarts + 1)):
                return
            # With watches open it takes its time to end; whoever runs clusters does not always give it that.
            self.plane.processes[API_SERVER].stop(hard=bool(number % 2), within=API_SERVER_ENDS_WITHIN)
            self.plane.start_apiserver()
            if CONTROLLER_MANAGER in self.plane.processes:
                self.plane.processes[CONTROLLER_MANAGER].start()  # where it did not live through that
            self._count(self.report.events, "API server restarted")

    def _resizer(self, chance: random.Random) -> None:
        """Quotas are lowered by a third, and raised again a while later."""
        pause = max(1.0, self.plan.seconds / 20)
        lowered: str | None = None
        while not self._over.wait(pause):
            if lowered is None:
                lowered = chance.choice(self.plan.names)
                self._resize(lowered, self.plan.hold * 2 // 3)
                self._count(self.report.events, "quotas lowered and raised")
            else:
                self._resize(lowered, self.plan.hold)
                lowered = None
        for namespace in self.plan.names:
            self._resize(namespace, self.plan.hold)

    def _resize(self, namespace: str, hold: int) -> None:
        for name, hard in self.plan.hard(hold).items():
            path = f"/api/v1/namespaces/{namespace}/resourcequotas/{name}"
            said = ""
            for _ in range(100):  # the API server may be away, and a webhook stands before this too
                with contextlib.suppress(Lost):
                    answer = self.caller.call("PATCH", path, {"spec": {"hard": hard}})
                    if answer.status == 200:
                        break
                    said = f"{answer.status} {answer.message}"
                time.sleep(0.2)
            else:
                self._problem(f"{path} could not be changed: {said}")

    # -- after

    def _settle(self) -> None:
        """Quiet: everything runs, nobody asks for anything."""
        self._await_all()
        time.sleep(self.plan.quiet)

    def _await_all(self, within: float = 60.0) -> None:
        """Wait until all are ready; whoever ends by itself is started again, as a kubelet does."""
        replicas = self.rig.servers + self.rig.controllers if self.rig is not None else []
        give_up = time.monotonic() + within
        while waited_for := [one for one in replicas if not one.is_ready()]:
            for replica in waited_for:
                if not replica.runs():
                    self._count(self.report.events, f"ended by itself: {replica.name}")
                    replica.start()
            if time.monotonic() > give_up:
                names = ", ".join(one.name for one in waited_for)
                self._problem(f"not ready {within:.0f} s after the last kill: {names}")
                return
            time.sleep(0.5)

    def _recount(self, when: str) -> None:
        """`status.used` and `status.hard` of each quota against what is there."""
        for namespace in self.plan.names:
            live = self.history.live(namespace)
            listed = self.caller.done("GET", f"/api/v1/namespaces/{namespace}/resourcequotas")["items"]
            for quota in listed:
                name, status = quota["metadata"]["name"], quota.get("status", {})
                for part, hold in (("used", live), ("hard", self.plan.hold)):
                    if not same_amounts(status.get(part, {}), self.plan.hard(hold)[name]):
                        self._problem(f"{when}: {part} of {namespace}/{name} is {status.get(part)}, there is {hold}")

    def _fill(self) -> None:
        """Create until there is no room: exactly as many as the quotas hold have to be there then."""
        for namespace in self.plan.names:
            errors = 0
            while (kind := self._create(namespace)) != "no room" and errors < 20:
                errors += kind != "created"
            wanted = time.monotonic() + 5.0
            while self.history.live(namespace) != self.plan.hold and time.monotonic() < wanted:
                time.sleep(0.05)
            if self.history.live(namespace) != self.plan.hold:
                found = f"{self.history.live(namespace)} of {self.plan.hold}"
                self._problem(f"filled until there was no room, {found} are in {namespace} ({errors} errors)")
                self._show_quotas(namespace)

    def _show_quotas(self, namespace: str) -> None:
        """How the count stands, for whoever looks for the fault."""
        for quota in self.caller.done("GET", f"/api/v1/namespaces/{namespace}/resourcequotas")["items"]:
            meta = quota["metadata"]
            kept = str(meta.get("annotations", {}))[:ANNOTATIONS_SHOWN]
            self._problem(f"  {namespace}/{meta['name']}: {quota.get('status')} {kept}")

    def _problem(self, text: str) -> None:
        self.report.problems.append(text)

    def _judge(self) -> None:
        rows, history = self.report.rows, self.history
        rows.append(("pods created, by the history", str(history.created)))
        for namespace in self.plan.names:
            for name, tally in sorted(history.quotas[namespace].items()):
                peaks = ", ".join(f"{resource} {amount / 1000:g}" for resource, amount in tally.peak.items())
                rows.append((f"{namespace}/{name}: most at once", f"{peaks} ({tally.writes} writes)"))
        rows.append(("moments with more than allowed", str(len(history.breaches))))
        worst = sorted(history.breaches, key=lambda one: one.hard - one.was)[:3]
        for one in worst:
            over = f"{one.was / 1000:g} of {one.hard / 1000:g}"
            self._problem(f"{one.quota}: {one.resource} {over} at revision {one.revision}")


@contextlib.contextmanager
def rig_of(plan: Plan, plane: ControlPlane) -> Iterator[Rig | None]:
    """What of ours takes part; nothing where the built-in plugins are judged."""
    if plan.built_in:
        yield None
        return
    with Rig(plane, Setup(plan.servers, plan.controllers, plan.config)) as rig:
        yield rig


def run(plan: Plan) -> Report:
    """One run from the start of a control plane to its end."""
    with ControlPlane(plan.variant) as plane, rig_of(plan, plane) as rig:
        return Chaos(plan, plane, rig).run()


def plans(given: argparse.Namespace) -> list[Plan]:
    """The runs that the command line asks for."""
    taken = ("seconds", "clients", "namespaces", "hold", "api_restarts", "seed", *TIMES)
    values = {name: getattr(given, name) for name in taken if getattr(given, name) is not None}
    values |= {"resizes": given.resizes, "built_in": given.built_in}
    if given.quotas:
        values["quotas"] = tuple(given.quotas)
    if given.config is not None:
        values["config"] = given.config
    whole = replace(Plan(), **values)
    if given.quota_controller == "both" and not given.built_in:
        half = replace(whole, seconds=whole.seconds / 2)
        return [half, replace(half, quota_controller=True)]
    return [replace(whole, quota_controller=given.quota_controller != "off")]


def main() -> int:
    """The command line; 1 where an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for how long, over all runs")
    parser.add_argument(
        "--quota-controller",
        choices=("on", "off", "both"),
        default="both",
        help="whether the controller manager's quota controller runs too; both: half of the time each",
    )
    parser.add_argument("--built-in", action="store_true", help="judge the plugins of the API server instead")
    for name, kind in (("clients", int), ("namespaces", int), ("hold", int), ("api-restarts", int), ("seed", int)):
        parser.add_argument(f"--{name}", type=kind)
    for name in TIMES:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float)
    parser.add_argument("--quotas", nargs="+", choices=("compute", "count"), help="those of each namespace; both")
    parser.add_argument("--no-resizes", dest="resizes", action="store_false", help="leave the quotas as they are")
    parser.add_argument("--config", help="text of the configuration file of servers and controllers")
    reports = []
    for plan in plans(parser.parse_args()):
        reports.append(run(plan))
        sys.stdout.write(f"{reports[-1].text()}\n")
        sys.stdout.flush()
    return 1 if any(report.problems for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
