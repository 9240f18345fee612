"""The AdmissionReview that an API server sends, and the answer that it reads."""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.apiserver.shapes import Json, Malformed
from admission.kinds import Resource
from admission.patch import Operation

API_VERSION: Final = "admission.k8s.io/v1"
USER: Final = {"username": "quota-admission-submit", "groups": ["system:authenticated"]}


class BadAnswer(ValueError):
    """An answer that an API server would not accept."""


@dataclass(frozen=True)
class Target:
    """What a request is about. `namespace` is empty for what has none, `name` where it is still to be generated."""

    api_version: str
    kind: str
    resource: Resource
    namespace: str
    name: str
    sub_resource: str = ""


@dataclass(frozen=True)
class Answer:
    """What a webhook says. `status` is that of a refusal."""

    allowed: bool
    status: Mapping[str, Any]
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """What is to be done: `new` is None at a DELETE, `old` at a CREATE."""

    operation: str
    new: Json | None
    old: Json | None
    dry_run: bool


def build_review(target: Target, change: Change, uid: str) -> bytes:
    """The body of the call; raises Malformed where the object cannot be written as JSON."""
    version = target.api_version.rpartition("/")[2]
    kind = {"group": target.resource.group, "version": version, "kind": target.kind}
    resource = {"group": target.resource.group, "version": version, "resource": target.resource.plural}
    request: Json = {
        "uid": uid,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": target.name,
        "operation": change.operation,
        "userInfo": USER,
        "object": change.new,
        "oldObject": change.old,
        "dryRun": change.dry_run,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": f"{change.operation.capitalize()}Options"},
    }
    if change.dry_run:
        request["options"]["dryRun"] = ["All"]
    if target.namespace:
        request["namespace"] = target.namespace
    if target.sub_resource:
        request["subResource"] = request["requestSubResource"] = target.sub_resource
    try:
        review = {"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": request}
        return json.dumps(review, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None


def read_answer(body: bytes, uid: str) -> Answer:
    """The answer to the review of this UID; raises BadAnswer."""
    try:
        review = json.loads(body)
    except (ValueError, RecursionError):
        raise BadAnswer("couldn't get version/kind; json parse error") from None
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != (
        API_VERSION,
        "AdmissionReview",
    ):
        raise BadAnswer(f"expected webhook response of {API_VERSION}, Kind=AdmissionReview")
    response = review.get("response")
    if not isinstance(response, dict):
        raise BadAnswer("webhook response did not include a response")
    if response.get("uid") != uid:
        raise BadAnswer(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    status = response.get("status")
    return Answer(
        allowed=response.get("allowed") is True,
        status=status if isinstance(status, dict) else {},
        patch=_patch(response),
        warnings=tuple(str(text) for text in response.get("warnings") or () if text),
    )


def _patch(response: Mapping[str, Any]) -> tuple[Operation, ...]:
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not patch:
        return ()
    if patch_type != "JSONPatch":
        raise BadAnswer(f'unsupported patch type "{patch_type or ""}"')
    try:
        operations = json.loads(binascii.a2b_base64(patch, strict_mode=True))
    except (ValueError, TypeError, RecursionError):
        raise BadAnswer("received undecodable patch") from None
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise BadAnswer("received undecodable patch")
    return tuple(operations)
