"""Recorded requests, made again by a client of a real API server."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.cluster.calls import Caller
from tests.cluster.plane import Answer
from tests.vectors.replaying import FORBIDDEN, THOUSANDTHS, WRITTEN_WITH_AN_EXPONENT, as_listed

Json = dict[str, Any]

BUILT_IN, WEBHOOK = " is forbidden: ", " denied the request: "
"""What the API server writes before the words of a plugin, and before those of a webhook."""
INVALID = " is invalid: "

GIVEN_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
JOB_LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
ADDRESSES = ("clusterIP", "clusterIPs", "healthCheckNodePort")

CLUSTER_WIDE: tuple[tuple[str, Json], ...] = (
    *(
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value},
        )
        for name, value in (("low", 100), ("medium", 1000), ("high", 10000))
    ),
    *(
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "example.com/none",
                "allowVolumeExpansion": True,
            },
        )
        for name in ("gold", "bronze")
    ),
    (
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "kata"},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
        },
    ),
    *(
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec},
        )
        for name, spec in (("gpu", {"extendedResourceName": "example.com/gpu"}), ("tpu", {}))
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                ],
            },
        },
    ),
)
"""What existed in the cluster of the records: where it is created, and what it is."""


class NotReproducible(Exception):
    """A client cannot bring about what the record has; the text says why."""


class Recreation:
    """One record: its namespace, its objects, and its request made again."""

    def __init__(self, vector: Json, caller: Caller) -> None:
        self.name: str = vector["name"]
        self.vector = vector
        self.request: Json = vector["review"]["request"]
        self.namespace: str = self.request["namespace"]
        self.versions: Json = {}
        self._caller = caller
        self._old: Json | None = None

    # -- what was there before

    def create_namespace(self) -> None:
        """The namespace, and the object that the request changes: before any policy, so that nobody charges for it."""
        meta: Json = {"name": self.namespace}
        if uses_admin_access(self.request["object"]):
            meta["labels"] = {"resource.kubernetes.io/admin-access": "true"}
        self._must("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        if self.request["oldObject"]:
            old = self.request["oldObject"]
            self._old = self._must("POST", self._path(), as_sent(old))
            if old["kind"] == "PersistentVolumeClaim":  # a claim grows only once it is bound
                bound = {**self._old, "status": old["status"]}
                self._old = self._must("PUT", f"{self._path(old['metadata']['name'])}/status", bound)

    def create_policies(self) -> None:
        """The LimitRanges, and the quotas with the status that they had."""
        prefix = f"/api/v1/namespaces/{self.namespace}"
        limits: Json = {}
        quotas: Json = {}
        for limit_range in self.vector["limitRanges"]:
            made = self._must("POST", f"{prefix}/limitranges", limit_range)
            limits[made["metadata"]["name"]] = made["metadata"]["resourceVersion"]
        for quota in self.vector["resourceQuotas"]:
            made = self._must("POST", f"{prefix}/resourcequotas", quota)
            name = made["metadata"]["name"]
            made = self._must("PUT", f"{prefix}/resourcequotas/{name}/status", {**made, "status": quota["status"]})
            if made.get("status") != quota["status"]:
                raise NotReproducible(f"the status of {name} is stored as {made.get('status')}")
            quotas[name] = made["metadata"]["resourceVersion"]
        self.versions = {"limitRanges": limits, "resourceQuotas": quotas}

    def _must(self, method: str, path: str, body: Json) -> Json:
        answer = self._caller.call(method, path, body)
        if answer.status not in (200, 201):
            raise NotReproducible(f"{method} {path}: {answer.status} {answer.message}")
        return answer.body

    def _path(self, name: str = "") -> str:
        resource = self.request["resource"]
        group = f"/apis/{resource['group']}" if resource["group"] else "/api"
        kind = f"{group}/{resource['version']}/namespaces/{self.namespace}/{resource['resource']}"
        return f"{kind}/{name}" if name else kind

    # -- the request

    def differences(self, tries: int = 1) -> list[str]:
        """What is not as recorded, one line each.

        The built-in plugins take several policies of a namespace in random order. A refusal leaves nothing behind, so
        where it is not the recorded one the request can be made again.
        """
        answer = self._send()
        found = list(self._compare(answer))
        while found and outcome(answer) == "denied" and tries > 1:
            tries -= 1
            answer = self._send()
            found = list(self._compare(answer))
        return found

    def _send(self) -> Answer:
        wanted = self.request["object"]
        if self._old is None:
            dry = "?dryRun=All" if self.request["dryRun"] else ""
            return self._caller.call("POST", f"{self._path()}{dry}", as_sent(as_written(self.name, wanted)))
        changed = changed_alike(self.request["oldObject"], wanted, self._old)
        path = self._path(wanted["metadata"]["name"])
        sub = self.request.get("subResource")
        return self._caller.call("PUT", f"{path}/{sub}" if sub else path, changed)

    def _compare(self, answer: Answer) -> Iterator[str]:
        found = outcome(answer)
        message = self.vector.get("status", {}).get("message", "")
        if found != self.vector["outcome"]:
            yield f"{found} ({answer.status} {answer.message}), recorded {self.vector['outcome']} ({message})"
        elif found == "allowed":
            yield from self._stored(answer.body)
        else:
            yield from self._refusal(answer, message)
        used = self._used()
        recorded = self.vector["usedAfter"]
        if self._alike(used) != self._alike(recorded):
            yield f"used: {used}, recorded {recorded}"

    def _refusal(self, answer: Answer, recorded: str) -> Iterator[str]:
        if answer.status == FORBIDDEN[0] and answer.body.get("reason") != FORBIDDEN[1]:
            yield f"the reason is {answer.body.get('reason')}"
        if as_listed(self._alike(said(answer.message))) != as_listed(self._alike(said(recorded))):
            yield f"message: {answer.message}\n      recorded {recorded}"

    def _stored(self, stored: Json) -> Iterator[str]:
        recorded = self.vector.get("object")
        if not recorded or "spec" not in recorded:
            return
        specs = [without_addresses(one["spec"]) for one in (stored, recorded)]
        if specs[0] != specs[1]:
            yield f"spec: {specs[0]}\n      recorded {specs[1]}"
        notes = [one["metadata"].get("annotations") or {} for one in (stored, recorded)]
        if notes[0] != notes[1]:
            yield f"annotations: {notes[0]}, recorded {notes[1]}"

    def _used(self) -> Json:
        listed = self._caller.done("GET", f"/api/v1/namespaces/{self.namespace}/resourcequotas")
        return {one["metadata"]["name"]: one.get("status", {}).get("used", {}) for one in listed["items"]}

    def _alike(self, found: Any) -> Any:
        """Of the requests that were written with an exponent: its sums as they print without."""
        if self.name not in WRITTEN_WITH_AN_EXPONENT:
            return found
        if isinstance(found, dict):
            return {key: self._alike(value) for key, value in found.items()}
        return THOUSANDTHS.sub(r"\1m", found)


def outcome(answer: Answer) -> str:
    """The answer in the words of the records."""
    if answer.status in (200, 201):
        return "allowed"
    if answer.status == FORBIDDEN[0] and (BUILT_IN in answer.message or WEBHOOK in answer.message):
        return "denied"
    return "invalid-after-defaults" if answer.status == 422 and INVALID in answer.message else "error"


def said(message: str) -> str:
    """The words of who refused: the rest is the API server's."""
    for before in (WEBHOOK, BUILT_IN, INVALID):
        if before in message:
            return message.partition(before)[2]
    return message


def uses_admin_access(manifest: Json) -> bool:
    """Whether a claim asks for what only labelled namespaces are given."""
    devices = manifest.get("spec", {}).get("devices", {}) if manifest["kind"] == "ResourceClaim" else {}
    return any(one.get("exactly", {}).get("adminAccess") for one in devices.get("requests", []))


def as_written(name: str, manifest: Json) -> Json:
    """The object as the client wrote it: of three of them the review does not say that `10` was written `1e1`."""
    if name not in WRITTEN_WITH_AN_EXPONENT:
        return manifest
    written = copy.deepcopy(manifest)
    for container in written["spec"]["containers"]:
        for listed in container["resources"].values():
            if listed.get("cpu") == "10":
                listed["cpu"] = "1e1"
    return written


def as_sent(manifest: Json) -> Json:
    """The object as a client creates it: without what the server gives, which would be refused or mean another."""
    sent = copy.deepcopy(manifest)
    sent.pop("status", None)
    for key in GIVEN_BY_SERVER:
        sent["metadata"].pop(key, None)
    spec = sent.get("spec", {})
    if sent["kind"] == "Service" and spec.get("clusterIP") != "None":
        sent["spec"] = without_addresses(spec)
    if sent["kind"] == "Job" and "selector" in spec:
        del spec["selector"]
        for meta in (sent["metadata"], spec["template"]["metadata"]):
            meta["labels"] = {key: value for key, value in meta.get("labels", {}).items() if key not in JOB_LABELS}
    return sent


def without_addresses(spec: Json) -> Json:
    """The spec of a Service without what the server chooses; another one as it is."""
    if not ({"clusterIP", "ports"} & spec.keys()):
        return spec
    kept = {key: value for key, value in spec.items() if key not in ADDRESSES}
    if "ports" in kept:
        kept["ports"] = [{key: value for key, value in port.items() if key != "nodePort"} for port in kept["ports"]]
    return kept


def changed_alike(before: Any, after: Any, here: Any) -> Any:
    """What is here, changed as the record was changed from `before` to `after`."""
    if before == after:
        return here
    if isinstance(before, dict) and isinstance(after, dict) and isinstance(here, dict):
        kept = {key: value for key, value in here.items() if key in after or key not in before}
        return kept | {key: changed_alike(before.get(key), value, here.get(key)) for key, value in after.items()}
    lists = isinstance(before, list) and isinstance(after, list) and isinstance(here, list)
    if lists and len(before) == len(after) == len(here):
        return [changed_alike(*three) for three in zip(before, after, here, strict=True)]
    return after
