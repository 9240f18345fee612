"""How well the caches follow the API server, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admission.cluster.reflector import Reflector

GAUGES: Final[Mapping[str, tuple[str, Callable[[Reflector[Any]], float]]]] = {
    "objects": ("Objects in the cache.", len),
    "synced": ("1 as soon as a first list is in.", Reflector.has_synced),
    "staleness_seconds": ("Time since the API server was last heard of.", Reflector.staleness),
}
COUNTERS: Final = {
    "lists": "Full lists read.",
    "watches": "Watches begun.",
    "events": "Changes heard of.",
    "errors": "Lists and watches that failed.",
    "undecodable": "Objects that could not be used; what was known of them stays in force.",
}


class ReflectorCollector(Collector):
    """One sample a resource each."""

    def __init__(self, reflectors: Callable[[], Mapping[str, Reflector[Any]]]) -> None:
        self._reflectors = reflectors

    def collect(self) -> Iterable[Metric]:
        """The samples of the moment."""
        reflectors = self._reflectors()
        for name, (text, read) in GAUGES.items():
            gauge = GaugeMetricFamily(f"quota_admission_cache_{name}", text, labels=["resource"])
            for resource, reflector in reflectors.items():
                gauge.add_metric([resource], float(read(reflector)))
            yield gauge
        for name, text in COUNTERS.items():
            counter = CounterMetricFamily(f"quota_admission_cache_{name}", text, labels=["resource"])
            for resource, reflector in reflectors.items():
                counter.add_metric([resource], getattr(reflector.stats, name))
            yield counter
