"""Who we are to the API server, and which accounts are ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import msgspec

from admission.cluster.transport import READ_TIMEOUT, ApiError, ClusterError, Transport, Unreachable
from admission.objects import UserInfo

log = logging.getLogger(__name__)

SERVICE_ACCOUNT: Final = "system:serviceaccount:"
ACCOUNTS_OF: Final = "system:serviceaccounts:"
FALLBACK_NAMESPACE: Final = "kube-system"
"""Where a controller keeps its Lease that is no service account and serves no Service."""
ASK_AGAIN: Final = 0.5
SHORTEST_TRY: Final = 1.0
TELL_AFTER: Final = 4.0
"""Seconds until it is said that we wait, and after which an account that is not known is taken for a mistake."""


class _Status(msgspec.Struct, rename="camel"):
    user_info: UserInfo


class _Review(msgspec.Struct):
    status: _Status


_decode_review = msgspec.json.Decoder(_Review).decode


@dataclass(frozen=True)
class OwnAccounts:
    """The accounts that may change what is ours: by name, or by one of their groups."""

    usernames: frozenset[str]
    groups: frozenset[str] = frozenset()

    def contain(self, user: UserInfo | None) -> bool:
        """Whether a user is one of them."""
        return user is not None and (user.username in self.usernames or not self.groups.isdisjoint(user.groups or ()))


def whoami(transport: Transport, timeout: float = READ_TIMEOUT) -> str:
    """The name by which the API server knows us; raises ClusterError."""
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    try:
        answer = transport.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body, timeout=timeout).body
        return _decode_review(answer).status.user_info.username
    except msgspec.MsgspecError as error:
        raise ClusterError(f"{transport.host} does not say who we are: {error}") from None


def reached(transport: Transport, wait: float, clock: Callable[[], float] = time.monotonic) -> str:
    """The same, trying for so many seconds; raises ClusterError with the last reason."""
    give_up = clock() + wait
    tell_at = clock() + TELL_AFTER
    while True:
        try:
            return whoami(transport, max(SHORTEST_TRY, give_up - clock()))
        except (Unreachable, ApiError) as error:
            # An API server that has just started knows neither its roles (403) nor, for a moment, its accounts (401).
            refused = isinstance(error, ApiError) and error.status == 401 and clock() >= tell_at
            if refused or clock() + ASK_AGAIN > give_up:
                raise ClusterError(_start_text(transport, error)) from None
            if clock() >= tell_at:
                log.info("waiting for the API server", extra={"problem": str(error)})
                tell_at = give_up
            time.sleep(ASK_AGAIN)


def _start_text(transport: Transport, error: ClusterError) -> str:
    if isinstance(error, ApiError):
        return f"the API server {transport.host} refuses us: {error}"
    return f"the API server cannot be reached: {error}"


def namespace_of(username: str) -> str:
    """The namespace of a service account, empty for other users."""
    if not username.startswith(SERVICE_ACCOUNT):
        return ""
    return username.removeprefix(SERVICE_ACCOUNT).partition(":")[0]


def own_accounts(username: str, more: Collection[str] = ()) -> OwnAccounts:
    """Ours: this one, those named, and the service accounts of our namespace where this is one."""
    namespace = namespace_of(username)
    groups = {ACCOUNTS_OF + namespace} if namespace else set()
    return OwnAccounts(frozenset((username, *more)), frozenset(groups))
