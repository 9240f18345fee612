"""Control planes for the tests of this folder.

A test takes `control_plane`, and `namespace` for a namespace of its own there. Which control plane it gets, says the
mark `plane`, whose arguments are those of `Variant`. Each variant is started once, by the first test that needs it, and
ends after the last test of this folder. Tests that need two, and fixtures of modules, take `control_planes` and ask it.

With pytest-xdist each worker has its own control planes, so what a test does to one disturbs no other test.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.plane import ControlPlane, Variant
from tests.cluster.processes import StartError
from tests.cluster.programs import Missing, find
from tests.cluster.rigs import rig, rigs  # noqa: F401 - fixtures

HERE = Path(__file__).parent
GROUP = "cluster"

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "plane(**variant): the control plane that the test runs against")
    config.addinivalue_line("markers", "rig(**setup): the servers and controllers around it")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one worker of xdist run all of them, so that no variant is started twice.

    With `--dist loadgroup` the group does that. With `worksteal` their place does: what is first in a worker's share is
    stolen last.
    """
    items.sort(key=lambda item: HERE not in item.path.parents)
    for item in items:
        if _needs_a_plane(item):
            item.add_marker(pytest.mark.xdist_group(GROUP))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _needs_a_plane(item) and (missing := _missing(_variant(item))):
        pytest.skip(missing)  # here and not in a fixture, so that the summary has one line for all tests


def _needs_a_plane(item: pytest.Item) -> bool:
    return HERE in item.path.parents and "control_planes" in getattr(item, "fixturenames", ())


def _variant(item: pytest.Item) -> Variant:
    """What the mark of a test says, or its parameter."""
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        given = item.callspec.params.get("control_plane")
        if isinstance(given, Variant):
            return given
    mark = item.get_closest_marker("plane")
    return Variant(**(mark.kwargs if mark else {}))


@functools.cache
def _missing(variant: Variant) -> str:
    """What is not at hand; nothing if all is."""
    try:
        programs = find()
        for name in variant.programs:
            programs.file(name)
    except Missing as missing:
        return str(missing)
    return ""


class ControlPlanes:
    """The control planes that run: `planes(variant)` starts one, or gives the one that runs."""

    def __init__(self) -> None:
        self._started: dict[Variant, ControlPlane] = {}
        self._failed: dict[Variant, str] = {}

    def __call__(self, variant: Variant) -> ControlPlane:
        if variant in self._failed:
            pytest.fail(f"the control plane did not start before: {self._failed[variant]}", pytrace=False)
        try:
            plane = self._started.get(variant)
            if plane is None:
                plane = self._started[variant] = ControlPlane(variant)
            plane.start()  # also what an earlier test has ended
        except Missing as missing:  # asked for by the test itself, not by its mark
            pytest.skip(str(missing))
        except StartError as error:
            self._failed[variant] = str(error).splitlines()[0]
            pytest.fail(f"{variant}: {error}", pytrace=False)
        return plane

    def stop(self) -> None:
        for plane in self._started.values():
            plane.stop()


@pytest.fixture(scope="package")
def control_planes() -> Iterator[ControlPlanes]:
    """Starts a control plane of a given variant, once."""
    planes = ControlPlanes()
    yield planes
    planes.stop()


@pytest.fixture
def control_plane(request: pytest.FixtureRequest, control_planes: ControlPlanes) -> ControlPlane:
    """The control plane that the mark `plane` asks for; with `indirect` parametrization that of the given variant."""
    return control_planes(_variant(request.node))


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh namespace with its default service account; what was made in it is removed where controllers can."""
    name = f"test-{next(_numbers)}"
    control_plane.create_namespace(name)
    yield name
    if control_plane.variant.runs("namespace-controller"):
        control_plane.delete_namespace(name)
