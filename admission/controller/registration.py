"""Registering the webhooks with the API server, and keeping them registered as they ought to be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from admission.cluster.transport import ApiError, ClusterError, Transport
from admission.controller.health import READY_PATH, health_problem
from admission.controller.rules import (
    ACCOUNTING,
    ACCOUNTING_REASON,
    NAME,
    Endpoint,
    Json,
    Webhooks,
    differs,
    merged,
    mutating,
    validating,
)
from admission.kinds import Resource

log = logging.getLogger(__name__)

API: Final = "/apis/admissionregistration.k8s.io/v1"
MUTATING_PATH: Final = f"{API}/mutatingwebhookconfigurations"
VALIDATING_PATH: Final = f"{API}/validatingwebhookconfigurations"

_ATTEMPTS: Final = 5
"""How often a configuration is read again because somebody else was faster."""

HealthCheck = Callable[[str, "bytes | None"], str]
"""URL and CA bundle -> why the endpoint is not healthy, empty where it is."""


class NotReady(ClusterError):
    """What has to be there before the webhooks can be registered is not: one readable line."""


class Registration:
    """The two configurations of one endpoint. For one thread."""

    def __init__(
        self,
        transport: Transport,
        settings: Webhooks,
        endpoint: Endpoint,
        ca_file: Path | None,
        *,
        check: HealthCheck = health_problem,
    ) -> None:
        """`ca_file` holds the certificates of the endpoint's authorities; it is read at every sync.

        Without one, a CA bundle that others have put into the configurations is left alone. `settings` may be set anew
        at any time.
        """
        self.settings = settings
        self.problem = ""
        """What is wrong as of the last sync, in one line; empty where all is well."""
        self._transport = transport
        self._endpoint = endpoint
        self._authorities = _Authorities(ca_file)
        self._check = check

    def sync(
        self,
        kinds: Collection[str],
        accounting: str,
        reason: str,
        known: Mapping[str, Resource] | None = None,
    ) -> bool:
        """Put both configurations right; whether they are. Never raises ClusterError: see `problem`.

        A configuration that is not there yet is made as soon as the endpoint is healthy, which is looked at once: call
        this again until it succeeds. One that is there is changed at once. `kinds` and `known` are those of
        `rules.validating`; `accounting` and `reason` go into its annotations.
        """
        bundle = self._authorities.read()
        annotations = {ACCOUNTING: accounting, ACCOUNTING_REASON: reason}
        wanted = {
            # In this order: what is counted has to be defaulted before.
            MUTATING_PATH: mutating(self.settings, self._endpoint, bundle),
            VALIDATING_PATH: validating(
                kinds, self.settings, self._endpoint, bundle, known=known, annotations=annotations
            ),
        }
        gate = _Gate(self._endpoint.url(READY_PATH), bundle, self._authorities.problem, self._check)
        problems = [self._authorities.problem]
        for path, configuration in wanted.items():
            try:
                self._put_right(path, configuration, gate)
            except ClusterError as error:
                problems.append(str(error))
                gate.close(str(error))
        self._report("; ".join(dict.fromkeys(filter(None, problems))))
        return not self.problem

    def remove(self) -> None:
        """Delete both configurations, where they are there; raises ClusterError."""
        for path in (VALIDATING_PATH, MUTATING_PATH):
            try:
                self._transport.call("DELETE", f"{path}/{NAME}")
            except ApiError as error:
                if error.status != 404:
                    raise
            else:
                log.info("webhooks removed", extra={"configuration": path.rpartition("/")[2]})

    def _put_right(self, path: str, wanted: Json, gate: _Gate) -> None:
        for _ in range(_ATTEMPTS):
            current = self._read(path)
            if current is not None and not differs(current, wanted):
                return
            if current is None:
                gate.pass_through()
            try:
                self._write(path, current, wanted)
            except ApiError as error:
                # Somebody changed, made or deleted it meanwhile.
                if error.status not in (404, 409):
                    raise
            else:
                return
        raise ClusterError(f"{path}/{NAME} is changed by others again and again")

    def _read(self, path: str) -> Json | None:
        try:
            found: Json = orjson.loads(self._transport.call("GET", f"{path}/{NAME}").body)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def _write(self, path: str, current: Json | None, wanted: Json) -> None:
        if current is None:
            self._transport.call("POST", path, orjson.dumps(wanted))
        else:
            self._transport.call("PUT", f"{path}/{NAME}", orjson.dumps(merged(current, wanted)))
        done = "webhooks registered" if current is None else "webhooks changed"
        log.info(done, extra={"configuration": wanted["kind"], "rules": _count_rules(wanted)})

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("webhooks not as they ought to be", extra={"problem": problem})
        self.problem = problem


class _Gate:
    """What holds up a first registration."""

    def __init__(self, url: str, bundle: bytes | None, problem: str, check: HealthCheck) -> None:
        self._url, self._bundle, self._check = url, bundle, check
        self._problem = problem

    @cached_property
    def _health_problem(self) -> str:
        return self._check(self._url, self._bundle)

    def close(self, problem: str) -> None:
        """Hold up whatever comes from now on."""
        self._problem = problem

    def pass_through(self) -> None:
        """Raises NotReady where a first registration would do harm: failing webhooks stop a whole cluster."""
        if self._problem:
            raise NotReady(self._problem)
        if self._health_problem:
            raise NotReady(f"not registered yet, the endpoint is not healthy: {self._health_problem}")


class _Authorities:
    """The certificates in a file; what could be read last stays in use where the file cannot be read."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last: bytes | None = None
        self.problem = ""

    def read(self) -> bytes | None:
        """PEM, of certificates alone: a key in the same file must not be published. None where there is none."""
        if self._path is None:
            return None
        try:
            certificates = x509.load_pem_x509_certificates(self._path.read_bytes())
            self._last = b"".join(found.public_bytes(Encoding.PEM) for found in certificates)
            self.problem = ""
        except OSError as error:
            self.problem = f"{self._path} cannot be read: {error.strerror}"
        except ValueError:
            self.problem = f"{self._path} holds no certificates in PEM"
        return self._last


def _count_rules(configuration: Mapping[str, Any]) -> int:
    return sum(len(webhook["rules"]) for webhook in configuration["webhooks"])
