"""The slices of Kubernetes objects that decisions need, decoded by msgspec.

Only what is judged is declared: everything else in an object is skipped unread and never kept. `null` is accepted
wherever the API server may write it. Every quantity of a built-in kind is rounded up to a thousandth when it is
decoded, as the API server does (Kubernetes 1.36, ResourceList decoding).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import msgspec

from admission.errors import BadCall
from admission.quantity import UNFORMATTED_ZERO, Quantity, QuantityError

Resources = dict[str, Quantity]


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Field names in camelCase, unknown fields ignored."""


class OwnerReference(_Wire):
    """Who made the object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(_Wire):
    """The metadata that decisions read; times are RFC 3339 texts."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    owner_references: list[OwnerReference] | None = None


NO_META = ObjectMeta()


def labels_of(meta: ObjectMeta | None) -> dict[str, str]:
    """The labels as selectors see them; `null` is the empty text."""
    return {key: value or "" for key, value in ((meta and meta.labels) or {}).items()}


class LabelRequirement(_Wire):
    """An entry of `matchExpressions` of a label selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(_Wire):
    """A label selector as it is written."""

    match_labels: dict[str, str | None] | None = None
    match_expressions: list[LabelRequirement] | None = None


class AnyObject(_Wire):
    """An object of a kind that is only counted."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta | None = None


# -- pods


class ResourceRequirements(_Wire):
    """`resources` of a container or of a pod."""

    limits: Resources | None = None
    requests: Resources | None = None


NO_RESOURCES = ResourceRequirements()


class Container(_Wire):
    """An app container or an init container (a sidecar is an init container with `restartPolicy: Always`)."""

    name: str = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None

    @property
    def requests(self) -> Resources:
        """What the container requests; empty where it states nothing."""
        return (self.resources and self.resources.requests) or {}

    @property
    def limits(self) -> Resources:
        """What the container is limited to; empty where it states nothing."""
        return (self.resources and self.resources.limits) or {}


class AffinityTerm(_Wire):
    """A term of pod affinity or anti-affinity: which namespaces it looks at."""

    namespaces: list[str] | None = None
    namespace_selector: dict[str, Any] | None = None


class WeightedAffinityTerm(_Wire):
    """A preferred term."""

    pod_affinity_term: AffinityTerm | None = None


class PodAffinity(_Wire):
    """Pod affinity or anti-affinity."""

    required_during_scheduling_ignored_during_execution: list[AffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedAffinityTerm] | None = None


class Affinity(_Wire):
    """The parts of `spec.affinity` that name other pods."""

    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SchedulingGate(_Wire):
    """What holds a pod back from the scheduler."""

    name: str = ""


class PodSpec(_Wire):
    """What of a pod's spec is counted, decides a scope, or says when and by whom it is placed."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: Resources | None = None
    active_deadline_seconds: int | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    affinity: Affinity | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[SchedulingGate] | None = None


class ContainerStatus(_Wire):
    """What the node has set aside for a container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources | None = None


class PodCondition(_Wire):
    """A condition."""

    type: str = ""
    reason: str | None = None


class ExtendedResourceClaimStatus(_Wire):
    """The claim that the scheduler made for the pod's extended resources."""

    resource_claim_name: str | None = None


class PodStatus(_Wire):
    """What of a pod's status is counted or decides a scope."""

    phase: str | None = None
    qos_class: str | None = None
    conditions: list[PodCondition] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Resources | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(_Wire):
    """A pod."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None

    @property
    def containers(self) -> list[Container]:
        """The app containers."""
        return (self.spec and self.spec.containers) or []

    @property
    def init_containers(self) -> list[Container]:
        """The init containers, sidecars among them, in order."""
        return (self.spec and self.spec.init_containers) or []


# -- other kinds with a usage of their own


class VolumeClaimSpec(_Wire):
    """What of a claim's spec is counted or decides a scope."""

    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    resources: ResourceRequirements | None = None


class ModifyVolumeStatus(_Wire):
    """A change of attributes under way."""

    target_volume_attributes_class_name: str | None = None


class VolumeClaimStatus(_Wire):
    """What of a claim's status is counted or decides a scope."""

    allocated_resources: Resources | None = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class VolumeClaim(_Wire):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta | None = None
    spec: VolumeClaimSpec | None = None
    status: VolumeClaimStatus | None = None


class ServicePort(_Wire):
    """A port of a service."""

    node_port: int | None = None


class ServiceSpec(_Wire):
    """What of a service's spec is counted."""

    type: str | None = None
    ports: list[ServicePort] | None = None
    allocate_load_balancer_node_ports: bool | None = None


class Service(_Wire):
    """A service."""

    metadata: ObjectMeta | None = None
    spec: ServiceSpec | None = None


class DeviceSubRequest(_Wire):
    """One exact request for devices, or one of several alternatives."""

    device_class_name: str | None = None
    allocation_mode: str | None = None
    count: int | None = None


class DeviceRequest(_Wire):
    """A request for devices: `exactly` one thing or the `first_available` of several.

    `resource.k8s.io/v1beta1` has the fields of `exactly` in the request itself.
    """

    exactly: DeviceSubRequest | None = None
    first_available: list[DeviceSubRequest] | None = None
    device_class_name: str | None = None
    allocation_mode: str | None = None
    count: int | None = None


class DeviceClaim(_Wire):
    """`spec.devices` of a claim."""

    requests: list[DeviceRequest] | None = None


class ResourceClaimSpec(_Wire):
    """`spec` of a claim."""

    devices: DeviceClaim | None = None


class ResourceClaim(_Wire):
    """A claim for devices (dynamic resource allocation)."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec | None = None


# -- policies


class LimitRangeItem(_Wire):
    """An entry of `spec.limits`."""

    type: str
    min: Resources | None = None
    max: Resources | None = None
    default: Resources | None = None
    default_request: Resources | None = None
    max_limit_request_ratio: Resources | None = None


class LimitRangeSpec(_Wire):
    """`spec` of a LimitRange."""

    limits: list[LimitRangeItem] | None = None


class LimitRange(_Wire):
    """A LimitRange."""

    metadata: ObjectMeta
    spec: LimitRangeSpec | None = None


class ScopeRequirement(_Wire):
    """An entry of `scopeSelector.matchExpressions`, or of `matchScopes` in the configuration."""

    scope_name: str
    operator: str = ""
    values: list[str] | None = None


class ScopeSelector(_Wire):
    """`spec.scopeSelector`."""

    match_expressions: list[ScopeRequirement] | None = None


class ResourceQuotaSpec(_Wire):
    """`spec` of a quota."""

    hard: Resources | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(_Wire):
    """`status` of a quota."""

    hard: Resources | None = None
    used: Resources | None = None


class ResourceQuota(_Wire):
    """A ResourceQuota."""

    metadata: ObjectMeta
    spec: ResourceQuotaSpec | None = None
    status: ResourceQuotaStatus | None = None


class DeviceClassSpec(_Wire):
    """`spec` of a DeviceClass."""

    extended_resource_name: str | None = None


class DeviceClass(_Wire):
    """A DeviceClass."""

    metadata: ObjectMeta
    spec: DeviceClassSpec | None = None


# -- the call

NOTHING = msgspec.Raw(b"null")


class GroupVersionResource(_Wire):
    """What a request is about; the group of the core API is empty."""

    resource: str
    group: str = ""
    version: str = ""

    @property
    def name(self) -> str:
        """`pods`, `deployments.apps`: as in `count/<name>`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


class UserInfo(_Wire):
    """Who asks."""

    username: str = ""
    groups: list[str] | None = None


class AdmissionRequest(_Wire):
    """`request` of a review; the objects are still undecoded."""

    uid: str
    resource: GroupVersionResource
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    object: msgspec.Raw = NOTHING
    old_object: msgspec.Raw = NOTHING
    dry_run: bool | None = None
    user_info: UserInfo | None = None


class AdmissionReview(_Wire):
    """An AdmissionReview as it arrives."""

    api_version: str
    kind: str
    request: AdmissionRequest | None = None


# -- decoding


class NumberText(str):
    """The digits of a JSON number with a fraction or an exponent, kept as they were written."""

    __slots__ = ()


def decode_quantity(_type: type[Any], value: Any) -> Quantity:
    """A decoded scalar as a quantity, rounded up to a thousandth; raises ValueError with Kubernetes' text."""
    return decode_exact_quantity(_type, value).round_up(-3)


def decode_exact_quantity(_type: type[Any], value: Any) -> Quantity:
    """A decoded scalar as a quantity as it is, as in objects of custom resources; raises ValueError likewise."""
    if isinstance(value, str):
        return Quantity.parse(value.strip() if value[:1].isspace() or value[-1:].isspace() else value)
    if value is None:
        return UNFORMATTED_ZERO
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity.parse(str(value))
    if isinstance(value, float):
        return Quantity.parse(_shortest(value))
    return Quantity.parse("")  # raises: neither a text nor a number


def _shortest(value: float) -> str:
    """A float from a YAML file as JSON would write it: no fraction where it is whole."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)


T = TypeVar("T")


class Decoder(Generic[T]):
    """A JSON decoder for a type such as those above; reusable, and safe to share between threads."""

    def __init__(self, kind: type[T], dec_hook: Callable[[type[Any], Any], Any] = decode_quantity) -> None:
        self._decoder = msgspec.json.Decoder(kind, dec_hook=dec_hook, float_hook=NumberText)

    def __call__(self, data: bytes | bytearray | memoryview | msgspec.Raw, what: str = "") -> T:
        """The decoded object. Raises BadCall: one line with the path of the field and what was expected."""
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise BadCall(f"{what}{error}") from None
        except QuantityError as error:
            raise BadCall(f"{what}{error}") from None
        except RecursionError:
            raise BadCall(f"{what}the document is nested too deeply") from None
        except UnicodeDecodeError:
            raise BadCall(f"{what}the document is not valid UTF-8") from None


decode_review = Decoder(AdmissionReview)
decode_any = Decoder(AnyObject)
decode_pod = Decoder(Pod)
decode_volume_claim = Decoder(VolumeClaim)
decode_service = Decoder(Service)
decode_resource_claim = Decoder(ResourceClaim)
