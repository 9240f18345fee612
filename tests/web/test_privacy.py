"""Nothing of an object's content is ever logged, whatever way it comes in."""

import contextlib
import json

import pytest

from tests.standalone.manifests import config_map, create, delete, file_of, limit_range, namespace, pod, quota, update
from tests.standalone.server import ServerProcess
from tests.web.mutations import around, paths, replaced

SECRET = "HUSH-7Q2X-HUSH"
POLICIES = {
    "policies.yaml": file_of(
        namespace(),
        limit_range(max="cpu=1", default="memory=1Gi"),
        quota("q", "pods=1k requests.cpu=10"),
        quota("full", "pods=0", ns="full"),
    )
}


def secret_pod(**parts):
    made = pod(requests="cpu=100m", limits="cpu=200m", **parts)
    made["metadata"] |= {
        "labels": {"app": SECRET, SECRET: "label"},
        "annotations": {"token": SECRET, f"example.com/{SECRET}": "x"},
        "finalizers": [SECRET],
        "ownerReferences": [{"apiVersion": SECRET, "kind": SECRET, "name": SECRET, "uid": SECRET}],
    }
    made["spec"]["containers"][0] |= {
        "image": f"registry.example/{SECRET}",
        "command": ["sh", "-c", SECRET],
        "env": [{"name": "TOKEN", "value": SECRET}],
        "restartPolicy": SECRET,
    }
    made["spec"] |= {"priorityClassName": SECRET, "nodeSelector": {SECRET: SECRET}}
    made["status"] = {"phase": SECRET, "qosClass": SECRET, "conditions": [{"type": SECRET, "message": SECRET}]}
    return made


@pytest.fixture(scope="module", params=["info", "debug"])
def server(request):
    with ServerProcess(POLICIES, options=["--log-level", request.param]) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_is_said(server):
    already = len(server.log())
    yield
    assert SECRET not in server.log()[already:]


def send(server, review, path="/validate"):
    return server.call(path, review if isinstance(review, bytes) else json.dumps(review).encode())


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_what_is_judged_is_not_logged(server, path):
    secrets = {**config_map(uid="m", password=SECRET), "kind": "Secret", "stringData": {"password": SECRET}}
    for review, status in (
        (create(secret_pod(uid="a")), 200),
        (create(secret_pod(uid="b", ns="full")), 200),
        (update(secret_pod(uid="a"), secret_pod(uid="a"), sub_resource="status"), 200),
        (delete(secret_pod(uid="a")), 200),
        (create(secrets), 200),
        (update(secrets, secrets), 200),
        (create(secret_pod(uid="c"), dry_run=True), 200),
        (create(replaced(secret_pod(), ("spec", "containers", 0, "resources"), {"limits": {"cpu": "2"}})), 200),
        (create(replaced(secret_pod(), ("spec", "containers", 0, "resources"), {"limits": {SECRET: "2"}})), 200),
    ):
        assert send(server, review, path).status == status


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_what_is_a_bad_call_is_not_logged(server, path):
    valid = create(secret_pod())
    whole = json.dumps(valid).encode()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        send(server, whole[:at], path)
    for at in (whole.index(SECRET.encode()), whole.rindex(SECRET.encode())):
        send(server, whole[: at + 3], path)
        send(server, whole[: at + 3] + b"\xff" + whole[at + 3 :], path)
        send(server, whole[:at] + b'"' + whole[at:], path)
    for body in (json.dumps(secret_pod()), f'"{SECRET}"', SECRET, json.dumps([SECRET]), json.dumps({SECRET: SECRET})):
        assert send(server, body.encode(), path).status == 400
    reply = server.call(path, whole, headers={"Content-Type": "text/plain"})
    assert reply.status == 415


def test_a_text_in_the_place_of_any_field_of_the_object_is_not_logged(server):
    valid = create(pod("p", uid="u", requests="cpu=1"))
    for place in paths(valid):
        if place[:2] != ("request", "object") or place == ("request", "object"):
            continue
        before, after = around(valid, place)
        for text in (
            f'"{SECRET}"',
            f'{{"{SECRET}": "{SECRET}"}}',
            f'["{SECRET}"]',
            SECRET,
            f'{{"{SECRET}"',
            f'1"{SECRET}"',
        ):
            send(server, before + text.encode() + after)


@pytest.mark.parametrize("ending", [r"\r\n\r\n", r" / HTTP/1.1\r\n\r\n", r": x\r\n\r\n", r" \r\n\r\n", r"\n\n"])
@pytest.mark.parametrize("header", ["Content-Length: 4", "Transfer-Encoding: chunked"])
def test_what_a_lying_length_makes_of_an_object_is_not_logged(server, header, ending):
    """The rest of a body looks like the next request, or like the size of a chunk."""
    head = f"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{header}\r\n\r\n".encode()
    start = head + (b"null" if "Length" in header else b"4\r\nnull\r\n")
    for rest in (SECRET, f'"{SECRET}"', f"GET / HTTP/1.1\r\n{SECRET}"):
        with server.tls_socket(timeout=0.3) as connection, contextlib.suppress(OSError):
            connection.sendall(start + rest.encode() + ending.encode().decode("unicode_escape").encode())
            while connection.recv(65536):
                pass
