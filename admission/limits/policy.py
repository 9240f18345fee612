"""A LimitRange made ready to judge by, and the defaulting the API server applies to a LimitRange when it is stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from admission.objects import LimitRange, LimitRangeItem, LimitRangeSpec, Resources
from admission.quantity import Quantity

CONTAINER: Final = "Container"
POD: Final = "Pod"
VOLUME_CLAIM: Final = "PersistentVolumeClaim"

Bounds = tuple[tuple[str, Quantity], ...]
"""Pairs of resource name and bound, sorted by name."""


class BoundSet(NamedTuple):
    """The bounds of one item; `kind` is its type as written (`Container`, `Pod`, ...)."""

    kind: str
    minimum: Bounds
    maximum: Bounds
    ratio: Bounds


class LimitPolicy(NamedTuple):
    """What one LimitRange says: what containers get that state nothing, and the bounds in the order of its items."""

    name: str
    default_requests: dict[str, Quantity]
    default_limits: dict[str, Quantity]
    bounds: tuple[BoundSet, ...]

    def sets_defaults(self) -> bool:
        """Whether any container could get anything from it."""
        return bool(self.default_requests or self.default_limits)


def compile_limit_range(limit_range: LimitRange) -> LimitPolicy:
    """The policy of a stored LimitRange. Only items of type Container inject; later items overwrite earlier ones."""
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    bounds = []
    for item in _items(limit_range):
        if item.type == CONTAINER:
            requests.update(item.default_request or {})
            limits.update(item.default or {})
        if item.min or item.max or item.max_limit_request_ratio:
            bounds.append(
                BoundSet(item.type, _sorted(item.min), _sorted(item.max), _sorted(item.max_limit_request_ratio))
            )
    return LimitPolicy(limit_range.metadata.name or "", requests, limits, tuple(bounds))


def with_api_defaults(limit_range: LimitRange) -> LimitRange:
    """The LimitRange as the API server stores it: for type Container a maximum is also the default, and so on.

    Source: Kubernetes 1.36, defaulting of v1 LimitRange. Applying it twice changes nothing.
    """
    items = [_default_item(item) if item.type == CONTAINER else item for item in _items(limit_range)]
    return msgspec.structs.replace(limit_range, spec=LimitRangeSpec(limits=items))


def _default_item(item: LimitRangeItem) -> LimitRangeItem:
    limits = {**(item.max or {}), **(item.default or {})}
    requests = {**(item.min or {}), **limits, **(item.default_request or {})}
    return msgspec.structs.replace(item, default=limits, default_request=requests)


def _items(limit_range: LimitRange) -> Iterable[LimitRangeItem]:
    return (limit_range.spec and limit_range.spec.limits) or ()


def _sorted(bounds: Resources | None) -> Bounds:
    return tuple(sorted((bounds or {}).items()))
