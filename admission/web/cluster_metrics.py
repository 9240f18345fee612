"""What a server in a cluster exposes beside its reviews: its ledger, and who keeps the count."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admission.cluster.accounting import AccountingSwitch
from admission.cluster.caches import PolicyCaches
from admission.cluster.stats import CallStats, LedgerStats


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
