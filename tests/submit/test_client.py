"""The connection to the server: kept, trusted, and its failures in the words of an API server."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from admission.apiserver import CallFailed
from admission.cli._submit_client import ServerAddress, WebhookConnection, trusting
from certs import ensure


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Certificates of two CAs; those of `elsewhere` are for another name."""
    made = {name: tmp_path_factory.mktemp(name) for name in ("ours", "theirs", "elsewhere")}
    for name, folder in made.items():
        addresses = [] if name == "elsewhere" else ["127.0.0.1"]
        ensure(folder, ["elsewhere.example"], addresses, now=datetime.now(UTC))
    return made


class Listener:
    """A server of one's own; counts its connections."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None], folder: Path | None, reads: bool) -> None:
        self.connections = 0
        self.paths: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet

            def setup(self) -> None:
                outer.connections += 1
                if context is not None:
                    self.request = context.wrap_socket(self.request, server_side=True)
                super().setup()

            def finish(self) -> None:
                super().finish()
                self.request.close()

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                outer.paths.append(self.path)
                if reads:
                    self.body = self.rfile.read(int(self.headers["Content-Length"]))
                answer(self)

        context = None
        if folder is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False  # so that all have ended when the server is closed
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.port = self.server.server_address[1]


@contextlib.contextmanager
def listening(
    answer: Callable[[BaseHTTPRequestHandler], None] | None = None, folder: Path | None = None, *, reads: bool = True
) -> Iterator[Listener]:
    listener = Listener(answer or sending(200, b"ok"), folder, reads)
    thread = threading.Thread(target=listener.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.server.shutdown()
        listener.server.server_close()


def sending(status: int, body: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@contextlib.contextmanager
def connected(port: int, ca: Path, *, host: str = "127.0.0.1", timeout: float = 10.0) -> Iterator[WebhookConnection]:
    connection = WebhookConnection(ServerAddress(f"https://{host}:{port}"), trusting(ca / "ca.crt"), timeout)
    try:
        yield connection
    finally:
        connection.close()


def problem(port: int, ca: Path, **more: Any) -> str:
    with connected(port, ca, **more) as connection, pytest.raises(CallFailed) as raised:
        connection.call("/mutate", b"{}")
    return str(raised.value)


def test_calls_share_one_connection(folders):
    def echo(handler: Any) -> None:
        sending(200, handler.body)(handler)

    with listening(echo, folders["ours"]) as listener, connected(listener.port, folders["ours"]) as connection:
        assert [connection.call("/mutate", b"one"), connection.call("/validate", b"two")] == [b"one", b"two"]
        assert listener.connections == 1
        assert listener.paths == ["/mutate?timeout=10s", "/validate?timeout=10s"]


def test_a_connection_that_the_server_closed_meanwhile_is_opened_again(folders):
    def once(handler: BaseHTTPRequestHandler) -> None:
        sending(200, b"ok")(handler)
        handler.close_connection = True  # without having said so

    with listening(once, folders["ours"]) as listener, connected(listener.port, folders["ours"]) as connection:
        assert [connection.call("/mutate", b"{}") for _ in range(3)] == [b"ok"] * 3
        assert listener.connections == 3


def test_a_server_may_answer_before_it_has_read_everything(folders):
    def refuse(handler: Any) -> None:
        if handler.path.startswith("/large"):
            sending(413, b"too large")(handler)
            handler.close_connection = True
        else:
            sending(200, handler.rfile.read(int(handler.headers["Content-Length"])))(handler)

    with listening(refuse, folders["ours"], reads=False) as listener:
        with connected(listener.port, folders["ours"]) as connection:
            assert connection.call("/small", b"one") == b"one"
            with pytest.raises(CallFailed, match="the request is too large \\(HTTP 413: too large\\)"):
                connection.call("/large", b"x" * 8_000_000)
            assert connection.call("/small", b"two") == b"two"


def test_an_answer_that_is_lost_on_a_new_connection_is_not_asked_for_again(folders):
    def vanish(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True

    with listening(vanish, folders["ours"]) as listener:
        assert problem(listener.port, folders["ours"]).endswith(": EOF")
        assert listener.connections == 1


def test_a_port_that_nobody_listens_on(folders):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        assert problem(port, folders["ours"]) == (
            f'Post "https://127.0.0.1:{port}/mutate?timeout=10s": '
            f"dial tcp 127.0.0.1:{port}: connect: connection refused"
        )


@pytest.mark.parametrize(
    ("server", "ca", "ending"),
    [
        ("theirs", "ours", "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        (
            "elsewhere",
            "elsewhere",
            "tls: failed to verify certificate: x509: IP address mismatch, certificate is not valid for '127.0.0.1'.",
        ),
        (None, "ours", "http: server gave HTTP response to HTTPS client"),
    ],
)
def test_a_server_that_is_not_to_be_trusted(folders, server, ca, ending):
    with listening(folder=folders[server] if server else None) as listener:
        assert problem(listener.port, folders[ca]).endswith(f'": {ending}')
        assert listener.paths == []


def test_a_server_that_says_nothing(folders):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert problem(port, folders["ours"], timeout=0.2) == (
            f'Post "https://127.0.0.1:{port}/mutate?timeout=0.2s": context deadline exceeded'
        )


def test_a_server_that_hangs_up_at_once(folders):
    def hang_up(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as rude:
        threading.Thread(target=hang_up, args=(rude,), daemon=True).start()
        found = problem(rude.getsockname()[1], folders["ours"])
    assert found.endswith((": EOF", ": connection reset by peer"))


def test_a_name_that_does_not_exist(folders):
    assert problem(1, folders["ours"], host="no-such-host.invalid").endswith(
        ": dial tcp: lookup no-such-host.invalid: no such host"
    )


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (
            500,
            b"internal error: look\n",
            'an error on the server ("internal error: look") has prevented the request from succeeding',
        ),
        (503, b"", 'an error on the server ("unknown") has prevented the request from succeeding'),
        (
            400,
            b"request.uid: expected a text\n",
            "the server rejected our request for an unknown reason (HTTP 400: request.uid: expected a text)",
        ),
        (404, b"", "the server could not find the requested resource"),
        (
            302,
            b"go\n there",
            "the server responded with the status code 302 but did not return more information (HTTP 302: go there)",
        ),
    ],
)
def test_answers_that_are_not_200(folders, status, body, expected):
    with listening(sending(status, body), folders["ours"]) as listener:
        assert problem(listener.port, folders["ours"]) == expected


@pytest.mark.parametrize(
    ("url", "place", "path"),
    [
        ("https://127.0.0.1:10250", "127.0.0.1:10250", ""),
        ("https://webhook.example", "webhook.example:443", ""),
        ("https://[::1]:8443/", "[::1]:8443", ""),
        ("https://host:1/a/b/", "host:1", "/a/b"),
    ],
)
def test_addresses(url, place, path):
    address = ServerAddress(url)
    assert (address.place, address.path) == (place, path)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:10250", "http://host:1", "https://", "https://host:port", "https://h?a=b"]
)
def test_what_is_no_address(url):
    with pytest.raises(ValueError):
        ServerAddress(url)
