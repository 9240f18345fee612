"""Objects and reviews as JSON, as short as a test wants to write them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

_serial = itertools.count(1)


def fresh_uid(what: str = "uid") -> str:
    """A UID that no other object of this process has."""
    return f"{what}-{next(_serial):06d}"


def amounts(line: str) -> dict[str, str]:
    """`cpu=1 memory=2Gi` as a mapping."""
    return dict(part.split("=", 1) for part in line.split())


def metadata(name: str, namespace: str | None = "ns", **more: Any) -> Json:
    return {"name": name, **({"namespace": namespace} if namespace else {}), **more}


# -- policies


def namespace(name: str = "ns") -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def quota(name: str, hard: str, used: str | None = None, *, ns: str = "ns", **spec: Any) -> Json:
    """A quota; with `used` it has a status."""
    made: Json = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata(name, ns)}
    made["spec"] = {"hard": amounts(hard), **spec}
    if used is not None:
        made["status"] = {"hard": amounts(hard), "used": amounts(used)}
    return made


def limit_range(name: str = "limits", *, ns: str = "ns", **item: Any) -> Json:
    """One entry of type Container, unless `type` says another; amounts are lines."""
    entry = {key: amounts(value) if key != "type" else value for key, value in item.items()}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": metadata(name, ns),
        "spec": {"limits": [{"type": "Container", **entry}]},
    }


def file_of(*objects: Json) -> str:
    """A file of several documents. JSON is YAML."""
    return "\n---\n".join(json.dumps(body, indent=1) for body in objects) + "\n"


# -- objects


def pod(name: str = "p", *, ns: str = "ns", uid: str = "", requests: str = "", limits: str = "", **parts: Any) -> Json:
    """A pod of one container; `spec`, `metadata` and `status` are merged in."""
    resources = {side: amounts(line) for side, line in (("requests", requests), ("limits", limits)) if line}
    container = {"name": "c", "image": "registry.example/app:1", **({"resources": resources} if resources else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, ns, **({"uid": uid} if uid else {}), **parts.pop("metadata", {})),
        "spec": {"containers": [container], **parts.pop("spec", {})},
        **parts,
    }


def service(name: str = "s", *, ns: str = "ns", uid: str = "", kind: str = "ClusterIP", ports: int = 1) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, ns, **({"uid": uid} if uid else {})),
        "spec": {"type": kind, "ports": [{"port": 80 + number} for number in range(ports)]},
    }


def claim(name: str = "d", storage: str = "1Gi", *, ns: str = "ns", uid: str = "") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(name, ns, **({"uid": uid} if uid else {})),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}},
    }


def config_map(name: str = "m", *, ns: str = "ns", uid: str = "", **data: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, ns, **({"uid": uid} if uid else {})),
        "data": data,
    }


# -- reviews

_PLURALS = {
    "Pod": "pods",
    "Service": "services",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
}


def review(
    operation: str,
    new: Json | None,
    old: Json | None = None,
    *,
    uid: str | None = None,
    sub_resource: str = "",
    dry_run: bool = False,
    api_version: str = "admission.k8s.io/v1",
) -> Json:
    """A review as an API server sends it. `new` is None at DELETE."""
    body = new or old or {}
    kind = body.get("kind", "Pod")
    resource = {"group": "", "version": "v1", "resource": _PLURALS[kind]}
    request: Json = {
        "uid": fresh_uid("review") if uid is None else uid,
        "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": resource,
        "requestKind": {"group": "", "version": "v1", "kind": kind},
        "requestResource": resource,
        "name": body["metadata"]["name"],
        "namespace": body["metadata"].get("namespace", ""),
        "operation": operation,
        "userInfo": {"username": "tester", "groups": ["system:authenticated"]},
        "object": new,
        "oldObject": _stored(old),
        "dryRun": dry_run,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.title()}Options"},
    }
    if sub_resource:
        request["subResource"] = sub_resource
    return {"apiVersion": api_version, "kind": "AdmissionReview", "request": request}


def _stored(old: Json | None) -> Json | None:
    """An old object has a resourceVersion: without one, an update creates."""
    return old and {**old, "metadata": {"resourceVersion": "1", **old["metadata"]}}


def create(new: Json, **more: Any) -> Json:
    return review("CREATE", new, **more)


def update(old: Json, new: Json, **more: Any) -> Json:
    return review("UPDATE", new, old, **more)


def delete(old: Json, **more: Any) -> Json:
    return review("DELETE", None, old, **more)


def resized(old: Json, requests: str) -> Json:
    """The same pod with other requests."""
    container = {**old["spec"]["containers"][0], "resources": {"requests": amounts(requests)}}
    return {**old, "spec": {**old["spec"], "containers": [container]}}


def table(text: str) -> list[tuple[str, ...]]:
    """The rows of a text table with `|` between the cells; blank lines are left out."""
    return [tuple(cell.strip() for cell in line.split("|")) for line in text.splitlines() if line.strip()]


def ids(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """The first cell of each row, as a name for the test."""
    return [str(row[0]) for row in rows]
