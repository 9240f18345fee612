"""The same requests, to a running server over TLS, several at once."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor

from admission.pipeline import Answer
from tests.standalone.server import ServerProcess
from tests.vectors.replaying import DEVICE_CLASSES, Json, Replay, expected, report, vectors


class OverTheWire:
    """A server that serves the policies of all vectors, one namespace each."""

    def __init__(self, server: ServerProcess, namespace: str) -> None:
        self._server = server
        self._namespace = namespace

    def mutate(self, review: bytes) -> Answer:
        return self._ask("/mutate", review)

    def validate(self, review: bytes) -> Answer:
        return self._ask("/validate", review)

    def used(self) -> dict[str, dict[str, str]]:
        return self._server.usage(self._namespace)

    def _ask(self, path: str, review: bytes) -> Answer:
        status, answer = self._server.review(path, json.loads(review))
        assert status == 200, answer
        patch = json.loads(base64.b64decode(answer["patch"])) if "patch" in answer else []
        assert answer.get("patchType") == ("JSONPatch" if patch else None)
        refusal = answer.get("status", {})
        if not answer["allowed"]:
            assert (refusal["code"], refusal["reason"]) == (403, "Forbidden")
        assert all(len(warning) < 256 for warning in answer.get("warnings", ()))
        return Answer(answer["uid"], answer["allowed"], refusal.get("message", ""), patch=patch)


def policies(listed: list[Json]) -> dict[str, str]:
    """The files that the server is given."""
    classes = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"extendedResourceName": extended} if extended else {},
        }
        for name, extended in DEVICE_CLASSES.items()
    ]
    everything = classes + [one for vector in listed for one in vector["limitRanges"] + vector["resourceQuotas"]]
    return {"all.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": everything})}


def test_a_running_server_answers_every_recorded_request_as_the_api_server_did():
    listed = [expected(vector) for name in ("admission", "wide") for vector in vectors(name)]
    with ServerProcess(policies(listed)) as server, ThreadPoolExecutor(4) as pool:

        def play(vector: Json) -> tuple[str, list[str]]:
            namespace = vector["review"]["request"]["namespace"]
            return vector["name"], Replay(vector, OverTheWire(server, namespace)).differences()

        failed = {name: found for name, found in pool.map(play, listed) if found}
        assert server.errors() == 0
    assert len(listed) == 2688
    assert not failed, report(failed, len(listed))
