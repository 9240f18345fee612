"""Ways to spoil a JSON document."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]

WRONG: tuple[Any, ...] = (None, True, 1, -1.5, "x", [], {})
"""One value of each type."""


def paths(document: Any, at: Path = ()) -> Iterator[Path]:
    """Where every value of a document stands, itself first."""
    yield at
    if isinstance(document, dict):
        for key, value in document.items():
            yield from paths(value, (*at, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from paths(value, (*at, index))


def value_at(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def replaced(document: Any, path: Path, value: Any) -> Any:
    """The document with another value there; what is not on the way is shared with the original."""
    if not path:
        return value
    made = copy.copy(document)
    made[path[0]] = replaced(document[path[0]], path[1:], value)
    return made


def removed(document: Any, path: Path) -> Any:
    made = copy.deepcopy(document)
    del value_at(made, path[:-1])[path[-1]]
    return made


def shown(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path) or "document"


def around(document: Any, path: Path) -> tuple[bytes, bytes]:
    """The document as bytes, up to the value there and from behind it: what is put between may be no JSON at all."""
    mark = "\u0001here\u0001"
    before, _, after = json.dumps(replaced(document, path, mark)).partition(json.dumps(mark))
    return before.encode(), after.encode()
