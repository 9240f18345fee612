"""The webhook configurations: what is sent, where to, and when an existing one has to be written again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.controller.rules import (
    DEFAULTS,
    ENFORCE,
    GUARD,
    LABELS,
    ServiceEndpoint,
    UrlEndpoint,
    Webhooks,
    differs,
    merged,
    mutating,
    validating,
)
from admission.kinds import BUILT_IN, Resource
from tests.unit.helpers import table

Json = dict[str, Any]

URL = UrlEndpoint("https://127.0.0.1:10250")
SERVICE = ServiceEndpoint("quota-admission", "webhook", 8443)
USUAL = Webhooks()
KNOWN = {resource.name: resource for resource in BUILT_IN.values()}
ALWAYS = """
CREATE,UPDATE |                 | v1 | pods,services,persistentvolumeclaims
UPDATE        |                 | v1 | pods/resize,persistentvolumeclaims/status
CREATE,UPDATE | resource.k8s.io | *  | resourceclaims
"""


def shown(rules: list[Json]) -> list[tuple[str, ...]]:
    """Rules as they stand in the tables."""
    assert all(rule["scope"] == "Namespaced" for rule in rules)
    columns = ("operations", "apiGroups", "apiVersions", "resources")
    return [tuple(",".join(rule[column]) for column in columns) for rule in rules]


def enforced(*kinds: str, known: dict[str, Resource] | None = None) -> list[tuple[str, ...]]:
    configuration = validating(kinds, USUAL, URL, None, known=KNOWN if known is None else known)
    return shown(configuration["webhooks"][0]["rules"])


def both(settings: Webhooks = USUAL, endpoint: Any = URL, ca: bytes | None = b"PEM") -> list[Json]:
    return [
        mutating(settings, endpoint, ca),
        validating(["deployments.apps"], settings, endpoint, ca, annotations={"example.com/a": "b"}),
    ]


def all_webhooks(*args: Any) -> list[Json]:
    return [webhook for configuration in both(*args) for webhook in configuration["webhooks"]]


# -- what is sent


def test_creations_and_resizes_of_pods_are_sent_for_defaulting() -> None:
    rules = mutating(USUAL, URL, None)["webhooks"][0]["rules"]
    assert shown(rules) == table("CREATE||v1|pods\nUPDATE||v1|pods/resize")


def test_what_quotas_measure_is_sent_even_where_no_quota_names_it() -> None:
    assert enforced() == table(ALWAYS)
    assert enforced("pods", "services", "persistentvolumeclaims", "resourceclaims.resource.k8s.io") == table(ALWAYS)


def test_other_kinds_are_sent_when_they_are_created_sorted_and_one_rule_a_group() -> None:
    kinds = ("secrets", "widgets.example.com", "statefulsets.apps", "configmaps", "deployments.apps", "pods")
    expected = """
    CREATE |             | * | configmaps,secrets
    CREATE | apps        | * | deployments,statefulsets
    CREATE | example.com | * | widgets
    """
    assert enforced(*kinds) == table(ALWAYS) + table(expected)
    assert enforced(*reversed(kinds), *kinds) == enforced(*kinds)


@pytest.mark.parametrize(
    "kind",
    [
        "events",
        "events.events.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "nodes",
        "clusterroles.rbac.authorization.k8s.io",
        "",
        ".apps",
        "deployments.",
        "Deployments.apps",
        "a_b",
        "a/b",
        "*",
        "*.apps",
        "things.-bad-",
        "things.a..b",
    ],
)
def test_what_no_quota_can_count_is_not_sent(kind: str) -> None:
    assert enforced(kind) == table(ALWAYS)


def test_a_custom_resource_without_namespace_is_not_sent_once_that_is_known() -> None:
    assert enforced("things.example.com", known={}) != table(ALWAYS)
    known = {"things.example.com": Resource("example.com", "things", namespaced=False)}
    assert enforced("things.example.com", known=known) == table(ALWAYS)


def test_the_guard_sees_updates_of_quotas_and_of_their_status() -> None:
    guard = validating((), USUAL, URL, None)["webhooks"][1]
    assert guard["name"] == GUARD
    assert shown(guard["rules"]) == table("UPDATE||v1|resourcequotas,resourcequotas/status")


def test_the_guard_lets_pass_whoever_is_named() -> None:
    settings = Webhooks(own_users=('a"b', "a"), own_groups=("system:serviceaccounts:quota-admission",))
    conditions = validating((), settings, URL, None)["webhooks"][1]["matchConditions"]
    assert [condition["name"] for condition in conditions] == ["ledger-changed", "not-our-user", "not-our-group"]
    assert conditions[1]["expression"] == r"""!(request.userInfo.?username.orValue('') in ["a","a\"b"])"""
    assert '["system:serviceaccounts:quota-admission"]' in conditions[2]["expression"]
    assert len(validating((), USUAL, URL, None)["webhooks"][1]["matchConditions"]) == 1


# -- what happens where we fail, and where to


def test_defaulting_fails_open_and_counting_fails_closed_unless_said_otherwise() -> None:
    policies = {webhook["name"]: webhook["failurePolicy"] for webhook in all_webhooks()}
    assert policies == {DEFAULTS: "Ignore", ENFORCE: "Fail", GUARD: "Fail"}
    settings = Webhooks("Fail", "Ignore", "Ignore", timeout_seconds=7)
    assert [webhook["failurePolicy"] for webhook in all_webhooks(settings)] == ["Fail", "Ignore", "Ignore"]
    assert {webhook["timeoutSeconds"] for webhook in all_webhooks(settings)} == {7}


def test_side_effects_are_declared() -> None:
    declared = {webhook["name"]: webhook["sideEffects"] for webhook in all_webhooks()}
    assert declared == {DEFAULTS: "None", ENFORCE: "NoneOnDryRun", GUARD: "None"}


def test_exempt_namespaces_are_chosen_by_the_name_label_in_every_webhook() -> None:
    for webhook in all_webhooks(Webhooks(exempt_namespaces=("b", "a", "b"))):
        (expression,) = webhook["namespaceSelector"]["matchExpressions"]
        assert expression == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a", "b"]}
    for webhook in all_webhooks(Webhooks(exempt_namespaces=())):
        assert webhook["namespaceSelector"]["matchExpressions"] == []


def test_an_endpoint_is_a_service_or_a_url() -> None:
    assert SERVICE.client_config("/mutate") == {
        "service": {"namespace": "quota-admission", "name": "webhook", "port": 8443, "path": "/mutate"}
    }
    assert SERVICE.url("/readyz") == "https://webhook.quota-admission.svc:8443/readyz"
    assert ServiceEndpoint("ns", "name", path="/p").url("/readyz") == "https://name.ns.svc:443/p/readyz"
    assert UrlEndpoint("https://[::1]:1/p/").client_config("/mutate") == {"url": "https://[::1]:1/p/mutate"}
    paths = [webhook["clientConfig"]["url"] for webhook in all_webhooks()]
    assert paths == [URL.prefix + path for path in ("/mutate", "/validate", "/validate")]


BAD_URLS = """
host:1
http://host
https://
https://:1
https://user@host
https://host?query
https://host#fragment
https://host:0
https://host:port
"""


@pytest.mark.parametrize("url", [url for (url,) in table(BAD_URLS)])
def test_what_the_api_server_would_not_call_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        UrlEndpoint(url)


def test_the_bundle_is_written_in_base64_or_not_at_all() -> None:
    bundles = {webhook["clientConfig"]["caBundle"] for webhook in all_webhooks()}
    assert bundles == {base64.b64encode(b"PEM").decode()}
    assert not any("caBundle" in webhook["clientConfig"] for webhook in all_webhooks(USUAL, URL, None))


# -- whether it is to be written again


def as_stored(wanted: Json) -> Json:
    """What an API server makes of a body: fields of its own, defaults, and nothing that is empty."""
    stored = json.loads(json.dumps(wanted))
    stored["metadata"].update(uid="u", resourceVersion="7", generation=1, managedFields=[{"manager": "m"}])
    stored["metadata"].setdefault("annotations", {})["other"] = "stays"
    for webhook in stored["webhooks"]:
        webhook["namespaceSelector"].pop("matchLabels")
        webhook["aFieldOfTheFuture"] = "default"
        if not webhook["matchConditions"]:
            del webhook["matchConditions"]
    return stored


def set_in(path: str, value: Any) -> Callable[[Json], None]:
    *parents, last = path.split(".")

    def edit(configuration: Json) -> None:
        place: Any = configuration["webhooks"][0] if parents[:1] == ["webhook"] else configuration
        for key in parents[1:] if parents[:1] == ["webhook"] else parents:
            place = place[key]
        place[last] = value

    return edit


EDITS = {
    "a failure policy": set_in("webhook.failurePolicy", "Other"),
    "a time-out": set_in("webhook.timeoutSeconds", 30),
    "a narrower choice of objects": set_in("webhook.objectSelector", {"matchLabels": {"a": "b"}}),
    "a narrower choice of namespaces": set_in("webhook.namespaceSelector.matchLabels", {"a": "b"}),
    "a wider choice of namespaces": set_in("webhook.namespaceSelector", {}),
    "another condition": set_in("webhook.matchConditions", [{"name": "never", "expression": "false"}]),
    "another URL": set_in("webhook.clientConfig.url", "https://elsewhere"),
    "another bundle": set_in("webhook.clientConfig.caBundle", "AAAA"),
    "no rules": set_in("webhook.rules", []),
    "no webhooks": set_in("webhooks", None),
    "a label of ours": set_in("metadata.labels", {}),
    "another webhook beside ours": lambda configuration: configuration["webhooks"].append({"name": "x"}),
    "a wider rule": lambda configuration: configuration["webhooks"][0]["rules"][0]["resources"].append("*"),
}


@pytest.mark.parametrize("number", [0, 1])
def test_what_the_api_server_and_other_people_add_is_no_difference(number: int) -> None:
    wanted = both()[number]
    assert not differs(as_stored(wanted), wanted)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_what_was_edited_by_hand_is_a_difference_and_is_put_right(edit: Callable[[Json], None], number: int) -> None:
    wanted = both()[number]
    stored = as_stored(wanted)
    edit(stored)
    assert differs(stored, wanted)
    assert not differs(as_stored(merged(stored, wanted)), wanted)


def test_an_annotation_of_ours_that_changed_is_a_difference() -> None:
    wanted = both()[1]
    stored = as_stored(wanted)
    stored["metadata"]["annotations"]["example.com/a"] = "c"
    assert differs(stored, wanted)


def test_a_change_leaves_alone_what_belongs_to_others() -> None:
    wanted = both()[1]
    stored = as_stored(wanted)
    stored["metadata"]["labels"] = {"team": "x"}
    metadata = merged(stored, wanted)["metadata"]
    assert metadata["labels"] == {"team": "x", **LABELS}
    assert metadata["annotations"] == {"other": "stays", "example.com/a": "b"}
    assert metadata["resourceVersion"] == "7"
    assert "managedFields" not in metadata


def test_a_bundle_that_others_look_after_stays() -> None:
    wanted = both(USUAL, URL, None)[1]
    stored = as_stored(both(Webhooks(timeout_seconds=9))[1])
    bundles = [webhook["clientConfig"].get("caBundle") for webhook in merged(stored, wanted)["webhooks"]]
    assert bundles == [base64.b64encode(b"PEM").decode()] * 2
    assert not differs(as_stored(both()[1]), wanted)


@given(st.lists(st.text(max_size=20)), st.sampled_from(["", "kube-system"]), st.booleans())
def test_whatever_quotas_name_the_rules_are_the_same_each_time(kinds: list[str], exempt: str, by_url: bool) -> None:
    settings = Webhooks(exempt_namespaces=(exempt,) if exempt else ())
    endpoint = URL if by_url else SERVICE
    wanted = validating(kinds, settings, endpoint, None)
    assert wanted == validating(list(reversed(kinds)), settings, endpoint, None)
    assert not differs(as_stored(wanted), wanted)
