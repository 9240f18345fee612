"""Reservations whose object does not come, and objects that were deleted: when an admission has come to its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from admission.cluster.transport import ApiError
from admission.controller.gone import REMEMBER, GoneObjects
from admission.controller.recount import has_ended
from admission.ledger.account import Reservation
from tests.unit.api_server import FAILED, NOTHING_HAPPENS, ApiServer, Call, Fate
from tests.unit.helpers import amounts, table
from tests.unit.replicas import (
    NS,
    Clock,
    Controller,
    Server,
    application,
    catch_up,
    deliver,
    outcome,
    reserved,
    small_pod,
    stored_quota_json,
    without_threads,
)

ENDED = """
judged on | uid there | version there | ended
          |           |               | yes
          | other     | 7             | yes
          | u         | 7             | no
7         |           |               | yes
7         | other     | 9             | yes
7         | u         | 7             | yes
7         | u         | 8             | no
"""


@pytest.mark.parametrize(("judged", "uid", "version", "ended"), table(ENDED)[1:])
def test_a_direct_read_says_whether_an_admission_that_old_is_over(
    judged: str, uid: str, version: str, ended: str
) -> None:
    """A creation is, where the object is not there; an update, where the object is as it was."""
    asked = Reservation("pods", "p", judged, amounts("cpu=1"))
    assert has_ended(asked, (uid, version) if uid else None, "u") == (ended == "yes")


# -- deleted objects


def test_a_deletion_is_remembered_for_a_while() -> None:
    clock = Clock(100.0)
    gone = GoneObjects(clock)
    gone.add("a")
    clock.now += REMEMBER / 2
    gone.add("b")
    clock.now += REMEMBER / 2 - 1
    assert gone.among(["a", "b", "c"]) == {"a", "b"}
    clock.now += 2
    gone.add("c")
    assert gone.among(["a", "b", "c"]) == {"b", "c"}


def test_a_deletion_that_is_told_again_is_remembered_from_then_on() -> None:
    clock = Clock(100.0)
    gone = GoneObjects(clock)
    gone.add("a")
    gone.add("b")
    clock.now += REMEMBER - 1
    gone.add("a")
    clock.now += 2
    gone.add("c")
    assert gone.among(["a", "b", "c"]) == {"a", "c"}


# -- a controller that watches them


class Watch:
    """One quota, one server that reserves, one controller that looks."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.store = clock, ApiServer()
        self.store.create(f"{NS}/resourcequotas", stored_quota_json("q", "requests.cpu=9"))
        self.server = Server(self.store, clock)
        self.controller = Controller(self.store, clock, leads=True)
        for _ in range(3):
            catch_up(self.server, self.controller)
            self.controller.keep_house()

    def reserve(self, name: str = "p", cpu: int = 1, *, stored: bool = False) -> None:
        document = small_pod(name, cpu)
        document["metadata"]["uid"] = f"u-{name}"
        (asked,) = self.server.ask(application(self.clock, "pods", document))
        assert outcome(asked) == "admitted"
        if stored:
            self.store.create(f"{NS}/pods", document)
        deliver(self.controller, "resourcequotas")

    def look(self, after: float) -> list[str]:
        """The reservations that are left when the controller looks after so many seconds."""
        self.clock.now += after
        self.controller.keeper.expiry.look()
        while self.controller.work():
            deliver(self.controller, "resourcequotas")
        return sorted(reserved(self.store, "q"))

    def count(self, part: str) -> int:
        return self.controller.client.count("GET", part)


@pytest.fixture(name="watch")
def _watch() -> Iterator[Watch]:
    clock = Clock()
    with without_threads(clock):
        yield Watch(clock)


def test_what_never_comes_goes_after_a_minute_and_not_before(watch: Watch) -> None:
    watch.reserve()
    assert watch.look(50.0) == ["u-p"]
    assert watch.count("/pods/p") == 0
    assert watch.look(11.0) == []
    assert watch.count("/pods/p") == 1


def test_the_minute_counts_from_when_this_controller_first_saw_it(watch: Watch) -> None:
    watch.reserve()
    watch.clock.now += 59.0
    another = Controller(watch.store, watch.clock)
    catch_up(another)
    another.keep_house()
    watch.controller.lead(False)
    another.lead(True)
    watch.controller = another
    assert watch.look(30.0) == ["u-p"]
    assert watch.look(31.0) == []


def test_what_is_asked_for_anew_begins_its_minute_anew(watch: Watch) -> None:
    watch.reserve(cpu=1)
    watch.look(50.0)
    watch.reserve(cpu=2)
    assert watch.look(20.0) == ["u-p"]
    assert watch.look(41.0) == []


def test_what_is_there_after_all_stays_until_it_is_seen_and_is_read_anew(watch: Watch) -> None:
    watch.reserve(stored=True)
    assert watch.look(61.0) == ["u-p"]
    assert watch.count("/pods/p") == 1
    catch_up(watch.controller)
    assert watch.look(1.0) == []


@pytest.mark.parametrize("fate", [FAILED, Fate(before=ApiError(500, "InternalError", "no"))])
def test_what_cannot_be_looked_into_stays_and_is_looked_into_again(watch: Watch, fate: Fate) -> None:
    watch.reserve()
    watch.controller.client.fate = lambda call: fate if call.path.endswith("/pods/p") else NOTHING_HAPPENS
    assert watch.look(61.0) == ["u-p"]
    assert watch.look(1.0) == ["u-p"]
    assert watch.count("/pods/p") == 1
    watch.controller.client.fate = lambda _: NOTHING_HAPPENS
    assert watch.look(10.0) == []


def test_what_has_ended_goes_although_the_write_fails_at_first(watch: Watch) -> None:
    watch.reserve()
    left = [FAILED, FAILED]

    def fate(call: Call) -> Fate:
        return left.pop() if call.method == "PUT" and left else NOTHING_HAPPENS

    watch.controller.client.fate = fate
    assert watch.look(61.0) == []


def test_an_object_that_came_and_went_ends_its_admission_at_once(watch: Watch) -> None:
    watch.reserve(stored=True)
    watch.store.delete(f"{NS}/pods/p")
    deliver(watch.controller, "pods")
    watch.controller.keeper.mark_all()
    assert watch.look(0.0) == []


def test_an_object_of_the_same_name_ends_the_admission_of_another(watch: Watch) -> None:
    watch.reserve()
    watch.store.create(f"{NS}/pods", small_pod("p", 1))
    assert watch.look(61.0) == []
