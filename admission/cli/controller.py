"""`quota-admission controller`: keeps the count true and the webhooks registered."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from typing import Any

import click

from admission.cli.common import ClusterOptions, cluster_options, fail, listen_at
from admission.cli.logs import set_up
from admission.cli.version import installed_version
from admission.cluster.identity import reached
from admission.cluster.transport import ClusterError
from admission.config import ConfigError, load_config
from admission.controller.rules import Endpoint, ServiceEndpoint, UrlEndpoint
from admission.controller.service import ControllerService, ControllerSettings
from admission.web.app import Check, admin_app
from admission.web.server import serve_admin

log = logging.getLogger(__name__)


@click.command()
@cluster_options
@click.option("--config", "config_file", metavar="FILE", type=click.Path(path_type=Path), help="Configuration, YAML.")
@click.option(
    "--service", metavar="NS/NAME[:PORT]", help="The Service under which the API server reaches the webhook servers."
)
@click.option("--url", metavar="URL", help="Instead: the URL under which it does, such as https://127.0.0.1:10250.")
@click.option(
    "--ca-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Certificates of the authority that vouches for the webhook servers, PEM. Read again when it changes.",
)
@click.option(
    "--admin-bind",
    metavar="HOST:PORT",
    default="0.0.0.0:8080",
    show_default=True,
    help="Health and metrics, plain HTTP.",
)
@click.option("--log-format", type=click.Choice(["auto", "text", "json"]), default="auto", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def controller(  # noqa: PLR0913, PLR0917 - one parameter an option
    kubeconfig: Path | None,
    context: str | None,
    wait: float,
    config_file: Path | None,
    service: str | None,
    url: str | None,
    ca_file: Path | None,
    admin_bind: str,
    log_format: str,
    log_level: str,
) -> None:
    """Recount quotas, settle what was reserved, and keep the webhooks registered. Of several, one leads.

    \b
    Example:
      quota-admission controller --service quota-admission/webhook:443 --ca-file /certs/ca.crt
    """
    set_up(log_format, log_level)
    endpoint = _endpoint(service, url)
    try:
        config = load_config(config_file)
        transport = ClusterOptions(kubeconfig, context, wait).connect()
        admin = listen_at("--admin-bind", admin_bind)
        username = reached(transport, wait)
    except (ConfigError, ClusterError) as error:
        fail(str(error))
    settings = ControllerSettings(username, config, config_file, endpoint, ca_file, installed_version())
    running = ControllerService(transport, settings)
    server = serve_admin(admin, admin_app(lambda: _checks(running), running.metrics))
    log.info(
        "controlling", extra={"user": username, "namespace": settings.namespace(), "admin": f"http://{admin_bind}"}
    )
    running.start()
    _wait_for_the_end()
    running.stop()
    server.shutdown()


def _endpoint(service: str | None, url: str | None) -> Endpoint:
    if (service is None) == (url is None):
        raise click.UsageError("expected either --service or --url")
    try:
        return UrlEndpoint(url) if url is not None else _service(service or "")
    except ValueError as error:
        raise click.UsageError(f"{'--url' if url is not None else '--service'}: {error}") from None


def _service(text: str) -> ServiceEndpoint:
    namespace, slash, rest = text.partition("/")
    name, colon, port = rest.partition(":")
    if not slash or not namespace or not name or (colon and not (port.isdecimal() and 0 < int(port) < 65536)):
        raise ValueError(f"expected NAMESPACE/NAME[:PORT], got {text!r}")
    return ServiceEndpoint(namespace, name, int(port) if port else 443)


def _checks(running: ControllerService) -> list[Check]:
    problems = [Check(name, ready=not problem, note=problem) for name, problem in running.problems().items()]
    return [*problems, *(Check(name, ready=True, note=note) for name, note in running.notes().items())]


def _wait_for_the_end() -> None:
    asked = threading.Event()

    def end(_number: int, _frame: Any) -> None:
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    asked.wait()
