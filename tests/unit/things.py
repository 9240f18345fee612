"""Objects that quotas count, and namespaces that count them."""

from __future__ import annotations

from typing import Any

from admission.quota.policy import QuotaState
from tests.unit.fakes import Namespace
from tests.unit.helpers import Json

ADMITTED = "admitted"


def stored(document: Json, version: str = "1") -> Json:
    """The object as it was before an update."""
    return {**document, "metadata": {**document.get("metadata", {}), "resourceVersion": version, "uid": "u"}}


def service(kind: str, ports: int = 0, **spec: Any) -> Json:
    return {
        "metadata": {"name": "s"},
        "spec": {"type": kind, "ports": [{"port": 80 + i} for i in range(ports)], **spec},
    }


def claim(storage: str = "1Gi", spec: str = "", current: str = "", target: str = "") -> Json:
    modify = {"targetVolumeAttributesClassName": target} if target else None
    return {
        "metadata": {"name": "c"},
        "spec": {"resources": {"requests": {"storage": storage}}, "volumeAttributesClassName": spec or None},
        "status": {"currentVolumeAttributesClassName": current or None, "modifyVolumeStatus": modify},
    }


def judged(*quotas: QuotaState, **more: Any) -> Namespace:
    return Namespace(quotas=quotas, **more)
