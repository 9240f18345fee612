"""JSON Patch (RFC 6902): only `add`, only what is missing."""

from __future__ import annotations

from typing import Any

Operation = dict[str, Any]


def escape(key: str) -> str:
    """A key as one step of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def add(path: str, value: Any) -> Operation:
    """Add a member; replaces it where it exists."""
    return {"op": "add", "path": path, "value": value}


def add_members(path: str, present: Any, members: dict[str, Any]) -> list[Operation]:
    """Add members to the object at `path`, which is made first where it is missing (`present` is None)."""
    if not members:
        return []
    if present is None:
        return [add(path, members)]
    return [add(f"{path}/{escape(key)}", value) for key, value in members.items()]
