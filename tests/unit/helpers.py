"""Short notations, so that the tables of the tests read like the rules they hold.

amounts   `cpu=1 memory=2Gi`
pod       `a: cpu 100m/200m, memory -/1Gi; init i: cpu 1/-; sidecar s; pod: cpu 1/2; overhead: cpu=250m`: one entry a
          container, request/limit, `-` where nothing is stated; `a*3` is three containers a0, a1, a2
limits    `Container min cpu=50m max cpu=2; Pod ratio cpu=2`: one entry an item of a LimitRange
scope     `PriorityClass In low high`; without an operator `Exists` is meant
table     lines of cells, separated by `|`
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from admission.limits import LimitPolicy, compile_limit_range
from admission.objects import (
    AdmissionReview,
    Decoder,
    LimitRange,
    Pod,
    ResourceQuota,
    ScopeRequirement,
    decode_pod,
    decode_review,
)
from admission.quantity import Quantity
from admission.quota.policy import QuotaState, compile_quota
from admission.quota.scopes import Scope

Json = dict[str, Any]

_ROLES = {"init": "initContainers", "sidecar": "initContainers", "ephemeral": "ephemeralContainers"}
_ITEM_FIELDS = {
    "min": "min",
    "max": "max",
    "ratio": "maxLimitRequestRatio",
    "default": "default",
    "defaultRequest": "defaultRequest",
}
_decode_limit_range = Decoder(LimitRange)
_decode_quota = Decoder(ResourceQuota)


def table(text: str) -> list[tuple[str, ...]]:
    """The rows of a text table; blank lines are left out."""
    return [tuple(cell.strip() for cell in line.split("|")) for line in text.splitlines() if line.strip()]


# -- amounts


def texts(line: str) -> dict[str, str]:
    """`cpu=1 memory=2Gi` as it stands in JSON."""
    return dict(part.split("=", 1) for part in line.split())


def amounts(line: str) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in texts(line).items()}


def printed(resources: Mapping[str, Quantity]) -> dict[str, str]:
    """The opposite of `amounts`: what a user would read."""
    return {name: str(amount) for name, amount in resources.items()}


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


# -- pods


def pod_json(line: str, *, name: str = "p", spec: Json | None = None, **parts: Any) -> Json:
    """A pod in the notation above; `spec` is merged into its spec, `metadata` into its metadata, the rest beside."""
    written: Json = {"containers": []}
    for entry in filter(None, (part.strip() for part in line.split(";"))):
        head, _, stated = entry.partition(":")
        role, _, label = head.rpartition(" ")
        if head == "overhead":
            written["overhead"] = texts(stated)
        elif head == "pod":
            written["resources"] = requirements(stated)
        else:
            for container in _containers(label, stated):
                if role == "sidecar":
                    container["restartPolicy"] = "Always"
                written.setdefault(_ROLES.get(role, "containers"), []).append(container)
    metadata = {"name": name, "namespace": "ns", **parts.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**written, **(spec or {})}, **parts}


def _containers(label: str, stated: str) -> list[Json]:
    label, _, count = label.partition("*")
    names = [f"{label}{index}" for index in range(int(count))] if count else [label]
    resources = requirements(stated)
    return [{"name": name, **({"resources": resources} if resources else {})} for name in names]


def requirements(stated: str) -> Json:
    """`cpu 100m/200m, memory -/1Gi` as a resources field; a side that states nothing is left out."""
    sides: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for part in filter(None, (part.strip() for part in stated.split(","))):
        name, _, values = part.partition(" ")
        request, _, limit = values.partition("/")
        for side, value in (("requests", request), ("limits", limit)):
            if value != "-":
                sides[side][name] = value
    return {side: listed for side, listed in sides.items() if listed}


def pod(line: str, **parts: Any) -> Pod:
    return decode_pod(encoded(pod_json(line, **parts)))


def api_defaulted(document: Json) -> Json:
    """The pod as the API server hands it out: a limit without a request is copied into the requests."""
    copied = json.loads(json.dumps(document))
    for field in ("containers", "initContainers"):
        for container in copied["spec"].get(field, []):
            resources = container.get("resources", {})
            if resources.get("limits"):
                resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    return copied


# -- policies


def limit_range_json(line: str, name: str = "limits") -> Json:
    items = []
    for entry in filter(None, (part.strip() for part in line.split(";"))):
        kind, *words = entry.split()
        item: Json = {"type": kind}
        field = ""
        for word in words:
            resource, equals, value = word.partition("=")
            if equals:
                item.setdefault(field, {})[resource] = value
            else:
                field = _ITEM_FIELDS[word]
        items.append(item)
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"limits": items}}


def limit_range(line: str, name: str = "limits") -> LimitRange:
    return _decode_limit_range(encoded(limit_range_json(line, name)))


def limit_policy(line: str, name: str = "limits") -> LimitPolicy:
    return compile_limit_range(limit_range(line, name))


def scope(line: str) -> Scope:
    return Scope.of(ScopeRequirement(**_requirement(line)))


def _requirement(line: str) -> Json:
    name, operator, *values = [*line.split(), "Exists"] if " " not in line else line.split()
    return {"scope_name": name, "operator": operator, "values": values}


def quota_json(name: str, hard: str, used: str | None = None, *, scopes: Iterable[str] = ()) -> Json:
    """A quota whose controller has seen it; without `used` everything is at 0. Scopes become match expressions."""
    limits = texts(hard)
    counted = dict.fromkeys(limits, "0") if used is None else texts(used)
    expressions = [
        {"scopeName": parts["scope_name"], "operator": parts["operator"], "values": parts["values"]}
        for parts in map(_requirement, scopes)
    ]
    spec = {"hard": limits, **({"scopeSelector": {"matchExpressions": expressions}} if expressions else {})}
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": spec,
        "status": {"hard": limits, "used": counted},
    }


def quota(name: str, hard: str, used: str | None = None, *, scopes: Iterable[str] = ()) -> QuotaState:
    return quota_of(quota_json(name, hard, used, scopes=scopes))


def quota_of(document: Json) -> QuotaState:
    return compile_quota(_decode_quota(encoded(document)))


# -- reviews


def review(
    operation: str,
    kind: str,
    new: Json | None,
    old: Json | None = None,
    *,
    uid: str = "review-1",
    namespace: str = "ns",
    dry_run: bool = False,
    groups: Sequence[str] = (),
) -> AdmissionReview:
    """A review of `pods`, `pods/resize`, `deployments.apps`, `resourceclaims.resource.k8s.io/status`, ..."""
    kind, _, sub_resource = kind.partition("/")
    resource, _, group = kind.partition(".")
    request = {
        "uid": uid,
        "operation": operation,
        "resource": {"group": group, "version": "v1", "resource": resource},
        "namespace": namespace,
        "object": new,
        "oldObject": old,
        "dryRun": dry_run,
        "userInfo": {"username": "someone", "groups": list(groups)},
        **({"subResource": sub_resource} if sub_resource else {}),
    }
    return decode_review(encoded({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}))
