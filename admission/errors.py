"""The errors of a decision.

AdmissionError
├── Denied      the user's object is bad: answered with `allowed: false` and HTTP status 403 inside the review
└── BadCall     the call itself is bad: answered with that HTTP status and one clear line
"""

from __future__ import annotations

from collections.abc import Iterable


class AdmissionError(Exception):
    """Any outcome of a call other than admission."""


class Denied(AdmissionError):
    """The request is refused.

    `message` is the built-in plugin's text after `... is forbidden: `; `hints` are warnings for people: what is
    missing, where, and by how much. `reason` is a short machine word for metrics, one of a small fixed set.
    """

    def __init__(self, message: str, *, reason: str, hints: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.hints = tuple(hints)


class BadCall(AdmissionError):
    """The call is not one that can be judged; `status` is the HTTP status to answer with."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
