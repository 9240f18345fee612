"""Health, metrics and usage over plain HTTP."""

import http.client
import json
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.standalone.manifests import file_of, namespace, pod, quota
from tests.standalone.server import ServerProcess, eventually, free_thread_pool

POLICIES = {
    "a.yaml": file_of(
        namespace("a"),
        quota("first", "pods=3 requests.cpu=2 requests.memory=1Gi", ns="a"),
        quota("second", "pods=10", "pods=4", ns="a"),
        pod("there", ns="a", requests="cpu=250m memory=100Mi"),
    ),
    "b.yaml": file_of(quota("only", "configmaps=5 count/widgets.example.com=2", ns="b")),
    "c.yaml": file_of(namespace("empty")),
}
A = {
    "first": {
        "hard": {"pods": "3", "requests.cpu": "2", "requests.memory": "1Gi"},
        "used": {"pods": "1", "requests.cpu": "250m", "requests.memory": "100Mi"},
    },
    "second": {"hard": {"pods": "10"}, "used": {"pods": "4"}},
}
B = {
    "only": {
        "hard": {"configmaps": "5", "count/widgets.example.com": "2"},
        "used": {"configmaps": "0", "count/widgets.example.com": "0"},
    }
}


@pytest.fixture(scope="module")
def server():
    with ServerProcess(POLICIES, state=False, options=["--log-format", "json"]) as running:
        yield running


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_one_word(server, path):
    reply = server.admin(path)
    assert (reply.status, reply.text) == (200, "ok\n")
    assert reply.headers["Content-Type"].startswith("text/plain")


def test_the_long_report_has_a_line_for_each_check(server):
    status, text = server.readyz()
    assert status == 200
    *lines, last = text.splitlines()
    assert {"[+]policies ok", "[+]certificate ok", "[+]shutdown ok"} <= set(lines)
    assert all(line.startswith("[+]") for line in lines)
    assert last == "readyz check passed"


def test_usage_has_the_form_of_a_status(server):
    reply = server.admin("/usage.json?namespace=a")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json == {"namespaces": {"a": {"resourceQuotas": A}}}


def test_usage_of_all_namespaces_is_given_where_none_is_named(server):
    found = server.admin("/usage.json").json["namespaces"]
    assert {name: entry["resourceQuotas"] for name, entry in found.items() if entry["resourceQuotas"]} == {
        "a": A,
        "b": B,
    }


@pytest.mark.parametrize("name", ["nowhere", "", "A", "../a", "%00", "%ff", "x" * 5000])
def test_usage_of_an_unknown_namespace_is_empty(server, name):
    reply = server.admin(f"/usage.json?namespace={name}")
    assert reply.status == 200
    assert not any(entry["resourceQuotas"] for entry in reply.json["namespaces"].values())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/validate", 404),
        ("POST", "/validate", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/%ff", 404),
        ("POST", "/healthz", 405),
        ("DELETE", "/usage.json", 405),
        ("PUT", "/metrics", 405),
    ],
)
def test_anything_else_gets_one_clear_line(server, method, path, status):
    reply = server.admin(path, method)
    assert reply.status == status
    assert reply.headers["Content-Type"].startswith("text/plain")
    assert len(reply.text.splitlines()) == 1
    assert str(status) in reply.text


def test_the_metrics_are_what_prometheus_reads(server):
    reply = server.admin("/metrics")
    assert reply.headers["Content-Type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    ours = {name for name in families if name.startswith("quota_admission_")}
    assert {
        "quota_admission_reviews",
        "quota_admission_review_duration_seconds",
        "quota_admission_policies_stale",
        "quota_admission_policy_reloads",
        "quota_admission_certificate_stale",
        "quota_admission_certificate_expiry_timestamp_seconds",
        "quota_admission_build_info",
    } <= ours
    assert all(families[name].documentation for name in ours)
    assert families["process_resident_memory_bytes"].samples


def test_the_metrics_say_until_when_the_certificate_is_good(server):
    left = server.metric("quota_admission_certificate_expiry_timestamp_seconds") - time.time()
    assert left > 24 * 3600


def test_the_admin_port_is_served_while_clients_keep_silent(server):
    silent = [http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=5) for _ in range(20)]
    for connection in silent:
        connection.connect()
    started = time.monotonic()
    assert server.admin("/healthz").status == 200
    assert time.monotonic() - started < 2
    for connection in silent:
        connection.close()


def test_many_may_look_at_once(server):
    def look(_):
        for _ in range(20):
            assert server.admin("/usage.json?namespace=b").json["namespaces"]["b"]["resourceQuotas"] == B
            assert server.admin("/metrics").status == 200

    with free_thread_pool(8, look):
        pass


def test_every_line_of_the_log_is_json(server):
    server.create_pod("a", requests="cpu=5 memory=1")
    server.call("/validate", b"nonsense")
    with server.tls_socket() as connection:
        connection.sendall(b"this is no HTTP\r\n\r\n")
        connection.recv(1000)
    server.write("broken.yaml", "{")
    eventually(lambda: "broken.yaml" in server.log())
    lines = server.log().splitlines()
    server.remove("broken.yaml")
    for line in lines:
        assert json.loads(line).keys() >= {"time", "level", "message"}
