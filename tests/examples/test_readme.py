"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standalone.server import ServerProcess

ROOT = Path(__file__).parents[2]
PROMPT = "$ "


def console_blocks():
    return re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def commands(block):
    """Pairs of a command and what is shown below it."""
    for part in f"\n{block}".split(f"\n{PROMPT}")[1:]:
        command, _, output = part.partition("\n")
        yield command, output.rstrip("\n")


SUBMITTED = [
    pair for block in console_blocks() for pair in commands(block) if "submit" in pair[0] and "examples/" in pair[0]
]


def test_the_two_minutes_show_every_kind_of_outcome():
    outputs = "\n".join(output for _, output in SUBMITTED)
    assert len(SUBMITTED) >= 4
    for shown in ("patch: add", "pod/nothing created", "Warning: ", "exceeded quota: compute"):
        assert shown in outputs


@pytest.fixture(scope="module")
def server():
    with ServerProcess(ROOT / "examples" / "namespace" / "policies") as running:
        yield running


def test_the_commands_of_the_two_minutes_print_what_is_shown(server):
    url = f"https://127.0.0.1:{server.port}"
    for command, shown in SUBMITTED:
        words = command.split()
        assert words[0] == ".venv/bin/quota-admission"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "admission.cli",
                *words[1:],
                "--server",
                url,
                "--ca",
                str(server.cert_dir / "ca.crt"),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.stdout.rstrip("\n") == shown, command
    usage = server.admin("/usage.json?namespace=team").text.strip()
    assert usage in (ROOT / "README.md").read_text()


def test_every_link_leads_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)
