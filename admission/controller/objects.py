"""The objects that quotas count, of the kinds that quotas name: what each uses, and nothing else of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as Collection
from typing import Final, NamedTuple

import msgspec

from admission.cluster.discovery import Served, discover
from admission.cluster.reflector import METADATA, Reflector, Source
from admission.cluster.transport import ClusterError, Transport
from admission.controller.recount import LiveObject
from admission.objects import NO_META, ObjectMeta, ResourceClaim
from admission.quota.devices import controlling_pod, paid_for
from admission.quota.names import PODS, RESOURCE_CLAIMS, DeviceClasses
from admission.quota.observe import TYPES, CountedObject, Surroundings, decode, meta_of, observe
from admission.quota.observed import Observed
from admission.resource_lists import EMPTY, ResourceList

log = logging.getLogger(__name__)

DISCOVER_AGAIN: Final = 10.0
"""Seconds until a kind that is not served is looked for again."""
AWAIT: Final = 10.0
"""Seconds that a quota waits for the first list of a kind that it names."""
MAX_SHARED: Final = 20_000
"""How many different usages are kept to be shared between objects that use the same."""
NO_DEVICES: Final = Surroundings({})


class Tracked(NamedTuple):
    """One object. A resource claim is kept as it is, since what it uses depends on others."""

    uid: str
    version: str
    observed: Observed
    claim: ResourceClaim | None = None


Changed = Callable[[str, "Tracked | None", "Tracked | None"], None]
"""Namespace, the object before and after."""


class ObjectCaches:
    """One reflector a kind, begun when a quota first names it."""

    def __init__(self, transport: Transport, changed: Changed, devices: Callable[[], DeviceClasses]) -> None:
        self._transport = transport
        self._changed = changed
        self._devices = devices
        self._lock = threading.Lock()
        self._served: dict[str, Served] = {}
        self._looked_for: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        self._reflectors: dict[str, Reflector[Tracked]] = {}
        self._shared: dict[tuple[object, ...], Observed] = {}

    @property
    def reflectors(self) -> Mapping[str, Reflector[Tracked]]:
        """Kind -> what follows it."""
        return dict(self._reflectors)

    def ensure(self, kinds: Collection[str]) -> bool:
        """Follow these kinds too, where they are served; whether that is so of one that was not.

        Raises ClusterError where the API server cannot be asked.
        """
        if self._reflectors.keys() >= kinds:
            return False
        with self._lock:
            before = len(self._reflectors)
            for kind in sorted(kinds - self._reflectors.keys()):
                self._begin(kind)
            return len(self._reflectors) > before

    def forget_all_but(self, kinds: Collection[str]) -> None:
        """Follow no others any more."""
        with self._lock:
            for kind in self._reflectors.keys() - kinds:
                self._reflectors.pop(kind).stop()
                log.info("no quota names this kind any more", extra={"kind": kind})

    def _begin(self, kind: str) -> None:
        now = time.monotonic()
        if now < self._looked_for.get(kind, float("-inf")) + DISCOVER_AGAIN:
            return
        served = discover(self._transport, kind)
        self._looked_for[kind] = now
        if served is None:
            return
        self._served[kind] = served
        self._begun[kind] = now
        # Of what is only counted nothing else is asked for: what is in a Secret never reaches us.
        source = Source(served.everywhere(), metadata_only=kind not in TYPES)
        reflector = Reflector(self._transport, source, lambda data: self._track(kind, data), self._on_change)
        self._reflectors[kind] = reflector
        log.info("counting objects of a kind", extra={"kind": kind, "path": source.path})
        reflector.start()

    def stop(self) -> None:
        """Stop following."""
        with self._lock:
            for reflector in self._reflectors.values():
                reflector.stop()

    def is_served(self, kind: str) -> bool:
        """Whether objects of the kind can be counted at all."""
        return kind in self._reflectors

    def has_synced(self, kind: str) -> bool:
        """Whether all objects of the kind are known."""
        reflector = self._reflectors.get(kind)
        return reflector is not None and reflector.has_synced()

    def is_awaited(self, kind: str) -> bool:
        """Whether a first list is worth waiting for: one that takes too long must not hold up the other kinds."""
        return not self.has_synced(kind) and time.monotonic() < self._begun.get(kind, 0.0) + AWAIT

    def revision(self, kind: str, namespace: str) -> int:
        """Up to which revision of the store the objects of a namespace are known."""
        reflector = self._reflectors.get(kind)
        return reflector.revision(namespace) if reflector is not None else 0

    def relist(self, kind: str) -> None:
        """Read a kind anew."""
        reflector = self._reflectors.get(kind)
        if reflector is not None:
            reflector.relist()

    def path(self, kind: str, namespace: str, name: str) -> str | None:
        """Where one object is read."""
        served = self._served.get(kind)
        return served.one(namespace, name) if served else None

    def live(self, kind: str, namespace: str) -> Iterator[LiveObject]:
        """The objects of a kind in a namespace."""
        reflector = self._reflectors.get(kind)
        for found in reflector.namespace(namespace).values() if reflector is not None else ():
            observed = found.observed if found.claim is None else self._observe_claim(found.claim, namespace)
            yield LiveObject(found.uid, found.version, observed)

    # -- decoding

    def _track(self, kind: str, data: msgspec.Raw) -> Tracked:
        counted = decode(kind, data, f"{kind}: ")
        meta = meta_of(counted)
        claim = counted if isinstance(counted, ResourceClaim) else None
        return Tracked(meta.uid or "", meta.resource_version or "", self._share(kind, counted), claim)

    def _share(self, kind: str, counted: CountedObject) -> Observed:
        """What an object uses: the same value for all that use the same, because most do."""
        observed = observe(kind, counted, NO_DEVICES)
        if observed.counts_until is not None or observed.extended_claim or observed.owner_pod:
            return observed
        key = (*((name, str(amount)) for name, amount in observed.usage.items()), observed.facts, observed.deleting)
        if len(self._shared) > MAX_SHARED:
            self._shared.clear()
        return self._shared.setdefault(key, observed)

    def _on_change(self, namespace: str, _name: str, was: Tracked | None, now: Tracked | None) -> None:
        self._changed(namespace, was, now)

    # -- resource claims

    def _observe_claim(self, claim: ResourceClaim, namespace: str) -> Observed:
        def paid(uid: str, meta: ObjectMeta) -> ResourceList:
            return self._paid_by_pod(namespace, uid, meta)

        return observe(RESOURCE_CLAIMS, claim, Surroundings(self._devices(), paid))

    def _paid_by_pod(self, namespace: str, uid: str, meta: ObjectMeta) -> ResourceList:
        pods = self._reflectors.get(PODS)
        owner = controlling_pod(ResourceClaim(metadata=meta))
        pod = pods.namespace(namespace).get(owner.name) if pods is not None and owner else None
        if pod is None or pod.uid != uid:
            return EMPTY
        return paid_for(meta, pod.observed, self._siblings(namespace, uid), time.time())

    def _siblings(self, namespace: str, pod_uid: str) -> Iterator[tuple[str, str]]:
        for found in self._reflectors[RESOURCE_CLAIMS].namespace(namespace).values():
            owner = controlling_pod(found.claim) if found.claim else None
            if owner is not None and owner.uid == pod_uid and found.claim is not None:
                meta = found.claim.metadata or NO_META
                yield meta.creation_timestamp or "", meta.name or ""


def identity_in(transport: Transport, path: str) -> tuple[str, str] | None:
    """UID and version of the object at a path, read from the store itself; None where there is none.

    Raises ClusterError.
    """
    try:
        answer = transport.call("GET", path, accept=METADATA)
    except ClusterError as error:
        if getattr(error, "status", None) == 404:
            return None
        raise
    meta = _decode_identified(answer.body).metadata
    return meta.uid or "", meta.resource_version or ""


class _Identified(msgspec.Struct):
    metadata: ObjectMeta


_decode_identified = msgspec.json.Decoder(_Identified).decode
