"""Counting with many replicas against a model that is nothing but the objects, whatever happens in between.

Servers, controllers and the built-in quota controller share one store in memory. Every cache lags as it pleases. What
happens in the middle of a batch or a recount (a lost answer, a crash, a write of somebody else) is drawn beforehand:
each call to the store takes the next of it.

What must be so at every step: what a quota says is used covers the objects that live and all that were admitted and may
still be stored; so at no moment more lives than a quota holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from admission.cluster.commit import Request
from tests.unit.api_server import CONFLICT, FAILED, LOST, NOTHING_HAPPENS, ApiServer, Call, Fate, Json
from tests.unit.helpers import amounts
from tests.unit.replicas import (
    NS,
    Clock,
    Controller,
    Server,
    application,
    catch_up,
    deliver,
    in_store,
    outcome,
    set_hard,
    small_claim,
    small_pod,
    stored_quota_json,
    used,
    without_threads,
)

PODS, CLAIMS = "pods", "persistentvolumeclaims"
LONGEST_REQUEST = 60.0
"""Seconds after which an API server has ended every request."""
HARDS = {
    "a": ["pods=4 requests.cpu=8", "pods=2 requests.cpu=5", "pods=6 requests.cpu=12"],
    "b": [
        "requests.cpu=9 requests.storage=9",
        "requests.cpu=4 requests.storage=5",
        "requests.cpu=12 requests.storage=12",
    ],
}


Plan = list[tuple[str, int]]
"""What happens with each call, and which one it happens to."""


class Crash(BaseException):
    """The end of a replica."""


@dataclass(frozen=True)
class Change:
    """A creation, or an update of one version of an object, on its way."""

    kind: str
    name: str
    uid: str
    size: int
    started: float
    limits_known: int
    """How many limits there had been when the request began."""
    version: str = ""

    def path(self) -> str:
        return f"{NS}/{self.kind}/{self.name}"

    def document(self) -> Json:
        made = small_pod(self.name, self.size) if self.kind == PODS else small_claim(self.name, self.size)
        made["metadata"]["uid"] = self.uid
        return made


def size_of(document: Json) -> int:
    spec = document["spec"]
    stated = spec if "resources" in spec else spec["containers"][0]
    return int(next(iter(stated["resources"]["requests"].values())))


def uses(kind: str, size: int) -> dict[str, int]:
    return {"pods": 1, "requests.cpu": size} if kind == PODS else {"requests.storage": size}


def kind_of(path: str) -> str:
    return path.split("/")[-2]


def numbers(found: Any) -> dict[str, int]:
    return {name: int(str(amount)) for name, amount in found.items()}


@dataclass
class World:
    """The store, everybody who talks to it, and what was admitted and may still be stored."""

    clock: Clock = field(default_factory=Clock)
    store: ApiServer = field(default_factory=ApiServer)
    servers: list[Server] = field(default_factory=list)
    controllers: list[Controller] = field(default_factory=list)
    pending: list[Change] = field(default_factory=list)
    asked: list[Change] = field(default_factory=list)
    created: set[str] = field(default_factory=set)
    """UIDs of objects that were stored: nothing creates them again."""
    hards: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    """Each `status.hard` there was, in order: of which quota, and what."""
    seen_by_others: int = 0
    """The revision up to which the built-in quota controller knows objects."""
    names: int = 0
    busy: list[Any] = field(default_factory=list)

    # -- what is so

    def live(self) -> dict[str, Json]:
        paths = (path for path in self.store.objects if kind_of(path) in (PODS, CLAIMS))
        return {path: self.store.objects[path] for path in sorted(paths)}

    def counts(self, document: Json) -> bool:
        return document.get("status", {}).get("phase") != "Succeeded"

    def count(self, quota: str, objects: dict[str, Json]) -> dict[str, int]:
        total = dict.fromkeys(amounts(HARDS[quota][0]), 0)
        for path, document in objects.items():
            for name, amount in uses(kind_of(path), size_of(document)).items():
                if name in total and self.counts(document):
                    total[name] += amount
        return total

    def may_be_stored(self, change: Change) -> bool:
        found = self.store.objects.get(change.path())
        if self.clock.now >= change.started + LONGEST_REQUEST:
            return False
        if not change.version:
            return change.uid not in self.created
        return found is not None and found["metadata"]["resourceVersion"] == change.version and self.counts(found)

    def may_come(self, quota: str) -> dict[str, int]:
        """The most that may live soon of what lives or was admitted."""
        most: dict[str, dict[str, int]] = {}
        for path, document in self.live().items():
            if self.counts(document):
                most[document["metadata"]["uid"]] = uses(kind_of(path), size_of(document))
        for change in filter(self.may_be_stored, self.pending):
            known = most.get(change.uid, {})
            coming = uses(change.kind, change.size)
            most[change.uid] = {name: max(known.get(name, 0), amount) for name, amount in coming.items()}
        return {name: sum(one.get(name, 0) for one in most.values()) for name in amounts(HARDS[quota][0])}

    def note_hard(self) -> None:
        for quota in HARDS:
            hard = numbers(self.store.get(f"{NS}/resourcequotas/{quota}")["status"]["hard"])
            last = [known for name, known in self.hards if name == quota][-1:]
            if last != [hard]:
                self.hards.append((quota, hard))

    def largest_hard(self, quota: str, since: int) -> dict[str, int]:
        """The largest limits that were in force at some time since there were so many of them."""
        before = [hard for name, hard in self.hards[:since] if name == quota][-1:]
        in_force = before + [hard for name, hard in self.hards[since:] if name == quota]
        return {name: max(hard[name] for hard in in_force) for name in in_force[-1]}

    # -- what clients do

    def new_change(self, kind: str, size: int) -> Change:
        self.names += 1
        name = f"{kind[:3]}-{self.names}"
        return Change(kind, name, f"u-{name}", size, self.clock.now, len(self.hards))

    def change_of(self, path: str, size: int) -> Change:
        meta = self.store.get(path)["metadata"]
        version = meta["resourceVersion"]
        return Change(kind_of(path), meta["name"], meta["uid"], size, self.clock.now, len(self.hards), version)

    def judged_on(self, change: Change) -> Json | None:
        """The object before an update: as it was then, where the call comes late."""
        versions = (
            happened.object
            for happened in self.store.history
            if happened.place.path == change.path() and str(happened.revision) == change.version
        )
        return next(versions, None)

    def ask(self, server: Server, changes: list[Change], plan: Plan) -> list[str]:
        """Have a batch judged; what is admitted may be stored from now on. Nothing where the replica crashes."""
        applications = [
            application(self.clock, change.kind, change.document(), self.judged_on(change)) for change in changes
        ]
        requests: list[Request] = []
        with_it = self.during(server, plan, lambda: requests.extend(server.ask(*applications)))
        self.asked += changes
        if not with_it:
            self.servers[self.servers.index(server)] = self.new_server()
            return []
        answers = [outcome(request) for request in requests]
        self.pending += [change for change, answer in zip(changes, answers, strict=True) if answer == "admitted"]
        return answers

    def save(self, change: Change) -> None:
        """What was admitted is stored."""
        before = {quota: self.count(quota, self.live()) for quota in HARDS}
        if change.version:
            self.store.update(change.path(), lambda found: found.update(spec=change.document()["spec"]), change.version)
        else:
            self.store.create(f"{NS}/{change.kind}", change.document())
            self.created.add(change.uid)
        for quota in HARDS:
            hard = self.largest_hard(quota, change.limits_known)
            for name, amount in self.count(quota, self.live()).items():
                grew = amount > before[quota][name]
                assert not grew or amount <= hard[name], f"{name}: {amount} live, quota {quota} holds {hard[name]}"

    # -- who takes part

    def new_server(self) -> Server:
        made = Server(self.store, self.clock)
        catch_up(made)
        return made

    def during(self, actor: Server | Controller, plan: Plan, work: Callable[[], object]) -> bool:
        """Do something while a plan happens; False where the actor has not survived it."""
        left = list(plan)

        def fate(_: Call) -> Fate:
            action, number = left.pop(0) if left else ("nothing", 0)
            return self.happens(action, number)

        self.busy.append(actor)
        actor.client.fate = fate
        try:
            work()
        except Crash:
            return False
        finally:
            actor.client.fate = lambda _: NOTHING_HAPPENS
            self.busy.remove(actor)
        return True

    def happens(self, action: str, number: int) -> Fate:
        if action in FATES:
            return FATES[action]
        OTHERS.get(action, lambda *_: None)(self, number)
        return NOTHING_HAPPENS

    # -- what happens in between

    def others_write(self, number: int) -> None:
        """The built-in quota controller writes its own recount, of objects as it knows them."""
        behind = (self.store.revision - self.seen_by_others) * (number % 4) // 4
        self.seen_by_others = self.store.revision - behind
        known: dict[str, Json] = {}
        for happened in self.store.history:
            if happened.revision > self.seen_by_others:
                break
            if happened.type == "DELETED":
                known.pop(happened.place.path, None)
            else:
                known[happened.place.path] = happened.object
        known = {path: document for path, document in known.items() if kind_of(path) in (PODS, CLAIMS)}
        for quota in HARDS:
            count = self.count(quota, known)

            def write(found: Json, count: dict[str, int] = count) -> None:
                found["status"] = {
                    "hard": found["spec"]["hard"],
                    "used": {name: str(amount) for name, amount in count.items()},
                }

            self.store.update(f"{NS}/resourcequotas/{quota}", write)
        self.note_hard()

    def another_asks(self, number: int) -> None:
        server = self.servers[number % len(self.servers)]
        if server not in self.busy:
            self.ask(server, [self.new_change(PODS, 1 + number % 3)], [])

    def another_recounts(self, number: int) -> None:
        controller = self.controllers[number % len(self.controllers)]
        if controller not in self.busy:
            controller.work()
            self.note_hard()

    def something_is_stored(self, number: int) -> None:
        able = [change for change in self.pending if self.may_be_stored(change)]
        if able:
            change = able[number % len(able)]
            self.pending.remove(change)
            self.save(change)

    def something_is_touched(self, number: int) -> None:
        paths = list(self.live())
        if paths:
            self.store.update(
                paths[number % len(paths)], lambda found: found["metadata"].update(labels={"x": str(number)})
            )

    def something_is_told(self, number: int) -> None:
        actors: list[Server | Controller] = [*self.servers, *self.controllers]
        actor = actors[number % len(actors)]
        if actor not in self.busy:
            for resource in list(actor.reflectors):
                deliver(actor, resource, 1)


FATES: dict[str, Fate] = {
    "nothing": NOTHING_HAPPENS,
    "lost": LOST,
    "failed": FAILED,
    "conflict": CONFLICT,
    "crash before": Fate(before=Crash()),
    "crash after": Fate(after=Crash()),
}
OTHERS: dict[str, Callable[[World, int], None]] = {
    "others write": World.others_write,
    "another asks": World.another_asks,
    "another recounts": World.another_recounts,
    "stored": World.something_is_stored,
    "touched": World.something_is_touched,
    "told": World.something_is_told,
}
PLANS = st.lists(st.tuples(st.sampled_from([*FATES, *OTHERS]), st.integers(0, 7)), max_size=5)
SIZES = st.integers(0, 5)
PICK = st.integers(0, 5)
TOLD = st.sampled_from([(True, True), (True, False), (False, True), (False, False)])
"""Of objects, of quotas."""


class LedgerMachine(RuleBasedStateMachine):
    world: World

    @initialize(servers=st.integers(1, 3), both_lead=st.booleans())
    def start(self, servers: int, both_lead: bool) -> None:
        self.world = World()
        self.patches = without_threads(self.world.clock)
        self.patches.__enter__()
        for name, hards in HARDS.items():
            self.world.store.create(f"{NS}/resourcequotas", stored_quota_json(name, hards[0]))
        self.world.controllers = [Controller(self.world.store, self.world.clock) for _ in range(2)]
        self.world.controllers[0].lead(True)
        self.settle_everything()
        self.world.servers = [self.world.new_server() for _ in range(servers)]
        self.world.controllers[1].lead(both_lead)
        self.world.note_hard()

    def teardown(self) -> None:
        if hasattr(self, "patches"):
            self.patches.__exit__(None, None, None)

    def one(self, found: list[Any], number: int) -> Any:
        return found[number % len(found)]

    # -- clients

    @rule(kind=st.sampled_from([PODS, PODS, CLAIMS]), size=SIZES, server=PICK, plan=PLANS)
    def create(self, kind: str, size: int, server: int, plan: Plan) -> None:
        self.world.ask(self.one(self.world.servers, server), [self.world.new_change(kind, size)], plan)

    @precondition(lambda self: self.changeable())
    @rule(which=PICK, size=SIZES, server=PICK, plan=PLANS)
    def update(self, which: int, size: int, server: int, plan: Plan) -> None:
        change = self.world.change_of(self.one(self.changeable(), which), size)
        self.world.ask(self.one(self.world.servers, server), [change], plan)

    @rule(
        new=st.lists(st.tuples(st.sampled_from([PODS, CLAIMS]), SIZES), max_size=2),
        changed=st.lists(st.tuples(PICK, SIZES), max_size=2),
        server=PICK,
        plan=PLANS,
    )
    def ask_together(self, new: list[tuple[str, int]], changed: list[tuple[int, int]], server: int, plan: Plan) -> None:
        """Several requests in one batch, some perhaps about the same object."""
        paths = self.changeable()
        changes = [self.world.change_of(self.one(paths, which), size) for which, size in changed if paths]
        changes += [self.world.new_change(kind, size) for kind, size in new]
        if changes:
            self.world.ask(self.one(self.world.servers, server), changes, plan)

    def changeable(self) -> list[str]:
        return [path for path, document in self.world.live().items() if self.world.counts(document)]

    @precondition(lambda self: self.repeatable())
    @rule(which=PICK, server=PICK, plan=PLANS)
    def ask_again(self, which: int, server: int, plan: Plan) -> None:
        """The API server calls again for the same request, on the same replica or another, or a call comes late."""
        change = self.one(self.repeatable(), which)
        self.world.ask(self.one(self.world.servers, server), [change], plan)

    def repeatable(self) -> list[Change]:
        return [change for change in self.world.asked if change.uid not in self.world.created or change.version][-5:]

    @precondition(lambda self: self.world.pending)
    @rule(which=PICK, server=PICK, plan=PLANS)
    def be_stored(self, which: int, server: int, plan: Plan) -> None:
        """What was admitted is stored; a patch that comes too late is judged anew, on what there is now."""
        change = self.one(self.world.pending, which)
        self.world.pending.remove(change)
        found = self.world.store.objects.get(change.path())
        in_time = self.world.clock.now < change.started + LONGEST_REQUEST
        if self.world.may_be_stored(change):
            self.world.save(change)
        elif change.version and found is not None and self.world.counts(found) and in_time:
            again = replace(change, version=found["metadata"]["resourceVersion"])
            self.world.ask(self.one(self.world.servers, server), [again], plan)

    @precondition(lambda self: self.world.pending)
    @rule(which=PICK)
    def be_refused_after_us(self, which: int) -> None:
        self.world.pending.remove(self.one(self.world.pending, which))

    @precondition(lambda self: self.world.live())
    @rule(what=st.sampled_from(["touched", "deleted", "finished"]), which=PICK)
    def be_changed_otherwise(self, what: str, which: int) -> None:
        """Quotas do not judge that. An object that is touched has another version then, and uses what it used."""
        path = self.one(list(self.world.live()), which)
        if what == "deleted":
            self.world.store.delete(path)
        elif what == "finished" and kind_of(path) == PODS:
            self.world.store.update(path, lambda found: found.update(status={"phase": "Succeeded"}))
        else:
            self.world.something_is_touched(which)

    # -- replicas

    @rule(who=PICK, resource=PICK, most=st.integers(0, 2) | st.none())
    def be_told(self, who: int, resource: int, most: int | None) -> None:
        actor = self.one([*self.world.servers, *self.world.controllers], who)
        deliver(actor, self.one(sorted(actor.reflectors), resource), most)

    @precondition(lambda self: any(controller.leads for controller in self.world.controllers))
    @rule(who=PICK, told=TOLD, plan=PLANS, told_meanwhile=st.booleans())
    def recount(self, who: int, told: tuple[bool, bool], plan: Plan, told_meanwhile: bool) -> None:
        controller = self.one([found for found in self.world.controllers if found.leads], who)
        self.tell(controller, *told)
        controller.keeper.mark_all()
        if told_meanwhile:
            controller.before_counting.append(lambda: self.tell(controller, objects=True))
        if not self.world.during(controller, plan, controller.work):
            self.restart_controller(self.world.controllers.index(controller))
        controller.before_counting.clear()
        self.world.note_hard()

    def tell(self, actor: Server | Controller, objects: bool = False, quotas: bool = False) -> None:
        fate, actor.client.fate = actor.client.fate, lambda _: NOTHING_HAPPENS
        for resource in list(actor.reflectors):
            if quotas if resource == "resourcequotas" else objects:
                deliver(actor, resource)
        actor.client.fate = fate

    @rule(leads=st.sampled_from([(True, False), (False, True), (True, True), (False, False)]))
    def elect(self, leads: tuple[bool, bool]) -> None:
        """Both lead where one has not noticed yet that its time is over."""
        for controller, does in zip(self.world.controllers, leads, strict=True):
            controller.lead(does)

    @rule(what=st.sampled_from(["server", "controller", "history", "others", "house", "quota"]), which=PICK, plan=PLANS)
    def be_disturbed(self, what: str, which: int, plan: Plan) -> None:
        """A replica starts anew, a watch is too old, others write, somebody edits a quota."""
        if what == "server":
            self.world.servers[which % len(self.world.servers)] = self.world.new_server()
        elif what == "controller":
            self.restart_controller(which % 2)
        elif what == "history":
            self.world.store.compact()
        elif what == "others":
            self.world.others_write(which)
        elif what == "quota":
            quota = "ab"[which % 2]
            set_hard(self.world.store, quota, HARDS[quota][which // 2 % 3])
        elif not self.world.during(
            self.world.controllers[which % 2], plan, self.world.controllers[which % 2].keep_house
        ):
            self.restart_controller(which % 2)

    def restart_controller(self, who: int) -> None:
        self.world.controllers[who] = Controller(self.world.store, self.world.clock)

    # -- time

    @rule(seconds=st.sampled_from([1.0, 11.0, 31.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.world.clock.now += seconds
        in_time = self.world.clock.now - LONGEST_REQUEST
        self.world.pending = [change for change in self.world.pending if change.started > in_time]
        self.world.asked = [change for change in self.world.asked if change.started > in_time]

    @rule(lost=st.booleans(), size=SIZES)
    def come_to_rest(self, lost: bool, size: int) -> None:
        """What was admitted is stored or lost; then there is a minute of quiet."""
        for change in list(self.world.pending):
            if not lost and self.world.may_be_stored(change):
                self.world.save(change)
        self.world.pending, self.world.asked = [], []
        if not any(controller.leads for controller in self.world.controllers):
            self.world.controllers[0].lead(True)
        self.settle_everything()
        for quota in HARDS:
            found = in_store(self.world.store, quota)
            count = self.world.count(quota, self.world.live())
            assert not (found.account and found.account.reservations), "a reservation is left"
            assert numbers(used(self.world.store, quota)) == numbers(found.state.used) == count
            assert numbers(found.status_hard) == numbers(found.spec_hard)
        self.what_fits_is_admitted()

    def settle_everything(self) -> None:
        for seconds in (1.0, 61.0, 1.0, 11.0, 1.0):
            self.world.clock.now += seconds
            for _ in range(3):
                catch_up(*self.world.servers, *self.world.controllers)
                for controller in self.world.controllers:
                    controller.keep_house()
                    for _ in range(20):
                        if not controller.leads or not controller.work():
                            break
                        catch_up(controller)
                    else:
                        raise AssertionError("a recount does not come to its end")
        self.world.note_hard()

    def what_fits_is_admitted(self) -> None:
        """And so much as fits exactly is, but no more."""
        left = {}
        for quota in HARDS:
            found = in_store(self.world.store, quota)
            hard, taken = numbers(found.spec_hard), numbers(found.state.used)
            for name, amount in hard.items():
                left[name] = min(left.get(name, amount), amount - taken[name])
        server = self.world.servers[0]
        if left["requests.cpu"] >= 0:
            too_much = self.world.ask(server, [self.world.new_change(PODS, left["requests.cpu"] + 1)], [])
            assert too_much[0].startswith("exceeded quota: "), too_much
            fits = self.world.ask(server, [self.world.new_change(PODS, left["requests.cpu"])], [])
            assert (fits == ["admitted"]) == (left["pods"] > 0), fits

    # -- what must be so

    @invariant()
    def what_lives_and_what_may_come_is_counted(self) -> None:
        for quota in HARDS:
            counted = numbers(in_store(self.world.store, quota).state.used)
            for name, amount in self.world.may_come(quota).items():
                assert counted[name] >= amount, f"quota {quota}: {name}: {amount} may live, {counted[name]} is counted"


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    settings.default,
    # Making a failure small takes minutes: that is for the thorough profile.
    phases=[phase for phase in Phase if phase is not Phase.shrink or settings.default.max_examples > 100],
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
