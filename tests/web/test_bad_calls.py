"""Calls that are no reviews: each gets one clear line, and the next call is served as if nothing had been."""

import contextlib
import gzip
import json
import re
import socket
import ssl
import struct
import time

import pytest

from tests.standalone.manifests import amounts, create, file_of, limit_range, namespace, pod, quota, review
from tests.standalone.server import Reply, ServerProcess, eventually
from tests.web.answers import judged, patch_of
from tests.web.mutations import removed, replaced

POLICIES = {
    "policies.yaml": file_of(
        namespace(),
        quota("q", "pods=100k requests.cpu=1M"),
        namespace("defaulted"),
        limit_range("limits", ns="defaulted", default="cpu=2 memory=1Gi", defaultRequest="cpu=1"),
        namespace("bounded"),
        limit_range("limits", ns="bounded", max="cpu=1"),
        quota("small", "requests.cpu=1", ns="small"),
    )
}
MIB = 2**20
VALID = create(pod(requests="cpu=1", metadata={"labels": {"a": "b"}}))
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server():
    with ServerProcess(POLICIES) as running:
        yield running


@pytest.fixture(autouse=True)
def goes_on(server):
    """Whatever a test sends: no error, no traceback, and the next is served."""
    before = server.errors(), server.log().count("Traceback")
    yield
    connection = server.new_connection()
    connection.request("POST", "/validate", encoded(create(pod(requests="cpu=1"))), JSON)
    assert connection.getresponse().status == 200
    connection.close()
    assert (server.errors(), server.log().count("Traceback")) == before


def encoded(document) -> bytes:
    return json.dumps(document).encode()


def answer(reply: Reply):
    return judged(reply.status, reply.headers, reply.body)


def with_request(**changes):
    return {**VALID, "request": {**VALID["request"], **changes}}


def padded(size: int) -> bytes:
    """A valid review of this many bytes."""
    bare = encoded(replaced(VALID, ("request", "object", "metadata", "labels"), {"pad": ""}))
    return bare.replace(b'"pad": ""', b'"pad": "' + b"x" * (size - len(bare)) + b'"')


def nested(depth: int, opening: str, closing: str) -> bytes:
    mark = encoded(with_request(object="HERE"))
    return mark.replace(b'"HERE"', opening.encode() * depth + b"1" + closing.encode() * depth)


def in_labels(text: bytes) -> bytes:
    marked = replaced(VALID, ("request", "object", "metadata", "labels"), {"a": "HERE"})
    return encoded(marked).replace(b'"HERE"', text)


BODIES = [
    ("nothing", b"", "truncated"),
    ("white space", b"  \n ", "truncated"),
    ("a text", b"hello", "malformed"),
    ("XML", b"<review/>", "malformed"),
    ("form data", b"a=b&c=d", "malformed"),
    ("truncated", encoded(VALID)[:-20], "truncated"),
    ("something behind the review", encoded(VALID) + b"x", "malformed"),
    ("two reviews", encoded(VALID) * 2, "malformed"),
    ("compressed", gzip.compress(encoded(VALID)), ""),
    ("UTF-16", json.dumps(VALID).encode("utf-16"), ""),
    ("null", b"null", "Expected `object`, got `null`"),
    ("a list", b"[]", "Expected `object`, got `array`"),
    ("a list of reviews", encoded([VALID]), "Expected `object`, got `array`"),
    ("a number", b"1", "Expected `object`, got `int`"),
    ("NaN", b"NaN", "malformed"),
    ("an empty object", b"{}", "apiVersion"),
    ("a pod", encoded(pod()), 'kind: expected "AdmissionReview", got "Pod"'),
    ("no apiVersion", encoded(removed(VALID, ("apiVersion",))), "apiVersion"),
    ("another group", encoded({**VALID, "apiVersion": "v1"}), 'apiVersion: expected "admission.k8s.io/v1", got "v1"'),
    ("no request", encoded(removed(VALID, ("request",))), "request"),
    ("request null", encoded({**VALID, "request": None}), "request"),
    ("request a list", encoded({**VALID, "request": []}), "request"),
    ("no uid", encoded(removed(VALID, ("request", "uid"))), "uid"),
    ("uid empty", encoded(with_request(uid="")), "request.uid"),
    ("uid null", encoded(with_request(uid=None)), "uid"),
    ("uid a number", encoded(with_request(uid=1)), "uid"),
    ("no resource", encoded(removed(VALID, ("request", "resource"))), "resource"),
    ("no operation", encoded(removed(VALID, ("request", "operation"))), "operation"),
    ("unknown operation", encoded(with_request(operation="PATCH")), "operation"),
    ("no object", encoded(with_request(object=None)), "request.object"),
    ("an object that is a text", encoded(with_request(object="pod")), "request.object"),
    ("a review cut in the object", encoded(with_request(object="HERE")).replace(b'"HERE"', b'{"a":'), ""),
    ("lists in lists", nested(100_000, "[", "]"), "nest"),
    ("objects in objects", nested(100_000, '{"metadata":', "}"), "nest"),
    ("containers in containers", nested(20_000, '{"spec":{"containers":[', "]}}"), ""),
    ("lists alone", b"[" * MIB, ""),
    ("NaN in the object", in_labels(b"NaN"), "malformed"),
    ("Infinity in the object", in_labels(b"-Infinity"), "malformed"),
    ("a tab in a text", in_labels(b'"a\tb"'), ""),
    ("half an escape", in_labels(b'"\\u12"'), ""),
    (
        "a quantity beyond all bounds",
        encoded(create(pod(requests="cpu=1e999999999"))),
        "unable to parse quantity's suffix - at `$.spec.containers[0].resources.requests[...]`",
    ),
    ("a tiny quantity beyond all bounds", encoded(create(pod(requests="cpu=1e-999999999"))), "quantity"),
    ("a quantity of a megabyte", encoded(create(pod(requests=f"cpu={'9' * MIB}"))), "quantities must match"),
    ("a quantity that is a word", encoded(create(pod(requests="cpu=much"))), "quantities must match"),
]


@pytest.mark.parametrize(("name", "body", "says"), BODIES, ids=[row[0] for row in BODIES])
@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_body_that_is_no_review_gets_400_and_one_line(server, path, name, body, says):
    reply = server.call(path, body)
    if path == "/mutate" and "object" not in says and reply.status == 200:
        pytest.skip("nothing to default, so the object is not looked at")
    assert answer(reply) is None
    assert reply.status == 400
    assert says in reply.text


@pytest.mark.parametrize("version", ["admission.k8s.io/v1beta1", "admission.k8s.io/v2", "", "v1"])
def test_another_version_is_told_what_to_set(server, version):
    reply = server.call("/validate", encoded({**VALID, "apiVersion": version}))
    assert answer(reply) is None
    assert reply.status == 400
    assert 'set admissionReviewVersions: ["v1"] in the webhook configuration' in reply.text
    assert f'got "{version}"' in reply.text


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("twice the same key", encoded(VALID).replace(b'"dryRun"', b'"dryRun": true, "dryRun"')),
        ("twice the object", encoded(VALID)[:-2] + b', "object": {"kind": "Pod"}}}'),
        ("twice the uid", encoded(VALID)[:-2] + b', "uid": "other"}}'),
        ("twice a quantity", encoded(VALID).replace(b'"cpu": "1"', b'"cpu": "1", "cpu": "2"')),
        ("invalid UTF-8 in a label", in_labels(b'"\xff\xfe"')),
        ("invalid UTF-8 in the name", encoded(VALID).replace(b'"name": "p"', b'"name": "\xff"')),
        ("overlong UTF-8", in_labels(b'"\xc0\x80"')),
        ("half a surrogate", in_labels(b'"\\ud800"')),
        ("a null character", in_labels(b'"\\u0000"')),
        ("an enormous number", in_labels(b"9" * 100_000)),
        ("an enormous exponent", in_labels(b"1e999999999")),
        ("a byte order mark", b"\xef\xbb\xbf" + encoded(VALID)),
        ("a user of a strange type", encoded(with_request(userInfo=[]))),
        ("no namespace", encoded(with_request(namespace=None))),
        ("no name", encoded(with_request(name=None))),
        ("an operation on no object", encoded(review("CONNECT", None, pod()))),
        ("quantity with exponent 1000", encoded(create(pod(requests="cpu=1e1000")))),
        ("quantity with exponent -1000", encoded(create(pod(requests="cpu=1e-1000")))),
        ("quantity of 2000 digits", encoded(create(pod(requests="cpu=" + "9" * 2000)))),
    ],
)
def test_what_is_odd_gets_a_verdict_or_400(server, name, body):
    started = time.monotonic()
    reply = server.call("/validate", body)
    answer(reply)
    assert reply.status in (200, 400)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        (" application/json ;charset=utf-8", 200),
        ("text/plain", 415),
        ("application/yaml", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonp", 415),
        ("application/*", 415),
        ("", 415),
        (None, 415),
        ("x" * 4000, 415),
    ],
)
def test_only_json_is_taken(server, content_type, expected):
    headers = {} if content_type is None else {"Content-Type": content_type}
    reply = server.call("/validate", encoded(VALID), headers=headers)
    answer(reply)
    assert reply.status == expected
    if expected == 415:
        assert "expected Content-Type application/json" in reply.text
        assert len(reply.text) < 200


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/validate?timeout=5s"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_post_is_taken(server, method, path):
    reply = server.call(path, encoded(VALID) if method in ("PUT", "PATCH") else None, method=method)
    assert answer(reply) is None
    assert reply.status == 405
    assert reply.headers["Allow"] == "POST"


def test_head_is_answered_without_a_body(server):
    reply = server.call("/validate", method="HEAD", headers={})
    assert (reply.status, reply.body) == (405, b"")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path", ["/", "/mutate/", "/validate/x", "//validate", "/Validate", "/metrics", "/%00", "/%ff"]
)
def test_an_unknown_path_gets_404(server, method, path):
    reply = server.call(path, encoded(VALID) if method == "POST" else None, method=method)
    assert answer(reply) is None
    assert reply.status == 404


# -- sizes


@pytest.mark.parametrize("size", [64 * 1024, MIB, 3 * MIB])
def test_a_review_of_up_to_3_mib_is_judged(server, size):
    reply = server.call("/validate", padded(size))
    assert answer(reply)["allowed"]


def chunks(data: bytes, size: int = 64 * 1024):
    yield from (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1000, MIB, 3 * MIB])
def test_a_review_in_chunks_without_a_length_is_judged(server, size):
    reply = server.call("/validate", chunks(padded(size)))
    assert answer(reply)["allowed"]


@pytest.mark.parametrize("header", ["Content-Length", "Transfer-Encoding"])
@pytest.mark.parametrize("size", [3 * MIB + 1, 4 * MIB, 16 * MIB])
def test_a_larger_one_gets_413(server, size, header):
    status, headers, body = conversation(server, *large(size, header))
    assert judged(status, headers, body) is None
    assert status == 413
    assert str(3 * MIB) in body.decode()


@pytest.mark.parametrize("header", ["Content-Length", "Transfer-Encoding"])
def test_after_a_body_that_is_too_large_the_connection_is_closed_as_announced_or_serves_on(server, header):
    with server.tls_socket() as connection:
        status, headers, _ = talk(connection, *large(4 * MIB, header))
        assert status == 413
        if headers["connection"] != "close":
            assert talk(connection, post(BODY, f"Content-Length: {len(BODY)}"))[0] == 200


def large(size: int, header: str):
    body = padded(size)
    if header == "Content-Length":
        return post(body, f"Content-Length: {size}"), b""
    return (
        post(b"", "Transfer-Encoding: chunked"),
        *(b"%x\r\n%b\r\n" % (len(part), part) for part in chunks(body)),
        b"0\r\n\r\n",
    )


# -- HTTP that lies


def conversation(server, *sent: bytes, half_close: bool = False, timeout: float = 15.0):
    """Send bytes as they are on a connection of their own; the first answer."""
    with server.tls_socket(timeout) as connection:
        return talk(connection, *sent, half_close=half_close)


def talk(connection, *sent: bytes, half_close: bool = False) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer. A server that has heard enough may stop listening before it answers."""
    with contextlib.suppress(OSError):
        for part in sent:
            connection.sendall(part)
    if half_close:
        # What TLS calls the end of what one side has to say, on a connection that stays open for the answer.
        timeout = connection.gettimeout()
        connection.setblocking(False)
        with pytest.raises((ssl.SSLWantReadError, BlockingIOError)):
            connection.unwrap()
        connection.settimeout(timeout)
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        assert part, f"closed without an answer; got {received!r}"
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536)
    return int(first.split()[1]), headers, body


def post(body: bytes, *headers: str, path: str = "/validate", version: str = "1.1") -> bytes:
    head = [f"POST {path} HTTP/{version}", "Host: x", "Content-Type: application/json", *headers]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


BODY = encoded(VALID)


@pytest.mark.parametrize(
    ("name", "sent", "expected"),
    [
        ("length right", post(BODY, f"Content-Length: {len(BODY)}"), {200}),
        ("length too short", post(BODY, "Content-Length: 20"), {400}),
        ("length too short by a little", post(BODY, f"Content-Length: {len(BODY) - 1}"), {400}),
        ("length zero", post(BODY, "Content-Length: 0"), {400}),
        ("no length", post(BODY), {400, 411}),
        ("no length, old HTTP", post(BODY, version="1.0"), {400, 411}),
        ("length far too large", post(BODY, "Content-Length: 99999999999999999999"), {413}),
        ("length beyond the bound, nothing sent", post(b"", f"Content-Length: {4 * MIB}"), {413}),
        ("length negative", post(BODY, "Content-Length: -1"), {400}),
        ("length no number", post(BODY, "Content-Length: many"), {400}),
        ("length with a sign", post(BODY, f"Content-Length: +{len(BODY)}"), {400}),
        ("length of 5000 digits", post(BODY, "Content-Length: " + "9" * 5000), {400, 413}),
        ("length in other digits", post(BODY, "Content-Length: \xb2"), {400}),
        ("two lengths", post(BODY, f"Content-Length: {len(BODY)}", "Content-Length: 20"), {400}),
        ("length and chunks", post(BODY, f"Content-Length: {len(BODY)}", "Transfer-Encoding: chunked"), {400}),
        ("chunk size no number", post(b"xyz\r\n" + BODY, "Transfer-Encoding: chunked"), {400}),
        ("chunk size negative", post(b"-1\r\n" + BODY, "Transfer-Encoding: chunked"), {400}),
        ("chunk without its end", post(b"5\r\nhelloworld\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), {400}),
    ],
)
def test_http_that_lies_gets_a_defined_answer(server, name, sent, expected):
    status, headers, body = conversation(server, sent)
    assert status in expected, body
    judged(status, headers, body)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"hello\r\n\r\n",
        post(BODY, "a header without a colon"),
        post(BODY, version="3.7"),
        post(BODY, "X: " + "x" * 100_000),
        post(BODY, path="/validate?" + "x" * 100_000),
        post(BODY, *["X: y"] * 1000),
    ],
    ids=["zeros", "a word", "no colon", "version", "long header", "long path", "many headers"],
)
def test_what_is_no_http_is_turned_away(server, sent):
    status, _, _ = conversation(server, sent)
    assert 400 <= status < 500


@pytest.mark.parametrize("header", [f"Content-Length: {len(BODY) + 1000}", "Transfer-Encoding: chunked"])
def test_a_body_that_ends_too_early_gets_400(server, header):
    body = BODY if "Length" in header else f"{len(BODY) + 1000:x}\r\n".encode() + BODY
    status, headers, text = conversation(server, post(body, header), half_close=True)
    assert status == 400
    judged(status, headers, text)


@pytest.mark.parametrize("header", [f"Content-Length: {len(BODY) + 1000}", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("sent", [0, 10, len(BODY)])
def test_a_client_that_vanishes_in_the_middle_of_a_body_is_no_error_of_the_server(server, header, sent):
    body = BODY if "Length" in header else f"{len(BODY) + 1000:x}\r\n".encode() + BODY
    before = answered(server)
    with server.tls_socket() as connection:
        connection.sendall(post(body[:sent], header))
        connection.shutdown(socket.SHUT_RDWR)
    wait_for_an_outcome(server, before)


def test_a_client_that_resets_in_the_middle_of_a_body_is_no_error_of_the_server(server):
    before = answered(server)
    connection = server.tls_socket()
    connection.sendall(post(BODY[:10], f"Content-Length: {len(BODY)}"))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    wait_for_an_outcome(server, before)


def answered(server) -> float:
    return server.metric("quota_admission_reviews_total")


def wait_for_an_outcome(server, before: float) -> None:
    """Give the server time to see what happened, whatever it makes of it."""
    with contextlib.suppress(AssertionError):
        eventually(lambda: answered(server) > before, within=2)


def test_what_follows_a_bad_call_on_the_same_connection_is_answered(server):
    """Either the connection is closed, or the next call on it is understood."""
    good = post(BODY, f"Content-Length: {len(BODY)}")
    for bad in (
        post(b"nonsense", "Content-Length: 8"),
        post(BODY, f"Content-Length: {len(BODY)}").replace(b"application/json", b"text/plain"),
        post(BODY, f"Content-Length: {len(BODY)}", path="/unknown"),
        post(BODY, f"Content-Length: {len(BODY)}").replace(b"POST", b"PUT"),
    ):
        with server.tls_socket() as connection:
            connection.sendall(bad + good)
            received = b""
            while len(re.findall(rb"HTTP/1.1 \d+", received)) < 2 and (part := connection.recv(65536)):
                received += part
        first, *second = re.findall(rb"HTTP/1.1 (\d+)", received)
        assert first in (b"400", b"415", b"404", b"405")
        assert second in ([], [b"200"])


# -- large and costly


def many_containers(count: int, requests: str = "", **parts):
    container = {"image": "registry.example/app:1"}
    if requests:
        container["resources"] = {"requests": amounts(requests), "limits": amounts(requests)}
    made = pod("large", **parts)
    made["spec"]["containers"] = [{"name": f"container-{index}", **container} for index in range(count)]
    return made


def timed(server, path, body):
    started = time.monotonic()
    reply = server.call(path, encoded(create(body)))
    assert time.monotonic() - started < 3
    return answer(reply)


def test_a_pod_of_10_000_containers_gets_its_defaults(server):
    response = timed(server, "/mutate", many_containers(10_000, ns="defaulted"))
    assert response["allowed"]
    touched = {operation["path"].split("/")[3] for operation in patch_of(response) if "containers" in operation["path"]}
    assert len(touched) == 10_000


def test_a_pod_of_10_000_containers_without_defaults_gets_no_patch(server):
    assert patch_of(timed(server, "/mutate", many_containers(10_000))) == []


def test_a_pod_of_10_000_containers_is_counted(server):
    response = timed(server, "/validate", many_containers(10_000, "cpu=1m", ns="small"))
    assert response["status"]["message"] == (
        "exceeded quota: small, requested: requests.cpu=10, used: requests.cpu=0, limited: requests.cpu=1"
    )


def test_a_pod_of_10_000_containers_is_told_what_to_state(server):
    response = timed(server, "/validate", many_containers(10_000, ns="small"))
    text = response["status"]["message"]
    assert text.startswith("failed quota: small: must specify requests.cpu for: container-0,container-1,container-10,")
    assert text.count("container-") == 10_000


def test_a_pod_of_10_000_containers_is_held_against_the_bounds(server):
    response = timed(server, "/validate", many_containers(10_000, "cpu=2", ns="bounded"))
    assert response["status"]["message"] == "maximum cpu usage per Container is 1, but limit is 2"


def test_a_pod_with_10_000_resource_names_is_answered(server):
    names = " ".join(f"example.com/r{index}=1" for index in range(10_000))
    assert timed(server, "/validate", pod("wide", ns="bounded", requests=names)) is not None
    assert timed(server, "/mutate", pod("wide", ns="defaulted", requests=names)) is not None


@pytest.mark.parametrize(
    "amount", ["1e999999999", "1e-999999999", "9" * 2000, "0." + "0" * 1900 + "1", "1e1000", "9Ei"]
)
def test_an_enormous_quantity_costs_neither_time_nor_memory(server, amount):
    before = server.metric("process_resident_memory_bytes")
    started = time.monotonic()
    for _ in range(20):
        answer(server.call("/validate", encoded(create(many_containers(100, f"cpu={amount}", ns="small")))))
    assert time.monotonic() - started < 3
    assert server.metric("process_resident_memory_bytes") - before < 100 * MIB
