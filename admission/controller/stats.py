"""What the controller has done since its start, for the metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ControllerStats:
    """Counts, and the duration of the last recount in seconds."""

    recounts: int = 0
    recount_seconds: float = 0.0
    writes: int = 0
    conflicts: int = 0
    failures: int = 0
    settled: int = 0
    expired: int = 0
    drifts: int = 0
    rebuilt: int = 0
