"""What a controller exposes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from admission.cluster.metrics import ReflectorCollector
from admission.cluster.reflector import Reflector
from admission.controller.stats import ControllerStats

COUNTERS: Final = {
    "recounts": "Recounts of a quota.",
    "writes": "Writes of a quota's status.",
    "conflicts": "Writes that came too late, because a server was faster; they are repeated.",
    "failures": "Recounts that failed; they are repeated.",
    "settled": "Reservations that were settled because their object was seen, or is gone.",
    "expired": "Reservations that came to nothing: their object never came.",
    "drifts": "Counts that a full recount found to be wrong although nothing was heard of it.",
    "rebuilt": "Ledgers that could not be read and were made anew.",
}


class ControllerCollector(Collector):
    """What the keeper has done, and how it stands."""

    def __init__(self, stats: ControllerStats, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        self._stats = stats
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        """The samples of the moment."""
        for name, text in COUNTERS.items():
            yield CounterMetricFamily(f"quota_admission_controller_{name}", text, value=getattr(self._stats, name))
        yield GaugeMetricFamily(
            "quota_admission_controller_recount_seconds",
            "How long the last recount of a quota took.",
            value=self._stats.recount_seconds,
        )
        for name, (text, read) in self._gauges.items():
            yield GaugeMetricFamily(f"quota_admission_controller_{name}", text, value=float(read()))


class ControllerMetrics:
    """The registry of a controller."""

    def __init__(
        self,
        version: str,
        stats: ControllerStats,
        reflectors: Callable[[], Mapping[str, Reflector[Any]]],
        gauges: Mapping[str, tuple[str, Callable[[], float]]],
    ) -> None:
        """`gauges`: name -> text and what reads it."""
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        build = Gauge("quota_admission_build_info", "Version of the controller.", ["version"], registry=self.registry)
        build.labels(version).set(1)
        self.registry.register(ReflectorCollector(reflectors))
        self.registry.register(ControllerCollector(stats, gauges))

    def exposition(self) -> bytes:
        """The metrics in the text format."""
        return generate_latest(self.registry)
