"""What an API server does to an object between the mutating and the validating webhooks: pure, nothing made up here."""

from __future__ import annotations

import copy
from typing import Any, Final

from admission.apiserver.qos import qos_class
from admission.apiserver.shapes import Json, shaped
from admission.kinds import BUILT_IN, Resource, group_of
from admission.objects import Pod

_LONGEST_BASE: Final = 58
"""Of a generated name: with five characters added it is as long as a name may be."""
_IDENTITY: Final = ("uid", "creationTimestamp", "resourceVersion")
_NOT_OF_NEW: Final = frozenset(
    ("resourceVersion", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")
)
"""Metadata that an object gets in its life, and that a manifest made from one may still have."""


def prepared_for_creation(obj: Json, resource: Resource, *, uid: str, created: str, suffix: str) -> Json:
    """The object as it is validated and stored: with name, UID and time, and the status that its kind begins with."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _NOT_OF_NEW}
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"][:_LONGEST_BASE] + suffix
    metadata.update(uid=uid, creationTimestamp=created)
    prepared = {**obj, "metadata": metadata}
    if (group_of(obj["apiVersion"]), obj["kind"]) in BUILT_IN:
        prepared.pop("status", None)
    status = _first_status(obj, resource)
    return {**prepared, "status": status} if status else prepared


def _first_status(obj: Json, resource: Resource) -> Json | None:
    if resource.name == "pods":
        pod = shaped(obj, Pod)
        # A class that the client states is kept: so does the API.
        stated = pod.status.qos_class if pod.status else None
        return {"phase": "Pending", "qosClass": stated or qos_class(pod)}
    return {"phase": "Pending"} if resource.name == "persistentvolumeclaims" else None


def as_stored(obj: Json) -> Json:
    """An object that exists has a resourceVersion."""
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "resourceVersion": metadata.get("resourceVersion") or "1"}}


def prepared_for_update(new: Json, old: Json, sub_resource: str) -> Json:
    """The object as it is validated and stored: what this request may not change is as it was."""
    if sub_resource == "resize":
        return _resized(new, old)
    if sub_resource == "status":
        return _with_status({**old, "metadata": {**old["metadata"]}}, new)
    identity = {key: old["metadata"][key] for key in _IDENTITY if key in old["metadata"]}
    return _with_status({**new, "metadata": {**new["metadata"], **identity}}, old)


def _with_status(obj: Json, source: Json) -> Json:
    rest = {key: value for key, value in obj.items() if key != "status"}
    return {**rest, "status": source["status"]} if "status" in source else rest


def _resized(new: Json, old: Json) -> Json:
    result = copy.deepcopy(old)
    for where in ("containers", "initContainers"):
        sources = {container.get("name"): container for container in _containers(new, where)}
        for container in _containers(result, where):
            _take_resources(container, sources.get(container.get("name"), container))
    if "spec" in result:
        _take_resources(result["spec"], new.get("spec") or {})
    return result


def _containers(pod: Json, where: str) -> list[Json]:
    found: list[Json] = (pod.get("spec") or {}).get(where) or []
    return found


def _take_resources(target: Json, source: Json) -> None:
    resources: Any = source.get("resources")
    if resources is None:
        target.pop("resources", None)
    else:
        target["resources"] = copy.deepcopy(resources)
