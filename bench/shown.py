"""Figures of few rounds in a table: the median, and the 10th and 90th percentile, never beyond what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles


def shown(values: Sequence[float], digits: int) -> str:
    """`median (low-high)`."""
    shares = quantiles(values, n=10, method="inclusive") if len(values) > 1 else [values[0]] * 9
    return f"{median(values):.{digits}f} ({shares[0]:.{digits}f}-{shares[-1]:.{digits}f})"
