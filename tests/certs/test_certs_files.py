import fcntl
import os
import stat
import threading
from pathlib import Path

import pytest
from certs_helpers import DNS, NOW

from certs import FolderError, Force, LockTimeoutError, MissingFileError, ensure, reading
from certs._files import LOCK_FILE, exists, make_folder, read, sweep, write, writing


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


class Boom(BaseException):
    """What no handler of ordinary errors catches: stands for a process that dies."""


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_keys_are_for_the_owner_only_whatever_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        ensure(tmp_path / "certs", DNS, now=NOW)
    finally:
        os.umask(before)
    folder = tmp_path / "certs"
    assert mode(folder) == 0o700
    assert {path.name: mode(path) for path in folder.iterdir()} == {
        "ca.crt": 0o644,
        "ca.key": 0o600,
        "tls.crt": 0o644,
        "tls.key": 0o600,
        LOCK_FILE: 0o600,
    }


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o750)
    make_folder(tmp_path)
    assert mode(tmp_path) == 0o750


def test_missing_parents_are_made_as_well(tmp_path):
    make_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700


def test_a_file_in_the_place_of_the_folder_is_an_error_in_one_line(tmp_path):
    (tmp_path / "certs").write_text("")
    with pytest.raises(FolderError, match="cannot make the folder: File exists"):
        make_folder(tmp_path / "certs")


def test_a_file_that_was_open_to_all_is_closed_by_the_write_of_a_secret(tmp_path):
    path = tmp_path / "tls.key"
    path.write_bytes(b"old")
    path.chmod(0o666)
    write(path, b"new", 0o600)
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)


@pytest.mark.parametrize("call", ["fchmod", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Boom()], ids=["full disk", "crash"])
def test_a_write_that_fails_in_the_middle_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, error):
    path = tmp_path / "tls.crt"
    path.write_bytes(b"old")

    def fail(*_args):
        raise error

    monkeypatch.setattr(f"certs._files.os.{call}", fail)
    with pytest.raises((FolderError, Boom)) as caught:
        write(path, b"new", 0o644)
    monkeypatch.undo()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"tls.crt": b"old"}
    if caught.type is FolderError:
        assert str(caught.value) == f"{path}: cannot write it: No space left on device"


def test_a_write_is_on_the_disk_before_it_takes_the_place_of_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "tls.crt"
    calls = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(descriptor):
        status = os.fstat(descriptor)
        calls.append("folder" if stat.S_ISDIR(status.st_mode) else f"file of {status.st_size} bytes")
        fsync(descriptor)

    def note_replace(source, target):
        assert Path(source).parent == tmp_path
        assert Path(source).read_bytes() == b"new"
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr("certs._files.os.fsync", note_fsync)
    monkeypatch.setattr("certs._files.os.replace", note_replace)
    write(path, b"new", 0o644)
    assert calls == ["file of 3 bytes", "rename", "folder"]


def test_readers_never_see_half_a_file(tmp_path):
    path = tmp_path / "tls.crt"
    small, large = b"a" * 10, b"b" * 1_000_000
    write(path, small, 0o644)
    seen, done = set(), threading.Event()

    def watch():
        while not done.is_set():
            seen.add(path.read_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(5):
        write(path, large, 0o644)
        write(path, small, 0o644)
    done.set()
    watcher.join()
    assert seen
    assert seen <= {small, large}


def test_what_killed_writers_left_is_swept_away_and_nothing_else(tmp_path):
    for name in (".tls.key.x1.tmp", ".ca.key.abc.tmp", "tls.key", ".other.tmp", "tls.key.tmp"):
        (tmp_path / name).write_text("")
    sweep(tmp_path, ("tls.key", "ca.key"))
    assert {path.name for path in tmp_path.iterdir()} == {"tls.key", ".other.tmp", "tls.key.tmp"}


def test_ensure_removes_a_key_that_a_killed_process_left_half_written(tmp_path):
    (tmp_path / ".tls.key.zzz.tmp").write_bytes(b"half a key")
    ensure(tmp_path, DNS, now=NOW)
    assert not list(tmp_path.glob("*.tmp"))


def test_a_missing_file_is_told_from_one_that_cannot_be_read(tmp_path):
    with pytest.raises(MissingFileError, match="no such file"):
        read(tmp_path / "tls.crt")
    with pytest.raises(FolderError, match="cannot read it: Is a directory") as caught:
        read(tmp_path)
    assert caught.type is FolderError


def test_a_place_that_may_not_be_looked_at_is_an_error_in_one_line(tmp_path, monkeypatch):
    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.exists", refuse)
    with pytest.raises(FolderError, match="cannot look for it: Permission denied"):
        exists(tmp_path / "ca.key")


@pytest.mark.parametrize(
    ("held", "wanted", "waits"),
    [(writing, writing, True), (writing, reading, True), (reading, writing, True), (reading, reading, False)],
)
def test_a_writer_is_alone_and_readers_are_together(tmp_path, held, wanted, waits):
    with writing(tmp_path):
        """Makes the lock file, without which readers do not lock."""
    with held(tmp_path):
        if waits:
            with pytest.raises(LockTimeoutError, match=r"has held the lock for 0\.05 seconds"):
                with wanted(tmp_path, wait=0.05):
                    raise AssertionError("two at once")
        else:
            with wanted(tmp_path, wait=0):
                pass
    with wanted(tmp_path, wait=0):
        pass


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files can be counted only where /proc is")
def test_no_file_stays_open(tmp_path):
    open_before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        ensure(tmp_path, DNS, now=NOW, force=Force.RENEW)
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_the_lock_is_given_back_after_an_error(tmp_path):
    with pytest.raises(Boom):
        with writing(tmp_path):
            raise Boom
    with writing(tmp_path, wait=0):
        pass


def test_a_waiting_writer_goes_on_when_the_lock_is_free(tmp_path):
    descriptor = os.open(tmp_path / LOCK_FILE, os.O_CREAT | os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    timer = threading.Timer(0.1, os.close, [descriptor])
    timer.start()
    with writing(tmp_path, wait=10):
        assert not timer.is_alive() or timer.finished.is_set()
    timer.join()


def test_a_reader_needs_no_lock_file_and_makes_none(tmp_path):
    with reading(tmp_path, wait=0):
        pass
    assert not list(tmp_path.iterdir())


def test_a_folder_that_takes_no_lock_file_is_an_error_in_one_line(tmp_path):
    with pytest.raises(FolderError, match=r"\.lock: cannot make it: No such file or directory"):
        with writing(tmp_path / "missing"):
            raise AssertionError("locked nothing")
