"""`quota-admission`: the group of commands."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from admission.cli.version import installed_version

CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COMMANDS: Final = {
    "controller": "admission.cli.controller",
    "serve": "admission.cli.serve",
    "submit": "admission.cli.submit",
}


class Commands(click.Group):
    """Imports a command when it is used: one must not wait for what the others need."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - holds for the table above
        return command


@click.group(cls=Commands, context_settings=CONTEXT)
@click.version_option(installed_version(), prog_name="quota-admission")
def main() -> None:
    """Kubernetes admission webhook: LimitRange defaults and bounds, ResourceQuota totals.

    Start a server on a folder of policies, then send it a pod as an API server would:

    \b
      quota-admission serve --standalone examples/namespace/policies --cert-dir run/certs
      quota-admission submit -f pod.yaml --ca run/certs/ca.crt
    """
