"""Finding out whether the API server's own ResourceQuota plugin is on: by a dry-run creation that it has to refuse.

The API server does not tell which plugins it runs. A quota of ours allows no PodTemplate; whoever counts refuses one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import orjson

from admission.cluster.transport import ApiError, ClusterError, Transport

Mode = Literal["webhook", "apiserver", "unknown"]

QUOTA: Final = "quota-admission-probe"
COUNTED: Final = "count/podtemplates"
SETTLE_SECONDS: Final = 2.0
"""How long the quota has to be in place until the plugin has surely seen it: it looks at a cache of its own."""
ASK_EVERY: Final = 0.25

_ATTEMPTS: Final = 5
_TIMEOUT: Final = 10.0


class Probed(NamedTuple):
    """Who has to account, `unknown` where that cannot be told, and why, in one line."""

    mode: Mode
    reason: str


class Probe:
    """Asks the API server, as often as wanted; the quota it needs stays in place. For one thread."""

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        *,
        settle_seconds: float = SETTLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`namespace` ought to be one whose requests our own webhooks do not see: they would refuse first."""
        self._transport = transport
        self._path = f"/api/v1/namespaces/{namespace}"
        self._settle_seconds = settle_seconds
        self._clock = clock
        self._sleep = sleep
        self._in_place_since: float | None = None

    def run(self) -> Probed:
        """Ask. Takes `settle_seconds` longer where the quota is new and the plugin seems to be off; never raises."""
        try:
            settled_at = self._put_in_place() + self._settle_seconds
            while True:
                is_settled = self._clock() >= settled_at
                answer = self._ask()
                if answer.mode != "webhook" or is_settled:
                    return answer
                self._sleep(ASK_EVERY)
        except ClusterError as error:
            return Probed("unknown", f"the API server cannot be probed: {error}")

    def remove(self) -> None:
        """Delete the quota, where it is there; raises ClusterError."""
        self._in_place_since = None
        try:
            self._transport.call("DELETE", f"{self._path}/resourcequotas/{QUOTA}", timeout=_TIMEOUT)
        except ApiError as error:
            if error.status != 404:
                raise

    def _ask(self) -> Probed:
        template = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"generateName": f"{QUOTA}-"},
            "template": {"spec": {"containers": [{"name": "probe", "image": "probe"}]}},
        }
        try:
            self._call("POST", f"{self._path}/podtemplates", template, query={"dryRun": "All"})
        except ApiError as error:
            if error.status != 403:
                raise
            return _judge(error.message)
        return Probed("webhook", "the API server admits what its own ResourceQuota plugin would refuse")

    def _put_in_place(self) -> float:
        """Make the quota what it has to be; since when it has been that, as far as we know."""
        for _ in range(_ATTEMPTS):
            try:
                if not self._change_what_is_wrong(self._read_or_create()):
                    if self._in_place_since is None:
                        self._in_place_since = self._clock()
                    return self._in_place_since
            except ApiError as error:
                if error.status != 409:  # the quota controller writes the same status
                    raise
            self._in_place_since = None
        raise ClusterError(f"the quota {QUOTA} is changed by others again and again")

    def _read_or_create(self) -> dict[str, Any]:
        try:
            return self._call("GET", f"{self._path}/resourcequotas/{QUOTA}")
        except ApiError as error:
            if error.status != 404:
                raise
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": QUOTA, "labels": {"app.kubernetes.io/managed-by": "quota-admission"}},
            "spec": {"hard": {COUNTED: "0"}},
        }
        return self._call("POST", f"{self._path}/resourcequotas", quota)

    def _change_what_is_wrong(self, quota: dict[str, Any]) -> bool:
        """Whether something had to be changed."""
        path = f"{self._path}/resourcequotas/{QUOTA}"
        if quota.get("spec") != {"hard": {COUNTED: "0"}}:
            self._call("PUT", path, {**quota, "spec": {"hard": {COUNTED: "0"}}})
            return True
        status = quota.get("status") or {}
        # PodTemplates may exist; what is used of nothing does not matter, as long as it says something.
        if (status.get("hard") or {}).get(COUNTED) == "0" and COUNTED in (status.get("used") or {}):
            return False
        self._call("PUT", f"{path}/status", {**quota, "status": {"hard": {COUNTED: "0"}, "used": {COUNTED: "0"}}})
        return True

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        content = None if body is None else orjson.dumps(body)
        response = self._transport.call(method, path, content, query=query, timeout=_TIMEOUT)
        answer: dict[str, Any] = orjson.loads(response.body)
        return answer


def _judge(refusal: str) -> Probed:
    """What a refusal says. Our own has the same text, with the name of the webhook before it."""
    if refusal.startswith("admission webhook "):
        return Probed("unknown", f"a webhook refuses before the API server's own plugin could: {refusal}")
    if f"exceeded quota: {QUOTA}" in refusal:
        return Probed("apiserver", "the API server's own ResourceQuota plugin refuses what exceeds a quota")
    return Probed("unknown", f"the API server refuses for another reason: {refusal}")
