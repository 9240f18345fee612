"""What the server counts and measures, for Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """One registry a server."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        build = Gauge("quota_admission_build_info", "Version of the server.", ["version"], registry=self.registry)
        build.labels(version).set(1)
        self._reviews = Counter(
            "quota_admission_reviews",
            "Calls answered, by stage (mutate, validate), outcome (allowed, denied, bad_call, unready, error) and "
            "reason.",
            ["stage", "outcome", "reason"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "quota_admission_review_duration_seconds",
            "Time from the first byte of a review read to its answer encoded.",
            ["stage"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.policy_doubts = Gauge(
            "quota_admission_policy_doubts",
            "Lines about policies in force that are hardly meant, as they stand in the log.",
            registry=self.registry,
        )
        self.certificate_expiry = Gauge(
            "quota_admission_certificate_expiry_timestamp_seconds",
            "When the serving certificate ends, in seconds since the epoch.",
            registry=self.registry,
        )
        self.certificate_stale = Gauge(
            "quota_admission_certificate_stale",
            "1 while the certificate files cannot be used and the last good pair is in use.",
            registry=self.registry,
        )
        # Looking a child up by its labels costs more than counting: the few that there are, are kept.
        self._review_children: dict[tuple[str, str, str], Counter] = {}
        self._seconds_children = {stage: self._seconds.labels(stage) for stage in ("mutate", "validate")}

    def count_review(self, stage: str, outcome: str, reason: str, seconds: float) -> None:
        """Record one answered call; `reason` is one of a small fixed set of words, or empty."""
        key = (stage, outcome, reason)
        child = self._review_children.get(key)
        if child is None:
            child = self._review_children[key] = self._reviews.labels(*key)
        child.inc()
        self._seconds_children[stage].observe(seconds)

    def exposition(self) -> bytes:
        """The metrics in the text format."""
        return generate_latest(self.registry)


class StandaloneGauges:
    """What only a server has that serves policies from files."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.policy_reloads = Gauge(
            "quota_admission_policy_reloads",
            "Reloads of the policy files since the start, by result (success, failure).",
            ["result"],
            registry=registry,
        )
        self.policies_stale = Gauge(
            "quota_admission_policies_stale",
            "1 while the policy files cannot be used and the last good set is in force.",
            registry=registry,
        )
        self.policies_loaded = Gauge(
            "quota_admission_policies_loaded_timestamp_seconds",
            "When the policies in force were read, in seconds since the epoch.",
            registry=registry,
        )
        self.state_failing = Gauge(
            "quota_admission_state_failing",
            "1 while the state file cannot be written: what would need it is refused.",
            registry=registry,
        )
