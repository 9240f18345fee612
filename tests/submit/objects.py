"""Objects as JSON, as short as a test wants to write them."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]


def amounts(line: str) -> dict[str, str]:
    """`cpu=1 memory=2Gi` as a mapping."""
    return dict(part.split("=", 1) for part in line.split())


def resources(*, requests: str = "", limits: str = "") -> Json:
    return {side: amounts(line) for side, line in (("requests", requests), ("limits", limits)) if line}


def container(name: str = "c", *, requests: str = "", limits: str = "") -> Json:
    stated = resources(requests=requests, limits=limits)
    return {"name": name, **({"resources": stated} if stated else {})}


def pod(name: str = "web", *containers: Json, ns: str = "", requests: str = "", limits: str = "", **spec: Any) -> Json:
    """A pod; of one container with these resources where none is given."""
    listed = list(containers) or [container(requests=requests, limits=limits)]
    return obj("Pod", name, ns=ns, spec={"containers": listed, **spec})


def obj(kind: str, name: str = "web", *, version: str = "v1", ns: str = "", **parts: Any) -> Json:
    metadata: Json = {"name": name} if name else {}
    if ns:
        metadata["namespace"] = ns
    return {"apiVersion": version, "kind": kind, "metadata": {**metadata, **parts.pop("metadata", {})}, **parts}


def deployment(name: str = "web", **parts: Any) -> Json:
    return obj("Deployment", name, version="apps/v1", **parts)


def text_of(*objects: Json) -> str:
    """A file of several documents. JSON is YAML."""
    return "\n---\n".join(json.dumps(body, separators=(",", ":"), sort_keys=True) for body in objects) + "\n"
