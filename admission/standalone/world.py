"""What the files of a folder say, put together: policies by namespace, and the objects that exist."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from admission.errors import BadCall
from admission.ledger import Identity
from admission.limits import LimitPolicy
from admission.objects import ObjectMeta, Pod, ResourceClaim
from admission.quota.devices import controlling_pod, paid_for
from admission.quota.names import DeviceClasses
from admission.quota.observe import Surroundings, observe
from admission.quota.observed import Observed
from admission.resource_lists import EMPTY, ResourceList
from admission.standalone.documents import policy_files
from admission.standalone.errors import PolicyError
from admission.standalone.parts import CustomResources, FilePart, FoundObject, QuotaSource, read_part

Fingerprint = tuple[int, int, int, int]
"""Times of change (of content and of the inode, nanoseconds), size (bytes) and inode: others mean another content."""


@dataclass(frozen=True, slots=True)
class FileObject:
    """An object of a file."""

    identity: Identity
    observed: Observed


@dataclass
class NamespaceWorld:
    """What the files say about one namespace; policies and quotas are sorted by name."""

    limits: tuple[LimitPolicy, ...] = ()
    quotas: tuple[QuotaSource, ...] = ()
    objects: list[FileObject] = field(default_factory=list)


@dataclass(frozen=True)
class World:
    """What the files say."""

    namespaces: Mapping[str, NamespaceWorld]
    devices: DeviceClasses
    priority_classes: frozenset[str]
    doubts: tuple[str, ...]


class Folder:
    """A folder of policies. It remembers what it read of each file, so that only changed files are read again."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise PolicyError(f"{root}: expected a folder with YAML or JSON files")
        self._root = root
        self._parts: dict[Path, tuple[Fingerprint, FilePart]] = {}

    def fingerprints(self) -> dict[Path, Fingerprint]:
        """The files as they are now, unread."""
        found = {}
        try:
            for path in policy_files(self._root):
                try:
                    stat = path.stat()
                except FileNotFoundError:  # removed since it was listed
                    continue
                found[path] = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino)
        except OSError as error:
            raise PolicyError(f"{error.filename or self._root}: {error.strerror or error}") from None
        return found

    def load(self, files: Mapping[Path, Fingerprint]) -> World:
        """The world of these files; raises PolicyError for the first that cannot be used."""
        parts = {path: known for path, known in self._parts.items() if files.get(path) == known[0]}
        for path, fingerprint in files.items():
            if path not in parts:
                parts[path] = (fingerprint, self._read(path, {}))
        custom = {key: found for _, part in parts.values() for key, found in part.definitions.items()}
        for path, (fingerprint, part) in parts.items():
            if not part.stands_with(custom):
                parts[path] = (fingerprint, self._read(path, custom))
        world = build_world([parts[path][1] for path in files])
        self._parts = parts
        return world

    def _read(self, path: Path, custom: CustomResources) -> FilePart:
        name = str(path.relative_to(self._root))
        try:
            part = read_part(path, name, custom)
        except PolicyError:
            raise
        except Exception as error:  # a file must not be able to stop the others from being read
            raise PolicyError(f"{name}: cannot be read ({type(error).__name__})") from None
        if part.holds_nothing() and path in self._parts and not self._parts[path][1].holds_nothing():
            # A file is empty for a moment whenever a shell redirects into it: that must not lift the policies in it.
            raise PolicyError(f"{name}: is empty; remove the file to remove what it held")
        return part


def build_world(parts: Iterable[FilePart], now: float | None = None) -> World:
    """Put files together; raises PolicyError where a policy or an object stands twice."""
    parts = list(parts)
    devices = {name: extended for part in parts for name, extended in part.device_classes.items()}
    namespaces: dict[str, NamespaceWorld] = {name: NamespaceWorld() for part in parts for name in part.namespaces}
    _refuse_twice(parts)
    for part in parts:
        for _, namespace, limits in part.limit_ranges:
            world = namespaces.setdefault(namespace, NamespaceWorld())
            world.limits = tuple(sorted((*world.limits, limits), key=lambda policy: policy.name))
        for _, namespace, quota in part.quotas:
            world = namespaces.setdefault(namespace, NamespaceWorld())
            world.quotas = tuple(sorted((*world.quotas, quota), key=lambda source: source.policy.name))
    _add_objects(namespaces, [found for part in parts for found in part.objects], devices, now or time.time())
    priority_classes = frozenset(name for part in parts for name in part.priority_classes)
    return World(namespaces, devices, priority_classes, tuple(doubt for part in parts for doubt in part.doubts))


def _refuse_twice(parts: Iterable[FilePart]) -> None:
    seen: dict[tuple[str, str, str], str] = {}
    uids: dict[str, str] = {}
    for part in parts:
        for found in part.objects:
            first = uids.setdefault(found.uid, found.where) if found.uid else found.where
            if first is not found.where:
                raise PolicyError(f"{found.where}: metadata.uid: {found.uid} is also that of the object in {first}")
        for where, kind, namespace, name in (
            *((where, "LimitRange", namespace, policy.name) for where, namespace, policy in part.limit_ranges),
            *((found.where, found.kind, found.namespace, found.name) for found in part.objects),
        ):
            first = seen.setdefault((kind, namespace, name), where)
            if first is not where:
                raise PolicyError(f"{where}: {kind} {namespace}/{name} stands twice, first in {first}")


def _add_objects(
    namespaces: dict[str, NamespaceWorld], found: list[FoundObject], devices: DeviceClasses, now: float
) -> None:
    pods: dict[str, Observed] = {}
    claims: dict[str, list[tuple[str, str]]] = {}
    for item in found:
        if isinstance(item.counted, Pod) and item.uid:
            pods[item.uid] = _observe(item, Surroundings(devices))
        elif isinstance(item.counted, ResourceClaim) and (owner := controlling_pod(item.counted)):
            created = (item.counted.metadata and item.counted.metadata.creation_timestamp) or ""
            claims.setdefault(owner.uid, []).append((created, item.name))

    def paid_by_pod(uid: str, claim: ObjectMeta) -> ResourceList:
        return paid_for(claim, pods[uid], claims.get(uid, ()), now) if uid in pods else EMPTY

    surroundings = Surroundings(devices, paid_by_pod)
    for item in found:
        uid = item.uid or f"file:{item.kind}/{item.name}"
        identity = Identity(item.namespace, item.kind, item.name, uid, bool(item.uid))
        observed = _observe(item, surroundings)
        namespaces.setdefault(item.namespace, NamespaceWorld()).objects.append(FileObject(identity, observed))


def _observe(item: FoundObject, surroundings: Surroundings) -> Observed:
    try:
        return observe(item.kind, item.counted, surroundings)
    except BadCall as error:
        raise PolicyError(f"{item.title}: {error}") from None
