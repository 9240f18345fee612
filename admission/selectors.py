"""Names, label values and label selectors, by the rules of the Kubernetes API (1.36, apimachinery)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

Labels = Mapping[str, str]

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"

_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_qualified_name(text: str) -> bool:
    """`[prefix/]name`: a DNS subdomain of at most 253 characters, and a name of at most 63."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _DNS_SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """At most 63 characters, alphanumeric at both ends, `-_.` inside; may be empty."""
    return not text or (len(text) <= 63 and _NAME.fullmatch(text) is not None)


def values_problem(operator: str, values: Sequence[str]) -> str | None:
    """What is wrong with the values that go with an operator; None where they are sound."""
    if operator in (IN, NOT_IN) and not values:
        return f"operator {operator} needs at least one value"
    if operator in (EXISTS, DOES_NOT_EXIST) and values:
        return f"operator {operator} takes no values"
    invalid = next((value for value in values if not is_label_value(value)), None)
    return None if invalid is None else f'"{invalid}" is not a valid label value'


class SelectorError(ValueError):
    """A label selector that cannot be evaluated."""


_CHECKS: Final[Mapping[str, Callable[[str | None, frozenset[str]], bool]]] = {
    IN: lambda value, values: value in values,
    NOT_IN: lambda value, values: value not in values,
    EXISTS: lambda value, _: value is not None,
    DOES_NOT_EXIST: lambda value, _: value is None,
}
"""By operator: whether a label of this value, None where there is none, is as required."""
OPERATORS: Final = frozenset(_CHECKS)


class Requirement(NamedTuple):
    """One thing that a label must be. An object without the label is `NotIn` any values."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    @classmethod
    def of(cls, key: str, operator: str, values: Sequence[str] = ()) -> Requirement:
        """A requirement as it is written in `matchExpressions`; raises SelectorError."""
        if operator not in OPERATORS:
            raise SelectorError(f'"{operator}" is not a valid label selector operator')
        problem = values_problem(operator, values)
        if not is_qualified_name(key):
            problem = f'"{key}" is not a valid label key'
        if problem is not None:
            raise SelectorError(problem)
        return cls(key, operator, frozenset(values))


class LabelSelector:
    """A label selector: every label and every requirement must match. One without any matches everything."""

    __slots__ = ("labels", "requirements")

    def __init__(self, labels: Labels | None = None, requirements: Iterable[Requirement] = ()) -> None:
        self.labels = tuple((labels or {}).items())
        self.requirements = tuple(requirements)
        for key, value in self.labels:
            if not is_qualified_name(key):
                raise SelectorError(f'"{key}" is not a valid label key')
            if not is_label_value(value):
                raise SelectorError(f'"{value}" is not a valid label value')

    def matches(self, labels: Labels) -> bool:
        """Whether an object with these labels is selected."""
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        for key, operator, values in self.requirements:
            is_met = _CHECKS[operator]
            if not is_met(labels.get(key), values):
                return False
        return True
