"""What kube-throttler's own functions decided (see data/README.md)."""

from __future__ import annotations

import json

import pytest

from admission.instants import SECOND, parse_instant
from admission.objects import decode_pod, labels_of
from admission.throttle.amounts import Amount, amount_of, total, write_amount
from admission.throttle.check import Outcome, ThrottleState, check
from admission.throttle.counting import Throttler, used_of
from admission.throttle.index import ThrottleIndex
from admission.throttle.policy import compile_throttle
from admission.throttle.status import next_status
from tests.unit.helpers import Json, encoded
from tests.unit.throttles import THROTTLER, as_json, read_amount_json, read_throttle
from tests.vectors.replaying import THOUSANDTHS, report, vectors

TEN = '"cpu": "10"'


@pytest.fixture(scope="module")
def recorded() -> list[Json]:
    return vectors("throttle")


def test_every_vector_is_there_once(recorded):
    assert len(recorded) == len({vector["name"] for vector in recorded}) == 2000


class Played:
    """One vector, as our side decides it."""

    def __init__(self, vector: Json) -> None:
        self.policy = compile_throttle(read_throttle(vector["throttle"]))
        self.now = parse_instant(vector["now"])
        self.pod = decode_pod(encoded(vector["pod"]))
        name = vector["namespace"]["metadata"]["name"]
        self.labels = {name: vector["namespace"]["metadata"].get("labels", {})}
        self.affected = ThrottleIndex([self.policy], THROTTLER).affecting(
            name, labels_of(self.pod.metadata), self.labels[name]
        )
        counted = [decode_pod(encoded(pod)) for pod in vector["countedPods"]]
        self.used = used_of(self.policy, counted, self.labels, Throttler(THROTTLER))
        self.reserved = read_amount_json(vector["reserved"])

    def outcome(self) -> str:
        if not self.affected.policies:
            return Outcome.NOT_AFFECTED
        state = ThrottleState(self.policy, total((self.used, self.reserved)))
        (verdict,) = check(amount_of(self.pod), [state], self.now)
        return verdict.outcome

    def found(self) -> Json:
        wake_up = self.policy.thresholds.wake_up(self.now)
        return {
            "matches": bool(self.affected.policies),
            "amountOfPod": written(amount_of(self.pod)),
            "used": written(self.used),
            "limit": written(self.policy.limit(self.now)),
            "messages": [contract(text) for text in self.policy.thresholds.messages],
            "throttled": as_json(next_status(self.policy, self.used, self.now, None).throttled),
            "nextWakeUpSeconds": None if wake_up is None else wake_up / SECOND,
            "outcome": self.outcome(),
        }


def written(amount: Amount) -> Json:
    return as_json(write_amount(amount))


def contract(text: str) -> str:
    """A message up to its second colon."""
    return ":".join(text.split(":", 2)[:2])


def expected(vector: Json) -> Json:
    """What was recorded, thousandths written as such.

    Where a pod requests cpu `10`, the original was given `1e1`, which the manifest does not show: its sums print with
    an exponent (`10500e-3`), and a true 10 prints `10500m`.
    """
    written = json.dumps(vector["expect"])
    return json.loads(THOUSANDTHS.sub(r"\1m", written)) if TEN in json.dumps(vector) else vector["expect"]


def differences(vector: Json) -> list[str]:
    found = Played(vector).found()
    return [f"{key}: {found[key]}, recorded: {value}" for key, value in expected(vector).items() if found[key] != value]


def test_every_recorded_check_is_decided_as_kube_throttler_did(recorded):
    failed = {vector["name"]: found for vector in recorded if (found := differences(vector))}
    assert not failed, report(failed, len(recorded))


def test_nothing_but_the_exponent_of_ten_is_read_otherwise_than_recorded(recorded):
    read_otherwise = [vector for vector in recorded if expected(vector) != vector["expect"]]
    assert len(read_otherwise) == 72
    assert sum(len(THOUSANDTHS.findall(json.dumps(vector["expect"]))) for vector in read_otherwise) == 72


@pytest.mark.parametrize(
    "key", ["matches", "amountOfPod", "used", "limit", "messages", "throttled", "nextWakeUpSeconds", "outcome"]
)
def test_a_wrong_record_would_be_seen(recorded, key):
    for vector in recorded[:10]:
        assert len(differences({**vector, "expect": {**vector["expect"], key: "something else"}})) == 1
