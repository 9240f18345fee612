"""CA and server certificates for a webhook server: made, checked and renewed in a folder.

`ensure` is all that a server needs: it makes what is missing, renews what is due, and leaves alone what the user put
there. It is to be called at start, and again at `Result.renew_at` or every now and then. Nothing here reads the clock:
the present moment is an argument, `now`, with a time zone::

    result = ensure("/var/lib/webhook/certs", ["webhook.ns.svc"], now=datetime.now(UTC))
    for change in result.changed:
        log.info("made %s, good until %s", change, result.expires)

Every error raised on purpose is a `CertsError`, and its text is one line that can be shown as it is::

    CertsError
    ├── NameFormatError          a DNS name or an IP address that no certificate can hold (also a ValueError)
    ├── LifetimeError            a lifetime that makes no sense (also a ValueError)
    ├── AuthorityError           a CA that cannot sign now, or whose leaves clients would refuse
    ├── FolderError              the folder or a file in it cannot be read or written
    │   ├── LockTimeoutError     another process held the lock of the folder for too long
    │   ├── MissingFileError     a file that is needed is not there
    │   └── UnreadableFileError  a file is there, but it is not the PEM it should be
    ├── NotOursError             to go on, files of the user would have to be overwritten
    └── PairError                tls.crt and tls.key are there and no TLS server can use them
        ├── PairMismatchError    the key does not belong to the certificate
        ├── PairExpiredError     the certificate is past its end
        └── PairNotYetValidError the certificate is before its begin
"""

from certs._check import LOOK_AHEAD, Finding, Problem, check_ca, check_leaf
from certs._ensure import ensure, renew
from certs._errors import (
    AuthorityError,
    CertsError,
    FolderError,
    LifetimeError,
    LockTimeoutError,
    MissingFileError,
    NameFormatError,
    NotOursError,
    PairError,
    PairExpiredError,
    PairMismatchError,
    PairNotYetValidError,
    UnreadableFileError,
)
from certs._files import reading
from certs._issue import (
    CA_LIFETIME,
    CLOCK_SKEW,
    LEAF_LIFETIME,
    MIN_LIFETIME,
    Authority,
    Pair,
    issue_ca,
    issue_leaf,
)
from certs._names import Address, Names
from certs._renewal import bundle, needs_renewal, renewal_time
from certs._result import Change, Force, Lifetimes, Part, Result
from certs._store import is_managed, load_bundle, load_pair

__all__ = [
    "CA_LIFETIME",
    "CLOCK_SKEW",
    "LEAF_LIFETIME",
    "LOOK_AHEAD",
    "MIN_LIFETIME",
    "Address",
    "Authority",
    "AuthorityError",
    "CertsError",
    "Change",
    "Finding",
    "FolderError",
    "Force",
    "LifetimeError",
    "Lifetimes",
    "LockTimeoutError",
    "MissingFileError",
    "NameFormatError",
    "Names",
    "NotOursError",
    "Pair",
    "PairError",
    "PairExpiredError",
    "PairMismatchError",
    "PairNotYetValidError",
    "Part",
    "Problem",
    "Result",
    "UnreadableFileError",
    "bundle",
    "check_ca",
    "check_leaf",
    "ensure",
    "is_managed",
    "issue_ca",
    "issue_leaf",
    "load_bundle",
    "load_pair",
    "needs_renewal",
    "reading",
    "renew",
    "renewal_time",
]
