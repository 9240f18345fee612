"""Throttle and ClusterThrottle as they are written and stored (`schedule.k8s.everpeace.github.com/v1alpha1`).

The schema is kube-throttler's, with one more field, `spec.enforcementAction`. Quantities are kept as they are: the
API server rounds those of its own kinds only.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from admission.objects import Decoder, LabelSelector, ObjectMeta, Resources, decode_exact_quantity

GROUP: Final = "schedule.k8s.everpeace.github.com"
API_VERSION: Final = f"{GROUP}/v1alpha1"
ACTIONS: Final = ("deny", "hold", "warn", "dryrun")
"""The values of `spec.enforcementAction`; without one the configuration decides."""


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Field names in camelCase, unknown fields ignored."""


class ResourceCounts(_Wire):
    """`resourceCounts`: a `pod` that is not written there is 0, not "no limit"."""

    pod: int | None = 0


class ResourceAmount(_Wire, omit_defaults=True):
    """A number of pods and requests by resource, each absent where nothing is said of it."""

    resource_counts: ResourceCounts | None = None
    resource_requests: Resources | None = None


class ThresholdOverride(_Wire):
    """An entry of `spec.temporaryThresholdOverrides`; its times are RFC 3339 texts, judged when they are used."""

    begin: str | None = None
    end: str | None = None
    threshold: ResourceAmount | None = None


class SelectorTerm(_Wire):
    """An entry of `selectorTerms`; a Throttle has no namespace selector."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None


class ThrottleSelector(_Wire):
    """`spec.selector`, with the spelling of its field in kube-throttler's README beside the real one."""

    selector_terms: list[SelectorTerm] | None = None
    selecter_terms: list[SelectorTerm] | None = None


class ThrottleSpec(_Wire):
    """`spec` of either kind."""

    throttler_name: str = ""
    threshold: ResourceAmount | None = None
    temporary_threshold_overrides: list[ThresholdOverride] | None = None
    selector: ThrottleSelector | None = None
    enforcement_action: str | None = None


class CalculatedThreshold(_Wire, omit_defaults=True):
    """The limit that was in force when the status was written, since when, and which overrides cannot be read."""

    threshold: ResourceAmount
    calculated_at: str | None = None
    messages: list[str] | None = None


class ThrottledCounts(_Wire):
    """Whether the number of pods is reached."""

    pod: bool = False


class Throttled(_Wire, omit_defaults=True):
    """What of the limit is reached."""

    resource_counts: ThrottledCounts | None = None
    resource_requests: dict[str, bool] | None = None


class ThrottleStatus(_Wire, omit_defaults=True):
    """`status` of either kind."""

    calculated_threshold: CalculatedThreshold | None = None
    throttled: Throttled | None = None
    used: ResourceAmount | None = None


class _AnyThrottle(_Wire):
    metadata: ObjectMeta
    spec: ThrottleSpec | None = None
    status: ThrottleStatus | None = None


class Throttle(_AnyThrottle):
    """A Throttle: about pods of its own namespace."""


class ClusterThrottle(_AnyThrottle):
    """A ClusterThrottle: about pods of every namespace that its terms select."""


AnyThrottle = Throttle | ClusterThrottle

decode_throttle = Decoder(Throttle, decode_exact_quantity)
decode_cluster_throttle = Decoder(ClusterThrottle, decode_exact_quantity)


def document(status: ThrottleStatus) -> dict[str, Any]:
    """The status as it stands in JSON."""
    written: dict[str, Any] = msgspec.to_builtins(status, enc_hook=str)
    return written
