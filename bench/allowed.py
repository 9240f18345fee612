"""The floor for a webhook: answers `allowed` to every review, served in the same way as ours."""

from __future__ import annotations

from pathlib import Path

import click
from flask import Flask

from admission.objects import AdmissionReview
from admission.pipeline import Answer, request_of
from admission.web.metrics import Metrics
from admission.web.reviews import ReviewEndpoint, in_front_of
from admission.web.server import Listening, Server, listen
from admission.web.tls import ServingCertificate

MAX_BODY = 3 * 2**20


def _allow(review: AdmissionReview, *, now: float, deadline: float) -> Answer:
    del now, deadline
    return Answer(request_of(review).uid)


class AllowingService:
    """Decides nothing."""

    def __init__(self) -> None:
        self.webhook = Flask("allowed")
        self.admin = Flask("admin")
        metrics = Metrics("bench")
        endpoints = {f"/{stage}": ReviewEndpoint(stage, _allow, metrics, MAX_BODY) for stage in ("mutate", "validate")}
        self.webhook.wsgi_app = in_front_of(self.webhook.wsgi_app, endpoints)  # type: ignore[method-assign,assignment]

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
@click.option("--threads", default=4, show_default=True)
def main(bind: str, admin_bind: str, cert_dir: Path, threads: int) -> None:
    """Serve a webhook that allows everything."""
    certificate = ServingCertificate(cert_dir / "tls.crt", cert_dir / "tls.key")
    Server(Listening(bind, listen(admin_bind), certificate, threads, 120, MAX_BODY), AllowingService).run()


if __name__ == "__main__":
    main()
