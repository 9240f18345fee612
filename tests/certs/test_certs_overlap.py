"""The change from one CA to the next, and what a crash at any moment of it leaves."""

import os
import ssl

import pytest
from certs_helpers import DAY, DNS, IPS, NOW, clock, fine, handshake, key_pem, put_ca, put_pair, snapshot

from certs import (
    CA_LIFETIME,
    Force,
    Names,
    Part,
    Problem,
    ensure,
    issue_ca,
    issue_leaf,
    load_bundle,
    load_pair,
    renew,
    renewal_time,
)

HOST = "webhook.ns.svc"


class Crash(BaseException):
    """Stands for the death of a process: no handler of ordinary errors catches it."""


def aged(folder, now, *, age=CA_LIFETIME * 0.7, leaf_age=10 * DAY):
    """A folder whose CA is of that age now, and whose leaf is in its best years."""
    authority = issue_ca(now=now - age)
    put_ca(folder, authority)
    pair = issue_leaf(authority, Names.parse(DNS, IPS), now=now - leaf_age)
    put_pair(folder, pair.chain, pair.key)
    return authority


def parts(result):
    return [(change.part, [finding.problem for finding in change.why]) for change in result.changed]


def trusts(folder, ca_pem):
    try:
        return handshake(folder, ca_pem, HOST) == "TLSv1.3"
    except ssl.SSLCertVerificationError:
        return False


def test_a_ca_past_two_thirds_of_its_life_signs_a_last_leaf_and_makes_room(tmp_path):
    old = aged(tmp_path, NOW)
    result = ensure(tmp_path, DNS, IPS, now=NOW)
    assert parts(result) == [(Part.LEAF, [Problem.CA_REPLACED]), (Part.CA, [Problem.DUE])]
    new_ca, *former = load_bundle(tmp_path)
    assert former == [old.certificate]
    assert new_ca != old.certificate
    load_pair(tmp_path).leaf.verify_directly_issued_by(old.certificate)
    assert load_pair(tmp_path).leaf.not_valid_after_utc == NOW + 90 * DAY
    assert fine(tmp_path, NOW)


def test_the_new_ca_signs_when_the_last_leaf_of_the_old_one_is_due(tmp_path):
    aged(tmp_path, NOW)
    changed_at = ensure(tmp_path, DNS, IPS, now=NOW).renew_at
    assert changed_at == renewal_time(load_pair(tmp_path).leaf)
    # The whole of this time is there for handing out the new ca.crt.
    assert changed_at - NOW > 59 * DAY
    assert ensure(tmp_path, DNS, IPS, now=changed_at - DAY).changed == ()
    assert parts(ensure(tmp_path, DNS, IPS, now=changed_at)) == [(Part.LEAF, [Problem.DUE])]
    load_pair(tmp_path).leaf.verify_directly_issued_by(load_bundle(tmp_path)[0])


def test_a_leaf_that_is_due_with_its_ca_is_still_signed_by_the_old_one(tmp_path):
    old = aged(tmp_path, NOW, leaf_age=70 * DAY)
    assert parts(renew(tmp_path, now=NOW)) == [(Part.LEAF, [Problem.DUE]), (Part.CA, [Problem.DUE])]
    load_pair(tmp_path).leaf.verify_directly_issued_by(old.certificate)


def test_a_former_ca_leaves_the_bundle_when_it_has_expired_and_not_before(tmp_path):
    old = aged(tmp_path, NOW)
    ensure(tmp_path, DNS, IPS, now=NOW)
    new_ca = load_bundle(tmp_path)[0]
    end = old.certificate.not_valid_after_utc
    for now in (NOW + 70 * DAY, end - DAY):
        ensure(tmp_path, DNS, IPS, now=now)
    assert load_bundle(tmp_path) == (new_ca, old.certificate)
    result = ensure(tmp_path, DNS, IPS, now=end + DAY)
    assert parts(result) == [(Part.BUNDLE, [Problem.EXPIRED])]
    assert load_bundle(tmp_path) == (new_ca,)
    before = snapshot(tmp_path)
    assert ensure(tmp_path, DNS, IPS, now=end + DAY).changed == ()
    assert snapshot(tmp_path) == before


def test_clients_with_the_old_and_with_the_new_file_are_served_through_the_overlap(tmp_path):
    now = clock()
    aged(tmp_path, now)
    old_file = (tmp_path / "ca.crt").read_bytes()
    assert trusts(tmp_path, old_file)
    ensure(tmp_path, DNS, IPS, now=now)
    new_file = (tmp_path / "ca.crt").read_bytes()
    assert new_file != old_file
    assert (trusts(tmp_path, old_file), trusts(tmp_path, new_file)) == (True, True)


def test_after_the_overlap_only_clients_with_the_new_file_are_served(tmp_path):
    now = clock()
    aged(tmp_path, now - 65 * DAY)
    old_file = (tmp_path / "ca.crt").read_bytes()
    ensure(tmp_path, DNS, IPS, now=now - 65 * DAY)
    ensure(tmp_path, DNS, IPS, now=now)
    new_file = (tmp_path / "ca.crt").read_bytes()
    assert (trusts(tmp_path, old_file), trusts(tmp_path, new_file)) == (False, True)


def test_force_has_no_overlap_for_old_clients_but_new_clients_trust_old_servers(tmp_path):
    now = clock()
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    aged(old, now)
    for path in old.iterdir():
        (new / path.name).write_bytes(path.read_bytes())
    renew(new, now=now, force=True)
    old_file, new_file = ((folder / "ca.crt").read_bytes() for folder in (old, new))
    assert not trusts(new, old_file)
    assert trusts(new, new_file)
    assert trusts(old, new_file)


def test_an_expired_ca_leaves_no_overlap(tmp_path):
    aged(tmp_path, NOW, age=CA_LIFETIME + DAY, leaf_age=2 * DAY)
    result = ensure(tmp_path, DNS, IPS, now=NOW)
    assert parts(result) == [(Part.CA, [Problem.EXPIRED]), (Part.LEAF, [Problem.EXPIRED])]
    (ca,) = load_bundle(tmp_path)
    load_pair(tmp_path).leaf.verify_directly_issued_by(ca)


def test_the_leaf_of_a_ca_whose_key_is_lost_serves_on(tmp_path):
    old = aged(tmp_path, NOW, age=10 * DAY)
    (tmp_path / "ca.key").write_bytes(key_pem(issue_ca(now=NOW).key))
    leaf = load_pair(tmp_path).leaf
    assert parts(ensure(tmp_path, DNS, IPS, now=NOW)) == [(Part.CA, [Problem.KEY_MISMATCH])]
    assert load_bundle(tmp_path)[1:] == (old.certificate,)
    assert load_pair(tmp_path).leaf == leaf


def crash_after(monkeypatch, renames):
    """Let the process die at the rename after so many."""
    replace, left = os.replace, [renames]

    def count(source, target):
        if not left[0]:
            raise Crash
        left[0] -= 1
        replace(source, target)

    monkeypatch.setattr("certs._files.os.replace", count)


@pytest.mark.parametrize("renames", range(4))
def test_a_first_start_that_dies_anywhere_is_finished_by_the_next(tmp_path, monkeypatch, renames):
    folder = tmp_path / "certs"
    crash_after(monkeypatch, renames)
    with pytest.raises(Crash):
        ensure(folder, DNS, IPS, now=NOW)
    monkeypatch.undo()
    assert ensure(folder, DNS, IPS, now=NOW).changed
    assert fine(folder, NOW)
    assert ensure(folder, DNS, IPS, now=NOW).changed == ()


@pytest.mark.parametrize("renames", range(4))
def test_a_change_of_the_ca_that_dies_anywhere_is_finished_and_keeps_the_overlap(tmp_path, monkeypatch, renames):
    now = clock()
    aged(tmp_path, now)
    old_file = (tmp_path / "ca.crt").read_bytes()
    crash_after(monkeypatch, renames)
    with pytest.raises(Crash):
        ensure(tmp_path, DNS, IPS, now=now)
    monkeypatch.undo()
    ensure(tmp_path, DNS, IPS, now=now)
    assert fine(tmp_path, now, Names.parse(DNS, IPS))
    assert ensure(tmp_path, DNS, IPS, now=now).changed == ()
    assert len(load_bundle(tmp_path)) == 2
    assert trusts(tmp_path, old_file)
    assert trusts(tmp_path, (tmp_path / "ca.crt").read_bytes())


@pytest.mark.parametrize("force", [Force.RENEW, Force.START_OVER])
@pytest.mark.parametrize("renames", range(4))
def test_a_forced_renewal_that_dies_anywhere_is_mended(tmp_path, monkeypatch, renames, force):
    ensure(tmp_path, DNS, IPS, now=NOW)
    crash_after(monkeypatch, renames)
    with pytest.raises(Crash):
        ensure(tmp_path, DNS, IPS, now=NOW, force=force)
    monkeypatch.undo()
    ensure(tmp_path, DNS, IPS, now=NOW)
    assert fine(tmp_path, NOW)
