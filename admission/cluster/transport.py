"""Calls to the API server over the transport of the `kubernetes` library: its configuration, credentials and pool.

The library's models are not used: what is sent and received are bytes, decoded where they are needed.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import msgspec
import urllib3
import yaml

from admission.cluster.connections import Connections, RawResponse

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

CONNECT_TIMEOUT: Final = 5.0
READ_TIMEOUT: Final = 30.0
CREDENTIALS_SECONDS: Final = 5.0
"""How long a token is used until it is looked up again."""


class ClusterError(Exception):
    """The API server cannot be reached, or does not do what was asked: one readable line."""


class Unreachable(ClusterError):
    """No answer: nobody knows whether a write took effect."""


class ApiError(ClusterError):
    """An answer that is an error: `status` is the HTTP status, `reason` and `message` are the API server's."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def is_conflict(self) -> bool:
        """Whether the object was changed since it was read."""
        return self.status == 409 and self.reason != "AlreadyExists"


class _Status(msgspec.Struct, rename="camel"):
    reason: str | None = None
    message: str | None = None


class Stream:
    """The lines of a watch, for one thread; any other may end it."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        """The lines until the watch ends; raises Unreachable where it breaks or falls silent."""
        response = self._response
        try:
            rest = b""
            while chunk := response.read1(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"the watch broke: {_cause(error)}") from None
        finally:
            response.close()

    def end(self) -> None:
        """Have the reader see the end at once."""
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
            self._response.shutdown()


class Transport:
    """One API server, with one account. Safe to use from many threads."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._pool: urllib3.PoolManager = client.rest_client.pool_manager
        self._host: str = client.configuration.host
        self._short = _connections(client.configuration)
        self._authorization: tuple[float, dict[str, str]] = (float("-inf"), {})

    @property
    def host(self) -> str:
        """The URL of the API server."""
        return self._host

    def close(self) -> None:
        """Close what is idle; what is in use ends with its call."""
        if self._short is not None:
            self._short.close()
        self._pool.clear()

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "application/json",
        timeout: float = READ_TIMEOUT,
    ) -> RawResponse:
        """One call; raises ApiError or Unreachable. Nothing is retried here. A PATCH is a JSON merge patch."""
        headers = self._headers(accept)
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        target = path + (f"?{urlencode(query)}" if query else "")
        response = self._exchange(method, target, body, headers, timeout)
        if response.status >= 400:
            raise _api_error(response.status, response.body)
        return response

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> RawResponse:
        try:
            if self._short is not None:
                return self._short.call(method, target, body, headers, timeout)
            long = self._send(method, target, body, headers, timeout, preload=True)
            return RawResponse(long.status, long.data)
        except (http.client.HTTPException, OSError) as error:
            raise Unreachable(f"{self._host} does not answer: {_cause(error)}") from None

    def stream(
        self, path: str, query: Mapping[str, str], idle_timeout: float, *, accept: str = "application/json"
    ) -> Stream:
        """The lines of a watch. Raises ApiError, or Unreachable where nobody answers."""
        target = f"{path}?{urlencode(query)}"
        response = self._send("GET", target, None, self._headers(accept), idle_timeout, preload=False)
        if response.status >= 400:
            try:
                raise _api_error(response.status, response.read())
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise Unreachable(f"the watch broke: {_cause(error)}") from None
            finally:
                response.close()
        return Stream(response)

    def _send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
        *,
        preload: bool,
    ) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.request(
                method,
                self._host + target,
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=min(CONNECT_TIMEOUT, timeout), read=timeout),
                retries=False,
                preload_content=preload,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{self._host} does not answer: {_cause(error)}") from None

    def _headers(self, accept: str) -> dict[str, str]:
        return {"Accept": accept, "User-Agent": "quota-admission", **self._credentials()}

    def _credentials(self) -> dict[str, str]:
        """The library renews tokens while it looks them up, and that takes longer than most calls."""
        looked_up, headers = self._authorization
        if time.monotonic() >= looked_up + CREDENTIALS_SECONDS:
            headers = {}
            self._client.update_params_for_auth(headers, [], ["BearerToken"], "", "GET", None)
            self._authorization = (time.monotonic(), headers)
        return headers


def connect(kubeconfig: Path | None = None, context: str | None = None, *, connections: int = 16) -> Transport:
    """The transport of a kubeconfig file, else of the pod's own account, else of the user's usual kubeconfig."""
    # Only here, because it takes a while, and servers without a cluster need none of it.
    from kubernetes import client, config

    load_kube_config: Callable[..., None] = config.load_kube_config
    load_incluster_config: Callable[..., None] = config.load_incluster_config
    settings = client.Configuration()
    if kubeconfig is not None and not kubeconfig.is_file():
        raise ClusterError(f"no API server is configured: {kubeconfig}: expected a file, there is none")
    try:
        if kubeconfig is not None or context is not None:
            load_kube_config(str(kubeconfig) if kubeconfig else None, context, settings)
        else:
            try:
                load_incluster_config(settings)
            except config.ConfigException:
                load_kube_config(None, None, settings)
    except (config.ConfigException, OSError, ValueError, yaml.YAMLError) as error:
        where = f"{kubeconfig}: " if kubeconfig and str(kubeconfig) not in str(error) else ""
        raise ClusterError(f"no API server is configured: {where}{error}") from None
    except (TypeError, AttributeError, KeyError):  # what the library makes of a file of another form
        named = kubeconfig or "the usual kubeconfig"
        raise ClusterError(f"no API server is configured: {named}: expected a kubeconfig") from None
    settings.connection_pool_maxsize = connections
    return Transport(client.ApiClient(settings))


def _connections(settings: Configuration) -> Connections | None:
    """What short calls go over; None where only the library knows the way."""
    if settings.proxy or not settings.host.startswith("https://"):
        return None

    def context() -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=settings.ssl_ca_cert, cadata=settings.ca_cert_data)
        made.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT  # as the library: clusters have such authorities
        if settings.cert_file:
            made.load_cert_chain(settings.cert_file, settings.key_file)
        if not settings.verify_ssl:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        elif settings.assert_hostname is False:
            made.check_hostname = False
        return made

    return Connections(settings.host, context, settings.tls_server_name)


def _api_error(status: int, body: bytes) -> ApiError:
    try:
        found = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        found = _Status()
    return ApiError(status, found.reason or "", found.message or body[:200].decode("utf-8", "replace").strip())


def _cause(error: BaseException) -> str:
    inner = getattr(error, "reason", None)
    while isinstance(inner, BaseException):
        error, inner = inner, getattr(inner, "reason", None)
    text = str(error)
    return text.rpartition(": ")[2] or type(error).__name__
