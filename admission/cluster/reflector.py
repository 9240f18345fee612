"""A cache that follows a resource of the API server: list, then watch.

The objects are decoded to what decisions need as they arrive; whatever else is in them is not kept. Readers get the
objects of a namespace as a mapping that never changes; it is made again when one of them has changed.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, Protocol, TypeVar

import msgspec

from admission.cluster.transport import ApiError, ClusterError, Stream, Transport, Unreachable
from admission.errors import AdmissionError

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 500
WATCH_SECONDS: Final = 300
"""How long the API server is asked to keep a watch open; bookmarks say that it is alive meanwhile."""
IDLE_TIMEOUT: Final = 90.0
"""Seconds without a line after which a watch is taken for dead: bookmarks come about once a minute."""

ABSENT_SECONDS: Final = 60.0
"""How long until a resource that is not served is asked for again."""

JSON: Final = "application/json"
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Keyed(msgspec.Struct, gc=False):
    metadata: _Meta


class _ListMeta(msgspec.Struct, rename={"next": "continue", "resource_version": "resourceVersion"}):
    resource_version: str = ""
    next: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Failure(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


_decode_list = msgspec.json.Decoder(_List).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_key = msgspec.json.Decoder(_Keyed).decode
_decode_failure = msgspec.json.Decoder(_Failure).decode

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decode(Protocol[T_co]):
    """From an object's JSON to what is kept of it; raises ValueError or BadCall where it cannot be used."""

    def __call__(self, data: msgspec.Raw) -> T_co:
        """The decoded object."""


Changed = Callable[[str, str, "T | None", "T | None"], None]
"""Namespace, name, the object before and after; None where it was not or is no more."""

Known = Callable[[str, str, str], "T | None"]
"""Namespace, name and version -> the object, None where that version is not known."""


@dataclass
class Pace:
    """How long to wait after failures that follow one another: twice as long each time, with jitter."""

    first: float = 0.2
    longest: float = 30.0
    failures: int = field(default=0, init=False)

    def next_wait(self) -> float:
        """Seconds to wait before the next attempt."""
        self.failures += 1
        longest: float = min(self.longest, self.first * 2.0 ** min(self.failures - 1, 10))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311

    def reset(self) -> None:
        """The last attempt succeeded."""
        self.failures = 0


@dataclass
class ReflectorStats:
    """What a reflector has done; `last_contact` is a time of the monotonic clock."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    errors: int = 0
    undecodable: int = 0
    last_contact: float = 0.0


@dataclass(frozen=True)
class _Kept(Generic[T]):
    version: str
    value: T


@dataclass(frozen=True)
class Source:
    """What to follow.

    `query` narrows it (`fieldSelector`). With `metadata_only` the API server sends nothing else of the objects. Of an
    `optional` resource there are no objects where the API server does not serve it.
    """

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    metadata_only: bool = False
    optional: bool = False

    @property
    def list_form(self) -> str:
        """The form in which to ask for a list."""
        return METADATA_LIST if self.metadata_only else JSON

    @property
    def object_form(self) -> str:
        """The form in which to ask for single objects, those of a watch too."""
        return METADATA if self.metadata_only else JSON


class Reflector(Generic[T]):
    """Follows one resource in all namespaces, in a thread of its own."""

    def __init__(
        self,
        transport: Transport,
        source: Source,
        decode: Decode[T],
        changed: Changed[T] | None = None,
        known: Known[T] | None = None,
    ) -> None:
        """`known` may have an object already that the API server tells of: then it is not decoded again."""
        self._known = known
        self._transport = transport
        self._source = source
        self.path = source.path
        self._decode = decode
        self._changed = changed
        self._objects: dict[str, dict[str, _Kept[T]]] = {}
        self._views: dict[str, Mapping[str, T]] = {}
        self._lock = threading.Lock()
        self._marks: dict[str, int] = {}
        self._listed_at = 0
        self._version = ""
        self._relist = False
        self._stream: Stream | None = None
        self._synced = threading.Event()
        self._stop = threading.Event()
        self._pace = Pace()
        self.stats = ReflectorStats()
        self._thread = threading.Thread(target=self._run, name=f"reflector {source.path}", daemon=True)

    # -- reading

    def namespace(self, name: str) -> Mapping[str, T]:
        """The objects of one namespace, sorted by name; that of cluster-wide ones is empty."""
        view = self._views.get(name)
        if view is None:
            with self._lock:
                view = self._views[name] = _values(self._objects.get(name, {}))
        return view

    def namespaces(self) -> list[str]:
        """The namespaces that have objects."""
        with self._lock:
            return [name for name, objects in self._objects.items() if objects]

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._objects.values()))

    def revision(self, namespace: str) -> int:
        """The revision up to which the objects of a namespace are known: everything before it is in the cache."""
        return max(self._listed_at, self._marks.get(namespace, 0))

    def relist(self) -> None:
        """List again, from the store itself."""
        self._relist = True
        self._end_stream()

    def has_synced(self) -> bool:
        """Whether a first list is in."""
        return self._synced.is_set()

    def staleness(self) -> float:
        """Seconds since the API server was last heard of."""
        return time.monotonic() - self.stats.last_contact

    # -- running

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following."""
        self._stop.set()
        self._end_stream()

    def _end_stream(self) -> None:
        stream = self._stream
        if stream is not None:
            stream.end()

    def wait_synced(self, seconds: float) -> bool:
        """Whether the first list came in within this time."""
        return self._synced.wait(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._list()
                if self._watch():
                    self._pace.reset()
                elif not self._stop.is_set():
                    # An API server that ends each watch at once is not to be asked over and over.
                    self._stop.wait(self._pace.next_wait())
            except ApiError as error:
                self.stats.errors += 1
                if error.status == 410:
                    log.info("relisting", extra={"resource": self.path})
                    self._version = ""
                elif error.status == 404 and self._source.optional:
                    self._replace({}, "")
                    self.stats.last_contact = time.monotonic()
                    self._synced.set()
                    self._stop.wait(ABSENT_SECONDS)
                else:
                    self._wait_after(error)
            except ClusterError as error:
                self.stats.errors += 1
                self._wait_after(error)
            except Exception as error:  # a bug must not leave a cache that is silently dead
                self.stats.errors += 1
                self._version = ""
                self._wait_after(error)

    def _wait_after(self, error: Exception) -> None:
        wait = self._pace.next_wait()
        text = str(error) if isinstance(error, ClusterError) else type(error).__name__
        log.warning("following failed", extra={"resource": self.path, "problem": text, "retry_seconds": round(wait, 1)})
        self._stop.wait(wait)

    def _list(self) -> None:
        found: dict[str, dict[str, _Kept[T]]] = {}
        query = {**self._source.query, "limit": str(PAGE_SIZE)}
        while True:
            page = _decode_list(self._transport.call("GET", self.path, query=query, accept=self._source.list_form).body)
            for item in page.items or ():
                self._keep(item, found)
            if not page.metadata.next:
                break
            query["continue"] = page.metadata.next
        self.stats.lists += 1
        self.stats.last_contact = time.monotonic()
        self._replace(found, page.metadata.resource_version)
        self._pace.reset()
        self._synced.set()

    def _replace(self, found: dict[str, dict[str, _Kept[T]]], version: str) -> None:
        with self._lock:
            before = self._objects
            self._objects = found
            self._views = {}
            self._marks = {}
            self._listed_at = _number(version)
            self._version = version
            self._relist = False
        if self._changed is None:
            return
        for namespace in {*before, *found}:
            old, new = before.get(namespace, {}), found.get(namespace, {})
            for name in {*old, *new}:
                was, now = old.get(name), new.get(name)
                if was is None or now is None or was.version != now.version:
                    self._changed(namespace, name, was.value if was else None, now.value if now else None)

    def _watch(self) -> bool:
        """Follow until the watch ends; whether anything was heard, or it was us who ended it."""
        query = {
            **self._source.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(WATCH_SECONDS * random.uniform(0.8, 1.2))),  # noqa: S311
        }
        self.stats.watches += 1
        stream = self._transport.stream(self.path, query, IDLE_TIMEOUT, accept=self._source.object_form)
        self._stream = stream
        if self._relist or self._stop.is_set():  # asked for before there was a stream to end
            stream.end()
        try:
            return self._read(stream) or self._relist
        except Unreachable:
            if not self._relist and not self._stop.is_set():
                raise
            return True
        finally:
            self._stream = None
            if self._relist:
                self._version = ""

    def _read(self, stream: Iterable[bytes]) -> bool:
        heard = False
        for line in stream:
            self.stats.last_contact = time.monotonic()
            if self._stop.is_set() or self._relist:
                break
            if line:
                self._apply(_decode_event(line))
                heard = True
        return heard

    def _apply(self, event: _Event) -> None:
        if event.type == "ERROR":
            failure = _decode_failure(event.object)
            raise ApiError(failure.code, failure.reason, failure.message)
        self._pace.reset()
        meta = _decode_key(event.object).metadata
        if event.type != "BOOKMARK":
            self.stats.events += 1
            self._change(event, meta)
        self._version = meta.resource_version

    def _change(self, event: _Event, meta: _Meta) -> None:
        with self._lock:
            objects = self._objects.setdefault(meta.namespace, {})
            was = objects.get(meta.name)
            if event.type == "DELETED":
                objects.pop(meta.name, None)
            else:
                self._keep(event.object, self._objects)
            now = objects.get(meta.name)
            self._views.pop(meta.namespace, None)
            self._marks[meta.namespace] = _number(meta.resource_version)
        if self._changed is not None:
            self._changed(meta.namespace, meta.name, was.value if was else None, now.value if now else None)

    def _keep(self, data: msgspec.Raw, into: dict[str, dict[str, _Kept[T]]]) -> None:
        meta = _decode_key(data).metadata
        try:
            value = self._known(meta.namespace, meta.name, meta.resource_version) if self._known else None
            if value is None:
                value = self._decode(data)
        except (ValueError, AdmissionError) as error:
            # One object that cannot be used must not stop the others; what was known of it stays.
            self.stats.undecodable += 1
            log.error(  # noqa: TRY400
                "an object cannot be used",
                extra={"resource": self.path, "namespace": meta.namespace, "object": meta.name, "problem": str(error)},
            )
            last_known = self._objects.get(meta.namespace, {}).get(meta.name)
            if last_known is not None:
                into.setdefault(meta.namespace, {})[meta.name] = last_known
            return
        into.setdefault(meta.namespace, {})[meta.name] = _Kept(meta.resource_version, value)


def _number(version: str) -> int:
    """A resourceVersion as the number it is (Kubernetes 1.35 and later say so, all before had it so)."""
    return int(version) if version.isdecimal() else 0


def _values(objects: Mapping[str, _Kept[T]]) -> Mapping[str, T]:
    return {name: objects[name].value for name in sorted(objects)}
