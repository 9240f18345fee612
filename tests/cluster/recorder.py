"""A webhook server that says yes to everything, unless told otherwise, and keeps what it was asked."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from certs import Authority, Names, issue_ca, issue_leaf

Json = dict[str, Any]


class Asked(NamedTuple):
    """What a review was about: `mutate` or `validate`, `UPDATE`, `pods/resize`."""

    stage: str
    operation: str
    what: str


class Recorder:
    """Listens on loopback with a certificate of its own CA, whose file is `ca_file`."""

    def __init__(self, folder: Path) -> None:
        self.ready = True
        self.refusal = ""
        """The text with which validation refuses; empty where it allows."""
        self.ca_file = folder / "ca.crt"
        self._authority = new_authority(self.ca_file)
        self._asked: list[tuple[str, Asked]] = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = self._context(folder).wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked(self, namespace: str) -> list[Asked]:
        """What was asked about a namespace since this was called last."""
        taken = [asked for where, asked in self._asked if where == namespace]
        self._asked = [(where, asked) for where, asked in self._asked if where != namespace]
        return taken

    def answer(self, stage: str, review: Json) -> Json:
        request = review["request"]
        sub_resource = request.get("subResource", "")
        what = f"{request['resource']['resource']}{'/' if sub_resource else ''}{sub_resource}"
        self._asked.append((request.get("namespace", ""), Asked(stage, request["operation"], what)))
        refusal = self.refusal if stage == "validate" else ""
        response: Json = {"uid": request["uid"], "allowed": not refusal}
        if refusal:
            response["status"] = {"code": 403, "reason": "Forbidden", "message": refusal}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}

    def _context(self, folder: Path) -> ssl.SSLContext:
        pair = issue_leaf(self._authority, Names.parse([], ["127.0.0.1"]), now=datetime.now(UTC))
        (folder / "tls.crt").write_bytes(pair.leaf.public_bytes(Encoding.PEM))
        (folder / "tls.key").write_bytes(pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        return context

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:  # a client that does not like the certificate, or has enough
                    self.close_connection = True

            def do_GET(self) -> None:
                self._send(200 if self.path == "/readyz" and recorder.ready else 503, b"")

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stage = self.path.partition("?")[0].strip("/")
                self._send(200, json.dumps(recorder.answer(stage, review)).encode())

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler


def new_authority(file: Path) -> Authority:
    """A new CA, its certificate put in a file."""
    authority = issue_ca(now=datetime.now(UTC))
    file.write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    return authority
