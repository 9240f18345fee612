"""Checks of a CA and of a leaf: what is wrong with it, and so why it must be made anew. All pure: no clock here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs._issue import Pair
from certs._names import Names
from certs._renewal import expired, moment_text, utc

LOOK_AHEAD = timedelta(minutes=10)
"""A certificate must still be good this long after now, so that none expires between a check and its use."""

_Extension = TypeVar("_Extension", bound=x509.ExtensionType)


class Problem(Enum):
    """What can be wrong with a certificate, or why else a new one is made; the value is a text for people."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    KEY_MISMATCH = "the key does not belong to the certificate"
    NOT_YET_VALID = "not valid yet"
    EXPIRED = "expired"
    EXPIRES_SOON = "expires in a moment"
    NAMES_NOT_COVERED = "not for all names"
    NO_SERVER_AUTH = "not for servers"
    NOT_A_CA = "not a CA"
    UNTRUSTED = "no CA in ca.crt vouches for it"
    DUE = "past two thirds of its life"
    CA_REPLACED = "its CA is about to be replaced"
    FORCED = "asked for"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of one certificate; `detail` adds what the problem alone does not say, and may be empty."""

    problem: Problem
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.problem.value}: {self.detail}" if self.detail else self.problem.value


def check_ca(
    certificate: x509.Certificate, key: PrivateKeyTypes | None, *, now: datetime, look_ahead: timedelta = LOOK_AHEAD
) -> tuple[Finding, ...]:
    """What keeps a CA from signing leaves that clients accept; nothing when it is fine.

    Args:
        certificate: the certificate of the CA.
        key: the private key next to it; None leaves the question out whether it belongs to the certificate.
        now: the moment to check for, with a time zone.
        look_ahead: how long after `now` it must still be valid.
    """

    def findings() -> Iterator[Finding]:
        if key is not None and not _belongs(key, certificate):
            yield Finding(Problem.KEY_MISMATCH)
        if flaw := _ca_flaw(certificate):
            yield Finding(Problem.NOT_A_CA, flaw)
        yield from _check_time(certificate, now, look_ahead)

    return tuple(findings())


def check_leaf(
    pair: Pair,
    trusted: Sequence[x509.Certificate],
    names: Names,
    *,
    now: datetime,
    look_ahead: timedelta = LOOK_AHEAD,
) -> tuple[Finding, ...]:
    """What keeps a TLS server from using a pair; nothing when it is fine.

    Args:
        pair: the certificate, with what leads to its CA, and the private key.
        trusted: the CA certificates that clients trust; none leaves the chain unchecked.
        names: the names and addresses that clients may use for the server.
        now: the moment to check for, with a time zone.
        look_ahead: how long after `now` all must still be valid.
    """

    mismatch = () if _belongs(pair.key, pair.leaf) else (Finding(Problem.KEY_MISMATCH),)
    return mismatch + check_chain(pair.chain, trusted, names, now=now, look_ahead=look_ahead)


def check_chain(
    chain: Sequence[x509.Certificate],
    trusted: Sequence[x509.Certificate],
    names: Names,
    *,
    now: datetime,
    look_ahead: timedelta = LOOK_AHEAD,
) -> tuple[Finding, ...]:
    """The same as `check_leaf` for a certificate, and what leads to its CA, of which the key is not at hand."""

    def findings() -> Iterator[Finding]:
        leaf = chain[0]
        if missing := names.not_covered_by(Names.of(leaf)):
            yield Finding(Problem.NAMES_NOT_COVERED, f"{', '.join(missing)} not in it")
        usage = _extension(leaf, x509.ExtendedKeyUsage)
        if usage is None or ExtendedKeyUsageOID.SERVER_AUTH not in usage:
            yield Finding(Problem.NO_SERVER_AUTH, "the extended key usage serverAuth is not in it")
        timing = _check_time(leaf, now, look_ahead)
        yield from timing
        # The chain of a leaf that is out of its time fails for that very reason, which would be said twice.
        if trusted and not timing:
            yield from _check_trust(chain, trusted, (utc(now), utc(now) + look_ahead))

    return tuple(findings())


def _check_time(certificate: x509.Certificate, now: datetime, look_ahead: timedelta) -> tuple[Finding, ...]:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if utc(now) < begin:
        return (Finding(Problem.NOT_YET_VALID, f"it begins {moment_text(begin)}"),)
    until = f"it ends {moment_text(end)}"
    if expired(certificate, now):
        return (Finding(Problem.EXPIRED, until),)
    if expired(certificate, now + look_ahead):
        return (Finding(Problem.EXPIRES_SOON, until),)
    return ()


def _check_trust(
    chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate], moments: Sequence[datetime]
) -> tuple[Finding, ...]:
    """Whether a chain leads from the leaf to a trusted CA at all the moments."""
    leaf, *others = chain
    if leaf in trusted:
        # A self-signed certificate that is its own ca.crt: clients trust it as such, there is no chain to look at.
        return ()
    subject = _subject(Names.of(leaf))
    if subject is None:
        return (Finding(Problem.UNTRUSTED, "it has no name"),)
    try:
        for moment in moments:
            policy = PolicyBuilder().store(Store(list(trusted))).time(moment.astimezone(UTC))
            policy.build_server_verifier(subject).verify(leaf, others)
    except (VerificationError, ValueError) as error:
        return (Finding(Problem.UNTRUSTED, " ".join(str(error).split())),)
    return ()


def _subject(names: Names) -> x509.DNSName | x509.IPAddress | None:
    """A name that a certificate with these names is good for: the verification asks for one."""
    for name in names.dns:
        # A wildcard is no host; any label in its place makes one.
        return x509.DNSName(name.replace("*", "x", 1))
    for address in names.addresses:
        return x509.IPAddress(address)
    return None


def _ca_flaw(certificate: x509.Certificate) -> str | None:
    basic = _extension(certificate, x509.BasicConstraints)
    if basic is None or not basic.ca:
        return "its basic constraints do not say so"
    usage = _extension(certificate, x509.KeyUsage)
    if usage is None or not usage.key_cert_sign:
        return "its key usage does not let it sign certificates"
    return None


def _belongs(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    return key.public_key() == certificate.public_key()


def _extension(certificate: x509.Certificate, kind: type[_Extension]) -> _Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
