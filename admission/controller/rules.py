"""The two webhook configurations as they ought to be: what is sent to us, where to, and what happens if we fail.

Requests are sent only where their kind matters: for pods, services, volume claims and resource claims always, for any
other kind as long as a quota counts it. Every field that could narrow this is written, empty ones too, so that a
configuration that was edited by hand can be told from one that the API server has filled in.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import orjson

from admission.cluster.accounting import CONFIGURATION, MODE_ANNOTATION, REASON_ANNOTATION
from admission.kinds import Resource
from admission.ledger.annotation import ANNOTATION
from admission.quota.names import IGNORED_KINDS, PODS, RESOURCE_CLAIMS, SERVICES, VOLUME_CLAIMS

Json = dict[str, Any]
FailurePolicy = Literal["Fail", "Ignore"]

NAME: Final = CONFIGURATION
"""The name of both configurations."""
DEFAULTS: Final = "defaults.quota-admission.dev"
ENFORCE: Final = "enforce.quota-admission.dev"
GUARD: Final = "guard.quota-admission.dev"
MUTATE_PATH: Final = "/mutate"
VALIDATE_PATH: Final = "/validate"

ACCOUNTING: Final = MODE_ANNOTATION
"""Annotation of the validating configuration: who writes the usage of quotas, `webhook` or `apiserver`."""
ACCOUNTING_REASON: Final = REASON_ANNOTATION

LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": NAME}

_ALWAYS_SENT: Final = frozenset((PODS, SERVICES, VOLUME_CLAIMS, RESOURCE_CLAIMS))
_KIND = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")

_PODS_THAT_MATTER: Final = (
    "request.operation != 'UPDATE' || request.resource.group != '' || request.resource.resource != 'pods'"
    " || request.?subResource.orValue('') != '' || object == null || oldObject == null"
    " || object.?spec.?activeDeadlineSeconds != oldObject.?spec.?activeDeadlineSeconds"
)
"""Of the updates of a pod itself, quotas judge those that give it a deadline or take it away."""
_LEDGER_CHANGED: Final = (
    "object == null || oldObject == null"
    f" || object.metadata.?annotations[?'{ANNOTATION}'] != oldObject.metadata.?annotations[?'{ANNOTATION}']"
)


@dataclass(frozen=True)
class Webhooks:
    """What the operator decides.

    `own_users` and `own_groups` are the accounts that may write the ledger's annotation. Requests in the exempt
    namespaces are never sent; the namespace of the controller ought to be one of them.
    """

    mutating_failure_policy: FailurePolicy = "Ignore"
    validating_failure_policy: FailurePolicy = "Fail"
    guard_failure_policy: FailurePolicy = "Fail"
    timeout_seconds: int = 3
    exempt_namespaces: tuple[str, ...] = ("kube-system", "kube-node-lease", "kube-public")
    own_users: tuple[str, ...] = ()
    own_groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServiceEndpoint:
    """A Service of the cluster; `path` goes before the paths of the webhooks."""

    namespace: str
    name: str
    port: int = 443
    path: str = ""

    def client_config(self, path: str) -> Json:
        """As the API server is told of it."""
        service = {"namespace": self.namespace, "name": self.name, "port": self.port, "path": self.path + path}
        return {"service": service}

    def url(self, path: str) -> str:
        """By the name that its certificate has to be for."""
        return f"https://{self.name}.{self.namespace}.svc:{self.port}{self.path}{path}"


@dataclass(frozen=True)
class UrlEndpoint:
    """Anything that the API server reaches under a URL, `https://HOST[:PORT][/PATH]`; raises ValueError for others."""

    prefix: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.prefix)
        # What the API server would refuse later.
        is_plain = "@" not in parts.netloc and not parts.query and not parts.fragment
        if parts.scheme != "https" or not parts.hostname or not is_plain or parts.port == 0:
            raise ValueError(f"expected https://HOST[:PORT][/PATH], got {self.prefix}")

    def client_config(self, path: str) -> Json:
        """As the API server is told of it."""
        return {"url": self.url(path)}

    def url(self, path: str) -> str:
        """The full URL."""
        return self.prefix.rstrip("/") + path


Endpoint = ServiceEndpoint | UrlEndpoint


def mutating(settings: Webhooks, endpoint: Endpoint, ca_bundle: bytes | None) -> Json:
    """The MutatingWebhookConfiguration. `ca_bundle` is PEM; None leaves the choice of authorities to others."""
    webhook = {
        **_webhook(settings, endpoint.client_config(MUTATE_PATH), ca_bundle),
        "name": DEFAULTS,
        "rules": [_rule(["CREATE"], "", ["v1"], ["pods"]), _rule(["UPDATE"], "", ["v1"], ["pods/resize"])],
        "failurePolicy": settings.mutating_failure_policy,
        "sideEffects": "None",
        "reinvocationPolicy": "IfNeeded",
        "matchConditions": [],
    }
    return _configuration("MutatingWebhookConfiguration", [webhook], {})


def validating(
    kinds: Collection[str],
    settings: Webhooks,
    endpoint: Endpoint,
    ca_bundle: bytes | None,
    *,
    known: Mapping[str, Resource] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """The ValidatingWebhookConfiguration.

    `kinds` are those that quotas count, as in `count/<kind>`. Of `known` resources, by name, those that have no
    namespace are left out: no quota counts them. `annotations` are kept beside those of other people.
    """
    common = _webhook(settings, endpoint.client_config(VALIDATE_PATH), ca_bundle)
    enforce = {
        **common,
        "name": ENFORCE,
        "rules": [*_rules_always_there(), *_rules_of_counted_kinds(kinds, known or {})],
        "failurePolicy": settings.validating_failure_policy,
        "sideEffects": "NoneOnDryRun",
        "matchConditions": [_condition("pods-that-matter", _PODS_THAT_MATTER)],
    }
    guard = {
        **common,
        "name": GUARD,
        "rules": [_rule(["UPDATE"], "", ["v1"], ["resourcequotas", "resourcequotas/status"])],
        "failurePolicy": settings.guard_failure_policy,
        "sideEffects": "None",
        "matchConditions": [_condition("ledger-changed", _LEDGER_CHANGED), *_not_ours(settings)],
    }
    return _configuration("ValidatingWebhookConfiguration", [enforce, guard], annotations or {})


def differs(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a configuration differs in what we set; what the API server or other people add does not count."""
    return not _says(current, wanted)


def merged(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    """The body that makes a configuration as it is wanted, and leaves labels and annotations of other people alone.

    Where we have no CA bundle, the one that is there stays: whoever put it there looks after it.
    """
    metadata = {key: value for key, value in current["metadata"].items() if key != "managedFields"}
    for part in ("labels", "annotations"):
        metadata[part] = {**(metadata.get(part) or {}), **wanted["metadata"].get(part, {})}
    bundles = {
        webhook.get("name"): bundle
        for webhook in current.get("webhooks") or ()
        if (bundle := (webhook.get("clientConfig") or {}).get("caBundle"))
    }
    webhooks = [_with_bundle(webhook, bundles.get(webhook["name"])) for webhook in wanted["webhooks"]]
    return {**wanted, "metadata": metadata, "webhooks": webhooks}


def _with_bundle(webhook: Json, bundle: str | None) -> Json:
    client = webhook["clientConfig"]
    if bundle is None or "caBundle" in client:
        return webhook
    return {**webhook, "clientConfig": {**client, "caBundle": bundle}}


def _says(current: Any, wanted: Any) -> bool:
    if not wanted:
        return not current  # the API server leaves out what is empty
    if isinstance(wanted, Mapping):
        return isinstance(current, Mapping) and all(_says(current.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        is_as_long = isinstance(current, list) and len(current) == len(wanted)
        return is_as_long and all(_says(*pair) for pair in zip(current, wanted, strict=True))
    return bool(current == wanted)


def _configuration(kind: str, webhooks: Sequence[Json], annotations: Mapping[str, str]) -> Json:
    metadata: Json = {"name": NAME, "labels": dict(LABELS)}
    if annotations:  # an empty field would say that nobody else may have any
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "webhooks": list(webhooks),
    }


def _webhook(settings: Webhooks, client_config: Json, ca_bundle: bytes | None) -> Json:
    """What all webhooks share."""
    if ca_bundle is not None:
        client_config = {**client_config, "caBundle": b64encode(ca_bundle).decode()}
    exempt = sorted(set(settings.exempt_namespaces))
    names = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt}
    return {
        "clientConfig": client_config,
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [names] if exempt else [], "matchLabels": {}},
        "objectSelector": {},
        "timeoutSeconds": settings.timeout_seconds,
    }


def _rule(operations: list[str], group: str, versions: list[str], resources: list[str]) -> Json:
    return {
        "operations": operations,
        "apiGroups": [group],
        "apiVersions": versions,
        "resources": resources,
        "scope": "Namespaced",
    }


def _rules_always_there() -> list[Json]:
    """Kinds that quotas measure, and LimitRanges bound: they are sent whether a quota names them or not."""
    return [
        _rule(["CREATE", "UPDATE"], "", ["v1"], ["pods", "services", "persistentvolumeclaims"]),
        _rule(["UPDATE"], "", ["v1"], ["pods/resize", "persistentvolumeclaims/status"]),
        _rule(["CREATE", "UPDATE"], "resource.k8s.io", ["*"], ["resourceclaims"]),
    ]


def _rules_of_counted_kinds(kinds: Collection[str], known: Mapping[str, Resource]) -> Iterator[Json]:
    found = sorted(_group_and_plural(kind) for kind in set(kinds) if _is_sent(kind, known))
    for group, pairs in groupby(found, key=lambda pair: pair[0]):
        yield _rule(["CREATE"], group, ["*"], [plural for _, plural in pairs])


def _is_sent(kind: str, known: Mapping[str, Resource]) -> bool:
    if kind in _ALWAYS_SENT or kind in IGNORED_KINDS:
        return False
    resource = known.get(kind)
    if resource is not None and not resource.namespaced:
        return False
    # A quota may hold any name. One that is none of a resource must not spoil the whole registration.
    return _KIND.fullmatch(kind) is not None


def _group_and_plural(kind: str) -> tuple[str, str]:
    plural, _, group = kind.partition(".")
    return group, plural


def _not_ours(settings: Webhooks) -> Iterator[Json]:
    if settings.own_users:
        users = _literal(settings.own_users)
        yield _condition("not-our-user", f"!(request.userInfo.?username.orValue('') in {users})")
    if settings.own_groups:
        groups = _literal(settings.own_groups)
        ours = f"request.userInfo.?groups.orValue([]).exists(group, group in {groups})"
        yield _condition("not-our-group", f"!{ours}")


def _literal(names: Collection[str]) -> str:
    """A list in CEL, whose strings are written as in JSON."""
    return orjson.dumps(sorted(set(names))).decode()


def _condition(name: str, expression: str) -> Json:
    return {"name": name, "expression": expression}
