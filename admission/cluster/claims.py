"""What a pod pays for on behalf of an extended resource claim, asked of the API server.

Such claims are made by the scheduler, seldom; so pods are not cached for them.
"""

from __future__ import annotations

import logging
import time
from typing import Final
from urllib.parse import quote

import msgspec

from admission.cluster.transport import ClusterError, Transport
from admission.errors import BadCall
from admission.objects import NO_META, ObjectMeta, ResourceClaim, decode_pod, decode_resource_claim
from admission.quota.devices import PaidByPod, controlling_pod, paid_for
from admission.quota.usage import observe_pod
from admission.resource_lists import EMPTY, ResourceList

log = logging.getLogger(__name__)

PATIENCE: Final = 1.0
"""Seconds for each of the two questions."""


class _ClaimList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_ClaimList).decode


def paid_by_pods(transport: Transport, namespace: str) -> PaidByPod:
    """Asks for the pods of one namespace. What cannot be found out is taken as not paid: so it is counted."""

    def paid(uid: str, claim: ObjectMeta) -> ResourceList:
        try:
            return _paid(transport, namespace, uid, claim)
        except (ClusterError, BadCall, msgspec.MsgspecError) as error:
            log.warning("what a pod pays for is not known", extra={"namespace": namespace, "problem": str(error)})
            return EMPTY

    return paid


def _paid(transport: Transport, namespace: str, uid: str, claim: ObjectMeta) -> ResourceList:
    owner = controlling_pod(ResourceClaim(metadata=claim))
    if owner is None:
        return EMPTY
    base = f"/api/v1/namespaces/{namespace}/pods/{quote(owner.name)}"
    pod = decode_pod(transport.call("GET", base, timeout=PATIENCE).body, "Pod: ")
    if (pod.metadata or NO_META).uid != uid:
        return EMPTY
    claims = transport.call(
        "GET", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", timeout=PATIENCE
    ).body
    siblings = []
    for item in _decode_list(claims).items or ():
        sibling = decode_resource_claim(item, "ResourceClaim: ")
        controller = controlling_pod(sibling)
        meta = sibling.metadata or NO_META
        if controller is not None and controller.uid == uid:
            siblings.append((meta.creation_timestamp or "", meta.name or ""))
    return paid_for(claim, observe_pod(pod), siblings, time.time())
