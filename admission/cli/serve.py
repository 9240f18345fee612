"""`quota-admission serve`: the webhook server."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click

from admission.cli.logs import set_up
from admission.cli.version import installed_version
from admission.config import ConfigError, load_config
from admission.standalone.errors import StandaloneError, StateError
from admission.standalone.state import FileState
from admission.standalone.world import Folder
from admission.web.server import Listening, Server, listen, split_address
from admission.web.service import Loaded, StandaloneService
from admission.web.tls import ServingCertificate
from certs import CertsError, FolderError, ensure, load_pair

log = logging.getLogger(__name__)

WAIT_FOR_STATE = 5.0
"""Seconds that the start waits for a state file that a process which is just ending still holds."""


@click.command()
@click.option(
    "--standalone",
    "folder",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Serve the policies of this folder: YAML or JSON, as kubectl exports them. Changes are in force within 2 s.",
)
@click.option(
    "--state",
    "state_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep what was admitted in this SQLite file, so that it survives a restart. Without it, it is kept in memory.",
)
@click.option("--bind", metavar="HOST:PORT", default="127.0.0.1:10250", show_default=True, help="The webhook, HTTPS.")
@click.option(
    "--admin-bind",
    metavar="HOST:PORT",
    default="127.0.0.1:8080",
    show_default=True,
    help="Health, metrics and usage, plain HTTP.",
)
@click.option(
    "--cert-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of tls.crt, tls.key and ca.crt; what is missing is made.  [default: certs beside the state file, "
    "else ./quota-admission-certs]",
)
@click.option(
    "--dns-name", "dns_names", metavar="NAME", multiple=True, help="Another name for the certificate. Repeat."
)
@click.option("--config", "config_file", metavar="FILE", type=click.Path(path_type=Path), help="Configuration, YAML.")
@click.option("--log-format", type=click.Choice(["auto", "text", "json"]), default="auto", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def serve(  # noqa: PLR0913, PLR0917 - one parameter an option
    folder: Path,
    state_file: Path | None,
    bind: str,
    admin_bind: str,
    cert_dir: Path | None,
    dns_names: tuple[str, ...],
    config_file: Path | None,
    log_format: str,
    log_level: str,
) -> None:
    """Serve /mutate and /validate over HTTPS.

    \b
    Example:
      quota-admission serve --standalone policies --state run/usage.db --cert-dir run/certs
    """
    set_up(log_format, log_level)
    try:
        config = load_config(config_file)
        loaded = _load(folder)
        if state_file:
            _try_state(state_file)
        admin = _listen("--admin-bind", admin_bind)
        _listen("--bind", bind).close()
        certificate, renew = _certificate(cert_dir or _default_cert_dir(state_file), bind, dns_names)
    except (ConfigError, StandaloneError, CertsError, ssl.SSLError, OSError) as error:
        _fail(str(error))
    settings = config.server
    listening = Listening(
        bind, admin, certificate, settings.threads, settings.keepalive_seconds, settings.max_body_bytes
    )
    log.info(
        "serving",
        extra={
            "webhook": f"https://{bind}",
            "admin": f"http://{admin_bind}",
            "ca": str(certificate.path.parent / "ca.crt"),
        },
    )
    Server(
        listening,
        lambda: StandaloneService(loaded, state_file, config, certificate, renew, installed_version()),
    ).run()


def _load(root: Path) -> Loaded:
    folder = Folder(root)
    files = folder.fingerprints()
    world = folder.load(files)
    for doubt in world.doubts:
        log.warning("policy: %s", doubt)
    log.info("policies read: %d files, %d namespaces", len(files), len(world.namespaces))
    return Loaded(folder, files, world)


def _try_state(path: Path) -> None:
    """Open the state file once, so that what is wrong with it is an error of the start."""
    give_up = time.monotonic() + WAIT_FOR_STATE
    while True:
        try:
            state = FileState(path)
        except StateError as error:
            if not error.busy or time.monotonic() > give_up:
                raise
            time.sleep(0.1)
        else:
            break
    try:
        for _ in state.rows():
            pass
    finally:
        state.close()


def _certificate(folder: Path, bind: str, extra: tuple[str, ...]) -> tuple[ServingCertificate, Callable[[], None]]:
    names, addresses = _names(bind)
    dns_names = [*dict.fromkeys((*names, *extra))]

    def bring_in_order() -> None:
        result = ensure(folder, dns_names, addresses, now=datetime.now(UTC))
        for change in result.changed:
            log.info("certificate made: %s", change)
        for finding in result.warnings:
            log.warning("certificate: %s", finding)

    def renew() -> None:
        try:
            bring_in_order()
        except CertsError as error:
            log.error("certificate not renewed: %s", error)  # noqa: TRY400

    try:
        bring_in_order()
    except FolderError as error:
        load_pair(folder)  # a pair that works is good enough to start with, whatever else cannot be written
        log.warning("certificate: %s", error)
    return ServingCertificate(folder / "tls.crt", folder / "tls.key"), renew


def _names(bind: str) -> tuple[list[str], list[str]]:
    """The DNS names and addresses under which a server bound here is reached."""
    host, _ = split_address(bind)
    names, addresses = ["localhost"], ["127.0.0.1", "::1"]
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        names.append(host)
    else:
        if host not in ("0.0.0.0", "::"):
            addresses.append(host)
    return names, [*dict.fromkeys(addresses)]


def _default_cert_dir(state_file: Path | None) -> Path:
    return state_file.parent / "certs" if state_file else Path("quota-admission-certs")


def _listen(option: str, address: str) -> socket.socket:
    try:
        return listen(address)
    except ValueError as error:
        _fail(f"{option}: {error}")
    except OSError as error:
        # Errors of name resolution have numbers of their own, below zero.
        number = error.errno or 0
        _fail(f"{option} {address}: {os.strerror(number) if number > 0 else error.strerror or error}")


def _fail(line: str) -> NoReturn:
    click.echo(f"quota-admission: {' '.join(line.split())}", err=True)
    sys.exit(1)
