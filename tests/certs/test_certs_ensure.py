from datetime import datetime, timedelta

import pytest
from certs_helpers import (
    DAY,
    DNS,
    FILES,
    IPS,
    NAMES,
    NOW,
    contents,
    fine,
    foreign,
    key_pem,
    pem,
    put_ca,
    put_pair,
    snapshot,
)
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import (
    CLOCK_SKEW,
    Authority,
    AuthorityError,
    CertsError,
    FolderError,
    Force,
    LifetimeError,
    Lifetimes,
    MissingFileError,
    NameFormatError,
    Names,
    NotOursError,
    PairMismatchError,
    Part,
    Problem,
    UnreadableFileError,
    ensure,
    issue_ca,
    issue_leaf,
    load_bundle,
    load_pair,
    renew,
    renewal_time,
)


@pytest.fixture
def folder(tmp_path):
    """A folder that is in order."""
    ensure(tmp_path / "certs", DNS, IPS, now=NOW)
    return tmp_path / "certs"


def parts(result):
    return [(change.part, [finding.problem for finding in change.why]) for change in result.changed]


def again(folder, now=NOW + DAY, **more):
    return ensure(folder, DNS, IPS, now=now, **more)


def test_an_empty_folder_gets_a_ca_and_a_leaf(tmp_path):
    result = ensure(tmp_path / "certs", DNS, IPS, now=NOW)
    assert parts(result) == [(Part.CA, [Problem.MISSING]), (Part.LEAF, [Problem.MISSING])]
    assert [str(change) for change in result.changed] == [
        "CA (missing: ca.crt)",
        "leaf (missing: tls.crt or tls.key)",
    ]
    assert result.expires == NOW + 90 * DAY
    assert result.renew_at == renewal_time(load_pair(tmp_path / "certs").leaf)
    assert result.managed
    assert result.warnings == ()
    assert fine(tmp_path / "certs", NOW)


def test_a_folder_in_order_is_left_as_it_is_without_a_single_write(folder):
    (folder / ".lock").unlink()
    before = snapshot(folder)
    result = again(folder)
    assert result.changed == ()
    assert snapshot(folder) == before
    assert ".lock" not in before


def test_the_folder_may_be_given_as_text(folder):
    assert again(str(folder)).changed == ()


def flip(path):
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda folder: (folder / "tls.crt").unlink(), [(Part.LEAF, [Problem.MISSING])]),
        (lambda folder: (folder / "tls.key").unlink(), [(Part.LEAF, [Problem.MISSING])]),
        (lambda folder: flip(folder / "tls.crt"), [(Part.LEAF, [Problem.UNREADABLE])]),
        (lambda folder: flip(folder / "tls.key"), [(Part.LEAF, [Problem.UNREADABLE])]),
        (
            lambda folder: (folder / "tls.key").write_bytes(key_pem(issue_ca(now=NOW).key)),
            [(Part.LEAF, [Problem.KEY_MISMATCH])],
        ),
        (
            lambda folder: put_pair(folder, (pair := issue_leaf(issue_ca(now=NOW), NAMES, now=NOW)).chain, pair.key),
            [(Part.LEAF, [Problem.UNTRUSTED])],
        ),
        (
            lambda folder: (folder / "ca.crt").unlink(),
            [(Part.CA, [Problem.MISSING]), (Part.LEAF, [Problem.UNTRUSTED])],
        ),
        (
            lambda folder: flip(folder / "ca.crt"),
            [(Part.CA, [Problem.UNREADABLE]), (Part.LEAF, [Problem.UNTRUSTED])],
        ),
        (
            lambda folder: (folder / "ca.key").write_bytes(key_pem(issue_ca(now=NOW).key)),
            [(Part.CA, [Problem.KEY_MISMATCH])],
        ),
    ],
    ids=[
        "no tls.crt",
        "no tls.key",
        "tls.crt cut",
        "tls.key cut",
        "another tls.key",
        "a pair of another CA",
        "no ca.crt",
        "ca.crt cut",
        "another ca.key",
    ],
)
def test_what_is_damaged_is_made_anew_and_the_rest_is_kept(folder, damage, expected):
    damage(folder)
    assert parts(again(folder)) == expected
    assert fine(folder, NOW + DAY)
    assert again(folder).changed == ()


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (59 * DAY, []),
        (60 * DAY, [(Part.LEAF, [Problem.DUE])]),
        (89 * DAY, [(Part.LEAF, [Problem.DUE])]),
        (91 * DAY, [(Part.LEAF, [Problem.EXPIRED])]),
        (-DAY, [(Part.CA, [Problem.NOT_YET_VALID]), (Part.LEAF, [Problem.NOT_YET_VALID])]),
        (4000 * DAY, [(Part.CA, [Problem.EXPIRED]), (Part.LEAF, [Problem.EXPIRED])]),
    ],
)
def test_what_is_out_of_its_time_is_made_anew(folder, after, expected):
    assert parts(again(folder, now=NOW + after)) == expected
    assert fine(folder, NOW + after)
    assert again(folder, now=NOW + after).changed == ()


def test_an_expired_ca_is_not_kept_in_the_bundle(folder):
    again(folder, now=NOW + 4000 * DAY)
    assert len(load_bundle(folder)) == 1


def test_the_next_call_has_something_to_do_at_the_time_that_is_given_back_and_not_before(folder):
    renew_at = again(folder).renew_at
    assert again(folder, now=renew_at - timedelta(seconds=1)).changed == ()
    assert parts(again(folder, now=renew_at)) == [(Part.LEAF, [Problem.DUE])]


@pytest.mark.parametrize(
    ("dns", "ips", "made"),
    [
        (DNS, IPS, False),
        (DNS[:1], [], False),
        (["any.pods.ns.svc"], [], False),
        ([*DNS, "new.ns.svc"], IPS, True),
        (DNS, [*IPS, "10.0.0.2"], True),
    ],
)
def test_a_leaf_is_made_anew_for_names_it_does_not_cover_and_for_no_others(folder, dns, ips, made):
    result = ensure(folder, dns, ips, now=NOW + DAY)
    assert parts(result) == ([(Part.LEAF, [Problem.NAMES_NOT_COVERED])] if made else [])
    assert fine(folder, NOW + DAY, Names.parse(dns, ips))


def test_lifetimes_can_be_chosen(tmp_path):
    result = ensure(tmp_path, DNS, now=NOW, lifetimes=Lifetimes(ca=20 * DAY, leaf=7 * DAY))
    assert result.expires == NOW + 7 * DAY
    assert load_bundle(tmp_path)[0].not_valid_after_utc == NOW + 20 * DAY


@pytest.mark.parametrize("lifetimes", [{"ca": timedelta(0)}, {"leaf": timedelta(minutes=59)}])
def test_lifetimes_that_are_too_short_are_refused_before_anything_is_written(lifetimes):
    with pytest.raises(LifetimeError):
        Lifetimes(**lifetimes)


@pytest.mark.parametrize(
    ("dns", "now", "error"),
    [([], NOW, NameFormatError), (["a_b"], NOW, NameFormatError), (DNS, datetime(2030, 1, 1), ValueError)],
)
def test_wrong_input_is_refused_before_anything_is_written(tmp_path, dns, now, error):
    with pytest.raises(error):
        ensure(tmp_path / "certs", dns, now=now)
    assert not (tmp_path / "certs").exists()


@pytest.mark.parametrize(("force", "kept"), [(Force.RENEW, 1), (Force.START_OVER, 0)])
def test_with_force_all_is_made_anew(folder, force, kept):
    before, (old_ca,) = contents(folder), load_bundle(folder)
    result = again(folder, force=force)
    assert parts(result) == [(Part.CA, [Problem.FORCED]), (Part.LEAF, [Problem.FORCED])]
    after = contents(folder)
    assert all(before[name] != after[name] for name in FILES)
    new_ca, *former = load_bundle(folder)
    assert former == [old_ca][:kept]
    load_pair(folder).leaf.verify_directly_issued_by(new_ca)


def test_renew_with_nothing_due_writes_nothing(folder):
    before = snapshot(folder)
    assert renew(folder, now=NOW + DAY).changed == ()
    assert snapshot(folder) == before


@pytest.mark.parametrize("force", [False, True])
def test_renew_keeps_the_names_and_the_lifetime_of_the_present_leaf(tmp_path, force):
    ensure(tmp_path, DNS, IPS, now=NOW, lifetimes=Lifetimes(leaf=30 * DAY))
    now = NOW + 25 * DAY
    result = renew(tmp_path, now=now, force=force)
    assert (Part.LEAF, [Problem.FORCED if force else Problem.DUE]) in parts(result)
    leaf = load_pair(tmp_path).leaf
    assert Names.of(leaf) == NAMES
    assert (leaf.not_valid_before_utc, leaf.not_valid_after_utc) == (now - CLOCK_SKEW, now + 30 * DAY)


@pytest.mark.parametrize("damage", ["unlink", "garbage"])
def test_renew_needs_a_present_leaf(folder, damage):
    path = folder / "tls.crt"
    path.unlink() if damage == "unlink" else path.write_bytes(b"garbage")
    with pytest.raises(MissingFileError if damage == "unlink" else UnreadableFileError, match="names could be kept"):
        renew(folder, now=NOW)


def test_renew_mends_a_pair_that_does_not_match(folder):
    (folder / "tls.key").write_bytes(key_pem(issue_ca(now=NOW).key))
    assert parts(renew(folder, now=NOW)) == [(Part.LEAF, [Problem.KEY_MISMATCH])]
    assert fine(folder, NOW)


def test_renew_refuses_a_leaf_without_names(folder):
    certificate, key = foreign()
    put_pair(folder, [certificate], key)
    with pytest.raises(NotOursError, match="no names to keep"):
        renew(folder, now=NOW)


def test_a_loaded_pair_belongs_together(folder):
    assert load_pair(folder).key.public_key() == load_pair(folder).leaf.public_key()
    (folder / "tls.key").write_bytes(key_pem(issue_ca(now=NOW).key))
    with pytest.raises(PairMismatchError, match=r"the key in tls\.key does not belong to the certificate in tls\.crt"):
        load_pair(folder)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("tls.crt", b"", "holds no certificates"),
        ("tls.crt", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "holds no certificates"),
        ("tls.key", b"", "holds no private key"),
        ("tls.key", key_pem(issue_ca(now=NOW).key, b"secret"), "the key is encrypted"),
    ],
)
def test_a_file_that_is_not_the_pem_it_should_be_is_an_error_in_one_line(folder, name, content, error):
    (folder / name).write_bytes(content)
    with pytest.raises(UnreadableFileError, match=error) as caught:
        load_pair(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (key_pem(issue_ca(now=NOW).key, b"secret"), "the key is encrypted"),
        (key_pem(rsa.generate_private_key(65537, 2048)), "not an ECDSA key"),
        (b"garbage", "holds no private key"),
        (b"", "holds no private key"),
    ],
)
@pytest.mark.parametrize("force", list(Force))
def test_a_ca_key_that_was_not_made_here_is_never_overwritten(folder, content, error, force):
    (folder / "ca.key").write_bytes(content)
    before = contents(folder)
    with pytest.raises(NotOursError, match=error):
        again(folder, force=force)
    assert contents(folder) == before


def test_a_ca_that_was_not_made_here_and_cannot_sign_is_never_overwritten(tmp_path):
    certificate, key = foreign(extensions=())
    put_ca(tmp_path, Authority(certificate, key))
    before = snapshot(tmp_path)
    with pytest.raises(NotOursError, match="not a CA: its basic constraints do not say so"):
        again(tmp_path)
    assert (tmp_path / "ca.key").read_bytes() == before["ca.key"][2]
    assert not (tmp_path / "tls.crt").exists()


def test_a_ca_that_the_user_provides_signs_the_leaf(tmp_path):
    certificate, key = foreign()
    put_ca(tmp_path, Authority(certificate, key))
    assert parts(again(tmp_path)) == [(Part.LEAF, [Problem.MISSING])]
    load_pair(tmp_path).leaf.verify_directly_issued_by(certificate)
    assert (tmp_path / "ca.crt").read_bytes() == pem(certificate)


def test_a_ca_whose_leaves_clients_would_refuse_is_told_instead_of_tried_for_ever(tmp_path):
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    limits = x509.NameConstraints(permitted_subtrees=[x509.DNSName("example.org")], excluded_subtrees=None)
    certificate, key = foreign(extensions=[(x509.BasicConstraints(True, 0), True), (usage, True), (limits, True)])
    put_ca(tmp_path, Authority(certificate, key))
    with pytest.raises(AuthorityError, match="clients refuse what this CA signs"):
        again(tmp_path)
    assert not (tmp_path / "tls.crt").exists()
    assert ensure(tmp_path, ["webhook.example.org"], now=NOW).changed


def test_a_folder_that_cannot_be_written_is_an_error_in_one_line(folder, monkeypatch):
    def refuse(*_args, **_options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("certs._files.tempfile.mkstemp", refuse)
    before = contents(folder)
    with pytest.raises(FolderError, match="cannot write it: Read-only file system"):
        again(folder, now=NOW + 70 * DAY)
    assert contents(folder) == before


@pytest.mark.parametrize("lost", ["save_pair", "save_bundle"])
def test_files_that_do_not_stay_as_they_were_written_are_an_error(tmp_path, monkeypatch, lost):
    monkeypatch.setattr(f"certs._ensure.{lost}", lambda *_: None)
    with pytest.raises(FolderError, match="someone else changes the files there"):
        again(tmp_path)


NOISE = st.binary(max_size=40) | st.sampled_from(
    [None, pem(issue_ca(now=NOW).certificate), key_pem(issue_ca(now=NOW).key)]
)


@settings(max_examples=40, deadline=None)
@given(damage=st.dictionaries(st.sampled_from(FILES), NOISE), days=st.integers(-5, 4500))
def test_after_any_damage_a_folder_comes_back_in_order_or_is_refused_and_left_alone(tmp_path_factory, damage, days):
    folder = tmp_path_factory.mktemp("damaged")
    now = NOW + days * DAY
    ensure(folder, DNS, IPS, now=NOW)
    for name, content in damage.items():
        (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    key = damage.get("ca.key", b"")
    has_others = any((folder / name).exists() for name in FILES if name != "ca.key")
    is_ours = "ca.key" not in damage or (key is None and not has_others) or (key or b"").startswith(b"-----BEGIN PRIV")
    before = snapshot(folder)
    try:
        ensure(folder, DNS, IPS, now=now)
    except CertsError as error:
        refusal = str(error)
    else:
        refusal = ""
    if is_ours:
        assert refusal == ""
        assert fine(folder, now)
        assert ensure(folder, DNS, IPS, now=now).changed == ()
    else:
        assert "\n" not in refusal
        assert snapshot(folder) == before
