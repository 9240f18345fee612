"""The refusals of an API server: code, reason and text, as a client receives them (Kubernetes 1.36)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Cause(NamedTuple):
    """A field that is wrong, and why: `Invalid value: "1": must be ...`."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True)
class Status:
    """A refusal. `reason` may be empty; `kind`, `name` and `causes` are the details of an Invalid one."""

    code: int
    reason: str
    message: str
    kind: str = ""
    name: str = ""
    causes: tuple[Cause, ...] = ()


class Refused(Exception):
    """The request ends here."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def invalid(kind: str, name: str, causes: Sequence[Cause]) -> Status:
    """An object that breaks rules of its kind."""
    texts = list(dict.fromkeys(map(str, causes)))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Status(422, "Invalid", f'{kind} "{name}" is invalid: {listed}', kind, name, tuple(causes))


def unreadable(api_version: str, kind: str, problem: str) -> Status:
    """An object that the API cannot read as one of its kind."""
    version = api_version.rpartition("/")[2]
    return Status(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')


def not_found(resource: str, name: str) -> Status:
    """An update of an object that is not there."""
    return Status(404, "NotFound", f'{resource} "{name}" not found')


def internal(problem: str) -> Status:
    """Something that went wrong on the way."""
    return Status(500, "InternalError", f"Internal error occurred: {problem}")


def webhook_failed(webhook: str, problem: str) -> Status:
    """A webhook that could not be called, or whose answer makes no sense."""
    return internal(f'failed calling webhook "{webhook}": {problem}')


def denied_by(webhook: str, answer: Mapping[str, Any]) -> Status:
    """The refusal of a webhook, from the `status` of its answer."""
    code, reason, message = answer.get("code"), answer.get("reason"), answer.get("message")
    by = f'admission webhook "{webhook}" denied the request'
    explanation = message or reason
    return Status(
        code if isinstance(code, int) and code >= 400 else 400,
        str(reason or ""),
        f"{by}: {explanation}" if explanation else f"{by} without explanation",
    )
