"""Real handshakes: a server with the leaf, a client that trusts ca.crt and is as strict as it can be."""

import ssl

import pytest
from certs_helpers import DAY, DNS, IPS, clock, handshake

from certs import Lifetimes, ensure, reading


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    ensure(folder, DNS, IPS, now=clock())
    return folder


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("host", ["webhook.ns.svc", "WEBHOOK.ns.svc", "any.pods.ns.svc", "10.0.0.1", "fd00::1"])
def test_a_client_that_trusts_the_ca_accepts_each_name_and_address(folder, host, version):
    with reading(folder):
        protocol = handshake(folder, (folder / "ca.crt").read_bytes(), host, version)
    assert protocol == version.name.replace("_", ".")


@pytest.mark.parametrize("host", ["other.ns.svc", "pods.ns.svc", "a.b.pods.ns.svc", "10.0.0.2", "fd00::2"])
def test_a_client_refuses_a_name_that_is_not_in_the_certificate(folder, host):
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(folder, (folder / "ca.crt").read_bytes(), host)


def test_a_client_that_trusts_another_ca_refuses_the_server(folder, tmp_path):
    ensure(tmp_path, DNS, now=clock())
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        handshake(folder, (tmp_path / "ca.crt").read_bytes(), "webhook.ns.svc")


def test_a_client_refuses_an_expired_leaf_and_accepts_the_one_that_ensure_puts_in_its_place(tmp_path):
    now = clock()
    ensure(tmp_path, DNS, now=now - 10 * DAY, lifetimes=Lifetimes(leaf=9 * DAY))
    ca = (tmp_path / "ca.crt").read_bytes()
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        handshake(tmp_path, ca, "webhook.ns.svc")
    ensure(tmp_path, DNS, now=now)
    assert handshake(tmp_path, ca, "webhook.ns.svc") == "TLSv1.3"
