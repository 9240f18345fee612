"""Fixtures: servers and controllers around the control plane of a test.

A test takes `rig`. What runs, says the mark `rig`, whose arguments are those of `Setup`; around which control plane,
says the mark `plane`. What the next test needs as well keeps running; of each control plane one rig runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.plane import ControlPlane
from tests.cluster.rig import Rig, Setup


class Rigs:
    """`rigs(plane, setup)` starts a rig, or gives the one that runs."""

    def __init__(self) -> None:
        self._running: dict[ControlPlane, Rig] = {}

    def __call__(self, plane: ControlPlane, setup: Setup) -> Rig:
        found = self._running.get(plane)
        if found is not None and (found.setup != setup or not self._is_whole(found)):
            self.end(plane)
            found = None
        if found is None:
            found = Rig(plane, setup).__enter__()
            self._running[plane] = found
        return found

    def end(self, plane: ControlPlane) -> None:
        """End what runs around this control plane, if anything does."""
        found = self._running.pop(plane, None)
        if found is not None:
            found.stop()

    def stop(self) -> None:
        """End all that run."""
        while self._running:
            self._running.popitem()[1].stop()

    @staticmethod
    def _is_whole(rig: Rig) -> bool:
        return all(replica.runs() for replica in rig.servers + rig.controllers)


@pytest.fixture(scope="package")
def rigs(control_planes: Callable[..., ControlPlane]) -> Iterator[Rigs]:
    """Starts servers and controllers around a control plane, and ends them before it."""
    running = Rigs()
    yield running
    running.stop()


@pytest.fixture
def rig(request: pytest.FixtureRequest, rigs: Rigs, control_plane: ControlPlane) -> Rig:
    """The servers and controllers that the mark `rig` asks for."""
    mark = request.node.get_closest_marker("rig")
    return rigs(control_plane, Setup(**(mark.kwargs if mark else {})))
