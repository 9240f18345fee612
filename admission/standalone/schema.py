"""What a policy file must look like: pydantic says where it does not, with its path."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from admission.objects import decode_quantity
from admission.quantity import Quantity, QuantityError


def _quantity(value: Any) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("expected a quantity such as 500m or 1Gi")
    try:
        return decode_quantity(Quantity, value)
    except QuantityError as error:
        raise ValueError(f"expected a quantity such as 500m or 1Gi: {error}") from None


QuantityField = Annotated[Quantity, BeforeValidator(_quantity)]
Amounts = dict[str, QuantityField]
NonEmpty = Annotated[str, Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, arbitrary_types_allowed=True, strict=True)


class _Closed(_Model):
    """Where a key that is not known is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Meta(_Model):
    """`metadata` of a policy."""

    name: NonEmpty
    namespace: NonEmpty | None = None


class LimitItem(_Closed):
    """An entry of a LimitRange."""

    type: NonEmpty
    min: Amounts | None = None
    max: Amounts | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None
    max_limit_request_ratio: Amounts | None = None


class LimitSpec(_Closed):
    """`spec` of a LimitRange."""

    limits: list[LimitItem]


class LimitRangeModel(_Model):
    """A LimitRange."""

    metadata: Meta
    spec: LimitSpec


class MatchExpression(_Closed):
    """An entry of a scope selector."""

    scope_name: NonEmpty
    operator: NonEmpty
    values: list[str] | None = None


class Selector(_Closed):
    """A scope selector."""

    match_expressions: list[MatchExpression] | None = None


class QuotaSpec(_Closed):
    """`spec` of a quota."""

    hard: Amounts | None = None
    scopes: list[NonEmpty] | None = None
    scope_selector: Selector | None = None


class QuotaStatus(_Model):
    """`status` of a quota."""

    hard: Amounts | None = None
    used: Amounts | None = None


class ResourceQuotaModel(_Model):
    """A ResourceQuota."""

    metadata: Meta
    spec: QuotaSpec | None = None
    status: QuotaStatus | None = None


class NamedModel(_Model):
    """A Namespace or PriorityClass: of these only the name matters."""

    metadata: Meta


class DeviceClassSpecModel(_Model):
    """`spec` of a DeviceClass."""

    extended_resource_name: str | None = None


class DeviceClassModel(_Model):
    """A DeviceClass."""

    metadata: Meta
    spec: DeviceClassSpecModel | None = None


class CustomNames(_Model):
    """`spec.names` of a CustomResourceDefinition."""

    kind: NonEmpty
    plural: NonEmpty


class CustomSpec(_Model):
    """`spec` of a CustomResourceDefinition."""

    group: NonEmpty
    names: CustomNames
    scope: Literal["Namespaced", "Cluster"] = "Namespaced"


class CustomResourceModel(_Model):
    """A CustomResourceDefinition."""

    metadata: Meta
    spec: CustomSpec
