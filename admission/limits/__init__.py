"""LimitRange: defaults for containers, bounds for containers, pods and volume claims."""

from admission.limits.bounds import check_pod, check_volume_claim
from admission.limits.defaults import Injection, inject
from admission.limits.policy import LimitPolicy, compile_limit_range, with_api_defaults

__all__ = [
    "Injection",
    "LimitPolicy",
    "check_pod",
    "check_volume_claim",
    "compile_limit_range",
    "inject",
    "with_api_defaults",
]
