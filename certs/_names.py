"""The names and addresses that a certificate stands for."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Self, TypeAlias

from cryptography import x509

from certs._errors import NameFormatError

Address: TypeAlias = IPv4Address | IPv6Address

MAX_NAME = 253
"""The length of the longest DNS name, in characters (RFC 1035 counts 255 octets on the wire)."""

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Names:
    """DNS names and IP addresses, each without duplicates and in the order given."""

    dns: tuple[str, ...] = ()
    addresses: tuple[Address, ...] = ()

    @classmethod
    def parse(cls, dns_names: Iterable[str] = (), addresses: Iterable[str | Address] = ()) -> Self:
        """Check names and addresses and put them in their plain form.

        Raises:
            NameFormatError: one of them is no name or no address, or there are none at all.
        """
        if isinstance(dns_names, str) or isinstance(addresses, str):
            # A lone string is an iterable of strings as well, and would turn into names of one letter.
            raise NameFormatError("give the names and the addresses as lists, not as one string")
        dns = tuple(dict.fromkeys(parse_dns_name(name) for name in dns_names))
        parsed = tuple(dict.fromkeys(parse_address(address) for address in addresses))
        if not dns and not parsed:
            raise NameFormatError("a certificate needs at least one DNS name or IP address")
        return cls(dns, parsed)

    @classmethod
    def of(cls, certificate: x509.Certificate) -> Self:
        """The DNS names and IP addresses of a certificate: empty when it has none.

        Networks, mail addresses and the like are left out: no TLS client looks a server up by them.
        """
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return cls()
        addresses = names.get_values_for_type(x509.IPAddress)
        return cls(
            tuple(name.lower() for name in names.get_values_for_type(x509.DNSName)),
            tuple(address for address in addresses if isinstance(address, IPv4Address | IPv6Address)),
        )

    def not_covered_by(self, other: "Names") -> tuple[str, ...]:
        """The names and addresses, as text, for which a client would not accept a certificate for `other`.

        A wildcard stands for exactly one label. A wildcard that is asked for is covered by the same wildcard only: no
        list of single names is as good.
        """
        dns = tuple(name for name in self.dns if name not in other.dns and _as_wildcard(name) not in other.dns)
        return dns + tuple(str(address) for address in self.addresses if address not in other.addresses)

    def general_names(self) -> list[x509.GeneralName]:
        """The same as entries of a SubjectAlternativeName extension."""
        return [*map(x509.DNSName, self.dns), *map(x509.IPAddress, self.addresses)]

    def __str__(self) -> str:
        return ", ".join([*self.dns, *map(str, self.addresses)])


def parse_dns_name(text: str) -> str:
    """A DNS name in lower case; a `*` may stand for the whole first label.

    Raises:
        NameFormatError: the text is not a DNS name that a TLS client would look for in a certificate.
    """
    name = text.lower()
    if flaw := _flaw(name):
        raise NameFormatError(f"{text!r} is not a DNS name for a certificate: {flaw}")
    return name


def parse_address(value: str | Address) -> Address:
    """An IPv4 or IPv6 address.

    Raises:
        NameFormatError: the text is not one address (it may be a network, or have a zone such as `%eth0`).
    """
    try:
        address = ip_address(value)
    except ValueError:
        raise NameFormatError(f"{value!r} is not an IP address") from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise NameFormatError(f"'{address}' has a zone, which means nothing to other machines")
    return address


def _flaw(name: str) -> str | None:
    """What is wrong with a name in lower case, None when it is fine."""
    if not name:
        return "it is empty"
    if not name.isascii():
        return "it is not ASCII; write it in its xn-- form"
    if _is_address(name):
        return "it is an IP address"
    if len(name) > MAX_NAME:
        return f"it is longer than {MAX_NAME} characters"
    if name.endswith("."):
        return "it ends with a dot"
    first, *others = name.split(".")
    if first == "*":
        # TLS libraries refuse a wildcard right below a top-level name, so such a certificate would match nothing.
        if len(others) < 2:
            return "a wildcard needs at least two labels after it, as in *.namespace.svc"
    else:
        others = [first, *others]
    return _label_flaw(others)


def _label_flaw(labels: list[str]) -> str | None:
    for label in labels:
        if "*" in label:
            return "a wildcard must be the whole first label, as in *.namespace.svc"
        if not _LABEL.fullmatch(label):
            return f"the label {label!r} is not 1 to 63 letters, digits and inner hyphens"
    if labels[-1].isdigit():
        # Clients take a host with a numeric last label for an IPv4 address and never look at DNS names.
        return "its last label is a number"
    return None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _as_wildcard(name: str) -> str:
    """The wildcard that would cover a name."""
    return "*." + name.partition(".")[2]
