"""The command `quota-admission-certs`: the package by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from certs._ensure import ensure
from certs._ensure import renew as renew_folder
from certs._errors import CertsError, NameFormatError
from certs._issue import CA_LIFETIME, LEAF_LIFETIME
from certs._renewal import moment_text
from certs._result import Force, Lifetimes, Result
from certs._show import report

_DIR = click.option(
    "--dir",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of ca.crt, ca.key, tls.crt and tls.key.",
)
_DNS = click.option("--dns", "dns_names", multiple=True, metavar="NAME", help="A DNS name of the server; repeatable.")
_IP = click.option("--ip", "addresses", multiple=True, metavar="ADDR", help="An IP address of the server; repeatable.")
_DAYS = click.option(
    "--days",
    type=click.IntRange(1, CA_LIFETIME.days),
    default=LEAF_LIFETIME.days,
    show_default=True,
    help="How long the server certificate lives.",
)


class _OneLineGroup(click.Group):
    """Turns the errors of the package into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; 2 is the exit code for wrong names, 1 for all else that goes wrong."""
        try:
            return super().invoke(ctx)
        except NameFormatError as error:
            raise click.UsageError(str(error)) from error
        except CertsError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_OneLineGroup, name="quota-admission-certs")
def main() -> None:
    """Make, show and renew the certificates of a webhook server.

    Exit code: 0 when all is well, 1 when something is wrong, 2 when the command line is.

    \b
    Example:
      quota-admission-certs init --dir certs --dns webhook.ns.svc
      quota-admission-certs show --dir certs
    """


@main.command(short_help="Make a CA and a server certificate.")
@_DIR
@_DNS
@_IP
@_DAYS
@click.option("--force", is_flag=True, help="Start over: new CA, new certificate; the old CA is forgotten.")
def init(folder: Path, dns_names: tuple[str, ...], addresses: tuple[str, ...], days: int, force: bool) -> None:
    """Make a CA and a server certificate in DIR.

    At least one --dns or --ip is needed. What is there and in order is kept, so this may be run again; a certificate
    without all the names is made anew. In a DIR with files but without a ca.key the files are yours: they are checked
    and never overwritten.

    \b
    Example:
      quota-admission-certs init --dir certs --dns webhook.ns.svc --dns '*.ns.svc' --ip 10.0.0.1
    """
    lifetimes = Lifetimes(leaf=timedelta(days=days))
    mode = Force.START_OVER if force else Force.NO
    _tell(folder, ensure(folder, dns_names, addresses, now=_now(), lifetimes=lifetimes, force=mode))


@main.command(short_help="Show what there is and whether it is fine.")
@_DIR
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def show(folder: Path, as_json: bool) -> None:
    """Show the certificates in DIR, until when they are good, and what is wrong with them.

    \b
    Example:
      quota-admission-certs show --dir certs --json
    """
    found = report(folder, _now())
    click.echo(json.dumps(found.as_json(), indent=2) if as_json else found.as_text())
    if found.findings:
        click.get_current_context().exit(1)


@main.command(short_help="Renew what is due.")
@_DIR
@click.option("--force", is_flag=True, help="Renew everything now; clients need the new ca.crt at once.")
def renew(folder: Path, force: bool) -> None:
    """Renew what is past two thirds of its life in DIR, with the names of the present server certificate.

    A new CA is put into ca.crt in front of the old one, which stays until it expires. The server certificate is signed
    by the old CA until its next renewal: until then clients may have the old or the new ca.crt.

    \b
    Example:
      quota-admission-certs renew --dir certs
    """
    _tell(folder, renew_folder(folder, now=_now(), force=force))


def _tell(folder: Path, result: Result) -> None:
    for change in result.changed:
        click.echo(f"made {change}")
    if not result.changed:
        click.echo("nothing to do")
    click.echo(f"{folder}: good until {moment_text(result.expires)}, renew at {moment_text(result.renew_at)}")
    for warning in result.warnings:
        click.echo(f"Warning: {warning}", err=True)
    if result.warnings:
        click.get_current_context().exit(1)


def _now() -> datetime:
    return datetime.now(UTC)
