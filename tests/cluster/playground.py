"""A cluster to try things on: a control plane, a server, a controller, and the namespaces of the examples.

    python -m tests.cluster.playground

Everything runs on this machine, on loopback. Ctrl-C ends it all and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from tests.cluster.plane import ALL_CONTROLLERS, ControlPlane, Variant
from tests.cluster.processes import Process, StartError
from tests.cluster.programs import KUBECTL, Missing
from tests.cluster.rig import Rig, Setup

ROOT = Path(__file__).parents[2]
EXAMPLES = ("namespace", "myspace")
FOLDER = ROOT / "run" / "playground"
DAY = 24 * 3600
# Ours counts; that of the controller manager belongs to the built-in plugin, which is off.
VARIANT = Variant(plugins=False, controllers=(*ALL_CONTROLLERS, "-resourcequota-controller"), scheduler=True)
TRY = "run one --image=registry.example/app:1 -n team"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def shown(path: Path) -> str:
    """A path as it is typed here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def apply_examples(plane: ControlPlane) -> list[str]:
    """The policies of the examples; the namespaces that there are then."""
    for example in EXAMPLES:
        folder = ROOT / "examples" / example / "policies"
        plane.kubectl("apply", "-f", str(folder), check=True)
    listed = plane.kubectl("get", "quota,limits", "-A", "--no-headers", check=True).stdout
    namespaces = {line.split()[0] for line in listed.splitlines()}
    return sorted(namespaces - {"quota-admission", "rig-probe"})


def write_folder(folder: Path, plane: ControlPlane) -> None:
    """The folder that the user points kubectl to."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "kubeconfig").touch(mode=0o600)
    (folder / "kubeconfig").write_bytes(plane.kubeconfig.read_bytes())


def what_next(folder: Path) -> str:
    """The line to type."""
    kubectl = shown(KUBECTL)
    environment = f"KUBECONFIG={shown(folder / 'kubeconfig')} KUBECACHEDIR={shown(folder / 'cache')}"
    return f"export {environment}; {kubectl} {TRY} && {kubectl} describe quota -n team"


def watch_over(processes: Iterable[Process]) -> None:
    """Wait until one of them ends, which none should."""
    running = list(processes)
    while True:
        for process in running:
            if not process.runs():
                raise StartError(f"{process.name} has ended:\n{process.log_end()}")
        time.sleep(0.5)


def play(folder: Path) -> None:
    """Start all, say what to type, and wait."""
    say("starting a control plane, a server and a controller...")
    try:
        with ControlPlane(VARIANT) as plane, Rig(plane, Setup(1, 1), token_seconds=DAY) as rig:
            plane.add_node("node")
            namespaces = apply_examples(plane)
            write_folder(folder, plane)
            say(f"API server {plane.server}, webhooks behind {rig.url}")
            say(f"server    http://127.0.0.1:{rig.servers[0].admin_port}/usage.json and /metrics")
            say(f"controller http://127.0.0.1:{rig.controllers[0].admin_port}/metrics")
            say(f"namespaces with policies: {', '.join(namespaces)}; Ctrl-C ends it all. In another terminal:\n")
            say(what_next(folder))
            watch_over([*plane.processes.values(), *rig.servers, *rig.controllers])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.playground", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the kubeconfig is put; removed at the end")
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        play(given.folder.absolute())
    except (Missing, StartError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        say("\nended")
    return 0


if __name__ == "__main__":
    os.environ.pop("KUBECONFIG", None)
    sys.exit(main())
