from datetime import datetime, timedelta

import pytest
from certs_helpers import DAY, NAMES, NOW, foreign
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import (
    CA_LIFETIME,
    CLOCK_SKEW,
    LEAF_LIFETIME,
    MIN_LIFETIME,
    Authority,
    AuthorityError,
    LifetimeError,
    check_leaf,
    issue_ca,
    issue_leaf,
)

AUTHORITY = issue_ca(now=NOW)
PAIR = issue_leaf(AUTHORITY, NAMES, now=NOW)
USAGES = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
USAGES += ("key_cert_sign", "crl_sign")


def extensions(certificate):
    return {type(extension.value): (extension.critical, extension.value) for extension in certificate.extensions}


def usages(certificate):
    critical, value = extensions(certificate)[x509.KeyUsage]
    return critical, {usage for usage in USAGES if getattr(value, usage)}


def test_a_ca_may_sign_leaves_but_no_other_ca():
    found = extensions(AUTHORITY.certificate)
    assert found[x509.BasicConstraints] == (True, x509.BasicConstraints(ca=True, path_length=0))
    assert usages(AUTHORITY.certificate) == (True, {"key_cert_sign", "crl_sign"})


def test_a_leaf_is_for_servers_and_signs_no_certificates():
    found = extensions(PAIR.leaf)
    assert found[x509.BasicConstraints] == (True, x509.BasicConstraints(ca=False, path_length=None))
    assert usages(PAIR.leaf) == (True, {"digital_signature"})
    assert found[x509.ExtendedKeyUsage] == (False, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]))
    assert found[x509.SubjectAlternativeName] == (False, x509.SubjectAlternativeName(NAMES.general_names()))


@pytest.mark.parametrize("certificate", [AUTHORITY.certificate, PAIR.leaf], ids=["ca", "leaf"])
def test_key_identifiers_lead_from_the_leaf_to_its_ca_and_from_the_ca_to_itself(certificate):
    ca_id = x509.SubjectKeyIdentifier.from_public_key(AUTHORITY.key.public_key())
    own_id = x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())
    found = extensions(certificate)
    assert found[x509.SubjectKeyIdentifier] == (False, own_id)
    critical, authority = found[x509.AuthorityKeyIdentifier]
    assert (critical, authority.key_identifier) == (False, ca_id.digest)
    assert certificate.issuer == AUTHORITY.certificate.subject


@pytest.mark.parametrize("certificate", [AUTHORITY.certificate, PAIR.leaf], ids=["ca", "leaf"])
def test_a_certificate_is_signed_by_the_ca_with_ecdsa_on_p256_and_sha256(certificate):
    assert isinstance(certificate.public_key().curve, ec.SECP256R1)
    assert isinstance(certificate.signature_hash_algorithm, hashes.SHA256)
    certificate.verify_directly_issued_by(AUTHORITY.certificate)


def test_the_keys_belong_to_the_certificates():
    assert AUTHORITY.key.public_key() == AUTHORITY.certificate.public_key()
    assert PAIR.key.public_key() == PAIR.leaf.public_key()


@pytest.mark.parametrize(
    ("certificate", "lifetime"),
    [(AUTHORITY.certificate, CA_LIFETIME), (PAIR.leaf, LEAF_LIFETIME)],
    ids=["ca", "leaf"],
)
def test_a_certificate_begins_a_little_before_now_and_lives_its_lifetime_from_now(certificate, lifetime):
    assert certificate.not_valid_before_utc == NOW - CLOCK_SKEW
    assert certificate.not_valid_after_utc == NOW + lifetime


def test_serials_and_keys_are_never_the_same_twice():
    made = [issue_ca(now=NOW).certificate for _ in range(5)]
    made += [issue_leaf(AUTHORITY, NAMES, now=NOW).leaf for _ in range(5)]
    assert len({certificate.serial_number for certificate in made}) == 10
    assert len({extensions(certificate)[x509.SubjectKeyIdentifier][1] for certificate in made}) == 10
    # 20 octets are the most that RFC 5280 allows; a counter or a timestamp would be far below.
    assert all(100 < certificate.serial_number.bit_length() < 160 for certificate in made)


def test_no_two_cas_have_the_same_name():
    assert issue_ca(now=NOW).certificate.subject != AUTHORITY.certificate.subject


@settings(max_examples=60, deadline=None)
@given(
    ca_life=st.timedeltas(MIN_LIFETIME, 4000 * DAY),
    leaf_life=st.timedeltas(MIN_LIFETIME, 4000 * DAY),
    share=st.floats(0, 1),
)
def test_a_leaf_never_outlives_its_ca(ca_life, leaf_life, share):
    authority = issue_ca(now=NOW, lifetime=ca_life)
    later = NOW + share * ca_life
    ca, leaf = authority.certificate, issue_leaf(authority, NAMES, now=later, lifetime=leaf_life).leaf
    assert ca.not_valid_before_utc <= leaf.not_valid_before_utc <= later
    assert leaf.not_valid_after_utc <= ca.not_valid_after_utc
    # It is cut short only by the end of its CA.
    assert leaf.not_valid_after_utc == min(
        (later.replace(microsecond=0) + leaf_life).replace(microsecond=0), ca.not_valid_after_utc
    )


@pytest.mark.parametrize(
    ("later", "refused"),
    [
        (-CLOCK_SKEW - timedelta(seconds=1), True),
        (-CLOCK_SKEW, False),
        (10 * DAY, False),
        (10 * DAY + timedelta(seconds=1), True),
    ],
)
def test_a_ca_signs_in_its_own_time_only(later, refused):
    authority = issue_ca(now=NOW, lifetime=10 * DAY)
    if refused:
        with pytest.raises(AuthorityError, match="cannot sign"):
            issue_leaf(authority, NAMES, now=NOW + later)
    else:
        leaf = issue_leaf(authority, NAMES, now=NOW + later).leaf
        leaf.verify_directly_issued_by(authority.certificate)


@pytest.mark.parametrize(
    "lifetime", [timedelta(0), -DAY, MIN_LIFETIME - timedelta(seconds=1), timedelta(days=3_000_000)]
)
def test_a_lifetime_out_of_reason_is_refused(lifetime):
    with pytest.raises(LifetimeError, match="lifetime of"):
        issue_ca(now=NOW, lifetime=lifetime)
    with pytest.raises(LifetimeError, match="lifetime of"):
        issue_leaf(AUTHORITY, NAMES, now=NOW, lifetime=lifetime)


def test_a_moment_without_a_time_zone_is_refused():
    with pytest.raises(ValueError, match="time zone"):
        issue_ca(now=datetime(2030, 1, 1))


def test_a_leaf_of_a_ca_from_elsewhere_names_the_key_identifier_which_that_ca_states():
    key = ec.generate_private_key(ec.SECP256R1())
    stated = x509.SubjectKeyIdentifier(b"of another kind")
    made, _ = foreign(key=key)
    builder = x509.CertificateBuilder(
        made.issuer, made.subject, made.public_key(), 1, made.not_valid_before_utc, made.not_valid_after_utc
    )
    for extension in made.extensions:
        value = stated if isinstance(extension.value, x509.SubjectKeyIdentifier) else extension.value
        builder = builder.add_extension(value, extension.critical)
    authority = Authority(builder.sign(key, hashes.SHA256()), key)
    pair = issue_leaf(authority, NAMES, now=NOW)
    assert extensions(pair.leaf)[x509.AuthorityKeyIdentifier][1].key_identifier == stated.digest
    assert check_leaf(pair, [authority.certificate], NAMES, now=NOW) == ()
