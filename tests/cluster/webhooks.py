"""The two webhook configurations, written by hand: for tests that have no controller to register them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

Json = dict[str, Any]

NAME = "quota-admission"
MUTATING, VALIDATING = "defaults.quota-admission.dev", "enforce.quota-admission.dev"
API = "/apis/admissionregistration.k8s.io/v1"
PATHS = {
    "MutatingWebhookConfiguration": f"{API}/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": f"{API}/validatingwebhookconfigurations",
}

COUNTED = {
    "": (
        "pods",
        "pods/resize",
        "services",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "configmaps",
        "secrets",
        "podtemplates",
    ),
    "apps": ("deployments", "replicasets", "statefulsets"),
    "batch": ("jobs", "cronjobs"),
    "networking.k8s.io": ("ingresses",),
    "resource.k8s.io": ("resourceclaims",),
    "example.com": ("widgets",),
}
"""The kinds that occur in the records, by API group."""


def registrations(url: str, ca_file: Path) -> list[Json]:
    """Both configurations, for a server at this URL."""
    authority = base64.b64encode(ca_file.read_bytes()).decode()
    pods = [_rule("", ("pods",), "CREATE"), _rule("", ("pods/resize",), "UPDATE")]
    counted = [_rule(group, resources, "CREATE", "UPDATE") for group, resources in COUNTED.items()]
    return [
        _configuration("MutatingWebhookConfiguration", MUTATING, f"{url}/mutate", authority, pods),
        _configuration("ValidatingWebhookConfiguration", VALIDATING, f"{url}/validate", authority, counted),
    ]


def _rule(group: str, resources: tuple[str, ...], *operations: str) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "resources": list(resources),
        "operations": list(operations),
        "scope": "Namespaced",
    }


def _configuration(kind: str, name: str, url: str, authority: str, rules: list[Json]) -> Json:
    webhook = {
        "name": name,
        "clientConfig": {"url": url, "caBundle": authority},
        "rules": rules,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }
