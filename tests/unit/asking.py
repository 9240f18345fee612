"""Requests to the check of quotas, by usage alone or by a pod."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from admission.errors import Denied
from admission.quota.check import Charge, LimitedResource, QuotaRequest, Use, check
from admission.quota.observed import PodFacts, VolumeClaimFacts
from admission.quota.policy import QuotaState
from admission.quota.usage import observe_pod
from tests.unit.helpers import amounts, pod, printed, scope

NO_FACTS = PodFacts()


def request(
    new: str,
    old: str | None = None,
    *,
    kind: str = "pods",
    facts: PodFacts | VolumeClaimFacts | None = NO_FACTS,
    old_facts: PodFacts | VolumeClaimFacts | None = NO_FACTS,
    enforced: bool = True,
) -> QuotaRequest:
    """A request by usage alone."""
    before = None if old is None else Use(amounts(old), old_facts)
    return QuotaRequest(kind, Use(amounts(new), facts), before, enforced=enforced)


def pod_request(line: str) -> QuotaRequest:
    stated = pod(line)
    observed = observe_pod(stated)
    return QuotaRequest("pods", Use(observed.usage, observed.facts), pod=stated)


def refusal(asked: QuotaRequest, *quotas: QuotaState, limited: Sequence[LimitedResource] = ()) -> tuple[str, str]:
    with pytest.raises(Denied) as caught:
        check(asked, quotas, limited=limited)
    return caught.value.message, caught.value.reason


def charged(charges: Sequence[Charge]) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    return {charge.policy.name: (printed(charge.amounts), printed(charge.used)) for charge in charges}


def limited(contains: str = "", scopes: Sequence[str] = (), kind: str = "pods") -> LimitedResource:
    return LimitedResource(kind, tuple(contains.split()), tuple(scope(line) for line in scopes))
