"""The four files of a folder, read and written as certificates and keys.

    ca.crt   what clients trust: the CA in use first, then former ones until they expire   0644
    ca.key   the private key of the CA in use; where it is, the folder is managed here     0600
    tls.crt  the certificate of the server, and what leads from it to its CA               0644
    tls.key  the private key of the server                                                 0600

A folder with any of the other three but without ca.key belongs to the user: see `is_managed`.
"""

from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from certs._errors import NotOursError, PairMismatchError, UnreadableFileError
from certs._files import PUBLIC, SECRET, exists, read, reading, sweep, write
from certs._issue import Pair

CA_CERTIFICATE = "ca.crt"
CA_KEY = "ca.key"
TLS_CERTIFICATE = "tls.crt"
TLS_KEY = "tls.key"

_ALL = (CA_CERTIFICATE, CA_KEY, TLS_CERTIFICATE, TLS_KEY)
_BAD_CERTIFICATE = (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)


def is_managed(folder: Path) -> bool:
    """Whether the files of a folder are for this package to make and to replace.

    They are where ca.key is, and where there is nothing yet. They are the user's where there is anything else but no
    ca.key: then nothing may be written.
    """
    # The order matters: ca.key is the first file that is written. Who looks for it first could miss it, then see the
    # files that another process has just put next to it, and take them for the user's.
    others = [name for name in _ALL if name != CA_KEY and exists(folder / name)]
    return not others or exists(folder / CA_KEY)


def load_bundle(folder: Path) -> tuple[x509.Certificate, ...]:
    """The CA certificates in ca.crt, at least one.

    Raises:
        MissingFileError, UnreadableFileError, FolderError: see there.
    """
    return _load_certificates(folder / CA_CERTIFICATE)


def load_chain(folder: Path) -> tuple[x509.Certificate, ...]:
    """The certificates in tls.crt, at least one, that of the server first.

    Raises:
        MissingFileError, UnreadableFileError, FolderError: see there.
    """
    return _load_certificates(folder / TLS_CERTIFICATE)


def load_pair(folder: Path) -> Pair:
    """The certificate in tls.crt and the key in tls.key, which belong together; nothing else is checked.

    Raises:
        PairMismatchError: the key does not belong to the certificate.
        MissingFileError, UnreadableFileError, FolderError, LockTimeoutError: see there.
    """
    with reading(folder):
        return read_pair(folder)


def read_pair(folder: Path) -> Pair:
    """The same as `load_pair` without the lock, for those who hold it or can do without."""
    pair = Pair(load_chain(folder), load_tls_key(folder))
    if pair.key.public_key() != pair.leaf.public_key():
        raise PairMismatchError(
            f"{folder}: the key in {TLS_KEY} does not belong to the certificate in {TLS_CERTIFICATE}"
        )
    return pair


def load_tls_key(folder: Path) -> PrivateKeyTypes:
    """The key in tls.key.

    Raises:
        MissingFileError, UnreadableFileError, FolderError: see there.
    """
    return _load_key(folder / TLS_KEY)


def load_ca_key(folder: Path) -> ec.EllipticCurvePrivateKey:
    """The key in ca.key.

    Raises:
        NotOursError: it is encrypted, of another kind than those made here, or no key at all.
        MissingFileError, FolderError: see there.
    """
    path = folder / CA_KEY
    try:
        key = _load_key(path)
    except UnreadableFileError as error:
        # No crash leaves such a file. Whatever it is, it may be of worth to somebody, and a new key would destroy it.
        raise NotOursError(f"{error}, so it was not made here, and is left alone") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise NotOursError(f"{path}: the key is not an ECDSA key, so it was not made here, and is left alone")
    return key


def save_ca_key(folder: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write ca.key."""
    write(folder / CA_KEY, _key_pem(key), SECRET)


def save_bundle(folder: Path, certificates: tuple[x509.Certificate, ...]) -> None:
    """Write ca.crt."""
    write(folder / CA_CERTIFICATE, _certificates_pem(certificates), PUBLIC)


def save_pair(folder: Path, pair: Pair) -> None:
    """Write tls.key, then tls.crt; who reads between the two without the lock finds a pair that does not match."""
    write(folder / TLS_KEY, _key_pem(pair.key), SECRET)
    write(folder / TLS_CERTIFICATE, _certificates_pem(pair.chain), PUBLIC)


def tidy(folder: Path) -> None:
    """Remove what killed writers have left; only for the holder of the lock."""
    sweep(folder, _ALL)


def _load_certificates(path: Path) -> tuple[x509.Certificate, ...]:
    content = read(path)
    try:
        certificates = tuple(x509.load_pem_x509_certificates(content))
        for certificate in certificates:
            # Both are parsed only when asked for; asked for here, they cannot fail later on.
            _ = certificate.extensions, certificate.public_key()
    except _BAD_CERTIFICATE as error:
        raise UnreadableFileError(f"{path}: it holds no certificates in PEM form") from error
    return certificates


def _load_key(path: Path) -> PrivateKeyTypes:
    content = read(path)
    try:
        return load_pem_private_key(content, password=None)
    except TypeError as error:
        raise UnreadableFileError(f"{path}: the key is encrypted") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnreadableFileError(f"{path}: it holds no private key in PEM form") from error


def _certificates_pem(certificates: tuple[x509.Certificate, ...]) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def _key_pem(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
