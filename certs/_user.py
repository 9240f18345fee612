"""A pair that the user provides: it is looked at, and nothing is ever written."""

from datetime import datetime
from pathlib import Path

from cryptography import x509

from certs._check import Finding, Problem, check_leaf
from certs._errors import MissingFileError, PairExpiredError, PairNotYetValidError, UnreadableFileError
from certs._names import Names
from certs._renewal import renewal_time
from certs._result import Result
from certs._store import CA_CERTIFICATE, CA_KEY, TLS_CERTIFICATE, load_bundle, load_pair

_USELESS = {Problem.EXPIRED: PairExpiredError, Problem.NOT_YET_VALID: PairNotYetValidError}


def inspect(folder: Path, names: Names, now: datetime) -> Result:
    """What there is to say about the user's pair.

    What makes it useless to every client is raised. The rest comes as warnings, since some clients may well be content:
    they may use other names than those given here, or trust another CA than that in ca.crt.

    Raises:
        PairError: mismatch, expired, not valid yet.
        FolderError: a file is missing or cannot be read.
    """
    try:
        pair = load_pair(folder)
    except MissingFileError as error:
        raise MissingFileError(f"{error}, and as there is no {CA_KEY} the folder is the user's to complete") from error
    trusted, warnings = _load_trusted(folder)
    findings = check_leaf(pair, trusted, names, now=now)
    for finding in findings:
        if useless := _USELESS.get(finding.problem):
            raise useless(f"{folder / TLS_CERTIFICATE}: {finding}; there is no {CA_KEY}, so it is the user's to renew")
    leaf = pair.leaf
    return Result((), leaf.not_valid_after_utc, renewal_time(leaf), managed=False, warnings=warnings + findings)


def _load_trusted(folder: Path) -> tuple[tuple[x509.Certificate, ...], tuple[Finding, ...]]:
    try:
        return load_bundle(folder), ()
    except MissingFileError:
        # Clients may know the CA from elsewhere, a public one for example.
        return (), ()
    except UnreadableFileError:
        return (), (Finding(Problem.UNREADABLE, CA_CERTIFICATE),)
