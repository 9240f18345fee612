"""Races between requests for the same object, recounts and expiry, one by one: what was admitted stays on record."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from admission.cluster.commit import Request
from admission.cluster.transport import ApiError
from tests.unit.api_server import CONFLICT, FAILED, LOST, NOTHING_HAPPENS, ApiServer, Call, Fate, Json
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
    reserved,
    set_hard,
    small_claim,
    small_pod,
    stored_quota_json,
    without_threads,
)

PODS, CLAIMS = "pods", "persistentvolumeclaims"


class Scene:
    """Two servers, two controllers of which the first leads, and the quotas `a` and `b`."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.store = clock, ApiServer()
        self.store.create(f"{NS}/resourcequotas", stored_quota_json("a", "requests.cpu=8"))
        self.store.create(f"{NS}/resourcequotas", stored_quota_json("b", "requests.cpu=8 requests.storage=9"))
        self.servers = [Server(self.store, self.clock) for _ in range(2)]
        self.controllers = [Controller(self.store, self.clock) for _ in range(2)]
        self.controllers[0].lead(True)
        for _ in range(3):
            self.tell_everybody()
            for controller in self.controllers:
                controller.keep_house()

    def tell_everybody(self) -> None:
        catch_up(*self.servers, *self.controllers)

    def recount(self, who: int = 0) -> None:
        self.controllers[who].keeper.mark_all()
        assert self.controllers[who].work()

    def exists(self, name: str, size: int, kind: str = PODS) -> Json:
        """An object that is counted already."""
        document = small_pod(name, size) if kind == PODS else small_claim(name, size)
        document["metadata"]["uid"] = f"u-{name}"
        assert self.ask(document, kind=kind) == "admitted"
        made = self.store.create(f"{NS}/{kind}", document)
        self.tell_everybody()
        self.recount()
        self.tell_everybody()
        return made

    def ask(self, document: Json, old: Json | None = None, *, server: int = 0, kind: str = PODS) -> str:
        (request,) = self.servers[server].ask(application(self.clock, kind, document, old))
        return outcome(request)

    def touch(self, document: Json) -> Json:
        """Another version of the object, that uses the same."""
        path = f"{NS}/pods/{document['metadata']['name']}"
        return self.store.update(path, lambda found: found["metadata"].update(labels={"touched": "yes"}))

    def lower(self, quota: str, hard: str) -> None:
        """At once, with its status."""
        set_hard(self.store, quota, hard)
        path = f"{NS}/resourcequotas/{quota}"
        self.store.update(path, lambda found: found["status"].update(hard=found["spec"]["hard"]))

    def used(self, quota: str, name: str = "requests.cpu") -> str:
        return str(in_store(self.store, quota).state.used[name])

    def before_the_first_write(self, server: int, quota: str, what: Callable[[], Fate | None]) -> None:
        """Something happens before a server first writes a quota."""

        def fate(call: Call) -> Fate:
            if call.method == "PUT" and f"/{quota}/" in call.path:
                self.servers[server].client.fate = lambda _: NOTHING_HAPPENS
                return what() or NOTHING_HAPPENS
            return NOTHING_HAPPENS

        self.servers[server].client.fate = fate


@pytest.fixture(name="scene")
def _scene() -> Iterator[Scene]:
    clock = Clock()
    with without_threads(clock):
        yield Scene(clock)


def sized(document: Json, size: int) -> Json:
    return {**document, "spec": small_pod("x", size)["spec"]}


def a_pod(name: str, size: int) -> Json:
    document = small_pod(name, size)
    document["metadata"]["uid"] = f"u-{name}"
    return document


# -- a request that is covered by what another one has reserved


def test_a_patch_that_is_judged_again_on_a_later_version_stays_on_record(scene: Scene) -> None:
    """As after each conflict: the first attempt's reservation ends when the later version is seen."""
    first = scene.exists("p", 1)
    assert scene.ask(sized(first, 5), first) == "admitted"
    later = scene.touch(first)
    assert scene.ask(sized(later, 5), later, server=1) == "admitted"
    scene.tell_everybody()
    scene.recount()
    assert scene.used("a") == "5"
    scene.tell_everybody()
    assert scene.ask(a_pod("q", 4)).startswith("exceeded quota: a")


def test_a_call_that_comes_late_does_not_end_what_was_reserved_on_a_later_version(scene: Scene) -> None:
    first = scene.exists("p", 1)
    later = scene.touch(first)
    assert scene.ask(sized(later, 5), later) == "admitted"
    assert scene.ask(sized(first, 6), first, server=1) == "admitted"
    scene.tell_everybody()
    scene.recount()
    assert int(scene.used("a")) >= 5


def test_the_same_update_again_begins_its_minute_anew(scene: Scene) -> None:
    """The first was refused by somebody after us; the second is on its way when the first is a minute old."""
    first = scene.exists("p", 1)
    assert scene.ask(sized(first, 5), first) == "admitted"
    scene.tell_everybody()
    scene.clock.now += 55
    assert scene.ask(sized(first, 5), first) == "admitted"
    scene.tell_everybody()
    scene.clock.now += 10
    scene.controllers[0].keeper.expiry.look()
    scene.recount()
    assert scene.used("a") == "5"
    scene.tell_everybody()
    scene.clock.now += 61
    scene.controllers[0].keeper.expiry.look()
    scene.recount()
    assert scene.used("a") == "1"


@pytest.mark.parametrize(
    "fate", [CONFLICT, FAILED, Fate(before=ApiError(403, "Forbidden", "no"))], ids=["conflict", "away", "forbidden"]
)
def test_what_leans_on_another_request_is_on_record_or_refused(scene: Scene, fate: Fate) -> None:
    """The patch is judged again on a later version, and what it leans on cannot be made its own in time."""
    first = scene.exists("p", 1)
    assert scene.ask(sized(first, 5), first) == "admitted"
    later = scene.touch(first)
    catch_up(scene.servers[1])
    scene.servers[1].client.fate = lambda call: fate if call.method == "PUT" else NOTHING_HAPPENS
    answer = scene.ask(sized(later, 5), later, server=1)
    scene.tell_everybody()
    scene.recount()
    assert answer.startswith("the use of quota") or scene.used("a") == "5"


def test_what_another_request_leans_on_is_not_rolled_back(scene: Scene) -> None:
    """X is on record in `a`; Y, for the same object and smaller, is admitted; then `b` refuses X alone."""
    first = scene.exists("p", 1)

    def meanwhile() -> None:
        scene.lower("b", "requests.cpu=4 requests.storage=9")
        catch_up(scene.servers[1])
        assert scene.ask(sized(first, 4), first, server=1) == "admitted"

    scene.before_the_first_write(0, "b", meanwhile)
    assert scene.ask(sized(first, 7), first).startswith("exceeded quota: b")
    assert int(scene.used("a")) >= 4
    assert int(scene.used("b")) >= 4


def test_in_one_batch_a_refused_request_takes_nothing_of_another_for_the_same_object(scene: Scene) -> None:
    first = scene.exists("p", 1)
    scene.before_the_first_write(0, "b", lambda: scene.lower("b", "requests.cpu=4 requests.storage=9"))
    both = scene.servers[0].ask(
        application(scene.clock, PODS, sized(first, 4), first), application(scene.clock, PODS, sized(first, 7), first)
    )
    assert [outcome(request).partition(":")[0] for request in both] == ["admitted", "exceeded quota"]
    assert int(scene.used("a")) >= 4


# -- what is refused leaves nothing, and what is admitted is on record


def test_when_the_time_is_up_nothing_is_admitted_that_could_not_be_written(scene: Scene) -> None:
    """A request was refused; while another one's reservation is taken back, there is room for it all of a sudden."""
    big = scene.exists("c", 9, CLAIMS)
    writes = 0

    def fate(call: Call) -> Fate:
        nonlocal writes
        if call.method != "PUT" or "/b/" not in call.path:
            return NOTHING_HAPPENS
        writes += 1
        scene.clock.now += 3
        if writes == 3:
            scene.store.delete(f"{NS}/{CLAIMS}/{big['metadata']['name']}")
            catch_up(scene.controllers[0])
            scene.recount()
        return CONFLICT

    scene.servers[0].client.fate = fate
    claim = small_claim("d", 9)
    claim["metadata"]["uid"] = "u-d"
    requests: list[Request] = scene.servers[0].ask(
        application(scene.clock, PODS, a_pod("p", 1)), application(scene.clock, CLAIMS, claim)
    )
    for request, quota in zip(requests, ("a", "b"), strict=True):
        assert outcome(request) != "admitted" or request.uid in reserved(scene.store, quota)


def test_a_refusal_after_a_lost_answer_leaves_nothing_behind(scene: Scene) -> None:
    """`a` took the write, but nobody knows; then `b` refuses."""

    def meanwhile() -> Fate:
        scene.lower("b", "requests.cpu=4 requests.storage=9")
        return LOST

    scene.before_the_first_write(0, "a", meanwhile)
    assert scene.ask(a_pod("p", 5)).startswith("exceeded quota: b")
    assert reserved(scene.store, "a") == {}


def test_a_refusal_after_a_recount_in_between_leaves_nothing_behind(scene: Scene) -> None:
    """The controller does not know yet that the object was made smaller, so it says that more of it is counted."""
    first = scene.exists("p", 4)
    smaller = scene.store.update(f"{NS}/pods/p", lambda found: found.update(spec=small_pod("p", 1)["spec"]))

    def meanwhile() -> None:
        scene.lower("b", "requests.cpu=4 requests.storage=9")
        deliver(scene.controllers[0], "resourcequotas")
        scene.recount()

    scene.before_the_first_write(0, "b", meanwhile)
    assert scene.ask(sized(first, 5), smaller).startswith("exceeded quota: b")
    assert reserved(scene.store, "a") == {}


# -- recounts


def test_who_takes_over_with_an_older_view_knows_that_it_is_older(scene: Scene) -> None:
    """The first controller hears of the object in the middle of its recount, counts it, and settles it."""
    first, second = scene.controllers
    document = a_pod("p", 5)
    assert scene.ask(document) == "admitted"
    for controller in (first, second):
        deliver(controller, "resourcequotas")
    scene.store.create(f"{NS}/pods", document)
    first.before_counting.append(lambda: deliver(first, PODS))
    scene.recount()
    assert scene.used("a") == "5"
    deliver(second, "resourcequotas")
    first.lead(False)
    second.lead(True)
    second.work()
    assert scene.used("a") == "5"


def test_a_recount_that_waits_for_one_kind_keeps_what_was_known_of_it(scene: Scene) -> None:
    """A controller whose first list of claims takes too long recounts pods alone; a third has an old view of claims."""
    first, old = scene.controllers
    claim = small_claim("c", 5)
    claim["metadata"]["uid"] = "u-c"
    assert scene.ask(claim, kind=CLAIMS) == "admitted"
    scene.store.create(f"{NS}/{CLAIMS}", claim)
    catch_up(first)
    scene.recount()
    assert reserved(scene.store, "b") == {}
    first.lead(False)

    new = Controller(scene.store, scene.clock)
    scene.controllers.append(new)
    deliver(new, "resourcequotas")
    new.keep_house()
    deliver(new, PODS)
    scene.clock.now += 15
    new.lead(True)
    document = a_pod("p", 1)
    assert scene.ask(document) == "admitted"
    scene.store.create(f"{NS}/pods", document)
    deliver(new, "resourcequotas")
    deliver(new, PODS)
    assert new.work()
    assert scene.used("b", "requests.storage") == "5"
    new.lead(False)

    deliver(old, "resourcequotas")
    deliver(old, PODS)
    old.lead(True)
    old.work()
    assert scene.used("b", "requests.storage") == "5"


def test_a_quota_is_recounted_when_the_last_object_of_a_kind_is_gone(scene: Scene) -> None:
    scene.exists("p", 5)
    scene.store.delete(f"{NS}/pods/p")
    scene.tell_everybody()
    scene.recount()
    assert scene.used("a") == "0"
