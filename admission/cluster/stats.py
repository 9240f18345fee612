"""What the parts that talk to the API server have done, for the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class CallStats:
    """How calls ended."""

    succeeded: int = 0
    conflicts: int = 0
    failed: int = 0


@dataclass
class LedgerStats:
    """What the ledger has done since the start."""

    writes: CallStats = field(default_factory=CallStats)
    reads: CallStats = field(default_factory=CallStats)
    reservations: int = 0
    batches: int = 0
    batched: int = 0
