"""The setups that are compared: a control plane each, and what stands beside it, ready to be put under load."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.processes import free_port
from bench.programs import Program
from certs import ensure
from tests.cluster import rig
from tests.cluster.plane import QUOTA_CONTROLLER, ControlPlane, Variant
from tests.cluster.processes import Group

Json = dict[str, Any]

SERVER, CONTROLLER, ALLOWED = "server", "controller", "allowed"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
WITHIN = 60.0

# What a controller manager has without flags; the test bed gives it more.
AS_SHIPPED = ("--kube-api-qps=20", "--kube-api-burst=30")


@dataclass(frozen=True)
class Setup:
    """`accounting`: that of our server and controller, `allowed` for the webhook that decides nothing, or none."""

    name: str
    plane: Variant
    accounting: str = ""

    @property
    def counts(self) -> bool:
        """Whether somebody counts what quotas allow."""
        return self.plane.plugins or self.accounting in ("webhook", "apiserver")


BARE = Setup("bare", Variant(plugins=False))
BUILT_IN = Setup("built-in", Variant(controllers=QUOTA_CONTROLLER, controller_flags=AS_SHIPPED))
SETUPS = (
    BARE,
    BUILT_IN,
    Setup("allowed", Variant(plugins=False), ALLOWED),
    Setup("ours-webhook", Variant(plugins=False), "webhook"),
    Setup("ours-apiserver", BUILT_IN.plane, "apiserver"),
)


class Stage:
    """A setup: its control plane runs from `with` on, the rest from `start` on. Nothing outlives this process."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.plane = ControlPlane(setup.plane)
        self._group = Group()
        self.programs: dict[str, Program] = {}
        self.port = free_port()

    def __enter__(self) -> Self:
        try:
            self.plane.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start what the setup has beside the control plane."""
        if self.setup.accounting == ALLOWED:
            self.start_allowed()
        elif self.setup.accounting:
            self.start_server()
            self.start_controller()

    def stop(self) -> None:
        """End everything at once."""
        self._group.kill()
        for program in self.programs.values():
            program.stop(hard=True)
        self.plane.stop()

    def pids(self) -> dict[str, int]:
        """Program -> the process it was started as."""
        running = {**self.plane.processes, **self.programs}
        return {name: process.pid for name, process in running.items()}

    # -- what stands beside the control plane

    def start_server(self) -> float:
        """Our server; seconds until it is ready."""
        self._make_certificate()
        options = ["--bind", f"127.0.0.1:{self.port}", "--cert-dir", str(self._certs), "--log-level", "warning"]
        return self._add(
            SERVER, ["admission.cli", "serve", *self._cluster_options(rig.SERVER), *options]
        ).start_and_wait()

    def start_controller(self) -> float:
        """Our controller; seconds until what it registers is in force."""
        begin = time.monotonic()
        options = ["--url", f"https://127.0.0.1:{self.port}", "--ca-file", str(self._certs / "ca.crt")]
        options += ["--log-level", "warning"]
        program = self._add(
            CONTROLLER, ["admission.cli", "controller", *self._cluster_options(rig.CONTROLLER), *options]
        )
        program.start_and_wait()
        program.wait_until(self._is_registered, WITHIN)
        return time.monotonic() - begin

    def start_allowed(self) -> None:
        """The webhook that decides nothing, called for pods that are created."""
        self._make_certificate()
        options = ["--bind", f"127.0.0.1:{self.port}", "--cert-dir", str(self._certs)]
        self._add(ALLOWED, ["bench.allowed", *options]).start_and_wait()
        authority = base64.b64encode((self._certs / "ca.crt").read_bytes()).decode()
        for kind, stage in (("Mutating", "mutate"), ("Validating", "validate")):
            configuration = _configuration(kind, f"https://127.0.0.1:{self.port}/{stage}", authority)
            self.create(f"{CONFIGURATIONS}/{kind.lower()}webhookconfigurations", configuration)

    @property
    def _certs(self) -> Path:
        return self.plane.home / "webhook-certs"

    def _make_certificate(self) -> None:
        ensure(self._certs, ["localhost"], ["127.0.0.1"], now=datetime.now(UTC))

    def _cluster_options(self, account: str) -> list[str]:
        """Those of an account of its own, with no more rights than it is to have."""
        for manifest in sorted(rig.MANIFESTS.glob("*.yaml")):
            self.plane.kubectl("apply", "-f", str(manifest), check=True)
        config = self.plane.home / "config.yaml"
        config.write_text(f"quota: {{accounting: {self.setup.accounting}}}\n")
        kubeconfig = self.plane.service_account_kubeconfig(rig.NAMESPACE, account)
        return ["--kubeconfig", str(kubeconfig), "--config", str(config)]

    def _add(self, name: str, arguments: list[str]) -> Program:
        """A program, known by a name; a later one of that name takes its place."""
        program = self.programs[name] = Program(name, arguments, self.plane.home, self._group)
        return program

    def _is_registered(self) -> bool:
        kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        return all(self.plane.call("GET", f"{CONFIGURATIONS}/{kind}/quota-admission").status == 200 for kind in kinds)

    # -- objects

    def create(self, path: str, body: Json) -> None:
        """Create an object as the admin."""
        answer = self.plane.call("POST", path, body)
        if answer.status != 201:
            raise SystemExit(f"{self.setup.name}: {path}: {answer.status} {answer.message}")

    def create_namespaces(self, names: list[str], policies: Callable[[str], list[Json]]) -> None:
        """Namespaces and their policies; ends when what counts has taken note of all quotas."""
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda name: self._create_namespace(name, policies(name)), names))
        if self.setup.counts:
            self._wait(lambda: all("hard" in quota["status"] for quota in self._quotas(names)), "hard in each status")

    def used_pods(self, names: list[str]) -> int:
        """The pods that the quotas of these namespaces count."""
        return sum(int(quota["status"].get("used", {}).get("pods", "0")) for quota in self._quotas(names))

    def delete_pods(self, names: list[str]) -> None:
        """Delete all pods of these namespaces."""
        paths = [f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0" for name in names]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda path: self.plane.call("DELETE", path), paths))

    def _create_namespace(self, name: str, policies: list[Json]) -> None:
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for policy in policies:
            self.create(f"/api/v1/namespaces/{name}/{policy['kind'].lower()}s", policy)

    def _quotas(self, names: list[str]) -> list[Json]:
        items: list[Json] = self.plane.call("GET", "/api/v1/resourcequotas").body["items"]
        return [item for item in items if item["metadata"]["namespace"] in names]

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + WITHIN
        while not done():
            if time.monotonic() > give_up:
                raise SystemExit(f"{self.setup.name}: no {what} within {WITHIN:.0f} s")
            time.sleep(0.1)


def _configuration(kind: str, url: str, authority: str) -> Json:
    webhook = {
        "name": "allowed.bench.example",
        "clientConfig": {"url": url, "caBundle": authority},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "allowed"},
        "webhooks": [webhook],
    }
    return json.loads(json.dumps(document))  # type: ignore[no-any-return]
