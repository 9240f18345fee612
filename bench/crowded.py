"""What a large cluster has in its store: namespaces with their policies, and pods."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from bench.example import FILLED, policies

Json = dict[str, Any]
Stored = tuple[str, Json]

CREATED = "2026-01-01T00:00:00Z"


def namespaces(number: int) -> Iterator[Stored]:
    """Namespaces with a LimitRange and a quota each, as an API server would have stored them."""
    for index in range(number):
        name = namespace_name(index)
        namespace, limit_range, _, quota, *_ = policies(name)
        # No two teams have quite the same.
        limit_range["spec"]["limits"][0]["default"] = {"cpu": f"{500 + index % 400}m", "memory": f"{512 + index}Mi"}
        quota["spec"]["hard"] |= {"requests.cpu": str(1000 + index), "requests.memory": f"{2000 + index}Gi"}
        yield from (_namespace(namespace, index), _stored(limit_range, "limitranges", 1, index))
        yield _stored(quota, "resourcequotas", 2, index)


def example() -> Iterator[Stored]:
    """The one namespace that reviews ask about, with two LimitRanges and three quotas."""
    namespace, *rest = copy.deepcopy(policies())
    yield _namespace(namespace, 10**8)
    for index, policy in enumerate(rest):
        if policy["kind"] == "ResourceQuota":
            hard = policy["spec"]["hard"]
            policy["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
        yield _stored(policy, f"{policy['kind'].lower()}s", 3, index)


def pods(number: int, in_namespaces: int) -> Iterator[Stored]:
    """Running pods of two containers, spread over the namespaces."""
    text = json.dumps({**FILLED, "status": {"phase": "Running", "qosClass": "Burstable"}})
    for index in range(number):
        pod = json.loads(text)
        pod["metadata"]["name"] = f"web-7d9c5b8f6-{index:06d}"
        pod["metadata"]["namespace"] = namespace_name(index % in_namespaces)
        yield _stored(pod, "pods", 4, index)


def namespace_name(index: int) -> str:
    """The name of a namespace."""
    return f"team-{index:05d}"


def _namespace(namespace: Json, index: int) -> Stored:
    name = namespace["metadata"]["name"]
    _complete(namespace, 0, index)
    namespace["metadata"]["labels"] = {"kubernetes.io/metadata.name": name}
    namespace |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    return f"namespaces/{name}", namespace


def _stored(body: Json, resource: str, series: int, index: int) -> Stored:
    _complete(body, series, index)
    return f"{resource}/{body['metadata']['namespace']}/{body['metadata']['name']}", body


def _complete(body: Json, series: int, index: int) -> None:
    """What the API server adds to every object."""
    body["metadata"] = {
        **body["metadata"],
        "uid": f"00000000-0000-4000-8{series:03d}-{index:012d}",
        "creationTimestamp": CREATED,
    }
