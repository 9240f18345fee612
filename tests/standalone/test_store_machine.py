"""The store against a model that is nothing but sums, through any sequence of what may happen to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.standalone.desk import ADMITTED, Desk
from tests.standalone.manifests import claim, create, delete, pod, quota, service, update

Amounts = dict[str, Fraction]

STATED_AT_THE_START = {"pods": 2, "requests.cpu": 3, "services": 1, "requests.storage": 4}
HARDS = [
    {
        "counted": {"pods": 4, "count/pods": 6, "requests.cpu": 6, "services.nodeports": 5, "requests.storage": 9},
        "stated": {"pods": 5, "requests.cpu": 9, "services": 4, "requests.storage": 12},
    },
    {
        "counted": {"pods": 7, "count/pods": 9, "requests.cpu": 9, "services.nodeports": 8, "requests.storage": 20},
        "stated": {"pods": 9, "requests.cpu": 15, "services": 6, "requests.storage": 25},
    },
    {
        "counted": {"pods": 2, "requests.cpu": 2, "persistentvolumeclaims": 2},
        "stated": {"pods": 3, "requests.cpu": 4, "services": 2, "requests.storage": 5},
    },
]


def number(text: str) -> Fraction:
    """A printed amount; only the forms that the objects here lead to."""
    return Fraction(text[:-1]) / 1000 if text.endswith("m") else Fraction(text)


@dataclass
class Thing:
    """An object: what a test may do to it, and what it uses."""

    kind: str
    uid: str
    size: int
    done: bool = False
    named_only: bool = False

    def manifest(self, *, in_a_file: bool = False) -> dict:
        uid = "" if in_a_file and self.named_only else self.uid
        if self.kind == "pod":
            status = {"status": {"phase": "Succeeded"}} if self.done else {}
            return pod(self.uid, uid=uid, requests=f"cpu={self.size * 500}m", **status)
        if self.kind == "service":
            return service(self.uid, uid=uid, kind="NodePort", ports=self.size)
        return claim(self.uid, str(self.size), uid=uid)

    def uses(self) -> Amounts:
        one = Fraction(1)
        if self.kind == "pod":
            alive = {} if self.done else {"pods": one, "requests.cpu": Fraction(self.size, 2)}
            return {"count/pods": one, **alive}
        if self.kind == "service":
            return {"services": one, "services.nodeports": Fraction(self.size)}
        return {"persistentvolumeclaims": one, "requests.storage": Fraction(self.size)}

    def changed(self, **parts) -> Thing:
        return Thing(**{**vars(self), **parts})


@dataclass
class Entry:
    """What the model knows of an object that the store has seen."""

    now: Amounts | None
    """What it uses; None once it is deleted."""
    covered: Amounts | None
    """What of it the status of a file held already."""
    held: Amounts
    """What is used holds this for it: the most since the last recount."""


@dataclass
class Model:
    hard: dict[str, dict[str, int]]
    files: dict[str, Thing] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    used: dict[str, Amounts] = field(default_factory=dict)

    def recount(self) -> None:
        existing = [thing.uses() for uid, thing in self.files.items() if uid not in self.entries]
        existing += [entry.now for entry in self.entries.values() if entry.now is not None]
        self.used["counted"] = {
            name: sum((uses.get(name, Fraction(0)) for uses in existing), Fraction(0)) for name in self.hard["counted"]
        }
        stated = {name: Fraction(amount) for name, amount in STATED_AT_THE_START.items()}
        for entry in self.entries.values():
            for name in stated:
                stated[name] += (entry.now or {}).get(name, 0) - (entry.covered or {}).get(name, 0)
        self.used["stated"] = {name: max(amount, Fraction(0)) for name, amount in stated.items()}
        for entry in self.entries.values():
            entry.held = dict(entry.now or {})

    def known(self, uid: str) -> Entry | None:
        entry = self.entries.get(uid)
        return entry if entry and entry.now is not None else None

    def apply(self, new: Thing, old: Thing | None, *, dry_run: bool) -> bool:
        """Whether a creation or an update is admitted; if so and in earnest, it is charged."""
        entry = self.known(new.uid)
        before = entry.held if entry else (old.uses() if old else {})
        uses = new.uses()
        grows = {name for name, amount in uses.items() if amount > (old.uses().get(name, 0) if old else 0)}
        added = {name: max(uses[name] - before.get(name, Fraction(0)), Fraction(0)) for name in uses} if grows else {}
        for quota_name, hard in self.hard.items():
            used = self.used[quota_name]
            if any(amount and used[name] + amount > hard[name] for name, amount in added.items() if name in hard):
                return False
        if not dry_run:
            for quota_name, hard in self.hard.items():
                for name in added.keys() & hard.keys():
                    self.used[quota_name][name] += added[name]
            most = {name: max(before.get(name, Fraction(0)), uses.get(name, Fraction(0))) for name in {*before, *uses}}
            self.entries[new.uid] = Entry(uses, entry.covered if entry else (old.uses() if old else None), most)
        return True

    def note(self, new: Thing, old: Thing) -> None:
        """A change that quotas do not judge."""
        entry = self.known(new.uid)
        if entry:
            entry.now = new.uses()
        else:
            self.entries[new.uid] = Entry(new.uses(), old.uses(), dict(old.uses()))

    def delete(self, thing: Thing) -> None:
        entry = self.entries.get(thing.uid)
        if entry is None:
            self.entries[thing.uid] = Entry(None, thing.uses(), {})
        else:
            entry.now = None
        self.recount()


KINDS = st.sampled_from(["pod", "pod", "service", "claim"])
SIZES = st.integers(0, 4)


class StoreMachine(RuleBasedStateMachine):
    """`live` are the objects that exist, wherever they came from."""

    desk: Desk
    model: Model

    @initialize(hard=st.integers(0, 1), in_files=st.lists(st.tuples(KINDS, SIZES, st.booleans()), max_size=3))
    def start(self, hard, in_files):
        self.made = 0
        things = [Thing(kind, self.fresh(kind), size, named_only=named) for kind, size, named in in_files]
        self.live = {thing.uid: thing for thing in things}
        self.gone: dict[str, Thing] = {}
        self.again: dict[str, dict] = {}
        self.model = Model(HARDS[hard], files={thing.uid: thing for thing in things})
        self.model.recount()
        self.desk = Desk(*self.written())

    def fresh(self, kind):
        """A UID; those of one run sort as they were made."""
        self.made += 1
        return f"{kind}-{self.made:03d}"

    def written(self):
        made = []
        for name, hard in self.model.hard.items():
            line = " ".join(f"{key}={value}" for key, value in hard.items())
            used = " ".join(f"{key}={value}" for key, value in STATED_AT_THE_START.items())
            made.append(quota(name, line, used if name == "stated" else None))
        return [*made, *(thing.manifest(in_a_file=True) for thing in self.model.files.values())]

    def some(self, data, things):
        return things[data.draw(st.sampled_from(sorted(things)))]

    # -- what may happen

    @rule(kind=KINDS, size=SIZES, dry_run=st.booleans())
    def create(self, kind, size, dry_run):
        thing = Thing(kind, self.fresh(kind), size)
        review = create(thing.manifest(), dry_run=dry_run)
        expected = self.model.apply(thing, None, dry_run=dry_run)
        self.judge(review, expected)
        if expected and not dry_run:
            self.live[thing.uid] = thing
            self.again[thing.uid] = review

    @precondition(lambda self: self.again)
    @rule(data=st.data())
    def retry(self, data):
        """The last call about an object again. It was admitted, so it is once more, and changes nothing."""
        self.judge(self.some(data, self.again), expected=True)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), size=SIZES, dry_run=st.booleans())
    def change(self, data, size, dry_run):
        old = self.some(data, self.live)
        if old.done:
            return
        new = old.changed(size=size)
        review = update(
            old.manifest(), new.manifest(), dry_run=dry_run, sub_resource="resize" if old.kind == "pod" else ""
        )
        expected = self.model.apply(new, old, dry_run=dry_run)
        self.judge(review, expected)
        if expected and not dry_run:
            self.live[new.uid] = new
            self.again[new.uid] = review

    @precondition(lambda self: self.live)
    @rule(data=st.data(), dry_run=st.booleans())
    def finish(self, data, dry_run):
        old = self.some(data, self.live)
        if old.kind != "pod" or old.done:
            return
        new = old.changed(done=True)
        self.judge(update(old.manifest(), new.manifest(), sub_resource="status", dry_run=dry_run), expected=True)
        if not dry_run:
            self.model.note(new, old)
            self.live[new.uid] = new
            self.again.pop(new.uid, None)

    @rule(kind=KINDS, size=SIZES)
    def meet(self, kind, size):
        """An object that was there before, and that nobody ever told the store of."""
        thing = Thing(kind, self.fresh(kind), size)
        self.live[thing.uid] = thing

    @precondition(lambda self: self.live)
    @rule(data=st.data(), dry_run=st.booleans())
    def delete(self, data, dry_run):
        thing = self.some(data, self.live)
        self.judge(delete(thing.manifest(), dry_run=dry_run), expected=True)
        if not dry_run:
            self.model.delete(thing)
            self.gone[thing.uid] = self.live.pop(thing.uid)
            self.again.pop(thing.uid, None)

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def delete_again(self, data):
        """As for every pod: once when it is to end, once when it has ended."""
        thing = self.some(data, self.gone)
        self.judge(delete(thing.manifest()), expected=True)
        self.model.delete(thing)

    @rule()
    def recount(self):
        self.desk.store.recount()
        self.model.recount()

    @rule(
        hard=st.integers(0, len(HARDS) - 1),
        more=st.none() | st.tuples(KINDS, SIZES, st.booleans()),
        fewer=st.booleans(),
    )
    def reload(self, hard, more, fewer):
        """Other limits, one more object, and one less that is not known otherwise."""
        self.model.hard = HARDS[hard]
        untouched = [uid for uid in self.model.files if uid not in self.model.entries]
        if fewer and untouched:
            del self.model.files[untouched[0]]
        if more:
            thing = Thing(more[0], self.fresh(more[0]), more[1], named_only=more[2])
            self.model.files[thing.uid] = self.live[thing.uid] = thing
        self.desk.reload(*self.written())
        self.model.recount()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def export(self, data):
        """What is known to the store is written into a file as well, as it is now; nothing changes by that."""
        thing = self.some(data, self.live)
        if thing.uid in self.model.entries and thing.uid not in self.model.files:
            self.model.files[thing.uid] = thing
            self.desk.reload(*self.written())
            self.model.recount()

    @rule()
    def crash(self):
        self.desk.crash()
        self.model.recount()

    # -- what must be so

    def judge(self, review, expected):
        before = self.desk.used()
        answer = self.desk.ask(review)
        assert (answer == ADMITTED) == expected, answer
        assert expected or answer.startswith("exceeded quota: ")
        if review["request"]["operation"] == "DELETE":
            return
        for name, quota_ in self.desk.store.usage("ns")["ns"].items():
            for resource, amount in quota_.used.items():
                if number(amount) > number(before[name][resource]):
                    assert number(amount) <= number(quota_.hard[resource]), f"{name}: {resource} exceeded"

    @invariant()
    def what_is_used_is_what_the_model_says(self):
        found = {
            name: {resource: number(amount) for resource, amount in amounts.items()}
            for name, amounts in self.desk.used().items()
        }
        assert found == self.model.used

    def teardown(self):
        if hasattr(self, "desk"):
            self.desk.close()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    settings.default,
    # Making a failure small takes minutes: that is for the thorough profile.
    phases=[phase for phase in Phase if phase is not Phase.shrink or settings.default.max_examples > 100],
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
