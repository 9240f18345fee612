"""Submitting objects one after the other, as kubectl does: what is refused does not stop the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from admission.apiserver import ApiServer, Outcome
from admission.cli import _submit_print as text
from admission.cli._submit_print import Mistake, Problem, Refusal
from admission.kinds import resource_of
from admission.patch import Operation

Json = dict[str, Any]
Key = tuple[str, str, str]
"""Kind with its group, namespace and name."""


@dataclass(frozen=True)
class Submitted:
    """An object of a file; `source` is the file as it was named."""

    source: str
    body: Json


@dataclass(frozen=True)
class Wishes:
    """What is to be done with every object. `old` are the objects to be replaced, None where they are created."""

    namespace: str | None = None
    dry_run: bool = False
    delete: bool = False
    old: Mapping[Key, Json] | None = None
    sub_resource: str = ""

    @property
    def doing(self) -> str:
        """As kubectl names it in an error."""
        return "deleting" if self.delete else "replacing" if self.old is not None else "creating"


class Screen:
    """Where the lines go."""

    def __init__(self, out: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self.out = out
        self.warn = warn
        self._warned: set[str] = set()

    def warnings(self, warnings: Iterable[str]) -> None:
        """Each text once, as kubectl does."""
        for warning in warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                self.warn(warning)


@dataclass
class Run:
    """One run of the command; `problems` are what is to be said at its end."""

    server: ApiServer
    wishes: Wishes
    screen: Screen
    show_patch: Callable[[Operation], None]
    show_object: Callable[[Json], None]
    problems: list[Problem] = field(default_factory=list)

    def submit(self, objects: Iterable[Submitted]) -> bool:
        """Submit all; whether all were accepted."""
        for submitted in objects:
            mistake = self._mistake(submitted)
            if mistake:
                self.problems.append(Mistake(mistake))
            else:
                self._submit_one(submitted)
        return not self.problems

    def _mistake(self, submitted: Submitted) -> str | None:
        body, wanted = submitted.body, self.wishes.namespace
        for key, title in (("kind", "Kind"), ("apiVersion", "apiVersion")):
            if not isinstance(body.get(key), str) or not body[key]:
                shown = json.dumps(body, default=str, sort_keys=True, separators=(",", ":"))[:200]
                return f"unable to decode \"{submitted.source}\": Object '{title}' is missing in '{shown}'"
        own = _stated(body, "namespace")
        if resource_of(body["apiVersion"], body["kind"]).namespaced and own and wanted and own != wanted:
            return (
                f'the namespace from the provided object "{own}" does not match the namespace "{wanted}". '
                f"You must pass '--namespace={own}' to perform this operation."
            )
        if self.wishes.doing != "creating" and not _stated(body, "name"):
            return f'error when {self.wishes.doing} "{submitted.source}": resource name may not be empty'
        return None

    def _submit_one(self, submitted: Submitted) -> None:
        body, wishes = submitted.body, self.wishes
        namespace = namespace_of(body, wishes.namespace)
        if wishes.delete and wishes.namespace and not namespace:
            self.screen.warnings(["deleting cluster-scoped resources, not scoped to the provided namespace"])
        outcome = self._outcome(body, namespace)
        self.screen.warnings(outcome.warnings)
        for operation in outcome.patch:
            self.show_patch(operation)
        if outcome.status:
            self.problems.append(Refusal(outcome.status, wishes.doing, submitted.source))
        elif outcome.stored is None:
            name = _stated(body, "name")
            self.screen.out(
                text.deleted(body["apiVersion"], body["kind"], name, namespace, dry_run=wishes.dry_run),
            )
        else:
            verb = "created" if wishes.old is None else "replaced"
            name = _stated(outcome.stored, "name")
            self.screen.out(text.done(body["apiVersion"], body["kind"], name, verb, dry_run=wishes.dry_run))
            self.show_object(outcome.stored)

    def _outcome(self, body: Json, namespace: str) -> Outcome:
        wishes = self.wishes
        if wishes.delete:
            return self.server.delete(body, namespace, dry_run=wishes.dry_run)
        if wishes.old is None:
            return self.server.create(body, namespace, dry_run=wishes.dry_run)
        old = wishes.old.get(key_of(body, wishes.namespace))
        return self.server.update(body, old, namespace, sub_resource=wishes.sub_resource, dry_run=wishes.dry_run)


def namespace_of(body: Json, wanted: str | None) -> str:
    """Where a request about an object goes to; empty for what has no namespace."""
    if not resource_of(body["apiVersion"], body["kind"]).namespaced:
        return ""
    return _stated(body, "namespace") or wanted or "default"


def key_of(body: Json, wanted: str | None) -> Key:
    """What tells an object from others."""
    resource = resource_of(body["apiVersion"], body["kind"])
    return resource.name, namespace_of(body, wanted), _stated(body, "name")


def _stated(body: Json, key: str) -> str:
    metadata = body.get("metadata")
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""
