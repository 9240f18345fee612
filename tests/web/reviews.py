"""Valid reviews that touch every field the server reads."""

from __future__ import annotations

from tests.standalone.manifests import (
    Json,
    amounts,
    claim,
    config_map,
    create,
    delete,
    file_of,
    limit_range,
    namespace,
    pod,
    quota,
    review,
    service,
    update,
)

POLICIES = {
    "policies.yaml": file_of(
        namespace(),
        limit_range(
            default="cpu=1 memory=1Gi example.com/gpu=0",
            defaultRequest="cpu=100m",
            min="cpu=1m",
            max="cpu=64 memory=1Ti",
            maxLimitRequestRatio="cpu=1000",
        ),
        limit_range("pod-limits", type="Pod", max="cpu=1000"),
        limit_range("claim-limits", type="PersistentVolumeClaim", min="storage=1", max="storage=1Pi"),
        quota(
            "all",
            "pods=100k count/pods=100k services=100k services.nodeports=100k requests.storage=1E "
            "persistentvolumeclaims=100k configmaps=100k count/resourceclaims.resource.k8s.io=100k "
            "gold.storageclass.storage.k8s.io/requests.storage=1E gpu.deviceclass.resource.k8s.io/devices=100k",
        ),
        quota("computed", "requests.cpu=1G limits.memory=1E requests.example.com/gpu=1G", scopes=["NotTerminating"]),
        quota("stated", "pods=100k requests.cpu=1G", "pods=1 requests.cpu=1"),
        quota(
            "selected",
            "pods=100k",
            scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]},
        ),
        quota("elsewhere", "pods=100k", scopes=["CrossNamespacePodAffinity"]),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"extendedResourceName": "example.com/gpu"},
        },
    )
}
"""Namespace `ns` with room for everything."""


def _container(name: str, **more: object) -> Json:
    resources = {
        "requests": amounts("cpu=500m memory=64Mi example.com/gpu=1"),
        "limits": amounts("cpu=1 memory=128Mi example.com/gpu=1"),
    }
    return {"name": name, "image": "i", "resources": resources, **more}


def rich_pod(uid: str = "rich-pod") -> Json:
    """A pod with everything that is judged."""
    status = {
        "phase": "Running",
        "qosClass": "Burstable",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
        "containerStatuses": [
            {
                "name": "a",
                "resources": {"requests": amounts("cpu=600m"), "limits": amounts("cpu=2")},
                "allocatedResources": amounts("cpu=700m"),
            }
        ],
        "initContainerStatuses": [{"name": "side", "allocatedResources": amounts("cpu=1")}],
        "extendedResourceClaimStatus": {"resourceClaimName": "rich-claim", "requestMappings": []},
    }
    term = {"topologyKey": "zone", "namespaces": ["other"], "namespaceSelector": {"matchLabels": {"a": "b"}}}
    spec = {
        "containers": [_container("a", ports=[{"containerPort": 80}]), _container("b")],
        "initContainers": [_container("side", restartPolicy="Always"), _container("init")],
        "resources": {"requests": amounts("cpu=3"), "limits": amounts("cpu=4 memory=1Gi")},
        "overhead": amounts("cpu=250m memory=120Mi"),
        "activeDeadlineSeconds": 60,
        "priorityClassName": "high",
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        },
    }
    metadata = {
        "labels": {"app": "a"},
        "annotations": {"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container a"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True},
        ],
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "deletionTimestamp": "2099-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
    }
    return pod(uid, uid=uid, metadata=metadata, spec=spec, status=status)


def plain_pod(uid: str = "plain-pod") -> Json:
    """A pod that is not being deleted, so that nothing about it is skipped."""
    made = rich_pod(uid)
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        del made["metadata"][key]
    return made


def rich_claim(uid: str = "rich-claim") -> Json:
    made = claim(uid, "1Gi", uid=uid)
    made["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "gold"}
    made["spec"] |= {"storageClassName": "gold", "volumeAttributesClassName": "silver"}
    made["status"] = {
        "allocatedResources": amounts("storage=2Gi"),
        "currentVolumeAttributesClassName": "silver",
        "modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "Pending"},
    }
    return made


def rich_service(uid: str = "rich-service") -> Json:
    made = service(uid, uid=uid, kind="LoadBalancer", ports=2)
    made["spec"]["allocateLoadBalancerNodePorts"] = False
    made["spec"]["ports"][0]["nodePort"] = 30080
    return made


def device_claim(uid: str = "device-claim") -> Json:
    """The object of a resource claim made for a pod's extended resources."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    requests = [
        {"name": "a", "exactly": exactly},
        {"name": "b", "firstAvailable": [exactly, {**exactly, "allocationMode": "All"}]},
        {"name": "c", **exactly},
    ]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "rich-pod", "uid": "rich-pod", "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": uid,
            "namespace": "ns",
            "uid": uid,
            "creationTimestamp": "2025-01-01T00:00:00Z",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def _of_resource_claim(operation: str) -> Json:
    made = review(operation, rich_pod(), rich_pod() if operation == "UPDATE" else None)
    made["request"] |= {
        "resource": {"group": "resource.k8s.io", "version": "v1", "resource": "resourceclaims"},
        "object": device_claim(),
        "oldObject": device_claim() if operation == "UPDATE" else None,
    }
    return made


def valid_reviews() -> dict[str, Json]:
    """What the server may be asked, by name."""
    terminating, staying = rich_pod(), rich_pod()
    del staying["spec"]["activeDeadlineSeconds"]
    return {
        "pod created": create(plain_pod()),
        "pod that is being deleted created": create(rich_pod()),
        "pod resized": update(plain_pod(), plain_pod(), sub_resource="resize"),
        "pod that ends now": update(staying, terminating),
        "pod with a new status": update(staying, rich_pod(), sub_resource="status"),
        "pod deleted": delete(rich_pod()),
        "claim created": create(rich_claim()),
        "claim grown": update(rich_claim(), rich_claim()),
        "claim with a new status": update(rich_claim(), rich_claim(), sub_resource="status"),
        "service created": create(rich_service()),
        "service changed": update(service(uid="rich-service"), rich_service()),
        "config map created": create(config_map(uid="m", key="value")),
        "devices claimed": _of_resource_claim("CREATE"),
        "devices claimed anew": _of_resource_claim("UPDATE"),
    }
