"""Amounts: a number of pods and a sum of requests, and how they compare (kube-throttler 1.7.4, ResourceAmount).

Absent and zero are two things. A limit that is absent limits nothing; use that is absent reaches no limit, not even
one of zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from admission.objects import Pod
from admission.pods import scheduler_requests
from admission.quantity import Quantity
from admission.resource_lists import EMPTY, ResourceList, add_into
from admission.throttle.objects import ResourceAmount, ResourceCounts

POD: Final = "pod"
"""The name of the number of pods in texts, metrics and `resourceCounts`."""


class Amount(NamedTuple):
    """A limit, or what is used; `pods` is None where no number is given."""

    pods: int | None = None
    requests: ResourceList = EMPTY


NOTHING: Final = Amount()


def amount_of(pod: Pod) -> Amount:
    """What one pod uses: itself, and what it requests as the scheduler counts it. A request of 0 is kept."""
    return Amount(1, scheduler_requests(pod))


def read_amount(written: ResourceAmount | None) -> Amount:
    """An amount as it is written; `resourceCounts: {}` is a number, 0."""
    if written is None:
        return NOTHING
    counts = written.resource_counts
    return Amount(None if counts is None else counts.pod or 0, written.resource_requests or EMPTY)


def write_amount(amount: Amount) -> ResourceAmount:
    """The amount as it is written."""
    counts = None if amount.pods is None else ResourceCounts(amount.pods)
    return ResourceAmount(counts, dict(amount.requests) or None)


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum; what no amount names stays absent."""
    pods = None
    requests: dict[str, Quantity] = {}
    for amount in amounts:
        if amount.pods is not None:
            pods = amount.pods + (pods or 0)
        add_into(requests, amount.requests)
    return Amount(pods, requests)


class Flags(NamedTuple):
    """What of a limit is reached: exactly its resources, in `requests`."""

    pods: bool
    requests: Mapping[str, bool]


def reached(limit: Amount, used: Amount) -> Flags:
    """What of a limit is used up, to the last bit or beyond it: the flags of `status.throttled`."""
    flags = {}
    for name, most in limit.requests.items():
        amount = used.requests.get(name)
        flags[name] = amount is not None and amount.nano >= most.nano
    return Flags(limit.pods is not None and used.pods is not None and used.pods >= limit.pods, flags)


class Demand(NamedTuple):
    """What a pod asks of a resource that is limited; `used` is None where nobody uses any, not even 0."""

    resource: str
    asked: Quantity
    limit: Quantity
    used: Quantity | None


def demands(amount: Amount, limit: Amount, used: Amount = NOTHING) -> Iterator[Demand]:
    """What of a limit is about a pod: the number of pods always, and the resources that it requests more than 0 of."""
    if amount.pods is not None and limit.pods is not None:
        taken = None if used.pods is None else Quantity.of_count(used.pods)
        yield Demand(POD, Quantity.of_count(amount.pods), Quantity.of_count(limit.pods), taken)
    for name, asked in amount.requests.items():
        most = limit.requests.get(name)
        if most is not None and asked.nano:
            yield Demand(name, asked, most, used.requests.get(name))
