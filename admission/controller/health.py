"""Whether an endpoint is fit to be registered: it answers, with a certificate that the API server will accept."""

from __future__ import annotations

import http.client
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

TIMEOUT: Final = 3.0
READY_PATH: Final = "/readyz"


def healthy(url: str, ca_bundle: bytes | None, timeout: float = TIMEOUT) -> bool:
    """Whether a GET of this `https` URL is answered with 200 by a server whose certificate the bundle vouches for."""
    return not health_problem(url, ca_bundle, timeout)


def health_problem(url: str, ca_bundle: bytes | None, timeout: float = TIMEOUT) -> str:
    """Why an endpoint is not healthy: one line, empty where it is.

    `ca_bundle` is PEM; without one the authorities that this machine trusts are asked. `timeout`, in seconds, is for
    each of connecting, greeting and answering.
    """
    parts = urlsplit(url)
    try:
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port or 443, timeout=timeout, context=_context(ca_bundle)
        )
        try:
            connection.request("GET", parts.path, headers={"User-Agent": "quota-admission", "Connection": "close"})
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"{url}: {_text(error)}"
    return "" if status == 200 else f"{url} answers {status} {http.client.responses.get(status, '')}".rstrip()


def _context(ca_bundle: bytes | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=None if ca_bundle is None else ca_bundle.decode())
    # API servers are not stricter than that, and take an intermediate authority for a root.
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["http/1.1"])
    return context


def _text(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return f"its name cannot be looked up: {error.strerror}"
    text = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())
