"""Running an example against a server of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.standalone.server import COMMAND, ServerProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if (folder / "run.sh").exists())


@dataclass(frozen=True)
class Played:
    """What the script printed, and what the server said is used after it."""

    output: str
    usage: str


def environment(**more: str) -> dict[str, str]:
    """With this installation's command first in the path, and without what somebody set for their own server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QUOTA_ADMISSION_")}
    return {**kept, "PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}", **more}


def play(name: str) -> Played:
    folder = EXAMPLES / name
    policies = {path.name: path.read_text() for path in (folder / "policies").iterdir()}
    config = folder / "config.yaml"
    with ServerProcess(policies, config=config if config.exists() else None) as server:
        done = subprocess.run(
            ["sh", "run.sh"],
            cwd=folder,
            env=environment(
                QUOTA_ADMISSION_SERVER=f"https://127.0.0.1:{server.port}",
                QUOTA_ADMISSION_CA=str(server.cert_dir / "ca.crt"),
                QUOTA_ADMISSION_USAGE=f"http://127.0.0.1:{server.admin_port}/usage.json",
                POLICIES=str(server.folder),
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=True,
        )
        return Played(done.stdout, json.dumps(server.admin("/usage.json").json, indent=2) + "\n")


def recorded(name: str) -> Played:
    return Played(*((EXAMPLES / name / file).read_text() for file in ("expected.txt", "usage.json")))
