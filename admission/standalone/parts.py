"""One file of policies and objects, read and measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from admission.kinds import BUILT_IN, GroupKind, Resource, group_of, resource_for
from admission.limits import LimitPolicy, compile_limit_range, with_api_defaults
from admission.limits.lint import lint_limit_range
from admission.objects import AnyObject, LimitRange, ResourceQuota, decode_quantity
from admission.quota.lint import lint_quota
from admission.quota.observe import TYPES, CountedObject
from admission.quota.policy import QuotaPolicy, compile_quota
from admission.readable import first_error
from admission.resource_lists import ResourceList
from admission.standalone.documents import Document, read_documents
from admission.standalone.errors import PolicyError
from admission.standalone.schema import (
    CustomResourceModel,
    DeviceClassModel,
    LimitRangeModel,
    NamedModel,
    ResourceQuotaModel,
)

DEFAULT_NAMESPACE = "default"

CustomResources = dict[GroupKind, Resource]


@dataclass(frozen=True, slots=True)
class QuotaSource:
    """A quota of a file. `used` is what its status says is used, None where it has no status and is counted."""

    policy: QuotaPolicy
    used: ResourceList | None


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object of a file that exists and so counts. Claims for devices are measured later, when all is read."""

    where: str
    title: str
    namespace: str
    kind: str
    name: str
    uid: str
    counted: CountedObject


@dataclass(slots=True)
class FilePart:
    """What one file holds."""

    namespaces: set[str] = field(default_factory=set)
    priority_classes: set[str] = field(default_factory=set)
    device_classes: dict[str, str] = field(default_factory=dict)
    limit_ranges: list[tuple[str, str, LimitPolicy]] = field(default_factory=list)
    quotas: list[tuple[str, str, QuotaSource]] = field(default_factory=list)
    objects: list[FoundObject] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """What is accepted, but hardly meant: one line each."""
    definitions: CustomResources = field(default_factory=dict)
    """The custom resources that the file defines."""
    custom_kinds: CustomResources = field(default_factory=dict)
    """What the kinds in the file that are not built in were taken for."""

    def holds_nothing(self) -> bool:
        """Whether there is no object in the file."""
        return not (
            self.namespaces
            or self.priority_classes
            or self.device_classes
            or self.limit_ranges
            or self.quotas
            or self.objects
        )

    def stands_with(self, custom: CustomResources) -> bool:
        """Whether the file would be read the same with these custom resources."""
        return all(resource_for(group_kind, custom) == taken for group_kind, taken in self.custom_kinds.items())


def read_part(path: Path, name: str, custom: CustomResources) -> FilePart:
    """A file's content; raises PolicyError naming file, document, field and what was expected.

    `custom` are the custom resources that other files define.
    """
    part = FilePart()
    documents = read_documents(path, name)
    for document in documents:
        if document.body.get("kind") == "CustomResourceDefinition":
            spec = _validated(CustomResourceModel, document).spec
            resource = Resource(spec.group, spec.names.plural, spec.scope == "Namespaced")
            part.definitions[spec.group, spec.names.kind] = resource
    for document in documents:
        _add(part, document, {**custom, **part.definitions})
    return part


def _add(part: FilePart, document: Document, custom: CustomResources) -> None:
    api_version, kind = _text(document, "apiVersion"), _text(document, "kind")
    group_kind = (group_of(api_version), kind)
    resource = resource_for(group_kind, custom)
    if group_kind not in BUILT_IN:
        part.custom_kinds[group_kind] = resource
    if resource.name == "namespaces":
        part.namespaces.add(_validated(NamedModel, document).metadata.name)
    elif resource.name == "priorityclasses.scheduling.k8s.io":
        part.priority_classes.add(_validated(NamedModel, document).metadata.name)
    elif resource.name == "deviceclasses.resource.k8s.io":
        device_class = _validated(DeviceClassModel, document)
        extended = device_class.spec.extended_resource_name if device_class.spec else None
        part.device_classes[device_class.metadata.name] = extended or ""
    elif resource.name == "limitranges":
        _add_limit_range(part, document)
    elif resource.name == "resourcequotas":
        _add_quota(part, document)
        _add_object(part, document, resource)
    elif resource.namespaced:
        _add_object(part, document, resource)


def _add_limit_range(part: FilePart, document: Document) -> None:
    namespace = _validated(LimitRangeModel, document).metadata.namespace or DEFAULT_NAMESPACE
    limit_range = with_api_defaults(_converted(LimitRange, document))
    part.limit_ranges.append((document.where, namespace, compile_limit_range(limit_range)))
    part.doubts += [f"{_title(document)}: {doubt}" for doubt in lint_limit_range(limit_range)]


def _add_quota(part: FilePart, document: Document) -> None:
    namespace = _validated(ResourceQuotaModel, document).metadata.namespace or DEFAULT_NAMESPACE
    quota = _as_controlled(_converted(ResourceQuota, document))
    state = compile_quota(quota)
    used = None if quota.status is None else state.used
    part.quotas.append((document.where, namespace, QuotaSource(state.policy, used)))
    part.doubts += [f"{_title(document)}: {doubt}" for doubt in lint_quota(quota)]


def _as_controlled(quota: ResourceQuota) -> ResourceQuota:
    """The quota as its controller would have it: an empty status is none, and one without limits has those of the spec.

    A status that says anything is what the quota starts from, also where it does not say what is used.
    """
    status = quota.status
    if status is None or not (status.hard or status.used):
        return msgspec.structs.replace(quota, status=None)
    if status.hard:
        return quota
    hard = quota.spec.hard if quota.spec else None
    return msgspec.structs.replace(quota, status=msgspec.structs.replace(status, hard=hard))


def _add_object(part: FilePart, document: Document, resource: Resource) -> None:
    kind = resource.name
    counted = _converted(TYPES.get(kind, AnyObject), document)
    meta = counted.metadata
    if meta is None or not meta.name:
        raise PolicyError(f"{_title(document)}: metadata.name: is required")
    namespace = meta.namespace or DEFAULT_NAMESPACE
    where, title = document.where, _title(document)
    part.objects.append(FoundObject(where, title, namespace, kind, meta.name, meta.uid or "", counted))


def _text(document: Document, key: str) -> str:
    value = document.body.get(key)
    if not isinstance(value, str) or not value:
        problem = "is required" if value is None else f"expected a text, got {type(value).__name__}"
        raise PolicyError(f"{document.where}: {key}: {problem}")
    return value


M = TypeVar("M", bound=BaseModel)
W = TypeVar("W")


def _validated(model: type[M], document: Document) -> M:
    try:
        return model.model_validate(document.body)
    except ValidationError as error:
        raise PolicyError(f"{_title(document)}: {first_error(error)}") from None


def _converted(wire: type[W], document: Document) -> W:
    try:
        return msgspec.convert(document.body, wire, dec_hook=decode_quantity)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PolicyError(f"{_title(document)}: {_readable(str(error))}") from None


def _readable(text: str) -> str:
    """msgspec says `Expected ..., got ... - at `$.spec.x``; people look for the path first."""
    problem, at, path = text.rpartition(" - at `$.")
    return f"{path.rstrip('`')}: {problem[:1].lower()}{problem[1:]}" if at else text


def _title(document: Document) -> str:
    """`team.yaml, document 2 (LimitRange team-a/limits)`."""
    body: dict[str, Any] = document.body
    meta = body.get("metadata")
    names = [meta.get("namespace"), meta.get("name")] if isinstance(meta, dict) else []
    name = "/".join(str(part) for part in names if part)
    group = group_of(str(body.get("apiVersion", "")))
    return f"{document.where} ({body.get('kind')}{f'.{group}' if group else ''}{f' {name}' if name else ''})"


def all_doubts(parts: Iterable[FilePart]) -> list[str]:
    """The doubts of all files."""
    return [doubt for part in parts for doubt in part.doubts]
