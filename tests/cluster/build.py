"""The binary of the control plane: built once, kept in a cache folder outside the checkout.

`python -m tests.cluster.build` builds it when it is missing and prints its path; with `--path` it builds nothing and
exits 1 when it is missing. Only Go and the standard library of Python are needed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent / "controlplane"
HASHED = ("go.mod", "go.sum", "main.go")
BINARY = "controlplane"
VERSION_PACKAGE = "k8s.io/component-base/version"


class BuildError(Exception):
    """The binary could not be built; the text says why."""


def kubernetes_version(source: Path = SOURCE) -> str:
    """The version of Kubernetes that go.mod asks for, such as `v1.36.3`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)$", (source / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{source / 'go.mod'} requires no k8s.io/kubernetes")
    return found[1]


def ldflags(source: Path = SOURCE) -> str:
    """What the linker writes into the binary: the version that kubectl and the logs show, and no symbols."""
    version = kubernetes_version(source)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in stamps.items())])


def cache_folder() -> Path:
    """Where the binaries are kept, whatever checkout they were built from."""
    if own := os.environ.get("QUOTA_ADMISSION_CACHE"):
        return Path(own).absolute() / "controlplane"
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "quota-admission" / "controlplane"


def binary_path(source: Path = SOURCE) -> Path:
    """Where the binary of these sources is or would be, for this kind of machine."""
    digest = hashlib.sha256()
    for name in HASHED:
        content = (source / name).read_bytes()
        digest.update(b"%s %d\n" % (name.encode(), len(content)) + content)
    digest.update(f"{platform.system()} {platform.machine()} {ldflags(source)}".encode())
    return cache_folder() / digest.hexdigest()[:16] / BINARY


def built(source: Path = SOURCE) -> Path | None:
    """The binary, if it has been built."""
    path = binary_path(source)
    return path if path.is_file() and os.access(path, os.X_OK) else None


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Held by one process at a time; the system frees it when that process ends in any way."""
    with file.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def build(source: Path = SOURCE) -> Path:
    """The path of the binary, which is built if it is missing. Whoever comes while another builds, waits for it."""
    if (path := built(source)) is not None:
        return path
    go = shutil.which("go")
    if go is None:
        raise BuildError("Go is needed to build the control plane, and no `go` is on the PATH")
    path = binary_path(source)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent / "lock"):
        if (done := built(source)) is not None:
            return done
        print(
            f"Building Kubernetes {kubernetes_version(source)} for the tests. "
            "That takes about ten minutes when Go has nothing of it in its cache, else less than one.",
            file=sys.stderr,
            flush=True,
        )
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="new-") as folder:
            fresh = Path(folder) / BINARY
            _compile(go, source, fresh)
            fresh.replace(path)
    return path


def _compile(go: str, source: Path, output: Path) -> None:
    command = [go, "build", "-trimpath", "-buildvcs=false", f"-ldflags={ldflags(source)}", "-o", str(output), "."]
    ended = subprocess.run(
        command, cwd=source, env={**os.environ, "GOWORK": "off", "CGO_ENABLED": "0"}, stdout=sys.stderr, check=False
    )
    if ended.returncode:
        raise BuildError(f"go build ended with {ended.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.build", description=__doc__)
    parser.add_argument("--path", action="store_true", help="build nothing: print the path, or exit 1 if it is missing")
    if parser.parse_args().path:
        path = built()
        print(path if path else "the control plane is not built", file=sys.stdout if path else sys.stderr)
        return 0 if path else 1
    try:
        print(build())
    except BuildError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
