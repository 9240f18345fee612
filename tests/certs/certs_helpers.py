"""What the tests of the certificates share: moments, handshakes, certificates as others make them."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import certs
from certs import Authority, Names

NOW = datetime(2030, 5, 17, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
DNS = ["webhook.ns.svc", "*.pods.ns.svc"]
IPS = ["10.0.0.1", "fd00::1"]
NAMES = Names.parse(DNS, IPS)
FILES = ("ca.crt", "ca.key", "tls.crt", "tls.key")

_DEFAULT_CA = (
    (x509.BasicConstraints(ca=True, path_length=0), True),
    (x509.KeyUsage(False, False, False, False, False, True, True, False, False), True),
)
_DEFAULT_LEAF = ((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),)


def clock() -> datetime:
    """The real time, for what TLS itself checks against the clock."""
    return datetime.now(UTC)


def foreign(
    *,
    key: CertificateIssuerPrivateKeyTypes | None = None,
    issuer: tuple[x509.Certificate, CertificateIssuerPrivateKeyTypes] | None = None,
    extensions=_DEFAULT_CA,
    name: str = "foreign",
    begin: datetime = NOW - 30 * DAY,
    end: datetime = NOW + 300 * DAY,
):
    """A certificate made by other means: the builder of the package is not used."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer[1] if issuer else key
    builder = (
        x509.CertificateBuilder()
        .issuer_name(subject if issuer is None else issuer[0].subject)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(signer, hashes.SHA256()), key


def foreign_leaf(issuer, names: Names = NAMES, *, key=None, extensions=_DEFAULT_LEAF, **times):
    """A server certificate made by other means."""
    san = ((x509.SubjectAlternativeName(names.general_names()), False),) if names.general_names() else ()
    return foreign(key=key, issuer=issuer, extensions=(*extensions, *san), name="server", **times)


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def key_pem(key, password: bytes | None = None) -> bytes:
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)


def put_ca(folder: Path, authority: Authority, *former: x509.Certificate) -> None:
    """A managed folder with a CA and no leaf."""
    folder.mkdir(exist_ok=True)
    (folder / "ca.key").write_bytes(key_pem(authority.key))
    (folder / "ca.crt").write_bytes(pem(authority.certificate, *former))


def put_pair(folder: Path, chain, key) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_bytes(pem(*chain))
    (folder / "tls.key").write_bytes(key_pem(key))


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """All files with their inode, time of change and content: equal only if nothing was written."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.iterdir())
    }


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def handshake(folder: Path, ca_pem: bytes, host: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> str:
    """Let a client that trusts `ca_pem` greet a server that uses the pair of the folder; the name of the protocol.

    Raises ssl.SSLError when either refuses the other.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    client = ssl.create_default_context(cadata=ca_pem.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.minimum_version = client.maximum_version = version
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server, server_hostname=host)
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client_side, server_side]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
        if not waiting:
            break
    client_side.write(b"hello")
    assert server_side.read() == b"hello"
    return client_side.version() or ""


def fine(folder: Path, now: datetime, names: Names = NAMES) -> bool:
    """Whether a folder is in order, by checks that do not go through `ensure`."""
    trusted = certs.load_bundle(folder)
    return not certs.check_leaf(certs.load_pair(folder), trusted, names, now=now) and not certs.check_ca(
        trusted[0], None, now=now
    )
