"""What a server in a cluster exposes beside its reviews: its caches, its ledger, who keeps the count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admission.cluster.accounting import AccountingSwitch
from admission.cluster.caches import PolicyCaches
from admission.cluster.reflector import Reflector
from admission.cluster.stats import CallStats, LedgerStats


class ReflectorCollector(Collector):
    """How well the caches follow the API server."""

    def __init__(self, reflectors: Mapping[str, Reflector[Any]]) -> None:
        self._reflectors = reflectors

    def collect(self) -> Iterable[Metric]:
        """One sample a resource each."""
        gauges = {
            "objects": ("Objects in the cache.", len),
            "synced": ("1 as soon as a first list is in.", Reflector.has_synced),
            "staleness_seconds": ("Time since the API server was last heard of.", Reflector.staleness),
        }
        for name, (text, read) in gauges.items():
            family = GaugeMetricFamily(f"quota_admission_cache_{name}", text, labels=["resource"])
            for resource, reflector in self._reflectors.items():
                family.add_metric([resource], float(read(reflector)))
            yield family
        counters = {
            "lists": "Full lists read.",
            "watches": "Watches begun.",
            "events": "Changes heard of.",
            "errors": "Lists and watches that failed.",
            "undecodable": "Objects that could not be used; what was known of them stays in force.",
        }
        for name, text in counters.items():
            counter = CounterMetricFamily(f"quota_admission_cache_{name}", text, labels=["resource"])
            for resource, reflector in self._reflectors.items():
                counter.add_metric([resource], getattr(reflector.stats, name))
            yield counter


class LedgerCollector(Collector):
    """What the ledger has done."""

    def __init__(self, stats: LedgerStats, caches: PolicyCaches, accounting: AccountingSwitch) -> None:
        self._stats = stats
        self._caches = caches
        self._accounting = accounting

    def collect(self) -> Iterable[Metric]:
        """The samples of the moment."""
        stats = self._stats
        yield _calls("writes", "Writes of a quota's status, by result.", stats.writes)
        yield _calls(
            "reads", "Reads of a namespace's quotas before a refusal or after a conflict, by result.", stats.reads
        )
        for name, value, text in (
            ("reservations", stats.reservations, "Reservations made."),
            ("batches", stats.batches, "Batches of requests that waited for the same namespace."),
            ("batched_requests", stats.batched, "Requests in those batches."),
        ):
            yield CounterMetricFamily(f"quota_admission_ledger_{name}", text, value=value)
        mode = GaugeMetricFamily("quota_admission_accounting", "1 for who keeps the count of quotas.", labels=["mode"])
        for known in ("webhook", "apiserver"):
            mode.add_metric([known], float(self._accounting.current.mode == known))
        yield mode
        damaged = sum(1 for quota in self._caches.quotas.all() if quota.damage)
        yield GaugeMetricFamily(
            "quota_admission_ledger_damaged", "Quotas whose ledger cannot be read.", value=float(damaged)
        )


def _calls(name: str, text: str, stats: CallStats) -> CounterMetricFamily:
    family = CounterMetricFamily(f"quota_admission_ledger_{name}", text, labels=["result"])
    for result in ("succeeded", "conflicts", "failed"):
        family.add_metric([result.removesuffix("s")], getattr(stats, result))
    return family
