"""The state file: what is in it survives, and what is wrong with it is told."""

import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest

from admission.ledger import Identity
from admission.quantity import Quantity
from admission.quota.observed import Observed, PodFacts, VolumeClaimFacts
from admission.standalone.errors import StateError
from admission.standalone.state import SCHEMA_VERSION, FileState, Row


def identity(uid, namespace="ns", kind="pods"):
    return Identity(namespace, kind, f"name-of-{uid}", uid)


def uses(**amounts):
    return Observed({name: Quantity.parse(amount) for name, amount in amounts.items()})


FULL = Observed(
    {"pods": Quantity.parse("1"), "requests.cpu": Quantity.parse("0.10"), "requests.memory": Quantity.parse("1.5Gi")},
    PodFacts(terminating=True, best_effort=False, priority_class="high", cross_namespace_affinity=True),
    counts_until=1234.5,
    extended_claim="claim",
    owner_pod="owner",
    created="2025-01-01T00:00:00Z",
)
ROWS = [
    Row(identity("a"), uses(pods="1"), None),
    Row(identity("b"), FULL, uses(pods="1")),
    Row(identity("c"), None, FULL),
    Row(identity("a", "other"), Observed({}, VolumeClaimFacts(frozenset(("x", "y")))), None),
    Row(identity("ü/∑'\";--", "ns"), uses(pods="1"), None),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "usage.db"


def write(state, *rows):
    for pending in [state.write(row) for row in rows]:
        assert pending.wait(10)
        assert pending.error is None


def rows_of(path):
    state = FileState(path)
    try:
        return sorted(state.rows(), key=lambda row: (row.identity.namespace, row.identity.uid))
    finally:
        state.close()


def test_what_was_written_is_there_again(path):
    state = FileState(path)
    write(state, *ROWS)
    state.close()
    assert rows_of(path) == sorted(ROWS, key=lambda row: (row.identity.namespace, row.identity.uid))


def test_amounts_come_back_in_the_form_they_are_printed_in(path):
    state = FileState(path)
    write(state, ROWS[1])
    state.close()
    usage = rows_of(path)[0].observed.usage
    assert {name: str(amount) for name, amount in usage.items()} == {
        "pods": "1",
        "requests.cpu": "100m",
        "requests.memory": "1536Mi",
    }


def test_the_same_uid_overwrites_and_what_is_removed_is_gone(path):
    state = FileState(path)
    write(state, Row(identity("a"), uses(pods="1"), None), Row(identity("a"), uses(pods="2"), None))
    write(state, Row(identity("b"), uses(pods="1"), None), Row(identity("b", "other"), uses(pods="1"), None))
    removal = state.remove(identity("b"))
    assert removal.wait(10)
    assert removal.error is None
    state.close()
    assert rows_of(path) == [
        Row(identity("a"), uses(pods="2"), None),
        Row(identity("b", "other"), uses(pods="1"), None),
    ]


def test_of_many_writes_of_one_object_the_last_counts(path):
    state = FileState(path)
    for number in range(3000):
        pending = state.write(Row(identity("a"), uses(pods=str(number)), None))
    assert pending.wait(10)
    state.close()
    assert rows_of(path) == [Row(identity("a"), uses(pods="2999"), None)]


def test_closing_finishes_what_is_under_way(path):
    state = FileState(path)
    pending = [state.write(Row(identity(str(number)), uses(pods="1"), None)) for number in range(2500)]
    state.close()
    assert all(each.wait(0) and each.error is None for each in pending)
    assert len(rows_of(path)) == 2500


def test_what_is_done_is_in_the_file_though_the_process_is_killed(path):
    """A child writes, says what is done, and is killed in the middle of it."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.standalone.test_state_file import *\n"
        "state = FileState(Path(sys.argv[1]))\n"
        "for number in range(10**6):\n"
        "    assert state.write(Row(identity(str(number)), uses(pods='1'), None)).wait(10)\n"
        "    print(number, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(50):
            done = int(child.stdout.readline())
    finally:
        child.kill()
        rest = child.stdout.read().split("\n")
        child.wait()
        child.stdout.close()
    done = max([done, *(int(line) for line in rest[:-1])])
    kept = {row.identity.uid for row in rows_of(path)}
    assert {str(number) for number in range(done + 1)} <= kept
    assert len(kept) <= done + 2


def test_only_the_owner_may_read_it(path):
    FileState(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_process_at_a_time_holds_it(path):
    state = FileState(path)
    try:
        with pytest.raises(StateError, match="another process uses this state file") as raised:
            FileState(path)
        assert raised.value.busy
        assert str(path) in str(raised.value)
    finally:
        state.close()
    FileState(path).close()


@pytest.mark.parametrize(
    "content",
    [b"this is no database" * 100, b"SQLite format 3\x00" + b"\xff" * 4096, b"hello\n", b"\x00" * 8192],
    ids=["text", "a database's head", "a word", "zeros"],
)
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path, content):
    path.write_bytes(content)
    with pytest.raises(StateError) as raised:
        rows_of(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert len(str(raised.value).splitlines()) == 1
    assert not raised.value.busy
    assert path.read_bytes() == content


def test_an_empty_file_is_a_new_one(path):
    path.touch()
    assert rows_of(path) == []


def test_another_version_of_the_format_is_refused(path):
    FileState(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    raw.close()
    with pytest.raises(StateError, match=f"has schema version {SCHEMA_VERSION + 1}, expected {SCHEMA_VERSION}"):
        FileState(path)


@pytest.mark.parametrize("text", ["no JSON", '{"usage": {"pods": "many"}}', "[]", '{"usage": 1}', ""])
def test_a_row_that_cannot_be_read_is_told(path, text):
    state = FileState(path)
    write(state, ROWS[0])
    state.close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE objects SET observed = ?", (text,))
    raw.close()
    with pytest.raises(StateError, match="cannot be read"):
        rows_of(path)


@pytest.mark.parametrize("what", ["folder", "missing folder"])
def test_a_path_where_no_file_can_be_is_told(tmp_path, what):
    path = tmp_path if what == "folder" else tmp_path / "no" / "usage.db"
    with pytest.raises(StateError) as raised:
        FileState(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_many_threads_may_write_at_once(path):
    state = FileState(path)

    def work(number):
        write(state, *(Row(identity(f"{number}-{index}"), uses(pods="1"), None) for index in range(100)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert time.monotonic() - started < 20
    state.close()
    assert len(rows_of(path)) == 800
