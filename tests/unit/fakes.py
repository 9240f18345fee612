"""The ports of the pipeline, kept in memory: no concurrency, no storage, no recount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from admission.ledger import Application, Identity
from admission.limits import LimitPolicy
from admission.objects import AdmissionReview
from admission.pipeline import Answer, Pipeline
from admission.quota.check import Charge, LimitedResource, check
from admission.quota.observe import Surroundings
from admission.quota.observed import Observed
from admission.quota.policy import QuotaState
from admission.resource_lists import ResourceList
from tests.unit.helpers import Json, printed, review


class Namespace:
    """One namespace with its policies; answers for both ports, and is played like a cluster."""

    def __init__(
        self,
        *,
        limits: Sequence[LimitPolicy] = (),
        quotas: Sequence[QuotaState] = (),
        limited: Sequence[LimitedResource] = (),
        devices: Mapping[str, str] | None = None,
        name: str = "ns",
        now: float = 0.0,
    ) -> None:
        self.name = name
        self.now = now
        self.limits = sorted(limits, key=lambda policy: policy.name)
        self.quotas = sorted(quotas, key=lambda state: state.policy.name)
        self.limited = limited
        self.devices = devices or {}
        self.ledger = FakeLedger(self)
        self.pipeline = Pipeline(self, self.ledger)

    def limit_policies(self, namespace: str) -> Sequence[LimitPolicy]:
        return self.limits if namespace == self.name else ()

    def mutate(self, asked: AdmissionReview) -> Answer:
        return self.pipeline.mutate(asked, now=self.now, deadline=0.0)

    def validate(self, asked: AdmissionReview) -> Answer:
        return self.pipeline.validate(asked, now=self.now, deadline=0.0)

    def ask(self, operation: str, kind: str, new: Json | None, old: Json | None = None, **more: Any) -> str:
        """`admitted`, or the text of the refusal at the validating stage."""
        answer = self.validate(review(operation, kind, new, old, **more))
        return "admitted" if answer.allowed else answer.message

    def used(self) -> dict[str, dict[str, str]]:
        """What is used of each quota, as printed."""
        return {state.policy.name: printed(state.used) for state in self.quotas}


@dataclass
class FakeLedger:
    """Judges by `admission.quota.check`, and keeps what was charged in a dict."""

    namespace: Namespace
    writes: list[str] = field(default_factory=list)
    renewed: list[tuple[Identity, Observed, Observed | None]] = field(default_factory=list)
    released: list[tuple[Identity, Observed]] = field(default_factory=list)
    applications: list[Application] = field(default_factory=list)

    def surroundings(self, _namespace: str) -> Surroundings:
        return Surroundings(self.namespace.devices)

    def reserve(self, application: Application) -> Sequence[Charge]:
        self.applications.append(application)
        world = self.namespace
        quotas = world.quotas if application.identity.namespace == world.name else []
        charges = check(application.quota_request(), quotas, limited=world.limited, devices=world.devices)
        if not application.dry_run:
            for charge in charges:
                self._write(charge)
        return charges

    def _write(self, charge: Charge) -> None:
        for index, state in enumerate(self.namespace.quotas):
            if state.policy is charge.policy:
                used: ResourceList = {**state.used, **charge.used}
                self.namespace.quotas[index] = QuotaState(charge.policy, used)
                self.writes.append(charge.policy.name)

    def renew(self, identity: Identity, new: Observed, old: Observed | None, deadline: float) -> None:
        self.renewed.append((identity, new, old))

    def release(self, identity: Identity, old: Observed, deadline: float) -> None:
        self.released.append((identity, old))
