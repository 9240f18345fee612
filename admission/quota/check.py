"""The check of one request against the quotas of its namespace (Kubernetes 1.36, ResourceQuota, CheckRequest).

Pure: it takes the quotas as they stand and says what the request would add to each, or raises Denied. Who calls it
keeps the count (see `admission.ledger`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from admission.errors import Denied
from admission.objects import Pod
from admission.quantity import ZERO
from admission.quota.must_specify import describe, unstated
from admission.quota.names import DeviceClasses
from admission.quota.observed import Facts
from admission.quota.policy import QuotaPolicy, QuotaState
from admission.quota.scopes import Scope, matching
from admission.resource_lists import ResourceList, growth, pretty, restricted

NO_PREVIOUS_USE: Final = "unable to get previous usage since prior version of object was not found"


@dataclass(frozen=True)
class LimitedResource:
    """Something that may be used only where a quota covers it (`limitedResources` of the configuration)."""

    kind: str
    match_contains: tuple[str, ...] = ()
    match_scopes: tuple[Scope, ...] = ()


class Use(NamedTuple):
    """What an object uses, and what decides its scopes."""

    usage: ResourceList
    facts: Facts | None


class QuotaRequest(NamedTuple):
    """A request as quotas see it.

    `old` is the object before an update, None at creation; `old_is_missing` where an update came without it. `pod` is
    the new object where it is a pod, for the duty to state what is limited. `enforced` is False for
    `persistentvolumeclaims/status`, which is charged beyond the limit.
    """

    kind: str
    new: Use
    old: Use | None = None
    pod: Pod | None = None
    enforced: bool = True
    old_is_missing: bool = False


class Charge(NamedTuple):
    """What a request adds to one quota: never negative, only names of its `hard`; `used` is what is used after it."""

    policy: QuotaPolicy
    amounts: ResourceList
    used: ResourceList


class _Interest(NamedTuple):
    """A quota that the request must fit in."""

    state: QuotaState
    names: tuple[str, ...]


def check(
    request: QuotaRequest,
    quotas: Sequence[QuotaState],
    *,
    limited: Sequence[LimitedResource] = (),
    devices: DeviceClasses | None = None,
    held: Mapping[str, ResourceList] | None = None,
) -> list[Charge]:
    """What the request adds to each quota, in their order (by name); raises Denied.

    `held` says, for an object the ledger knows, what `used` of a quota already holds for it (quota name -> amounts);
    for others that is what the old object uses.
    """
    if not quotas and not limited:
        return []
    interests = [interest for state in quotas if (interest := _interest(state, request, devices or {})) is not None]
    _refuse_negative(request.new.usage)
    if request.old_is_missing:
        raise Denied(NO_PREVIOUS_USE, reason="no-previous-use")
    delta = growth(request.new.usage, request.old.usage) if request.old else _positive(request.new.usage)
    if not _adds_anything(request, interests, delta):
        return []
    if limited:
        _refuse_uncovered(request, limited, quotas, interests)
    return [
        charge
        for interest in interests
        if (charge := _fit(interest.state, request, delta, (held or {}).get(interest.state.policy.name))) is not None
    ]


def _interest(state: QuotaState, request: QuotaRequest, devices: DeviceClasses) -> _Interest | None:
    policy = state.policy
    names, required = policy.names_for(request.kind, devices)
    if not names or not policy.applies_to(request.new.facts):
        return None
    if required and request.pod is not None:
        missing = unstated(request.pod, required)
        if missing:
            raise Denied(
                f"failed quota: {policy.name}: {describe(missing)}",
                reason="must-specify",
                hints=[_must_specify_hint(policy.name, name, containers) for name, containers in missing.items()],
            )
    if any(name not in state.used for name in names):
        raise Denied(
            f"status unknown for quota: {policy.name}, resources: {','.join(names)}",
            reason="status-unknown",
            hints=[f'quota "{policy.name}": what is used is not counted yet; try again in a moment'],
        )
    return _Interest(state, names)


def _refuse_negative(usage: ResourceList) -> None:
    negative = [name for name, amount in usage.items() if amount.nano < 0]
    if negative:
        text = f"quota usage is negative for resource(s): {','.join(sorted(negative))}"
        raise Denied(text, reason="negative-usage")


def _positive(usage: ResourceList) -> ResourceList:
    return {name: amount for name, amount in usage.items() if amount.nano}


def _moved_in(state: QuotaState, request: QuotaRequest) -> bool:
    """Whether an update brings the object into the quota's scopes: then it is charged like a new one."""
    return request.old is not None and not state.policy.applies_to(request.old.facts)


def _adds_anything(request: QuotaRequest, interests: Sequence[_Interest], delta: ResourceList) -> bool:
    if delta or request.old is None:
        return bool(delta)
    return any(_moved_in(interest.state, request) for interest in interests) and bool(_positive(request.new.usage))


def _refuse_uncovered(
    request: QuotaRequest,
    limited: Sequence[LimitedResource],
    quotas: Sequence[QuotaState],
    interests: Sequence[_Interest],
) -> None:
    covered = {name for interest in interests for name in interest.names}
    needed = {
        name
        for entry in limited
        if entry.kind == request.kind
        for name, amount in request.new.usage.items()
        if amount.nano > 0 and any(part in name for part in entry.match_contains)
    }
    if needed - covered:
        raise Denied(
            f"insufficient quota to consume: {','.join(sorted(needed - covered))}",
            reason="uncovered",
            hints=["these resources may be used only in namespaces that have a quota for them"],
        )
    scopes = [scope for entry in limited for scope in matching(entry.match_scopes, request.new.facts)]
    if not scopes:
        return
    restricted_scopes = {scope.name for state in quotas for scope in matching(state.policy.scopes, request.new.facts)}
    uncovered = [scope for scope in scopes if scope.name not in restricted_scopes]
    if uncovered:
        raise Denied(
            f"insufficient quota to match these scopes: [{' '.join(map(str, uncovered))}]",
            reason="uncovered",
            hints=["such pods may be created only in namespaces that have a quota with this scope"],
        )


def _fit(state: QuotaState, request: QuotaRequest, delta: ResourceList, held: ResourceList | None) -> Charge | None:
    policy, used = state
    if held is not None:
        added: ResourceList = growth(request.new.usage, held)
    elif _moved_in(state, request):
        added = _positive(request.new.usage)
    else:
        added = delta
    requested, after, exceeded = {}, {}, []
    for name, amount in added.items():
        hard = policy.hard.get(name)
        if hard is None:
            continue
        before = used.get(name)
        total = amount if before is None else before + amount
        requested[name], after[name] = amount, total
        if total.nano > hard.nano:
            exceeded.append(name)
    if exceeded and request.enforced:
        raise _exceeded(state, requested, exceeded)
    return Charge(policy, requested, after) if requested else None


def _exceeded(state: QuotaState, requested: ResourceList, names: Sequence[str]) -> Denied:
    policy, used = state
    return Denied(
        f"exceeded quota: {policy.name}, requested: {pretty(restricted(requested, names))}, "
        f"used: {pretty(restricted(used, names))}, limited: {pretty(restricted(policy.hard, names))}",
        reason="exceeded-quota",
        hints=[_shortage_hint(state, name, requested) for name in sorted(names)],
    )


def _shortage_hint(state: QuotaState, name: str, requested: ResourceList) -> str:
    hard = state.policy.hard[name]
    free = hard - state.used.get(name, ZERO)
    short = requested[name] - free
    left = f"{free} of {hard} left" if free.nano > 0 else f"nothing left of {hard}"
    return f'quota "{state.policy.name}": {name} is short by {short} ({left})'


def _must_specify_hint(quota: str, name: str, containers: Sequence[str]) -> str:
    path = f"resources.{name}" if "." in name else f"resources.requests.{name}"
    listed = ", ".join(f'"{container}"' for container in containers)
    return f'quota "{quota}" limits {name}: set {path} in {listed}, or give the namespace a LimitRange with defaults'
