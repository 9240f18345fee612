"""One batch: judged in memory, written by compare-and-swap, whatever happens to its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from admission.cluster.transport import ApiError
from admission.ledger.account import Account, Reservation
from admission.ledger.annotation import ANNOTATION, MAX_RESERVATIONS, encode
from admission.quota.check import LimitedResource
from tests.unit.api_server import CONFLICT, FAILED, LOST, NOTHING_HAPPENS, ApiServer, Call, Fate, Json
from tests.unit.helpers import amounts, texts
from tests.unit.replicas import (
    NS,
    Clock,
    Controller,
    Server,
    application,
    catch_up,
    in_store,
    outcome,
    reserved,
    set_hard,
    small_pod,
    stored_quota_json,
    used,
    without_threads,
)


class Bench:
    """One server and its store; what happens to its calls is said beforehand."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.store = clock, ApiServer()
        self.server = Server(self.store, clock)
        self._made = 0

    def have(self, name: str, hard: str, used_: str | None = None) -> Json:
        made = self.store.create(f"{NS}/resourcequotas", stored_quota_json(name, hard, used_))
        catch_up(self.server)
        return made

    def pod(self, cpu: int = 1) -> Json:
        self._made += 1
        document = small_pod(f"p{self._made}", cpu)
        document["metadata"]["uid"] = f"u{self._made}"
        return document

    def ask(self, *sizes: int, seconds: float = 8.0, dry_run: bool = False) -> list[str]:
        """New pods that come together; `admitted` or the text for each."""
        applications = [
            application(self.clock, "pods", self.pod(size), seconds=seconds, dry_run=dry_run) for size in sizes
        ]
        return [outcome(request) for request in self.server.ask(*applications)]

    def meets(self, method: str, part: str, *fates: Fate | Callable[[], object]) -> None:
        """The next calls of a method to paths with this part meet these fates, one each."""
        left = list(fates)

        def fate(call: Call) -> Fate:
            if not left or call.method != method or part not in call.path:
                return NOTHING_HAPPENS
            found = left.pop(0)
            if not isinstance(found, Fate):
                found()
                return NOTHING_HAPPENS
            return found

        self.server.client.fate = fate

    def count(self, method: str, part: str = "") -> int:
        return self.server.client.count(method, part)

    def change(self, name: str, **parts: Json) -> None:
        self.store.update(f"{NS}/resourcequotas/{name}", lambda found: found.update(parts))

    def change_status(self, name: str, hard: str, used_: str) -> None:
        self.change(name, status={"hard": texts(hard), "used": texts(used_)})

    def annotate(self, name: str, text: str) -> None:
        self.store.update(
            f"{NS}/resourcequotas/{name}", lambda found: found["metadata"].update(annotations={ANNOTATION: text})
        )
        catch_up(self.server)


@pytest.fixture(name="bench")
def _bench() -> Iterator[Bench]:
    clock = Clock()
    with without_threads(clock):
        yield Bench(clock)


EXCEEDED = "exceeded quota: q, requested: requests.cpu={}, used: requests.cpu={}, limited: requests.cpu={}"


# -- what is written


def test_one_write_carries_what_people_read_and_what_is_judged_by(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4 pods=3", "requests.cpu=1 pods=1")
    assert bench.ask(2) == ["admitted"]
    assert used(bench.store, "q") == {"requests.cpu": "3", "pods": "2"}
    assert reserved(bench.store, "q") == {"u1": {"requests.cpu": "2", "pods": "1"}}
    assert (bench.count("PUT"), bench.count("GET", NS)) == (1, 0)


def test_a_batch_is_one_write_judged_in_the_order_of_arrival(bench: Bench) -> None:
    bench.have("q", "requests.cpu=5")
    assert bench.ask(2, 2, 2, 1) == ["admitted", "admitted", EXCEEDED.format(2, 4, 5), "admitted"]
    assert list(reserved(bench.store, "q")) == ["u1", "u2", "u4"]
    assert bench.count("PUT") == 1


def test_quotas_that_do_not_change_are_not_written(bench: Bench) -> None:
    bench.have("a", "services=3")
    bench.have("b", "requests.cpu=4")
    assert bench.ask(1) == ["admitted"]
    assert bench.count("PUT", "/b/") == bench.count("PUT") == 1


def test_what_others_wrote_stays(bench: Bench) -> None:
    made = bench.have("q", "requests.cpu=4")
    bench.store.update(
        f"{NS}/resourcequotas/q",
        lambda found: found["metadata"].update(annotations={"x": "y"}, labels={"l": "m"}, finalizers=["f/f"]),
    )
    catch_up(bench.server)
    assert bench.ask(1) == ["admitted"]
    found = bench.store.get(f"{NS}/resourcequotas/q")
    assert found["metadata"]["annotations"].keys() == {"x", ANNOTATION}
    assert (found["metadata"]["labels"], found["metadata"]["finalizers"]) == ({"l": "m"}, ["f/f"])
    assert (found["spec"], found["status"]["hard"]) == (made["spec"], {"requests.cpu": "4"})


def test_the_next_batch_goes_by_what_this_one_wrote_before_the_watch_tells(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4")
    for _ in range(4):
        assert bench.ask(1) == ["admitted"]
    assert (bench.count("PUT"), bench.count("GET", NS)) == (4, 0)


def test_a_dry_run_is_judged_and_leaves_nothing(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4")
    assert bench.ask(4, 5, 4, dry_run=True) == ["admitted", EXCEEDED.format(5, 0, 4), "admitted"]
    assert bench.count("PUT") == 0
    assert bench.ask(4) == ["admitted"]


def test_a_call_that_comes_again_writes_nothing_more_and_is_admitted_though_the_quota_is_full(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4")
    asked = application(bench.clock, "pods", bench.pod(4))
    for _ in range(2):
        assert [outcome(request) for request in bench.server.ask(asked)] == ["admitted"]
    assert used(bench.store, "q") == {"requests.cpu": "4"}


# -- what happens to the calls

OTHER_FAULTS = {
    "a server error": Fate(before=ApiError(500, "InternalError", "etcd is away")),
    "too many requests": Fate(before=ApiError(429, "TooManyRequests", "later")),
    "a timeout of the server": Fate(after=ApiError(504, "Timeout", "perhaps")),
    "a conflict": CONFLICT,
    "no answer": FAILED,
    "a lost answer": LOST,
}


@pytest.mark.parametrize("fate", OTHER_FAULTS.values(), ids=OTHER_FAULTS.keys())
@pytest.mark.parametrize("times", [1, 3])
def test_a_write_that_fails_is_repeated_and_charges_once(bench: Bench, fate: Fate, times: int) -> None:
    bench.have("q", "requests.cpu=4")
    bench.meets("PUT", "/q/", *[fate] * times)
    assert bench.ask(3, 1, 1) == ["admitted", "admitted", EXCEEDED.format(1, 4, 4)]
    assert reserved(bench.store, "q") == {"u1": {"requests.cpu": "3"}, "u2": {"requests.cpu": "1"}}
    assert used(bench.store, "q") == {"requests.cpu": "4"}


def test_the_pauses_grow_and_are_short(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4")
    bench.meets("PUT", "/q/", *[CONFLICT] * 12)
    assert bench.ask(1) == ["admitted"]
    assert bench.clock.slept == sorted(bench.clock.slept)
    assert len(bench.clock.slept) == 12
    assert 0 < bench.clock.slept[0] < 0.005
    assert bench.clock.slept[-1] < 0.1


def test_after_a_conflict_it_is_judged_by_what_the_other_has_left(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4")
    other = Server(bench.store, bench.clock)
    catch_up(other)
    bench.meets("PUT", "/q/", lambda: other.ask(application(bench.clock, "pods", bench.pod(3))))
    assert bench.ask(1, 1) == ["admitted", EXCEEDED.format(1, 4, 4)]
    assert used(bench.store, "q") == {"requests.cpu": "4"}


def test_after_a_conflict_the_cache_will_do_where_it_has_caught_up(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4")

    def meanwhile() -> None:
        bench.change_status("q", "requests.cpu=4", "requests.cpu=2")
        catch_up(bench.server)

    bench.meets("PUT", "/q/", meanwhile)
    assert bench.ask(2) == ["admitted"]
    assert bench.count("GET", NS) == 0
    assert used(bench.store, "q") == {"requests.cpu": "4"}


def test_where_the_second_quota_refuses_after_all_the_first_is_taken_back(bench: Bench) -> None:
    bench.have("a", "requests.cpu=9")
    bench.have("q", "requests.cpu=9")
    bench.meets("PUT", "/q/", lambda: bench.change_status("q", "requests.cpu=9", "requests.cpu=8"))
    assert bench.ask(2, 1) == [EXCEEDED.format(2, 8, 9), "admitted"]
    assert list(reserved(bench.store, "a")) == list(reserved(bench.store, "q")) == ["u2"]
    assert (used(bench.store, "a"), used(bench.store, "q")) == ({"requests.cpu": "1"}, {"requests.cpu": "9"})


@pytest.mark.parametrize("fate", [LOST, FAILED, CONFLICT], ids=["lost", "failed", "conflict"])
def test_what_is_taken_back_is_so_although_a_call_fails(bench: Bench, fate: Fate) -> None:
    bench.have("a", "requests.cpu=9")
    bench.have("q", "requests.cpu=9")

    def meanwhile() -> None:
        bench.change_status("q", "requests.cpu=9", "requests.cpu=9")
        bench.meets("PUT", "/a/", fate)

    bench.meets("PUT", "/q/", meanwhile)
    assert bench.ask(2) == [EXCEEDED.format(2, 9, 9)]
    assert reserved(bench.store, "a") == {}
    assert used(bench.store, "a") == {"requests.cpu": "0"}


def test_a_quota_that_is_deleted_meanwhile_has_no_say(bench: Bench) -> None:
    bench.have("a", "requests.cpu=9")
    bench.have("q", "requests.cpu=9")
    bench.meets("PUT", "/q/", lambda: bench.store.delete(f"{NS}/resourcequotas/q"))
    assert bench.ask(2) == ["admitted"]
    assert list(reserved(bench.store, "a")) == ["u1"]


def test_a_quota_that_took_the_place_of_another_is_judged_by_its_own_count(bench: Bench) -> None:
    bench.have("q", "requests.cpu=9")
    assert bench.ask(5) == ["admitted"]

    def replace() -> None:
        bench.store.delete(f"{NS}/resourcequotas/q")
        bench.store.create(f"{NS}/resourcequotas", stored_quota_json("q", "requests.cpu=3"))

    bench.meets("PUT", "/q/", replace)
    assert bench.ask(4, 3) == [EXCEEDED.format(4, 0, 3), "admitted"]
    assert list(reserved(bench.store, "q")) == ["u3"]


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (422, "Invalid"), (413, "RequestEntityTooLarge")])
def test_a_write_that_may_not_be_made_is_a_refusal_that_says_so_at_once(bench: Bench, status: int, reason: str) -> None:
    bench.have("a", "requests.cpu=9")
    bench.have("q", "requests.cpu=9")
    bench.meets("PUT", "/q/", *[Fate(before=ApiError(status, reason, "no"))] * 30)
    (text,) = bench.ask(2)
    assert text == (
        f'the use of quota "q" could not be recorded in time ({status} {reason}): nothing was admitted, try again'
    )
    assert bench.count("PUT", "/q/") == 1
    assert reserved(bench.store, "a") == {}


# -- time


@pytest.mark.parametrize(
    ("fate", "why"),
    [(CONFLICT, "409 Conflict"), (FAILED, "no answer"), (OTHER_FAULTS["a server error"], "500 InternalError")],
)
def test_when_the_time_is_up_it_is_a_refusal_that_says_why(bench: Bench, fate: Fate, why: str) -> None:
    bench.have("a", "requests.cpu=9")
    bench.have("q", "requests.cpu=9")
    bench.meets("PUT", "/q/", *[fate] * 99)
    assert bench.ask(1, seconds=0.1) == [
        f'the use of quota "q" could not be recorded in time ({why}): nothing was admitted, try again'
    ]
    assert reserved(bench.store, "a") == reserved(bench.store, "q") == {}


def test_attempts_are_bounded_however_much_time_there_is(bench: Bench) -> None:
    bench.have("q", "requests.cpu=9")
    bench.meets("PUT", "/q/", *[CONFLICT] * 99)
    (text,) = bench.ask(1, seconds=1000.0)
    assert text.startswith('the use of quota "q" could not be recorded in time')
    assert bench.count("PUT") == 20


def test_who_has_no_time_left_is_refused_while_the_others_go_on(bench: Bench) -> None:
    bench.have("q", "requests.cpu=9")
    hurried = application(bench.clock, "pods", bench.pod(1), seconds=0.005)
    patient = application(bench.clock, "pods", bench.pod(1), seconds=8.0)
    bench.meets("PUT", "/q/", *[CONFLICT] * 8)
    first, second = bench.server.ask(hurried, patient)
    assert outcome(first).startswith('the use of quota "q" could not be recorded in time (409 Conflict)')
    assert outcome(second) == "admitted"
    assert list(reserved(bench.store, "q")) == [second.uid]


@pytest.mark.parametrize(("seconds", "patience"), [(8.0, 8.0), (0.1, 0.1), (-1.0, 0.1)])
def test_each_call_is_given_what_is_left_of_the_time(bench: Bench, seconds: float, patience: float) -> None:
    bench.have("q", "requests.cpu=9")
    bench.ask(1, seconds=seconds)
    (call,) = [call for call in bench.server.client.calls if call.method == "PUT"]
    assert call.timeout == pytest.approx(patience)


def test_without_an_api_server_a_refusal_by_the_cache_stands(bench: Bench) -> None:
    bench.have("q", "requests.cpu=1")
    bench.meets("GET", NS, *[FAILED] * 9)
    assert bench.ask(2) == [EXCEEDED.format(2, 0, 1)]


# -- refusals are made on a fresh read


def test_a_refusal_is_made_on_a_fresh_read_only(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4", "requests.cpu=4")
    bench.change_status("q", "requests.cpu=4", "requests.cpu=1")
    assert bench.ask(3, 1) == ["admitted", EXCEEDED.format(1, 4, 4)]
    assert bench.count("GET", NS) == 1


def test_a_quota_that_is_gone_refuses_nothing(bench: Bench) -> None:
    bench.have("q", "requests.cpu=1")
    bench.store.delete(f"{NS}/resourcequotas/q")
    assert bench.ask(3) == ["admitted"]


def test_a_quota_that_the_watch_has_not_told_of_is_found_by_who_would_be_refused(bench: Bench) -> None:
    """`limitedResources`: admitted only where a quota covers it."""
    bench.server.limit(LimitedResource("pods", ("requests.cpu",), ()))
    (text,) = bench.ask(1)
    assert text.startswith("insufficient quota to consume: requests.cpu")
    bench.store.create(f"{NS}/resourcequotas", stored_quota_json("q", "requests.cpu=4"))
    assert bench.ask(1) == ["admitted"]
    assert list(reserved(bench.store, "q")) == ["u2"]


# -- where the API server keeps the count


def test_where_the_api_server_counts_nothing_is_written(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4", "requests.cpu=1")
    bench.server.limit(writes=False)
    assert bench.ask(3, 3) == ["admitted", "admitted"]
    assert bench.count("PUT") == 0
    assert ANNOTATION not in bench.store.get(f"{NS}/resourcequotas/q")["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    ("cached", "stored", "answers", "expected"),
    [
        ("requests.cpu=4", "requests.cpu=1", True, "admitted"),
        ("requests.cpu=4", "requests.cpu=2", True, EXCEEDED.format(3, 2, 4)),
        ("requests.cpu=4", "requests.cpu=4", False, "admitted"),
        ("requests.cpu=1", "requests.cpu=4", True, "admitted"),
    ],
)
def test_where_the_api_server_counts_it_refuses_what_a_fresh_read_refuses_alone(
    bench: Bench, cached: str, stored: str, answers: bool, expected: str
) -> None:
    bench.have("q", "requests.cpu=4", cached)
    bench.server.limit(writes=False)
    bench.change_status("q", "requests.cpu=4", stored)
    bench.meets("GET", NS, *[NOTHING_HAPPENS if answers else FAILED] * 9)
    assert bench.ask(3) == [expected]
    assert bench.count("PUT") == 0


# -- bounds


def many(number: int, name: str = "p") -> dict[str, Reservation]:
    return {f"old-{index}": Reservation("pods", name, "", amounts("requests.cpu=1")) for index in range(number)}


def fill(bench: Bench, number: int, name: str = "p") -> None:
    made = bench.have("q", "requests.cpu=2k")
    account = Account(amounts("requests.cpu=0"), many(number, name))
    bench.annotate("q", encode(account, made["metadata"]["uid"]))


TOO_MANY = 'quota "q": too many admissions wait to be counted; try again in a moment'


def test_who_comes_when_too_many_wait_to_be_counted_waits_and_is_refused_in_the_end(bench: Bench) -> None:
    fill(bench, MAX_RESERVATIONS)
    assert bench.ask(1, seconds=0.5) == [TOO_MANY]
    assert len(reserved(bench.store, "q")) == MAX_RESERVATIONS
    assert sum(bench.clock.slept) > 0.4


def test_who_comes_when_too_many_wait_has_all_of_its_time_to_wait(bench: Bench) -> None:
    fill(bench, MAX_RESERVATIONS)
    assert bench.ask(1, seconds=8.0) == [TOO_MANY]
    assert sum(bench.clock.slept) > 7.5


def test_who_comes_when_too_many_wait_is_admitted_once_they_are_counted(bench: Bench) -> None:
    fill(bench, MAX_RESERVATIONS - 1)

    def counted() -> None:
        uid = bench.store.get(f"{NS}/resourcequotas/q")["metadata"]["uid"]
        text = encode(Account(amounts("requests.cpu=1000")), uid)
        bench.store.update(
            f"{NS}/resourcequotas/q", lambda found: found["metadata"].update(annotations={ANNOTATION: text})
        )

    bench.meets("GET", NS, NOTHING_HAPPENS, NOTHING_HAPPENS, counted)
    assert bench.ask(1, 2, 3) == ["admitted"] * 3
    assert {"u2", "u3"} <= reserved(bench.store, "q").keys()


def test_a_text_that_grows_too_long_is_waited_for_too(bench: Bench) -> None:
    fill(bench, 500, name="p" * 250)
    (text,) = bench.ask(1, seconds=0.1)
    assert text == TOO_MANY


def test_an_object_that_has_its_place_already_is_admitted_though_too_many_wait(bench: Bench) -> None:
    fill(bench, MAX_RESERVATIONS)
    document = bench.pod(1)
    document["metadata"]["uid"] = "old-3"
    assert [outcome(found) for found in bench.server.ask(application(bench.clock, "pods", document))] == ["admitted"]
    document = bench.pod(2)
    document["metadata"]["uid"] = "old-3"
    assert [outcome(found) for found in bench.server.ask(application(bench.clock, "pods", document))] == ["admitted"]
    assert len(reserved(bench.store, "q")) == MAX_RESERVATIONS


# -- a ledger that cannot be read


@pytest.mark.parametrize("text", ["", "{", '{"v": 9}', "[" * 5000])
def test_with_a_damaged_ledger_status_used_is_judged_by_and_the_ledger_made_anew(bench: Bench, text: str) -> None:
    bench.have("q", "requests.cpu=4", "requests.cpu=2")
    bench.annotate("q", text)
    assert bench.ask(3, 2) == [EXCEEDED.format(3, 2, 4), "admitted"]
    found = in_store(bench.store, "q")
    assert not found.damage
    assert found.account is not None
    assert {name: str(amount) for name, amount in found.account.counted.items()} == {"requests.cpu": "2"}
    assert used(bench.store, "q") == {"requests.cpu": "4"}


DEEP = '{"v": 1, "quota": "", "names": [], "counted": [], "x": ' + "[" * 5000 + "]" * 5000 + "}"


def test_one_ledger_that_cannot_be_read_at_all_does_not_stop_the_cache(bench: Bench) -> None:
    """Whoever may create a quota can give it such an annotation."""
    document = stored_quota_json("evil", "requests.cpu=9")
    document["metadata"]["annotations"] = {ANNOTATION: DEEP}
    bench.store.create(f"{NS}/resourcequotas", document)
    bench.have("q", "requests.cpu=1")
    assert "q" in bench.server.quotas.reflector.namespace("ns")


# -- together with the controller


def test_what_is_lowered_is_judged_by_once_the_controller_has_written_it(bench: Bench) -> None:
    bench.have("q", "requests.cpu=4")
    controller = Controller(bench.store, bench.clock, leads=True)
    for _ in range(3):
        catch_up(controller)
        controller.keep_house()
    set_hard(bench.store, "q", "requests.cpu=2")
    catch_up(bench.server)
    assert bench.ask(3) == ["admitted"]
    catch_up(controller)
    while controller.work():
        catch_up(controller)
    assert bench.ask(1) == [EXCEEDED.format(1, 3, 2)]
