"""TLS for the webhook port: the certificate is read again when its files change, without a restart."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from certs import CertsError, reading

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 1.0
"""Seconds between looks at the files."""
SOCKET_TIMEOUT: Final = 10.0
"""Seconds that a connection may stay silent in the middle of a chunked request or an answer."""


class PatientSocket(ssl.SSLSocket):
    """A TLS socket that waits for its peer, but not for ever: a stalled client must not hold a thread."""

    def setblocking(self, flag: bool) -> None:
        """Blocking means up to SOCKET_TIMEOUT."""
        self.settimeout(SOCKET_TIMEOUT if flag else 0.0)


class ServingCertificate:
    """The pair in use. A pair that cannot be loaded leaves the last good one in use, and says so in `problem`."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises OSError or ssl.SSLError where the first pair cannot be loaded."""
        self.path = certificate
        self._certificate, self._key = certificate, key
        self._lock = threading.Lock()
        self._looked_at = time.monotonic()
        self._fingerprint = self._fingerprint_now()
        self._problem: str | None = None
        self._context, self._expires_at = self._load()

    @property
    def expires_at(self) -> float:
        """When the pair in use ends, in seconds since the epoch."""
        self.context()
        return self._expires_at

    @property
    def problem(self) -> str | None:
        """Why the files as they are now cannot be used; None where the pair in use is the one in the files."""
        self.context()
        return self._problem

    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        if time.monotonic() - self._looked_at >= LOOK_EVERY:
            self.look()
        return self._context

    def look(self) -> None:
        """Read the files again if they changed."""
        with self._lock:
            self._looked_at = time.monotonic()
            fingerprint = self._fingerprint_now()
            if fingerprint == self._fingerprint:
                return
            self._fingerprint = fingerprint
            try:
                self._context, self._expires_at = self._load()
            except (OSError, ValueError, CertsError) as error:
                self._problem = f"{self._certificate.name} and {self._key.name} cannot be loaded: {_short(error)}"
                log.error("certificate not reloaded, the last good pair stays in use: %s", self._problem)  # noqa: TRY400
            else:
                self._problem = None
                log.info("certificate reloaded")

    def _load(self) -> tuple[ssl.SSLContext, float]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = PatientSocket
        context.set_alpn_protocols(["http/1.1"])
        with reading(self._certificate.parent):  # not while the pair is being replaced
            context.load_cert_chain(self._certificate, self._key)
            leaf = x509.load_pem_x509_certificate(self._certificate.read_bytes())
        return context, leaf.not_valid_after_utc.timestamp()

    def _fingerprint_now(self) -> Any:
        try:
            return [(stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in self._stats()]
        except OSError:
            return None

    def _stats(self) -> list[Any]:
        return [path.stat() for path in (self._certificate, self._key)]


def _short(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
