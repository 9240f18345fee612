"""What of a LimitRange the API server would not store, or what contradicts itself (Kubernetes 1.36, validation).

Nothing here decides a request: these are lines for the author of the policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from admission.limits.policy import CONTAINER, POD, VOLUME_CLAIM
from admission.objects import LimitRange, LimitRangeItem, Resources
from admission.selectors import is_qualified_name

_STANDARD_TYPES = (CONTAINER, POD, VOLUME_CLAIM)


def lint_limit_range(limit_range: LimitRange) -> list[str]:
    """One line for each thing that is wrong, with the path of the field."""
    items = (limit_range.spec and limit_range.spec.limits) or []
    doubts = []
    for index, item in enumerate(items):
        path = f"spec.limits[{index}]"
        if item.type in [earlier.type for earlier in items[:index]]:
            doubts.append(f"{path}.type: {item.type} stands twice")
        doubts += [f"{path}.{doubt}" for doubt in _item(item)]
    return doubts


def _item(item: LimitRangeItem) -> Iterator[str]:
    if item.type not in _STANDARD_TYPES and ("/" not in item.type or not is_qualified_name(item.type)):
        yield f"type: {item.type} is not a standard limit type and not fully qualified: nothing is limited"
    if item.type == POD and (item.default or item.default_request):
        yield "default: may not be specified when type is Pod"
    if item.type == VOLUME_CLAIM and "storage" not in {**(item.min or {}), **(item.max or {})}:
        yield "limits: a minimum or maximum of storage is required"
    yield from _order(item)
    yield from _ratios(item)


def _order(item: LimitRangeItem) -> Iterator[str]:
    low, high, limit, request = item.min, item.max, item.default, item.default_request
    for lower, lower_name, upper, upper_name, field in (
        (low, "min", high, "max", "min"),
        (low, "min", request, "default request", "defaultRequest"),
        (request, "default request", high, "max", "defaultRequest"),
        (request, "default request", limit, "default limit", "defaultRequest"),
        (low, "min", limit, "default", "default"),
        (limit, "default", high, "max", "default"),
    ):
        for name in _both(lower, upper):
            if (lower or {})[name] > (upper or {})[name]:
                values = (
                    f"{lower_name} value {(lower or {})[name]} is greater than {upper_name} value {(upper or {})[name]}"
                )
                yield f"{field}[{name}]: {values}: what states nothing is refused"


def _ratios(item: LimitRangeItem) -> Iterator[str]:
    for name, ratio in (item.max_limit_request_ratio or {}).items():
        if ratio.nano < 10**9:
            yield f"maxLimitRequestRatio[{name}]: ratio {ratio} is less than 1: every limit is refused"


def _both(left: Resources | None, right: Resources | None) -> list[str]:
    return sorted(set(left or {}) & set(right or {}))
