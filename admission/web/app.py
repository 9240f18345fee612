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
from admission.web.reviews import ReviewEndpoint, in_front_of


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


class QuotaUsage(Protocol):
    """A quota as a status would show it."""

    @property
    def hard(self) -> Mapping[str, str]:
        """Resource name -> printed quantity."""

    @property
    def used(self) -> Mapping[str, str]:
        """Resource name -> printed quantity."""


UsageOf = Callable[["str | None"], Mapping[str, Mapping[str, QuotaUsage]]]
"""Namespace (all where None) -> quota name -> usage."""


def webhook_app(pipeline: Pipeline, metrics: Metrics, max_body: int) -> Flask:
    """What listens on the webhook port: `/mutate` and `/validate`."""
    app = _flask("quota-admission-webhook")
    app.wsgi_app = in_front_of(  # type: ignore[method-assign,assignment]
        app.wsgi_app,
        {
            "/mutate": ReviewEndpoint("mutate", pipeline.mutate, metrics, max_body),
            "/validate": ReviewEndpoint("validate", pipeline.validate, metrics, max_body),
        },
    )
    return app


def admin_app(checks: Callable[[], Sequence[Check]], usage: UsageOf, metrics: Metrics) -> Flask:
    """What listens on the admin port."""
    app = _flask("quota-admission-admin")

    @app.get("/healthz")
    def healthz() -> Response:
        return _text("ok")

    @app.get("/readyz")
    def readyz() -> Response:
        found = checks()
        ready = all(check.ready for check in found)
        lines = ["ok" if ready else "not ready"]
        if "verbose" in request.args or not ready:
            lines = [*(check.line() for check in found), f"readyz check {'passed' if ready else 'failed'}"]
        return _text("\n".join(lines), 200 if ready else 503)

    @app.get("/metrics")
    def exposition() -> Response:
        return Response(metrics.exposition(), content_type=CONTENT_TYPE)

    @app.get("/usage.json")
    def usage_json() -> Response:
        namespaces: dict[str, Any] = {
            namespace: {
                "resourceQuotas": {
                    name: {"hard": dict(quota.hard), "used": dict(quota.used)} for name, quota in quotas.items()
                }
            }
            for namespace, quotas in usage(request.args.get("namespace")).items()
        }
        return Response(orjson.dumps({"namespaces": namespaces}) + b"\n", content_type="application/json")

    return app


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
