"""The commands of the cluster mode: their options, and the one line that says what was wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from admission.cli import controller as controller_command
from admission.cli import serve as serve_command
from admission.cli.main import main
from tests.cluster.plane import ControlPlane, ReservedPort
from tests.cluster.processes import Group
from tests.cluster.programs import API_SERVER
from tests.cluster.rig import Replica
from tests.standalone.server import COMMAND, eventually

Json = dict[str, Any]

URL = ("--url", "https://127.0.0.1:10250")
SERVE, CONTROLLER = ("serve",), ("controller", *URL)

bare = pytest.mark.plane(plugins=False)


# -- in this process: what is wrong before anything is connected to


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, where no API server is configured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "default"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for command in (serve_command, controller_command):  # the logging of the tests is to stay
        monkeypatch.setattr(command, "set_up", lambda _form, _level: None)
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def kubeconfig(server: str, **user: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "one", "user": user or {"token": "none"}}],
    }


NOWHERE = kubeconfig("https://127.0.0.1:1")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("controller",), "expected either --service or --url"),
        (("controller", *URL, "--service", "ns/name"), "expected either --service or --url"),
        (("controller", "--service", "name"), "--service: expected NAMESPACE/NAME[:PORT], got 'name'"),
        (("controller", "--service", "ns/name:0"), "--service: expected NAMESPACE/NAME[:PORT], got 'ns/name:0'"),
        (("controller", "--url", "http://host"), "--url: expected https://HOST[:PORT][/PATH], got http://host"),
        (("controller", "--url", "host:443"), "--url: expected https://HOST[:PORT][/PATH], got host:443"),
        (("serve", "--state", "usage.db"), "--state goes with --standalone"),
        (("serve", "--wait", "-1"), "Invalid value for '--wait': -1.0 is not in the range 0<=x<=3600."),
        (("serve", "--kubeconfig", "."), "Invalid value for '--kubeconfig': File '.' is a directory."),
        (("serve", "--url", "https://host"), "No such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.usefixtures("folder")
def test_options_that_make_no_sense_end_with_2_and_say_why(args: tuple[str, ...], problem: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert re.search(rf"^Error: {re.escape(problem)}", result.output, re.MULTILINE), result.output


KUBECONFIGS = {
    "missing.yaml": None,
    "empty.yaml": "",
    "broken.yaml": "clusters: [",
    "list.yaml": "[1, 2]",
    "no-context.yaml": yaml.safe_dump({**NOWHERE, "current-context": ""}),
    "no-key.yaml": yaml.safe_dump(kubeconfig("https://127.0.0.1:1", **{"client-certificate": "/none.crt"})),
}


@pytest.mark.parametrize("command", [SERVE, CONTROLLER], ids=lambda command: command[0])
@pytest.mark.parametrize("name", KUBECONFIGS)
def test_a_kubeconfig_that_cannot_be_used_ends_with_1_and_one_line_that_names_the_file(
    folder: Path, command: tuple[str, ...], name: str
) -> None:
    if KUBECONFIGS[name] is not None:
        (folder / name).write_text(str(KUBECONFIGS[name]))
    result = run(*command, "--kubeconfig", name)
    assert one_line(result).startswith("quota-admission: no API server is configured: ")
    assert ("/none.crt" if name == "no-key.yaml" else name) in result.output


def one_line(result: Result) -> str:
    """All that was said at a failing start."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1, result.output
    return result.output


@pytest.mark.parametrize("command", [SERVE, CONTROLLER], ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("given", "args", "problem"),
    [
        ("", ("--context", "other"), "no API server is configured: .*other"),
        ("quota: {accounting: nobody}", (), "config.yaml: quota.accounting: expected 'webhook', 'apiserver' or 'auto'"),
        ("nonsense: 1", (), "config.yaml: nonsense: "),
        ("", ("--config", "none.yaml"), "none.yaml: No such file or directory"),
    ],
    ids=["context", "value", "field", "no file"],
)
def test_what_is_wrong_at_the_start_ends_with_1_and_one_line(
    folder: Path, command: tuple[str, ...], given: str, args: tuple[str, ...], problem: str
) -> None:
    (folder / "config.yaml").write_text(given or "{}")
    (folder / "kubeconfig").write_text(yaml.safe_dump(NOWHERE))
    options = ("--kubeconfig", "kubeconfig", "--config", "config.yaml", "--wait", "0")
    assert re.match(f"quota-admission: {problem}", one_line(run(*command, *options, *args)))


def test_an_address_that_is_none_ends_with_1_and_one_line(folder: Path) -> None:
    (folder / "kubeconfig").write_text(yaml.safe_dump(NOWHERE))
    said = one_line(run(*CONTROLLER, "--kubeconfig", "kubeconfig", "--admin-bind", "nonsense"))
    assert said == "quota-admission: --admin-bind: expected HOST:PORT, got 'nonsense'\n"


@pytest.mark.usefixtures("folder")
def test_without_any_kubeconfig_that_is_said() -> None:
    for command in (SERVE, CONTROLLER):
        assert one_line(run(*command)).startswith("quota-admission: no API server is configured: ")


STABLE = {
    "serve": (
        "--kubeconfig",
        "--context",
        "--wait",
        "--config",
        "--bind",
        "--admin-bind",
        "--cert-dir",
        "--standalone",
    ),
    "controller": ("--kubeconfig", "--wait", "--config", "--admin-bind", "--service", "--url", "--ca-file"),
}


@pytest.mark.parametrize("name", STABLE)
def test_the_help_of_a_command_names_its_options_and_gives_an_example(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    command = main.get_command(click.Context(main), name)
    assert command is not None
    for option in STABLE[name]:
        assert re.search(rf"^  {option} \S+ ", result.output, re.MULTILINE), option
    assert all(one.help for one in command.params if isinstance(one, click.Option) and "log" not in (one.name or ""))
    assert re.search(rf"^  Examples?:\n    quota-admission {name} --", result.output, re.MULTILINE)


def test_the_commands_are_listed_with_what_they_do() -> None:
    listed = run("--help").output
    assert "serve " in listed
    assert "controller " in listed


# -- real processes: what is connected to


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"


def started(tmp_path: Path, command: tuple[str, ...], server: str, wait: str) -> tuple[subprocess.Popen[str], float]:
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig(server)))
    args = [str(COMMAND), *command, "--kubeconfig", str(file), "--wait", wait]
    return subprocess.Popen(args, cwd=tmp_path, stderr=subprocess.PIPE, text=True), time.monotonic()


@pytest.mark.parametrize("command", [SERVE, CONTROLLER], ids=lambda command: command[0])
@pytest.mark.parametrize("silent", [False, True], ids=["refuses connections", "never answers"])
def test_an_api_server_that_is_not_reached_within_the_wait_ends_it_with_1_and_one_line(
    tmp_path: Path, command: tuple[str, ...], silent: bool
) -> None:
    with silent_server() if silent else contextlib.nullcontext("https://127.0.0.1:1") as server:
        args = command if command == SERVE else (*command, "--admin-bind", "127.0.0.1:0")
        process, begun = started(tmp_path, args, server, "2")
        _, said = process.communicate(timeout=60)
        took = time.monotonic() - begun
    assert process.returncode == 1
    assert re.fullmatch(rf"quota-admission: the API server cannot be reached: {server} does not answer: .+\n", said), (
        said
    )
    assert 1.0 < took < 20.0


class Alone:
    """A server or a controller without a rig, by its own options."""

    def __init__(self, home: Path, options: list[str]) -> None:
        self.group = Group()
        self.replica = Replica(options[0], options, home, self.group)

    def __enter__(self) -> Replica:
        self.replica.start()
        return self.replica

    def __exit__(self, *_: object) -> None:
        self.group.kill()
        self.replica.stop(hard=True)
        self.replica.release()


@bare
def test_a_start_waits_for_an_api_server_that_comes_later(control_plane: ControlPlane, tmp_path: Path) -> None:
    pid = control_plane.processes[API_SERVER].pid
    options = ["serve", "--kubeconfig", str(control_plane.kubeconfig), "--cert-dir", "certs", "--wait", "30"]
    os.kill(pid, signal.SIGSTOP)
    resume = threading.Timer(3.0, os.kill, (pid, signal.SIGCONT))
    resume.start()
    try:
        with Alone(tmp_path, options) as server:
            server.await_ready()
            assert resume.finished.is_set()
    finally:
        resume.cancel()
        os.kill(pid, signal.SIGCONT)


@bare
def test_a_token_that_is_not_known_ends_the_start_at_once(control_plane: ControlPlane, tmp_path: Path) -> None:
    process, begun = started(tmp_path, SERVE, control_plane.server, "60")
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    refused = f"the API server {control_plane.server} refuses us: 401 Unauthorized: Unauthorized"
    assert said == f"quota-admission: {refused}\n"
    assert time.monotonic() - begun < 20


@bare
def test_the_environment_names_the_kubeconfig_where_no_option_does(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    with Alone(tmp_path, ["serve", "--cert-dir", "certs"]) as server:
        server.await_ready()
        first = json.loads(server.log_file.read_text().splitlines()[0])
    assert (first["message"], first["user"]) == ("API server reached", "admin")
    assert (tmp_path / "certs" / "ca.crt").exists()


@bare
def test_an_address_that_is_taken_ends_the_start_with_one_line(control_plane: ControlPlane, tmp_path: Path) -> None:
    taken = ReservedPort()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        for option in ("--bind", "--admin-bind"):
            other = "--admin-bind" if option == "--bind" else "--bind"
            args = ["--cert-dir", "certs", option, address, other, f"127.0.0.1:{taken.number}"]
            ended = subprocess.run(
                [str(COMMAND), "serve", "--kubeconfig", str(control_plane.kubeconfig), *args],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert ended.returncode == 1
            assert ended.stderr.splitlines()[-1] == f"quota-admission: {option} {address}: Address already in use"
            assert "Traceback" not in ended.stderr
    taken.close()


@bare
def test_a_controller_of_a_service_that_is_not_there_says_what_it_waits_for(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    namespace = "kube-public"  # the Lease and the probe are in the namespace of the Service
    options = ["controller", "--kubeconfig", str(control_plane.kubeconfig), "--service", f"{namespace}/webhook"]
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    try:
        with Alone(tmp_path, options) as controller:
            controller.await_ready()
            waits = f"not registered yet, the endpoint is not healthy: https://webhook.{namespace}.svc:443/readyz: "
            eventually(lambda: waits in controller.admin("/readyz?verbose")[1].decode(), within=30, every=0.1)
            assert controller.admin("/healthz")[0] == 200
            assert control_plane.call("GET", f"{leases}/quota-admission-controller").status == 200
            assert controller.terminate() == 0
        assert "Traceback" not in controller.log_file.read_text()
    finally:
        control_plane.call("DELETE", f"{leases}/quota-admission-controller")
        control_plane.call("DELETE", f"/api/v1/namespaces/{namespace}/resourcequotas/quota-admission-probe")
