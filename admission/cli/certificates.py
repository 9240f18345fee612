"""The serving certificate of a command: made where it is missing, renewed when it is due."""

from __future__ import annotations

import logging
import socket
from datetime import UTC, datetime
from pathlib import Path

from admission.web.server import split_address
from admission.web.tls import ServingCertificate
from certs import CertsError, FolderError, ensure, load_pair

log = logging.getLogger(__name__)


class Certificates:
    """The folder of `tls.crt`, `tls.key` and `ca.crt` for a server that listens at `bind`."""

    serving: ServingCertificate

    def __init__(self, folder: Path, bind: str, extra_names: tuple[str, ...]) -> None:
        self.folder = folder
        self._bind = bind
        self._extra_names = extra_names

    def load(self) -> None:
        """Make what is missing and load the pair; raises CertsError, OSError or ssl.SSLError."""
        try:
            self._bring_in_order()
        except FolderError as error:
            load_pair(self.folder)  # a pair that works is good enough to start with, whatever else cannot be written
            log.warning("certificate: %s", error)
        self.serving = ServingCertificate(self.folder / "tls.crt", self.folder / "tls.key")

    def renew(self) -> None:
        """Renew what is due; what goes wrong is logged."""
        try:
            self._bring_in_order()
        except CertsError as error:
            log.error("certificate not renewed: %s", error)  # noqa: TRY400

    def _bring_in_order(self) -> None:
        names, addresses = _names(self._bind)
        dns_names = [*dict.fromkeys((*names, *self._extra_names))]
        result = ensure(self.folder, dns_names, addresses, now=datetime.now(UTC))
        for change in result.changed:
            log.info("certificate made: %s", change)
        for finding in result.warnings:
            log.warning("certificate: %s", finding)


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
