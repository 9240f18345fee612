"""What people read about a pod that throttles keep out.

The tokens are those of kube-throttler's README, `throttles[active]=(default,t1)`; their order is that of its code: by
outcome, and ClusterThrottles before Throttles. What is short, and by how much, is said after them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from admission.errors import Denied
from admission.throttle.check import Outcome, Shortage, Verdict

MAX_SHORTAGES: Final = 8
"""How many shortages one text names."""

_WEIGHT: Final = {outcome: weight for weight, outcome in enumerate(Outcome)}
_NEVER_FITS: Final = (
    "It won't be scheduled unless decreasing resource requests or increasing ClusterThrottle/Throttle threshold "
    "because its resource requests exceeds their thresholds: "
)


def message(verdicts: Iterable[Verdict]) -> str:
    """All that keeps a pod out, in one line: the tokens, then what is short. Empty where nothing does."""
    listed = _kept_out(verdicts)
    short = [_shortage(verdict, shortage) for verdict in listed for shortage in verdict.shortages]
    if len(short) > MAX_SHORTAGES:
        short[MAX_SHORTAGES - 1 :] = [f"and {len(short) - MAX_SHORTAGES + 1} more"]
    return ": ".join(filter(None, (", ".join(reasons(listed)), "; ".join(short))))


def reasons(verdicts: Iterable[Verdict]) -> list[str]:
    """One token for each outcome and kind: `clusterthrottles[insufficient]=(ct1),(ct2)`."""
    return [
        f"{kind}s[{outcome}]={','.join(str(verdict.key) for verdict in group)}"
        for (outcome, kind), group in groupby(_kept_out(verdicts), lambda verdict: (verdict.outcome, verdict.key.kind))
    ]


def never_fits(verdicts: Iterable[Verdict]) -> str | None:
    """The warning about a pod that alone is larger than a threshold, as kube-throttler's event says it."""
    names = [str(verdict.key) for verdict in _kept_out(verdicts) if verdict.outcome is Outcome.EXCEEDS]
    return _NEVER_FITS + ",".join(names) if names else None


def denied(verdicts: Iterable[Verdict]) -> Denied:
    """The refusal of a pod that throttles keep out."""
    return Denied(message(verdicts), reason="throttled")


def _kept_out(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Those that keep the pod out, the gravest first."""
    return sorted(
        (verdict for verdict in verdicts if not verdict.passes),
        key=lambda verdict: (_WEIGHT[verdict.outcome], verdict.key),
    )


def _shortage(verdict: Verdict, shortage: Shortage) -> str:
    """`cpu is short by 100m in throttle (default,t1), nothing left of 200m`."""
    resource, asked, limit, used, by = shortage
    where = f"{verdict.key.kind} {verdict.key}"
    if verdict.outcome is Outcome.EXCEEDS:
        return f"{resource} {asked} exceeds the whole threshold {limit} of {where} by {by}"
    free = limit - used
    left = f"{free} of {limit} left" if free.nano > 0 else f"nothing left of {limit}"
    return f"{resource} is short by {by} in {where}, {left}"
