"""What a decision costs: decode, judge, encode, in one thread, without the network."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from admission.objects import decode_review
from admission.pipeline import Answer, Pipeline
from admission.standalone.store import StandaloneStore
from admission.standalone.world import Folder
from admission.web.reviews import encode
from bench.example import BARE, FILLED, numbered, policies, review
from bench.figures import row, spread, time_rounds

CALLS, ROUNDS = 2000, 15


def _store() -> StandaloneStore:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "policies.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": policies()}))
        source = Folder(Path(folder))
        return StandaloneStore(source.load(source.fingerprints()))


def run() -> None:
    """Print the figures."""
    store = _store()
    pipeline = Pipeline(store, store)
    bare, filled = review(BARE), review(FILLED)
    print(f"A decision: pod of two containers ({len(filled)} bytes), two LimitRanges, three quotas; goal 100 µs")
    _measure("mutate, defaults injected", bare, pipeline.mutate)
    _measure("mutate, nothing missing", filled, pipeline.mutate)
    _measure("validate, admitted and counted", filled, pipeline.validate)
    figures = time_rounds(lambda _: _decode(filled), CALLS, ROUNDS)
    row("of which decoding the review alone", spread([figure * 1e6 for figure in figures], "µs"))


def _decode(body: bytes) -> None:
    decode_review(body)


def _measure(name: str, body: bytes, stage: Callable[..., Answer]) -> None:
    bodies = [numbered(body, number) for number in range(CALLS * (ROUNDS + 1))]

    def work(number: int) -> None:
        encode(stage(decode_review(bodies[number]), now=time.time(), deadline=time.monotonic() + 10))

    row(name, spread([figure * 1e6 for figure in time_rounds(work, CALLS, ROUNDS)], "µs"))
