"""What several commands share: options of the cluster, listening, the end with one line."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from admission.cluster.transport import Transport, connect
from admission.web.server import listen

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ClusterOptions:
    """Which API server, and how many seconds it may take to be reached."""

    kubeconfig: Path | None
    context: str | None
    wait: float

    def connect(self) -> Transport:
        """A transport of one's own; raises ClusterError where no API server is configured."""
        return connect(self.kubeconfig, self.context)


def cluster_options(command: F) -> F:
    """Adds the options of the cluster to a command."""
    options = [
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="How to reach the API server.  [default: the pod's own account, else the usual kubeconfig]",
        ),
        click.option("--context", metavar="NAME", help="The context in it.  [default: its current one]"),
        click.option(
            "--wait",
            metavar="SECONDS",
            type=click.FloatRange(0, 3600),
            default=60.0,
            show_default=True,
            help="How long the API server may take to answer at the start.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def listen_at(option: str, address: str) -> socket.socket:
    """A listening socket; ends the command where the address cannot be had."""
    try:
        return listen(address)
    except ValueError as error:
        fail(f"{option}: {error}")
    except OSError as error:
        # Errors of name resolution have numbers of their own, below zero.
        number = error.errno or 0
        fail(f"{option} {address}: {os.strerror(number) if number > 0 else error.strerror or error}")


def fail(line: str) -> NoReturn:
    """End with one line on standard error."""
    click.echo(f"quota-admission: {' '.join(line.split())}", err=True)
    sys.exit(1)
