from ipaddress import ip_address

import pytest
from certs_helpers import NOW, foreign, foreign_leaf
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import NameFormatError, Names, check_leaf, issue_ca, issue_leaf

AUTHORITY = issue_ca(now=NOW)

labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
hosts = st.lists(labels, min_size=1, max_size=5).map(".".join).filter(lambda name: not name.split(".")[-1].isdigit())
wildcards = hosts.filter(lambda name: "." in name).map("*.{}".format)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("webhook.ns.svc", "webhook.ns.svc"),
        ("WebHook.NS.svc", "webhook.ns.svc"),
        ("localhost", "localhost"),
        ("*.ns.svc", "*.ns.svc"),
        ("1and1.example", "1and1.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a" * 63 + ".example", "a" * 63 + ".example"),
        (".".join(["a"] * 127), ".".join(["a"] * 127)),
    ],
)
def test_a_dns_name_is_taken_in_lower_case(given, plain):
    assert Names.parse([given]).dns == (plain,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (" a", "the label ' a'"),
        ("a..b", "the label ''"),
        (".a", "the label ''"),
        ("a.b.", "it ends with a dot"),
        ("a_b.svc", "the label 'a_b'"),
        ("-a.svc", "the label '-a'"),
        ("a-.svc", "the label 'a-'"),
        ("a\n.svc", "the label 'a\\n'"),
        ("svc\n", "the label 'svc\\n'"),
        ("a" * 64, "the label 'aaa"),
        (".".join(["a"] * 128), "it is longer than 253 characters"),
        ("bücher.example", "it is not ASCII"),
        ("10.0.0.1", "it is an IP address"),
        ("fd00::1", "it is an IP address"),
        ("1.2.3", "its last label is a number"),
        ("http://a.b", "the label 'http://a'"),
        ("*", "a wildcard needs at least two labels"),
        ("*.svc", "a wildcard needs at least two labels"),
        ("a.*.svc", "a wildcard must be the whole first label"),
        ("*a.ns.svc", "a wildcard must be the whole first label"),
        ("*.*.ns.svc", "a wildcard must be the whole first label"),
    ],
)
def test_a_text_that_is_no_dns_name_is_refused_with_its_flaw_in_one_line(text, reason):
    with pytest.raises(NameFormatError) as caught:
        Names.parse([text])
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "10.0.0.0/8", "010.0.0.1", "fd00::1::", "webhook.ns.svc", "fe80::1%eth0"]
)
def test_a_text_that_is_no_address_is_refused(text):
    with pytest.raises(NameFormatError, match=r"IP address|zone"):
        Names.parse((), [text])


def test_no_name_at_all_is_refused():
    with pytest.raises(NameFormatError, match="at least one DNS name or IP address"):
        Names.parse()


@pytest.mark.parametrize("arguments", [("webhook.ns.svc",), ((), "10.0.0.1")])
def test_a_lone_string_is_not_taken_for_a_list_of_letters(arguments):
    with pytest.raises(NameFormatError, match="as lists"):
        Names.parse(*arguments)


def test_doubles_are_dropped_and_the_order_is_kept():
    names = Names.parse(["b.svc", "a.svc", "B.svc"], ["::1", "10.0.0.1", "0:0::1", ip_address("10.0.0.1")])
    assert names == Names(("b.svc", "a.svc"), (ip_address("::1"), ip_address("10.0.0.1")))
    assert str(names) == "b.svc, a.svc, ::1, 10.0.0.1"


@pytest.mark.parametrize(
    ("wanted", "held", "missing"),
    [
        ((["a.ns.svc"], []), (["a.ns.svc"], []), ()),
        ((["a.ns.svc"], []), (["*.ns.svc"], []), ()),
        ((["a.b.ns.svc"], []), (["*.ns.svc"], []), ("a.b.ns.svc",)),
        ((["ns.svc"], []), (["*.ns.svc"], []), ("ns.svc",)),
        ((["*.ns.svc"], []), (["*.ns.svc"], []), ()),
        ((["*.ns.svc"], []), (["a.ns.svc"], []), ("*.ns.svc",)),
        ((["a.svc", "b.svc"], ["::1"]), (["a.svc"], []), ("b.svc", "::1")),
        (([], ["10.0.0.1"]), ([], ["::ffff:10.0.0.1"]), ("10.0.0.1",)),
        (([], ["fd00:0::1"]), (["a.svc"], ["fd00::1"]), ()),
    ],
)
def test_a_name_is_covered_by_itself_or_by_a_wildcard_of_one_label(wanted, held, missing):
    assert Names.parse(*wanted).not_covered_by(Names.parse(*held)) == missing


def test_names_of_a_certificate_leave_out_what_no_client_looks_for():
    san = x509.SubjectAlternativeName(
        [x509.RFC822Name("a@b.c"), x509.DNSName("A.svc"), x509.UniformResourceIdentifier("x:y")]
    )
    assert Names.of(foreign(extensions=[(san, False)])[0]) == Names(("a.svc",), ())


def test_a_certificate_without_names_has_none():
    assert Names.of(foreign_leaf(foreign(), Names())[0]) == Names()


@settings(max_examples=60, deadline=None)
@given(
    dns=st.lists(hosts | wildcards, max_size=4),
    addresses=st.lists(st.ip_addresses(), max_size=3),
)
def test_whatever_is_taken_as_a_name_makes_a_leaf_that_passes_its_own_check(dns, addresses):
    if not dns and not addresses:
        return
    names = Names.parse(dns, addresses)
    pair = issue_leaf(AUTHORITY, names, now=NOW)
    assert Names.of(pair.leaf) == names
    assert check_leaf(pair, [AUTHORITY.certificate], names, now=NOW) == ()
