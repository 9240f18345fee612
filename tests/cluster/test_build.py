"""The binary is built once for the same sources, wherever they lie."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster import build, programs

# Stands in for Go: notes that it ran, and writes the file after -o, slowly.
FAKE_GO = """#!/bin/sh
echo "$@" >> "$FAKE_GO_LOG"
test -z "$FAKE_GO_FAILS" || { echo "cannot find module" >&2; exit 1; }
while test "$1" != -o; do shift; done
sleep 0.3
printf '#!/bin/sh\\n' > "$2"
chmod +x "$2"
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of ours."""
    return Path(shutil.copytree(build.SOURCE, tmp_path / "sources"))


@pytest.fixture
def go_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a Go that writes its arguments into this file."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(FAKE_GO)
    go.chmod(0o755)
    log = tmp_path / "go.log"
    log.touch()
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_GO_LOG", str(log))
    monkeypatch.setenv("FAKE_GO_FAILS", "")
    monkeypatch.setenv("QUOTA_ADMISSION_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return log


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.cluster.build", *arguments], capture_output=True, text=True, check=False
    )


def test_the_binary_is_built_when_it_is_missing_and_only_then(go_log: Path) -> None:
    first, second = run(), run()
    assert first.returncode == second.returncode == 0
    assert first.stdout == second.stdout == f"{build.binary_path()}\n"
    assert "Building Kubernetes v1.36.3" in first.stderr
    assert second.stderr == ""
    assert len(go_log.read_text().splitlines()) == 1


def test_asked_for_the_path_only_it_builds_nothing(go_log: Path) -> None:
    asked = run("--path")
    assert (asked.returncode, asked.stdout, asked.stderr) == (1, "", "the control plane is not built\n")
    assert go_log.read_text() == ""
    run()
    asked = run("--path")
    assert (asked.returncode, asked.stdout) == (0, f"{build.binary_path()}\n")


def test_builds_at_the_same_time_build_once(go_log: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: run(), range(4)))
    assert {one.stdout for one in ended} == {f"{build.binary_path()}\n"}
    assert len(go_log.read_text().splitlines()) == 1


def test_a_build_that_fails_leaves_nothing_that_looks_like_a_binary(
    go_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", "yes")
    ended = run()
    assert ended.returncode == 1
    assert "cannot find module\ngo build ended with 1" in ended.stderr
    assert build.built() is None
    monkeypatch.setenv("FAKE_GO_FAILS", "")
    assert run().returncode == 0
    assert len(go_log.read_text().splitlines()) == 2


def test_without_go_it_says_what_is_needed(go_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(go_log.parent))
    ended = run()
    assert ended.returncode == 1
    assert ended.stderr == "Go is needed to build the control plane, and no `go` is on the PATH\n"


def test_the_same_sources_elsewhere_have_the_same_binary(sources: Path) -> None:
    assert build.binary_path(sources) == build.binary_path()


@pytest.mark.parametrize("name", build.HASHED)
def test_other_sources_have_another_binary(sources: Path, name: str) -> None:
    with (sources / name).open("a") as file:
        file.write("\n// changed\n")
    assert build.binary_path(sources) != build.binary_path()


def test_the_cache_is_outside_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QUOTA_ADMISSION_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.cache_folder() == tmp_path / ".cache" / "quota-admission" / "controlplane"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert build.cache_folder() == tmp_path / "xdg" / "quota-admission" / "controlplane"


def test_the_programs_of_kubebuilder_go_first(go_log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build.build()
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in (programs.ETCD, programs.API_SERVER):
        (assets / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    found = programs.find()
    assert found.file(programs.ETCD) == assets / "etcd"
    assert found.file(programs.API_SERVER) == assets / "kube-apiserver"
    assert found.file(programs.SCHEDULER) == build.binary_path()
    assert found.version is None


def test_a_folder_of_kubebuilder_without_an_api_server_is_missing_one(
    go_log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "etcd").touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(programs.Missing, match="no kube-apiserver in the folder that KUBEBUILDER_ASSETS names"):
        programs.find()


def test_kubebuilder_alone_has_no_scheduler(go_log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (programs.ETCD, programs.API_SERVER):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(programs.Missing, match="no kube-scheduler"):
        programs.find().file(programs.SCHEDULER)
