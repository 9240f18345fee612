"""The order of the steps: the one place that knows what happens to a review, and when.

`mutate` answers the mutating stage: LimitRange defaults. `validate` answers the validating stage: LimitRange bounds
first, then ResourceQuota, where the counts of objects and the totals of a quota are one check with one text. The API
server runs every mutating webhook before any validating one, so what is counted has always been defaulted.

Adding a check is adding a step: a function that takes the call, raises Denied, and may leave warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import msgspec

from admission.errors import BadCall, Denied
from admission.ledger import Application, Identity, Ledger
from admission.ledger.annotation import ANNOTATION as LEDGER
from admission.limits import LimitPolicy, check_pod, check_volume_claim, inject
from admission.limits.defaults import ANNOTATION
from admission.objects import AdmissionRequest, AdmissionReview, Pod, UserInfo, VolumeClaim
from admission.patch import Operation, add_members
from admission.quota.check import Charge
from admission.quota.names import IGNORED_KINDS, PODS, QUOTAS, VOLUME_CLAIMS
from admission.quota.observe import CountedObject, decode, handles, meta_of, observe
from admission.quota.observed import Observed

MAX_CONTAINERS: Final = 20_000
"""More than any object that an API server can store: what is larger would only cost time."""
MAX_NAME: Final = 512
"""Longest resource or group of a request, in characters; those of Kubernetes have half of that at most."""
API_VERSION: Final = "admission.k8s.io/v1"
NODES: Final = "system:nodes"
MIRROR_POD: Final = "kubernetes.io/config.mirror"


class Policies(Protocol):
    """Where the LimitRanges of a namespace are found."""

    def limit_policies(self, namespace: str) -> Sequence[LimitPolicy]:
        """Those of one namespace, by name."""


class OwnAccounts(Protocol):
    """The accounts that keep the ledger."""

    def contain(self, user: UserInfo | None) -> bool:
        """Whether a user is one of them."""


class Answer(NamedTuple):
    """What the API server is told. `reason` is empty where allowed, else the short word of the refusal."""

    uid: str
    allowed: bool = True
    message: str = ""
    reason: str = ""
    warnings: Sequence[str] = ()
    patch: Sequence[Operation] = ()


@dataclass
class Call:
    """One review on its way through the steps. `now` is wall-clock time, `deadline` monotonic, both in seconds.

    `kind` is as in `count/<kind>` (`pods`, `deployments.apps`), `sub_resource` is empty for the object itself,
    `namespace` for what has none.
    """

    request: AdmissionRequest
    now: float
    deadline: float
    warnings: list[str] = field(default_factory=list)
    patch: list[Operation] = field(default_factory=list)
    kind: str = field(init=False)
    sub_resource: str = field(init=False)
    namespace: str = field(init=False)

    def __post_init__(self) -> None:
        self.kind = self.request.resource.name
        self.sub_resource = self.request.sub_resource or ""
        self.namespace = self.request.namespace or ""

    def is_for(self, kind: str, *operations: tuple[str, str]) -> bool:
        """Whether the call is about this kind with one of these pairs of operation and subresource."""
        return self.kind == kind and (self.request.operation, self.sub_resource) in operations

    @cached_property
    def new(self) -> CountedObject | None:
        """The object as it will be stored."""
        return self._decode(self.request.object, "object")

    @cached_property
    def old(self) -> CountedObject | None:
        """The object as it was."""
        return self._decode(self.request.old_object, "oldObject")

    def _decode(self, data: msgspec.Raw, what: str) -> CountedObject | None:
        counted = None if bytes(data) == b"null" else decode(self.kind, data, f"request.{what}: ")
        if isinstance(counted, Pod) and len(counted.containers) + len(counted.init_containers) > MAX_CONTAINERS:
            raise BadCall(f"request.{what}: a pod of more than {MAX_CONTAINERS} containers is not judged")
        return counted

    def expect_new(self) -> CountedObject:
        """The new object; raises BadCall where the review brings none."""
        if self.new is None:
            raise BadCall("request.object: expected an object, got null")
        return self.new

    def is_from_a_node(self) -> bool:
        """Whether a kubelet asks: only that may say that a pod mirrors a static one."""
        user = self.request.user_info
        return user is not None and NODES in (user.groups or ())

    def old_is_being_deleted(self) -> bool:
        """Whether the object was marked for deletion before this request."""
        return self.old is not None and meta_of(self.old).deletion_timestamp is not None


Step = Callable[[Call], None]


class Pipeline:
    """Judges reviews. Safe to use from many threads at once, if `policies` and `ledger` are."""

    def __init__(
        self, policies: Policies, ledger: Ledger, *, warn_at: float = 0.9, own_accounts: OwnAccounts | None = None
    ) -> None:
        """`own_accounts` are given where the ledger is kept in the quotas themselves."""
        self._own_accounts = own_accounts
        self._policies = policies
        self._ledger = ledger
        self._warn_at = warn_at
        self._mutating: Sequence[Step] = (self._default_limits,)
        self._validating: Sequence[Step] = (self._guard_ledger, self._limit_bounds, self._quotas)

    def mutate(self, review: AdmissionReview, *, now: float, deadline: float) -> Answer:
        """The mutating stage. Raises BadCall where the review cannot be judged."""
        return _run(self._mutating, Call(request_of(review), now, deadline))

    def validate(self, review: AdmissionReview, *, now: float, deadline: float) -> Answer:
        """The validating stage. Raises BadCall where the review cannot be judged."""
        return _run(self._validating, Call(request_of(review), now, deadline))

    # -- mutating

    def _default_limits(self, call: Call) -> None:
        if not call.is_for(PODS, ("CREATE", ""), ("UPDATE", "resize")) or call.old_is_being_deleted():
            return
        pod = call.expect_new()
        policies = self._policies.limit_policies(call.namespace)
        annotations = meta_of(pod).annotations
        if not policies or not isinstance(pod, Pod) or (MIRROR_POD in (annotations or {}) and call.is_from_a_node()):
            return
        injection = inject(pod, policies)
        call.patch += injection.operations()
        if injection.annotation is not None and not call.sub_resource:  # a resize keeps the annotations it finds
            call.patch += _annotate(pod, injection.annotation)
        for name, labels in injection.sources:
            call.warnings.append(f'LimitRange "{name}" set defaults for {", ".join(labels)}')

    # -- validating

    def _guard_ledger(self, call: Call) -> None:
        """Whoever may edit a quota may not forge what is counted of it."""
        if self._own_accounts is None or not call.is_for(QUOTAS, ("UPDATE", ""), ("UPDATE", "status")):
            return
        before, after = (
            (meta_of(counted).annotations or {}).get(LEDGER) if counted is not None else None
            for counted in (call.old, call.new)
        )
        if before != after and not self._own_accounts.contain(call.request.user_info):
            raise Denied(
                f"the annotation {LEDGER} holds the count of this quota and is kept by quota-admission alone: "
                "leave it as it is",
                reason="ledger",
                hints=["kubectl edit, patch and apply keep it; kubectl replace needs a file that has it"],
            )

    def _limit_bounds(self, call: Call) -> None:
        if call.is_for(PODS, ("CREATE", ""), ("UPDATE", "resize")):
            pod = call.expect_new()
            if isinstance(pod, Pod) and not call.old_is_being_deleted():
                check_pod(pod, self._policies.limit_policies(call.namespace))
        elif call.is_for(VOLUME_CLAIMS, ("CREATE", ""), ("UPDATE", "")):
            claim = call.expect_new()
            if isinstance(claim, VolumeClaim) and not call.old_is_being_deleted():
                check_volume_claim(claim, self._policies.limit_policies(call.namespace))

    def _quotas(self, call: Call) -> None:
        if not call.namespace or call.kind in IGNORED_KINDS or call.kind == "namespaces":
            return
        surroundings = self._ledger.surroundings(call.namespace)
        old = observe(call.kind, call.old, surroundings) if call.old is not None else None
        if call.request.operation == "DELETE":
            if old is not None and not call.sub_resource and not call.request.dry_run:
                self._ledger.release(_identity(call), old, call.deadline)
            return
        if call.request.operation == "CONNECT" or (call.request.operation == "CREATE" and call.sub_resource):
            return
        new = observe(call.kind, call.expect_new(), surroundings)
        if handles(call.kind, call.sub_resource, call.request.operation, new, old):
            charges = self._ledger.reserve(_application(call, new, old))
            call.warnings += _nearly_full(charges, self._warn_at)
        elif old is not None and not call.request.dry_run and call.sub_resource in ("", "status"):
            self._ledger.renew(_identity(call), new, old, call.deadline)


def request_of(review: AdmissionReview) -> AdmissionRequest:
    """The request of a review; raises BadCall where it is not one of the version that is served."""
    if review.kind != "AdmissionReview":
        raise BadCall(f'kind: expected "AdmissionReview", got "{review.kind[:80]}"')
    if review.api_version != API_VERSION:
        raise BadCall(
            f'apiVersion: expected "{API_VERSION}", got "{review.api_version[:80]}"; '
            'set admissionReviewVersions: ["v1"] in the webhook configuration'
        )
    if review.request is None:
        raise BadCall("request: expected an object, got null")
    if not review.request.uid:
        raise BadCall("request.uid: expected a text that is not empty")
    for text in (review.request.resource.resource, review.request.resource.group):
        if len(text) > MAX_NAME:
            raise BadCall(f"request: a name of more than {MAX_NAME} characters")
    return review.request


def _run(steps: Sequence[Step], call: Call) -> Answer:
    try:
        for step in steps:
            step(call)
    except Denied as denied:
        hints = _shortened([*denied.hints, *call.warnings])
        return Answer(call.request.uid, False, denied.message, denied.reason, hints)
    return Answer(call.request.uid, warnings=_shortened(call.warnings), patch=call.patch)


def _annotate(pod: Pod, text: str) -> list[Operation]:
    return add_members("/metadata/annotations", meta_of(pod).annotations, {ANNOTATION: text})


def _identity(call: Call) -> Identity:
    metas = [meta_of(counted) for counted in (call.new, call.old) if counted is not None]
    uid = next((meta.uid for meta in metas if meta.uid), None)
    name = call.request.name or next((meta.name for meta in metas if meta.name), "")
    # Without a UID nothing says that two calls are about the same object: each counts.
    return Identity(call.namespace, call.kind, name, uid or f"review:{call.request.uid}", uid is not None)


def _application(call: Call, new: Observed, old: Observed | None) -> Application:
    created = call.request.operation == "CREATE"
    old_is_missing = not created and call.old is None
    if not created and call.old is not None and not meta_of(call.old).resource_version:
        created = True  # an update that creates is billed like a creation
    return Application(
        identity=_identity(call),
        new=new,
        old=None if created else old,
        pod=call.new if isinstance(call.new, Pod) else None,
        dry_run=bool(call.request.dry_run),
        now=call.now,
        deadline=call.deadline,
        enforced=call.sub_resource != "status",
        old_is_missing=old_is_missing,
        version="" if created or call.old is None else meta_of(call.old).resource_version or "",
    )


# -- warnings: short ones, and few, so that the API server does not cut them

MAX_WARNING: Final = 255
MAX_WARNINGS: Final = 8


def _shortened(warnings: Sequence[str]) -> list[str]:
    distinct = list(dict.fromkeys(warnings))
    shown = [text if len(text) <= MAX_WARNING else f"{text[: MAX_WARNING - 1]}…" for text in distinct[:MAX_WARNINGS]]
    if len(distinct) > MAX_WARNINGS:
        shown[-1] = f"and {len(distinct) - MAX_WARNINGS + 1} more"
    return shown


def _nearly_full(charges: Sequence[Charge], warn_at: float) -> list[str]:
    warnings = []
    for policy, amounts, used in charges:
        tight = [name for name in sorted(amounts) if used[name].nano >= policy.hard[name].nano * warn_at]
        if tight:
            full = all(used[name].nano >= policy.hard[name].nano for name in tight)
            listed = ", ".join(f"{name} {used[name]} of {policy.hard[name]} used" for name in tight)
            warnings.append(f'quota "{policy.name}" is {"full" if full else "nearly full"}: {listed}')
    return warnings
