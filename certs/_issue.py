"""Making CA and leaf certificates: ECDSA on P-256, signed with SHA-256. All pure but for the random numbers."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs._errors import AuthorityError, LifetimeError
from certs._names import Names
from certs._renewal import expired, moment_text, utc

CA_LIFETIME = timedelta(days=3650)
"""How long a CA lives. Its certificate is copied by hand into the configuration of clients, so it changes rarely; its
last third, more than three years, is the time in which the old and the new one are trusted side by side."""

LEAF_LIFETIME = timedelta(days=90)
"""How long a leaf lives. Nobody checks a webhook's certificate for revocation, so a stolen key is of use until the end;
its last third, 30 days, is long enough for a person to see that renewals fail and to act."""

MIN_LIFETIME = timedelta(hours=1)
"""The shortest lifetime that can be asked for: below it a certificate would be renewed all the time."""

CLOCK_SKEW = timedelta(minutes=5)
"""How far the begin of a certificate lies in the past, so that clients whose clock is behind accept it at once."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA that can sign: its certificate and the private key of it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Pair:
    """What a TLS server presents: a certificate, those that lead from it to a CA (mostly none), and the private key."""

    chain: tuple[x509.Certificate, ...]
    key: PrivateKeyTypes

    @property
    def leaf(self) -> x509.Certificate:
        """The certificate of the server itself."""
        return self.chain[0]


def issue_ca(*, now: datetime, lifetime: timedelta = CA_LIFETIME) -> Authority:
    """Make a CA with a new key, good for `lifetime` from now. It may sign leaves, but no other CA.

    Raises:
        LifetimeError: the lifetime is below `MIN_LIFETIME` or ends beyond the calendar.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # The name differs from CA to CA, so that clients with two in their bundle find the right one by its name alone.
    name = _name(f"quota-admission CA {key_id.digest.hex()[:8]}")
    builder = _builder(key, name, ca=True, valid=_valid(utc(now), lifetime))
    builder = builder.issuer_name(name).add_extension(_authority_id(key_id), critical=False)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def issue_leaf(authority: Authority, names: Names, *, now: datetime, lifetime: timedelta = LEAF_LIFETIME) -> Pair:
    """Make a server certificate with a new key, good for `lifetime` from now, or until the CA ends if that is earlier.

    Raises:
        LifetimeError: the lifetime is below `MIN_LIFETIME` or ends beyond the calendar.
        AuthorityError: the CA is not valid now.
    """
    ca = authority.certificate
    now = utc(now)
    if expired(ca, now) or now < ca.not_valid_before_utc:
        life = f"from {moment_text(ca.not_valid_before_utc)} to {moment_text(ca.not_valid_after_utc)}"
        raise AuthorityError(f"the CA is valid {life}, so it cannot sign at {moment_text(now)}")
    begin, end = _valid(now, lifetime)
    valid = max(begin, ca.not_valid_before_utc), min(end, ca.not_valid_after_utc)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(key, _name("quota-admission"), ca=False, valid=valid)
        .issuer_name(ca.subject)
        .add_extension(_authority_id(_key_id(ca)), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names.general_names()), critical=False)
    )
    return Pair((builder.sign(authority.key, hashes.SHA256()),), key)


def check_lifetime(lifetime: timedelta) -> None:
    """Refuse a lifetime below `MIN_LIFETIME` with a `LifetimeError`."""
    if lifetime < MIN_LIFETIME:
        raise LifetimeError(f"a lifetime of {lifetime} is too short: at least {MIN_LIFETIME} is needed")


def _builder(
    key: ec.EllipticCurvePrivateKey, subject: x509.Name, *, ca: bool, valid: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    """What a CA and a leaf share: all but the issuer and what says which servers a leaf is for."""
    begin, end = valid
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
        .add_extension(_usage(ca=ca), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _valid(now: datetime, lifetime: timedelta) -> tuple[datetime, datetime]:
    check_lifetime(lifetime)
    try:
        return now - CLOCK_SKEW, now + lifetime
    except OverflowError:
        raise LifetimeError(f"a lifetime of {lifetime} ends beyond the calendar") from None


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_id(ca: x509.Certificate) -> x509.SubjectKeyIdentifier:
    """The key identifier that a CA states; one from elsewhere may have another than the hash that is used here."""
    try:
        return ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.SubjectKeyIdentifier.from_public_key(ca.public_key())


def _authority_id(key_id: x509.SubjectKeyIdentifier) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id)
