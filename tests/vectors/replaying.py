"""Playing recorded requests through the pipeline, stage by stage as the API server does."""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import jsonpatch

from admission.limits import compile_limit_range
from admission.objects import Decoder, LimitRange, ResourceQuota, decode_review
from admission.pipeline import Answer
from admission.quota.policy import compile_quota
from tests.unit.fakes import Namespace

Json = dict[str, Any]

DATA = Path(__file__).parent / "data"
DEVICE_CLASSES = {"gpu": "example.com/gpu", "tpu": ""}
FORBIDDEN = (403, "Forbidden")
WRITTEN_WITH_AN_EXPONENT = {"lr-00454", "lr-00494", "generated-00548"}
"""Vectors whose review does not say what decided them: the client wrote `1e1`, the API server judged by that quantity,
whose sums print with an exponent (`11510e-3`), and shows a webhook the text `10`, whose sums print `11510m`. Three
others (lr-00111, lr-01983, generated-00210) have a true `10`, and print `m`. Nobody can tell them apart."""
THOUSANDTHS = re.compile(r"\b(\d+)e-3\b")
STORED_UID = "10000000-0000-4000-8000-000000000001"
SECOND_CALL = "10000000-0000-4000-8000-000000000002"

_TOO_LARGE = re.compile(
    r"spec\.(containers|initContainers)\[(\d+)\]\.resources\.requests: "
    r'Invalid value: "([^"]+)": must be less than or equal to (\S+) limit of ([^,\]]+)'
)
_NO_LIMIT = re.compile(
    r"spec\.(containers|initContainers)\[(\d+)\]\.resources\.limits: Required value: Limit must be set"
)
_decode_limit_range = Decoder(LimitRange)
_decode_quota = Decoder(ResourceQuota)


def vectors(name: str) -> list[Json]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def expected(vector: Json) -> Json:
    """The vector; of those three, with a quantity `NNNe-3` read as `NNNm`."""
    if vector["name"] not in WRITTEN_WITH_AN_EXPONENT:
        return vector
    outcome = {key: value for key, value in vector.items() if key in ("status", "usedAfter")}
    return {**vector, **json.loads(THOUSANDTHS.sub(r"\1m", json.dumps(outcome)))}


def report(failed: dict[str, list[str]], played: int) -> str:
    """What differs, and of which kinds it is."""
    kinds = dict(Counter(name.rsplit("-", 1)[0] for name in failed))
    lines = "\n".join(f"{name}\n    " + "\n    ".join(found) for name, found in list(failed.items())[:20])
    return f"{len(failed)} of {played} differ: {kinds}\n{lines}"


class Webhook(Protocol):
    """Whoever answers: the pipeline in this process, or a server."""

    def mutate(self, review: bytes) -> Answer: ...

    def validate(self, review: bytes) -> Answer: ...

    def used(self) -> dict[str, dict[str, str]]: ...


class InProcess:
    """The pipeline, with the policies of one vector."""

    def __init__(self, vector: Json) -> None:
        self.namespace = Namespace(
            name=vector["review"]["request"]["namespace"],
            limits=[compile_limit_range(_decode_limit_range(_bytes(one))) for one in vector["limitRanges"]],
            quotas=[compile_quota(_decode_quota(_bytes(one))) for one in vector["resourceQuotas"]],
            devices=DEVICE_CLASSES,
        )
        self.used = self.namespace.used

    def mutate(self, review: bytes) -> Answer:
        return self.namespace.mutate(decode_review(review))

    def validate(self, review: bytes) -> Answer:
        return self.namespace.validate(decode_review(review))


class Replay:
    """One vector: what it says, and what our side makes of it."""

    def __init__(self, vector: Json, webhook: Webhook | None = None) -> None:
        self.vector = vector
        self.review = copy.deepcopy(vector["review"])
        self.request = self.review["request"]
        self.webhook = webhook or InProcess(vector)

    def differences(self) -> list[str]:
        """What is not as recorded, one line each."""
        return list(self._differences())

    def _differences(self) -> Iterator[str]:
        mutated = self.webhook.mutate(_bytes(self.review))
        yield from self._protocol(mutated)
        if not mutated.allowed:
            yield f"the mutating stage refused: {mutated.message}"
            return
        self.request["object"] = jsonpatch.apply_patch(self.request["object"], list(mutated.patch))
        if self.vector["outcome"] == "invalid-after-defaults":
            yield from self._invalid()
            return
        self._store()
        validated = self.webhook.validate(_bytes(self.review))
        yield from self._protocol(validated)
        yield from self._decision(validated)
        if validated.allowed:
            yield from self._object()
        used = self.webhook.used()
        if used != self.vector["usedAfter"]:
            yield f"used: {used}, recorded {self.vector['usedAfter']}"

    def _store(self) -> None:
        """What the API server does between the stages: the object gets its name and UID, the call its own UID."""
        self.request["uid"] = SECOND_CALL
        if self.request["operation"] == "CREATE":
            meta = self.request["object"]["metadata"]
            meta["uid"] = STORED_UID
            if not meta.get("name"):
                meta["name"] = self.request["name"] = f"{meta['generateName']}x7k2p"

    def _protocol(self, answer: Answer) -> Iterator[str]:
        if answer.uid != self.request["uid"]:
            yield f"answered for {answer.uid}, asked for {self.request['uid']}"

    def _decision(self, answer: Answer) -> Iterator[str]:
        recorded = self.vector.get("status", {})
        text = recorded.get("message", "").partition(" is forbidden: ")[2]
        if answer.allowed != (self.vector["outcome"] == "allowed"):
            yield f"allowed is {answer.allowed} ({answer.message}), recorded {self.vector['outcome']} ({text})"
        elif not answer.allowed:
            # Whatever the pipeline refuses is answered as Forbidden.
            if (recorded["code"], recorded["reason"]) != FORBIDDEN:
                yield f"recorded as {recorded['code']} {recorded['reason']}"
            if as_listed(answer.message) != as_listed(text):
                yield f"message: {answer.message}\n      recorded {text}"

    def _object(self) -> Iterator[str]:
        stored, ours = self.vector.get("object"), self.request["object"]
        if stored is None or "spec" not in stored:
            return
        for field in ("containers", "initContainers"):
            recorded, found = ([one.get("resources") or {} for one in o["spec"].get(field, [])] for o in (stored, ours))
            if recorded != found:
                yield f"{field}: {found}, recorded {recorded}"
        notes = [one["metadata"].get("annotations") or {} for one in (ours, stored)]
        # A resize keeps the annotations that were there, whatever a webhook adds.
        if self.request.get("subResource") != "resize" and notes[0] != notes[1]:
            yield f"annotations: {notes[0]}, recorded {notes[1]}"

    def _invalid(self) -> Iterator[str]:
        """The API refused the pod for our defaults: they must be those that it names."""
        message, spec = self.vector["status"]["message"], self.request["object"]["spec"]
        for field, index, request, resource, limit in _TOO_LARGE.findall(message):
            resources = spec[field][int(index)]["resources"]
            found = resources["requests"].get(resource), resources["limits"].get(resource)
            if found != (request, limit):
                yield f"{field}[{index}] {resource}: {found}, recorded {(request, limit)}"
        for field, index in _NO_LIMIT.findall(message):
            resources = spec[field][int(index)]["resources"]
            if not resources.get("requests", {}).keys() - resources.get("limits", {}).keys():
                yield f"{field}[{index}]: every request has a limit, recorded as lacking one"


def compared_defaults(vector: Json) -> int:
    """How many of the defaults in a refusal by the API itself are compared."""
    message = vector["status"]["message"]
    return len(_TOO_LARGE.findall(message)) + len(_NO_LIMIT.findall(message))


def as_listed(message: str) -> tuple[str, ...]:
    """Several LimitRange errors in brackets have no fixed order."""
    if message.startswith("[") and message.endswith("]"):
        return tuple(sorted(message[1:-1].split(", ")))
    return (message,)


def _bytes(document: Json) -> bytes:
    return json.dumps(document).encode()
