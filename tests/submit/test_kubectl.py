"""What submit prints is what a real kubectl prints, for the same answers of an API server."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from admission.apiserver import Cause, Outcome, Status
from admission.cli._submit_print import problems
from admission.cli._submit_run import Json, Key, Run, Screen, Submitted, Wishes, key_of
from tests.submit.kubectl import FakeApiServer, Printed, kubectl
from tests.submit.objects import deployment, obj, pod, text_of

TOO_MUCH = Cause(
    "spec.containers[0].resources.requests", 'Invalid value: "1": must be less than or equal to cpu limit of 500m'
)
NO_LIMIT = Cause(
    "spec.containers[1].resources.limits", "Required value: Limit must be set for non overcommitable resources"
)
REFUSED = 'Internal error occurred: failed calling webhook "enforce.quota-admission.dev": failed to call webhook: Post \
"https://127.0.0.1:10250/validate?timeout=10s": dial tcp 127.0.0.1:10250: connect: connection refused'
DENIED = 'admission webhook "enforce.quota-admission.dev" denied the request: exceeded quota: compute, requested: cpu=1'
STATUSES = {
    "denied": Status(403, "Forbidden", DENIED),
    "denied-oddly": Status(400, "", 'admission webhook "w" denied the request without explanation'),
    "invalid": Status(422, "Invalid", f'Pod "invalid" is invalid: {TOO_MUCH}', "Pod", "invalid", (TOO_MUCH,)),
    "invalid-twice": Status(
        422, "Invalid", f'Pod "invalid-twice" is invalid: [{TOO_MUCH}, {NO_LIMIT}]', "Pod", "i", (TOO_MUCH, NO_LIMIT)
    ),
    "invalid-again": Status(
        422, "Invalid", f'Pod "invalid-again" is invalid: {TOO_MUCH}', "Pod", "invalid-again", (TOO_MUCH, TOO_MUCH)
    ),
    "invalid-bare": Status(422, "Invalid", 'Pod "invalid-bare" is invalid', "Pod", "invalid-bare"),
    "failed": Status(500, "InternalError", REFUSED),
    "unreadable": Status(400, "BadRequest", 'Pod in version "v1" cannot be handled as a Pod: quantities must match'),
}
HINTS = ('container "c": cpu is short by 100m (nothing left of 2)', 'quota "compute" is nearly full: cpu 2 of 2 used')


@dataclass
class Canned:
    """A backend that answers by the object's name."""

    def create(self, manifest: Json, namespace: str, *, dry_run: bool = False) -> Outcome:
        meta = manifest["metadata"]
        name = meta.get("name") or f"{meta['generateName']}x7k2p"
        return self._answer({**manifest, "metadata": {**meta, "name": name, "namespace": namespace}}, name)

    def update(
        self, manifest: Json, old: Json | None, namespace: str, *, sub_resource: str = "", dry_run: bool = False
    ) -> Outcome:
        name = manifest["metadata"]["name"]
        if old is None:
            return Outcome(None, Status(404, "NotFound", f'pods "{name}" not found'), (), ())
        return self._answer(manifest, name)

    def delete(self, manifest: Json, namespace: str, *, dry_run: bool = False) -> Outcome:
        return self._answer(None, manifest["metadata"]["name"])

    def _answer(self, stored: Json | None, name: str) -> Outcome:
        status = STATUSES.get(name)
        warnings = HINTS if name.startswith(("denied", "warned")) else ()
        return Outcome(None if status else stored, status, (), warnings)


@dataclass
class Lines:
    """A screen that keeps what it is given."""

    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)

    def screen(self) -> Screen:
        return Screen(lambda line: self.out.append(f"{line}\n"), lambda line: self.err.append(f"Warning: {line}\n"))


def ours(files: Mapping[str, list[Json]], wishes: Wishes) -> Printed:
    lines = Lines()
    run = Run(Canned(), wishes, lines.screen(), lambda _: None, lambda _: None)
    accepted = run.submit(Submitted(name, body) for name, bodies in files.items() for body in bodies)
    return Printed(
        "".join(lines.out), "".join(lines.err) + (problems(run.problems) if run.problems else ""), not accepted
    )


def theirs(home: Path, files: Mapping[str, list[Json]], verb: str, options: list[str], existing: list[Json]) -> Printed:
    for name, bodies in files.items():
        (home / name).write_text(text_of(*bodies))
    named = {body["metadata"]["name"]: body for body in existing if body["metadata"].get("name")}
    arguments = [verb, *itertools.chain.from_iterable(("-f", name) for name in files), *options]
    with FakeApiServer(Canned(), named) as api:
        return kubectl(api, home, *arguments)


def namespace(name: str) -> Json:
    return obj("Namespace", name)


GENERATED = obj("Pod", "", metadata={"generateName": "job-"}, spec={})
TABLE: dict[str, tuple[list[Json], dict[str, Any]]] = {
    "a pod": ([pod()], {}),
    "a pod of a namespace": ([pod(ns="team")], {}),
    "several kinds": (
        [
            pod(),
            deployment(),
            obj("Service", "s"),
            obj("PersistentVolumeClaim", "data"),
            namespace("team"),
            obj("ResourceClaim", "gpu", version="resource.k8s.io/v1"),
            obj("Widget", "w", version="example.com/v1"),
        ],
        {},
    ),
    "several kinds, dry run": ([pod(), deployment(), namespace("team")], {"dry_run": True}),
    "a refusal": ([pod("denied")], {}),
    "a refusal without a reason": ([pod("denied-oddly")], {}),
    "a refusal at a dry run": ([pod("denied")], {"dry_run": True}),
    "two refusals": ([pod("denied"), pod("denied", ns="team")], {}),
    "a refusal among others": ([pod("a"), pod("denied"), pod("b")], {}),
    "warnings once each": ([pod("warned"), pod("warned-too")], {}),
    "an invalid pod": ([pod("invalid")], {}),
    "an invalid pod with two causes": ([pod("invalid-twice")], {}),
    "an invalid pod with the same cause twice": ([pod("invalid-again")], {}),
    "an invalid pod without causes": ([pod("invalid-bare")], {}),
    "invalid pods among others": ([pod("invalid"), pod("a"), pod("invalid-twice")], {}),
    "an unreadable pod": ([pod("unreadable")], {}),
    "a webhook that cannot be called": ([pod("failed")], {}),
    "everything that can be refused": ([pod(name) for name in STATUSES], {}),
    "another namespace than wanted": ([pod(ns="team")], {"namespace": "other"}),
    "the namespace that is wanted": ([pod(ns="team"), namespace("x"), pod("b")], {"namespace": "team"}),
    "another namespace among others": ([pod(ns="team"), pod("a"), pod("denied")], {"namespace": "other"}),
    "no kind": ([{"apiVersion": "v1", "metadata": {"name": "a"}}], {}),
}
CREATED = {"a generated name": ([GENERATED], {}), "generated names among others": ([GENERATED, pod(), GENERATED], {})}
NAMED = {"no name": ([GENERATED], {}), "no name among others": ([GENERATED, pod()], {})}


def wishes_of(options: Json, **more: Any) -> tuple[Wishes, list[str]]:
    """The same wishes for both."""
    flags = [f"--namespace={options['namespace']}"] if "namespace" in options else []
    return Wishes(**options, **more), [*flags, *(["--dry-run=server"] if options.get("dry_run") else [])]


def table(*parts: Mapping[str, tuple[list[Json], Json]]) -> list[Any]:
    return [pytest.param(*row, id=title) for part in parts for title, row in part.items()]


@pytest.mark.parametrize(("objects", "options"), table(TABLE, CREATED))
def test_create_prints_the_same(tmp_path, objects, options):
    wishes, flags = wishes_of(options)
    files = {"objects.yaml": objects}
    expected = theirs(tmp_path, files, "create", ["--validate=false", *flags], [])
    assert ours(files, wishes) == expected
    assert expected.out or expected.err


def existing(objects: list[Json], wanted: str | None) -> dict[Key, Json]:
    return {key_of(body, wanted): body for body in objects if "kind" in body}


@pytest.mark.parametrize(("objects", "options"), table(TABLE, NAMED))
def test_replace_prints_the_same(tmp_path, objects, options):
    wishes, flags = wishes_of(options, old=existing(objects, options.get("namespace")))
    files = {"objects.yaml": objects}
    expected = theirs(tmp_path, files, "replace", ["--validate=false", *flags], objects)
    assert ours(files, wishes) == expected
    assert expected.out or expected.err


@pytest.mark.parametrize(("objects", "options"), table(TABLE, NAMED))
def test_delete_prints_the_same(tmp_path, objects, options):
    wishes, flags = wishes_of(options, delete=True)
    files = {"objects.yaml": objects}
    expected = theirs(tmp_path, files, "delete", ["--wait=false", *flags], objects)
    assert ours(files, wishes) == expected
    assert expected.out or expected.err


def test_replacing_what_is_not_there_prints_the_same(tmp_path):
    files = {"objects.yaml": [pod("gone"), pod("here")]}
    expected = theirs(tmp_path, files, "replace", ["--validate=false"], [pod("here")])
    assert ours(files, Wishes(old=existing([pod("here")], None))) == expected
    assert 'pods "gone" not found' in expected.err


def test_every_file_is_named_as_it_was_given(tmp_path):
    (tmp_path / "sub").mkdir()
    files = {"./sub/a.yaml": [pod("denied")], "b.yaml": [pod("failed")]}
    expected = theirs(tmp_path, files, "create", ["--validate=false"], [])
    assert ours(files, Wishes()) == expected
    assert '"./sub/a.yaml"' in expected.err
