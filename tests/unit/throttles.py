"""Throttles in short notations.

amount    `pod=2 cpu=1 memory=2Gi`: `pod` is the number of pods; `-` is the absent amount
selector  `a=1, b Exists, c In x y`: labels and expressions, separated by commas; `all` has none
terms     selectors separated by `;`; of a ClusterThrottle `namespace selector / pod selector`, `-` where one is absent
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from admission.throttle.amounts import Amount, read_amount, write_amount
from admission.throttle.objects import (
    AnyThrottle,
    ResourceAmount,
    decode_cluster_throttle,
    decode_throttle,
)
from admission.throttle.policy import ThrottleKey, ThrottlePolicy, compile_throttle
from tests.unit.helpers import Json, amounts, encoded, texts

THROTTLER = "kube-throttler"
T1 = ThrottleKey("default", "t1")


def amount(line: str) -> Amount:
    stated = texts("" if line == "-" else line)
    pods = stated.pop("pod", None)
    return Amount(None if pods is None else int(pods), amounts(" ".join(f"{k}={v}" for k, v in stated.items())))


def shown(one: Amount) -> str:
    """The opposite of `amount`."""
    pods = [] if one.pods is None else [f"pod={one.pods}"]
    return " ".join([*pods, *(f"{name}={quantity}" for name, quantity in one.requests.items())]) or "-"


def amount_json(line: str) -> Json:
    """An amount as it is written."""
    return as_json(write_amount(amount(line)))


def as_json(written: Any) -> Json:
    return msgspec.to_builtins(written, enc_hook=str)


def read_amount_json(document: Json) -> Amount:
    return read_amount(msgspec.convert(document, ResourceAmount, dec_hook=lambda _, text: amounts(f"x={text}")["x"]))


def selector_json(line: str) -> Json:
    labels, expressions = {}, []
    for part in filter(None, (part.strip() for part in ("" if line == "all" else line).split(","))):
        words = part.split()
        if len(words) == 1:
            key, _, value = part.partition("=")
            labels[key] = value
        else:
            expressions.append({"key": words[0], "operator": words[1], "values": words[2:]})
    return {"matchLabels": labels, "matchExpressions": expressions}


def terms_json(line: str) -> list[Json]:
    terms = []
    for part in filter(None, (part.strip() for part in line.split(";"))):
        namespaces, pods = part.split(" / ") if " / " in part else ("-", part)
        sides = {"namespaceSelector": namespaces, "podSelector": pods}
        terms.append({name: selector_json(side) for name, side in sides.items() if side != "-"})
    return terms


def throttle_json(
    limit: str = "-",
    terms: str = "",
    overrides: Sequence[tuple[str, str, str]] = (),
    *,
    key: ThrottleKey = T1,
    **spec: Any,
) -> Json:
    """A throttle of either kind; an override is (begin, end, amount)."""
    meta = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
    return {
        "apiVersion": "schedule.k8s.everpeace.github.com/v1alpha1",
        "kind": "ClusterThrottle" if key.is_cluster_wide else "Throttle",
        "metadata": meta,
        "spec": {
            "throttlerName": THROTTLER,
            "threshold": amount_json(limit),
            "temporaryThresholdOverrides": [
                {"begin": begin, "end": end, "threshold": amount_json(line)} for begin, end, line in overrides
            ],
            "selector": {"selectorTerms": terms_json(terms)},
            **spec,
        },
    }


def read_throttle(document: Json) -> AnyThrottle:
    decode = decode_cluster_throttle if document["kind"] == "ClusterThrottle" else decode_throttle
    return decode(encoded(document))


def policy(*parts: Any, **more: Any) -> ThrottlePolicy:
    return compile_throttle(read_throttle(throttle_json(*parts, **more)))
