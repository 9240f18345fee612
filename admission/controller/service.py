"""What a controller is made of, put together, and what it does when."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from admission.cluster.accounting import Accounting, Setting
from admission.cluster.caches import DeviceCache, QuotaCache
from admission.cluster.identity import FALLBACK_NAMESPACE, namespace_of, own_accounts
from admission.cluster.quotas import StoredQuota
from admission.cluster.reflector import Reflector
from admission.cluster.transport import ClusterError, Transport
from admission.config import Config, changes_of
from admission.controller.keeper import Duties, QuotaKeeper
from admission.controller.lease import Elector, unique_identity
from admission.controller.metrics import ControllerMetrics
from admission.controller.probe import QUOTA, Probe, Probed
from admission.controller.registration import Registration
from admission.controller.rules import Endpoint, ServiceEndpoint, Webhooks

log = logging.getLogger(__name__)

LEASE: Final = "quota-admission-controller"
HOUSEKEEPING: Final = 1.0
"""Seconds between looks at what may have become due."""
REGISTER_EVERY: Final = 2.0
GATHER: Final = 0.2
"""How long to wait for more of what has just happened."""
KINDS_EVERY: Final = 5.0
PROBE_EVERY: Final = 30.0


@dataclass(frozen=True)
class ControllerSettings:
    """What the command line says. `username` is who we are to the API server."""

    username: str
    config: Config
    config_file: Path | None
    endpoint: Endpoint
    ca_file: Path | None
    version: str

    def namespace(self) -> str:
        """Where the Lease and the probe are."""
        service = self.endpoint.namespace if isinstance(self.endpoint, ServiceEndpoint) else ""
        return self.config.controller.namespace or service or namespace_of(self.username) or FALLBACK_NAMESPACE

    def webhooks(self) -> Webhooks:
        """What is registered."""
        webhooks, accounts = self.config.webhooks, own_accounts(self.username, self.config.ledger.accounts)
        return Webhooks(
            mutating_failure_policy=webhooks.mutating_failure_policy,
            validating_failure_policy=webhooks.validating_failure_policy,
            timeout_seconds=webhooks.timeout_seconds,
            exempt_namespaces=tuple(dict.fromkeys((*webhooks.exempt_namespaces, self.namespace()))),
            own_users=tuple(sorted(accounts.usernames)),
            own_groups=tuple(sorted(accounts.groups)),
        )


class ControllerService:
    """All that a controller does. Every replica follows the cluster; the one that leads acts."""

    def __init__(self, transport: Transport, settings: ControllerSettings) -> None:
        config = settings.config
        self._settings = settings
        self._stopping = threading.Event()
        self._setting: Setting = config.quota.accounting
        self._accounting: Accounting | None = None
        self._synced_kinds: set[str] = set()
        self._doubted = ""
        self._register_now = threading.Event()
        self._quotas = QuotaCache(transport, self._quota_changed)
        self._devices = DeviceCache(transport)
        self._keeper = QuotaKeeper(
            transport,
            self._quotas,
            self._devices.names,
            Duties(
                active=self._is_active,
                owns_count=self._owns_count,
                expire_after=config.ledger.expire_after_seconds,
                probe=(settings.namespace(), QUOTA),
            ),
        )
        lease = config.controller.lease_seconds
        self._elector = Elector(
            transport,
            settings.namespace(),
            LEASE,
            unique_identity(),
            lease_seconds=lease,
            renew_seconds=lease * 2 / 3,
            retry_seconds=lease * 2 / 15,
            on_started=self._keeper.mark_all,
        )
        self._registration = Registration(transport, settings.webhooks(), settings.endpoint, settings.ca_file)
        self._probe = Probe(transport, settings.namespace())
        self.metrics = ControllerMetrics(settings.version, self._keeper.stats, self._reflectors, self._gauges())

    def start(self) -> None:
        """Begin."""
        self._quotas.reflector.start()
        self._devices.reflector.start()
        self._keeper.start()
        self._elector.start()
        for work in (self._keep_house, self._keep_registered, self._keep_probing, self._follow_config):
            threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True).start()

    def stop(self) -> None:
        """End, and let another lead at once."""
        self._stopping.set()
        self._keeper.stop()
        self._elector.stop()
        self._quotas.reflector.stop()
        self._devices.reflector.stop()

    def problems(self) -> dict[str, str]:
        """What is waited for, by name; nothing where all is well."""
        missing = [kind for kind, reflector in self._reflectors().items() if not reflector.has_synced()]
        return {
            "caches": f"waiting for the first list of {', '.join(missing)}" if missing else "",
            "shutdown": "stopping" if self._stopping.is_set() else "",
        }

    def notes(self) -> dict[str, str]:
        """What is not as it should be, although the controller works."""
        leads = self._elector.is_leader()
        return {"webhooks": self._registration.problem if leads else "", "accounting": self._doubted if leads else ""}

    # -- who acts

    def _is_active(self) -> bool:
        return self._accounting is not None and self._elector.is_leader()

    def _owns_count(self) -> bool:
        return self._accounting is not None and self._accounting.mode == "webhook"

    def _quota_changed(self, namespace: str, name: str, was: StoredQuota | None, now: StoredQuota | None) -> None:
        self._keeper.quota_changed(namespace, name, was, now)
        if now is not None and (was is None or was.spec_hard.keys() != now.spec_hard.keys()):
            self._register_now.set()

    def _reflectors(self) -> dict[str, Reflector[Any]]:
        fixed: dict[str, Reflector[Any]] = {
            "resourcequotas": self._quotas.reflector,
            "deviceclasses": self._devices.reflector,
        }
        return {**fixed, **{f"counted {kind}": found for kind, found in self._keeper.objects.reflectors.items()}}

    def _gauges(self) -> dict[str, tuple[str, Callable[[], float]]]:
        return {
            "leader": ("1 while this controller leads.", self._elector.is_leader),
            "queue": ("Namespaces that wait for a recount.", lambda: len(self._keeper.queue)),
            "registered": ("1 while the webhooks are registered as they should be.", self._is_registered),
        }

    def _is_registered(self) -> bool:
        return self._elector.is_leader() and self._accounting is not None and not self._registration.problem

    # -- what is done over and over

    def _every(
        self, seconds: float, what: str, work: Callable[[], object], sooner: threading.Event | None = None
    ) -> None:
        """Work over and over until the end; `sooner` cuts the wait short."""
        wake = sooner or self._stopping
        while not self._stopping.is_set():
            try:
                work()
            except ClusterError as error:
                log.warning("%s failed", what, extra={"problem": str(error)})
            except Exception:
                log.exception("%s failed", what)
            if wake.wait(seconds) and sooner is not None:
                sooner.clear()
                self._stopping.wait(GATHER)

    def _keep_house(self) -> None:
        resync = self._settings.config.controller.resync_seconds
        due = {"kinds": 0.0, "resync": time.monotonic() + resync}

        def look() -> None:
            now = time.monotonic()
            if now >= due["kinds"] and self._quotas.reflector.has_synced():
                due["kinds"] = now + KINDS_EVERY
                self._follow_kinds()
            if now >= due["resync"]:
                due["resync"] = now + resync
                self._keeper.mark_all(audit=True)
            if self._is_active() and self._owns_count():
                self._keeper.expiry.look()

        self._every(HOUSEKEEPING, "housekeeping", look)

    def _follow_kinds(self) -> None:
        """Followed by every replica, so that one that takes over knows them already."""
        kinds, objects = self._keeper.kinds(), self._keeper.objects
        objects.ensure(kinds)
        objects.forget_all_but(kinds)
        synced = {kind for kind in kinds if objects.has_synced(kind)}
        if synced - self._synced_kinds:
            self._keeper.mark_all()
        self._synced_kinds = synced

    def _keep_registered(self) -> None:
        def register() -> None:
            if self._accounting is not None and self._elector.is_leader() and self._quotas.reflector.has_synced():
                self._registration.sync(self._keeper.kinds(), self._accounting.mode, self._accounting.reason)

        self._every(REGISTER_EVERY, "registration", register, self._register_now)

    def _keep_probing(self) -> None:
        def probe() -> None:
            if self._setting != "auto":
                self._account(Accounting(self._setting, "the configuration says so"))
                if self._elector.is_leader():
                    self._doubt(self._setting, self._probe.run())
            elif self._elector.is_leader():
                found = self._probe.run()
                if found.mode != "unknown":
                    self._account(Accounting(found.mode, found.reason))
                elif self._accounting is None:
                    self._account(Accounting("webhook", found.reason))

        asked: tuple[float, Setting, int] = (float("-inf"), self._setting, 0)

        def when_due() -> None:
            nonlocal asked
            # An API server that went away may have come back with other plugins.
            breaks = self._quotas.reflector.stats.errors
            due = time.monotonic() >= asked[0] + PROBE_EVERY or (self._setting, breaks) != asked[1:]
            if due or not self._is_settled():
                asked = (time.monotonic(), self._setting, breaks)
                probe()

        self._every(HOUSEKEEPING, "the probe", when_due)

    def _is_settled(self) -> bool:
        return self._accounting is not None and self._setting in ("auto", self._accounting.mode)

    def _doubt(self, setting: Setting, found: Probed) -> None:
        """Say so where the setting and the API server disagree: then everything is counted twice, or not at all."""
        problem = (
            f"the configuration says {setting}, but {found.reason}" if found.mode not in (setting, "unknown") else ""
        )
        if problem and problem != self._doubted:
            log.warning("accounting is in doubt", extra={"problem": problem})
        self._doubted = problem

    def _account(self, decided: Accounting) -> None:
        before, self._accounting = self._accounting, decided
        if before is None or before.mode != decided.mode:
            log.info("accounting", extra={"accounting": decided.mode, "why": decided.reason})
            self._keeper.mark_all()

    def _follow_config(self) -> None:
        """Take another `quota.accounting` without a restart; everything else holds from the start on."""
        for config in changes_of(self._settings.config_file, self._stopping):
            self._setting = config.quota.accounting
