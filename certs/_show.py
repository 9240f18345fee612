"""What a folder holds, for people and for programs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from certs._check import Finding, Problem, check_ca, check_chain, check_leaf
from certs._errors import MissingFileError, NotOursError, UnreadableFileError
from certs._files import reading
from certs._issue import Pair
from certs._names import Names
from certs._renewal import moment_text, needs_renewal, renewal_time
from certs._store import (
    CA_CERTIFICATE,
    CA_KEY,
    TLS_CERTIFICATE,
    TLS_KEY,
    is_managed,
    load_bundle,
    load_ca_key,
    load_chain,
    load_tls_key,
)

_Loaded = TypeVar("_Loaded")


@dataclass(frozen=True, slots=True)
class Card:
    """One certificate in a file, what it is there for, and what is wrong with it."""

    file: str
    role: str
    certificate: x509.Certificate
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a folder holds at a moment.

    Attributes:
        folder: the folder.
        now: the moment, with a time zone.
        managed: whether the files are made here; False when they are the user's.
        cards: the certificates, that of the server first.
        findings: what is wrong with the folder as a whole or with what the server uses; none when all is fine.
    """

    folder: Path
    now: datetime
    managed: bool
    cards: tuple[Card, ...]
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """The report as what JSON can hold; times are in UTC in the form of RFC 3339."""
        return {
            "dir": str(self.folder),
            "managed": self.managed,
            "ok": not self.findings,
            "problems": [_finding_json(finding) for finding in self.findings],
            "certificates": [_card_json(card, self.now) for card in self.cards],
        }

    def as_text(self) -> str:
        """The report as a table of two columns for each certificate, and a last line that sums it up."""
        keeper = "managed" if self.managed else f"yours, as there is no {CA_KEY}"
        blocks = [_table(_card_rows(card, self.now)) for card in self.cards]
        verdict = "ok" if not self.findings else "wrong: " + "; ".join(map(str, self.findings))
        return "\n\n".join([f"{self.folder}: {keeper if blocks else 'no certificates'}", *blocks, verdict])


def report(folder: Path, now: datetime) -> Report:
    """Look a folder over; what is missing or unreadable is a finding, not an error.

    Raises:
        FolderError: the system does not let a file be read, or the lock is not to be had.
    """
    with reading(folder):
        managed = is_managed(folder)
        trusted, ca_flaws = _attempt(folder, load_bundle, CA_CERTIFICATE)
        cards, findings = _server(folder, trusted or (), now)
        if trusted:
            ca_cards, ca_findings = _authorities(folder, trusted, managed, now)
            cards += ca_cards
            # What is wrong with the user's CA is wrong with the pair as well, and said there if it matters.
            findings += ca_findings if managed else ()
    return Report(folder, now, managed, cards, findings + (ca_flaws if managed else ()))


def _server(
    folder: Path, trusted: tuple[x509.Certificate, ...], now: datetime
) -> tuple[tuple[Card, ...], tuple[Finding, ...]]:
    key, findings = _attempt(folder, load_tls_key, TLS_KEY)
    chain, chain_flaws = _attempt(folder, load_chain, TLS_CERTIFICATE)
    if not chain:
        return (), chain_flaws + findings
    leaf, *others = chain
    names = Names.of(leaf)
    if key is None:
        findings += check_chain(chain, trusted, names, now=now)
    else:
        findings += check_leaf(Pair(chain, key), trusted, names, now=now)
    card = Card(TLS_CERTIFICATE, "server", leaf, findings)
    return (card, *(Card(TLS_CERTIFICATE, "intermediate CA", other) for other in others)), findings


def _authorities(
    folder: Path, trusted: tuple[x509.Certificate, ...], managed: bool, now: datetime
) -> tuple[tuple[Card, ...], tuple[Finding, ...]]:
    key, findings = _attempt(folder, load_ca_key, CA_KEY) if managed else (None, ())
    current, *former = trusted
    findings += check_ca(current, key, now=now)
    cards = [Card(CA_CERTIFICATE, "CA", current, findings)]
    cards += [Card(CA_CERTIFICATE, "former CA", ca, check_ca(ca, None, now=now)) for ca in former]
    return tuple(cards), tuple(Finding(finding.problem, _joined("CA", finding.detail)) for finding in findings)


def _attempt(folder: Path, load: Callable[[Path], _Loaded], what: str) -> tuple[_Loaded | None, tuple[Finding, ...]]:
    try:
        return load(folder), ()
    except MissingFileError:
        return None, (Finding(Problem.MISSING, what),)
    except (UnreadableFileError, NotOursError) as error:
        return None, (Finding(Problem.UNREADABLE, str(error)),)


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _card_rows(card: Card, now: datetime) -> Iterator[tuple[str, str]]:
    certificate = card.certificate
    yield "file", f"{card.file} ({card.role})"
    yield "subject", certificate.subject.rfc4514_string()
    if names := str(Names.of(certificate)):
        yield "names", names
    yield "sha-256", certificate.fingerprint(hashes.SHA256()).hex(":").upper()
    yield "valid from", moment_text(certificate.not_valid_before_utc)
    yield "valid until", moment_text(certificate.not_valid_after_utc)
    yield "renew at", moment_text(renewal_time(certificate))
    yield "days left", str(_days_left(certificate, now))
    yield (
        "status",
        "; ".join(map(str, card.findings)) or ("ok, renewal is due" if needs_renewal(certificate, now) else "ok"),
    )


def _card_json(card: Card, now: datetime) -> dict[str, Any]:
    certificate = card.certificate
    names = Names.of(certificate)
    return {
        "file": card.file,
        "role": card.role,
        "subject": certificate.subject.rfc4514_string(),
        "dns_names": list(names.dns),
        "addresses": [str(address) for address in names.addresses],
        "sha256": certificate.fingerprint(hashes.SHA256()).hex(),
        "valid_from": _rfc3339(certificate.not_valid_before_utc),
        "valid_until": _rfc3339(certificate.not_valid_after_utc),
        "renew_at": _rfc3339(renewal_time(certificate)),
        "days_left": _days_left(certificate, now),
        "renewal_due": needs_renewal(certificate, now),
        "problems": [_finding_json(finding) for finding in card.findings],
    }


def _finding_json(finding: Finding) -> dict[str, str]:
    return {"problem": finding.problem.name.lower(), "text": str(finding)}


def _table(rows: Iterator[tuple[str, str]]) -> str:
    pairs = list(rows)
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in pairs)


def _days_left(certificate: x509.Certificate, now: datetime) -> int:
    """Whole days until the end, rounded down: below zero once it has expired."""
    return (certificate.not_valid_after_utc - now) // timedelta(days=1)


def _rfc3339(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
