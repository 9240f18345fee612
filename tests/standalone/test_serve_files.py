"""A running server and its folder: what changes there is in force within two seconds."""

import json
import shutil
import time

import pytest

from tests.standalone.manifests import (
    config_map,
    create,
    delete,
    file_of,
    limit_range,
    namespace,
    pod,
    quota,
    resized,
    update,
)
from tests.standalone.server import ServerProcess, eventually

POLICIES = {"team.yaml": file_of(namespace(), quota("q", "pods=2 requests.cpu=4"))}
PROMISED = 2.0


@pytest.fixture
def server():
    with ServerProcess(POLICIES) as running:
        yield running


def in_force_after(look):
    """Seconds until `look` is true; what is promised is two."""
    started = time.monotonic()
    eventually(look, within=10)
    return time.monotonic() - started


def test_a_changed_file_is_in_force_within_two_seconds(server):
    for hard in (3, 4):
        server.write("team.yaml", file_of(quota("q", f"pods={hard} requests.cpu=4")))
        assert in_force_after(lambda: server.quotas()["q"]["hard"]["pods"] == str(hard)) < PROMISED  # noqa: B023
    assert server.metric("quota_admission_policy_reloads", result="success") == 2
    assert server.metric("quota_admission_policies_stale") == 0


def test_a_file_may_be_written_in_place_and_a_folder_swapped(server):
    (server.folder / "team.yaml").write_text(file_of(quota("q", "pods=7")))
    assert in_force_after(lambda: server.quotas()["q"]["hard"] == {"pods": "7"}) < PROMISED
    shutil.copytree(server.folder, server.folder.with_name("next"))
    (server.folder.with_name("next") / "team.yaml").write_text(file_of(quota("q", "pods=8")))
    server.folder.rename(server.folder.with_name("last"))
    server.folder.with_name("next").rename(server.folder)
    assert in_force_after(lambda: server.quotas()["q"]["hard"] == {"pods": "8"}) < PROMISED


def test_new_limits_judge_the_next_request(server):
    assert server.create_pod(requests="cpu=1") == "admitted"
    server.write("more.yaml", file_of(limit_range(max="cpu=2"), quota("r", "pods=1")))
    eventually(lambda: "r" in server.usage())
    assert server.usage() == {"q": {"pods": "1", "requests.cpu": "1"}, "r": {"pods": "1"}}
    assert server.create_pod(requests="cpu=3", limits="cpu=3") == (
        "maximum cpu usage per Container is 2, but limit is 3"
    )
    assert server.create_pod(requests="cpu=1", limits="cpu=1").startswith("exceeded quota: r")
    server.remove("more.yaml")
    eventually(lambda: "r" not in server.usage())
    assert server.create_pod(requests="cpu=3") == "admitted"


def test_an_object_that_is_written_or_taken_away_is_counted(server):
    server.write("pod.json", json.dumps(pod("p", requests="cpu=500m")))
    eventually(lambda: server.usage()["q"] == {"pods": "1", "requests.cpu": "500m"})
    server.remove("pod.json")
    eventually(lambda: server.usage()["q"] == {"pods": "0", "requests.cpu": "0"})


BROKEN = {
    "YAML": ("kind: [", "broken.yaml, line 2, column 1"),
    "amount": (
        file_of(quota("q2", "pods=many")),
        "broken.yaml, document 1 (ResourceQuota ns/q2): spec.hard.pods: expected",
    ),
    "time": (
        file_of(pod("p", metadata={"deletionTimestamp": "soon", "deletionGracePeriodSeconds": 1})),
        "broken.yaml, document 1 (Pod ns/p): metadata.deletionTimestamp",
    ),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_keeps_the_last_good_set_in_force_and_is_named(server, text, said):
    assert server.create_pod(requests="cpu=1") == "admitted"
    server.write("broken.yaml", text)
    eventually(lambda: "[!]policies degraded: " in server.readyz()[1], within=4)
    status, report = server.readyz()
    assert status == 200
    assert said in report
    assert server.admin("/readyz").text == "ok\n"
    assert server.metric("quota_admission_policies_stale") == 1
    assert server.metric("quota_admission_policy_reloads", result="failure") >= 1
    assert [line for line in server.log().splitlines() if said in json.loads(line)["message"]]
    # In force still, for what comes and for what was counted.
    assert server.usage() == {"q": {"pods": "1", "requests.cpu": "1"}}
    assert server.create_pod(requests="cpu=3") == "admitted"
    assert server.create_pod(requests="cpu=1").startswith("exceeded quota: q")
    server.remove("broken.yaml")
    eventually(lambda: server.readyz()[1].startswith("[+]policies ok"), within=4)
    assert server.metric("quota_admission_policies_stale") == 0
    assert server.usage() == {"q": {"pods": "2", "requests.cpu": "4"}}


def test_what_is_doubted_is_logged_and_taken(server):
    server.write("doubt.yaml", file_of(quota("r", "podz=1")))
    eventually(lambda: "r" in server.usage())
    assert "no kind of object uses this name: it limits nothing" in server.log()


def test_an_update_that_uses_less_lowers_nothing_until_a_deletion_or_a_reload(server):
    big, small = (resized(pod("a", uid="a"), f"cpu={amount}") for amount in (3, 1))
    assert server.validate(create(big)) == "admitted"
    assert server.validate(update(big, small, sub_resource="resize")) == "admitted"
    assert server.usage()["q"]["requests.cpu"] == "3"
    assert server.validate(delete(config_map("m", uid="m"))) == "admitted"
    assert server.usage()["q"]["requests.cpu"] == "1"
    assert server.validate(update(small, big, sub_resource="resize")) == "admitted"
    assert server.validate(update(big, small, sub_resource="resize")) == "admitted"
    assert server.usage()["q"]["requests.cpu"] == "3"
    server.write("other.yaml", file_of(namespace("other")))
    eventually(lambda: server.usage()["q"]["requests.cpu"] == "1")


UNKNOWN = quota("q", "pods=9 requests.cpu=9", "pods=0")


def test_a_status_that_lacks_a_name_stays_unknown():
    with ServerProcess({"q.yaml": file_of(UNKNOWN)}) as server:
        text = "status unknown for quota: q, resources: pods,requests.cpu"
        assert server.create_pod(requests="cpu=1") == text
        server.validate(delete(config_map("m", uid="m")))
        assert server.create_pod(requests="cpu=1") == text
        server.write("other.yaml", file_of(namespace("other")))
        eventually(lambda: server.metric("quota_admission_policy_reloads", result="success") == 1)
        assert server.create_pod(requests="cpu=1") == text
        server.restart()
        assert server.create_pod(requests="cpu=1") == text
        assert server.usage() == {"q": {"pods": "0"}}


def test_limited_resources_of_the_configuration_are_enforced():
    config = """
apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- resource: pods
  matchScopes:
  - {scopeName: PriorityClass, operator: In, values: [high]}
- resource: persistentvolumeclaims
  matchContains: [requests.storage]
"""
    with ServerProcess(POLICIES, config=config) as server:
        important = {"priorityClassName": "high"}
        assert server.create_pod(ns="elsewhere", spec=important) == (
            "insufficient quota to match these scopes: [{PriorityClass In [high]}]"
        )
        assert server.create_pod(ns="elsewhere") == "admitted"


def test_a_large_folder_is_served_and_a_change_in_it_is_in_force_within_two_seconds():
    files = {
        f"team-{index}.yaml": file_of(namespace(f"team-{index}"), quota("q", "pods=10", ns=f"team-{index}"))
        for index in range(300)
    }
    with ServerProcess(files) as server:
        server.write("team-7.yaml", file_of(quota("q", "pods=11", ns="team-7")))
        assert in_force_after(lambda: server.quotas("team-7")["q"]["hard"]["pods"] == "11") < PROMISED
        assert len(server.admin("/usage.json").json["namespaces"]) == 300
