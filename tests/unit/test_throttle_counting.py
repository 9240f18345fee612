"""Which pods count. Cases U2, U5, U9, U10 and U12 of kube-throttler, with what is decided anew (rows 3, 4, 5, 23)."""

from __future__ import annotations

from typing import Any

import pytest

from admission.objects import Pod, labels_of
from admission.selectors import SelectorError
from admission.throttle.counting import Throttler, used_of
from admission.throttle.policy import ThrottleKey
from tests.unit.helpers import pod, table
from tests.unit.throttles import THROTTLER, policy, shown

EVERY = Throttler(THROTTLER)
MINE = Throttler(THROTTLER, frozenset(("my-scheduler", "another")))
GATE = EVERY.gate
CLUSTER = ThrottleKey("", "ct1")


def placed(cpu: str, phase: str = "Running", *, label: str = "t1", namespace: str = "default", **spec: Any) -> Pod:
    line = f"a: cpu {cpu}/-" if cpu else "a"
    metadata = {"namespace": namespace, "labels": {"throttle": label}}
    return pod(line, metadata=metadata, spec=spec, status={"phase": phase} if phase else {})


def gated(*gates: str) -> dict[str, Any]:
    return {"schedulingGates": [{"name": gate} for gate in gates]}


# phase | spec | counts
STATES = """
Running   |             | yes
Pending   |             | yes
Unknown   |             | yes
          |             | yes
Succeeded |             | no
Failed    |             | no
Pending   | ours        | no
Pending   | ours theirs | no
Pending   | theirs      | yes
Failed    | ours        | no
"""


@pytest.mark.parametrize(("phase", "gates", "counts"), table(STATES))
def test_row_3_a_pod_counts_from_its_release_to_its_end_bound_or_not(phase, gates, counts):
    names = {"ours": GATE, "theirs": "example.com/gate"}
    one = placed("1", phase, **gated(*(names[gate] for gate in gates.split())))
    assert EVERY.counts(one) is (counts == "yes")


def test_row_23_a_pod_that_is_being_deleted_counts_until_it_is_gone():
    dying = pod("a", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}, status={"phase": "Running"})
    assert EVERY.counts(dying)


def test_row_5_without_names_every_scheduler_is_ours_and_else_those_that_are_listed():
    for name, counts in (("my-scheduler", True), ("another", True), ("default-scheduler", False), (None, False)):
        one = placed("1", schedulerName=name)
        assert (MINE.counts(one), EVERY.counts(one)) == (counts, True)
    assert Throttler(THROTTLER, frozenset(("default-scheduler",))).includes(placed("1"))


def test_row_12_each_throttler_has_a_gate_of_its_own():
    assert GATE == "quota-admission.dev/kube-throttler"
    assert not Throttler("b").holds(placed("1", **gated(Throttler("a").gate)))


@pytest.mark.parametrize(
    ("gates", "held", "last"),
    [((), False, False), ((GATE,), True, True), ((GATE, "x/y"), True, False), (("x/y",), False, False)],
)
def test_row_13_a_release_is_decided_when_ours_is_the_last_gate(gates, held, last):
    one = placed("1", **gated(*gates))
    assert (EVERY.holds(one), EVERY.alone_holds(one)) == (held, last)


def u2() -> list[Pod]:
    bound = {"nodeName": "node", "schedulerName": "my-scheduler"}
    return [
        placed("200m", **bound),
        placed("100m", "Pending", **bound),
        placed("100m", "Pending", schedulerName="my-scheduler"),
        placed("100m", "Succeeded", **bound),
        placed("100m", "Failed", **bound),
        placed("100m", nodeName="node", schedulerName="third"),
        placed("100m", label="t2", **bound),
        placed("", "Unknown", **bound),
    ]


def test_u2_rows_3_and_5_what_is_used_is_the_sum_over_the_pods_that_count_and_match():
    t1 = policy("pod=3 cpu=300m memory=1Gi", "throttle=t1")
    assert shown(used_of(t1, u2(), {}, MINE)) == "pod=4 cpu=400m"
    assert shown(used_of(t1, u2(), {}, EVERY)) == "pod=5 cpu=500m"


def test_u5_without_a_selector_nothing_is_used():
    assert shown(used_of(policy("pod=1"), u2(), {}, EVERY)) == "-"


def test_u9_many_small_pods_are_summed_exactly():
    assert shown(used_of(policy("cpu=1", "all"), [placed("50m")] * 20, {}, EVERY)) == "pod=20 cpu=1"


def test_u10_a_cluster_throttle_counts_the_namespaces_that_it_selects():
    labels = {f"ns{number}": {"team": "a" if number % 2 else "b"} for number in range(10)}
    pods = [placed("1m", namespace=f"ns{number % 10}") for number in range(200)]
    for number in range(50):
        one = policy("pod=100 cpu=100m", "team=a / -", key=ThrottleKey("", f"ct{number}"))
        assert shown(used_of(one, pods, labels, EVERY)) == "pod=100 cpu=100m"


def test_u12_when_all_pods_have_finished_nothing_is_used_not_zero():
    finished = [placed("200m", "Succeeded"), placed("100m", "Failed")]
    assert shown(used_of(policy("pod=3", "all"), finished, {}, EVERY)) == "-"


def test_row_4_a_pod_older_than_everything_counts_like_any_other():
    old = pod("a: cpu 1/-", metadata={"namespace": "default", "creationTimestamp": "1970-01-01T00:00:00Z"})
    assert shown(used_of(policy("pod=0", "all"), [old], {}, EVERY)) == "pod=1 cpu=1"


def test_what_cannot_be_told_is_not_counted_as_nothing():
    with pytest.raises(SelectorError):
        used_of(policy("pod=1", "a Bogus"), u2(), {}, EVERY)
    with pytest.raises(SelectorError, match='namespace "default"'):
        used_of(policy("pod=1", "all", key=CLUSTER), u2(), {}, EVERY)
    assert shown(used_of(policy("pod=1", "a Bogus"), [placed("1", "Failed")], {}, EVERY)) == "-"


def test_a_label_that_is_null_is_empty():
    assert labels_of(pod("a", metadata={"labels": {"a": None, "b": "1"}}).metadata) == {"a": "", "b": "1"}
    assert labels_of(pod("a").metadata) == labels_of(None) == {}
