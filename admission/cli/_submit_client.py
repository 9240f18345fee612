"""The connection to the webhook server, and what an API server says where it fails."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from admission.apiserver import CallFailed

TIMEOUT: Final = 10.0
"""Seconds for one call: the default of webhook configurations."""
_LARGEST_ANSWER: Final = 8 * 2**20
_UNKNOWN_AUTHORITY: Final = frozenset((18, 19, 20, 21))
"""Verify codes of OpenSSL: self-signed, or no issuer that is trusted."""
_NOT_TLS: Final = frozenset(("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"))
_VANISHED: Final = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)


class ServerAddress:
    """`https://HOST[:PORT][/PATH]`; raises ValueError for anything else."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"expected https://HOST:PORT, got {url!r}")
        self.host: str = parts.hostname
        self.port: int = parts.port or 443
        self.path: str = parts.path.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.place: str = f"{host}:{self.port}"
        self.url: str = f"https://{parts.netloc}{self.path}"


def trusting(ca: Path) -> ssl.SSLContext:
    """TLS that trusts this CA alone; raises OSError or ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cafile=ca)
    return context


class WebhookConnection:
    """One connection that is kept for all calls; satisfies `Webhooks`."""

    def __init__(self, server: ServerAddress, context: ssl.SSLContext, timeout: float = TIMEOUT) -> None:
        self._server = server
        self._timeout = timeout
        self._connection = http.client.HTTPSConnection(server.host, server.port, timeout=timeout, context=context)

    def call(self, path: str, body: bytes) -> bytes:
        """The body of the answer to a POST; raises CallFailed."""
        target = f"{self._server.path}{path}?timeout={self._timeout:g}s"
        try:
            status, answer = self._post(target, body)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            url = f"{self._server.url}{path}?timeout={self._timeout:g}s"
            raise CallFailed(f'Post "{url}": {_problem(error, self._server.place)}') from None
        if status != 200:
            raise CallFailed(_unexpected(status, answer))
        return answer

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        self._connection.close()

    def _post(self, target: str, body: bytes) -> tuple[int, bytes]:
        kept = self._connection.sock is not None
        try:
            return self._post_once(target, body)
        except _VANISHED:
            if not kept:
                raise
            # A server may close a connection that was idle, so its end says nothing about this call.
            self.close()
            return self._post_once(target, body)

    def _post_once(self, target: str, body: bytes) -> tuple[int, bytes]:
        try:
            self._connection.request("POST", target, body, {"Content-Type": "application/json"})
        except _VANISHED as error:
            return self._early_answer(error)
        response = self._connection.getresponse()
        answer = response.read(_LARGEST_ANSWER)
        if not response.isclosed():
            self.close()
        return response.status, answer

    def _early_answer(self, error: Exception) -> tuple[int, bytes]:
        """What a server said that would not read the body to its end."""
        try:
            response = self._connection.getresponse()
            return response.status, response.read(_LARGEST_ANSWER)
        except (OSError, http.client.HTTPException):
            raise error from None
        finally:
            self.close()


def _problem(error: OSError | http.client.HTTPException, place: str) -> str:
    """In the words of an API server."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _UNKNOWN_AUTHORITY:
            return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        return f"tls: failed to verify certificate: x509: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | http.client.RemoteDisconnected):
        return "EOF"
    if isinstance(error, ssl.SSLError):
        if error.reason in _NOT_TLS:
            return "http: server gave HTTP response to HTTPS client"
        return f"tls: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {place.rpartition(':')[0]}: no such host"
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {place}: connect: connection refused"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def _unexpected(status: int, answer: bytes) -> str:
    """What an API server makes of an answer that is not 200, and the line that the server sent."""
    line = " ".join(answer.decode("utf-8", "replace").split())[:500]
    if status >= 500:
        return f'an error on the server ("{line or "unknown"}") has prevented the request from succeeding'
    known = {
        400: "the server rejected our request for an unknown reason",
        404: "the server could not find the requested resource",
        405: "the server does not allow this method on the requested resource",
        413: "the request is too large",
    }
    text = known.get(status, f"the server responded with the status code {status} but did not return more information")
    # An API server keeps the line to itself; whoever tries a server by hand needs it.
    return f"{text} (HTTP {status}: {line})" if line else text
