"""A namespace as its users see it: what they create, what they are told, what is used."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.plane import Answer, ControlPlane
from tests.cluster.rig import Replica, Rig
from tests.standalone import manifests
from tests.standalone.server import eventually

Json = dict[str, Any]

PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "PodTemplate": "/api/v1/namespaces/{}/podtemplates",
    "LimitRange": "/api/v1/namespaces/{}/limitranges",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LEDGER = "quota-admission.dev/ledger"

_numbers = itertools.count(1)


class Space:
    """One namespace of a control plane, and the admin who works in it."""

    def __init__(self, plane: ControlPlane, name: str, servers: Sequence[Replica] = ()) -> None:
        """`servers` are those that judge here: policies are waited for until each of them has them."""
        self.plane = plane
        self.name = name
        self.servers = servers

    @classmethod
    def new(cls, rig: Rig) -> Space:
        """A fresh one, judged by the servers of a rig."""
        name = f"space-{next(_numbers)}"
        rig.plane.create_namespace(name)
        return cls(rig.plane, name, rig.servers)

    # -- with kubectl

    def kubectl(self, *args: str, stdin: str | Json | None = None) -> subprocess.CompletedProcess[str]:
        """The real kubectl, in this namespace."""
        return self.plane.kubectl("-n", self.name, *args, stdin=stdin)

    def done(self, *args: str, stdin: str | Json | None = None) -> str:
        """What kubectl prints where it has to succeed."""
        return self.plane.kubectl("-n", self.name, *args, stdin=stdin, check=True).stdout

    # -- by plain calls

    def path(self, kind: str, name: str = "") -> str:
        """Where the objects of a kind are, or one of them."""
        return PATHS[kind].format(self.name) + (f"/{name}" if name else "")

    def post(self, body: Json, query: str = "") -> Answer:
        """Create an object; the whole answer."""
        placed = {**body, "metadata": {**body["metadata"], "namespace": self.name}}
        return self.plane.call("POST", self.path(body["kind"]) + query, placed)

    def create(self, body: Json, query: str = "") -> str:
        """`created`, or what the refusal says after the name of the webhook."""
        answer = self.post(body, query)
        return "created" if answer.status == 201 else answer.message.rpartition("denied the request: ")[2]

    def pod(self, name: str = "", requests: str = "", limits: str = "", **parts: Any) -> str:
        """Create a pod of one container `c`; `created`, or the text of the refusal."""
        return self.create(manifests.pod(name or self.fresh_name(), requests=requests, limits=limits, **parts))

    def pods(self, *names: str, requests: str = "", limits: str = "", **parts: Any) -> None:
        """Create pods, all of which have to get in."""
        for name in names:
            outcome = self.pod(name, requests, limits, **parts)
            assert outcome == "created", f"{name}: {outcome}"

    @staticmethod
    def fresh_name() -> str:
        """A name that no object has."""
        return f"thing-{next(_numbers)}"

    def delete(self, kind: str, name: str) -> None:
        """Delete an object; a pod that nobody runs is gone at once."""
        answer = self.plane.call("DELETE", self.path(kind, name))
        assert answer.status == 200, answer.message

    def finish(self, pod: str, phase: str = "Succeeded") -> None:
        """Have a pod end."""
        answer = self.plane.call("PATCH", f"{self.path('Pod', pod)}/status", {"status": {"phase": phase}})
        assert answer.status == 200, answer.message

    def read(self, kind: str, name: str) -> Json:
        """An object that is there."""
        answer = self.plane.call("GET", self.path(kind, name))
        assert answer.status == 200, answer.message
        return answer.body

    def names(self, kind: str) -> list[str]:
        """The names of all objects of a kind."""
        found = self.plane.call("GET", self.path(kind)).body["items"]
        return sorted(one["metadata"]["name"] for one in found)

    # -- policies

    def limit_range(self, name: str = "limits", **item: Any) -> None:
        """A LimitRange of one entry, waited for."""
        assert self.create(manifests.limit_range(name, **item)) == "created"
        self._await_known("limitRanges", name)

    def quota(self, name: str, hard: str, **spec: Any) -> None:
        """A quota, waited for until its status has its limits: by them requests are judged."""
        assert self.create(manifests.quota(name, hard, **spec)) == "created"
        self.await_hard(name, hard)

    def change_quota(self, name: str, hard: str) -> None:
        """Other limits for a quota, waited for."""
        answer = self.plane.call("PATCH", self.path("ResourceQuota", name), {"spec": {"hard": manifests.amounts(hard)}})
        assert answer.status == 200, answer.message
        self.await_hard(name, hard)

    def await_hard(self, name: str, hard: str) -> None:
        """Wait until the status of a quota has these limits."""
        wanted = manifests.amounts(hard)
        eventually(lambda: self.status(name).get("hard") == wanted, within=20)
        self._await_known("resourceQuotas", name)

    def _await_known(self, policies: str, name: str) -> None:
        """Wait until each server knows at least the version of a policy that is stored now."""
        kind = {"limitRanges": "LimitRange", "resourceQuotas": "ResourceQuota"}[policies]
        version = int(self.read(kind, name)["metadata"]["resourceVersion"])

        def known(server: Replica) -> int:
            return int(server.usage(self.name).get(policies, {}).get(name, {}).get("resourceVersion", 0))

        eventually(lambda: all(known(server) >= version for server in self.servers), within=20)

    def status(self, name: str) -> Json:
        """The status of a quota."""
        return self.read("ResourceQuota", name).get("status", {})  # type: ignore[no-any-return]

    def used(self, name: str) -> str:
        """What is used of a quota, as `cpu=1 pods=2`, by name."""
        return line_of(self.status(name).get("used", {}))

    def await_used(self, name: str, used: str, within: float = 10.0) -> None:
        """Wait until exactly this is used of a quota."""
        seen = ""

        def is_used() -> bool:
            nonlocal seen
            seen = self.used(name)
            return seen == used

        try:
            eventually(is_used, within=within)
        except AssertionError as error:
            raise AssertionError(f"quota {name}: expected {used}, got {seen}") from error

    def ledger(self, name: str) -> Json | None:
        """The account in the annotation of a quota, None where it has none."""
        text = self.read("ResourceQuota", name)["metadata"].get("annotations", {}).get(LEDGER)
        return None if text is None else json.loads(text)


def line_of(amounts: Mapping[str, str]) -> str:
    """Amounts as one line, by name."""
    return " ".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def priority_class(plane: ControlPlane, name: str, value: int) -> None:
    """A PriorityClass, if it is not there yet."""
    answer = plane.call("POST", CLASSES, {"metadata": {"name": name}, "value": value})
    assert answer.status in (201, 409), answer.message
