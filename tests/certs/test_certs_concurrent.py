"""Processes that bring the same folder in order at the same time."""

import subprocess
import sys
import threading
from contextlib import contextmanager

from certs_helpers import DNS, IPS, NOW, fine, snapshot

from certs import PairMismatchError, _ensure, ensure, load_bundle, load_pair, renew

PROGRAM = """
import sys
from datetime import datetime
from certs import ensure
now = datetime.fromisoformat(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
print(len(ensure(sys.argv[1], sys.argv[3].split(), sys.argv[4].split(), now=now).changed))
"""


def test_of_processes_that_start_at_once_one_makes_the_files_and_all_agree(tmp_path):
    folder = tmp_path / "certs"
    command = [sys.executable, "-c", PROGRAM, str(folder), NOW.isoformat(), " ".join(DNS), " ".join(IPS)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    # All have done their imports and wait, so that the start is the same for all.
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    results = [(process.communicate(timeout=20), process.returncode) for process in processes]
    assert [code for _, code in results] == [0] * 4, results
    assert sorted(int(out) for (out, _), _ in results) == [0, 0, 0, 2]
    assert fine(folder, NOW)
    assert len(load_bundle(folder)) == 1


def test_of_threads_that_start_at_once_one_makes_the_files(tmp_path):
    start, results = threading.Barrier(6), []

    def work():
        start.wait()
        results.append(len(ensure(tmp_path, DNS, IPS, now=NOW).changed))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 0, 0, 0, 0, 2]
    assert fine(tmp_path, NOW)


def test_who_loads_a_pair_while_it_is_renewed_gets_one_of_one_making(tmp_path):
    ensure(tmp_path, DNS, IPS, now=NOW)
    done, loaded, failures = threading.Event(), set(), []

    def watch():
        while not done.is_set():
            try:
                loaded.add(load_pair(tmp_path).leaf)
            except PairMismatchError as error:
                failures.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(5):
        renew(tmp_path, now=NOW, force=True)
    done.set()
    watcher.join()
    assert failures == []
    assert loaded


def test_who_waited_for_the_lock_looks_again_before_it_makes_anything(tmp_path, monkeypatch):
    writing = _ensure.writing

    @contextmanager
    def late(folder):
        # Another process is done while this one waits.
        monkeypatch.setattr(_ensure, "writing", writing)
        ensure(folder, DNS, IPS, now=NOW)
        before = snapshot(folder)
        with writing(folder):
            yield
        assert snapshot(folder) == before

    monkeypatch.setattr(_ensure, "writing", late)
    assert ensure(tmp_path, DNS, IPS, now=NOW).changed == ()
