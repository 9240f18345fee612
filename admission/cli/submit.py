"""`quota-admission submit`: acts as an API server would towards a running server."""

from __future__ import annotations

import os
import secrets
import ssl
import sys
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

import click

from admission.apiserver import ApiServer, Sources
from admission.cli import _submit_print as text
from admission.cli._submit_client import ServerAddress, WebhookConnection, trusting
from admission.cli._submit_run import Json, Key, Run, Screen, Submitted, Wishes, key_of
from admission.patch import Operation
from admission.standalone.documents import parse_documents
from admission.standalone.errors import PolicyError

DEFAULT_SERVER: Final = "https://127.0.0.1:10250"
DEFAULT_CA: Final = Path("run/certs/ca.crt")
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names, as Kubernetes makes them: no words come about by accident."""


def _address(_context: click.Context, _option: click.Parameter, url: str) -> ServerAddress:
    try:
        return ServerAddress(url)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option(
    "-f", "--filename", "files", metavar="FILE", multiple=True, required=True, help="YAML or JSON; - is stdin. Repeat."
)
@click.option(
    "--server",
    metavar="URL",
    callback=_address,
    default=DEFAULT_SERVER,
    show_default=True,
    envvar="QUOTA_ADMISSION_SERVER",
    show_envvar=True,
    help="The webhook server.",
)
@click.option(
    "--ca",
    metavar="FILE",
    type=click.Path(path_type=Path),
    envvar="QUOTA_ADMISSION_CA",
    show_envvar=True,
    help=f"The CA that the server's certificate is of.  [default: {DEFAULT_CA}]",
)
@click.option("-n", "--namespace", metavar="NS", help="For objects that name none.  [default: default]")
@click.option("--dry-run", is_flag=True, help="Judge only: nothing is counted.")
@click.option("--delete", is_flag=True, help="Delete the objects instead of creating them.")
@click.option("--old", "old_file", metavar="FILE", help="Replace the objects of this file, which exist.")
@click.option(
    "--subresource",
    type=click.Choice(["resize", "status"]),
    help="With --old: replace this part only.",
)
@click.option("--show-object", is_flag=True, help="Print every accepted object as it is stored.")
def submit(  # noqa: PLR0913, PLR0917 - one parameter an option
    files: tuple[str, ...],
    server: ServerAddress,
    ca: Path | None,
    namespace: str | None,
    dry_run: bool,
    delete: bool,
    old_file: str | None,
    subresource: str | None,
    show_object: bool,
) -> None:
    """Send objects to a running server, as an API server would.

    Every object goes to /mutate, is patched, and goes to /validate. Printed are the warnings, the patch, and what
    kubectl would print. Nothing is stored: policies are those that the server has, and of an object it keeps the count.

    \b
    Example:
      quota-admission submit -f pod.yaml --namespace team --ca certs/ca.crt
      quota-admission submit -f pod.yaml --namespace team --delete
    """
    if delete and old_file:
        raise click.UsageError("--delete and --old exclude each other")
    if subresource and not old_file:
        raise click.UsageError("--subresource needs --old")
    objects = list(_objects(files))
    wishes = Wishes(namespace, dry_run, delete, _old(old_file, namespace, objects), subresource or "")
    connection = WebhookConnection(server, _context(ca))
    run = Run(
        ApiServer(connection, Sources(lambda: str(uuid.uuid4()), _suffix, lambda: datetime.now(UTC))),
        wishes,
        Screen(_out, _warn),
        _show_patch,
        _show_object if show_object else _show_nothing,
    )
    try:
        accepted = run.submit(objects)
    finally:
        connection.close()
    if not accepted:
        _echo(text.problems(run.problems), err=True, nl=False)
        sys.exit(1)


def _objects(files: Iterable[str]) -> Iterable[Submitted]:
    found = False
    for file in files:
        source = "STDIN" if file == "-" else file
        for document in _documents(file, source):
            found = True
            yield Submitted(source, document)
    if not found:
        _fail("no objects passed to submit")


def _documents(file: str, source: str) -> Sequence[Json]:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return [document.body for document in parse_documents(data, source)]
    except FileNotFoundError:
        _fail(f'the path "{file}" does not exist')
    except OSError as error:
        _fail(f"{file}: {error.strerror or error}")
    except PolicyError as error:
        _fail(str(error))


def _old(file: str | None, namespace: str | None, objects: Iterable[Submitted]) -> dict[Key, Json] | None:
    if file is None:
        return None
    found = {}
    for body in _documents(file, "STDIN" if file == "-" else file):
        if isinstance(body.get("apiVersion"), str) and isinstance(body.get("kind"), str):
            found[key_of(body, namespace)] = body
    return found


def _context(ca: Path | None) -> ssl.SSLContext:
    if ca is None:
        if not DEFAULT_CA.is_file():
            _fail("no CA certificate: give --ca FILE or set QUOTA_ADMISSION_CA (serve writes ca.crt into --cert-dir)")
        ca = DEFAULT_CA
    try:
        return trusting(ca)
    except ssl.SSLError:
        _fail(f"{ca}: expected a CA certificate in PEM form")
    except OSError as error:
        _fail(f"{ca}: {error.strerror or error}")


def _suffix() -> str:
    return "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))


# -- lines


def _echo(line: str, *, err: bool = False, nl: bool = True) -> None:
    # None lets click decide by whether there is a terminal.
    click.echo(line, err=err, nl=nl, color=False if os.environ.get("NO_COLOR") else None)


def _out(line: str) -> None:
    _echo(line)


def _warn(line: str) -> None:
    _echo(f"{click.style('Warning:', fg='yellow', bold=True)} {line}", err=True)


def _show_patch(operation: Operation) -> None:
    _echo(f"{click.style('patch:', fg='cyan')} {text.patch_line(operation)}")


def _show_object(obj: Json) -> None:
    _echo(f"---\n{text.as_yaml(obj)}", nl=False)


def _show_nothing(_: Json) -> None:
    pass


def _fail(line: str) -> NoReturn:
    _echo(f"error: {' '.join(line.split())}", err=True)
    sys.exit(1)
