"""The version of the distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """The version that is installed."""
    try:
        return version("quota-admission")
    except PackageNotFoundError:  # run from a source tree
        return "0+source"
