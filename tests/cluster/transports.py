"""Our own transport in tests, whose connections are closed at the end."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from admission.cluster.transport import Transport, connect


class Transports:
    """Called with a kubeconfig file, gives a transport; a program would keep it for as long as it lives."""

    def __init__(self) -> None:
        self._made: list[Transport] = []

    def __call__(self, kubeconfig: Path) -> Transport:
        made = connect(kubeconfig)
        self._made.append(made)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for transport in self._made:
            transport.close()
