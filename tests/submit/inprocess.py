"""An API server in front of the pipeline, in one process: nothing random, no network."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from admission.apiserver import ApiServer, Sources
from admission.objects import decode_review
from admission.web.reviews import encode
from tests.unit.fakes import Namespace

Json = dict[str, Any]


class Pipelined:
    """The webhooks of a namespace; keeps what it was asked as (path, request)."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.asked: list[tuple[str, Json]] = []

    def call(self, path: str, body: bytes) -> bytes:
        self.asked.append((path, json.loads(body)["request"]))
        stage = {"/mutate": self.namespace.mutate, "/validate": self.namespace.validate}[path]
        return encode(stage(decode_review(body)))


class Scripted:
    """Webhooks that answer by the given functions of the request: they change the `response` of a plain admission."""

    def __init__(self, **changes: Callable[[Json], Json]) -> None:
        self.changes = changes
        self.asked: list[tuple[str, Json]] = []

    def call(self, path: str, body: bytes) -> bytes:
        request = json.loads(body)["request"]
        self.asked.append((path, request))
        response = {"uid": request["uid"], "allowed": True, **self.changes.get(path[1:], lambda _: {})(request)}
        return json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()


def counting_sources() -> Sources:
    """UIDs `uid-1`, `uid-2`, ...; endings `aaaaa`; the time never moves."""
    serial = itertools.count(1)
    return Sources(
        uid=lambda: f"uid-{next(serial)}",
        suffix=lambda: "aaaaa",
        now=lambda: datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    )


def api_server(webhooks: Any) -> ApiServer:
    return ApiServer(webhooks, counting_sources())


def unchanged(obj: Json) -> Callable[[], bool]:
    """Whether an object is still as it is now."""
    before = copy.deepcopy(obj)
    return lambda: obj == before
