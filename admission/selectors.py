"""Names, label values and selector operators, by the rules of the Kubernetes API (1.36, apimachinery validation)."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_qualified_name(text: str) -> bool:
    """`[prefix/]name`: a DNS subdomain of at most 253 characters, and a name of at most 63."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _DNS_SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """At most 63 characters, alphanumeric at both ends, `-_.` inside; may be empty."""
    return not text or (len(text) <= 63 and _NAME.fullmatch(text) is not None)
