"""What the webhook knows of the cluster: its policies, and what of the cluster decides a decision. Never pods.

Implements the port `Policies`. Everything is followed by a reflector; quotas have a second source, our own writes, so
that a replica need not wait for its watch to tell it what it has written itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from admission.cluster import quotas
from admission.cluster.quotas import StoredQuota, decode_stored_quota
from admission.cluster.reflector import Reflector, Source
from admission.cluster.transport import Transport
from admission.limits import LimitPolicy, compile_limit_range
from admission.limits.lint import lint_limit_range
from admission.objects import Decoder, DeviceClass, LimitRange

log = logging.getLogger(__name__)

PATHS: Final = {
    "limitranges": "/api/v1/limitranges",
    "resourcequotas": quotas.PATH,
    "namespaces": "/api/v1/namespaces",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "deviceclasses": "/apis/resource.k8s.io/v1/deviceclasses",
}
CLUSTER_WIDE: Final = ""

_decode_limit_range = Decoder(LimitRange)
_decode_device_class = Decoder(DeviceClass)


class NamespaceFacts(NamedTuple):
    """What is kept of a namespace."""

    labels: Mapping[str, str]
    terminating: bool


class LimitEntry(NamedTuple):
    """A LimitRange, and what its author should know."""

    policy: LimitPolicy
    version: str
    doubts: tuple[str, ...]


class _LabelsMeta(msgspec.Struct, rename="camel"):
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Labelled(msgspec.Struct):
    metadata: _LabelsMeta


class _Priority(msgspec.Struct):
    value: int = 0


_decode_labelled = msgspec.json.Decoder(_Labelled).decode
_decode_priority = msgspec.json.Decoder(_Priority).decode


QuotaChanged = Callable[[str, str, "StoredQuota | None", "StoredQuota | None"], None]
"""Namespace, name, the quota before and after."""


class QuotaCache:
    """All quotas, each in the newest version that is known."""

    def __init__(self, transport: Transport, changed: QuotaChanged | None = None) -> None:
        """`changed` is told of each change, after the cache."""
        self._told = changed
        self.reflector: Reflector[StoredQuota] = Reflector(
            transport, Source(PATHS["resourcequotas"]), decode_stored_quota, self._changed, self._own_version
        )
        self._lock = threading.Lock()
        self._own: dict[tuple[str, str], StoredQuota] = {}

    def of(self, namespace: str) -> list[StoredQuota]:
        """The quotas of a namespace, by name."""
        watched = self.reflector.namespace(namespace)
        if not self._own:
            return list(watched.values())
        return [self._newest(quota) for quota in watched.values()]

    def all(self) -> Iterator[StoredQuota]:
        """All quotas, as the watch has told of them."""
        for namespace in self.reflector.namespaces():
            yield from self.reflector.namespace(namespace).values()

    def _newest(self, watched: StoredQuota) -> StoredQuota:
        own = self._own.get((watched.namespace, watched.name))
        return own if own is not None and own.uid == watched.uid and own.is_newer_than(watched) else watched

    def learn(self, quota: StoredQuota) -> None:
        """Take a version that this replica has read or written itself."""
        key = (quota.namespace, quota.name)
        with self._lock:
            known = self._own.get(key)
            watched = self.reflector.namespace(quota.namespace).get(quota.name)
            if watched is not None and not quota.is_newer_than(watched):
                self._own.pop(key, None)
            elif known is None or quota.is_newer_than(known):
                self._own[key] = quota

    def _own_version(self, namespace: str, name: str, version: str) -> StoredQuota | None:
        """What this replica has written itself need not be decoded when the watch tells of it."""
        own = self._own.get((namespace, name))
        return own if own is not None and own.version == version else None

    def _changed(self, namespace: str, name: str, was: StoredQuota | None, now: StoredQuota | None) -> None:
        key = (namespace, name)
        with self._lock:
            own = self._own.get(key)
            if own is not None and (now is None or now.uid != own.uid or not own.is_newer_than(now)):
                del self._own[key]
        for doubt in now.doubts if now else ():
            if was is None or doubt not in was.doubts:
                log.warning("policy", extra={"namespace": namespace, "quota": name, "problem": doubt})
        if now is not None and now.damage and (was is None or was.damage != now.damage):
            log.error(
                "the ledger of a quota cannot be read",
                extra={"namespace": namespace, "quota": name, "problem": now.damage},
            )
        if self._told is not None:
            self._told(namespace, name, was, now)


class DeviceCache:
    """The DeviceClasses."""

    def __init__(self, transport: Transport) -> None:
        source = Source(PATHS["deviceclasses"], optional=True)
        self.reflector = Reflector(transport, source, _extended_name)

    def names(self) -> Mapping[str, str]:
        """Name of each -> its extended resource name, empty where it has none."""
        return self.reflector.namespace(CLUSTER_WIDE)


class PolicyCaches:
    """The caches of a webhook server. Implements `Policies`."""

    def __init__(self, transport: Transport) -> None:
        self.quotas = QuotaCache(transport)
        self._limits: Reflector[LimitEntry] = Reflector(
            transport, Source(PATHS["limitranges"]), _limit_entry, self._limits_changed
        )
        self._namespaces = Reflector(transport, Source(PATHS["namespaces"]), _namespace_facts)
        self._priorities = Reflector(transport, Source(PATHS["priorityclasses"]), _priority)
        self._devices = DeviceCache(transport)

    @property
    def reflectors(self) -> Mapping[str, Reflector[Any]]:
        """Resource -> what follows it."""
        return {
            "limitranges": self._limits,
            "resourcequotas": self.quotas.reflector,
            "namespaces": self._namespaces,
            "priorityclasses": self._priorities,
            "deviceclasses": self._devices.reflector,
        }

    def start(self) -> None:
        """Begin to follow."""
        for reflector in self.reflectors.values():
            reflector.start()

    def stop(self) -> None:
        """Stop following."""
        for reflector in self.reflectors.values():
            reflector.stop()

    def not_synced(self) -> list[str]:
        """The resources whose first list is not in yet."""
        return [name for name, reflector in self.reflectors.items() if not reflector.has_synced()]

    def limit_policies(self, namespace: str) -> Sequence[LimitPolicy]:
        """The LimitRanges of one namespace, by name."""
        return [entry.policy for entry in self._limits.namespace(namespace).values()]

    def limit_entries(self, namespace: str) -> Mapping[str, LimitEntry]:
        """The same, by name, with what else is known of them."""
        return self._limits.namespace(namespace)

    def namespace_names(self) -> list[str]:
        """The namespaces that exist."""
        return list(self._namespaces.namespace(CLUSTER_WIDE))

    def devices(self) -> Mapping[str, str]:
        """Name of each DeviceClass -> its extended resource name, empty where it has none."""
        return self._devices.names()

    def priorities(self) -> Mapping[str, int]:
        """Name of each PriorityClass -> its value."""
        return self._priorities.namespace(CLUSTER_WIDE)

    def doubts(self) -> int:
        """How many things policies say that are hardly meant."""
        limits = self._limits
        return sum(
            len(entry.doubts) for name in limits.namespaces() for entry in limits.namespace(name).values()
        ) + sum(len(quota.doubts) for quota in self.quotas.all())

    def _limits_changed(self, namespace: str, name: str, was: LimitEntry | None, now: LimitEntry | None) -> None:
        for doubt in now.doubts if now else ():
            if was is None or doubt not in was.doubts:
                log.warning("policy", extra={"namespace": namespace, "limitrange": name, "problem": doubt})


def _limit_entry(data: msgspec.Raw) -> LimitEntry:
    limit_range = _decode_limit_range(data, "LimitRange: ")
    return LimitEntry(
        compile_limit_range(limit_range),
        limit_range.metadata.resource_version or "",
        tuple(lint_limit_range(limit_range)),
    )


def _namespace_facts(data: msgspec.Raw) -> NamespaceFacts:
    meta = _decode_labelled(data).metadata
    return NamespaceFacts(meta.labels or {}, meta.deletion_timestamp is not None)


def _priority(data: msgspec.Raw) -> int:
    return _decode_priority(data).value


def _extended_name(data: msgspec.Raw) -> str:
    device_class = _decode_device_class(data, "DeviceClass: ")
    return (device_class.spec and device_class.spec.extended_resource_name) or ""
