"""What a person sees: the texts of the real kubectl in a cluster whose quotas are kept by us."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.cluster.rig import Rig
from tests.cluster.space import LEDGER, Json, Space
from tests.standalone import manifests
from tests.standalone.server import eventually

CONTROLLERS = ("deployment-controller", "replicaset-controller")
CONFIG = """\
webhooks:
  exemptNamespaces: [kube-node-lease, kube-public]
quota:
  limitedResources:
  - resource: pods
    matchScopes: [{scopeName: PriorityClass, operator: In, values: [cluster-services]}]
  - resource: pods
    matchScopes: [{scopeName: CrossNamespacePodAffinity}]
"""
"""One for the stories too, so that the same servers serve both."""

pytestmark = [
    pytest.mark.plane(plugins=False, controllers=CONTROLLERS),
    pytest.mark.rig(servers=2, controllers=1, config=CONFIG),
]

ENFORCE = 'admission webhook "enforce.quota-admission.dev" denied the request: '
GUARDED = (
    'admission webhook "guard.quota-admission.dev" denied the request: '
    f"the annotation {LEDGER} holds the count of this quota and is kept by quota-admission alone: leave it as it is"
)
KEPT = "Warning: kubectl edit, patch and apply keep it; kubectl replace needs a file that has it"


@pytest.fixture
def space(rig: Rig) -> Space:
    return Space.new(rig)


def pod(name: str, requests: str = "", limits: str = "", **parts: object) -> Json:
    made = manifests.pod(name, requests=requests, limits=limits, **parts)
    del made["metadata"]["namespace"]
    return made


# -- pods


def test_the_defaults_of_a_limit_range_are_in_the_pod_and_said_in_a_warning(space: Space) -> None:
    space.limit_range(default="cpu=200m memory=256Mi", defaultRequest="cpu=100m")
    ended = space.kubectl("create", "-f", "-", stdin=pod("one"))
    assert (ended.returncode, ended.stdout) == (0, "pod/one created\n")
    assert ended.stderr == 'Warning: LimitRange "limits" set defaults for container c\n'
    shown = space.done("get", "pod", "one", "-o", "yaml")
    assert (
        "    resources:\n"
        "      limits:\n"
        "        cpu: 200m\n"
        "        memory: 256Mi\n"
        "      requests:\n"
        "        cpu: 100m\n"
        "        memory: 256Mi\n"
    ) in shown
    annotation = json.loads(space.done("get", "pod", "one", "-o", "json"))["metadata"]["annotations"]
    assert annotation == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu, memory request for container c; "
        "cpu, memory limit for container c"
    }


@pytest.mark.parametrize(
    ("policy", "stated", "hint", "text"),
    [
        (
            "quota",
            "cpu=700m",
            'quota "team": cpu is short by 100m (600m of 1 left)',
            "exceeded quota: team, requested: cpu=700m, used: cpu=400m, limited: cpu=1",
        ),
        (
            "quota",
            "",
            'quota "team" limits cpu: set resources.requests.cpu in "c", or give the namespace a LimitRange with '
            "defaults",
            "failed quota: team: must specify cpu for: c",
        ),
        (
            "limits",
            "cpu=950m",
            'container "c": maximum cpu usage per Container is 900m, but limit is 950m (LimitRange "limits")',
            "maximum cpu usage per Container is 900m, but limit is 950m",
        ),
    ],
    ids=["too much in all", "nothing stated", "too much for one"],
)
def test_kubectl_shows_a_refusal_with_the_text_that_users_know_and_a_hint(
    space: Space, policy: str, stated: str, hint: str, text: str
) -> None:
    if policy == "quota":
        space.quota("team", "cpu=1 pods=10")
        space.pods("one", requests="cpu=400m")
    else:
        space.limit_range(max="cpu=900m")
    ended = space.kubectl("create", "-f", "-", stdin=pod("two", stated, stated))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f'Warning: {hint}\nError from server (Forbidden): error when creating "STDIN": {ENFORCE}{text}\n'
    )
    assert "NotFound" in space.kubectl("get", "pod", "two").stderr


def test_a_quota_that_is_nearly_full_is_said_and_described(space: Space) -> None:
    space.quota("team", "cpu=1 memory=4Gi pods=10")
    for name, requests, warning in (
        ("one", "cpu=500m memory=1Gi", ""),
        ("two", "cpu=400m memory=1Gi", 'Warning: quota "team" is nearly full: cpu 900m of 1 used\n'),
        ("three", "cpu=100m memory=1Gi", 'Warning: quota "team" is full: cpu 1 of 1 used\n'),
    ):
        ended = space.kubectl("create", "-f", "-", stdin=pod(name, requests))
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"pod/{name} created\n", warning)
    assert space.done("describe", "quota", "team") == (
        f"Name:       team\nNamespace:  {space.name}\n"
        "Resource    Used  Hard\n"
        "--------    ----  ----\n"
        "cpu         1     1\n"
        "memory      3Gi   4Gi\n"
        "pods        3     10\n"
    )


def test_a_dry_run_is_judged_and_not_counted(space: Space) -> None:
    space.quota("team", "pods=1")
    for _ in range(2):
        ended = space.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod("one"))
        assert ended.stdout == "pod/one created (server dry run)\n"
        assert ended.stderr == 'Warning: quota "team" is full: pods 1 of 1 used\n'
    assert space.used("team") == "pods=0"
    assert (space.ledger("team") or {}).get("r", {}) == {}
    space.pods("one")
    ended = space.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod("two"))
    assert ended.stderr.endswith(f"{ENFORCE}exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1\n")


# -- workloads


def test_a_replica_set_whose_pods_are_refused_says_why_and_goes_on_when_there_is_room(space: Space) -> None:
    space.quota("team", "pods=2")
    space.done("create", "deployment", "app", "--image=none", "--replicas=3")
    text = f"Error creating: {ENFORCE}exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"

    def described() -> str:
        return re.sub(r" +", " ", space.done("describe", "replicasets"))

    eventually(lambda: text in described() and "2 current / 3 desired" in described(), within=20, every=0.1)
    shown = described()
    assert "ReplicaFailure True FailedCreate" in shown
    assert re.search(rf"Warning FailedCreate .* replicaset-controller {re.escape(text)}", shown)
    events = space.done("get", "events", "--field-selector=reason=FailedCreate", "-o", "jsonpath={.items[*].message}")
    assert text in events
    space.done("patch", "quota", "team", "-p", '{"spec":{"hard":{"pods":"3"}}}')
    eventually(lambda: "3 current / 3 desired" in described(), within=30, every=0.2)
    space.await_used("team", "pods=3")
    assert "ReplicaFailure" not in described()


# -- quotas


@pytest.mark.parametrize(
    ("hard", "new"),
    [("pods=0", pod("one")), ("services=0", manifests.service("one", ns=""))],
    ids=["pods", "services"],
)
def test_a_quota_that_kubectl_creates_is_enforced_within_a_second(space: Space, hard: str, new: Json) -> None:
    space.done("create", "quota", "fresh", f"--hard={hard}")
    assert seconds_until_enforced(space, new) < 1.0


def test_a_kind_that_no_quota_has_named_before_is_enforced_within_a_few_seconds(space: Space) -> None:
    kinds = {
        "configmaps": manifests.config_map("one", ns=""),
        "secrets": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}},
        "podtemplates": {"kind": "PodTemplate", "metadata": {"name": "one"}, "template": {"spec": pod("one")["spec"]}},
    }
    took = {}
    for kind, new in kinds.items():
        space.done("create", "quota", "fresh", f"--hard=count/{kind}=0")
        took[kind] = seconds_until_enforced(space, new)
        space.delete("ResourceQuota", "fresh")
    assert max(took.values()) < 4.0, took


def seconds_until_enforced(space: Space, new: Json) -> float:
    begun = time.monotonic()
    eventually(lambda: "exceeded quota: fresh" in space.create(new, "?dryRun=All"), within=20)
    return time.monotonic() - begun


@pytest.fixture
def counted(space: Space) -> Space:
    """With a quota that was applied, and of which something is used."""
    quota = manifests.quota("team", "pods=2", ns=space.name)
    space.done("apply", "-f", "-", stdin=quota)
    space.await_hard("team", "pods=2")
    space.pods("one")
    eventually(lambda: space.ledger("team"))
    return space


def forge(text: str) -> str:
    return json.dumps({"metadata": {"annotations": {LEDGER: text}}})


@pytest.mark.parametrize(
    "args",
    [
        ("annotate", "quota", "team", f"{LEDGER}={{}}", "--overwrite"),
        ("annotate", "quota", "team", f"{LEDGER}-"),
        ("patch", "quota", "team", "--type=merge", "-p", forge("x")),
        ("patch", "quota", "team", "--subresource=status", "--type=merge", "-p", forge("x")),
    ],
    ids=["annotate", "annotate, taken away", "patch", "patch of the status"],
)
def test_the_count_in_a_quota_cannot_be_changed_with_kubectl(counted: Space, args: tuple[str, ...]) -> None:
    before = counted.ledger("team")
    ended = counted.kubectl(*args)
    assert ended.returncode == 1
    assert ended.stderr == f"{KEPT}\nError from server (Forbidden): {GUARDED}\n"
    assert counted.ledger("team") == before


def test_an_edit_of_a_quota_may_change_all_but_the_count(
    counted: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for expression, status, said in (
        (r's/^    pods: "2"/    pods: "5"/', 0, "resourcequota/team edited\n"),
        (rf"/{re.escape(LEDGER).replace('/', chr(92) + '/')}/d", 1, GUARDED),
    ):
        editor = tmp_path / "editor"
        editor.write_text(f"#!/bin/sh\nexec sed -i '{expression}' \"$1\"\n")
        editor.chmod(0o700)
        monkeypatch.setenv("KUBE_EDITOR", str(editor))
        ended = counted.kubectl("edit", "quota", "team")
        assert ended.returncode == status, ended.stderr
        assert said in (ended.stdout if not status else ended.stderr)
    counted.await_hard("team", "pods=5")
    counted.await_used("team", "pods=1")


def test_a_quota_can_be_annotated_applied_and_replaced(counted: Space) -> None:
    counted.done("annotate", "quota", "team", "owner=me")
    counted.done("apply", "-f", "-", stdin=manifests.quota("team", "pods=3", ns=counted.name))
    counted.await_hard("team", "pods=3")
    counted.await_used("team", "pods=1")
    stored = counted.done("get", "quota", "team", "-o", "yaml")
    assert LEDGER in stored
    ended = counted.kubectl("replace", "-f", "-", stdin=stored.replace('    pods: "3"', '    pods: "4"', 1))
    assert ended.stdout == "resourcequota/team replaced\n", ended.stderr
    counted.await_hard("team", "pods=4")
    # A file that has never been in the cluster has no annotation.
    ended = counted.kubectl("replace", "-f", "-", stdin=manifests.quota("team", "pods=5", ns=counted.name))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"{KEPT}\nError from server (Forbidden): ")
    assert ended.stderr.endswith(f"{GUARDED}\n")
    server_side = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    counted.done(*server_side, stdin=manifests.quota("team", "pods=6", ns=counted.name))
    counted.await_hard("team", "pods=6")
    assert counted.used("team") == "pods=1"
    assert counted.read("ResourceQuota", "team")["metadata"]["annotations"]["owner"] == "me"


def test_a_copy_of_a_quota_in_another_namespace_does_not_take_the_count_along(counted: Space, rig: Rig) -> None:
    other = Space.new(rig)
    copied = counted.done("get", "quota", "team", "-o", "yaml")
    assert LEDGER in copied
    other.done("create", "-f", "-", stdin=copied.replace(f"namespace: {counted.name}", f"namespace: {other.name}"))
    other.await_hard("team", "pods=2")
    other.await_used("team", "pods=0")
    other.pods("one", "two")
    assert other.pod("three") == "exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"
    assert counted.used("team") == "pods=1"
