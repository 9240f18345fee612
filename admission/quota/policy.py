"""A ResourceQuota made ready to judge by, and its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from admission.objects import ResourceQuota
from admission.quantity import Quantity
from admission.quota.must_specify import Duty, duties
from admission.quota.names import RESOURCE_CLAIMS, DeviceClasses, answers
from admission.quota.observed import Facts
from admission.quota.scopes import Scope, scopes_of
from admission.resource_lists import ResourceList


class KindNames(NamedTuple):
    """The names of a quota that one kind of object answers to, and those of them that containers must state."""

    names: tuple[str, ...]
    required: tuple[Duty, ...]


class QuotaPolicy:
    """What a quota limits, for whom. Limits are those of `status.hard`, scopes those of `spec`."""

    __slots__ = ("_by_kind", "hard", "name", "scopes")

    def __init__(self, name: str, hard: Mapping[str, Quantity], scopes: tuple[Scope, ...] = ()) -> None:
        self.name = name
        self.hard = dict(hard)
        self.scopes = scopes
        self._by_kind: dict[str, KindNames] = {}

    def names_for(self, kind: str, devices: DeviceClasses) -> KindNames:
        """The names in `hard` that objects of this kind answer to, sorted."""
        if kind == RESOURCE_CLAIMS:  # depends on the DeviceClasses of the moment
            return self._select(kind, devices)
        known = self._by_kind.get(kind)
        if known is None:
            known = self._by_kind[kind] = self._select(kind, devices)
        return known

    def _select(self, kind: str, devices: DeviceClasses) -> KindNames:
        names = tuple(sorted(name for name in self.hard if answers(kind, name, devices)))
        return KindNames(names, duties(names))

    def applies_to(self, facts: Facts | None) -> bool:
        """Whether all scopes match."""
        return not self.scopes or all(scope.matches(facts) for scope in self.scopes)


class QuotaState(NamedTuple):
    """A quota and what is used of it. A name that is missing in `used` is not known yet."""

    policy: QuotaPolicy
    used: ResourceList


def compile_quota(quota: ResourceQuota) -> QuotaState:
    """The state of a stored quota. One whose status says nothing yet limits nothing; one without a status, its spec."""
    status, spec = quota.status, quota.spec
    hard = (spec and spec.hard) if status is None else status.hard
    policy = QuotaPolicy(quota.metadata.name or "", hard or {}, scopes_of(spec))
    return QuotaState(policy, (status and status.used) or {})
