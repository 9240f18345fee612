"""What kubectl (1.37) prints, word for word, and the lines that submit adds to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml

from admission.apiserver import Status
from admission.kinds import group_of
from admission.patch import Operation


class Refusal(NamedTuple):
    """A refusal by the API server, and what was being done: `creating`, `replacing`, `deleting`."""

    status: Status
    doing: str
    source: str


class Mistake(NamedTuple):
    """Something that kubectl refuses before it asks anybody."""

    text: str


Problem = Refusal | Mistake


def done(api_version: str, kind: str, name: str, verb: str, *, dry_run: bool) -> str:
    """`pod/web created`, `deployment.apps/web replaced (server dry run)`."""
    return f"{_qualified(api_version, kind)}/{name} {verb}{_ending(dry_run)}"


def deleted(api_version: str, kind: str, name: str, namespace: str, *, dry_run: bool) -> str:
    """`pod "web" deleted from team namespace`; `namespace` is empty for what has none."""
    place = f" from {namespace} namespace" if namespace else ""
    return f'{_qualified(api_version, kind)} "{name}" deleted{place}{_ending(dry_run)}'


def _qualified(api_version: str, kind: str) -> str:
    group = group_of(api_version)
    return f"{kind.lower()}.{group}" if group else kind.lower()


def _ending(dry_run: bool) -> str:
    return " (server dry run)" if dry_run else ""


def problems(found: Sequence[Problem]) -> str:
    """The end of kubectl's standard error: a single problem has a form of its own."""
    if len(found) != 1:
        return "".join(f"{_one_of_many(problem)}\n" for problem in found)
    problem = found[0]
    if isinstance(problem, Mistake):
        return f"error: {problem.text}\n"
    if problem.status.reason == "Invalid":
        return _invalid(problem.status)
    return f"{_one_of_many(problem)}\n"


def _one_of_many(problem: Problem) -> str:
    if isinstance(problem, Mistake):
        return problem.text
    reason = f" ({problem.status.reason})" if problem.status.reason else ""
    return f'Error from server{reason}: error when {problem.doing} "{problem.source}": {problem.status.message}'


def _invalid(status: Status) -> str:
    start = "The request is invalid"
    if status.kind or status.name:
        start = f'The {status.kind} "{status.name}" is invalid'
    elif not status.causes and status.message:
        start += f": {status.message}"
    causes = list(dict.fromkeys(map(str, status.causes)))
    if not causes:
        return f"{start}\n"
    if len(causes) == 1:
        return f"{start}: {causes[0]}\n"
    return f"{start}: \n" + "".join(f"* {cause}\n" for cause in causes)


def patch_line(operation: Operation) -> str:
    """`add /spec/containers/0/resources {"limits": {"cpu": "200m"}}`."""
    value = f" {json.dumps(operation['value'], ensure_ascii=False)}" if "value" in operation else ""
    return f"{operation.get('op')} {operation.get('path')}{value}"


class _Dumper(yaml.SafeDumper):
    """Writes every text as a text, those too that are more than plain texts here (a number as it was written)."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str(text)))


def as_yaml(obj: dict[str, Any]) -> str:
    """An object as `kubectl get -o yaml` shows it."""
    return yaml.dump(obj, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=1000)
