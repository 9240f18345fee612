"""`python -m bench [NAME...]`: decision, throttles, server, start; `throughput`, `scale`, `profile` have options."""

from __future__ import annotations

import signal
import sys
from importlib import import_module

NAMES = ("decision", "throttles", "server", "start")
WITH_CONTROL_PLANE = ("throughput", "scale", "profile")


def main() -> None:
    """Run the benchmarks named, without a name all that need no control plane."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended, and its files removed
    names = sys.argv[1:] or NAMES
    if names[0] in WITH_CONTROL_PLANE:
        import_module(f"bench.{names[0]}").main(sys.argv[2:], prog_name=f"python -m bench {names[0]}")
        return
    for name in names:
        if name not in NAMES:
            sys.exit(f"expected one of {', '.join((*NAMES, *WITH_CONTROL_PLANE))}, got {name}")
        import_module(f"bench.{name}").run()
        print()


main()
