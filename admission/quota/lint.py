"""What of a ResourceQuota limits nothing, or cannot be meant (Kubernetes 1.36, ResourceQuota).

Nothing here decides a request: these are lines for the author of the policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from admission.objects import ResourceQuota
from admission.quota.names import PODS, VOLUME_CLAIMS, kinds_named
from admission.quota.scopes import VOLUME_ATTRIBUTES_CLASS, scopes_of


def lint_quota(quota: ResourceQuota) -> list[str]:
    """One line for each thing that is wrong, with the path of the field."""
    return [*_hard(quota), *_status(quota), *_scopes(quota)]


def _hard(quota: ResourceQuota) -> Iterator[str]:
    for name, amount in sorted(((quota.spec and quota.spec.hard) or {}).items()):
        # The DeviceClasses are not known here: a name that they would decide is also a name of pods.
        if not kinds_named(name, {}):
            yield f"spec.hard[{name}]: no kind of object uses this name: it limits nothing"
        if amount.nano < 0:
            yield f"spec.hard[{name}]: {amount} is negative"


def _status(quota: ResourceQuota) -> Iterator[str]:
    wanted = (quota.spec and quota.spec.hard) or {}
    in_force = quota.status and quota.status.hard
    if in_force is not None and in_force != wanted:
        yield "status.hard differs from spec.hard: what is enforced is status.hard"


def _scopes(quota: ResourceQuota) -> Iterator[str]:
    scopes = scopes_of(quota.spec)
    yield from (f"spec: {problem}" for scope in scopes if (problem := scope.problem()))
    for name in sorted((quota.spec and quota.spec.hard) or {}) if scopes else ():
        kinds = kinds_named(name, {})
        if kinds and not any(_can_match(kind, {scope.name for scope in scopes}) for kind in kinds):
            yield f"spec.hard[{name}]: its objects are in none of the quota's scopes: it limits nothing"


def _can_match(kind: str, scopes: set[str]) -> bool:
    if kind == VOLUME_CLAIMS:
        return scopes == {VOLUME_ATTRIBUTES_CLASS}
    return kind == PODS and VOLUME_ATTRIBUTES_CLASS not in scopes
