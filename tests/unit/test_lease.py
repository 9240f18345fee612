"""Leader election: what is decided, and that two never lead at once, whatever the network does to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.cluster.connections import RawResponse
from admission.cluster.transport import ApiError, ClusterError, Transport, Unreachable
from admission.controller.lease import Elector, Record, Sighting, claim, micro_time, see, unique_identity
from tests.standalone.server import eventually

Json = dict[str, Any]

HELD = Record("other", 15, "t1", "t2", 3)
STAMP = "now"


# -- what is decided


def test_an_absent_lease_is_taken() -> None:
    assert claim(None, "me", 15, 0.0, STAMP) == Record("me", 15, STAMP, STAMP, 0)


def test_a_released_lease_is_taken_at_once() -> None:
    released = Sighting(HELD._replace(holder="", lease_seconds=1), 100.0)
    assert claim(released, "me", 15, 100.0, STAMP) == Record("me", 15, STAMP, STAMP, 4)


@pytest.mark.parametrize(
    ("ours", "theirs", "after", "is_taken"),
    [
        (15, 15, 14.9, False),
        (15, 15, 15.0, True),
        (15, 30, 29.9, False),
        (15, 30, 30.0, True),
        (15, 5, 14.9, False),
        (15, 0, 15.0, True),
    ],
)
def test_a_lease_is_taken_when_nothing_was_written_for_its_time(
    ours: int, theirs: int, after: float, is_taken: bool
) -> None:
    seen = Sighting(HELD._replace(lease_seconds=theirs), 100.0)
    taken = claim(seen, "me", ours, 100.0 + after, STAMP)
    assert taken == (Record("me", ours, STAMP, STAMP, 4) if is_taken else None)


def test_who_holds_the_lease_renews_it_and_keeps_the_time_of_its_acquisition() -> None:
    mine = HELD._replace(holder="me")
    assert claim(Sighting(mine, 0.0), "me", 20, 1.0, STAMP) == Record("me", 20, "t1", STAMP, 3)


def test_a_record_counts_from_when_it_was_seen_first() -> None:
    first = see(None, HELD, 10.0)
    assert first == Sighting(HELD, 10.0)
    assert see(first, HELD, 20.0) == first
    renewed = HELD._replace(renewed="t3")
    assert see(first, renewed, 30.0) == Sighting(renewed, 30.0)
    assert see(first, None, 30.0) is None


def test_times_are_written_as_micro_time() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert micro_time(moment) == "2026-01-02T03:04:05.000006Z"
    assert micro_time(moment.astimezone(timezone(timedelta(hours=5)))) == "2026-01-02T03:04:05.000006Z"


def test_no_two_identities_are_the_same() -> None:
    assert unique_identity() != unique_identity()


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 10, 10), (15, 10, 0)])
def test_times_that_cannot_work_are_refused(times: tuple[int, float, float]) -> None:
    lease, renew, retry = times
    with pytest.raises(ValueError, match="retry_seconds < renew_seconds < lease_seconds"):
        Elector(cast(Transport, None), "ns", "l", "me", lease_seconds=lease, renew_seconds=renew, retry_seconds=retry)


# -- a store of one Lease


class Store:
    """What an API server makes of calls about one Lease."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.version = 0

    def touch(self) -> None:
        """Somebody writes a label."""
        if self.lease is not None:
            self._keep(self.lease)

    def call(self, method: str, path: str, body: bytes | None = None, **_: Any) -> RawResponse:
        if method == "POST":
            if self.lease is not None:
                raise ApiError(409, "AlreadyExists", "it is there")
            return self._keep(orjson.loads(body or b""))
        if self.lease is None:
            raise ApiError(404, "NotFound", "it is not there")
        if method == "PUT":
            new = orjson.loads(body or b"")
            if new["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", "it was changed")
            return self._keep(new)
        return RawResponse(200, orjson.dumps(self.lease))

    def _keep(self, lease: Json) -> RawResponse:
        self.version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}
        return RawResponse(200, orjson.dumps(self.lease))


# -- the same code over a network that loses, delays and pauses, one step at a time

OK, LOST, ANSWER_LOST = "arrives", "is lost", "arrives, its answer is lost"


class _Over(BaseException):
    """Ends the thread of a replica."""


class Replica:
    """An elector that runs only when it is told to, up to its next exchange with the store.

    A call stops twice: before it reaches the store, and before its answer reaches the replica. So a step may come any
    time later, and others may have done anything meanwhile.
    """

    def __init__(self, store: Store, name: str, clock: Callable[[], float], lease: int, renew: float) -> None:
        self._store = store
        self.elector = Elector(
            cast(Transport, self), "ns", "lease", name, clock=clock, lease_seconds=lease, renew_seconds=renew
        )
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._fate = OK
        self._releases = self._is_over = False
        self.is_idle = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def step(self, fate: str = OK, *, release: bool = False) -> None:
        """Go on; `fate` is that of a call that is on its way, `release` says what begins if none is."""
        self._fate = fate
        if self.is_idle:
            self._releases = release
        self.is_idle = False
        self._go.release()
        self._stopped.acquire()

    def attempt(self, fate: str = OK, *, release: bool = False) -> None:
        """Finish what is under way, or begin something and finish it."""
        self.step(fate, release=release)
        while not self.is_idle:
            self.step(fate)

    def end(self) -> None:
        self._is_over = True
        self.step()
        self._thread.join()

    def call(self, method: str, path: str, body: bytes | None = None, **_: Any) -> RawResponse:
        fate = self._wait()
        if fate == LOST:
            raise Unreachable("lost")
        answer: RawResponse | ApiError
        try:
            answer = self._store.call(method, path, body)
        except ApiError as error:
            answer = error
        self._wait()
        if fate == ANSWER_LOST:
            raise Unreachable("lost")
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def _wait(self) -> str:
        self._stopped.release()
        self._go.acquire()
        if self._is_over:
            raise _Over
        return self._fate

    def _run(self) -> None:
        self._go.acquire()
        try:
            while not self._is_over:
                try:
                    if self._releases:
                        self.elector.release()
                    else:
                        self.elector.attempt()
                except ClusterError:
                    pass
                self.is_idle = True
                self._wait()
        except _Over:
            pass
        self._stopped.release()


class World:
    """Replicas with clocks that run alike and show different times."""

    def __init__(self, times: list[tuple[int, float]]) -> None:
        self.now = 0.0
        self.store = Store()
        self.replicas = [
            Replica(self.store, f"replica-{number}", self._clock(number), lease, renew)
            for number, (lease, renew) in enumerate(times)
        ]

    def _clock(self, number: int) -> Callable[[], float]:
        return lambda: self.now + 1000.0 * number

    def leaders(self) -> list[str]:
        return [replica.elector.identity for replica in self.replicas if replica.elector.is_leader()]

    def check(self) -> None:
        assert len(self.leaders()) <= 1

    def calm_down(self) -> None:
        """From now on nothing is lost or late."""
        for _ in range(20):
            self.now += 3.0
            for replica in self.replicas:
                replica.attempt()
                self.check()

    def end(self) -> None:
        for replica in self.replicas:
            replica.end()


TIMES = [(15, 10.0), (15, 14.0), (30, 29.0)]
actions = st.tuples(
    st.sampled_from(["attempt"] * 5 + ["step"] * 3 + ["sleep"] * 4 + ["touch"]),
    st.integers(0, 2),
    st.sampled_from([OK] * 6 + [ANSWER_LOST, LOST]),
    st.sampled_from([False] * 11 + [True]),
    st.sampled_from([0.5, 1.5, 2.0, 5.0, 9.5, 13.0, 14.5]),
)
"""What happens, to whom, the fate of its calls, whether it releases the Lease, and how much time goes by."""


def play(world: World, action: tuple[str, int, str, bool, float]) -> None:
    kind, number, fate, release, seconds = action
    replica = world.replicas[number % len(world.replicas)]
    if kind == "sleep":
        world.now += seconds
    elif kind == "touch":
        world.store.touch()
    else:
        (replica.step if kind == "step" else replica.attempt)(fate, release=release)


@given(times=st.lists(st.sampled_from(TIMES), min_size=2, max_size=3), what=st.lists(actions, min_size=30, max_size=80))
def test_no_two_lead_at_once_and_in_the_end_one_does(times: list[tuple[int, float]], what: list[Any]) -> None:
    world = World(times)
    try:
        for action in what:
            play(world, action)
            world.check()
        world.calm_down()
        assert len(world.leaders()) == 1
    finally:
        world.end()


@pytest.fixture
def pair() -> Iterator[World]:
    """Two replicas that give up after 10 s and take over after 15 s; the first one leads."""
    world = World([(15, 10.0), (15, 10.0)])
    world.replicas[0].attempt()
    assert world.leaders() == ["replica-0"]
    yield world
    world.end()


def test_leadership_counts_from_when_the_write_was_sent_not_from_its_answer(pair: World) -> None:
    first, second = pair.replicas
    for _ in range(4):  # up to where the write has reached the store
        first.step()
    assert pair.store.version == 2
    second.attempt()
    pair.now += 9.5
    first.step()
    assert pair.leaders() == ["replica-0"]
    pair.now += 1.0
    assert pair.leaders() == []
    pair.now += 4.5
    second.attempt()
    assert pair.leaders() == ["replica-1"]


def test_what_was_read_is_not_older_than_the_answer(pair: World) -> None:
    first, second = pair.replicas
    second.step()  # its call hangs before it reaches the store
    pair.now += 9.0
    first.attempt()
    second.attempt()
    pair.now += 9.0
    second.attempt()  # 18 s after its first call, 9 s after the write that it saw
    assert pair.leaders() == ["replica-0"]


def test_who_was_paused_does_not_lead_when_it_comes_back(pair: World) -> None:
    first, second = pair.replicas
    for _ in range(3):  # about to write
        first.step()
    second.attempt()
    pair.now += 15.0
    second.attempt()
    assert pair.leaders() == ["replica-1"]
    first.attempt()  # the write that was held up loses
    first.attempt()
    assert pair.leaders() == ["replica-1"]
    assert first.elector.holder == "replica-1"


def test_a_replica_that_is_cut_off_stops_before_another_begins(pair: World) -> None:
    first, second = pair.replicas
    led = []
    for _ in range(40):
        pair.now += 1.0
        first.attempt(LOST)
        pair.check()
        second.attempt()
        pair.check()
        led.append(pair.leaders())
    assert [led.count(names) for names in (["replica-0"], [], ["replica-1"])] == [9, 6, 25]


# -- the thread around it

QUICK: Json = {"lease_seconds": 1, "renew_seconds": 0.5, "retry_seconds": 0.02}


class Flaky(Store):
    """A store that can be out of reach, or answer nonsense."""

    error: Exception | None = None

    def call(self, method: str, path: str, body: bytes | None = None, **_: Any) -> RawResponse:
        if self.error is not None:
            raise self.error
        return super().call(method, path, body)


def elector(store: Store, name: str, **options: Any) -> Elector:
    return Elector(cast(Transport, store), "ns", "lease", name, **{**QUICK, **options})


def test_who_stops_says_so_first_and_releases_the_lease_then() -> None:
    store = Flaky()
    said: list[str] = []

    def stopped() -> None:
        said.append(f"stopped, held by {store.lease and store.lease['spec']['holderIdentity']}")

    one = elector(store, "one", on_started=lambda: said.append("started"), on_stopped=stopped)
    one.start()
    eventually(one.is_leader)
    eventually(lambda: said)
    one.stop()
    assert not one.is_leader()
    assert said == ["started", "stopped, held by one"]
    assert store.lease is not None
    assert store.lease["spec"]["holderIdentity"] == ""
    two = elector(store, "two")
    two.attempt()
    assert two.is_leader()
    assert store.lease["spec"]["leaseTransitions"] == 1


def test_an_elector_that_does_not_lead_leaves_the_lease_of_another_alone() -> None:
    store = Flaky()
    elector(store, "one").attempt()
    two = elector(store, "two", retry_seconds=0.2)
    two.start()
    eventually(lambda: two.holder == "one")
    two.stop()
    assert store.lease is not None
    assert store.lease["spec"]["holderIdentity"] == "one"


def test_stopping_what_was_never_started_does_nothing() -> None:
    elector(Flaky(), "one").stop()


@pytest.mark.parametrize("error", [Unreachable("no answer"), ApiError(500, "", ""), KeyError("bug")])
def test_leadership_ends_in_time_where_nothing_can_be_written_and_comes_back(error: Exception) -> None:
    store = Flaky()
    said: list[str] = []
    one = elector(store, "one", on_started=lambda: said.append("started"), on_stopped=lambda: said.append("stopped"))
    one.start()
    eventually(lambda: said == ["started"])
    store.error = error
    began = time.monotonic()
    eventually(lambda: said == ["started", "stopped"], every=0.005)
    assert time.monotonic() - began < QUICK["lease_seconds"]
    assert not one.is_leader()
    store.error = None
    eventually(one.is_leader)
    one.stop()


def test_a_callback_that_fails_does_not_end_the_election() -> None:
    def fail() -> None:
        raise RuntimeError

    store = Flaky()
    one = elector(store, "one", on_started=fail)
    one.start()
    eventually(one.is_leader)
    version = store.version
    eventually(lambda: store.version > version + 2)
    one.stop()


def test_whoever_else_writes_it_the_holder_stops_at_once() -> None:
    store = Flaky()
    one = elector(store, "one")
    one.attempt()
    assert store.lease is not None
    store.lease["spec"]["holderIdentity"] = "usurper"
    one.attempt()
    assert not one.is_leader()
    assert one.holder == "usurper"


def test_what_others_put_into_the_lease_stays() -> None:
    store = Flaky()
    one = elector(store, "one")
    one.attempt()
    assert store.lease is not None
    store.lease["metadata"]["labels"] = {"team": "x"}
    store.lease["spec"]["strategy"] = "OldestEmulationVersion"
    one.attempt()
    assert store.lease["metadata"]["labels"] == {"team": "x"}
    assert store.lease["spec"]["strategy"] == "OldestEmulationVersion"
