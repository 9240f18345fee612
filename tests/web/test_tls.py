"""TLS on the webhook port, certificates that change, and connections that are kept."""

import json
import socket
import ssl
import subprocess
import sys
import time
import warnings

import pytest

from tests.standalone.manifests import create, file_of, pod, quota
from tests.standalone.server import ServerProcess, eventually, free_thread_pool

POLICIES = {"policies.yaml": file_of(quota("q", "pods=100k"))}
STALE = "quota_admission_certificate_stale"
EXPIRY = "quota_admission_certificate_expiry_timestamp_seconds"


@pytest.fixture(scope="module")
def server():
    with ServerProcess(POLICIES) as running:
        yield running


def handshake(server, context, host="127.0.0.1"):
    """The certificate and the version of a new connection."""
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        return connection.getpeercert(binary_form=True), connection.version()


def only(server, version):
    """A client that speaks this version alone, with whatever ciphers it takes."""
    context = server.client_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_a_client_that_knows_only_an_older_tls_is_refused(server, version):
    with pytest.raises(ssl.SSLError) as raised:
        handshake(server, only(server, version))
    assert raised.value.reason in ("TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE")


@pytest.mark.parametrize(
    ("version", "name"), [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")]
)
def test_tls_of_today_is_spoken(server, version, name):
    assert handshake(server, only(server, version))[1] == name


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_the_certificate_is_good_for_the_names_of_this_machine(server, host):
    assert handshake(server, server.client_context(), host)


def test_the_certificate_is_good_for_no_other_name(server):
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, server.client_context(), "example.com")


@pytest.mark.parametrize(
    "greeting",
    [b"GET /validate HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 100, b"\x16\x03\x01\x00\x05hello", b"SSH-2.0-x\r\n", b""],
    ids=["plain HTTP", "zeros", "half a hello", "another protocol", "nothing"],
)
def test_what_is_no_tls_is_turned_away_and_leaves_no_trace(server, greeting):
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as plain:
        plain.sendall(greeting)
        plain.shutdown(socket.SHUT_WR)
        received = b""
        while part := plain.recv(1000):
            received += part
    assert b"200 OK" not in received
    assert "Traceback" not in server.log()
    assert server.create_pod() == "admitted"


def test_200_calls_go_over_one_connection(server):
    connection = server.new_connection()
    body = json.dumps(create(pod("again", uid="again")))
    used = set()
    for _ in range(200):
        connection.request("POST", "/validate", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        response.read()
        used.add(connection.sock.getsockname() if connection.sock else None)
    assert len(used) == 1
    assert None not in used
    connection.close()


def test_32_clients_are_served_over_connections_they_keep(server):
    def work(number):
        for index in range(10):
            assert server.create_pod(uid=f"many-{number}-{index}") == "admitted"

    with free_thread_pool(32, work):
        pass


# -- files that change


def renew(server):
    command = [sys.executable, "-m", "certs", "renew", "--force", "--dir", str(server.cert_dir)]
    subprocess.run(command, check=True, capture_output=True)


def test_a_renewed_certificate_is_served_without_a_restart(server):
    before_context = server.client_context()
    before, _ = handshake(server, before_context)
    kept = server.connection()
    assert server.create_pod() == "admitted"
    renew(server)
    # Whoever has the new CA is served from now on with the new certificate.
    eventually(lambda: handshake(server, trusting_anything())[0] != before, within=5)
    assert handshake(server, server.client_context())[0] != before
    assert server.connection() is kept
    assert server.create_pod() == "admitted"
    assert "[+]certificate ok" in server.readyz()[1]
    assert server.metric(STALE) == 0


def trusting_anything():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_the_metric_tells_the_end_of_the_certificate_that_is_served(server):
    names = ["--dns", "localhost", "--ip", "127.0.0.1", "--ip", "::1", "--days", "10"]
    command = [sys.executable, "-m", "certs", "init", "--force", "--dir", str(server.cert_dir), *names]
    subprocess.run(command, check=True, capture_output=True)

    def told():
        handshake(server, trusting_anything())
        return server.metric(EXPIRY) < time.time() + 10 * 24 * 3600 + 60

    eventually(told, within=5)


BROKEN = {
    "certificate no PEM": {"tls.crt": b"nonsense"},
    "key of another pair": {"tls.key": None},
}


def spoil(server, tmp_path, files):
    for name, content in files.items():
        path = server.cert_dir / name
        if content is None:
            command = [sys.executable, "-m", "certs", "init", "--dir", str(tmp_path), "--dns", "other"]
            subprocess.run(command, check=True, capture_output=True)
            path.write_bytes((tmp_path / name).read_bytes())
        else:
            path.write_bytes(content)


def test_a_broken_pair_leaves_the_last_good_one_in_use(server, tmp_path):
    good, _ = handshake(server, server.client_context())
    whole = {name: (server.cert_dir / name).read_bytes() for name in ("tls.crt", "tls.key")}
    for what, files in BROKEN.items():
        spoil(server, tmp_path, files)

        def degraded():
            assert handshake(server, server.client_context())[0] == good
            return "[!]certificate degraded: " in server.readyz()[1]

        eventually(degraded, within=5, every=0.1)
        status, text = server.readyz()
        assert status == 200, what
        assert "tls.crt" in text, what
        assert server.metric(STALE) == 1, what
        assert server.create_pod() == "admitted", what
        for name, content in whole.items():
            (server.cert_dir / name).write_bytes(content)
        eventually(
            lambda: handshake(server, server.client_context()) and "[+]certificate ok" in server.readyz()[1],
            within=5,
            every=0.1,
        )
        assert server.metric(STALE) == 0, what


def test_a_broken_pair_shows_although_nobody_connects_anew(server):
    """API servers keep their connections for hours: the next one would be the first to see it."""
    assert server.create_pod() == "admitted"
    whole = (server.cert_dir / "tls.crt").read_bytes()
    (server.cert_dir / "tls.crt").write_bytes(b"nonsense")
    eventually(lambda: "[!]certificate degraded" in server.readyz()[1], within=5)
    assert server.metric(STALE) == 1
    (server.cert_dir / "tls.crt").write_bytes(whole)
    eventually(lambda: "[+]certificate ok" in server.readyz()[1], within=5)
    assert server.metric(STALE) == 0
