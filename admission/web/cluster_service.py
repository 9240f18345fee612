"""What a server in a cluster is made of, put together: caches, ledger, certificate, pipeline and applications."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flask import Flask

from admission.cluster.accounting import AccountingSwitch
from admission.cluster.caches import PolicyCaches
from admission.cluster.identity import own_accounts
from admission.cluster.ledger import ApiServerLedger
from admission.cluster.metrics import ReflectorCollector
from admission.cluster.quotas import StoredQuota
from admission.cluster.transport import Transport
from admission.config import Config, changes_of
from admission.pipeline import Pipeline
from admission.web.app import Check, admin_app, webhook_app
from admission.web.cluster_metrics import LedgerCollector
from admission.web.metrics import Metrics
from admission.web.reviews import Serving
from admission.web.slots import Slots
from admission.web.tls import ServingCertificate

log = logging.getLogger(__name__)

RENEW_EVERY: Final = 3600.0
"""Seconds between looks at whether the certificate is due for renewal."""


@dataclass(frozen=True)
class ClusterSettings:
    """What the command line says. `username` is who we are to the API server."""

    connect: Callable[[], Transport]
    username: str
    config: Config
    config_file: Path | None
    version: str


class ClusterService:
    """Serves policies from an API server. Its threads and connections are made in the worker process."""

    def __init__(
        self, settings: ClusterSettings, certificate: ServingCertificate, renew_certificate: Callable[[], None]
    ) -> None:
        config, transport = settings.config, settings.connect()
        self._settings = settings
        self._certificate = certificate
        self._renew_certificate = renew_certificate
        self._stopping = threading.Event()
        self._draining = threading.Event()
        self._synced = False
        self._caches = PolicyCaches(transport)
        self._accounting = AccountingSwitch(transport, config.quota.accounting)
        slots = Slots(config.server.threads)
        ledger = ApiServerLedger(
            transport, self._caches, config.limited(), writes=self._accounting.writes, waiting=slots.waiting
        )
        pipeline = Pipeline(
            self._caches,
            ledger,
            warn_at=config.quota.warn_at,
            own_accounts=own_accounts(settings.username, config.ledger.accounts),
        )
        metrics = self._metrics(settings.version, ledger)
        serving = Serving(slots, self._draining.is_set, self._await_ready)
        self.webhook: Flask = webhook_app(
            pipeline, metrics, config.server.max_body_bytes, checks=self._checks, serving=serving
        )
        self.admin: Flask = admin_app(self._checks, metrics, self._usage)
        self._caches.start()
        self._accounting.reflector.start()
        threading.Thread(target=self._look_after_certificate, name="certificate", daemon=True).start()
        threading.Thread(target=self._look_after_config, name="configuration", daemon=True).start()

    def drain(self) -> bool:
        """Say that the server is about to end: not ready any more. Whether that is news."""
        is_news = not self._draining.is_set()
        self._draining.set()
        return is_news

    def stop(self) -> None:
        """Stop following."""
        self._draining.set()
        self._stopping.set()
        self._caches.stop()
        self._accounting.reflector.stop()

    def _await_ready(self, give_up: float) -> bool:
        """Whether all caches are filled; waits for that until a time of the monotonic clock."""
        if not self._synced:
            reflectors = [*self._caches.reflectors.values(), self._accounting.reflector]
            self._synced = all(found.wait_synced(max(0.0, give_up - time.monotonic())) for found in reflectors)
        return self._synced

    def _checks(self) -> list[Check]:
        missing = [*self._caches.not_synced()]
        if not self._accounting.reflector.has_synced():
            missing.append("accounting")
        note = f"waiting for the first list of {', '.join(missing)}" if missing else ""
        return [
            Check("caches", ready=not missing, note=note),
            Check("certificate", ready=True, note=self._certificate.problem or ""),
            Check("shutdown", ready=not self._draining.is_set(), note="stopping" if self._draining.is_set() else ""),
        ]

    def _usage(self, namespace: str | None) -> dict[str, Any]:
        names = [namespace] if namespace is not None else sorted(self._caches.namespace_names())
        found = {
            name: {
                "resourceQuotas": {quota.name: _shown(quota) for quota in self._caches.quotas.of(name)},
                "limitRanges": {
                    limit: {"resourceVersion": entry.version}
                    for limit, entry in self._caches.limit_entries(name).items()
                },
            }
            for name in names
        }
        return {name: policies for name, policies in found.items() if any(policies.values())}

    def _metrics(self, version: str, ledger: ApiServerLedger) -> Metrics:
        metrics = Metrics(version)
        metrics.policy_doubts.set_function(self._caches.doubts)
        metrics.certificate_expiry.set_function(lambda: self._certificate.expires_at)
        metrics.certificate_stale.set_function(lambda: 1 if self._certificate.problem else 0)
        reflectors = {**self._caches.reflectors, "validatingwebhookconfigurations": self._accounting.reflector}
        metrics.registry.register(ReflectorCollector(lambda: reflectors))
        metrics.registry.register(LedgerCollector(ledger.stats, self._caches, self._accounting))
        return metrics

    def _look_after_certificate(self) -> None:
        while not self._stopping.wait(RENEW_EVERY):
            self._renew_certificate()

    def _look_after_config(self) -> None:
        """Take another `quota.accounting` without a restart; everything else holds from the start on."""
        for config in changes_of(self._settings.config_file, self._stopping):
            self._accounting.set(config.quota.accounting)


def _shown(quota: StoredQuota) -> dict[str, Any]:
    used = quota.state.used
    return {
        "hard": {name: str(quota.policy.hard[name]) for name in sorted(quota.policy.hard)},
        "used": {name: str(used[name]) for name in sorted(used)},
        "resourceVersion": quota.version,
    }
