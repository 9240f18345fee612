"""Bringing a folder in order: makes what is missing, renews what is due, and never touches what is the user's.

How a CA is replaced without a client noticing. A client that holds only the old ca.crt cannot verify what the new CA
signs, and the old CA, with path length 0, cannot vouch for the new one. So the change takes two steps::

    CA past 2/3 of its life                 leaf past 2/3 of its life
    ───────┬──────────────────────────────────────────┬──────────────────────────────▶ time
           │ the old CA signs a last, fresh leaf      │ the new CA signs the next leaf
           │ ca.crt becomes: new CA, old CA           │
           │                                          │
           │◀── both the old and the new ca.crt ─────▶│◀── only the new ca.crt works
           │    work: hand out the new one            │

With leaves of 90 days the overlap is 60 days. It is cut short when the leaf has to be made anew for another reason,
such as a new DNS name, and there is none when the old CA can no longer sign (expired, its key lost) or with `force`.

What a crash leaves. Each file is replaced as a whole, and in an order in which the next call finds out what is missing:
ca.key, ca.crt, tls.key, tls.crt. A new ca.key next to an old ca.crt, or a new tls.key next to an old tls.crt, do not
belong together, and are made anew.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path

from cryptography import x509

from certs._check import Finding, Problem, check_leaf
from certs._errors import AuthorityError, FolderError, MissingFileError, NotOursError, UnreadableFileError
from certs._files import make_folder, writing
from certs._issue import CLOCK_SKEW, MIN_LIFETIME, Authority, issue_ca, issue_leaf
from certs._names import Address, Names
from certs._plan import View, look, look_at_leaf
from certs._renewal import bundle, renewal_time, utc
from certs._result import DEFAULT_LIFETIMES, Change, Force, Lifetimes, Part, Result
from certs._store import (
    CA_CERTIFICATE,
    CA_KEY,
    TLS_CERTIFICATE,
    is_managed,
    load_chain,
    save_bundle,
    save_ca_key,
    save_pair,
    tidy,
)
from certs._user import inspect

_FORCED = (Finding(Problem.FORCED),)


def ensure(
    folder: str | PathLike[str],
    dns_names: Iterable[str] = (),
    addresses: Iterable[str | Address] = (),
    *,
    now: datetime,
    lifetimes: Lifetimes = DEFAULT_LIFETIMES,
    force: Force = Force.NO,
) -> Result:
    """See to it that a folder holds a CA and a pair that a server with these names can use.

    A leaf that covers the names and more is fine. Where all is fine nothing is written, not even a lock file, so the
    folder may be read-only then. Several processes may call this at once: one makes the files, the others find them.

    Args:
        folder: where the four files are; made, for its owner only, when missing.
        dns_names, addresses: what clients call the server; the first label of a name may be a wildcard.
        now: the present moment, with a time zone.
        lifetimes: how long what is made lives.
        force: what to do when all is fine; anything but `Force.NO` is refused when the files are the user's.

    Raises:
        NameFormatError: a name or an address is malformed, or there are none.
        PairError: the user's pair is of no use: mismatch, expired, not valid yet.
        NotOursError: files of the user would have to be overwritten.
        AuthorityError: the CA in the folder is from elsewhere, and does not let its leaves have these names.
        FolderError: a file cannot be read or written, is missing from the user's pair, or the lock is not to be had;
            a pair that is merely due for renewal is still there and good then.
        ValueError: `now` has no time zone.
    """
    folder, now = Path(folder), utc(now)
    names = Names.parse(dns_names, addresses)
    if is_managed(folder):
        return _manage(_Maker(folder, names, lifetimes, now), force)
    if force is not Force.NO:
        raise NotOursError(f"{folder}: there is no {CA_KEY}, so the files there are the user's, and are left alone")
    return inspect(folder, names, now)


def renew(folder: str | PathLike[str], *, now: datetime, force: bool = False) -> Result:
    """Renew what is due, with the names and the lifetime of the present leaf.

    With `force` all is made anew at once, and the new leaf is signed by the new CA: clients need the new ca.crt.

    Raises:
        NotOursError: the files are the user's.
        MissingFileError, UnreadableFileError: there is no present leaf.
        CertsError: as for `ensure`.
    """
    folder, now = Path(folder), utc(now)
    if not is_managed(folder):
        raise NotOursError(f"{folder}: there is no {CA_KEY}, so the files there are the user's to renew")
    try:
        leaf = load_chain(folder)[0]
    except (MissingFileError, UnreadableFileError) as error:
        raise type(error)(f"{error}, so there is nothing whose names could be kept") from error
    names = Names.of(leaf)
    if not names.general_names():
        raise NotOursError(f"{folder / TLS_CERTIFICATE}: it has no names to keep, so it was not made here")
    lifetime = leaf.not_valid_after_utc - leaf.not_valid_before_utc - CLOCK_SKEW
    maker = _Maker(folder, names, Lifetimes(leaf=max(lifetime, MIN_LIFETIME)), now)
    return _manage(maker, Force.RENEW if force else Force.NO)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes what is asked for in a managed folder; for the holder of the lock."""

    folder: Path
    names: Names
    lifetimes: Lifetimes
    now: datetime

    def look(self) -> View:
        return look(self.folder, self.names, self.now)

    def make(self, view: View, force: Force) -> tuple[Change, ...]:
        """Make what the view finds wanting, or everything."""
        if force is not Force.NO:
            former = view.trusted if force is Force.RENEW else ()
            authority, ca = self._make_ca(former, _FORCED)
            return ca, self._make_leaf(authority, _FORCED)
        if view.ca_findings:
            return self._replace_ca(view)
        if view.leaf_findings and view.authority:
            return (*self._prune(view), self._make_leaf(view.authority, view.leaf_findings))
        return self._prune(view)

    def _replace_ca(self, view: View) -> tuple[Change, ...]:
        if view.authority:
            # It is due but can sign: see the picture at the top.
            why = view.leaf_findings or (Finding(Problem.CA_REPLACED),)
            last = self._make_leaf(view.authority, why)
            return last, self._make_ca(view.trusted, view.ca_findings)[1]
        authority, ca = self._make_ca(view.trusted, view.ca_findings)
        trusted = bundle(authority.certificate, view.trusted, self.now)
        # The leaf of a CA that is lost is as good as before while the old certificate is in the bundle.
        _, findings = look_at_leaf(self.folder, trusted, self.names, self.now)
        return (ca, self._make_leaf(authority, findings)) if findings else (ca,)

    def _make_ca(self, former: tuple[x509.Certificate, ...], why: tuple[Finding, ...]) -> tuple[Authority, Change]:
        authority = issue_ca(now=self.now, lifetime=self.lifetimes.ca)
        # The key first: its presence says that the folder is managed.
        save_ca_key(self.folder, authority.key)
        save_bundle(self.folder, bundle(authority.certificate, former, self.now))
        return authority, Change(Part.CA, why)

    def _make_leaf(self, authority: Authority, why: tuple[Finding, ...]) -> Change:
        pair = issue_leaf(authority, self.names, now=self.now, lifetime=self.lifetimes.leaf)
        # A CA from elsewhere may have name constraints and the like; without this each call would make another leaf.
        if findings := check_leaf(pair, (authority.certificate,), self.names, now=self.now):
            raise AuthorityError(f"{self.folder / CA_CERTIFICATE}: clients refuse what this CA signs: {findings[0]}")
        save_pair(self.folder, pair)
        return Change(Part.LEAF, why)

    def _prune(self, view: View) -> tuple[Change, ...]:
        if view.kept == view.trusted:
            return ()
        save_bundle(self.folder, view.kept)
        return (Change(Part.BUNDLE, (Finding(Problem.EXPIRED, "former CA dropped"),)),)


def _manage(maker: _Maker, force: Force) -> Result:
    changed: tuple[Change, ...] = ()
    view = maker.look()
    if force is not Force.NO or not view.fine:
        make_folder(maker.folder)
        with writing(maker.folder):
            tidy(maker.folder)
            # Once more, because another process may have made it all while this one waited for the lock.
            changed = maker.make(maker.look(), force)
            view = maker.look()
    if view.leaf is None or view.authority is None:
        raise FolderError(f"{maker.folder}: someone else changes the files there")
    renew_at = min(renewal_time(view.leaf), renewal_time(view.authority.certificate))
    return Result(changed, view.leaf.not_valid_after_utc, renew_at)
