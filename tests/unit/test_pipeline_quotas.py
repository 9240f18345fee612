"""Quotas through the pipeline: which requests they judge, and what the ledger is told."""

from __future__ import annotations

import pytest

from admission.pods import quota_requests
from admission.quota.observe import handles
from admission.quota.usage import observe_pod
from tests.unit.helpers import pod, pod_json, quota, table
from tests.unit.things import ADMITTED, claim, judged, service, stored

# -- which requests are judged

HANDLED = """
pods                           | CREATE | yes
pods                           | UPDATE | no
pods/resize                    | UPDATE | yes
pods/resize                    | CREATE | no
pods/status                    | UPDATE | no
pods/ephemeralcontainers       | UPDATE | no
pods/binding                   | CREATE | no
pods/eviction                  | CREATE | no
pods/exec                      | CONNECT | no
pods                           | DELETE | no
persistentvolumeclaims         | CREATE | yes
persistentvolumeclaims         | UPDATE | yes
persistentvolumeclaims/status  | UPDATE | yes
persistentvolumeclaims/status  | CREATE | no
persistentvolumeclaims/other   | UPDATE | no
persistentvolumeclaims         | DELETE | no
services                       | CREATE | yes
services                       | UPDATE | yes
services/status                | UPDATE | no
services                       | DELETE | no
resourceclaims.resource.k8s.io | CREATE | yes
resourceclaims.resource.k8s.io | UPDATE | yes
resourceclaims.resource.k8s.io/status | UPDATE | no
configmaps                     | CREATE | yes
configmaps                     | UPDATE | no
secrets                        | CREATE | yes
secrets                        | DELETE | no
deployments.apps               | CREATE | yes
deployments.apps               | UPDATE | no
deployments.apps/scale         | UPDATE | no
deployments.apps/status        | UPDATE | no
replicationcontrollers/scale   | UPDATE | no
widgets.example.com            | CREATE | yes
widgets.example.com            | UPDATE | no
services.example.com           | UPDATE | no
serviceaccounts/token          | CREATE | no
"""


@pytest.mark.parametrize(("kind", "operation", "handled"), table(HANDLED))
def test_quotas_judge_these_requests_alone(kind, operation, handled):
    document = pod_json("a") if kind.startswith("pods") else {"metadata": {"name": "x"}, "spec": {}}
    new = None if operation == "DELETE" else document
    old = None if operation == "CREATE" else stored(document)
    world = judged()
    assert world.ask(operation, kind, new, old) == ADMITTED
    assert len(world.ledger.applications) == (handled == "yes")


@pytest.mark.parametrize(
    ("before", "after", "handled"),
    [(None, 1, True), (1, None, True), (1, 2, False), (None, None, False), (None, 0, True), (0, 1, False)],
)
def test_an_update_of_a_pod_is_judged_where_it_starts_or_stops_to_be_terminating(before, after, handled):
    old, new = (pod_json("a", spec={"activeDeadlineSeconds": seconds}) for seconds in (before, after))
    world = judged()
    assert world.ask("UPDATE", "pods", new, stored(old)) == ADMITTED
    assert len(world.ledger.applications) == handled
    assert len(world.ledger.renewed) == (not handled)


def test_without_an_old_object_an_update_of_a_pod_is_not_judged():
    new = observe_pod(pod("a", spec={"activeDeadlineSeconds": 1}))
    assert not handles("pods", "", "UPDATE", new, None)
    assert handles("pods", "", "CREATE", new, None)


@pytest.mark.parametrize("kind", ["pods", "persistentvolumeclaims", "services", "resourceclaims.resource.k8s.io", "x"])
@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_deletions_and_connections_are_never_judged(kind, operation):
    some = observe_pod(pod("a"))
    assert not handles(kind, "", operation, some, some)


# -- what the ledger is told


def test_an_application_names_the_object_by_its_own_uid():
    world = judged()
    world.ask("CREATE", "pods", pod_json("a", name="x", metadata={"uid": "object-uid"}), dry_run=True)
    (asked,) = world.ledger.applications
    assert (asked.identity.namespace, asked.identity.kind) == ("ns", "pods")
    assert (asked.identity.name, asked.identity.uid) == ("x", "object-uid")
    assert (asked.dry_run, asked.enforced, asked.old) == (True, True, None)
    assert asked.pod is not None
    assert quota_requests(asked.pod) == {}


def test_objects_without_a_uid_are_each_their_own():
    world = judged()
    for uid in ("review-a", "review-b"):
        world.ask("CREATE", "configmaps", {"metadata": {}}, uid=uid)
    first, second = (asked.identity.uid for asked in world.ledger.applications)
    assert first != second


def test_an_update_that_is_not_judged_is_made_known_and_a_dry_run_is_not():
    world = judged()
    new, old = pod_json("a", status={"phase": "Failed"}), stored(pod_json("a"))
    for kind, dry_run in (("pods", True), ("pods/ephemeralcontainers", False), ("pods/status", False)):
        world.ask("UPDATE", kind, new, old, dry_run=dry_run)
    ((identity, seen, before),) = world.ledger.renewed
    assert identity.uid == "u"
    assert list(seen.usage) == ["count/pods"]
    assert before == observe_pod(pod("a"))


def test_a_deletion_is_made_known_and_a_dry_run_or_another_subresource_is_not():
    world = judged()
    world.ask("DELETE", "pods", None, stored(pod_json("a")), dry_run=True)
    world.ask("DELETE", "pods/other", None, stored(pod_json("a")))
    world.ask("DELETE", "pods", None, stored(pod_json("a")))
    ((identity, old),) = world.ledger.released
    assert (identity.uid, old) == ("u", observe_pod(pod("a")))


def test_a_status_update_of_a_claim_is_not_held_to_the_limit():
    world = judged()
    world.ask("UPDATE", "persistentvolumeclaims/status", claim(), stored(claim()))
    world.ask("UPDATE", "persistentvolumeclaims", claim(), stored(claim()))
    assert [asked.enforced for asked in world.ledger.applications] == [False, True]


def test_the_old_object_is_what_was_counted_before():
    world = judged()
    world.ask("UPDATE", "persistentvolumeclaims", claim("2Gi"), stored(claim("1Gi")))
    (asked,) = world.ledger.applications
    assert str(asked.old.usage["requests.storage"]) == "1Gi"
    assert str(asked.new.usage["requests.storage"]) == "2Gi"


@pytest.mark.parametrize("version", ["", None])
def test_an_update_that_creates_is_billed_like_a_creation(version):
    world = judged(quota("q", "services=10", "services=1"))
    old = {"metadata": {"name": "s", "resourceVersion": version}, "spec": {"type": "ClusterIP"}}
    assert world.ask("UPDATE", "services", service("ClusterIP"), old) == ADMITTED
    assert world.used() == {"q": {"services": "2"}}


MISSING = "unable to get previous usage since prior version of object was not found"


def test_an_update_without_the_old_object_is_refused_where_a_quota_counts_it():
    world = judged(quota("q", "services=10"))
    assert world.ask("UPDATE", "services", service("ClusterIP"), None) == MISSING


def test_an_update_without_the_old_object_is_admitted_where_there_is_no_quota():
    assert judged().ask("UPDATE", "services", service("ClusterIP"), None) == ADMITTED


def test_a_pod_that_counts_no_more_at_the_time_of_the_request_uses_its_count_alone():
    doomed = {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    state = quota("q", "pods=0 count/pods=9")
    resized = pod_json("a", metadata=doomed)
    early, late = (judged(state, now=now) for now in (0.0, 10.0**10))
    new_one = {**resized, "metadata": {**resized["metadata"], "resourceVersion": ""}}
    assert early.ask("UPDATE", "pods/resize", resized, new_one).startswith("exceeded quota: q, requested: pods=1")
    assert late.ask("UPDATE", "pods/resize", resized, new_one) == ADMITTED
    assert late.used() == {"q": {"pods": "0", "count/pods": "1"}}
