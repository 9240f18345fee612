"""Where the API server serves the objects of a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from admission.cluster.transport import ApiError, ClusterError, Transport

NEEDED_VERBS: Final = frozenset(("list", "watch"))


class _Resource(msgspec.Struct):
    name: str
    namespaced: bool = False
    verbs: list[str] = []


class _ResourceList(msgspec.Struct, rename="camel"):
    group_version: str = ""
    resources: list[_Resource] = []


class _Version(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    versions: list[_Version] = []
    preferred_version: _Version | None = None


_decode_resources = msgspec.json.Decoder(_ResourceList).decode
_decode_group = msgspec.json.Decoder(_Group).decode


@dataclass(frozen=True)
class Served:
    """A kind that is served: `base` is the path of its version, `plural` the resource."""

    base: str
    plural: str

    def everywhere(self) -> str:
        """The path of all objects."""
        return f"{self.base}/{self.plural}"

    def one(self, namespace: str, name: str) -> str:
        """The path of one object."""
        return f"{self.base}/namespaces/{namespace}/{self.plural}/{name}"


def discover(transport: Transport, kind: str) -> Served | None:
    """Where a kind (`pods`, `deployments.apps`) is served; None where it is not, or cannot be listed and watched.

    Raises ClusterError where the API server cannot be asked.
    """
    plural, _, group = kind.partition(".")
    for base in _bases(transport, group):
        if _serves(transport, base, plural):
            return Served(base, plural)
    return None


def _bases(transport: Transport, group: str) -> list[str]:
    """The paths of the group's versions, the preferred one first."""
    if not group:
        return ["/api/v1"]
    found = _ask(transport, f"/apis/{group}")
    if found is None:
        return []
    try:
        asked = _decode_group(found)
    except msgspec.MsgspecError as error:
        raise ClusterError(f"/apis/{group}: {error}") from None
    preferred = [asked.preferred_version] if asked.preferred_version else []
    return [f"/apis/{name}" for name in dict.fromkeys(one.group_version for one in (*preferred, *asked.versions))]


def _serves(transport: Transport, base: str, plural: str) -> bool:
    found = _ask(transport, base)
    if found is None:
        return False
    try:
        resources = _decode_resources(found).resources
    except msgspec.MsgspecError as error:
        raise ClusterError(f"{base}: {error}") from None
    return any(
        resource.name == plural and resource.namespaced and NEEDED_VERBS.issubset(resource.verbs)
        for resource in resources
    )


def _ask(transport: Transport, path: str) -> bytes | None:
    try:
        return transport.call("GET", path).body
    except ApiError as error:
        if error.status == 404:
            return None
        raise
