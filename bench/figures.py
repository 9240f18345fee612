"""Figures and their spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median, quantiles
from time import perf_counter


def spread(values: Sequence[float], unit: str, digits: int = 1) -> str:
    """Median, with the 10th and the 90th percentile."""
    low, high = (quantiles(values, n=10)[0], quantiles(values, n=10)[-1]) if len(values) > 1 else (values[0],) * 2
    return f"{median(values):.{digits}f} {unit} (10%-90%: {low:.{digits}f}-{high:.{digits}f})"


def time_rounds(work: Callable[[int], None], calls: int, rounds: int) -> list[float]:
    """Seconds a call, one figure a round; `work` is given the number of the call. One round before is not counted."""
    figures = []
    for number in range(-1, rounds):
        begin = perf_counter()
        for call in range(calls):
            work((number + 1) * calls + call)
        if number >= 0:
            figures.append((perf_counter() - begin) / calls)
    return figures


def row(name: str, text: str) -> None:
    """Print one figure."""
    print(f"  {name:<44} {text}", flush=True)
