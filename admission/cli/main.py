"""`quota-admission`: the group of commands."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import click

from admission.cli.serve import serve
from admission.cli.submit import submit

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def installed_version() -> str:
    """The version of the distribution."""
    try:
        return version("quota-admission")
    except PackageNotFoundError:  # run from a source tree
        return "0+source"


@click.group(context_settings=CONTEXT)
@click.version_option(installed_version(), prog_name="quota-admission")
def main() -> None:
    """Kubernetes admission webhook: LimitRange defaults and bounds, ResourceQuota totals.

    Start a server on a folder of policies, then send it a pod as an API server would:

    \b
      quota-admission serve --standalone examples/namespace/policies --cert-dir certs
      quota-admission submit -f pod.yaml --ca certs/ca.crt
    """


main.add_command(serve)
main.add_command(submit)
