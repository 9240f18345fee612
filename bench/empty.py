"""The yardstick: an empty Flask endpoint, served in the same way."""

from __future__ import annotations

from pathlib import Path

import click
from flask import Flask, request

from admission.web.server import Listening, Server, listen
from admission.web.tls import ServingCertificate


class EmptyService:
    """Reads the body and answers nothing."""

    def __init__(self) -> None:
        self.webhook = Flask("empty")
        self.admin = Flask("admin")

        @self.webhook.post("/validate")
        def validate() -> str:
            request.get_data()
            return "{}"

        @self.admin.get("/readyz")
        def readyz() -> str:
            return "ok"

    def drain(self) -> bool:
        """Nothing to say."""
        return False

    def stop(self) -> None:
        """Nothing to finish."""


@click.command()
@click.option("--bind", required=True)
@click.option("--admin-bind", required=True)
@click.option("--cert-dir", required=True, type=click.Path(path_type=Path))
@click.option("--threads", required=True, type=int)
def main(bind: str, admin_bind: str, cert_dir: Path, threads: int) -> None:
    """Serve an empty endpoint."""
    certificate = ServingCertificate(cert_dir / "tls.crt", cert_dir / "tls.key")
    Server(Listening(bind, listen(admin_bind), certificate, threads, 120, 3 * 2**20), EmptyService).run()


main()
