"""A real server for tests: its own process, folder, ports, certificates and state file."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families

from tests.standalone.folders import temporary_folder
from tests.standalone.manifests import Json, create, fresh_uid, pod

COMMAND = Path(sysconfig.get_path("scripts")) / "quota-admission"
START_WITHIN = 30.0
STOP_WITHIN = 30.0

_restarts = itertools.count()


@dataclass(frozen=True)
class Reply:
    """What a call was answered with."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ServerProcess:
    """`quota-admission serve --standalone`, waited for until it is ready.

    `policies` are the texts of files by name, or a folder. `state` is True for a state file of its own, False for none,
    or a path. `config` is the text of a configuration file, or its path.
    """

    def __init__(
        self,
        policies: Mapping[str, str] | Path,
        *,
        state: bool | Path = True,
        config: str | Path | None = None,
        options: Sequence[str] = (),
        start: bool = True,
    ) -> None:
        self.home = temporary_folder()
        self.folder = policies if isinstance(policies, Path) else self.home / "policies"
        self.cert_dir = self.home / "certs"
        self.state_file = self.home / "usage.db" if state is True else state or None
        self.config_file = config if isinstance(config, Path) else None
        self.log_file = self.home / "log"
        self.options = list(options)
        self.process: subprocess.Popen[bytes] | None = None
        self._reserved: list[socket.socket] = []
        self._threads = threading.local()
        self._opened: list[http.client.HTTPConnection] = []
        try:
            if not isinstance(policies, Path):
                self.folder.mkdir()
                for name, text in policies.items():
                    self.write(name, text)
            if isinstance(config, str):
                self.config_file = self.home / "config.yaml"
                self.config_file.write_text(config)
            self.port, self.admin_port = self._reserve_port(), self._reserve_port()
            if start:
                self.start()
        except BaseException:
            self.close()
            raise

    # -- the process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        log = self.log()
        self.close()
        if kind is None:
            assert "Traceback" not in log, log
        elif error is not None:
            error.add_note(f"the end of the server's log:\n{log[-3000:]}")

    def arguments(self) -> list[str]:
        made = [str(COMMAND), "serve", "--standalone", str(self.folder), "--cert-dir", str(self.cert_dir)]
        made += ["--bind", f"127.0.0.1:{self.port}", "--admin-bind", f"127.0.0.1:{self.admin_port}"]
        if self.state_file:
            made += ["--state", str(self.state_file)]
        if self.config_file:
            made += ["--config", str(self.config_file)]
        return made + self.options

    def spawn(self) -> None:
        """Start, and do not wait."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.arguments(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                start_new_session=True,
            )
        self._generation = next(_restarts)

    def start(self) -> None:
        """Start, and wait until it is ready."""
        self.spawn()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        assert self.process is not None
        give_up = time.monotonic() + START_WITHIN
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.admin("/readyz").status == 200:
                    return
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log()}")
            if time.monotonic() > give_up:
                raise AssertionError(f"the server was not ready in time:\n{self.log()}")
            time.sleep(0.02)

    def stop(self, with_signal: int = signal.SIGTERM, *, leave_connections: bool = False) -> int:
        """Ask the server to end; its exit code. It lingers for a moment for the sake of connections that are kept."""
        assert self.process is not None
        if not leave_connections:
            self.connection().close()
        self.process.send_signal(with_signal)
        return self.process.wait(STOP_WITHIN)

    def kill9(self) -> None:
        """Kill the main process, and only that."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Stop if it runs, and start on the same ports with the same files."""
        if self.process is not None and self.process.poll() is None:
            self.stop()
        self.start()

    def worker_pids(self) -> list[int]:
        """The children of the main process."""
        assert self.process is not None
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        pairs = [tuple(map(int, line.split())) for line in listed]
        return [child for child, parent in pairs if parent == self.process.pid]

    def close(self) -> None:
        """End everything that was started, at once, and remove its files."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for reserved in self._reserved:
            reserved.close()
        for connection in self._opened:
            connection.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def _reserve_port(self) -> int:
        """A port that nobody else is given while the server is down: on Linux a bound socket does not hinder it."""
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = int(reserved.getsockname()[1])
        if sys.platform == "linux":
            self._reserved.append(reserved)
        else:
            reserved.close()
        return port

    # -- its files

    def write(self, name: str, text: str | bytes) -> None:
        """Put a file of policies in place, at once, as editors and volumes do."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.new")
        draft.write_bytes(text if isinstance(text, bytes) else text.encode())
        draft.replace(path)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    def log(self) -> str:
        """Everything it has written to standard output and error."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_lines(self) -> list[Json]:
        """The lines of the log, decoded."""
        return [json.loads(line) for line in self.log().splitlines()]

    # -- calls; each thread has its own connections, kept alive

    def client_context(self) -> ssl.SSLContext:
        """Trusts the server's own CA, and nothing else."""
        context = ssl.create_default_context(cafile=str(self.cert_dir / "ca.crt"))
        context.set_alpn_protocols(["http/1.1"])
        return context

    def new_connection(self, timeout: float = 30.0) -> http.client.HTTPSConnection:
        return _Connection("127.0.0.1", self.port, timeout=timeout, context=self.client_context())

    def tls_socket(self, timeout: float = 30.0) -> ssl.SSLSocket:
        """A connection to speak HTTP on by hand."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        try:
            return self.client_context().wrap_socket(plain, server_hostname="127.0.0.1")
        except BaseException:
            plain.close()
            raise

    def connection(self) -> http.client.HTTPConnection:
        """This thread's connection to the webhook port; a new one after each start."""
        return self._own("webhook", self.new_connection)

    def _own(self, name: str, make: Callable[[], http.client.HTTPConnection]) -> http.client.HTTPConnection:
        key = (name, self._generation)
        if getattr(self._threads, name, (None, None))[0] != key:
            made = make()
            self._opened.append(made)
            setattr(self._threads, name, (key, made))
        return getattr(self._threads, name)[1]  # type: ignore[no-any-return]

    def call(
        self,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One call to the webhook port. Never tried twice: a lost answer is an error."""
        return _exchange(
            self.connection(), method, path, body, {"Content-Type": "application/json"} if headers is None else headers
        )

    def admin(self, path: str, method: str = "GET") -> Reply:
        """One call to the admin port."""
        connection = self._own("plain", lambda: http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=30))
        return _exchange(connection, method, path, None, {})

    def review(self, path: str, review: Json) -> tuple[int, Any]:
        """HTTP status, and the answer: the decoded `response`, or a text where the call was bad."""
        reply = self.call(f"{path}?timeout=10s", json.dumps(review).encode())
        if reply.status != 200:
            return reply.status, reply.text
        answer = reply.json
        assert answer["apiVersion"] == review["apiVersion"]
        assert answer["kind"] == "AdmissionReview"
        assert answer["response"]["uid"] == review["request"]["uid"]
        return 200, answer["response"]

    def validate(self, review: Json) -> str:
        """`admitted`, or the text of the refusal."""
        status, answer = self.review("/validate", review)
        assert status == 200, answer
        return "admitted" if answer["allowed"] else answer["status"]["message"]

    def create_pod(self, ns: str = "ns", *, uid: str = "", **parts: Any) -> str:
        """Have a pod admitted; `admitted`, or the text of the refusal."""
        uid = uid or fresh_uid("pod")
        return self.validate(create(pod(uid, ns=ns, uid=uid, **parts)))

    def usage(self, ns: str = "ns") -> dict[str, dict[str, str]]:
        """Quota name -> what is used of it."""
        return {name: quota["used"] for name, quota in self.quotas(ns).items()}

    def quotas(self, ns: str = "ns") -> Json:
        """Quota name -> `hard` and `used`."""
        found = self.admin(f"/usage.json?namespace={ns}").json["namespaces"]
        return found.get(ns, {}).get("resourceQuotas", {})  # type: ignore[no-any-return]

    def readyz(self) -> tuple[int, str]:
        """Status and text of the long report."""
        reply = self.admin("/readyz?verbose")
        return reply.status, reply.text

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name with these labels."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.admin("/metrics").text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def errors(self) -> float:
        """How many calls ended in an error of the server's own."""
        return self.metric("quota_admission_reviews_total", outcome="error")


class _Connection(http.client.HTTPSConnection):
    """A connection that leaves nothing open where the server is killed while it is made."""

    def connect(self) -> None:
        try:
            super().connect()
        except OSError as error:
            # The ssl module forgets the socket it was about to make where the peer resets at that very moment.
            for frame, _ in traceback.walk_tb(error.__traceback__):
                half_made = frame.f_locals.get("self")
                if isinstance(half_made, ssl.SSLSocket):
                    half_made.close()
            raise


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | Iterator[bytes] | None,
    headers: Mapping[str, str],
) -> Reply:
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())
    except BaseException:
        connection.close()
        raise


def eventually(look: Callable[[], Any], *, within: float = 10.0, every: float = 0.02) -> Any:
    """What `look` gives as soon as it is true; fails with the last thing it gave."""
    give_up = time.monotonic() + within
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {within} s; last seen: {found!r}")
        time.sleep(every)


@contextlib.contextmanager
def free_thread_pool(count: int, work: Callable[[int], None]) -> Iterator[None]:
    """Run `work(0)`, `work(1)`, ... in threads of their own while the block runs; raises what they raise."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # handed to the caller
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(60)
    if errors:
        raise errors[0]
