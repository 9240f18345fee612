"""The ledger: who keeps the count of what quotas hold, and by which rules.

The rules, whatever the ledger is made of:

* The key is the UID of the object: a call that comes again for the same object overwrites, it never adds.
* Amounts are absolute: an entry says what the object uses after the operation, and what of that was counted for it
  before (`held`). What a request adds is the difference, never less than nothing.
* Nothing is lowered at admission. Only a recount of what exists lowers what is used.
* A dry run is judged, and leaves nothing behind.
* What was refused leaves nothing behind.
* What was admitted is on record before the answer leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from admission.objects import Pod
from admission.quota.check import Charge, QuotaRequest, Use
from admission.quota.observe import Surroundings
from admission.quota.observed import Observed
from admission.quota.policy import QuotaPolicy
from admission.resource_lists import EMPTY, ResourceList


class Identity(NamedTuple):
    """One object. Where the caller gave no UID, `uid` stands for it and `has_uid` is False: the name must do then."""

    namespace: str
    kind: str
    name: str
    uid: str
    has_uid: bool = True


class Application(NamedTuple):
    """A request for room in the quotas of a namespace.

    `old` is None at creation, and `old_is_missing` where an update came without it. `deadline` is a time of the
    monotonic clock, `now` one of the wall clock, in seconds. `version` is the resourceVersion of the object that an
    update was judged on, empty at creation.
    """

    identity: Identity
    new: Observed
    old: Observed | None
    pod: Pod | None
    dry_run: bool
    now: float
    deadline: float
    enforced: bool = True
    old_is_missing: bool = False
    version: str = ""

    def quota_request(self) -> QuotaRequest:
        """The request as the check sees it."""
        return QuotaRequest(
            kind=self.identity.kind,
            new=use_of(self.new, self.now),
            old=use_of(self.old, self.now) if self.old else None,
            pod=self.pod,
            enforced=self.enforced,
            old_is_missing=self.old_is_missing,
        )


class Ledger(Protocol):
    """Keeps count of what the objects of a namespace use."""

    def surroundings(self, namespace: str) -> Surroundings:
        """What decides an object's usage beside the object itself."""

    def reserve(self, application: Application) -> Sequence[Charge]:
        """Judge and record in one step; raises Denied. What is returned is on record."""

    def renew(self, identity: Identity, new: Observed, old: Observed | None, deadline: float) -> None:
        """Take note of a change that quotas do not judge."""

    def release(self, identity: Identity, old: Observed, deadline: float) -> None:
        """Take note that an object is being deleted."""


def use_of(observed: Observed, now: float) -> Use:
    """What an object uses at a time."""
    return Use(observed.usage_at(now), observed.facts)


def share(policy: QuotaPolicy, use: Use | None) -> ResourceList:
    """What a quota holds for an object: its usage of the names limited, nothing where the scopes do not match."""
    if use is None or not policy.applies_to(use.facts):
        return EMPTY
    return {name: amount for name, amount in use.usage.items() if name in policy.hard}
