"""The watcher's look at the files, without its thread."""

import logging
import os
import time

import pytest

from admission.standalone import watcher as watcher_module
from admission.standalone.store import StandaloneStore
from admission.standalone.watcher import LOOK_EVERY, RECOUNT_EVERY, Watcher
from admission.standalone.world import Folder
from tests.standalone.manifests import file_of, limit_range, pod, quota
from tests.standalone.server import eventually


class Watched:
    """A folder, the store it fills, and a watcher that looks when it is told to."""

    def __init__(self, root, **files):
        self.root = root
        self.write(**files)
        folder = Folder(root)
        seen = folder.fingerprints()
        self.store = StandaloneStore(folder.load(seen))
        self.watcher = Watcher(folder, self.store, seen)

    def write(self, **files):
        for name, text in files.items():
            draft = self.root / f".{name}"
            draft.write_text(text)
            draft.replace(self.root / f"{name}.yaml")

    def hard(self, ns="ns"):
        return {name: quota.hard for name, quota in self.store.usage(ns).get(ns, {}).items()}

    @property
    def state(self):
        return self.watcher.state


@pytest.fixture
def watched(tmp_path):
    return Watched(tmp_path, a=file_of(quota("q", "pods=1")))


def test_what_did_not_change_is_left_alone(watched):
    assert not watched.watcher.look()
    assert (watched.state.error, watched.state.succeeded, watched.state.failed) == (None, 0, 0)


def test_a_changed_file_is_in_force_after_the_next_look(watched):
    watched.write(a=file_of(quota("q", "pods=22")))
    assert watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "22"}}
    assert (watched.state.error, watched.state.succeeded, watched.state.failed) == (None, 1, 0)
    assert not watched.watcher.look()


def test_a_new_file_and_one_that_is_gone_are_seen(watched):
    watched.write(b=file_of(quota("r", "pods=2"), limit_range("l", max="cpu=1")))
    assert watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "1"}, "r": {"pods": "2"}}
    assert [policy.name for policy in watched.store.limit_policies("ns")] == ["l"]
    (watched.root / "a.yaml").unlink()
    assert watched.watcher.look()
    assert watched.hard() == {"r": {"pods": "2"}}
    (watched.root / "b.yaml").unlink()
    assert watched.watcher.look()
    assert watched.hard() == {}
    assert watched.store.limit_policies("ns") == ()


def test_a_change_that_leaves_size_and_time_alone_is_seen(watched):
    """As a restored backup, or `cp -p`, would make it."""
    path = watched.root / "a.yaml"
    before = path.stat()
    watched.write(a=path.read_text().replace('"1"', '"9"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "9"}}


def test_a_swapped_volume_is_seen(tmp_path):
    for version, hard in (("..1", "pods=1"), ("..2", "pods=2")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "a.yaml").write_text(file_of(quota("q", hard)))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    watched = Watched(tmp_path)
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "2"}}


BROKEN = {
    "no YAML": "kind: [",
    "unknown field": file_of(quota("q", "pods=1", hards={})),
    "bad amount": file_of(quota("q", "pods=x")),
    "object twice": file_of(quota("q", "pods=1")),
    "bad time": file_of(pod("p", metadata={"deletionTimestamp": "soon", "deletionGracePeriodSeconds": 1})),
    "recursion": "apiVersion: v1\nkind: Pod\nmetadata: &m {name: p, annotations: *m}",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_leaves_the_last_good_set_in_force_and_is_named(watched, caplog, text):
    loaded_at = watched.state.loaded_at
    watched.write(b=text)
    for _ in range(3):
        assert not watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "1"}}
    assert watched.state.error.startswith("b.yaml")
    assert (watched.state.succeeded, watched.state.failed, watched.state.loaded_at) == (0, 1, loaded_at)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert watched.state.error in record.getMessage()
    watched.write(b=file_of(quota("r", "pods=2")))
    assert watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "1"}, "r": {"pods": "2"}}
    assert (watched.state.error, watched.state.succeeded) == (None, 1)


def test_other_changes_wait_until_the_broken_file_is_whole(watched):
    watched.write(a=file_of(quota("q", "pods=5")), b="kind: [")
    assert not watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "1"}}
    (watched.root / "b.yaml").unlink()
    assert watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "5"}}


def test_a_broken_file_that_is_taken_away_again_is_forgotten(watched):
    watched.write(b="kind: [")
    watched.watcher.look()
    (watched.root / "b.yaml").unlink()
    watched.watcher.look()
    assert watched.state.error is None


def test_each_new_fault_is_logged_once(watched, caplog):
    for text in ("kind: [", "kind: [", "a: 1\na: 2", "a: 1\na: 2"):
        watched.write(b=text)
        watched.watcher.look()
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2
    assert watched.state.failed == 4


def test_a_folder_that_is_gone_leaves_the_last_good_set_in_force(watched, tmp_path):
    (tmp_path / "a.yaml").unlink()
    away = tmp_path.rename(tmp_path.with_name("away"))
    assert not watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "1"}}
    assert str(tmp_path) in watched.state.error
    away.rename(tmp_path)
    watched.write(a=file_of(quota("q", "pods=3")))
    assert watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "3"}}
    assert watched.state.error is None


def test_a_folder_that_comes_back_as_it_was_is_in_order(watched, tmp_path):
    away = tmp_path.rename(tmp_path.with_name("away"))
    watched.watcher.look()
    away.rename(tmp_path)
    watched.watcher.look()
    assert watched.state.error is None
    assert watched.hard() == {"q": {"pods": "1"}}


def test_doubts_are_logged_at_each_reload(watched, caplog):
    watched.write(b=file_of(quota("r", "podz=1")))
    watched.watcher.look()
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "policy: b.yaml, document 1 (ResourceQuota ns/r): spec.hard[podz]: no kind of object uses this name: "
        "it limits nothing"
    ]


def test_looks_and_recounts_come_often_enough():
    """Two seconds are promised for a change, half a minute for a recount."""
    assert LOOK_EVERY <= 1.0
    assert RECOUNT_EVERY == 30.0


def test_the_watcher_looks_and_recounts_by_itself(watched, monkeypatch):
    monkeypatch.setattr(watcher_module, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(watcher_module, "RECOUNT_EVERY", 0.1)
    recounts = []
    recount = watched.store.recount
    monkeypatch.setattr(watched.store, "recount", lambda: recounts.append(time.monotonic()) or recount())
    watched.watcher.start()
    try:
        eventually(lambda: len(recounts) >= 3)
        watched.write(a=file_of(quota("q", "pods=5")))
        eventually(lambda: watched.hard() == {"q": {"pods": "5"}})
    finally:
        watched.watcher.stop()
    assert recounts[2] - recounts[0] >= 0.2


def test_whatever_goes_wrong_the_watcher_goes_on(watched, monkeypatch):
    monkeypatch.setattr(watcher_module, "LOOK_EVERY", 0.02)
    failing = iter([RuntimeError("a bug"), OSError("a disk")])

    def adopt(world):
        error = next(failing, None)
        if error:
            raise error
        original(world)

    original = watched.store.adopt
    monkeypatch.setattr(watched.store, "adopt", adopt)
    watched.watcher.start()
    try:
        for hard in (2, 3, 4):
            watched.write(a=file_of(quota("q", f"pods={hard}")))
            time.sleep(0.1)
        eventually(lambda: watched.hard() == {"q": {"pods": "4"}})
    finally:
        watched.watcher.stop()


# -- files that are being written


def test_a_file_that_is_empty_for_a_moment_lifts_nothing(watched):
    (watched.root / "a.yaml").write_text("")
    assert not watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "1"}}
    assert watched.state.error == "a.yaml: is empty; remove the file to remove what it held"
    watched.write(a=file_of(quota("q", "pods=2")))
    assert watched.watcher.look()
    assert watched.hard() == {"q": {"pods": "2"}}


def test_a_file_that_still_changes_is_left_alone(watched):
    watched.write(a=file_of(quota("q", "pods=2")))
    assert not watched.watcher.look(settled=True)
    watched.write(a=file_of(quota("q", "pods=3")))
    assert not watched.watcher.look(settled=True)
    assert watched.hard() == {"q": {"pods": "1"}}
    assert watched.watcher.look(settled=True)
    assert watched.hard() == {"q": {"pods": "3"}}
    assert not watched.watcher.look(settled=True)
