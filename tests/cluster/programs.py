"""Where the programs of the control plane are on this machine."""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import build

ETCD, API_SERVER = "etcd", "kube-apiserver"
CONTROLLER_MANAGER, SCHEDULER = "kube-controller-manager", "kube-scheduler"
ALL = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)

NOT_BUILT = 'no control plane: run "make controlplane" (needs Go)'
KUBECTL = Path(sysconfig.get_path("scripts")) / "kubectl"


class Missing(Exception):
    """A program is not at hand; the text says which, and what helps."""


@dataclass(frozen=True)
class Programs:
    """The file of each program that is at hand."""

    files: dict[str, Path]
    version: str | None  # of the API server, if it is known

    def file(self, name: str) -> Path:
        try:
            return self.files[name]
        except KeyError:
            raise Missing(f"no {name}: it is not in KUBEBUILDER_ASSETS, and 'make controlplane' did not run") from None


def find() -> Programs:
    """Our own binary, or what the folder named by KUBEBUILDER_ASSETS has, which goes first."""
    own = build.built()
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        if own is None:
            raise Missing(NOT_BUILT)
        return Programs(dict.fromkeys(ALL, own), build.kubernetes_version())
    theirs = {name: path for name in ALL if os.access(path := Path(assets).absolute() / name, os.X_OK)}
    for needed in (ETCD, API_SERVER):
        if needed not in theirs:
            raise Missing(f"no {needed} in the folder that KUBEBUILDER_ASSETS names")
    return Programs({**(dict.fromkeys(ALL, own) if own else {}), **theirs}, None)
