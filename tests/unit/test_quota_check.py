"""The check of one request, called directly."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from admission.errors import Denied
from admission.quota.check import check
from admission.quota.observed import PodFacts, VolumeClaimFacts
from admission.resource_lists import ResourceList
from tests.unit.asking import charged, pod_request, refusal, request
from tests.unit.helpers import amounts, printed, quota, quota_of, table, texts

# -- fit

FITS = """
cpu=3 pods=5          | cpu=1 pods=3      | cpu=2 pods=1        | cpu=2 pods=1    | cpu=3 pods=4
cpu=3 pods=5          | cpu=1 pods=3      | cpu=2 memory=1Gi    | cpu=2           | cpu=3
requests.cpu=1        | requests.cpu=5    | requests.cpu=0      |                 |
requests.cpu=1 pods=9 | requests.cpu=5 pods=0 | requests.cpu=0 pods=1 | pods=1    | pods=1
requests.ephemeral-storage=0 | requests.ephemeral-storage=0 | pods=1 |            |
memory=100Gi          | memory=0          | memory=1500M        | memory=1500M    | memory=1500M
memory=100Gi          | memory=500Mi      | memory=1G           | memory=1G       | memory=1524288000
cpu=3                 | cpu=0             | cpu=1.500           | cpu=1.500       | cpu=1500m
cpu=3                 | cpu=1.500         | cpu=500m            | cpu=500m        | cpu=2
"""


@pytest.mark.parametrize(("hard", "used", "new", "added", "after"), table(FITS))
def test_what_a_creation_uses_of_the_limited_names_is_charged(hard, used, new, added, after):
    charges = charged(check(request(new), [quota("q", hard, used)]))
    assert charges == ({"q": (texts(added), texts(after))} if added else {})


EXCEEDED = """
cpu=3 memory=100Gi pods=3 | cpu=1 memory=50Gi pods=3 | cpu=3 memory=60Gi pods=1 | cpu=3,memory=60Gi,pods=1 | cpu=1,memory=50Gi,pods=3 | cpu=3,memory=100Gi,pods=3
cpu=2                     | cpu=1500m         | cpu=800m            | cpu=800m        | cpu=1500m        | cpu=2
cpu=3 memory=1Gi          | cpu=1 memory=0    | cpu=3 memory=1Gi    | cpu=3           | cpu=1            | cpu=3
pods=5 cpu=1              | pods=0 cpu=0      | pods=1 cpu=1001m    | cpu=1001m       | cpu=0            | cpu=1
requests.cpu=1 pods=3     | requests.cpu=5 pods=0 | requests.cpu=100m pods=1 | requests.cpu=100m | requests.cpu=5 | requests.cpu=1
cpu=1.500                 | cpu=1.000         | cpu=1.500           | cpu=1.500       | cpu=1            | cpu=1.500
cpu=1.500                 | cpu=1.250         | cpu=1.750           | cpu=1.750       | cpu=1.250        | cpu=1.500
pods=0                    | pods=0            | pods=1              | pods=1          | pods=0           | pods=0
"""  # noqa: E501


@pytest.mark.parametrize(("hard", "used", "new", "requested", "before", "limited"), table(EXCEEDED))
def test_what_does_not_fit_is_refused_with_the_names_exceeded_alone(hard, used, new, requested, before, limited):
    text = f"exceeded quota: q, requested: {requested}, used: {before}, limited: {limited}"
    assert refusal(request(new), quota("q", hard, used)) == (text, "exceeded-quota")


def test_what_fits_exactly_is_admitted():
    assert charged(check(request("cpu=2"), [quota("q", "cpu=3", "cpu=1")])) == {"q": ({"cpu": "2"}, {"cpu": "3"})}
    assert refusal(request("cpu=2001m"), quota("q", "cpu=3", "cpu=1"))[1] == "exceeded-quota"


def test_names_are_listed_bytewise():
    hard = "requests.nvidia.com/gpu=0 requests.cpu=0 requests.memory=0 pods=0 cpu=0"
    text, _ = refusal(request(hard.replace("=0", "=1")), quota("q", hard))
    assert "requested: cpu=1,pods=1,requests.cpu=1,requests.memory=1,requests.nvidia.com/gpu=1, used: " in text


def test_all_quotas_are_checked_before_any_is_charged_and_the_first_by_order_is_named():
    first, second, third = quota("a", "cpu=5"), quota("b", "cpu=1"), quota("c", "cpu=1")
    assert refusal(request("cpu=2"), first, second, third)[0].startswith("exceeded quota: b, ")


def test_charges_come_in_the_order_of_the_quotas():
    quotas = [quota(name, "cpu=5") for name in ("a", "b", "c")]
    assert list(charged(check(request("cpu=2"), quotas))) == ["a", "b", "c"]


def test_charging_leaves_the_state_as_it_was():
    state = quota("q", "cpu=5", "cpu=1")
    check(request("cpu=2"), [state])
    assert printed(state.used) == {"cpu": "1"}


def test_what_is_charged_and_not_enforced_may_go_beyond_the_limit():
    asked = request("requests.storage=9Gi", kind="persistentvolumeclaims", facts=VolumeClaimFacts(), enforced=False)
    charges = check(asked, [quota("q", "requests.storage=1Gi", "requests.storage=1Gi")])
    assert charged(charges) == {"q": ({"requests.storage": "9Gi"}, {"requests.storage": "10Gi"})}


def test_sums_that_are_stored_and_read_again_change_their_format_as_in_the_original():
    used, printed_sums = "memory=0", []
    for new in ("1Gi", "1G", "1Gi", "48Mi"):
        (charge,) = check(request(f"memory={new}"), [quota("q", "memory=1Ti", used)])
        printed_sums.append(str(charge.used["memory"]))
        used = f"memory={printed_sums[-1]}"
    assert printed_sums == ["1Gi", "2073741824", "3147483648", "3197815296"]


# -- updates

UPDATES = """
cpu=2 pods=1    | cpu=1 pods=1    | cpu=1
cpu=1 pods=1    | cpu=2 pods=1    |
cpu=1           | cpu=1           |
cpu=1 memory=1Gi | cpu=2          | memory=1Gi
cpu=1500m       | cpu=1           | cpu=500m
"""


@pytest.mark.parametrize(("new", "old", "added"), table(UPDATES))
def test_an_update_is_charged_what_it_adds_and_frees_nothing(new, old, added):
    charges = charged(check(request(new, old), [quota("q", "cpu=9 memory=9Gi pods=9", "cpu=3 memory=3Gi pods=3")]))
    assert charges.get("q", ({}, {}))[0] == texts(added)


def test_moving_into_a_scope_is_charged_in_full_and_leaving_one_frees_nothing():
    quotas = [quota(name, "pods=5 cpu=3", "pods=3 cpu=1", scopes=[name]) for name in ("NotTerminating", "Terminating")]
    terminating = PodFacts(terminating=True)
    moved = request("pods=1 cpu=100m", "pods=1 cpu=100m", facts=terminating)
    expected = {"Terminating": ({"pods": "1", "cpu": "100m"}, {"pods": "4", "cpu": "1100m"})}
    assert charged(check(moved, quotas)) == expected
    stayed = request("pods=1 cpu=100m", "pods=1 cpu=100m", facts=terminating, old_facts=terminating)
    assert check(stayed, quotas) == []


def test_moving_into_a_full_scope_is_refused():
    asked = request("pods=1", "pods=1", facts=PodFacts(terminating=True))
    text = "exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5"
    assert refusal(asked, quota("q", "pods=5", "pods=5", scopes=["Terminating"]))[0] == text


@pytest.mark.parametrize(
    ("held", "added"),
    [
        ({"q": amounts("cpu=2")}, {"cpu": "1"}),
        ({"q": amounts("cpu=3")}, {}),
        ({"q": amounts("cpu=9")}, {}),
        ({"q": {}}, {"cpu": "3"}),
        ({"other": amounts("cpu=3")}, {"cpu": "3"}),
    ],
    ids=str,
)
def test_what_the_ledger_already_holds_for_an_object_is_not_charged_again(held: Mapping[str, ResourceList], added):
    charges = charged(check(request("cpu=3"), [quota("q", "cpu=9", "cpu=5")], held=held))
    assert charges.get("q", ({}, {}))[0] == added


# -- which quotas apply


def test_a_quota_of_other_kinds_or_scopes_is_not_asked():
    others = [
        quota("services", "services=0 secrets=0 count/deployments.apps=0"),
        quota("scoped", "pods=0", scopes=["Terminating"]),
        quota("inert", "nvidia.com/gpu=0 limits.nvidia.com/gpu=0"),
        quota("unknown", "pods=0", scopes=["Nonsense"]),
        quota("broken", "pods=0", scopes=["PriorityClass Gt 1"]),
    ]
    assert check(request("pods=1 requests.nvidia.com/gpu=1"), others) == []


def test_the_names_of_claims_depend_on_the_device_classes_of_the_moment():
    state = quota("q", "requests.example.com/gpu=1")
    asked = request("requests.example.com/gpu=2", kind="resourceclaims.resource.k8s.io", facts=None)
    assert check(asked, [state], devices={}) == []
    with pytest.raises(Denied):
        check(asked, [state], devices={"gpu": "example.com/gpu"})
    assert check(asked, [state], devices={"gpu": "example.com/other"}) == []


def test_a_quota_applies_where_its_scopes_match():
    scoped = quota("q", "pods=0", scopes=["NotTerminating", "NotBestEffort", "PriorityClass In x"])
    assert refusal(request("pods=1", facts=PodFacts(priority_class="x")), scoped)[1] == "exceeded-quota"


@pytest.mark.parametrize("name", ["services", "count/deployments.apps", "count/resourceclaims.resource.k8s.io"])
def test_a_quota_with_any_scope_never_applies_to_objects_without_scopes(name):
    kind = name.removeprefix("count/")
    unscoped, scoped = quota("q", f"{name}=0"), quota("q", f"{name}=0", scopes=["NotTerminating"])
    assert check(request(f"{name}=1", kind=kind, facts=None), [scoped]) == []
    assert refusal(request(f"{name}=1", kind=kind, facts=None), unscoped)[1] == "exceeded-quota"


def test_limits_come_from_the_status_and_scopes_from_the_spec():
    document = {
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "0", "cpu": "0"}, "scopes": ["NotTerminating"]},
        "status": {"hard": {"pods": "5"}, "used": {"pods": "1"}},
    }
    charges = check(request("pods=1 cpu=1"), [quota_of(document)])
    assert charged(charges) == {"q": ({"pods": "1"}, {"pods": "2"})}
    assert check(request("pods=9", facts=PodFacts(terminating=True)), [quota_of(document)]) == []


@pytest.mark.parametrize("status", [{}, {"hard": {}, "used": {}}, {"hard": None}], ids=str)
def test_a_quota_that_no_controller_has_seen_is_not_enforced(status):
    document = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}, "status": status}
    assert check(request("pods=1"), [quota_of(document)]) == []


def test_a_quota_from_a_file_without_any_status_is_enforced_by_its_spec():
    state = quota_of({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})
    assert printed(state.policy.hard) == {"pods": "0"}
    assert state.used == {}


# -- what is used must be known

KNOWN = """
                |            | known
memory=2        |            | status unknown for quota: q, resources: memory
memory=2        | memory=1   | known
memory=2 services=9 | memory=1 | known
memory=2 pods=9 | memory=1   | status unknown for quota: q, resources: memory,pods
pods=9 requests.cpu=9 memory=9 | requests.cpu=1 | status unknown for quota: q, resources: memory,pods,requests.cpu
"""


@pytest.mark.parametrize(("hard", "used", "outcome"), table(KNOWN))
def test_what_is_used_of_the_names_of_the_kind_must_be_known(hard, used, outcome):
    state = quota("q", hard, used)
    if outcome == "known":
        check(request("memory=1"), [state])
    else:
        assert refusal(request("memory=1"), state) == (outcome, "status-unknown")


def test_a_missing_count_of_one_storage_class_stops_a_claim_of_another():
    gold, silver = (f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims" for name in ("gold", "silver"))
    state = quota("q", f"{gold}=9 {silver}=9", f"{gold}=0")
    asked = request(f"{gold}=1", kind="persistentvolumeclaims", facts=VolumeClaimFacts())
    assert refusal(asked, state)[0].startswith("status unknown for quota: q, resources: gold.storageclass")


def test_what_is_used_must_be_known_even_where_nothing_is_added():
    asked = request("persistentvolumeclaims=1", "persistentvolumeclaims=1", kind="persistentvolumeclaims", facts=None)
    assert refusal(asked, quota("q", "persistentvolumeclaims=9", ""))[1] == "status-unknown"


# -- what must be stated

MUST = """
memory     | dummy: cpu 1/1                     | must specify memory for: dummy
memory     | init dummy: cpu 1/1                | must specify memory for: dummy
memory     | sidecar dummy: cpu 1/1             | must specify memory for: dummy
memory     | foo: cpu 1/1; bar: cpu 1/1         | must specify memory for: bar,foo
memory     | foo: memory 1/-; bar: cpu 1/1      | must specify memory for: bar
memory cpu | foo; bar                           | must specify cpu for: bar,foo; memory for: bar,foo
memory cpu | foo; bar; pod: cpu 1/-             |
memory cpu | foo; bar; pod: hugepages-2Mi -/2Mi |
memory cpu | foo; bar; pod: example.com/gpu 1/1 | must specify cpu for: bar,foo; memory for: bar,foo
cpu limits.memory | c; b; a; init a             | must specify cpu for: a,b,c; limits.memory for: a,b,c
cpu        | a: cpu 0/-                         |
limits.cpu | a: cpu 0/0                         |
limits.cpu | a: cpu 1/-                         | must specify limits.cpu for: a
requests.cpu | a: cpu -/1                       | must specify requests.cpu for: a
cpu        | a: cpu 1/1; ephemeral e            |
requests.memory limits.memory | a: memory -/1; b: memory 1/- | must specify limits.memory for: b; requests.memory for: a
requests.memory limits.memory | a: memory 1/-; b: memory -/1 | must specify limits.memory for: a; requests.memory for: b
"""


@pytest.mark.parametrize(("required", "line", "text"), table(MUST))
def test_containers_must_state_what_is_limited(required, line, text):
    state = quota("q", " ".join(f"{name}=100" for name in required.split()))
    if text:
        assert refusal(pod_request(line), state) == (f"failed quota: q: {text}", "must-specify")
    else:
        check(pod_request(line), [state])


@pytest.mark.parametrize(
    "name",
    ["ephemeral-storage", "limits.ephemeral-storage", "hugepages-2Mi", "requests.nvidia.com/gpu", "pods", "count/pods"],
)
def test_other_names_need_not_be_stated(name):
    charges = check(pod_request("a"), [quota("q", f"{name}=100")])
    assert len(charges) == ("pods" in name)


def test_the_duty_to_state_comes_before_the_unknown_count_and_quota_by_quota():
    unknown, stating = quota("a", "memory=9", ""), quota("b", "cpu=9")
    assert refusal(pod_request("x"), quota("a", "cpu=9", ""))[1] == "must-specify"
    assert refusal(pod_request("x: memory 1/1"), unknown, stating)[1] == "status-unknown"
    assert refusal(pod_request("x: memory 1/1"), stating, unknown)[1] == "must-specify"


def test_the_duty_to_state_is_of_quotas_that_apply():
    assert check(pod_request("x"), [quota("q", "cpu=9", scopes=["NotBestEffort"])]) == []


# -- negative usage and a missing old object


def test_negative_usage_is_refused_even_where_no_quota_applies():
    names = "requests.storage=-1 g.storageclass.storage.k8s.io/requests.storage=-1 persistentvolumeclaims=1"
    asked = request(names, kind="persistentvolumeclaims", facts=VolumeClaimFacts())
    text = "quota usage is negative for resource(s): g.storageclass.storage.k8s.io/requests.storage,requests.storage"
    assert refusal(asked, quota("q", "requests.storage=9")) == (text, "negative-usage")
    assert refusal(asked, quota("q", "pods=9")) == (text, "negative-usage")


def test_without_any_quota_nothing_is_looked_at():
    asked = request("requests.storage=-1", kind="persistentvolumeclaims", facts=VolumeClaimFacts())
    assert check(asked, []) == []
    assert check(asked._replace(old_is_missing=True), []) == []


def test_an_update_without_the_old_object_is_refused_after_what_must_be_stated_known_and_not_negative():
    text = "unable to get previous usage since prior version of object was not found"
    asked = pod_request("a: cpu 1/1")._replace(old_is_missing=True)
    assert refusal(asked, quota("q", "cpu=9")) == (text, "no-previous-use")
    assert refusal(asked, quota("q", "services=9")) == (text, "no-previous-use")
    assert refusal(asked, quota("q", "memory=9"))[1] == "must-specify"
    assert refusal(asked, quota("q", "pods=9", ""))[1] == "status-unknown"
    negative = request("requests.cpu=-1")._replace(old_is_missing=True)
    assert refusal(negative, quota("q", "pods=9"))[1] == "negative-usage"


# -- what people are told beside


def test_a_refusal_says_what_is_short_and_by_how_much():
    with pytest.raises(Denied) as caught:
        check(request("cpu=3 pods=1"), [quota("q", "cpu=3 pods=3", "cpu=1 pods=3")])
    cpu, pods = caught.value.hints
    assert 'quota "q": cpu is short by 1 (2 of 3 left)' in cpu
    assert 'quota "q": pods is short by 1 (nothing left of 3)' in pods


def test_the_duty_to_state_is_told_with_the_field_to_set():
    with pytest.raises(Denied) as caught:
        check(pod_request("a; b: cpu 1/-"), [quota("q", "cpu=9 limits.memory=9")])
    first, second = caught.value.hints
    assert 'set resources.requests.cpu in "a"' in first
    assert 'set resources.limits.memory in "a", "b"' in second
