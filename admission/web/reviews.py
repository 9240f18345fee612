"""The two hot endpoints: a review in, an answer out. Plain WSGI, because they are called for every object created.

Whatever comes in, exactly one outcome is recorded: allowed, denied, bad_call, unready or error. Nothing of an object is
logged.
"""

from __future__ import annotations

import binascii
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qs

import orjson

from admission.errors import BadCall
from admission.objects import AdmissionReview, decode_review
from admission.pipeline import API_VERSION, Answer
from admission.web.metrics import Metrics

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds a caller waits that does not say how long: the default of webhook configurations."""
_MARGIN: Final = 0.9
"""Which part of the caller's time is used, so that the answer arrives within it."""
_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_STATUS_TEXTS: Final = {
    400: "Bad Request",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Judge(Protocol):
    """A stage of the pipeline."""

    def __call__(self, review: AdmissionReview, *, now: float, deadline: float) -> Answer:
        """The answer; raises BadCall."""


@dataclass(frozen=True)
class Serving:
    """How calls are served.

    Who runs, does so within `slots`. While `draining`, each connection ends with its next answer. `await_ready` waits
    until there is something to judge by, at most until a time of the monotonic clock: who knows no policies yet would
    admit everything.
    """

    slots: AbstractContextManager[None] = field(default_factory=nullcontext)
    draining: Callable[[], bool] = lambda: False
    await_ready: Callable[[float], bool] = lambda _give_up: True


ALONE: Final = Serving()
"""Every thread runs, and there is no end in sight."""


class ReviewEndpoint:
    """A WSGI application that answers the reviews of one stage."""

    def __init__(self, stage: str, judge: Judge, metrics: Metrics, max_body: int, serving: Serving = ALONE) -> None:
        self._serving = serving
        self._stage = stage
        self._judge = judge
        self._metrics = metrics
        self._max_body = max_body

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one call."""
        started = time.monotonic()
        give_up = started + timeout_of(environ.get("QUERY_STRING", "")) * _MARGIN
        if not self._serving.await_ready(give_up):
            self._record("unready", "", started)
            _close_afterwards(start_response)
            return _plain(start_response, 503, "not ready: the policies are not known yet")
        with self._serving.slots:
            return self._answer(environ, start_response, started, give_up)

    def _answer(
        self, environ: WSGIEnvironment, start_response: StartResponse, started: float, deadline: float
    ) -> Iterable[bytes]:
        try:
            review = decode_review(self._body(environ))
            answer = self._judge(review, now=time.time(), deadline=deadline)
            payload = encode(answer)
        except BadCall as error:
            _close_afterwards(start_response)
            self._record("bad_call", str(error.status), started)
            log.warning("bad call", extra={"stage": self._stage, "status": error.status, "problem": error.message})
            return _plain(start_response, error.status, error.message)
        except Exception as error:
            self._record("error", type(error).__name__, started)
            log.error("a review failed", extra={"stage": self._stage, "failure": where_it_failed(error)})  # noqa: TRY400
            return _plain(start_response, 500, "internal error: the server's log says where")
        self._record("allowed" if answer.allowed else "denied", answer.reason, started)
        _log_decision(self._stage, review, answer, time.monotonic() - started)
        if self._serving.draining():
            _close_afterwards(start_response)
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(payload)))])
        return [payload]

    def _record(self, outcome: str, reason: str, started: float) -> None:
        self._metrics.count_review(self._stage, outcome, reason, time.monotonic() - started)

    def _body(self, environ: WSGIEnvironment) -> bytes:
        if environ["REQUEST_METHOD"] != "POST":
            raise BadCall(f"expected POST, got {environ['REQUEST_METHOD'][:20]}", 405)
        content_type = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise BadCall(f'expected Content-Type application/json, got "{content_type[:60]}"', 415)
        length = environ.get("CONTENT_LENGTH") or ""
        if length and (not length.isdecimal() or len(length) > 15 or int(length) > self._max_body):
            raise BadCall(f"the body is larger than {self._max_body} bytes", 413)
        if not length and not environ.get("wsgi.input_terminated"):
            raise BadCall("expected a Content-Length", 411)
        body = _read(environ["wsgi.input"], int(length) if length else self._max_body + 1)
        if len(body) > self._max_body:
            raise BadCall(f"the body is larger than {self._max_body} bytes", 413)
        if length and len(body) < int(length):
            raise BadCall(f"the body ended after {len(body)} of {length} bytes")
        return body


def _read(stream: Any, most: int) -> bytes:
    """The body; whatever keeps it from being read is the caller's doing."""
    try:
        return bytes(stream.read(most))
    except TimeoutError:
        raise BadCall("the body did not arrive in time", 408) from None
    except Exception as error:  # gunicorn's errors for broken chunks have no base of their own
        raise BadCall(f"the body cannot be read: {type(error).__name__}") from None


def _close_afterwards(start_response: StartResponse) -> None:
    """End the connection after this answer.

    So it is after a bad call, as what is left of a body that was not read is no next request, and before the end.
    """
    close = getattr(getattr(start_response, "__self__", None), "force_close", None)
    if close is not None:
        close()


def encode(answer: Answer) -> bytes:
    """The AdmissionReview that answers."""
    response: dict[str, Any] = {"uid": answer.uid, "allowed": answer.allowed}
    if not answer.allowed:
        response["status"] = {
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "code": 403,
            "reason": "Forbidden",
            "message": answer.message,
        }
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = binascii.b2a_base64(orjson.dumps(answer.patch), newline=False).decode("ascii")
    if answer.warnings:
        response["warnings"] = answer.warnings
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


def timeout_of(query: str) -> float:
    """The caller's time in seconds, from `?timeout=10s`; the default where it is missing or makes no sense."""
    if not query:
        return DEFAULT_TIMEOUT
    text = parse_qs(query).get("timeout", [""])[-1][:32]
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return DEFAULT_TIMEOUT
    return min(max(sum(float(number) * _UNITS[unit] for number, unit in parts), 0.1), 30.0)


def where_it_failed(error: BaseException) -> str:
    """Type and place of an error, without its message, which could hold a part of an object."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{frame.name} ({frame.filename.rsplit('/', 2)[-1]}:{frame.lineno})" for frame in frames[::-1])
    return f"{type(error).__name__} in {places}"


def _log_decision(stage: str, review: AdmissionReview, answer: Answer, seconds: float) -> None:
    level = logging.DEBUG if answer.allowed else logging.INFO
    if review.request is None or not log.isEnabledFor(level):
        return
    request = review.request
    log.log(
        level,
        "allowed" if answer.allowed else "denied",
        extra={
            "stage": stage,
            "uid": request.uid,
            "operation": request.operation,
            "kind": request.resource.name,
            "namespace": request.namespace or "",
            "object": request.name or "",
            "reason": answer.reason,
            "milliseconds": round(seconds * 1000, 3),
        },
    )


def _plain(start_response: StartResponse, status: int, line: str) -> Iterable[bytes]:
    payload = " ".join(line.split()).encode("utf-8", "replace") + b"\n"
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(payload)))]
    if status == 405:
        headers.append(("Allow", "POST"))
    start_response(f"{status} {_STATUS_TEXTS.get(status, 'Error')}", headers)
    return [payload]


WsgiApp = Callable[["WSGIEnvironment", "StartResponse"], Iterable[bytes]]


def in_front_of(fallback: WsgiApp, endpoints: dict[str, ReviewEndpoint]) -> WsgiApp:
    """A WSGI application that takes the paths of the endpoints itself and leaves all others to `fallback`."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        endpoint = endpoints.get(environ.get("PATH_INFO", ""))
        return endpoint(environ, start_response) if endpoint else fallback(environ, start_response)

    return application
