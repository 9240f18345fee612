"""Applying a JSON Patch (RFC 6902) of the operations add, replace and remove."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from admission.apiserver.shapes import Json


class PatchError(ValueError):
    """A patch that does not fit the object."""


def apply_patch(document: Json, operations: Iterable[Mapping[str, Any]]) -> Json:
    """A new document with the operations done; raises PatchError."""
    result = copy.deepcopy(document)
    for operation in operations:
        try:
            _apply(result, operation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            raise PatchError(f"patch cannot be applied: {operation.get('op')} {operation.get('path')}") from None
    return result


def _apply(document: Json, operation: Mapping[str, Any]) -> None:
    *parents, last = _steps(operation["path"])
    at: Any = document
    for step in parents:
        at = at[int(step)] if isinstance(at, list) else at[step]
    value = None if operation["op"] == "remove" else copy.deepcopy(operation["value"])
    if isinstance(at, list):
        _change_list(at, operation["op"], last, value)
    else:
        _change_mapping(at, operation["op"], last, value)


def _steps(path: str) -> list[str]:
    if not path.startswith("/"):
        raise ValueError(path)
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _change_list(at: list[Any], op: str, step: str, value: Any) -> None:
    index = len(at) if step == "-" else int(step)
    if not 0 <= index < len(at) + (op == "add"):
        raise IndexError(step)
    if op == "add":
        at.insert(index, value)
    elif op == "replace":
        at[index] = value
    elif op == "remove":
        del at[index]
    else:
        raise ValueError(op)


def _change_mapping(at: Json, op: str, step: str, value: Any) -> None:
    if op == "remove":
        del at[step]
    elif op == "add" or (op == "replace" and step in at):
        at[step] = value
    else:
        raise ValueError(op)
