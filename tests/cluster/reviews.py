"""Reviews sent straight to a server of a rig, as an API server sends them."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.rig import Replica

Json = dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """What came back, after how many seconds, and whether the connection ends with it."""

    status: int
    text: str
    seconds: float
    closes: bool

    @property
    def response(self) -> Json:
        """The part of the AdmissionReview that answers."""
        assert self.status == 200, self.text
        return json.loads(self.text)["response"]  # type: ignore[no-any-return]

    @property
    def verdict(self) -> str:
        """`allowed`, the text of the refusal, or the HTTP status where it is no answer to the review."""
        if self.status != 200:
            return f"HTTP {self.status}"
        if self.response["allowed"]:
            return "allowed"
        status = self.response["status"]
        assert (status["code"], status["reason"]) == (403, "Forbidden")
        return str(status["message"])


class Line:
    """A connection to the webhook port of one server, kept open."""

    def __init__(self, server: Replica, ca_file: Path) -> None:
        context = ssl.create_default_context(cafile=str(ca_file))
        self.connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=40, context=context)

    def ask(self, path: str, review: Json) -> Answered:
        """One review; `path` with its query."""
        begun = time.monotonic()
        self.connection.request("POST", path, json.dumps(review), {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        text = response.read().decode()
        closes = response.getheader("Connection", "").lower() == "close"
        return Answered(response.status, text, time.monotonic() - begun, closes)

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


def ask(server: Replica, ca_file: Path, path: str, review: Json) -> Answered:
    """One review on a connection of its own."""
    line = Line(server, ca_file)
    try:
        return line.ask(path, review)
    finally:
        line.close()
