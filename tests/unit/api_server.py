"""The part of an API server that the ledger and the keeper talk to, in memory and without threads.

`ApiServer` is the store: objects by path, one growing revision, and what happened in order. `Client` has the surface of
`admission.cluster.transport.Transport`; each has its own fate (lost answers, conflicts, a crash, something else that
happens first) and its own view of the watches, which tell as many events as they are allowed to. `Stepped` is a
reflector without a thread: one turn of it lists where it has to and then follows one watch to its end.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar, cast

from admission.cluster.connections import RawResponse
from admission.cluster.reflector import METADATA, Reflector, Source
from admission.cluster.transport import ApiError, Transport, Unreachable

Json = dict[str, Any]
T = TypeVar("T")

KINDS: Final = {
    "/api/v1": (
        "configmaps",
        "limitranges",
        "namespaces",
        "persistentvolumeclaims",
        "pods",
        "resourcequotas",
        "secrets",
        "services",
    ),
    "/apis/resource.k8s.io/v1": ("deviceclasses", "resourceclaims"),
    "/apis/scheduling.k8s.io/v1": ("priorityclasses",),
}


class Place(NamedTuple):
    """A path taken apart: `base` is that of the version; what the path does not say is empty."""

    base: str
    namespace: str
    plural: str
    name: str
    sub_resource: str

    @property
    def collection(self) -> str:
        """Where all objects of the kind are."""
        return f"{self.base}/{self.plural}"

    @property
    def path(self) -> str:
        """Where the object is."""
        inside = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{self.base}{inside}/{self.plural}/{self.name}"

    @classmethod
    def of(cls, path: str) -> Place:
        parts = path.strip("/").split("/")
        length = 2 if parts[0] == "api" else 3
        base, rest = "/" + "/".join(parts[:length]), parts[length:]
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, sub_resource = (*rest, "", "", "")[:3]
        return cls(base, namespace, plural, name, sub_resource)


class Happened(NamedTuple):
    revision: int
    type: str
    place: Place
    object: Json


def not_found(path: str) -> ApiError:
    return ApiError(404, "NotFound", f"{path} not found")


def conflict() -> ApiError:
    return ApiError(409, "Conflict", "the object has been modified; please apply your changes to the latest version")


class ApiServer:
    """The store."""

    def __init__(self) -> None:
        self.revision = 100
        self.compacted = 0
        self.objects: dict[str, Json] = {}
        self.history: list[Happened] = []
        self._uids = 0

    # -- what clients of the API do

    def create(self, collection: str, document: Json) -> Json:
        """A new object; `collection` names the namespace where the kind has one."""
        place = Place.of(f"{collection}/{document['metadata']['name']}")
        if place.path in self.objects:
            raise ApiError(409, "AlreadyExists", f"{place.path} already exists")
        self._uids += 1
        made = copy.deepcopy(document)
        made["metadata"] = {"uid": f"uid-{self._uids}", "namespace": place.namespace, **made["metadata"]}
        return self._keep("ADDED", place, made)

    def update(self, path: str, change: Callable[[Json], object], version: str | None = None) -> Json:
        """Change an object in place; with a version only where it is still that one."""
        made = copy.deepcopy(self.get(path))
        if version not in (None, made["metadata"]["resourceVersion"]):
            raise conflict()
        change(made)
        return self._keep("MODIFIED", Place.of(path), made)

    def delete(self, path: str) -> None:
        gone = copy.deepcopy(self.get(path))
        del self.objects[path]
        self._note("DELETED", Place.of(path), gone)

    def get(self, path: str) -> Json:
        try:
            return self.objects[path]
        except KeyError:
            raise not_found(path) from None

    def list(self, collection: str, namespace: str = "") -> list[Json]:
        found = [(path, document) for path, document in self.objects.items() if self._is_in(path, collection)]
        return [
            document for _, document in sorted(found) if namespace in ("", document["metadata"].get("namespace", ""))
        ]

    def compact(self) -> None:
        """Forget what happened so far: who has not heard of it must list again."""
        self.compacted = self.revision

    def _is_in(self, path: str, collection: str) -> bool:
        return Place.of(path).collection == collection

    def _keep(self, what: str, place: Place, document: Json) -> Json:
        self._note(what, place, document)
        self.objects[place.path] = document
        return document

    def _note(self, what: str, place: Place, document: Json) -> None:
        self.revision += 1
        document["metadata"]["resourceVersion"] = str(self.revision)
        self.history.append(Happened(self.revision, what, place, copy.deepcopy(document)))

    # -- as it is asked over HTTP

    def answer(self, method: str, path: str, body: bytes | None, query: Mapping[str, str]) -> Json:
        place = Place.of(path)
        if method == "GET" and not place.plural:
            return self._discovery(path)
        if place.plural not in KINDS.get(place.base, ()):
            raise not_found(path)
        if method == "GET":
            return self.get(place.path) if place.name else self._page(place, query)
        if method == "PUT":
            return self._put(place, json.loads(body or b"null"))
        if method == "POST":
            return self.create(path, json.loads(body or b"null"))
        if method == "DELETE":
            self.delete(place.path)
            return {}
        raise ApiError(405, "MethodNotAllowed", method)

    def _discovery(self, path: str) -> Json:
        if path in KINDS:
            verbs = ["list", "watch"]
            return {"resources": [{"name": name, "namespaced": True, "verbs": verbs} for name in KINDS[path]]}
        versions = [base.removeprefix("/apis/") for base in KINDS if base.startswith(path + "/")]
        if not versions:
            raise not_found(path)
        return {"versions": [{"groupVersion": version} for version in versions]}

    def _page(self, place: Place, query: Mapping[str, str]) -> Json:
        found = self.list(place.collection, place.namespace)
        selected = dict(part.split("=") for part in query.get("fieldSelector", "").split(",") if part)
        if "metadata.name" in selected:
            found = [document for document in found if document["metadata"]["name"] == selected["metadata.name"]]
        start, size = int(query.get("continue") or 0), int(query.get("limit") or 0) or len(found)
        more = str(start + size) if start + size < len(found) else ""
        metadata = {"resourceVersion": str(self.revision), "continue": more}
        return {"metadata": metadata, "items": found[start : start + size]}

    def _put(self, place: Place, document: Json) -> Json:
        def change(found: Json) -> None:
            meta = document["metadata"]
            if meta.get("uid") not in (None, found["metadata"]["uid"]):
                raise conflict()
            fixed = {key: found["metadata"][key] for key in ("uid", "name", "namespace")}
            found["metadata"] = {**meta, **fixed}
            kept = "spec" if place.sub_resource == "status" else "status"
            for part in ("spec", "status"):
                if part != kept and part in document:
                    found[part] = document[part]

        return self.update(place.path, change, document["metadata"].get("resourceVersion"))

    def events(self, collection: str, after: int) -> Iterator[Happened]:
        """What happened to the objects of a kind after a revision."""
        if after < self.compacted:
            raise ApiError(410, "Expired", "too old resource version")
        return (
            happened
            for happened in self.history
            if happened.revision > after and happened.place.collection == collection
        )


@dataclass(frozen=True)
class Fate:
    """What becomes of a call: `before` is raised instead of it, `after` is raised although it took effect."""

    before: BaseException | None = None
    after: BaseException | None = None


NOTHING_HAPPENS: Final = Fate()
LOST: Final = Fate(after=Unreachable("the answer was lost"))
FAILED: Final = Fate(before=Unreachable("no answer"))
CONFLICT: Final = Fate(before=conflict())


class Call(NamedTuple):
    method: str
    path: str
    timeout: float


class Client:
    """One connection to the store. `fate` is asked before each call, and may make something else happen first."""

    host = "https://store.test"

    def __init__(self, server: ApiServer, fate: Callable[[Call], Fate] = lambda _: NOTHING_HAPPENS) -> None:
        self.server = server
        self.fate = fate
        self.calls: list[Call] = []
        self.allowed: dict[str, int] = {}
        """Collection -> how many events its next watch tells; without an entry all that there are."""

    def transport(self) -> Transport:
        """The same, for whoever insists on the real one."""
        return cast(Transport, self)

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "application/json",
        timeout: float = 30.0,
    ) -> RawResponse:
        asked = Call(method, path, timeout)
        self.calls.append(asked)
        fate = self.fate(asked)
        if fate.before is not None:
            raise fate.before
        answer = self.server.answer(method, path, body, query or {})
        if accept == METADATA:
            answer = {"metadata": answer["metadata"]}
        data = json.dumps(answer).encode()
        if fate.after is not None:
            raise fate.after
        return RawResponse(200, data)

    def stream(
        self, path: str, query: Mapping[str, str], idle_timeout: float, *, accept: str = "application/json"
    ) -> Lines:
        """A watch that tells what has happened and is allowed, then a bookmark where that is all, and ends."""
        self.calls.append(Call("WATCH", path, idle_timeout))
        happened = list(self.server.events(path, int(query["resourceVersion"])))
        told = [
            {"type": event.type, "object": event.object} for event in happened[: self.allowed.get(path, len(happened))]
        ]
        if len(told) == len(happened):
            mark = {"metadata": {"resourceVersion": str(self.server.revision)}}
            told.append({"type": "BOOKMARK", "object": mark})
        return Lines(json.dumps(event).encode() for event in told)

    def count(self, method: str, part: str = "") -> int:
        """How many calls of a method there were whose path has this part."""
        return sum(call.method == method and part in call.path for call in self.calls)


class Lines:
    """The lines of a watch, as `admission.cluster.transport.Stream`."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            if self._ended:
                return
            yield line

    def end(self) -> None:
        """Nothing more is told."""
        self._ended = True


MOST_LISTS: Final = 100
"""So often a list may fail in one turn: who asks more often would do so for ever."""


class _Turn(threading.Event):
    """Ends a reflector's loop where it would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        self.set()
        return True


class Stepped(Reflector[T]):
    """A reflector that takes its turns when it is told to."""

    def __init__(self, transport: Transport, source: Source, *args: Any, **more: Any) -> None:
        super().__init__(transport, source, *args, **more)
        self._stop = self._turn = _Turn()
        self.failed_lists = 0

    @property
    def waits(self) -> list[float]:
        """How long it would have waited, each time."""
        return self._turn.waits

    def start(self) -> None:
        """Nothing: turns are taken by `step`."""

    def step(self) -> None:
        """One turn: a list where there is none, and one watch to its end, or up to the first failure."""
        self._turn.clear()
        self.failed_lists = 0
        self._run()

    def _list(self) -> None:
        try:
            super()._list()
        except Exception:
            self.failed_lists += 1
            if self.failed_lists >= MOST_LISTS:
                self._turn.set()
            raise

    def _watch(self) -> None:
        super()._watch()
        self._turn.set()
