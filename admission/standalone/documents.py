"""Reading files of Kubernetes objects: YAML or JSON, several documents a file, lists taken apart."""

from __future__ import annotations

import json
import stat
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from admission.objects import NumberText
from admission.standalone.errors import PolicyError

SUFFIXES: Final = frozenset((".yaml", ".yml", ".json"))

MAX_NESTING: Final = 8
"""How deep lists may lie in lists."""
_MERGE: Final = "tag:yaml.org,2002:merge"


class Document(NamedTuple):
    """One object and where it stands: `team.yaml, document 2`."""

    where: str
    body: dict[str, Any]


class _KeyTwiceError(yaml.MarkedYAMLError):
    """A mapping has a key twice."""


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: times stay texts, and a key may stand only once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != _MERGE:
                if key_node.value in seen:
                    problem = f'the key "{key_node.value}" stands twice'
                    raise _KeyTwiceError(None, None, problem, key_node.start_mark)
                seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def policy_files(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """The files under a folder that are read, sorted; hidden ones are not (mounted volumes keep their links there).

    `above` are the folders that this one lies in: a link back to one of them is not followed.
    """
    above |= {folder.resolve()}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if path.resolve() not in above:
                yield from policy_files(path, above)
        elif path.suffix.lower() in SUFFIXES and not _is_special(path):
            yield path


def _is_special(path: Path) -> bool:
    """Whether it is a pipe, a socket or a device, which would be waited for without end."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:  # whoever reads it says what is wrong
        return False


def read_mapping(path: Path) -> dict[str, Any]:
    """A file that holds one mapping, or nothing; raises PolicyError."""
    try:
        bodies = [body for body in _bodies(path.read_bytes(), str(path)) if body is not None]
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror or error}") from None
    if len(bodies) > 1:
        raise PolicyError(f"{path}: expected one document, got {len(bodies)}")
    body = bodies[0] if bodies else {}
    if not isinstance(body, dict):
        raise PolicyError(f"{path}: expected a mapping, got {type(body).__name__}")
    return body


def read_documents(path: Path, name: str) -> list[Document]:
    """The objects of a file; raises PolicyError naming `name`, the document and the place."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"{name}: {error.strerror or error}") from None
    return parse_documents(data, name)


def parse_documents(data: bytes, name: str) -> list[Document]:
    """The objects of a text; raises PolicyError naming `name`, the document and the place."""
    found: list[Document] = []
    for number, body in enumerate(_bodies(data, name), start=1):
        where = f"{name}, document {number}"
        if body is not None:
            found += _flatten(Document(where, _expect_mapping(body, where)))
    return found


def _bodies(data: bytes, name: str) -> list[Any]:
    if data.lstrip()[:1] == b"{":
        try:
            return [json.loads(data, object_pairs_hook=_unique, parse_float=NumberText, parse_constant=_no_number)]
        except _JsonKeyTwiceError as error:
            raise PolicyError(f"{name}: {error}") from None
        except (ValueError, RecursionError):
            pass  # YAML in flow style, several documents, or broken: the YAML parser says which
    try:
        return list(yaml.load_all(data.decode(), _Loader))
    except UnicodeDecodeError as error:
        raise PolicyError(f"{name}: expected UTF-8, got byte 0x{data[error.start]:02x} at {error.start}") from None
    except yaml.YAMLError as error:
        raise PolicyError(f"{name}{_place(error)}") from None
    except Exception as error:
        # The constructors of YAML's own types raise whatever they like, with the value in the text.
        raise PolicyError(f"{name}: holds a value that cannot be read ({type(error).__name__})") from None


class _JsonKeyTwiceError(Exception):
    """An object has a key twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise _JsonKeyTwiceError(f'the key "{twice}" stands twice')
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if isinstance(error, yaml.constructor.ConstructorError):
        problem = "the value has a type that is not known here"  # its text would show a part of the value
    return f", line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else f": {problem}"


def _flatten(document: Document) -> Iterator[Document]:
    kind, items = document.body.get("kind"), document.body.get("items")
    if kind == "List" and items is None:
        return
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield document
        return
    if document.where.count("items[") >= MAX_NESTING:
        raise PolicyError(f"{document.where}: lists are nested more than {MAX_NESTING} deep")
    for index, item in enumerate(items):
        where = f"{document.where}, items[{index}]"
        yield from _flatten(Document(where, _expect_mapping(item, where)))


def _expect_mapping(body: Any, where: str) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise PolicyError(f"{where}: expected an object with apiVersion and kind, got {type(body).__name__}")
    return body
