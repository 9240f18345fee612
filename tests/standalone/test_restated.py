"""A new `status.used` in the files: it says what is used in all."""

import pytest

from tests.standalone.desk import ADMITTED, Desk
from tests.standalone.manifests import pod, quota

COUNTED = quota("counted", "pods=9 requests.cpu=20")


def stated(used):
    return quota("stated", "pods=9 requests.cpu=20", used)


def cpu(name, amount):
    return pod(name, uid=name, requests=f"cpu={amount}")


@pytest.fixture
def desk():
    made = Desk(COUNTED, stated("pods=2 requests.cpu=2"), cpu("a", 1), cpu("b", 1))
    yield made
    made.close()


def used(desk):
    return desk.used()["stated"]


def test_what_was_admitted_and_is_in_the_new_status_is_counted_once(desk):
    assert desk.create(cpu("c", 3)) == ADMITTED
    assert used(desk) == {"pods": "3", "requests.cpu": "5"}
    desk.reload(COUNTED, stated("pods=3 requests.cpu=5"), cpu("a", 1), cpu("b", 1), cpu("c", 3))
    assert used(desk) == {"pods": "3", "requests.cpu": "5"}
    assert desk.used()["counted"] == {"pods": "3", "requests.cpu": "5"}


def test_what_was_deleted_and_is_not_in_the_new_status_is_taken_out_once(desk):
    desk.delete(cpu("b", 1))
    assert used(desk) == {"pods": "1", "requests.cpu": "1"}
    desk.reload(COUNTED, stated("pods=1 requests.cpu=1"), cpu("a", 1))
    assert used(desk) == {"pods": "1", "requests.cpu": "1"}


def test_what_comes_after_is_counted_on_top(desk):
    desk.create(cpu("c", 3))
    desk.reload(COUNTED, stated("pods=7 requests.cpu=7"))
    assert used(desk) == {"pods": "7", "requests.cpu": "7"}
    assert desk.create(cpu("d", 2)) == ADMITTED
    assert used(desk) == {"pods": "8", "requests.cpu": "9"}
    desk.delete(cpu("c", 3))
    assert used(desk) == {"pods": "7", "requests.cpu": "6"}


@pytest.mark.parametrize("end", ["crash", "restart"])
def test_a_restart_neither_forgets_nor_repeats_it(desk, end):
    desk.create(cpu("c", 3))
    desk.reload(COUNTED, stated("pods=3 requests.cpu=5"))
    desk.create(cpu("d", 2))
    getattr(desk, end)()
    assert used(desk) == {"pods": "4", "requests.cpu": "7"}
    desk.store.recount()
    assert used(desk) == {"pods": "4", "requests.cpu": "7"}


def test_a_status_that_was_changed_while_the_server_was_down_counts_as_new(desk):
    desk.create(cpu("c", 3))
    desk._say(COUNTED, stated("pods=3 requests.cpu=5"))
    desk.restart()
    assert used(desk) == {"pods": "3", "requests.cpu": "5"}


def test_other_limits_with_the_same_status_change_nothing_of_what_is_used(desk):
    desk.create(cpu("c", 3))
    desk.reload(COUNTED, quota("stated", "pods=5 requests.cpu=6", "pods=2 requests.cpu=2"))
    assert used(desk) == {"pods": "3", "requests.cpu": "5"}
    assert desk.create(cpu("d", 2)).startswith("exceeded quota: stated")


# -- what was answered, and did not come to pass


def test_an_object_that_is_updated_after_its_deletion_exists_after_all(desk):
    desk.create(cpu("c", 3))
    desk.delete(cpu("c", 3))
    assert used(desk) == {"pods": "2", "requests.cpu": "2"}
    assert desk.update(cpu("c", 3), cpu("c", 4), sub_resource="resize") == ADMITTED
    assert used(desk) == {"pods": "3", "requests.cpu": "6"}
    desk.store.recount()
    assert used(desk) == {"pods": "3", "requests.cpu": "6"}


def test_a_state_file_that_is_gone_is_told_and_nothing_more_is_admitted(desk):
    assert desk.store.problem is None
    desk._state_path().unlink()
    assert desk.create(cpu("c", 3)).startswith("the use of quotas could not be recorded")
    assert "was removed or replaced" in (desk.store.problem or "")
    assert used(desk) == {"pods": "2", "requests.cpu": "2"}
