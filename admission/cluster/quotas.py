"""A ResourceQuota as the API server stores it: the state to judge by, and the body that writes a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import orjson

from admission.ledger.account import Account
from admission.ledger.annotation import ANNOTATION, DamagedAnnotation, decode, encode
from admission.objects import Decoder, ResourceQuota
from admission.quota.lint import lint_quota
from admission.quota.policy import QuotaPolicy, QuotaState, compile_quota
from admission.resource_lists import EMPTY, ResourceList

PATH: Final = "/api/v1/resourcequotas"
NEVER: Final = float("-inf")


class _Status(msgspec.Struct):
    hard: dict[str, Any] | None = None
    used: dict[str, Any] | None = None


class _Spec(msgspec.Struct):
    hard: dict[str, Any] | None = None


class _Stored(msgspec.Struct):
    """The parts that are written back as they are."""

    metadata: dict[str, Any]
    spec: _Spec | None = None
    status: _Status | None = None


class _Written(msgspec.Struct):
    metadata: _WrittenMeta


class _WrittenMeta(msgspec.Struct, rename={"version": "resourceVersion"}):
    version: str


_decode_quota = Decoder(ResourceQuota)
_decode_stored = msgspec.json.Decoder(_Stored).decode
_decode_written = msgspec.json.Decoder(_Written).decode


@dataclass(frozen=True)
class StoredQuota:
    """One version of a quota.

    `state` is what requests are judged by: limits of `status.hard`, and what is used by our account where there is one,
    else by `status.used`. `damage` says why the annotation cannot be read, empty where it can or is missing. `read_at`
    is when the API server was asked, by the monotonic clock; NEVER where it told by itself, through a watch.
    """

    namespace: str
    name: str
    uid: str
    version: str
    state: QuotaState
    account: Account | None
    spec_hard: ResourceList
    status_hard: ResourceList
    status_used: ResourceList
    damage: str = ""
    read_at: float = NEVER
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    hard_texts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spec_hard_texts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    doubts: tuple[str, ...] = ()

    @property
    def policy(self) -> QuotaPolicy:
        """What it limits, for whom."""
        return self.state.policy

    def path(self) -> str:
        """Where its status is written."""
        return f"/api/v1/namespaces/{self.namespace}/resourcequotas/{self.name}/status"

    def account_to_change(self) -> Account:
        """The account that a write starts from: all that is used and not in our account yet is taken as counted."""
        account = self.account or Account()
        missing = {name: amount for name, amount in self.state.used.items() if name not in account.counted}
        return replace(account, counted={**account.counted, **missing}) if missing else account

    def with_account(self, account: Account, used: ResourceList | None = None) -> StoredQuota:
        """This quota with another account, not written yet; `used` spares the sum where it is known."""
        total = {**self.state.used, **(account.used() if used is None else used)}
        return replace(self, account=account, state=QuotaState(self.policy, total))

    def annotation_size(self) -> int:
        """Bytes of the annotation that would be written."""
        return len(encode(self.account, self.uid)) if self.account else 0

    def body(self) -> bytes:
        """The object that writes account and status."""
        assert self.account is not None  # noqa: S101 - only what has one is written
        ours = {ANNOTATION: encode(self.account, self.uid)}
        return self._body({**self._annotations(), **ours}, self.hard_texts, self.state.used)

    def body_without_account(self) -> bytes:
        """The object that takes our account away and leaves everything else as it is."""
        others = {name: text for name, text in self._annotations().items() if name != ANNOTATION}
        return self._body(others, self.hard_texts, self.status_used)

    def _annotations(self) -> Mapping[str, Any]:
        return self.metadata.get("annotations") or {}

    def _body(self, annotations: Mapping[str, Any], hard: Mapping[str, Any], used: ResourceList) -> bytes:
        return orjson.dumps(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {**self.metadata, "resourceVersion": self.version, "annotations": annotations},
                "status": {"hard": hard, "used": {name: str(amount) for name, amount in used.items()}},
            }
        )

    def written(self, response: bytes, asked_at: float) -> StoredQuota:
        """This quota as it is after its body was taken; `response` is what the API server made of it."""
        version = _decode_written(response).metadata.version
        return replace(self, version=version, read_at=asked_at, damage="", status_used=self.state.used)

    def is_newer_than(self, other: StoredQuota) -> bool:
        """Whether this is a later version of the same quota, or of one that took its place."""
        try:
            return int(self.version) > int(other.version)
        except ValueError:
            return self.version != other.version


def decode_stored_quota(data: msgspec.Raw | bytes, read_at: float = NEVER) -> StoredQuota:
    """A quota from its JSON; raises ValueError or BadCall."""
    quota = _decode_quota(data, "ResourceQuota: ")
    stored = _decode_stored(data)
    stored.metadata.pop("managedFields", None)
    meta = quota.metadata
    policy, used = compile_quota(quota)
    account, damage = _account(stored.metadata, meta.uid or "")
    if account is not None:
        mine = account.used()
        used = {**used, **{name: mine[name] for name in mine if name in policy.hard}}
    return StoredQuota(
        namespace=meta.namespace or "",
        name=meta.name or "",
        uid=meta.uid or "",
        version=meta.resource_version or "",
        state=QuotaState(policy, used),
        account=account,
        spec_hard=(quota.spec and quota.spec.hard) or EMPTY,
        status_hard=(quota.status and quota.status.hard) or EMPTY,
        status_used=(quota.status and quota.status.used) or EMPTY,
        damage=damage,
        read_at=read_at,
        metadata=stored.metadata,
        hard_texts=(stored.status and stored.status.hard) or {},
        spec_hard_texts=(stored.spec and stored.spec.hard) or {},
        # What of the status is not in order yet, the controller puts right.
        doubts=tuple(lint_quota(msgspec.structs.replace(quota, status=None))),
    )


def _account(metadata: Mapping[str, Any], uid: str) -> tuple[Account | None, str]:
    text = (metadata.get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return None, ""
    try:
        return decode(text, uid), ""
    except DamagedAnnotation as damaged:
        return None, str(damaged)
