"""Arithmetic on resource lists: mappings from a resource name to a quantity (`{"cpu": 500m, "memory": 1Gi}`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from admission.quantity import Quantity

ResourceList = Mapping[str, Quantity]

EMPTY: ResourceList = {}


def add_into(total: dict[str, Quantity], amounts: ResourceList) -> None:
    """Add per name; a name that was absent takes the amount as it stands, printed form included."""
    for name, amount in amounts.items():
        present = total.get(name)
        total[name] = amount if present is None else present + amount


def max_into(total: dict[str, Quantity], amounts: ResourceList) -> None:
    """Keep the larger per name; where both are equal the one that was there."""
    for name, amount in amounts.items():
        present = total.get(name)
        if present is None or amount.nano > present.nano:
            total[name] = amount


def growth(new: ResourceList, old: ResourceList) -> dict[str, Quantity]:
    """What `new` has more than `old`, per name of `new`; names that did not grow are left out."""
    grown = {}
    for name, amount in new.items():
        before = old.get(name)
        delta = amount if before is None else amount - before
        if delta.nano > 0:
            grown[name] = delta
    return grown


def restricted(amounts: ResourceList, names: Iterable[str]) -> dict[str, Quantity]:
    """The amounts of these names only, in the order of the names."""
    return {name: amounts[name] for name in names if name in amounts}


def pretty(amounts: ResourceList) -> str:
    """`cpu=100m,memory=1Gi`: sorted by name, as the built-in messages print a list."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))
