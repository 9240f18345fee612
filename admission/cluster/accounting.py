"""Who keeps the count: we, or the built-in plugin of the API server.

The controller finds out and writes it on the ValidatingWebhookConfiguration; each server follows that one object.
"""

from __future__ import annotations

import logging
from typing import Final, Literal, NamedTuple

import msgspec

from admission.cluster.reflector import Reflector, Source
from admission.cluster.transport import Transport

log = logging.getLogger(__name__)

Mode = Literal["webhook", "apiserver"]
Setting = Literal["webhook", "apiserver", "auto"]

CONFIGURATION: Final = "quota-admission"
PATH: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MODE_ANNOTATION: Final = "quota-admission.dev/accounting"
REASON_ANNOTATION: Final = "quota-admission.dev/accounting-reason"


class Accounting(NamedTuple):
    """Who keeps the count, and why that is so."""

    mode: Mode
    reason: str


UNKNOWN: Final = Accounting("webhook", "the controller has not found out yet whether the built-in plugin is on")


class _Meta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Configuration(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Configuration).decode


class AccountingSwitch:
    """What holds at the moment: the setting, or with `auto` what the controller has found out."""

    def __init__(self, transport: Transport, setting: Setting) -> None:
        self._setting = setting
        self.reflector = Reflector(
            transport, Source(PATH, {"fieldSelector": f"metadata.name={CONFIGURATION}"}), _found, self._found_out
        )
        self._current = self._decide(None)
        self._log("accounting")

    @property
    def current(self) -> Accounting:
        """Who keeps the count now."""
        return self._current

    def writes(self) -> bool:
        """Whether the count is ours to keep."""
        return self._current.mode == "webhook"

    def set(self, setting: Setting) -> None:
        """Take another setting."""
        if setting != self._setting:
            self._setting = setting
            self._take(self.reflector.namespace("").get(CONFIGURATION))

    def _found_out(self, _namespace: str, _name: str, _was: Accounting | None, now: Accounting | None) -> None:
        self._take(now)

    def _take(self, found: Accounting | None) -> None:
        decided = self._decide(found)
        if decided != self._current:
            changed = decided.mode != self._current.mode
            self._current = decided
            self._log("accounting changed" if changed else "accounting")

    def _decide(self, found: Accounting | None) -> Accounting:
        if self._setting != "auto":
            return Accounting(self._setting, "the configuration says so")
        return UNKNOWN if found is None else found

    def _log(self, event: str) -> None:
        log.info(event, extra={"accounting": self._current.mode, "why": self._current.reason})


def _found(data: msgspec.Raw) -> Accounting:
    annotations = _decode(data).metadata.annotations or {}
    mode, reason = annotations.get(MODE_ANNOTATION), annotations.get(REASON_ANNOTATION, "")
    if mode == "apiserver":
        return Accounting("apiserver", reason)
    return Accounting("webhook", reason) if mode == "webhook" else UNKNOWN
