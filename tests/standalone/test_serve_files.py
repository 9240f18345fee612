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

NAMESPACES = [f"ns-{number}" for number in range(12)]
UNKNOWN = quota("q", "pods=9 requests.cpu=9", "pods=0", ns="unknown")
POLICIES = {
    **{f"{ns}.yaml": file_of(namespace(ns), quota("q", "pods=2 requests.cpu=4", ns=ns)) for ns in NAMESPACES},
    "unknown.yaml": file_of(UNKNOWN),
    **{f"more-{index}.yaml": file_of(namespace(f"more-{index}")) for index in range(200)},
}
PROMISED = 2.0


@pytest.fixture(scope="module")
def server():
    with ServerProcess(POLICIES) as running:
        yield running


@pytest.fixture(scope="module")
def unused():
    return iter(NAMESPACES)


@pytest.fixture
def ns(unused):
    """A namespace that no other test uses; its file is named like it."""
    return next(unused)


def in_force_after(look):
    """Seconds until `look` is true; what is promised is two."""
    started = time.monotonic()
    eventually(look, within=10)
    return time.monotonic() - started


def reloads(server, result="success"):
    return server.metric("quota_admission_policy_reloads", result=result)


def test_a_changed_file_is_in_force_within_two_seconds(server, ns):
    for hard in (3, 4):
        before = reloads(server)
        server.write(f"{ns}.yaml", file_of(quota("q", f"pods={hard} requests.cpu=4", ns=ns)))
        assert in_force_after(lambda: server.quotas(ns)["q"]["hard"]["pods"] == str(hard)) < PROMISED  # noqa: B023
        assert reloads(server) == before + 1
    assert server.metric("quota_admission_policies_stale") == 0


def test_a_file_may_be_written_in_place_and_a_folder_swapped(server, ns):
    (server.folder / f"{ns}.yaml").write_text(file_of(quota("q", "pods=7", ns=ns)))
    assert in_force_after(lambda: server.quotas(ns)["q"]["hard"] == {"pods": "7"}) < PROMISED
    upcoming, last = server.folder.with_name("next"), server.folder.with_name("last")
    shutil.copytree(server.folder, upcoming)
    (upcoming / f"{ns}.yaml").write_text(file_of(quota("q", "pods=8", ns=ns)))
    server.folder.rename(last)
    upcoming.rename(server.folder)
    assert in_force_after(lambda: server.quotas(ns)["q"]["hard"] == {"pods": "8"}) < PROMISED


def test_new_limits_judge_the_next_request(server, ns):
    assert server.create_pod(ns, requests="cpu=1") == "admitted"
    server.write("more.yaml", file_of(limit_range(ns=ns, max="cpu=2"), quota("r", "pods=1", ns=ns)))
    eventually(lambda: "r" in server.usage(ns))
    assert server.usage(ns) == {"q": {"pods": "1", "requests.cpu": "1"}, "r": {"pods": "1"}}
    assert server.create_pod(ns, requests="cpu=3", limits="cpu=3") == (
        "maximum cpu usage per Container is 2, but limit is 3"
    )
    assert server.create_pod(ns, requests="cpu=1", limits="cpu=1").startswith("exceeded quota: r")
    server.remove("more.yaml")
    eventually(lambda: "r" not in server.usage(ns))
    assert server.create_pod(ns, requests="cpu=3") == "admitted"


def test_an_object_that_is_written_or_taken_away_is_counted(server, ns):
    server.write("pod.json", json.dumps(pod("p", ns=ns, requests="cpu=500m")))
    eventually(lambda: server.usage(ns)["q"] == {"pods": "1", "requests.cpu": "500m"})
    server.remove("pod.json")
    eventually(lambda: server.usage(ns)["q"] == {"pods": "0", "requests.cpu": "0"})


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
def test_a_broken_file_keeps_the_last_good_set_in_force_and_is_named(server, ns, text, said):
    assert server.create_pod(ns, requests="cpu=1") == "admitted"
    already, failed = len(server.log_lines()), reloads(server, "failure")
    server.write("broken.yaml", text)
    eventually(lambda: "[!]policies degraded: " in server.readyz()[1], within=4)
    status, report = server.readyz()
    assert status == 200
    assert said in report
    assert server.admin("/readyz").text == "ok\n"
    assert server.metric("quota_admission_policies_stale") == 1
    assert reloads(server, "failure") > failed
    assert [line for line in server.log_lines()[already:] if said in line["message"]]
    # In force still, for what comes and for what was counted.
    assert server.usage(ns) == {"q": {"pods": "1", "requests.cpu": "1"}}
    assert server.create_pod(ns, requests="cpu=3") == "admitted"
    assert server.create_pod(ns, requests="cpu=1").startswith("exceeded quota: q")
    server.remove("broken.yaml")
    eventually(lambda: "[+]policies ok" in server.readyz()[1], within=4)
    assert server.metric("quota_admission_policies_stale") == 0
    assert server.usage(ns) == {"q": {"pods": "2", "requests.cpu": "4"}}


def test_what_is_doubted_is_logged_and_taken(server, ns):
    server.write("doubt.yaml", file_of(quota("r", "podz=1", ns=ns)))
    eventually(lambda: "r" in server.usage(ns))
    assert "no kind of object uses this name: it limits nothing" in server.log()


def test_an_update_that_uses_less_lowers_nothing_until_a_deletion_or_a_reload(server, ns):
    big, small = (resized(pod("a", ns=ns, uid=f"{ns}-a"), f"cpu={amount}") for amount in (3, 1))
    assert server.validate(create(big)) == "admitted"
    assert server.validate(update(big, small, sub_resource="resize")) == "admitted"
    assert server.usage(ns)["q"]["requests.cpu"] == "3"
    assert server.validate(delete(config_map("m", ns=ns, uid=f"{ns}-m"))) == "admitted"
    assert server.usage(ns)["q"]["requests.cpu"] == "1"
    assert server.validate(update(small, big, sub_resource="resize")) == "admitted"
    assert server.validate(update(big, small, sub_resource="resize")) == "admitted"
    assert server.usage(ns)["q"]["requests.cpu"] == "3"
    server.write("other.yaml", file_of(namespace("other")))
    eventually(lambda: server.usage(ns)["q"]["requests.cpu"] == "1")


def test_a_status_that_lacks_a_name_stays_unknown(server):
    text = "status unknown for quota: q, resources: pods,requests.cpu"
    assert server.create_pod("unknown", requests="cpu=1") == text
    server.validate(delete(config_map("m", ns="unknown", uid="unknown-m")))
    assert server.create_pod("unknown", requests="cpu=1") == text
    before = reloads(server)
    server.write("unknown-too.yaml", file_of(namespace("unknown-too")))
    eventually(lambda: reloads(server) > before)
    assert server.create_pod("unknown", requests="cpu=1") == text
    server.restart()
    assert server.create_pod("unknown", requests="cpu=1") == text
    assert server.usage("unknown") == {"q": {"pods": "0"}}


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
    with ServerProcess({}, config=config) as server:
        important = {"priorityClassName": "high"}
        assert server.create_pod(ns="elsewhere", spec=important) == (
            "insufficient quota to match these scopes: [{PriorityClass In [high]}]"
        )
        assert server.create_pod(ns="elsewhere") == "admitted"
