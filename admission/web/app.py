"""The Flask applications: the webhook port, and the admin port with health, metrics and usage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from admission.pipeline import Pipeline
from admission.web.metrics import CONTENT_TYPE, Metrics
from admission.web.reviews import ALONE, ReviewEndpoint, Serving, in_front_of


@dataclass(frozen=True)
class Check:
    """One line of the readiness report. What is `degraded` still works, on something older than it should be."""

    name: str
    ready: bool
    note: str = ""

    @property
    def degraded(self) -> bool:
        """Ready, with something to say."""
        return self.ready and bool(self.note)

    def line(self) -> str:
        """As Kubernetes components write it: `[+]name ok`."""
        if not self.ready:
            return f"[-]{self.name} failed: {self.note}"
        return f"[!]{self.name} degraded: {self.note}" if self.note else f"[+]{self.name} ok"


Checks = Callable[[], Sequence[Check]]

UsageOf = Callable[["str | None"], Mapping[str, Mapping[str, Any]]]
"""Namespace (all where None) -> what is known of its policies, as JSON."""


class Exposing(Protocol):
    """Metrics, whoever counts them."""

    def exposition(self) -> bytes:
        """The metrics in the text format."""


def webhook_app(
    pipeline: Pipeline, metrics: Metrics, max_body: int, *, checks: Checks = tuple, serving: Serving = ALONE
) -> Flask:
    """The webhook port: `/mutate`, `/validate`, and `/readyz` for whoever cannot reach the other port."""
    app = _flask("quota-admission-webhook")
    _add_readiness(app, checks)
    app.wsgi_app = in_front_of(  # type: ignore[method-assign,assignment]
        app.wsgi_app,
        {
            "/mutate": ReviewEndpoint("mutate", pipeline.mutate, metrics, max_body, serving),
            "/validate": ReviewEndpoint("validate", pipeline.validate, metrics, max_body, serving),
        },
    )
    return app


def admin_app(checks: Checks, metrics: Exposing, usage: UsageOf | None = None) -> Flask:
    """What listens on the admin port; `/usage.json` where there is something to tell."""
    app = _flask("quota-admission-admin")
    _add_readiness(app, checks)

    @app.get("/healthz")
    def healthz() -> Response:
        return _text("ok")

    @app.get("/metrics")
    def exposition() -> Response:
        return Response(metrics.exposition(), content_type=CONTENT_TYPE)

    if usage is not None:

        @app.get("/usage.json")
        def usage_json() -> Response:
            found = usage(request.args.get("namespace"))
            return Response(orjson.dumps({"namespaces": found}) + b"\n", content_type="application/json")

    return app


def _add_readiness(app: Flask, checks: Checks) -> None:
    @app.get("/readyz")
    def readyz() -> Response:
        found = checks()
        ready = all(check.ready for check in found)
        lines = ["ok" if ready else "not ready"]
        if "verbose" in request.args or not ready:
            lines = [*(check.line() for check in found), f"readyz check {'passed' if ready else 'failed'}"]
        return _text("\n".join(lines), 200 if ready else 503)


def _flask(name: str) -> Flask:
    app = Flask(name, static_folder=None)

    @app.errorhandler(HTTPException)
    def one_line(error: HTTPException) -> Response:
        response = _text(f"{error.code} {error.name}: {request.method} {request.path[:100]}", error.code or 500)
        for header, value in error.get_headers():
            if header == "Allow":
                response.headers[header] = value
        return response

    return app


def _text(text: str, status: int = 200) -> Response:
    return Response(f"{text}\n", status, content_type="text/plain; charset=utf-8")
