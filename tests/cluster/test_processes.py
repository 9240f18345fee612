"""What is started for tests does not outlive them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.processes import Group, Process, StartError
from tests.standalone.server import eventually

SLEEP = Path(shutil.which("sleep") or "sleep")

STARTS_ONE = """
import sys, time
from pathlib import Path
from tests.cluster.processes import Group, Process
home, sleep = map(Path, sys.argv[1:])
process = Process("sleep", sleep, ["60"], home, Group())
process.start()
print(process.pid, flush=True)
time.sleep(60)
"""


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return state.strip() == "" or state.startswith("Z")


def test_what_was_started_ends_when_the_tests_are_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE, str(tmp_path), str(SLEEP)], stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        assert not is_gone(pid)
        tests.kill()
    eventually(lambda: is_gone(pid))


def test_a_group_ends_as_a_whole(tmp_path: Path) -> None:
    group = Group()
    processes = [Process("sleep", SLEEP, ["60"], tmp_path, group) for _ in range(2)]
    for process in processes:
        process.start()
    group.kill()
    eventually(lambda: not any(process.runs() for process in processes))


def test_a_process_that_was_killed_can_be_started_again(tmp_path: Path) -> None:
    group = Group()
    process = Process("sleep", SLEEP, ["60"], tmp_path, group)
    process.start()
    first = process.pid
    process.stop(hard=True)
    assert is_gone(first)
    process.start()
    assert process.runs()
    assert process.pid != first
    group.kill()
    process.stop(hard=True)


def test_a_process_that_ends_before_it_is_ready_is_reported_with_its_log(tmp_path: Path) -> None:
    group = Group()
    process = Process("sleep", SLEEP, ["no number"], tmp_path, group)
    process.start()
    with pytest.raises(StartError, match=r"(?s)sleep ended with 1:.*no number"):
        process.wait_until(lambda: False, within=10)
    group.kill()


def test_a_process_that_is_not_ready_in_time_is_reported(tmp_path: Path) -> None:
    group = Group()
    process = Process("sleep", SLEEP, ["60"], tmp_path, group)
    process.start()
    with pytest.raises(StartError, match=r"sleep was not ready within 0.1 s"):
        process.wait_until(lambda: False, within=0.1)
    group.kill()
    process.stop(hard=True)
