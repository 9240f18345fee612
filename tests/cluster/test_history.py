"""The judge of the chaos runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.history import History

Json = dict[str, Any]


class Store:
    """Makes changes in their order, and lets time pass."""

    def __init__(self) -> None:
        self.history = History(["ns"], grace=10.0)
        self.now = 100.0
        self._revision = 0

    def change(self, key: str, value: Json | None) -> None:
        self._revision += 1
        self.history.take(key, value, self._revision, self.now)

    def quota(self, pods: int) -> None:
        self.change("/registry/resourcequotas/ns/q", {"metadata": {}, "status": {"hard": {"pods": str(pods)}}})

    def pod(self, name: str, namespace: str = "ns", phase: str = "Pending", **meta: Any) -> None:
        value = {"metadata": meta, "spec": {"containers": [{}]}, "status": {"phase": phase}}
        self.change(f"/registry/pods/{namespace}/{name}", value)

    def gone(self, name: str) -> None:
        self.change(f"/registry/pods/ns/{name}", None)

    @property
    def breaches(self) -> list[tuple[int, int]]:
        return [(one.was // 1000, one.hard // 1000) for one in self.history.breaches]


@pytest.fixture
def store() -> Store:
    return Store()


def test_what_fits_is_no_breach_and_the_next_is_one(store: Store) -> None:
    store.quota(2)
    store.pod("a")
    store.pod("b")
    assert store.breaches == []
    store.pod("c")
    assert store.breaches == [(3, 2)]


@pytest.mark.parametrize("end", ["deleted", "finished", "about to be gone"])
def test_who_has_ended_makes_room(store: Store, end: str) -> None:
    store.quota(1)
    store.pod("a")
    if end == "deleted":
        store.gone("a")
    elif end == "finished":
        store.pod("a", phase="Failed")
    else:
        store.pod("a", deletionTimestamp="2020-01-01T00:00:00Z", deletionGracePeriodSeconds=0)
    store.pod("b")
    assert store.breaches == []
    assert store.history.live("ns") == 1


def test_a_pod_that_only_changes_is_counted_once(store: Store) -> None:
    store.quota(1)
    store.pod("a")
    store.pod("a", phase="Running")
    assert store.history.live("ns") == store.history.created == 1
    assert store.breaches == []


def test_a_lowered_quota_breaks_nothing_that_is_there(store: Store) -> None:
    store.quota(3)
    for name in "abc":
        store.pod(name)
    store.quota(1)
    store.now += 20
    store.gone("a")
    assert store.breaches == []


def test_after_a_quota_was_lowered_what_was_under_way_may_arrive_and_no_more(store: Store) -> None:
    store.quota(3)
    store.pod("a")
    store.quota(1)
    store.now += 5
    store.pod("b")
    assert store.breaches == []
    store.now += 6
    store.pod("c")
    assert store.breaches == [(3, 1)]


def test_a_raised_quota_holds_at_once(store: Store) -> None:
    store.quota(1)
    store.quota(2)
    store.pod("a")
    store.pod("b")
    assert store.breaches == []


def test_other_namespaces_are_left_alone(store: Store) -> None:
    store.quota(0)
    store.pod("a", namespace="other")
    assert store.history.created == 0
    assert store.breaches == []
