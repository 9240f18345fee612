"""What quotas know of one object: what it uses, and what decides the scopes it falls in.

Small, plain and without the object's content, so that it can be kept for every object that counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from admission.quantity import Quantity
from admission.resource_lists import ResourceList, restricted

COUNT_PODS: Final = "count/pods"


class PodFacts(msgspec.Struct, frozen=True, tag="pod"):
    """What of a pod decides its scopes; `priority_class` is empty where the pod has none."""

    terminating: bool = False
    best_effort: bool = False
    priority_class: str = ""
    cross_namespace_affinity: bool = False


class VolumeClaimFacts(msgspec.Struct, frozen=True, tag="claim"):
    """The VolumeAttributesClasses that a claim refers to: desired, current and target."""

    attributes_classes: frozenset[str] = frozenset()


Facts = PodFacts | VolumeClaimFacts


class Observed(msgspec.Struct, frozen=True):
    """One object as quotas see it.

    `facts` is None for kinds that no scope ever matches. `counts_until` is set for a pod that is being deleted: the
    time (seconds since the epoch) after which only `count/pods` still counts it. `extended_claim` is the name of the
    claim made for a pod's extended resources, `owner_pod` the UID of the pod that such a claim was made for, `created`
    when (RFC 3339); each is empty where it does not apply. `deleting` says that the object is marked for deletion.
    """

    usage: dict[str, Quantity]
    facts: Facts | None = None
    counts_until: float | None = None
    extended_claim: str = ""
    owner_pod: str = ""
    created: str = ""
    deleting: bool = False

    def usage_at(self, now: float) -> ResourceList:
        """The usage at a time; without names that are no longer counted by then."""
        if self.counts_until is not None and now > self.counts_until:
            return restricted(self.usage, (COUNT_PODS,))
        return self.usage
