"""What a chaos run does, and what comes out of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.cluster.history import STORED_AS_JSON, thousandths
from tests.cluster.plane import QUOTA_CONTROLLER, Answer, Json, Variant
from tests.cluster.recreating import WEBHOOK

CPU = 100  # thousandths that each pod requests
EXCEEDED = "exceeded quota"


@dataclass(frozen=True)
class Plan:
    """What is done, and to whom."""

    seconds: float = 300.0
    clients: int = 32
    namespaces: int = 5
    hold: int = 300
    quotas: tuple[str, ...] = ("compute", "count")
    servers: int = 3
    controllers: int = 2
    kill_every: float = 1.0
    kill_controller_every: float = 20.0
    down_for: float = 1.0
    api_restarts: int = 2
    resizes: bool = True
    quiet: float = 90.0
    grace: float = 15.0
    quota_controller: bool = False
    built_in: bool = False
    config: str = "quota: {accounting: webhook}\n"
    seed: int = 1
    prefix: str = "chaos"

    @property
    def variant(self) -> Variant:
        """The control plane that it takes."""
        return Variant(
            plugins=self.built_in,
            controllers=QUOTA_CONTROLLER if self.quota_controller else (),
            api_server_flags=(STORED_AS_JSON,),
        )

    def hard(self, hold: int) -> dict[str, dict[str, str]]:
        """The limits of each quota, by its name; each has room for so many pods."""
        every = {"compute": {"requests.cpu": f"{hold * CPU}m"}, "count": {"pods": str(hold)}}
        return {name: every[name] for name in self.quotas}

    @property
    def names(self) -> list[str]:
        """The namespaces."""
        return [f"{self.prefix}-{number}" for number in range(self.namespaces)]


@dataclass
class Report:
    """What came out."""

    plan: Plan
    answers: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    rows: list[tuple[str, str]] = field(default_factory=list)

    def text(self) -> str:
        """A small table, and what is wrong."""
        who = "the built-in plugins" if self.plan.built_in else "our webhooks"
        head = f"{who}, quota controller {'on' if self.plan.quota_controller else 'off'}, {self.plan.seconds:.0f} s"
        counts = [(f"answers: {name}", str(count)) for name, count in sorted(self.answers.items())]
        counts += [(name, str(count)) for name, count in sorted(self.events.items())]
        table = [f"  {name:<52} {value}" for name, value in counts + self.rows]
        verdict = [f"  BROKEN: {problem}" for problem in self.problems] or ["  all invariants hold"]
        return "\n".join([head, *table, *verdict])


def pod(name: str) -> Json:
    requests = {"cpu": f"{CPU}m", "memory": "1Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]},
    }


def kind_of(answer: Answer) -> str:
    """The answer to a creation in a word."""
    if answer.status == 201:
        return "created"
    if answer.status == 403 and EXCEEDED in answer.message:
        return "no room"
    if answer.status == 403:
        return "refused, other reason: " + answer.message.partition(WEBHOOK)[2][:60]
    return f"{answer.status} " + answer.message.partition(":")[0][:60]


def same_amounts(found: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether two lists of amounts are equal as numbers."""
    return {key: thousandths(value) for key, value in found.items()} == {
        key: thousandths(value) for key, value in wanted.items()
    }
