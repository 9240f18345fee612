"""gunicorn around the Flask applications: one worker process, a few threads, TLS, an admin port beside it.

One worker, because then a server has one cache, one count and one registry of metrics; more come from more replicas.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Protocol

from flask import Flask
from gunicorn.app.base import BaseApplication
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from admission.web.tls import ServingCertificate
from admission.web.worker import ReviewWorker, ServerLogger

log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 25
"""How long requests under way may take after SIGTERM."""
_PR_SET_PDEATHSIG: Final = 1


class Service(Protocol):
    """What a worker serves. It is made in the worker process, so that threads and files belong to it."""

    webhook: Flask
    admin: Flask

    def drain(self) -> bool:
        """Say that the server is about to end: not ready any more. Whether that is news."""

    def stop(self) -> None:
        """Finish what is under way."""


@dataclass(frozen=True)
class Listening:
    """Where and how to listen. `admin` is bound already, so that a taken port is an error of the start."""

    bind: str
    admin: socket.socket
    certificate: ServingCertificate
    threads: int
    keepalive_seconds: int
    max_body: int
    drain_seconds: float = 0.0


class Server(BaseApplication):
    """Runs a service until SIGTERM or SIGINT."""

    def __init__(self, listening: Listening, make_service: Callable[[], Service]) -> None:
        self._listening = listening
        self._make_service = make_service
        self._service: Service | None = None
        self._admin_server: BaseWSGIServer | None = None
        self.max_body = listening.max_body
        super().__init__()

    def load_config(self) -> None:
        """gunicorn's settings."""
        settings: dict[str, Any] = {
            "bind": [self._listening.bind],
            "worker_class": ReviewWorker,
            "logger_class": ServerLogger,
            "workers": 1,
            "threads": self._listening.threads,
            "keepalive": self._listening.keepalive_seconds,
            "graceful_timeout": DRAIN_SECONDS,
            "worker_connections": 2000,
            "backlog": 1024,
            # gunicorn turns TLS on where a file is named; the hook below says how.
            "certfile": str(self._listening.certificate.path),
            "ssl_context": lambda _config, _default: self._listening.certificate.context(),
            "http_protocols": "h1",
            "control_socket_disable": True,
            "worker_tmp_dir": "/dev/shm" if os.path.isdir("/dev/shm") else None,  # noqa: S108
            "accesslog": None,
            "loglevel": "warning",
            "proc_name": "quota-admission",
            "when_ready": lambda _arbiter: _set_signals(),
            "post_fork": lambda _arbiter, worker: _begin(worker.age),
            "post_worker_init": lambda _worker: self._drain_on_signal(),
            "worker_exit": lambda _arbiter, _worker: self._stop(),
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """Called once in the worker process: make the service and start the admin port."""
        self._service = self._make_service()
        self._admin_server = serve_admin(self._listening.admin, self._service.admin)
        return self._service.webhook

    def _drain_on_signal(self) -> None:
        """Say "not ready" as soon as the end is asked for, before the last requests are answered."""
        signal.signal(signal.SIGTERM, self._draining(signal.getsignal(signal.SIGTERM)))
        # A terminal sends these to the worker too. The parent decides: a worker that ends before it would be replaced.
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def _draining(self, then: Any) -> Callable[[int, FrameType | None], None]:
        drain_seconds = self._listening.drain_seconds

        def handler(number: int, frame: FrameType | None) -> None:
            first = self._service is not None and self._service.drain()
            if first and drain_seconds:
                # Whoever has not heard of it yet still calls: take that, and say with each answer that this is the end.
                end = threading.Timer(drain_seconds, os.kill, (os.getpid(), signal.SIGTERM))
                end.daemon = True
                end.start()
            elif callable(then):
                then(number, frame)

        return handler

    def _stop(self) -> None:
        if self._admin_server is not None:
            self._admin_server.shutdown()
        if self._service is not None:
            self._service.stop()


class _AdminHandler(WSGIRequestHandler):
    """HTTP/1.1 with a time limit, and no access log."""

    protocol_version = "HTTP/1.1"
    timeout = 10

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the base names it so
        """Nothing."""


def serve_admin(listener: socket.socket, app: Flask) -> BaseWSGIServer:
    """Serve the admin port in a thread, until `shutdown`."""
    host, port = listener.getsockname()[:2]
    server = make_server(host, port, app, threaded=True, request_handler=_AdminHandler, fd=os.dup(listener.fileno()))
    threading.Thread(target=server.serve_forever, name="admin", daemon=True).start()
    return server


def listen(address: str) -> socket.socket:
    """A listening socket for `HOST:PORT` (`[::1]:8080` for IPv6); raises OSError or ValueError."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


def split_address(address: str) -> tuple[str, int]:
    """`HOST:PORT` as a pair; raises ValueError with what was expected."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"expected HOST:PORT, got {address!r}")
    return host.strip("[]") or "0.0.0.0", int(port)


def _set_signals() -> None:
    """What the parent process makes of signals.

    SIGINT is taken for SIGTERM, as gunicorn's own way is to cut off what is under way; so is SIGHUP at a terminal,
    which is then gone. The signals by which gunicorn starts other workers or another parent are passed over: there is
    one worker, which holds the count, and it reads changed files by itself.
    """
    passed_over = [signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2]
    endings = [signal.SIGINT]
    (endings if sys.stderr.isatty() else passed_over).append(signal.SIGHUP)
    for number in endings:
        signal.signal(number, lambda _number, _frame: os.kill(os.getpid(), signal.SIGTERM))
    for number in passed_over:
        signal.signal(number, signal.SIG_IGN)


def _begin(age: int) -> None:
    if age > 1:
        log.error("the worker process was replaced: what was admitted and is in no state file is forgotten")
    _die_with_parent()


def _die_with_parent() -> None:
    """A worker whose parent was killed must not keep port and state file: on Linux it ends with it."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
