from datetime import timedelta

import pytest
from certs_helpers import DAY, NAMES, NOW, foreign, foreign_leaf
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs import LOOK_AHEAD, Names, Pair, Problem, check_ca, check_leaf, issue_ca, issue_leaf

SECOND = timedelta(seconds=1)
AUTHORITY = issue_ca(now=NOW)
CA = AUTHORITY.certificate
PAIR = issue_leaf(AUTHORITY, NAMES, now=NOW, lifetime=30 * DAY)
BEGIN, END = PAIR.leaf.not_valid_before_utc, PAIR.leaf.not_valid_after_utc
ISSUER = (CA, AUTHORITY.key)
KEY_USAGE = x509.KeyUsage(True, False, False, False, False, False, False, False, False)


def problems(findings):
    return [finding.problem for finding in findings]


def check(pair=PAIR, trusted=(CA,), names=NAMES, now=NOW, **more):
    return problems(check_leaf(pair, trusted, names, now=now, **more))


def foreign_pair(issuer=ISSUER, names=NAMES, **more):
    certificate, key = foreign_leaf(issuer, names, **{"begin": NOW - 2 * SECOND, "end": NOW + DAY, **more})
    return Pair((certificate,), key)


def usage(*purposes):
    return ((x509.ExtendedKeyUsage(purposes), False),)


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (PAIR, []),
        (foreign_pair(), []),
        (Pair(PAIR.chain, issue_ca(now=NOW).key), [Problem.KEY_MISMATCH]),
        (foreign_pair(extensions=()), [Problem.NO_SERVER_AUTH]),
        (foreign_pair(names=Names()), [Problem.NAMES_NOT_COVERED, Problem.UNTRUSTED]),
        (foreign_pair(names=Names.parse(["webhook.ns.svc"])), [Problem.NAMES_NOT_COVERED]),
        (foreign_pair(foreign()), [Problem.UNTRUSTED]),
        (foreign_pair((CA, foreign()[1])), [Problem.UNTRUSTED]),
        (foreign_pair((PAIR.leaf, PAIR.key)), [Problem.UNTRUSTED]),
        (foreign_pair(end=NOW - SECOND), [Problem.EXPIRED]),
        (foreign_pair(begin=NOW + SECOND), [Problem.NOT_YET_VALID]),
        (foreign_pair(end=NOW + LOOK_AHEAD - SECOND), [Problem.EXPIRES_SOON]),
    ],
    ids=[
        "issued here",
        "made elsewhere",
        "another key",
        "no extended key usage",
        "no names",
        "names missing",
        "another CA",
        "the name of the CA but not its signature",
        "signed by a leaf",
        "expired",
        "not valid yet",
        "expires soon",
    ],
)
def test_a_leaf_is_checked_for_all_that_a_client_asks_for(pair, expected):
    assert check(pair) == expected


def test_a_leaf_for_clients_only_is_not_for_servers():
    pair = foreign_pair(extensions=usage(ExtendedKeyUsageOID.CLIENT_AUTH))
    assert check(pair, trusted=()) == [Problem.NO_SERVER_AUTH]
    both = foreign_pair(extensions=usage(ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH))
    assert check(both) == []


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (BEGIN - SECOND, [Problem.NOT_YET_VALID]),
        (BEGIN, []),
        (END - LOOK_AHEAD, []),
        (END - LOOK_AHEAD + SECOND, [Problem.EXPIRES_SOON]),
        (END, [Problem.EXPIRES_SOON]),
        (END + SECOND, [Problem.EXPIRED]),
    ],
)
def test_a_leaf_must_be_good_now_and_for_a_while(now, expected):
    assert check(now=now) == expected


def test_how_long_a_leaf_must_stay_good_can_be_chosen():
    assert check(now=END - DAY, look_ahead=DAY) == []
    assert check(now=END - DAY, look_ahead=DAY + SECOND) == [Problem.EXPIRES_SOON]


def test_a_ca_that_ends_before_its_leaf_fails_the_chain_ahead_of_time():
    key = ec.generate_private_key(ec.SECP256R1())
    ca, _ = foreign(key=key, end=NOW + LOOK_AHEAD / 2)
    assert check(foreign_pair((ca, key)), trusted=(ca,)) == [Problem.UNTRUSTED]
    assert check(foreign_pair((ca, key)), trusted=(ca,), look_ahead=LOOK_AHEAD / 4) == []


def test_any_ca_of_the_bundle_will_do():
    others = [issue_ca(now=NOW).certificate for _ in range(2)]
    assert check(trusted=(*others, CA)) == []
    assert check(trusted=others) == [Problem.UNTRUSTED]


def test_without_trusted_cas_the_chain_is_not_looked_at():
    assert check(foreign_pair(foreign()), trusted=()) == []


def test_a_chain_may_lead_over_an_intermediate_ca():
    root_usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    extensions = [(x509.BasicConstraints(ca=True, path_length=1), True), (root_usage, True)]
    root = foreign(extensions=extensions, name="root")
    middle = foreign(issuer=root, name="middle")
    leaf, key = foreign_leaf(middle)
    assert check(Pair((leaf, middle[0]), key), trusted=(root[0],)) == []
    assert check(Pair((leaf,), key), trusted=(root[0],)) == [Problem.UNTRUSTED]


def test_a_self_signed_certificate_is_trusted_when_it_is_its_own_ca():
    leaf, key = foreign_leaf(None)
    assert check(Pair((leaf,), key), trusted=(leaf,)) == []
    assert check(Pair((leaf,), key), trusted=(CA,)) == [Problem.UNTRUSTED]


def test_a_leaf_with_an_rsa_key_is_as_good():
    assert check(foreign_pair(key=rsa.generate_private_key(65537, 2048))) == []


def test_a_finding_names_what_is_missing_and_when_it_ended():
    text = "; ".join(map(str, check_leaf(PAIR, [CA], Names.parse(["x.svc"], ["::2"]), now=NOW + 31 * DAY)))
    assert text == "not for all names: x.svc, ::2 not in it; expired: it ends 2030-06-16 12:00:00 UTC"


@pytest.mark.parametrize(
    ("ca", "key", "now", "expected"),
    [
        (CA, AUTHORITY.key, NOW, []),
        (CA, None, NOW, []),
        (CA, PAIR.key, NOW, [Problem.KEY_MISMATCH]),
        (PAIR.leaf, PAIR.key, NOW, [Problem.NOT_A_CA]),
        (CA, None, NOW - DAY, [Problem.NOT_YET_VALID]),
        (CA, None, NOW + 3651 * DAY, [Problem.EXPIRED]),
        (CA, None, NOW + 3650 * DAY, [Problem.EXPIRES_SOON]),
        (foreign(extensions=())[0], None, NOW, [Problem.NOT_A_CA]),
        (foreign(extensions=[(x509.BasicConstraints(True, 0), True)])[0], None, NOW, [Problem.NOT_A_CA]),
        (
            foreign(extensions=[(x509.BasicConstraints(True, 0), True), (KEY_USAGE, True)])[0],
            None,
            NOW,
            [Problem.NOT_A_CA],
        ),
    ],
)
def test_a_ca_is_checked_for_all_that_it_needs_to_sign(ca, key, now, expected):
    assert problems(check_ca(ca, key, now=now)) == expected
