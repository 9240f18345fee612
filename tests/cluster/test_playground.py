"""`make playground`, from its start to Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.standalone.server import eventually

ROOT = Path(__file__).parents[2]


class Session:
    """The playground in a process of its own; what it writes is collected."""

    def __init__(self, folder: Path, home: Path) -> None:
        home.mkdir()
        self.folder = folder
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.playground", "--folder", str(folder)],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(home), "HOME": str(home), "QUOTA_ADMISSION_CACHE": _cache()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line

    def next_line(self) -> str:
        """What it says to type next."""
        assert self.process.poll() is None, self.text
        return "".join(re.findall(r"^export KUBECONFIG=.*$", self.text, re.MULTILINE))

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        code = self.process.wait(30)
        self._reader.join(10)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        if self.process.stdout:
            self.process.stdout.close()


def _cache() -> str:
    from tests.cluster import build

    return str(build.cache_folder().parent)


def _descendants(of: int) -> set[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found = {of}
    while more := {child for child, parent in pairs if parent in found} - found:
        found |= more
    return found - {of}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path / "playground", tmp_path / "home")
    yield made
    made.close()


def shell(command: str) -> str:
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.plane(plugins=False)
@pytest.mark.usefixtures("control_plane")  # to be left out without programs
def test_what_it_says_to_type_works_and_ctrl_c_leaves_nothing_behind(session: Session, tmp_path: Path) -> None:
    typed = eventually(session.next_line, within=90, every=0.2)
    answer = shell(typed)
    assert "pod/one created" in answer
    assert re.search(r"cpu\s+200m\s+2\n", answer), answer
    assert re.search(r"pods\s+1\s+6\n", answer), answer
    environment = typed.partition(";")[0]
    kubectl = typed.partition("; ")[2].split()[0]
    refused = shell(f"{environment}; {kubectl} run one --image=registry.example/app:1 -n bare")
    assert "failed quota: compute: must specify cpu for: one; memory for: one" in refused
    below = _descendants(session.process.pid)
    assert len(below) >= 7
    assert session.end() == 0, session.text
    eventually(lambda: not [pid for pid in below if Path(f"/proc/{pid}").exists()])
    assert not session.folder.exists()
    left = [one.name for one in (tmp_path / "home").iterdir() if one.name.startswith(("rig-", "control-plane-"))]
    assert left == []
