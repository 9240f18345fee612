"""What a standalone server is made of, put together: store, watcher, certificate, pipeline and applications."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from flask import Flask

from admission.config import Config
from admission.pipeline import Pipeline
from admission.standalone.state import FileState, MemoryState
from admission.standalone.store import StandaloneStore
from admission.standalone.watcher import Watcher
from admission.standalone.world import Fingerprint, Folder, World
from admission.web.app import Check, admin_app, webhook_app
from admission.web.metrics import Metrics, StandaloneGauges
from admission.web.tls import ServingCertificate

log = logging.getLogger(__name__)

RENEW_EVERY: Final = 3600.0
"""Seconds between looks at whether the certificate is due for renewal."""


@dataclass(frozen=True)
class Loaded:
    """A folder that was read before the worker process began, and the files as they were then."""

    folder: Folder
    files: dict[Path, Fingerprint]
    world: World


class StandaloneService:
    """Serves policies from files. Everything that has a thread or a file is made here, in the worker process."""

    def __init__(
        self,
        loaded: Loaded,
        state_file: Path | None,
        config: Config,
        certificate: ServingCertificate,
        renew_certificate: Callable[[], None],
        version: str,
    ) -> None:
        state = FileState(state_file) if state_file else MemoryState()
        self._store = StandaloneStore(loaded.world, state, config.limited())
        self._watcher = Watcher(loaded.folder, self._store, loaded.files)
        self._certificate = certificate
        self._renew_certificate = renew_certificate
        self._stopping = threading.Event()
        metrics = Metrics(version)
        self._export(metrics)
        pipeline = Pipeline(self._store, self._store, warn_at=config.quota.warn_at)
        self.webhook: Flask = webhook_app(pipeline, metrics, config.server.max_body_bytes, checks=self._checks)
        self.admin: Flask = admin_app(self._checks, metrics, self._usage)
        self._watcher.start()
        threading.Thread(target=self._look_after_certificate, name="certificate", daemon=True).start()

    def _usage(self, namespace: str | None) -> dict[str, Any]:
        return {
            name: {"resourceQuotas": {quota: asdict(usage) for quota, usage in quotas.items()}}
            for name, quotas in self._store.usage(namespace).items()
        }

    def drain(self) -> bool:
        """Say that the server is about to end: not ready any more. Whether that is news."""
        is_news = not self._stopping.is_set()
        self._stopping.set()
        return is_news

    def stop(self) -> None:
        """Finish what is under way."""
        self._stopping.set()
        self._watcher.stop()
        self._store.close()

    def _checks(self) -> list[Check]:
        policies = self._watcher.state
        note = ""
        if policies.error:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(policies.loaded_at))
            note = f"the set read at {since} is in force: {policies.error}"
        return [
            Check("policies", ready=True, note=note),
            Check("state", ready=True, note=self._store.problem or ""),
            Check("certificate", ready=True, note=self._certificate.problem or ""),
            Check("shutdown", ready=not self._stopping.is_set(), note="stopping" if self._stopping.is_set() else ""),
        ]

    def _export(self, metrics: Metrics) -> None:
        gauges = StandaloneGauges(metrics.registry)
        watcher, certificate = self._watcher, self._certificate
        gauges.policy_reloads.labels("success").set_function(lambda: watcher.state.succeeded)
        gauges.policy_reloads.labels("failure").set_function(lambda: watcher.state.failed)
        gauges.policies_stale.set_function(lambda: 1 if watcher.state.error else 0)
        gauges.policies_loaded.set_function(lambda: watcher.state.loaded_at)
        gauges.state_failing.set_function(lambda: 1 if self._store.problem else 0)
        metrics.policy_doubts.set_function(lambda: len(self._store.doubts()))
        metrics.certificate_expiry.set_function(lambda: certificate.expires_at)
        metrics.certificate_stale.set_function(lambda: 1 if certificate.problem else 0)

    def _look_after_certificate(self) -> None:
        while not self._stopping.wait(RENEW_EVERY):
            self._renew_certificate()
