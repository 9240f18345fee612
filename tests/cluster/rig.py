"""Everything of ours around a control plane: servers behind a balancer, controllers, accounts and certificates."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

import certs
from tests.cluster import balancer, webhooks
from tests.cluster.plane import ControlPlane, ReservedPort
from tests.cluster.processes import Group, Process, StartError
from tests.standalone.server import COMMAND

Json = dict[str, Any]

MANIFESTS = Path(__file__).parents[2] / "charts" / "quota-admission" / "manifests"
NAMESPACE = "quota-admission"
SERVER, CONTROLLER = "quota-admission-server", "quota-admission-controller"
READY_WITHIN = 60.0
REGISTERED_WITHIN = 60.0
LINE_SHOWN = 500
REFUSED = '"message":"denied"'
PROBE = "rig-probe"
JUDGED = "denied the request: exceeded quota: probe"


@dataclass(frozen=True)
class Setup:
    """What runs: so many of each, with this text of a configuration file."""

    servers: int = 1
    controllers: int = 0
    config: str = ""


class Replica(Process):
    """A server or a controller: a process that can be killed, asked to end, and started again on the same ports."""

    def __init__(self, name: str, options: list[str], home: Path, group: Group) -> None:
        self._admin, self._webhook = ReservedPort(), ReservedPort()
        self.admin_port, self.port = self._admin.number, self._webhook.number
        options = [*options, "--admin-bind", f"127.0.0.1:{self.admin_port}"]
        if options[0] == "serve":
            options += ["--bind", f"127.0.0.1:{self.port}"]
        super().__init__(name, COMMAND, options, home, group)

    def admin(self, path: str, timeout: float = 10.0) -> tuple[int, bytes]:
        """Status and body of one call to the admin port."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def usage(self, namespace: str) -> Json:
        """What a server shows of the policies of a namespace."""
        status, body = self.admin(f"/usage.json?namespace={namespace}")
        assert status == 200, body
        return orjson.loads(body)["namespaces"].get(namespace, {})  # type: ignore[no-any-return]

    def is_ready(self) -> bool:
        """Whether it says that it is ready; False where it does not answer."""
        try:
            return self.admin("/readyz", timeout=5.0)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def await_ready(self, within: float = READY_WITHIN) -> None:
        """Wait until it is ready; fails with the end of its log."""
        self.wait_until(self.is_ready, within)

    def kill(self) -> None:
        """End its main process by SIGKILL."""
        self.stop(hard=True)

    def terminate(self, within: float = 60.0) -> int | None:
        """Ask it to end; its exit code, None where it took too long and was killed."""
        assert self._running is not None
        self._running.send_signal(signal.SIGTERM)
        try:
            return self._running.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def release(self) -> None:
        """Give its ports back."""
        self._admin.close()
        self._webhook.close()


class Balancing:
    """The balancer process in front of the servers."""

    def __init__(self, backends: list[int], home: Path, group: Group) -> None:
        self._port = ReservedPort()
        self.port = self._port.number
        with (home / "balancer.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", balancer.__file__, "--listen", str(self.port), *map(str, backends)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=group.number,
            )
        self._answered()

    def take_out(self, replica: Replica) -> None:
        """No new connections for it, as when it leaves the endpoints of a Service."""
        self._command(f"off {replica.port}")

    def put_back(self, replica: Replica) -> None:
        """New connections for it again."""
        self._command(f"on {replica.port}")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._port.close()

    def _command(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        self._answered()

    def _answered(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the balancer has ended"


class Rig:
    """Started by `start` or `with`; nothing outlives it, and its webhooks are gone after it."""

    def __init__(self, plane: ControlPlane, setup: Setup = Setup(), *, token_seconds: int = 3600) -> None:
        self.plane, self.setup = plane, setup
        self.home = Path(tempfile.mkdtemp(prefix="rig-"))
        self.cert_dir = self.home / "certs"
        self.ca_file = self.cert_dir / "ca.crt"
        self._token_seconds = token_seconds
        self._group = Group()
        self.balancer: Balancing | None = None
        self.servers: list[Replica] = []
        self.controllers: list[Replica] = []

    @property
    def url(self) -> str:
        """Where the API server finds the servers."""
        assert self.balancer is not None
        return f"https://127.0.0.1:{self.balancer.port}"

    # -- start and end

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException as error:
            error.add_note(self.logs())
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.logs())
        self.stop()

    def start(self) -> None:
        """Start everything, and wait until it is ready and, where there are controllers, registered."""
        self._apply_manifests()
        certs.ensure(self.cert_dir, ["localhost"], ["127.0.0.1", "::1"], now=datetime.now(UTC))
        options = self._common_options()
        serving = ["serve", *options[SERVER], "--cert-dir", str(self.cert_dir)]
        self.servers = [self._replica(f"server-{n}", serving) for n in range(self.setup.servers)]
        self.balancer = Balancing([one.port for one in self.servers], self.home, self._group)
        controlling = ["controller", *options[CONTROLLER], "--url", self.url, "--ca-file", str(self.ca_file)]
        self.controllers = [self._replica(f"controller-{n}", controlling) for n in range(self.setup.controllers)]
        for replica in self.servers + self.controllers:
            replica.start()
        for replica in self.servers:
            replica.await_ready()
        if self.controllers:
            self.await_registered()

    def stop(self) -> None:
        """End everything at once, take the webhooks away, and remove the files."""
        self._group.kill()
        for replica in self.servers + self.controllers:
            replica.stop(hard=True)
            replica.release()
        if self.balancer is not None:
            self.balancer.close()
        self._clean()
        shutil.rmtree(self.home, ignore_errors=True)

    def _clean(self) -> None:
        """What would hinder the next one on this control plane."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            for path in webhooks.PATHS.values():
                self.plane.call("DELETE", f"{path}/{webhooks.NAME}")
            self.plane.call("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")
            self.plane.call("DELETE", f"/api/v1/namespaces/{PROBE}/resourcequotas")

    def _replica(self, name: str, options: list[str]) -> Replica:
        return Replica(name, options, self.home, self._group)

    def _apply_manifests(self) -> None:
        for manifest in sorted(MANIFESTS.glob("*.yaml")):
            self.plane.kubectl("apply", "-f", str(manifest), check=True)

    def _common_options(self) -> dict[str, list[str]]:
        """By account: who it is, and what it is told."""
        told: list[str] = []
        if self.setup.config:
            file = self.home / "config.yaml"
            file.write_text(self.setup.config)
            told = ["--config", str(file)]
        found = {}
        for account in (SERVER, CONTROLLER):
            kubeconfig = self.plane.service_account_kubeconfig(NAMESPACE, account, self._token_seconds)
            found[account] = ["--kubeconfig", str(kubeconfig), *told]
        return found

    # -- registration

    def register(self) -> None:
        """Register the servers by hand, and wait until the API server asks them."""
        for body in webhooks.registrations(self.url, self.ca_file):
            answer = self.plane.call("POST", webhooks.PATHS[body["kind"]], body)
            assert answer.status == 201, answer.message
        self.await_registered()

    def await_registered(self, within: float = REGISTERED_WITHIN) -> None:
        """Wait until both webhooks are registered, and a pod for which there is no room is really refused by us."""
        self._make_probe()
        give_up = time.monotonic() + within
        while (missing := self._not_registered()) is not None:
            for replica in self.servers + self.controllers:
                if not replica.runs():
                    raise StartError(f"{replica.name} has ended:\n{replica.log_end()}")
            if time.monotonic() > give_up:
                raise StartError(f"not registered within {within} s: {missing}\n{self.logs()}")
            time.sleep(0.1)

    def _make_probe(self) -> None:
        """A namespace whose quota allows no pods; where no controller writes its status, that is done here."""
        self.plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": PROBE}})
        quotas = f"/api/v1/namespaces/{PROBE}/resourcequotas"
        self.plane.call("POST", quotas, {"metadata": {"name": "probe"}, "spec": {"hard": {"pods": "0"}}})
        if not self.controllers:
            status = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
            answer = self.plane.call("PATCH", f"{quotas}/probe/status", {"status": status})
            assert answer.status == 200, answer.message

    def _not_registered(self) -> str | None:
        """What is not yet as it shall be; None where all is."""
        for kind, path in webhooks.PATHS.items():
            if self.plane.call("GET", f"{path}/{webhooks.NAME}").status != 200:
                return f"there is no {kind}"
        pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
        answer = self.plane.call("POST", f"/api/v1/namespaces/{PROBE}/pods?dryRun=All", pod)
        return None if JUDGED in answer.message else f"a pod without room: {answer.status} {answer.message}"

    # -- what they say

    def logs(self, lines: int = 15) -> str:
        """The end of each log, without the lines that only say that a request was refused."""
        parts = []
        for file in sorted(self.home.glob("*.log")):
            listed = file.read_text(errors="replace").splitlines()
            end = [line[:LINE_SHOWN] for line in listed if REFUSED not in line][-lines:]
            parts.append("\n  ".join([f"the end of {file.name}:", *end]))
        return "\n".join(parts)
