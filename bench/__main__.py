"""`python -m bench [NAME...]`: decision, throttles, server, start."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("decision", "throttles", "server", "start")


def main() -> None:
    """Run the benchmarks named, all of them without a name."""
    names = sys.argv[1:] or NAMES
    for name in names:
        if name not in NAMES:
            sys.exit(f"expected one of {', '.join(NAMES)}, got {name}")
        import_module(f"bench.{name}").run()
        print()


main()
