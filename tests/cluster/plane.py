"""A real control plane: etcd, an API server, and on wish controllers and a scheduler; on loopback, in a temp folder."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.processes import Group, Process
from tests.cluster.programs import API_SERVER, CONTROLLER_MANAGER, ETCD, KUBECTL, SCHEDULER, Programs, find

Json = dict[str, Any]

START_WITHIN = 90.0  # it takes five seconds, unless the machine has much else to do
BUILT_IN_POLICIES = ("LimitRanger", "ResourceQuota")

# Nothing tends the nodes that a test makes up, so no controller shall find them dead.
ALL_CONTROLLERS = ("*", "-node-lifecycle-controller")
QUOTA_CONTROLLER = ("resourcequota-controller",)


@dataclass(frozen=True)
class Variant:
    """What a control plane is made of.

    `plugins`: the built-in LimitRanger and ResourceQuota of the API server. `controllers`: names for the controller
    manager's flag of that name, none for no controller manager.
    """

    plugins: bool = True
    controllers: tuple[str, ...] = ()
    scheduler: bool = False
    api_server_flags: tuple[str, ...] = ()
    controller_flags: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        """The names of what runs."""
        wanted = {CONTROLLER_MANAGER: bool(self.controllers), SCHEDULER: self.scheduler}
        return (ETCD, API_SERVER, *(name for name, is_wanted in wanted.items() if is_wanted))

    def runs(self, controller: str) -> bool:
        """Whether this controller runs, asked by its name in the controller manager's flag."""
        return controller in self.controllers or ("*" in self.controllers and f"-{controller}" not in self.controllers)


@dataclass(frozen=True)
class Answer:
    """What the API server answered."""

    status: int
    body: Json

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class ControlPlane:
    """A control plane, started by `start` or `with`. Nothing outlives it, nor this process."""

    def __init__(self, variant: Variant = Variant(), programs: Programs | None = None) -> None:
        self.variant = variant
        self.programs = programs or find()
        files = {name: self.programs.file(name) for name in variant.programs}
        self.home = Path(tempfile.mkdtemp(prefix="control-plane-"))
        self.token = secrets.token_hex(16)
        self._port = ReservedPort()
        self.server = f"https://127.0.0.1:{self._port.number}"
        self.kubeconfig = self.home / "admin.kubeconfig"
        self.ca_file = self.home / "apiserver" / "apiserver.crt"
        self._context: ssl.SSLContext | None = None
        self._write_keys()
        self._group = Group()
        options = {
            ETCD: self._etcd_options,
            API_SERVER: self._api_server_options,
            CONTROLLER_MANAGER: self._controller_options,
            SCHEDULER: self._scheduler_options,
        }
        self.processes = {
            name: Process(name, file, options[name](), self.home, self._group) for name, file in files.items()
        }

    # -- start and end

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start what does not run, and wait until it is ready."""
        self.processes[ETCD].start()
        self.start_apiserver()
        for name in (CONTROLLER_MANAGER, SCHEDULER):
            if name in self.processes:
                self.processes[name].start()
        if self.variant.runs("serviceaccount-controller"):
            self._await_object("/api/v1/namespaces/default/serviceaccounts/default")

    def stop(self) -> None:
        """End everything at once and remove its files."""
        self._group.kill()
        for process in self.processes.values():
            process.stop(hard=True)
        self._port.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def start_apiserver(self) -> None:
        """Start the API server if it does not run, on the same port, and wait until it is ready."""
        self.processes[API_SERVER].start()
        self.processes[API_SERVER].wait_until(self._ready, START_WITHIN)
        self._write_kubeconfig(self.kubeconfig, self.token)

    def stop_apiserver(self, *, hard: bool = False) -> None:
        """End the API server alone; with `hard` by SIGKILL."""
        self.processes[API_SERVER].stop(hard=hard)

    def restart_apiserver(self, *, hard: bool = False) -> None:
        """Have a new API server over the same data, on the same port; with `hard` the old one ends by SIGKILL."""
        self.stop_apiserver(hard=hard)
        self.start_apiserver()

    def _ready(self) -> bool:
        if not self.ca_file.exists():
            return False
        try:
            return self.call("GET", "/readyz").status == 200 and (
                self.call("GET", "/api/v1/namespaces/default").status == 200
            )
        except (OSError, http.client.HTTPException):
            return False

    # -- callers

    def call(self, method: str, path: str, body: Json | None = None, *, token: str = "") -> Answer:
        """One request to the API server, by the admin or whoever the token belongs to."""
        if self._context is None:
            self._context = ssl.create_default_context(cafile=str(self.ca_file))
        connection = http.client.HTTPSConnection("127.0.0.1", self._port.number, timeout=30, context=self._context)
        patch = "application/merge-patch+json"
        headers = {
            "Authorization": f"Bearer {token or self.token}",
            "Content-Type": patch if method == "PATCH" else "application/json",
        }
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        is_json = response.getheader("Content-Type", "").startswith("application/json")
        return Answer(response.status, json.loads(content) if is_json else {"message": content.decode()})

    def kubectl(
        self,
        *args: str,
        stdin: str | Json | None = None,
        kubeconfig: Path | None = None,
        check: bool = False,
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl, as the admin or with another kubeconfig. An object as `stdin` is written as JSON."""
        ended = subprocess.run(
            [str(KUBECTL), *args],
            input=json.dumps(stdin) if isinstance(stdin, dict) else stdin or "",
            env=self.environment(kubeconfig),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check:
            assert ended.returncode == 0, f"kubectl {' '.join(args)}: {ended.stderr or ended.stdout}"
        return ended

    def environment(self, kubeconfig: Path | None = None) -> Mapping[str, str]:
        """An environment in which kubectl and other clients find this cluster, and leave nothing behind."""
        return {
            **os.environ,
            "KUBECONFIG": str(kubeconfig or self.kubeconfig),
            "KUBECACHEDIR": str(self.home / "kubectl-cache"),
            "KUBECTL_KUBERC": "false",
        }

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """A namespace, and its default service account."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}
        answer = self.call("POST", "/api/v1/namespaces", body)
        assert answer.status == 201, answer.message
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        if self.variant.runs("serviceaccount-controller"):
            self._await_object(f"{accounts}/default")
        else:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            answer = self.call("POST", accounts, account)
            assert answer.status == 201, answer.message

    def delete_namespace(self, name: str) -> None:
        """Have the controllers remove a namespace; nobody waits for that."""
        path = f"/api/v1/namespaces/{name}"
        self.call("DELETE", path)
        self.call("DELETE", f"{path}/pods?gracePeriodSeconds=0")  # no kubelet says that they have ended

    def _await_object(self, path: str) -> None:
        """Wait for what a controller makes."""
        controllers = self.processes[CONTROLLER_MANAGER]
        controllers.wait_until(lambda: self.call("GET", path).status == 200, START_WITHIN)

    def service_account_token(self, namespace: str, name: str = "default", seconds: int = 3600) -> str:
        """A token of an existing service account, from the TokenRequest API."""
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        answer = self.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", asked)
        assert answer.status == 201, answer.message
        return str(answer.body["status"]["token"])

    def service_account_kubeconfig(self, namespace: str, name: str = "default", seconds: int = 3600) -> Path:
        """A kubeconfig file with which clients are an existing service account."""
        path = self.home / f"{namespace}.{name}.kubeconfig"
        self._write_kubeconfig(path, self.service_account_token(namespace, name, seconds), namespace)
        return path

    def add_node(self, name: str, **capacity: str) -> None:
        """A node that nobody is on: the scheduler places pods there, and they never start."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        room = {"cpu": "4", "memory": "8Gi", "pods": "110", **capacity}
        status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        for method, path, body in (
            ("POST", "/api/v1/nodes", node),
            ("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}),
            ("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}),  # every new node gets one: not ready
        ):
            answer = self.call(method, path, body)
            assert answer.status in (200, 201), answer.message

    def _write_kubeconfig(self, path: Path, token: str, namespace: str = "default") -> None:
        name = "tests"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
            "clusters": [
                {"name": name, "cluster": {"server": self.server, "certificate-authority": str(self.ca_file)}}
            ],
            "users": [{"name": name, "user": {"token": token}}],
        }
        draft = path.with_name(f"{path.name}.new")
        draft.touch(mode=0o600)
        draft.write_text(yaml.safe_dump(config))
        draft.replace(path)

    # -- the programs' files and flags; they run in `home`, so short names do

    def _write_keys(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self.home / "accounts.key").write_bytes(private)
        (self.home / "accounts.pub").write_bytes(public)
        (self.home / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')

    def _etcd_options(self) -> list[str]:
        advertised = "http://127.0.0.1:2380"  # has to be a port, but nobody listens there: sockets serve
        return [
            "--name=only",
            "--data-dir=etcd",
            "--listen-client-urls=unix://etcd.sock",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=unix://peer.sock",
            f"--initial-advertise-peer-urls={advertised}",
            f"--initial-cluster=only={advertised}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_server_options(self) -> list[str]:
        disabled = [] if self.variant.plugins else list(BUILT_IN_POLICIES)
        if not self.variant.runs("serviceaccount-controller"):
            disabled.append("ServiceAccount")
        return [
            "--etcd-servers=unix://etcd.sock",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._port.number}",
            "--cert-dir=apiserver",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=accounts.pub",
            "--service-account-signing-key-file=accounts.key",
            f"--disable-admission-plugins={','.join(disabled)}",
            "--allow-privileged",
            *self.variant.api_server_flags,
        ]

    def _controller_options(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(self.variant.controllers)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--service-account-private-key-file=accounts.key",
            f"--root-ca-file={self.ca_file}",
            *self.variant.controller_flags,
        ]

    def _scheduler_options(self) -> list[str]:
        return [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0"]


class ReservedPort:
    """A port that nobody else is given while the server is down: on Linux a bound socket does not hinder it."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])
        if sys.platform != "linux":
            self._socket.close()

    def close(self) -> None:
        self._socket.close()
