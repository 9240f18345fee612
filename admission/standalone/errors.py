"""What can be wrong with what an operator gives the standalone store.

StandaloneError
├── PolicyError   a file of policies or objects
└── StateError    the state file
"""

from __future__ import annotations


class StandaloneError(Exception):
    """One readable line."""


class PolicyError(StandaloneError):
    """A file that cannot be used: the message names file, document, field and what was expected."""


class StateError(StandaloneError):
    """A state file that cannot be used; `busy` where that is because another process uses it."""

    def __init__(self, message: str, *, busy: bool = False) -> None:
        super().__init__(message)
        self.busy = busy
