"""What the store counts, and when."""

import threading
import time

import pytest

from admission.quota.check import LimitedResource
from admission.quota.scopes import Scope
from admission.standalone.state import Pending, Row
from tests.standalone.desk import ADMITTED, Desk
from tests.standalone.manifests import claim, config_map, create, pod, quota, resized, service, update

COUNTED = quota("counted", "pods=3 requests.cpu=10")
STATED = quota("stated", "pods=9 requests.cpu=20", "pods=4 requests.cpu=5")


@pytest.fixture
def desk_of():
    """Desks that are closed at the end."""
    made = []

    def make(*objects, **more):
        made.append(Desk(*objects, **more))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


@pytest.fixture
def desk(desk_of):
    return desk_of(COUNTED, STATED)


def cpu(name, amount, **more):
    return pod(name, uid=name, requests=f"cpu={amount}", **more)


def both(counted, stated):
    """What is used, of pods and CPU: `1 500m`."""
    return {
        name: dict(zip(("pods", "requests.cpu"), line.split(), strict=True))
        for name, line in (("counted", counted), ("stated", stated))
    }


# -- admission


def test_what_is_admitted_is_used(desk):
    assert desk.create(cpu("a", "500m")) == ADMITTED
    assert desk.used() == both("1 500m", "5 5500m")


def test_a_dry_run_is_judged_and_takes_nothing(desk):
    assert desk.create(cpu("a", 1), dry_run=True) == ADMITTED
    assert desk.create(cpu("a", 11), dry_run=True).startswith("exceeded quota: counted")
    assert desk.update(cpu("b", 1), resized(cpu("b", 1), "cpu=2"), sub_resource="resize", dry_run=True) == ADMITTED
    assert desk.delete(cpu("b", 1), dry_run=True) == ADMITTED
    desk.store.recount()
    assert desk.used() == both("0 0", "4 5")


def test_what_is_refused_takes_nothing_of_any_quota(desk):
    """The first quota has room, the second has not."""
    desk.reload(COUNTED, quota("stated", "pods=4 requests.cpu=20", "pods=4 requests.cpu=5"))
    assert desk.create(cpu("a", 1)) == "exceeded quota: stated, requested: pods=1, used: pods=4, limited: pods=4"
    assert desk.used() == both("0 0", "4 5")
    desk.store.recount()
    assert desk.used() == both("0 0", "4 5")
    desk.crash()
    assert desk.used() == both("0 0", "4 5")


def test_the_same_call_again_overwrites(desk):
    first = create(cpu("a", 2))
    for _ in range(5):
        assert desk.ask(first) == ADMITTED
    assert desk.used() == both("1 2", "5 7")
    assert desk.create(cpu("a", 3)) == ADMITTED
    assert desk.used() == both("1 3", "5 8")
    desk.store.recount()
    assert desk.used() == both("1 3", "5 8")


def test_the_same_call_again_is_admitted_where_nothing_is_left(desk):
    last = create(cpu("a", 10))
    assert desk.ask(last) == ADMITTED
    assert desk.create(cpu("b", 1)).startswith("exceeded quota: counted")
    assert desk.ask(last) == ADMITTED
    assert desk.used() == both("1 10", "5 15")


def test_the_same_uid_in_another_namespace_is_another_object(desk_of):
    desk = desk_of(COUNTED, quota("counted", "pods=3 requests.cpu=10", ns="other"))
    assert desk.create(cpu("a", 1)) == ADMITTED
    assert desk.create(cpu("a", 2, ns="other")) == ADMITTED
    assert desk.used() == {"counted": {"pods": "1", "requests.cpu": "1"}}
    assert desk.used("other") == {"counted": {"pods": "1", "requests.cpu": "2"}}


def test_objects_without_uid_count_each(desk):
    assert desk.create(pod("a", requests="cpu=1")) == ADMITTED
    assert desk.create(pod("a", requests="cpu=1")) == ADMITTED
    assert desk.used() == both("2 2", "6 7")
    assert desk.delete(pod("a", requests="cpu=1")) == ADMITTED
    assert desk.used()["counted"]["pods"] in ("0", "1")


# -- updates


def test_an_update_adds_what_it_uses_more(desk):
    desk.create(cpu("a", 2))
    assert desk.update(cpu("a", 2), cpu("a", 5), sub_resource="resize") == ADMITTED
    assert desk.used() == both("1 5", "5 10")


def test_an_update_that_does_not_fit_changes_nothing(desk):
    desk.create(cpu("a", 2))
    assert desk.update(cpu("a", 2), cpu("a", 11), sub_resource="resize") == (
        "exceeded quota: counted, requested: requests.cpu=9, used: requests.cpu=2, limited: requests.cpu=10"
    )
    for _ in range(2):
        assert desk.used() == both("1 2", "5 7")
        desk.store.recount()


RECOUNTS = {
    "by itself": lambda desk: desk.store.recount(),
    "at a deletion": lambda desk: desk.delete(config_map("m", uid="m")),
    "at a reload": lambda desk: desk.reload(COUNTED, STATED),
    "at a start": lambda desk: desk.crash(),
}


@pytest.mark.parametrize("recount", RECOUNTS.values(), ids=RECOUNTS)
def test_an_update_that_uses_less_lowers_nothing_until_the_recount(desk, recount):
    desk.create(cpu("a", 5))
    assert desk.update(cpu("a", 5), cpu("a", 2), sub_resource="resize") == ADMITTED
    assert desk.used() == both("1 5", "5 10")
    recount(desk)
    assert desk.used() == both("1 2", "5 7")


def test_less_and_more_again_is_not_added_twice(desk):
    desk.create(cpu("a", 5))
    desk.update(cpu("a", 5), cpu("a", 2), sub_resource="resize")
    desk.update(cpu("a", 2), cpu("a", 6), sub_resource="resize")
    assert desk.used() == both("1 6", "5 11")
    desk.store.recount()
    assert desk.used() == both("1 6", "5 11")


def test_an_update_that_comes_again_after_the_recount_holds_no_room_that_is_not_counted(desk):
    """Less, recount, the same call again, more: what is used must hold the more before the next is admitted."""
    desk.create(cpu("a", 5))
    less = update(cpu("a", 5), cpu("a", 2), sub_resource="resize")
    desk.ask(less)
    desk.store.recount()
    assert desk.ask(less) == ADMITTED
    assert desk.used() == both("1 2", "5 7")
    assert desk.update(cpu("a", 2), cpu("a", 5), sub_resource="resize") == ADMITTED
    assert desk.used() == both("1 5", "5 10")
    assert desk.create(cpu("b", 8)).startswith("exceeded quota: counted")


def test_an_update_that_was_admitted_and_never_stored_frees_no_room(desk):
    """Admitted down to 2, then refused by someone else: the object still uses 5 when the next update comes."""
    desk.create(cpu("a", 5))
    desk.update(cpu("a", 5), cpu("a", 2), sub_resource="resize")
    desk.store.recount()
    assert desk.update(cpu("a", 5), cpu("a", 6), sub_resource="resize") == ADMITTED
    assert desk.used() == both("1 6", "5 11")


def test_the_old_use_of_an_object_never_seen_is_taken_as_counted(desk):
    assert desk.update(cpu("x", 3), cpu("x", 5), sub_resource="resize") == ADMITTED
    assert desk.used()["stated"] == {"pods": "4", "requests.cpu": "7"}
    desk.store.recount()
    assert desk.used()["stated"] == {"pods": "4", "requests.cpu": "7"}
    desk.crash()
    assert desk.used()["stated"] == {"pods": "4", "requests.cpu": "7"}
    assert desk.update(cpu("x", 5), cpu("x", 4), sub_resource="resize") == ADMITTED
    desk.store.recount()
    assert desk.used()["stated"] == {"pods": "4", "requests.cpu": "6"}
    desk.delete(cpu("x", 4))
    assert desk.used()["stated"] == {"pods": "3", "requests.cpu": "2"}


def test_a_finished_pod_gives_its_room_back_at_the_recount(desk):
    desk.create(cpu("a", 2))
    done = cpu("a", 2, status={"phase": "Succeeded"})
    assert desk.update(cpu("a", 2), done, sub_resource="status") == ADMITTED
    assert desk.used() == both("1 2", "5 7")
    desk.store.recount()
    assert desk.used() == both("0 0", "4 5")
    desk.delete(done)
    assert desk.used() == both("0 0", "4 5")


def test_a_claim_grows_and_a_service_gets_ports(desk_of):
    hard = "requests.storage=10Gi persistentvolumeclaims=2 services.nodeports=3 services=2"
    desk = desk_of(quota("q", hard))
    desk.create(claim("d", "2Gi", uid="d"))
    desk.create(service("s", uid="s"))
    assert desk.update(claim("d", "2Gi", uid="d"), claim("d", "5Gi", uid="d")) == ADMITTED
    assert desk.update(service("s", uid="s"), service("s", uid="s", kind="NodePort", ports=3)) == ADMITTED
    assert desk.used()["q"] == {
        "persistentvolumeclaims": "1",
        "requests.storage": "5Gi",
        "services": "1",
        "services.nodeports": "3",
    }
    assert desk.update(claim("d", "5Gi", uid="d"), claim("d", "11Gi", uid="d")).startswith("exceeded quota: q")
    assert desk.update(service("s", uid="s"), service("s", uid="s", kind="NodePort", ports=4)).startswith(
        "exceeded quota"
    )


def test_an_update_that_moves_a_pod_into_a_scope_is_charged_there(desk_of):
    desk = desk_of(quota("short", "pods=1", scopes=["Terminating"]), quota("long", "pods=2", scopes=["NotTerminating"]))
    ending = pod("a", uid="a", spec={"activeDeadlineSeconds": 9})
    desk.create(pod("a", uid="a"))
    assert desk.used() == {"long": {"pods": "1"}, "short": {"pods": "0"}}
    assert desk.update(pod("a", uid="a"), ending) == ADMITTED
    assert desk.used() == {"long": {"pods": "1"}, "short": {"pods": "1"}}
    desk.store.recount()
    assert desk.used() == {"long": {"pods": "0"}, "short": {"pods": "1"}}
    desk.create(pod("b", uid="b"))
    assert desk.update(pod("b", uid="b"), pod("b", uid="b", spec={"activeDeadlineSeconds": 9})).startswith("exceeded")


# -- deletions


def test_a_deletion_gives_back(desk):
    desk.create(cpu("a", 2))
    desk.create(cpu("b", 3))
    assert desk.delete(cpu("a", 2)) == ADMITTED
    assert desk.used() == both("1 3", "5 8")


def test_a_deletion_that_comes_again_gives_back_once(desk):
    desk.create(cpu("a", 2))
    for _ in range(3):
        assert desk.delete(cpu("a", 2)) == ADMITTED
    assert desk.used() == both("0 0", "4 5")


def test_a_deletion_of_an_object_never_seen_gives_back_once(desk):
    for _ in range(3):
        assert desk.delete(cpu("x", 2)) == ADMITTED
        assert desk.used() == both("0 0", "3 3")
    desk.crash()
    assert desk.used() == both("0 0", "3 3")


def test_nothing_is_ever_less_than_nothing(desk):
    for index in range(10):
        desk.delete(cpu(f"x{index}", 2))
    assert desk.used() == both("0 0", "0 0")


def test_a_deleted_object_may_be_made_anew(desk):
    desk.create(cpu("a", 10))
    desk.delete(cpu("a", 10))
    assert desk.create(pod("a", uid="another", requests="cpu=10")) == ADMITTED
    assert desk.used() == both("1 10", "5 15")


def test_a_deletion_of_an_object_of_the_files_gives_back(desk_of):
    for written in (cpu("f", 3), pod("f", requests="cpu=3")):  # with a UID, and without
        desk = desk_of(COUNTED, STATED, written)
        assert desk.used() == both("1 3", "4 5")
        desk.delete(cpu("f", 3))
        for again in (desk.store.recount, desk.crash, lambda: desk.reload(COUNTED, STATED, written)):  # noqa: B023
            assert desk.used() == both("0 0", "3 2")
            again()
        desk.reload(COUNTED, STATED)
        assert desk.used() == both("0 0", "3 2")


# -- files


def test_an_object_of_the_files_is_counted_once_when_it_is_updated(desk_of):
    for written in (cpu("f", 3), pod("f", requests="cpu=3")):
        desk = desk_of(COUNTED, STATED, written)
        assert desk.update(cpu("f", 3), cpu("f", 5), sub_resource="resize") == ADMITTED
        for again in (desk.store.recount, desk.crash, desk.store.recount):
            assert desk.used() == both("1 5", "4 7")
            again()


def test_what_was_admitted_and_then_written_into_a_file_is_counted_once(desk):
    desk.create(cpu("a", 3))
    desk.reload(COUNTED, STATED, cpu("a", 3))
    assert desk.used() == both("1 3", "5 8")
    desk.crash()
    assert desk.used() == both("1 3", "5 8")


def test_what_was_admitted_and_then_written_into_a_file_gives_back_at_its_deletion(desk):
    desk.create(cpu("a", 3))
    desk.reload(COUNTED, STATED, cpu("a", 3))
    desk.delete(cpu("a", 3))
    assert desk.used() == both("0 0", "4 5")


def test_new_limits_are_in_force_and_what_is_used_stays(desk):
    desk.create(cpu("a", 3))
    desk.reload(quota("counted", "pods=1 requests.cpu=10"), STATED)
    assert desk.used() == both("1 3", "5 8")
    assert desk.create(cpu("b", 1)).startswith("exceeded quota: counted")
    desk.reload(quota("new", "pods=2"))
    assert desk.used() == {"new": {"pods": "1"}}
    assert desk.create(cpu("b", 1)) == ADMITTED
    desk.reload(COUNTED, STATED)
    assert desk.used() == both("2 4", "6 9")


def test_a_quota_that_is_over_its_limit_admits_nothing_more_of_it_and_all_else(desk):
    desk.create(cpu("a", 3))
    desk.reload(quota("counted", "pods=9 requests.cpu=2"))
    assert desk.create(cpu("b", "1m")).startswith(
        "exceeded quota: counted, requested: requests.cpu=1m, used: requests.cpu=3"
    )
    assert desk.create(config_map("m", uid="m")) == ADMITTED
    assert desk.update(cpu("a", 3), cpu("a", "2500m"), sub_resource="resize") == ADMITTED


UNKNOWN = quota("q", "pods=9 requests.cpu=9 services=9", "pods=1 services=0")


def test_what_a_status_does_not_say_stays_unknown(desk_of):
    desk = desk_of(UNKNOWN)
    text = "status unknown for quota: q, resources: pods,requests.cpu"
    for again in (
        desk.store.recount,
        lambda: desk.reload(UNKNOWN),
        desk.crash,
        lambda: desk.delete(cpu("x", 1)),
        desk.restart,
    ):
        assert desk.create(cpu("a", 1)) == text
        assert "requests.cpu" not in desk.used()["q"]
        again()
    assert desk.create(cpu("a", 1)) == text
    assert desk.create(service("s", uid="s")) == ADMITTED
    assert desk.used()["q"] == {"pods": "0", "services": "1"}
    desk.reload(quota("q", "pods=9 requests.cpu=9 services=9", "pods=1 services=0 requests.cpu=0"))
    assert desk.create(cpu("a", 1)) == ADMITTED


def test_what_may_be_used_only_under_a_quota_is_refused_elsewhere(desk_of):
    high = LimitedResource("pods", (), (Scope("PriorityClass", "In", ("high",)),))
    storage = LimitedResource("persistentvolumeclaims", ("requests.storage",))
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    desk = desk_of(quota("q", "pods=1", ns="covered", scopeSelector=selector), limited=(high, storage))
    important = {"priorityClassName": "high"}
    assert desk.create(pod("a", uid="a", spec=important)) == (
        "insufficient quota to match these scopes: [{PriorityClass In [high]}]"
    )
    assert desk.create(pod("a", uid="a")) == ADMITTED
    assert desk.create(claim("d", uid="d")) == "insufficient quota to consume: requests.storage"
    assert desk.create(pod("a", uid="a", ns="covered", spec=important)) == ADMITTED
    assert desk.create(pod("b", uid="b", ns="covered", spec=important)).startswith("exceeded quota: q")


# -- the state file


def test_what_was_admitted_is_there_after_a_crash(desk):
    desk.create(cpu("a", "1500m"))
    desk.create(cpu("b", 2))
    desk.delete(cpu("b", 2))
    desk.update(cpu("x", 1), cpu("x", 3), sub_resource="resize")
    desk.store.recount()
    before = desk.used()
    for again in (desk.crash, desk.restart, desk.crash):
        again()
        assert desk.used() == before
    assert desk.create(cpu("a", "1500m")) == ADMITTED
    assert desk.used() == before


class HeldState:
    """Writes wait until the test lets them end."""

    def __init__(self):
        self.kept: dict[str, Row] = {}
        self.pending: list[tuple[str, Row | None, Pending]] = []
        self.error: str | None = None
        self.held = False
        self.changed = threading.Condition()

    def rows(self):
        return iter(list(self.kept.values()))

    def bases(self):
        return iter(())

    def write(self, row):
        return self._queue(getattr(row, "quota", None) or row.identity.uid, row)

    def remove(self, identity):
        return self._queue(identity.uid, None)

    def _queue(self, uid, row):
        pending = Pending()
        with self.changed:
            self.pending.append((uid, row, pending))
            self.changed.notify_all()
        if not self.held:
            self.let_go()
        return pending

    def let_go(self):
        with self.changed:
            writes, self.pending = self.pending, []
        for uid, row, pending in writes:
            if self.error is None:
                self.kept.pop(uid, None)
                if row is not None:
                    self.kept[uid] = row
            pending.finish(self.error)

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.pending) >= count, 10)

    def close(self):
        self.let_go()


NOT_RECORDED = "the use of quotas could not be recorded in time: nothing was admitted, try again"


def test_what_cannot_be_recorded_is_refused_and_takes_nothing(desk_of):
    state = HeldState()
    desk = desk_of(COUNTED, STATED, state=state)
    desk.create(cpu("a", 2))
    state.error = "disk full"
    assert desk.create(cpu("b", 1)) == NOT_RECORDED
    assert desk.update(cpu("a", 2), cpu("a", 4), sub_resource="resize") == NOT_RECORDED
    state.error = None
    assert desk.used() == both("1 2", "5 7")
    desk.store.recount()
    assert desk.used() == both("1 2", "5 7")
    assert desk.create(cpu("b", 8)) == ADMITTED


def test_what_is_not_recorded_in_time_is_refused_and_takes_nothing(desk_of):
    state = HeldState()
    desk = desk_of(COUNTED, state=state)
    state.held = True
    started = time.monotonic()
    assert desk.ask(create(cpu("a", 2)), seconds=0.2) == NOT_RECORDED
    assert 0.15 < time.monotonic() - started < 5
    state.held = False
    state.let_go()
    assert desk.used() == {"counted": {"pods": "0", "requests.cpu": "0"}}
    assert state.kept == {}
    assert desk.create(cpu("b", 10)) == ADMITTED


def test_an_answer_is_given_once_it_is_recorded_and_not_before(desk_of):
    state = HeldState()
    desk = desk_of(COUNTED, state=state)
    state.held = True
    answers = []
    asking = threading.Thread(target=lambda: answers.append(desk.create(cpu("a", 2))))
    asking.start()
    state.wait_for(1)
    asking.join(0.2)
    assert answers == []
    assert desk.create(cpu("b", 9)).startswith("exceeded quota: counted"), "what waits is charged already"
    state.let_go()
    asking.join(10)
    assert answers == [ADMITTED]


def test_a_call_that_gave_up_does_not_undo_the_same_call_that_came_again(desk_of):
    """The first waits too short a time, the retry long enough: what was admitted is not forgotten."""
    state = HeldState()
    desk = desk_of(COUNTED, state=state)
    state.held = True
    answers = {}

    def ask(name, seconds):
        answers[name] = desk.ask(create(cpu("a", 2)), seconds=seconds)

    first = threading.Thread(target=ask, args=("first", 0.5))
    again = threading.Thread(target=ask, args=("again", 20))
    first.start()
    state.wait_for(1)
    again.start()
    state.wait_for(2)
    first.join(10)
    state.held = False
    state.let_go()
    again.join(10)
    assert answers == {"first": NOT_RECORDED, "again": ADMITTED}
    assert desk.used() == {"counted": {"pods": "1", "requests.cpu": "2"}}
    assert state.kept.keys() == {"a"}


# -- many at once


@pytest.mark.parametrize("memory", [True, False], ids=["held in memory", "in a file"])
def test_many_at_once_are_never_admitted_beyond_the_limit(desk_of, memory):
    desk = desk_of(quota("q", "pods=50 requests.cpu=7"), state=HeldState() if memory else None)
    admitted = []

    def work(number):
        for index in range(20):
            name = f"{number}-{index}"
            if desk.create(cpu(name, "300m")) == ADMITTED:
                admitted.append(name)
                if index % 3 == 0:
                    desk.delete(cpu(name, "300m"))
                    admitted.remove(name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        used = desk.used()["q"]
        assert int(used["pods"]) <= 23
    for thread in threads:
        thread.join()
    assert len(admitted) == 23  # 23 times 300m are 6.9
    assert desk.used()["q"] == {"pods": "23", "requests.cpu": "6900m"}


def test_the_same_object_at_once_is_charged_once(desk):
    review = create(cpu("a", 3))
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(desk.ask(review))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [ADMITTED] * 16
    assert desk.used() == both("1 3", "5 8")
