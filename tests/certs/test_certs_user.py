"""A pair that the user provides is looked at and never written."""

import pytest
from certs_helpers import DAY, DNS, FILES, IPS, NOW, foreign, foreign_leaf, key_pem, pem, put_pair, snapshot
from cryptography.hazmat.primitives.asymmetric import rsa

from certs import (
    Force,
    MissingFileError,
    Names,
    NotOursError,
    PairError,
    PairExpiredError,
    PairMismatchError,
    PairNotYetValidError,
    Problem,
    UnreadableFileError,
    _store,
    ensure,
    is_managed,
    renew,
    renewal_time,
)

CA = foreign()
LEAF, KEY = foreign_leaf(CA, end=NOW + 60 * DAY)


@pytest.fixture
def folder(tmp_path):
    put_pair(tmp_path, [LEAF], KEY)
    return tmp_path


def outcome(folder, now=NOW, dns=DNS, **more):
    """What ensure gives back, after a proof that it wrote nothing."""
    before = snapshot(folder)
    try:
        return ensure(folder, dns, IPS, now=now, **more)
    finally:
        assert snapshot(folder) == before


def problems(result):
    return [finding.problem for finding in result.warnings]


@pytest.mark.parametrize("ca", [True, False])
def test_a_good_pair_is_left_alone(folder, ca):
    if ca:
        (folder / "ca.crt").write_bytes(pem(CA[0]))
    result = outcome(folder)
    assert (result.changed, result.warnings, result.managed) == ((), (), False)
    assert (result.expires, result.renew_at) == (LEAF.not_valid_after_utc, renewal_time(LEAF))


def test_a_pair_past_two_thirds_of_its_life_is_left_alone_and_told_by_its_time(folder):
    now = NOW + 50 * DAY
    assert outcome(folder, now=now).renew_at < now


def test_a_pair_with_an_rsa_key_and_an_intermediate_ca_is_left_alone(tmp_path):
    leaf, key = foreign_leaf(CA, key=rsa.generate_private_key(65537, 2048))
    put_pair(tmp_path, [leaf, CA[0]], key)
    assert outcome(tmp_path).warnings == ()


@pytest.mark.parametrize(
    ("now", "error", "text"),
    [
        (NOW + 61 * DAY, PairExpiredError, "expired: it ends 2030-07-16 12:00:00 UTC"),
        (NOW - 31 * DAY, PairNotYetValidError, "not valid yet: it begins 2030-04-17 12:00:00 UTC"),
    ],
)
def test_a_pair_out_of_its_time_is_an_error_that_says_whose_it_is_to_renew(folder, now, error, text):
    with pytest.raises(error, match=text) as caught:
        outcome(folder, now=now)
    assert "it is the user's to renew" in str(caught.value)
    assert isinstance(caught.value, PairError)


def test_a_pair_that_does_not_match_is_an_error(folder):
    (folder / "tls.key").write_bytes(key_pem(CA[1]))
    with pytest.raises(PairMismatchError, match="does not belong"):
        outcome(folder)


@pytest.mark.parametrize(
    ("keep", "missing"),
    [(["tls.crt"], "tls.key"), (["tls.key"], "tls.crt"), (["ca.crt"], "tls.crt"), (["ca.crt", "tls.crt"], "tls.key")],
)
def test_a_pair_of_which_a_half_is_missing_is_not_completed(folder, keep, missing):
    (folder / "ca.crt").write_bytes(pem(CA[0]))
    for path in list(folder.iterdir()):
        if path.name not in keep:
            path.unlink()
    with pytest.raises(MissingFileError, match=rf"{missing}: there is no such file, and as there is no ca\.key"):
        outcome(folder)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_a_half_that_is_unreadable_is_an_error(folder, name):
    (folder / name).write_bytes(b"garbage")
    with pytest.raises(UnreadableFileError, match=name):
        outcome(folder)


def test_what_only_some_clients_mind_is_a_warning(folder):
    assert problems(outcome(folder, dns=[*DNS, "other.svc"])) == [Problem.NAMES_NOT_COVERED]
    (folder / "ca.crt").write_bytes(pem(foreign()[0]))
    assert problems(outcome(folder)) == [Problem.UNTRUSTED]
    (folder / "ca.crt").write_bytes(b"")
    assert problems(outcome(folder)) == [Problem.UNREADABLE]


def test_a_leaf_without_server_auth_is_a_warning(tmp_path):
    leaf, key = foreign_leaf(CA, extensions=())
    put_pair(tmp_path, [leaf], key)
    assert problems(outcome(tmp_path)) == [Problem.NO_SERVER_AUTH]


def test_a_self_signed_pair_is_as_good(tmp_path):
    leaf, key = foreign_leaf(None)
    put_pair(tmp_path, [leaf], key)
    (tmp_path / "ca.crt").write_bytes(pem(leaf))
    assert outcome(tmp_path).warnings == ()


def test_a_name_in_the_certificate_that_is_no_host_makes_no_crash(tmp_path):
    leaf, key = foreign_leaf(CA, Names(("under_score.svc", *DNS)))
    put_pair(tmp_path, [leaf], key)
    (tmp_path / "ca.crt").write_bytes(pem(CA[0]))
    result = ensure(tmp_path, DNS, now=NOW)
    assert problems(result) == [Problem.UNTRUSTED]
    assert "invalid domain name" in str(result.warnings[0])


@pytest.mark.parametrize("force", [Force.RENEW, Force.START_OVER])
def test_force_does_not_overwrite_it_either(folder, force):
    with pytest.raises(NotOursError, match="left alone"):
        outcome(folder, force=force)


@pytest.mark.parametrize("force", [False, True])
def test_renew_refuses_it(folder, force):
    before = snapshot(folder)
    with pytest.raises(NotOursError, match="the user's to renew"):
        renew(folder, now=NOW, force=force)
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("files", "managed"),
    [
        ([], True),
        (["ca.key"], True),
        (["ca.key", "ca.crt"], True),
        (["ca.key", "tls.crt", "tls.key"], True),
        (["ca.crt"], False),
        (["tls.crt"], False),
        (["tls.key"], False),
        (["notes.txt"], True),
    ],
)
def test_a_folder_is_managed_where_ca_key_is_or_nothing_yet(tmp_path, files, managed):
    for name in files:
        (tmp_path / name).write_text("")
    assert is_managed(tmp_path) is managed


@pytest.mark.parametrize("moment", range(1, 5))
def test_files_that_another_process_makes_meanwhile_are_not_taken_for_the_users(tmp_path, monkeypatch, moment):
    looks = []

    def look(path):
        looks.append(path.name)
        if len(looks) == moment:
            for name in FILES:
                (tmp_path / name).write_text("")
        return path.exists()

    monkeypatch.setattr(_store, "exists", look)
    assert is_managed(tmp_path)
