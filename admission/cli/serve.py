"""`quota-admission serve`: the webhook server."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import click

from admission.cli.certificates import Certificates
from admission.cli.common import ClusterOptions, cluster_options, fail, listen_at
from admission.cli.logs import set_up
from admission.cli.version import installed_version
from admission.cluster.identity import reached
from admission.cluster.transport import ClusterError
from admission.config import Config, ConfigError, load_config
from admission.standalone.errors import StandaloneError, StateError
from admission.standalone.state import FileState
from admission.standalone.world import Folder
from admission.web.cluster_service import ClusterService, ClusterSettings
from admission.web.server import Listening, Server, Service
from admission.web.service import Loaded, StandaloneService
from admission.web.slots import WAITING_THREADS
from certs import CertsError

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"
WEBHOOK = f"{LOOPBACK}:10250 with --standalone, else {EVERYWHERE}:10250"
ADMIN = f"{LOOPBACK}:8080 with --standalone, else {EVERYWHERE}:8080"
WAIT_FOR_STATE = 5.0
"""Seconds that the start waits for a state file that a process which is just ending still holds."""


@click.command()
@click.option(
    "--standalone",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Serve the policies of this folder, without a cluster: YAML or JSON, as kubectl exports them. Changes are in "
    "force within 2 s.",
)
@cluster_options
@click.option(
    "--state",
    "state_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --standalone: keep what was admitted in this SQLite file, so that it survives a restart. Without it, it "
    "is kept in memory.",
)
@click.option("--bind", metavar="HOST:PORT", help=f"The webhook, HTTPS.  [default: {WEBHOOK}]")
@click.option("--admin-bind", metavar="HOST:PORT", help=f"Health, metrics and usage, plain HTTP.  [default: {ADMIN}]")
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
    folder: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    wait: float,
    state_file: Path | None,
    bind: str | None,
    admin_bind: str | None,
    cert_dir: Path | None,
    dns_names: tuple[str, ...],
    config_file: Path | None,
    log_format: str,
    log_level: str,
) -> None:
    """Serve /mutate and /validate over HTTPS: the policies of a cluster, or with --standalone those of a folder.

    \b
    Examples:
      quota-admission serve --kubeconfig ~/.kube/config --cert-dir run/certs
      quota-admission serve --standalone policies --state run/usage.db --cert-dir run/certs
    """
    if folder is None and state_file:
        raise click.UsageError("--state goes with --standalone")
    if folder is not None and (kubeconfig or context):
        raise click.UsageError("--kubeconfig and --context do not go with --standalone")
    set_up(log_format, log_level)
    host = LOOPBACK if folder else EVERYWHERE
    bind = f"{host}:10250" if bind is None else bind
    admin_bind = f"{host}:8080" if admin_bind is None else admin_bind
    try:
        config = load_config(config_file)
        certificates = Certificates(cert_dir or _default_cert_dir(state_file), bind, dns_names)
        if folder is None:
            make = _cluster(certificates, ClusterOptions(kubeconfig, context, wait), config, config_file)
        else:
            make = _standalone(certificates, folder, state_file, config)
        admin = listen_at("--admin-bind", admin_bind)
        listen_at("--bind", bind).close()
        certificates.load()
    except (ConfigError, StandaloneError, ClusterError, CertsError, ssl.SSLError, OSError) as error:
        fail(str(error))
    settings = config.server
    waiting = 0 if folder else WAITING_THREADS
    listening = Listening(
        bind,
        admin,
        certificates.serving,
        threads=settings.threads + waiting,
        keepalive_seconds=settings.keepalive_seconds,
        max_body=settings.max_body_bytes,
        drain_seconds=0.0 if folder else settings.drain_seconds,
    )
    log.info(
        "serving",
        extra={
            "webhook": f"https://{bind}",
            "admin": f"http://{admin_bind}",
            "ca": str(certificates.folder / "ca.crt"),
        },
    )
    Server(listening, make).run()


def _standalone(
    certificates: Certificates, folder: Path, state_file: Path | None, config: Config
) -> Callable[[], Service]:
    loaded = _load(folder)
    if state_file:
        _try_state(state_file)
    return lambda: StandaloneService(
        loaded, state_file, config, certificates.serving, certificates.renew, installed_version()
    )


def _cluster(
    certificates: Certificates, options: ClusterOptions, config: Config, config_file: Path | None
) -> Callable[[], Service]:
    # The worker makes its own connections: none may be shared with the process that it comes from.
    username = reached(options.connect(), options.wait)
    log.info("API server reached", extra={"user": username})
    settings = ClusterSettings(options.connect, username, config, config_file, installed_version())
    return lambda: ClusterService(settings, certificates.serving, certificates.renew)


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


def _default_cert_dir(state_file: Path | None) -> Path:
    return state_file.parent / "certs" if state_file else Path("quota-admission-certs")
