"""When a certificate is to be renewed, and which CAs are to be trusted meanwhile. All pure: no clock here."""

from collections.abc import Iterable
from datetime import UTC, datetime

from cryptography import x509


def utc(now: datetime) -> datetime:
    """The moment in UTC, at whole seconds, as certificates have it.

    Raises:
        ValueError: `now` has no time zone, and what it means would depend on where it is read.
    """
    if now.tzinfo is None:
        raise ValueError("now must have a time zone")
    return now.astimezone(UTC).replace(microsecond=0)


def moment_text(moment: datetime) -> str:
    """A moment for people, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def renewal_time(certificate: x509.Certificate) -> datetime:
    """The moment, in UTC, from which a certificate should be renewed: two thirds into its life.

    The last third is the time in which a renewal may fail and be tried again without anybody noticing.
    """
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + (end - begin) * 2 / 3


def needs_renewal(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether a certificate is past two thirds of its life."""
    return utc(now) >= renewal_time(certificate)


def expired(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether a certificate is past its end; its last second still counts as life (RFC 5280, 4.1.2.5)."""
    return utc(now) > certificate.not_valid_after_utc


def bundle(
    current: x509.Certificate, previous: Iterable[x509.Certificate], now: datetime
) -> tuple[x509.Certificate, ...]:
    """The CA certificates a client should trust: the current one first, then the previous ones that live.

    Previous ones keep their order; expired ones and doubles are dropped. The current one is kept whatever its state: a
    bundle without it would be of no use.
    """
    alive = (certificate for certificate in previous if not expired(certificate, now))
    return tuple(dict.fromkeys((current, *alive)))
