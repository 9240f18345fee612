"""What throttles cost: finding those of a pod among many, and deciding who of many held pods is released."""

from __future__ import annotations

import json
from typing import Any

from admission.instants import SECOND
from admission.quantity import Quantity
from admission.throttle.amounts import Amount
from admission.throttle.check import ThrottleState, check
from admission.throttle.index import ThrottleIndex
from admission.throttle.objects import decode_cluster_throttle, decode_throttle
from admission.throttle.policy import ThrottleKey, ThrottlePolicy, compile_throttle
from admission.throttle.release import HeldPod, Room, release
from bench.figures import row, spread, time_rounds

THROTTLES, NAMESPACES, HELD = 1000, 50, 10_000
CALLS, ROUNDS = 500, 15
LABELS = {
    "app": "app-7",
    "team": "team-7",
    "pod-template-hash": "7d9c5b8f6",
    "app.kubernetes.io/name": "web",
    "app.kubernetes.io/instance": "web-7",
    "app.kubernetes.io/managed-by": "Helm",
}
NAMESPACE = "ns-7"
NAMESPACE_LABELS = {"kubernetes.io/metadata.name": NAMESPACE, "stage": "production", "team": "team-7"}
LIMIT = {"resourceCounts": {"pod": 100}, "resourceRequests": {"cpu": "100", "memory": "100Gi"}}


def run() -> None:
    """Print the figures."""
    print(f"Selecting the throttles of a pod of {len(LABELS)} labels among {THROTTLES}; goal 50 µs")
    numbers = range(THROTTLES)
    _measure_selection("in 50 namespaces, by label", [_of_app(number) for number in numbers])
    _measure_selection("in one namespace, by label", [_of_app(number * NAMESPACES + 7) for number in numbers])
    mixed = [(_of_team, _of_app)[number % 2](number) for number in numbers]
    _measure_selection("half of them cluster-wide, by label", mixed)
    _measure_selection("cluster-wide, by what they exclude (worst)", [_all_but(number) for number in numbers])
    figures = time_rounds(lambda _: _index(mixed), 1, ROUNDS)
    row("making the index", spread([figure * 1e3 for figure in figures], "ms"))
    _measure_check()
    print(f"Deciding whom of {HELD} held pods to release, each under two of {THROTTLES} throttles; goal 100 ms")
    for name, room in (("nothing is free", 0), ("a tenth fits", 2), ("all fit", HELD)):
        _measure_release(name, room)


def _of_app(number: int) -> ThrottlePolicy:
    """A Throttle in one of the namespaces, about the pods of one of its apps."""
    selector = {"matchLabels": {"app": f"app-{number // NAMESPACES}"}}
    return _compile(number, {"podSelector": selector}, f"ns-{number % NAMESPACES}")


def _of_team(number: int) -> ThrottlePolicy:
    """A ClusterThrottle about the pods of one team in production."""
    namespaces = {"matchLabels": {"stage": "production"}}
    pods = {"matchExpressions": [{"key": "team", "operator": "In", "values": [f"team-{number}", f"team-{number + 1}"]}]}
    return _compile(number, {"namespaceSelector": namespaces, "podSelector": pods})


def _all_but(number: int) -> ThrottlePolicy:
    """A ClusterThrottle about all pods but those of an app; few are about this pod."""
    apps = ["app-7"] if number % 100 else ["app-8"]
    return _compile(
        number, {"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": apps}]}}
    )


def _compile(number: int, term: dict[str, Any], namespace: str = "") -> ThrottlePolicy:
    spec = {"threshold": LIMIT, "selector": {"selectorTerms": [term]}}
    document = {"metadata": {"name": f"t{number}", "namespace": namespace}, "spec": spec}
    decode = decode_throttle if namespace else decode_cluster_throttle
    return compile_throttle(decode(json.dumps(document).encode()))


def _measure_selection(name: str, policies: list[ThrottlePolicy]) -> None:
    index = ThrottleIndex(policies, "")
    found = len(index.affecting(NAMESPACE, LABELS, NAMESPACE_LABELS).policies)
    figures = time_rounds(lambda _: _select(index), CALLS, ROUNDS)
    row(f"{name}: {found} found", spread([figure * 1e6 for figure in figures], "µs"))


def _index(policies: list[ThrottlePolicy]) -> None:
    ThrottleIndex(policies, "")


def _select(index: ThrottleIndex) -> None:
    index.affecting(NAMESPACE, LABELS, NAMESPACE_LABELS)


def _amount(cpu: int, memory: int) -> Amount:
    return Amount(1, {"cpu": Quantity(cpu * 10**6), "memory": Quantity.of_count(memory * 2**20)})


def _measure_check() -> None:
    asked, used = _amount(250, 256), _amount(20_000, 20_000)
    states = [ThrottleState(_of_app(number), used) for number in range(3)]
    figures = time_rounds(lambda _: _check(asked, states), CALLS, ROUNDS)
    row("the check of a pod against three throttles", spread([figure * 1e6 for figure in figures], "µs"))


def _check(asked: Amount, states: list[ThrottleState]) -> None:
    check(asked, states, 0)


def _measure_release(name: str, room: int) -> None:
    """Each throttle has room for so many pods, and 20 pods wait under it."""
    keys = [ThrottleKey(f"ns-{number % NAMESPACES}", f"t{number}") for number in range(THROTTLES)]
    pods = [
        HeldPod(
            f"00000000-0000-4000-8000-{number:012d}",
            number % 7 % 3,
            -number * SECOND,
            _amount(100 + number % 5 * 50, 128),
            (keys[number % THROTTLES], keys[number * 7 % THROTTLES]),
        )
        for number in range(HELD)
    ]
    limit = Amount(50 + room, {"cpu": Quantity.of_count(HELD), "memory": Quantity.of_count(2**50)})
    rooms = {key: Room(limit, Amount(50, {"cpu": Quantity.of_count(10)})) for key in keys}
    released = len(release(pods, rooms, now=0, fair_after=600 * SECOND).released)
    figures = time_rounds(lambda _: _release(pods, rooms), 1, ROUNDS)
    row(f"{name}: {released} released", spread([figure * 1e3 for figure in figures], "ms"))


def _release(pods: list[HeldPod], rooms: dict[ThrottleKey, Room]) -> None:
    release(pods, rooms, now=0, fair_after=600 * SECOND)
