"""gunicorn's threaded worker and logger, where the stock ones do not fit a webhook.

There are few threads, so none of them may wait for a client: a connection takes a thread when its request is there as a
whole. Until then the event loop waits for it, through the handshake, the head and the body.
"""

from __future__ import annotations

import contextlib
import logging
import re
import select
import ssl
import threading
import time
from typing import Any, Final

from gunicorn import http, sock, util
from gunicorn.glogging import Logger
from gunicorn.http import errors
from gunicorn.workers import gthread

log = logging.getLogger(__name__)

GRACE_MILLISECONDS: Final = 10
"""How long a thread waits for the rest of a request before it leaves that to the event loop."""
PATIENCE: Final = 10.0
"""Seconds that a client has for the handshake, or from the first to the last byte of a request."""
LAST_PATIENCE: Final = 3.0
"""Seconds that a client has for the rest of its request once the server is about to end."""
MAX_HEAD: Final = 65536
"""Bytes of a head that are gathered; gunicorn refuses smaller ones already."""
MAX_GATHERED: Final = 64 * 2**20
"""Bytes that all unfinished requests together may hold; beyond, connections are closed."""

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_CHUNK_SIZE: Final = re.compile(rb"[0-9a-f]+[ \t]*(;.*)?", re.IGNORECASE)
_STATUS: Final = {
    errors.LimitRequestLine: (414, "URI Too Long"),
    errors.LimitRequestHeaders: (431, "Request Header Fields Too Large"),
    errors.ExpectationFailed: (417, "Expectation Failed"),
    errors.UnsupportedTransferCoding: (501, "Not Implemented"),
}


class ReviewWorker(gthread.ThreadWorker):
    """Spends threads on whole requests only, and answers broken HTTP with one plain line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._max_body: int = getattr(self.app, "max_body", MAX_GATHERED)
        self._ended_at: float | None = None
        self._gathered = 0
        self._gathered_lock = threading.Lock()

    def handle(self, conn: Any) -> Any:
        """Serve a connection, as the base."""
        try:
            if not (conn.initialized or _shake_hands(conn)) or not self._gather(conn):
                return gthread._DEFER  # type: ignore[attr-defined]
        except (OSError, ssl.SSLError, ValueError):
            self._forget(conn)
            return False
        return super().handle(conn)

    def _gather(self, conn: Any) -> bool:
        """Whether the next request is there; if so, the parser has it."""
        received: bytearray = conn.__dict__.setdefault("received", bytearray())
        received += conn.parser.unreader.take_buffered()
        conn.sock.setblocking(False)
        ended = False
        while not ended and not is_whole(received, self._max_body):
            try:
                chunk = conn.sock.recv(65536)
            except ssl.SSLWantReadError:
                if not _readable(conn.sock):
                    return False
                continue
            ended = not chunk
            received += chunk
            self._account(len(chunk))
        if not received:
            raise ConnectionResetError
        conn.parser.unreader.unread(bytes(received))
        self._forget(conn)
        return True

    def finish_request(self, conn: Any, fs: Any) -> None:
        """As the base; a connection that is waited for is not waited for as long as an idle one."""
        super().finish_request(conn, fs)
        if self.pending_conns and self.pending_conns[-1] is conn:
            conn.timeout = conn.__dict__.setdefault("unfinished_since", time.monotonic()) + PATIENCE

    def murder_pending(self) -> None:
        """Close the connections that were waited for long enough."""
        now = time.monotonic()
        if not self.alive:
            self._hurry(now)
        overdue = [conn for conn in self.pending_conns if conn.timeout is not None and conn.timeout <= now]
        for conn in overdue:
            self.pending_conns.remove(conn)
            self._forget(conn)
            with contextlib.suppress(OSError, KeyError, ValueError):
                self.poller.unregister(conn.sock)
            self.nr_conns -= 1
            conn.close()

    def _hurry(self, now: float) -> None:
        """While the server ends: who has begun a request may finish it, who has said nothing is not waited for."""
        self._ended_at = self._ended_at or now
        for conn in self.pending_conns:
            limit = self._ended_at + LAST_PATIENCE if conn.__dict__.get("received") else now
            conn.timeout = limit if conn.timeout is None else min(conn.timeout, limit)

    def _account(self, size: int) -> None:
        with self._gathered_lock:
            self._gathered += size
        if self._gathered > MAX_GATHERED and size > 0:
            raise ConnectionAbortedError

    def _forget(self, conn: Any) -> None:
        conn.__dict__.pop("unfinished_since", None)
        received = conn.__dict__.pop("received", b"")
        self._account(-len(received))

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer what cannot be parsed. Nothing of it is logged: it may be a part of a body."""
        status, reason = next((found for kind, found in _STATUS.items() if isinstance(exc, kind)), (400, "Bad Request"))
        log.warning("bad call", extra={"status": status, "problem": type(exc).__name__})
        line = f"the request cannot be read: {type(exc).__name__}\n".encode()
        head = f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
        with contextlib.suppress(Exception):
            util.write_nonblock(client, f"{head}Content-Length: {len(line)}\r\n\r\n".encode() + line)


def is_whole(received: bytes | bytearray, max_body: int) -> bool:
    """Whether these bytes hold a request that can be dealt with without waiting for its client.

    That is one with all of its body, one whose body is too large to be read, and one whose end the parser has to find.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return len(received) > MAX_HEAD
    head = bytes(received[: end + 2])
    if _CHUNKED.search(head):
        return _is_whole_in_chunks(bytes(received[end + 4 :]), max_body)
    length = _LENGTH.search(head)
    if length is None:
        return True
    body = int(length[1])
    return body > max_body or len(received) >= end + 4 + body


def _is_whole_in_chunks(body: bytes, max_body: int) -> bool:
    """Whether this is the end of a body in chunks, or one that the parser will refuse."""
    size, line, _ = body.partition(b"\r\n")
    if (line and not _CHUNK_SIZE.fullmatch(size)) or len(size) > 100:
        return True
    return body.endswith(b"\r\n\r\n") or len(body) > 2 * max_body


def _shake_hands(conn: Any) -> bool:
    """Go on with the TLS handshake; whether it is done."""
    if not isinstance(conn.sock, ssl.SSLSocket):
        conn.sock = sock.ssl_wrap_socket(conn.sock, conn.cfg)
    conn.sock.setblocking(False)
    while True:
        try:
            conn.sock.do_handshake()
        except ssl.SSLWantReadError:
            if not _readable(conn.sock):
                return False
        else:
            conn.parser = http.get_parser(conn.cfg, conn.sock, conn.client)
            conn.initialized = True
            return True


def _readable(connection: ssl.SSLSocket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(GRACE_MILLISECONDS))


class _Unremarkable(logging.Filter):
    """Clients that stall or vanish are no news, and gunicorn would print a traceback for each."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, TimeoutError | ConnectionError)


class ServerLogger(Logger):
    """What gunicorn says goes where all log lines go."""

    def setup(self, cfg: Any) -> None:
        """Leave the lines to the root logger."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
        self.error_log.filters[:] = [_Unremarkable()]
