"""What a managed folder holds, and what of it has to be made anew and why. Reads, and writes nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from cryptography import x509

from certs._check import Finding, Problem, check_ca, check_leaf
from certs._errors import MissingFileError, NotOursError, PairMismatchError, UnreadableFileError
from certs._issue import Authority
from certs._names import Names
from certs._renewal import bundle, needs_renewal
from certs._store import CA_CERTIFICATE, CA_KEY, TLS_CERTIFICATE, TLS_KEY, load_bundle, load_ca_key, read_pair

_Loaded = TypeVar("_Loaded")


@dataclass(frozen=True, slots=True)
class View:
    """What a managed folder holds.

    Attributes:
        trusted: the certificates in ca.crt; none when it is missing or unreadable.
        authority: the CA when it can sign, even if it is due for renewal.
        leaf: the certificate of the server when it is of use, even if it is due for renewal.
        ca_findings: why the CA has to be made anew; none when it is fine.
        leaf_findings: why the leaf has to be made anew; none when it is fine.
        kept: what `trusted` should be by now: the same without former CAs that have expired.
    """

    trusted: tuple[x509.Certificate, ...]
    authority: Authority | None
    leaf: x509.Certificate | None
    ca_findings: tuple[Finding, ...]
    leaf_findings: tuple[Finding, ...]
    kept: tuple[x509.Certificate, ...]

    @property
    def fine(self) -> bool:
        """Whether there is nothing to do."""
        return not self.ca_findings and not self.leaf_findings and self.kept == self.trusted


def look(folder: Path, names: Names, now: datetime) -> View:
    """Look a managed folder over.

    Raises:
        NotOursError: ca.key or the CA was not made here and is of no use; it must not be replaced.
        FolderError: a file is there but the system does not let it be read.
    """
    trusted, authority, ca_findings = _look_at_ca(folder, now)
    leaf, leaf_findings = look_at_leaf(folder, trusted, names, now)
    kept = bundle(trusted[0], trusted[1:], now) if trusted else ()
    return View(trusted, authority, leaf, ca_findings, leaf_findings, kept)


def look_at_leaf(
    folder: Path, trusted: tuple[x509.Certificate, ...], names: Names, now: datetime
) -> tuple[x509.Certificate | None, tuple[Finding, ...]]:
    """The leaf of a folder when it is of use, and why it has to be made anew."""
    try:
        pair = _attempt(folder, read_pair, f"{TLS_CERTIFICATE} or {TLS_KEY}")
    except PairMismatchError:
        return None, (Finding(Problem.KEY_MISMATCH),)
    if isinstance(pair, Finding):
        return None, (pair,)
    if findings := check_leaf(pair, trusted, names, now=now):
        return None, findings
    return pair.leaf, _due(pair.leaf, now)


def _look_at_ca(
    folder: Path, now: datetime
) -> tuple[tuple[x509.Certificate, ...], Authority | None, tuple[Finding, ...]]:
    trusted = _attempt(folder, load_bundle, CA_CERTIFICATE)
    key = _attempt(folder, load_ca_key, CA_KEY)
    if isinstance(trusted, Finding):
        return (), None, (trusted,)
    if isinstance(key, Finding):
        return trusted, None, (key,)
    certificate = trusted[0]
    findings = check_ca(certificate, key, now=now)
    for finding in findings:
        if finding.problem is Problem.NOT_A_CA:
            # None made here is like that. Its key is of worth to somebody, and a new CA would take its place.
            raise NotOursError(f"{folder / CA_CERTIFICATE}: {finding}; it was not made here, and is left alone")
    if findings:
        return trusted, None, findings
    return trusted, Authority(certificate, key), _due(certificate, now)


def _attempt(folder: Path, load: Callable[[Path], _Loaded], what: str) -> _Loaded | Finding:
    """What is loaded, or the reason why it is to be made; what else goes wrong is for the caller's caller."""
    try:
        return load(folder)
    except MissingFileError:
        return Finding(Problem.MISSING, what)
    except UnreadableFileError:
        return Finding(Problem.UNREADABLE, what)


def _due(certificate: x509.Certificate, now: datetime) -> tuple[Finding, ...]:
    return (Finding(Problem.DUE),) if needs_renewal(certificate, now) else ()
