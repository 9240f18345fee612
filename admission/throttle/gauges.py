"""The figures that kube-throttler publishes of a throttle: names, units and help are its own (1.7.4, metrics).

A number of pods that is not limited, or of which nobody makes use, shows as 0; an absent resource is not shown at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from admission.quantity import Quantity
from admission.throttle.amounts import POD, Amount, Flags, read_amount
from admission.throttle.objects import ThrottleStatus
from admission.throttle.policy import ThrottlePolicy
from admission.throttle.status import read_flags

CPU: Final = "cpu"
COUNTS: Final = "resourceCounts"
REQUESTS: Final = "resourceRequests"
HELP: Final = {
    f"spec_threshold_{COUNTS}": "threshold on specific resourceCounts of the throttle",
    f"spec_threshold_{REQUESTS}": "threshold on specific resourceRequests of the throttle",
    f"status_throttled_{COUNTS}": "resourceCounts of the throttle is throttled or not on specific resource "
    "(1=throttled, 0=not throttled)",
    f"status_throttled_{REQUESTS}": "resourceRequests of the throttle is throttled or not on specific resource "
    "(1=throttled, 0=not throttled)",
    f"status_used_{COUNTS}": "used resource counts of the throttle",
    f"status_used_{REQUESTS}": "used amount of resource requests of the throttle",
    f"status_calculated_threshold_{COUNTS}": "calculated threshold on specific resourceCounts of the throttle",
    f"status_calculated_threshold_{REQUESTS}": "calculated threshold on specific resourceRequests of the throttle",
}
"""What comes after `throttle_` or `clusterthrottle_` in the name of a metric -> its help."""


class Figure(NamedTuple):
    """One value: `name` is one of HELP, `resource` the label of that name."""

    name: str
    resource: str
    value: int


def figures(policy: ThrottlePolicy, status: ThrottleStatus) -> Iterator[Figure]:
    """All that is published of a throttle."""
    calculated = status.calculated_threshold
    yield from _amount("spec_threshold", policy.thresholds.base)
    yield from _flags("status_throttled", read_flags(status.throttled))
    yield from _amount("status_used", read_amount(status.used))
    yield from _amount("status_calculated_threshold", read_amount(calculated.threshold if calculated else None))


def _amount(name: str, amount: Amount) -> Iterator[Figure]:
    yield Figure(f"{name}_{COUNTS}", POD, amount.pods or 0)
    for resource, quantity in amount.requests.items():
        yield Figure(f"{name}_{REQUESTS}", resource, _in_base_units(resource, quantity))


def _flags(name: str, flags: Flags) -> Iterator[Figure]:
    yield Figure(f"{name}_{COUNTS}", POD, int(flags.pods))
    for resource, flag in flags.requests.items():
        yield Figure(f"{name}_{REQUESTS}", resource, int(flag))


def _in_base_units(resource: str, quantity: Quantity) -> int:
    """Thousandths of a CPU; of everything else whole units, rounded up."""
    return quantity.milli_value() if resource == CPU else quantity.value()
