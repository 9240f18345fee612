"""What is wrong at the start: exit code, one line that names it, never a traceback."""

import json
import os
import re
import socket
import sqlite3
import subprocess
import sys

import pytest

from admission.ledger import Identity
from admission.quota.observed import Observed
from admission.standalone.state import FileState, Row
from tests.standalone.manifests import file_of, limit_range, pod, quota
from tests.standalone.server import COMMAND, ServerProcess

GOOD = file_of(quota("q", "pods=1"))
HEAD = "apiVersion: v1\nkind: "


PROGRAM = """
import json, os, signal, sys
from admission.cli.main import main
import admission.cli.serve
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os.chdir(asked["folder"])
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        main(asked["arguments"], prog_name="quota-admission")
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Starter:
    """Starts the command in processes of their own that need not read its modules again: there are many to start."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, folder, *arguments):
        """Exit code and standard error."""
        asked = {"folder": str(folder), "arguments": arguments}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert (folder / "stdout").read_text() == ""
        return code, (folder / "stderr").read_text()

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def starter():
    made = Starter()
    yield made
    made.close()


def lines_of(text):
    """The lines that are not ordinary log lines."""
    assert "Traceback" not in text, text
    return [line for line in text.splitlines() if not is_ordinary(line)]


def is_ordinary(line):
    try:
        return json.loads(line)["level"] in ("info", "warning")
    except (ValueError, TypeError, KeyError):
        return False


@pytest.fixture
def free_ports():
    """Ports that nobody listens on; the sockets keep others from taking them."""
    held = []
    for _ in range(2):
        held.append(socket.socket())
        held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held[-1].bind(("127.0.0.1", 0))
    if sys.platform != "linux":
        for each in held:
            each.close()
    yield [each.getsockname()[1] for each in held]
    for each in held:
        each.close()


@pytest.fixture
def home(tmp_path, free_ports):
    """A folder in which everything is in order, until a test spoils it."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "team.yaml").write_text(GOOD)
    return tmp_path


@pytest.fixture
def binds(free_ports):
    return ["--bind", f"127.0.0.1:{free_ports[0]}", "--admin-bind", f"127.0.0.1:{free_ports[1]}"]


@pytest.fixture
def start(starter, home, binds):
    """Start a server that ends by itself; its exit code, and the lines that say why."""

    def start(*options, folder="policies"):
        code, text = starter.start(home, "serve", "--standalone", folder, *binds, *options)
        return code, lines_of(text)

    return start


FILES = [
    ("broken YAML", "a: [", r"team\.yaml, line 2, column 1: "),
    ("not UTF-8", b"a: \xff", r"team\.yaml: expected UTF-8, got byte 0xff at 3"),
    (
        "bad amount in a quota",
        file_of(quota("q", "pods=many")),
        r'team\.yaml, document 1 \(ResourceQuota ns/q\): spec\.hard\.pods: expected a quantity.*got "many"',
    ),
    (
        "unknown field in a LimitRange",
        file_of(limit_range("l", maximum="cpu=1")),
        r"team\.yaml, document 1 \(LimitRange ns/l\): spec\.limits\[0\]\.maximum: is not a known field",
    ),
    (
        "no name",
        f"{HEAD}ResourceQuota\nmetadata: {{namespace: ns}}\nspec: {{hard: {{pods: 1}}}}",
        r"team\.yaml, document 1 \(ResourceQuota ns\): metadata\.name: is required",
    ),
    (
        "an object twice",
        file_of(pod("p"), pod("p")),
        r"team\.yaml, document 2: .*ns/p.* twice, first in team\.yaml, document 1",
    ),
    (
        "a bad time",
        file_of(pod("p", metadata={"deletionTimestamp": "soon", "deletionGracePeriodSeconds": 1})),
        r"team\.yaml, document 1 \(Pod ns/p\): metadata\.deletionTimestamp",
    ),
]


@pytest.mark.parametrize(("text", "said"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_a_file_that_cannot_be_used_stops_the_server(home, start, text, said):
    (home / "policies" / "team.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    expect_one_line(start(), said)


def expect_one_line(ended, said):
    code, lines = ended
    assert code == 1, lines
    assert len(lines) == 1, lines
    assert lines[0].startswith("quota-admission: ")
    assert re.search(said, lines[0]), lines[0]


def test_a_file_of_another_folder_is_named_by_its_path(home, start):
    (home / "policies" / "deep" / "er").mkdir(parents=True)
    (home / "policies" / "deep" / "er" / "x.yml").write_text("kind: [")
    expect_one_line(start(), r"deep/er/x\.yml, line 2")


@pytest.mark.parametrize(
    ("folder", "said"),
    [("nowhere", "nowhere: expected a folder"), ("policies/team.yaml", "policies/team.yaml: expected a folder")],
)
def test_a_folder_that_is_none_stops_the_server(home, start, folder, said):
    expect_one_line(start(folder=folder), said)


def test_a_file_that_cannot_be_read_stops_the_server(home, start):
    path = home / "policies" / "locked.yaml"
    path.write_text(GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):  # who may read everything finds a file that leads to itself
        path.unlink()
        path.symlink_to("locked.yaml")
    expect_one_line(start(), r"locked\.yaml: \w+")


def make_text(path):
    path.write_text("this is no database\n" * 100)


def make_bad_row(path):
    state = FileState(path)
    assert state.write(Row(Identity("ns", "pods", "p", "u"), Observed({}), None)).wait(10)
    state.close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE objects SET observed = 'nonsense'")
    raw.close()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [(make_text, r"usage\.db: expected a state file"), (make_bad_row, r"usage\.db: cannot be read")],
    ids=["text", "a bad row"],
)
def test_a_state_file_that_is_none_stops_the_server(home, start, spoil, said):
    spoil(home / "usage.db")
    expect_one_line(start("--state", "usage.db"), said)


def test_a_state_file_in_no_folder_stops_the_server(home, start):
    expect_one_line(start("--state", "no/usage.db"), r"no/usage\.db: No such file or directory")


def test_a_state_file_that_another_server_uses_stops_the_server(home, start):
    with ServerProcess({"a.yaml": GOOD}) as other:
        ended = start("--state", str(other.state_file))
        expect_one_line(ended, r"usage\.db: another process uses this state file")
        assert other.create_pod() == "admitted"


@pytest.mark.parametrize("option", ["--bind", "--admin-bind"])
def test_a_port_that_is_taken_stops_the_server(home, start, option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        expect_one_line(start(option, address), rf"{option} {address}: Address already in use")


def test_one_port_for_both_stops_the_server(start, free_ports):
    address = f"127.0.0.1:{free_ports[0]}"
    expect_one_line(start("--bind", address, "--admin-bind", address), "bind .*Address already in use|same")


@pytest.mark.parametrize("option", ["--bind", "--admin-bind"])
@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", ""])
def test_an_address_that_is_none_stops_the_server(home, start, option, address):
    code, lines = start(option, address)
    assert code in (1, 2), lines
    assert lines[-1].startswith("quota-admission: " if code == 1 else "Error: "), lines
    assert len(lines) == 1 or code == 2
    assert option in lines[-1]
    assert "HOST:PORT" in lines[-1]


def test_a_name_that_nobody_has_stops_the_server(home, start):
    code, lines = start("--admin-bind", "no:name:8080")
    assert (code, len(lines)) == (1, 1), lines
    assert "--admin-bind no:name:8080: " in lines[0]
    assert "Unknown error" not in lines[0]


@pytest.mark.parametrize("option", ["--bind", "--admin-bind"])
def test_an_address_of_another_machine_stops_the_server(home, start, option):
    code, lines = start(option, "192.0.2.1:8443")
    assert (code, len(lines)) == (1, 1), lines
    assert f"{option} 192.0.2.1:8443: " in lines[0]


CONFIGS = [
    ("unknown key", "serverr: {}", r"config\.yaml: serverr: is not a known field"),
    ("wrong type", "server: {threads: many}", r'config\.yaml: server\.threads: expected .*integer, got "many"'),
    ("no YAML", "server: [", r"config\.yaml, line 2, column 1: did not find expected node content"),
]


@pytest.mark.parametrize(("text", "said"), [row[1:] for row in CONFIGS], ids=[row[0] for row in CONFIGS])
def test_a_bad_configuration_stops_the_server(home, start, text, said):
    (home / "config.yaml").write_text(text)
    expect_one_line(start("--config", "config.yaml"), said)


def test_a_configuration_that_is_not_there_stops_the_server(home, start):
    expect_one_line(start("--config", "nowhere.yaml"), r"nowhere\.yaml: No such file or directory")


def make_broken_certificate(folder):
    folder.mkdir()
    (folder / "tls.crt").write_text("nonsense")
    (folder / "tls.key").write_text("nonsense")


def test_a_certificate_that_cannot_be_loaded_stops_the_server(home, start):
    make_broken_certificate(home / "certs")
    expect_one_line(start("--cert-dir", "certs"), r"tls\.crt|certs")


def test_a_folder_for_certificates_that_cannot_be_made_stops_the_server(home, start):
    (home / "file").write_text("")
    code, lines = start("--cert-dir", "file/certs")
    assert (code, len(lines)) == (1, 1), lines
    assert "file" in lines[0]


@pytest.mark.parametrize(
    "options",
    [
        ["--nonsense"],
        ["--log-level", "loud"],
        ["--state", "."],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_a_usage_error(home, start, options):
    code, lines = start(*options)
    assert code == 2
    assert lines[-1].startswith("Error: ")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["serve", "--kubeconfig", "nowhere"],
            1,
            "quota-admission: no API server is configured: nowhere: expected a file",
        ),
        (["serve", "--standalone", "nowhere"], 1, "quota-admission: nowhere: expected a folder"),
    ],
    ids=["usage", "folder"],
)
def test_the_installed_command_says_the_same(home, arguments, code, said):
    ended = subprocess.run([COMMAND, *arguments], cwd=home, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert said in lines_of(ended.stderr)[-1]


# -- what is in order


@pytest.mark.parametrize("host", ["localhost", "", "[::1]"])
def test_other_ways_to_write_an_address_are_served(host):
    if host == "[::1]" and not has_ipv6():
        pytest.skip("no IPv6 here")
    with ServerProcess({"a.yaml": GOOD}, start=False) as server:
        server.options = ["--bind", f"{host}:{server.port}"]
        server.start()
        address = "::1" if host == "[::1]" else "127.0.0.1"
        with (
            socket.create_connection((address, server.port), timeout=10) as plain,
            server.client_context().wrap_socket(plain, server_hostname=address) as connection,
        ):
            connection.sendall(b"GET /validate HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b" 405 " in connection.recv(1000)


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_certificates_go_beside_the_state_file_where_no_folder_is_named():
    with ServerProcess({"a.yaml": GOOD}, start=False) as server:
        server.arguments = lambda: [
            part for part in ServerProcess.arguments(server) if part not in ("--cert-dir", str(server.cert_dir))
        ]
        server.start()
        assert {path.name for path in server.cert_dir.iterdir()} >= {"ca.crt", "tls.crt", "tls.key"}
        assert server.create_pod() == "admitted"
