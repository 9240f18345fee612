"""Folders for tests, in memory where the system has a place for that."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_IN_MEMORY = "/dev/shm"


def temporary_folder() -> Path:
    """A new folder; whoever asks removes it."""
    place = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK | os.X_OK) else None
    return Path(tempfile.mkdtemp(prefix="quota-admission-test-", dir=place))
