"""The order in which an API server does things with a request: the one place that knows it.

CREATE: defaults, mutating webhook, patch, defaults again, name and UID, the API's own rules, validating webhook. UPDATE
is the same with the old object beside it; DELETE is the validating webhook alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from admission.apiserver.defaulting import with_api_defaults
from admission.apiserver.patching import PatchError, apply_patch
from admission.apiserver.preparing import as_stored, prepared_for_creation, prepared_for_update
from admission.apiserver.review import Answer, BadAnswer, Change, Target, build_review, read_answer
from admission.apiserver.shapes import Json, Malformed, shaped
from admission.apiserver.statuses import (
    Cause,
    Refused,
    Status,
    denied_by,
    internal,
    invalid,
    not_found,
    unreadable,
    webhook_failed,
)
from admission.apiserver.validation import pod_errors, resize_errors
from admission.kinds import Resource, resource_of
from admission.objects import Pod
from admission.patch import Operation

MUTATING: Final = "defaults.quota-admission.dev"
ENFORCING: Final = "enforce.quota-admission.dev"
_PATHS: Final = {MUTATING: "/mutate", ENFORCING: "/validate"}


class CallFailed(Exception):
    """A webhook that could not be called; the message says why, as an API server's would."""


class Webhooks(Protocol):
    """The way to the server."""

    def call(self, path: str, body: bytes) -> bytes:
        """The body of the answer to a POST; raises CallFailed."""


@dataclass(frozen=True)
class Sources:
    """Where what an API server makes up comes from: UIDs, endings of generated names, and the time."""

    uid: Callable[[], str]
    suffix: Callable[[], str]
    now: Callable[[], datetime]


@dataclass(frozen=True)
class Outcome:
    """How a request ended: `stored` is the object as stored (None after a DELETE), `status` the refusal."""

    stored: Json | None
    status: Status | None
    patch: tuple[Operation, ...]
    warnings: tuple[str, ...]


class ApiServer:
    """An API server without storage, with the two webhooks of this project."""

    def __init__(self, webhooks: Webhooks, sources: Sources) -> None:
        self._webhooks = webhooks
        self._sources = sources

    def create(self, manifest: Json, namespace: str, *, dry_run: bool = False) -> Outcome:
        """Create an object; `namespace` is where the request goes to."""
        return self._run(manifest, namespace, lambda passage: passage.create(manifest, dry_run))

    def update(
        self, manifest: Json, old: Json | None, namespace: str, *, sub_resource: str = "", dry_run: bool = False
    ) -> Outcome:
        """Replace an object that exists as `old`, or a part of it; None where there is no such object."""
        return self._run(manifest, namespace, lambda passage: passage.update(manifest, old, dry_run), sub_resource)

    def delete(self, manifest: Json, namespace: str, *, dry_run: bool = False) -> Outcome:
        """Delete an object that exists as `manifest`."""
        return self._run(manifest, namespace, lambda passage: passage.delete(manifest, dry_run))

    def _run(
        self, manifest: Json, namespace: str, job: Callable[[_Passage], Json | None], sub_resource: str = ""
    ) -> Outcome:
        passage = _Passage(self._webhooks, self._sources, _target(manifest, namespace, sub_resource))
        stored, status = None, None
        try:
            stored = job(passage)
        except Refused as refused:
            status = refused.status
        except Malformed as error:
            status = unreadable(passage.target.api_version, passage.target.kind, str(error))
        return Outcome(stored, status, tuple(passage.patch), tuple(passage.warnings))


def _target(manifest: Json, namespace: str, sub_resource: str) -> Target:
    resource = resource_of(manifest["apiVersion"], manifest["kind"])
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return Target(
        manifest["apiVersion"],
        manifest["kind"],
        resource,
        namespace if resource.namespaced else "",
        name if isinstance(name, str) else "",
        sub_resource,
    )


@dataclass
class _Passage:
    """One request on its way through the stages."""

    webhooks: Webhooks
    sources: Sources
    target: Target
    patch: list[Operation] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def create(self, manifest: Json, dry_run: bool) -> Json:
        mutated = self._mutate(Change("CREATE", self._defaulted(manifest), None, dry_run))
        created = self.sources.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        obj = prepared_for_creation(
            mutated, self._resource, uid=self.sources.uid(), created=created, suffix=self.sources.suffix()
        )
        self._refuse_invalid(obj, _named(obj) + (pod_errors(shaped(obj, Pod)) if self._is_pod else []))
        self._call(ENFORCING, Change("CREATE", obj, None, dry_run))
        return obj

    def update(self, manifest: Json, old_manifest: Json | None, dry_run: bool) -> Json:
        if old_manifest is None:
            raise Refused(not_found(self._resource.name, self.target.name))
        old = as_stored(self._defaulted(old_manifest))
        mutated = self._mutate(Change("UPDATE", self._defaulted(manifest), old, dry_run))
        obj = prepared_for_update(mutated, old, self.target.sub_resource)
        if self._is_pod:
            self._refuse_invalid(obj, self._update_errors(obj, mutated, old))
        self._call(ENFORCING, Change("UPDATE", obj, old, dry_run))
        return obj

    def delete(self, manifest: Json, dry_run: bool) -> None:
        self._call(ENFORCING, Change("DELETE", None, as_stored(self._defaulted(manifest)), dry_run))

    @property
    def _resource(self) -> Resource:
        return self.target.resource

    @property
    def _is_pod(self) -> bool:
        return self._resource.name == "pods"

    def _defaulted(self, obj: Json) -> Json:
        return with_api_defaults(obj, self._resource, self.target.namespace)

    def _mutate(self, change: Change) -> Json:
        answer = self._call(MUTATING, change)
        obj = change.new or {}
        if not answer.patch:
            return obj
        self.patch += answer.patch
        try:
            patched = apply_patch(obj, answer.patch)
        except PatchError as error:
            raise Refused(internal(str(error))) from None
        return self._defaulted(patched)  # after a webhook changed the object the API fills it in again

    def _update_errors(self, obj: Json, mutated: Json, old: Json) -> list[Cause]:
        if self.target.sub_resource == "resize":
            return resize_errors(shaped(mutated, Pod), shaped(old, Pod))
        return [] if self.target.sub_resource else pod_errors(shaped(obj, Pod))

    def _refuse_invalid(self, obj: Json, causes: list[Cause]) -> None:
        if causes:
            raise Refused(invalid(self.target.kind, obj["metadata"].get("name") or "", causes))

    def _call(self, webhook: str, change: Change) -> Answer:
        uid = self.sources.uid()
        body = build_review(self.target, change, uid)
        try:
            answer = read_answer(self.webhooks.call(_PATHS[webhook], body), uid)
        except CallFailed as error:
            raise Refused(webhook_failed(webhook, f"failed to call webhook: {error}")) from None
        except BadAnswer as error:
            raise Refused(webhook_failed(webhook, f"received invalid webhook response: {error}")) from None
        self.warnings += answer.warnings
        if not answer.allowed:
            raise Refused(denied_by(webhook, answer.status))
        return answer


def _named(obj: Json) -> list[Cause]:
    if obj["metadata"].get("name"):
        return []
    return [Cause("metadata.name", "Required value: name or generateName is required")]
