"""Validation errors of pydantic in one line that a person can act on."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong: `spec.limits[0].max.cpu: expected a quantity ..., got "abc"`."""
    details = error.errors(include_url=False)[0]
    return f"{field_path(details['loc'])}: {_explain(dict(details))}"


def field_path(location: tuple[int | str, ...]) -> str:
    """`("spec", "limits", 0, "max")` as `spec.limits[0].max`."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif "/" in step or "." in step:
            path += f'["{step}"]'
        else:
            path += f".{step}" if path else step
    return path or "document"


_EXPECTED: Final = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "string_type": "expected a text",
    "string_too_short": "expected a text that is not empty",
    "list_type": "expected a list",
    "dict_type": "expected a mapping of names to amounts",
    "model_type": "expected an object",
    "model_attributes_type": "expected an object",
    "bool_type": "expected true or false",
}


def _explain(details: dict[str, Any]) -> str:
    kind = details["type"]
    expected = _EXPECTED.get(kind) or _in_our_words(details["msg"])
    if kind in ("missing", "extra_forbidden") or (kind == "value_error" and isinstance(details["input"], dict)):
        return str(expected)
    return f"{expected}, got {_shown(details['input'])}"


def _in_our_words(message: str) -> str:
    return message.removeprefix("Value error, ").replace("Input should be", "expected")


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None:
        return "null"
    text = str(value)
    return f'"{text[:60]}"' if isinstance(value, str) else text[:60]
