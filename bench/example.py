"""The review and the policies that are measured: a pod of two containers, two LimitRanges, three quotas."""

from __future__ import annotations

import json
from typing import Any

UID = "00000000-0000-4000-8000-000000000000"
NAMESPACE = "team"


def _container(name: str, resources: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "image": "registry.example/team/app@sha256:" + "0" * 64,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": f"SETTING_{number}", "value": "x" * 24} for number in range(12)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
        "resources": resources,
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
        ],
    }


def pod(app: dict[str, Any], sidecar: dict[str, Any]) -> dict[str, Any]:
    """A pod such as a Deployment makes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-7d9c5b8f6-x2x9z",
            "generateName": "web-7d9c5b8f6-",
            "namespace": NAMESPACE,
            "uid": UID,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d9c5b8f6"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9c5b8f6", "uid": "1", "controller": True}
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {f"f:field{number}": {} for number in range(60)}},
                }
            ],
        },
        "spec": {
            "containers": [_container("app", app), _container("proxy", sidecar)],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "priority": 0,
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {}}]}}],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


BARE = pod({}, {})
FILLED = pod(
    {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
    {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "100m", "memory": "128Mi"}},
)


def review(subject: dict[str, Any]) -> bytes:
    """The call that an API server makes for it."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": UID,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": subject["metadata"]["name"],
        "namespace": NAMESPACE,
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "object": subject,
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(document, separators=(",", ":")).encode()


def numbered(body: bytes, number: int) -> bytes:
    """The same call for another object."""
    return body.replace(UID.encode(), f"00000000-0000-4000-8000-{number:012d}".encode())


def policies(namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """Two LimitRanges and three quotas, roomy enough for every call of a benchmark."""
    meta = {"namespace": namespace}
    container = {
        "type": "Container",
        "default": {"cpu": "500m", "memory": "512Mi"},
        "defaultRequest": {"cpu": "200m", "memory": "256Mi"},
        "min": {"cpu": "10m", "memory": "16Mi"},
        "max": {"cpu": "2", "memory": "4Gi"},
    }
    whole_pod = {
        "type": "Pod",
        "max": {"cpu": "4", "memory": "8Gi"},
        "maxLimitRequestRatio": {"cpu": "10"},
    }
    hard = {"requests.cpu": "1M", "requests.memory": "1Ei", "limits.cpu": "1M", "limits.memory": "1Ei", "pods": "10M"}
    quotas = {
        "compute": {"hard": hard},
        "counts": {"hard": {"count/pods": "10M", "services": "10", "secrets": "100"}},
        "not-terminating": {"hard": {"pods": "10M", "cpu": "1M"}, "scopes": ["NotTerminating"]},
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        *(
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": {**meta, "name": name}, "spec": {"limits": [item]}}
            for name, item in (("containers", container), ("pods", whole_pod))
        ),
        *(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {**meta, "name": name}, "spec": spec}
            for name, spec in quotas.items()
        ),
    ]
