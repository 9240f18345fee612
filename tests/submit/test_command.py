"""The command against a running server."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from admission.apiserver import ApiServer
from admission.cli._submit_client import ServerAddress, WebhookConnection, trusting
from admission.cli.main import main
from tests.standalone.manifests import file_of, limit_range, namespace, quota
from tests.standalone.server import COMMAND, ServerProcess
from tests.submit.inprocess import counting_sources
from tests.submit.kubectl import FakeApiServer, Printed, kubectl
from tests.submit.objects import Json, container, deployment, obj, pod, text_of

LIMITS = {"default": "cpu=200m memory=256Mi", "max": "cpu=1 memory=1Gi"}
NAMESPACES = ("with-submit", "with-kubectl", "team", "dry", "gone", "grown", "shown", "default")


def with_ports(count: int) -> Json:
    ports = [{"port": port} for port in range(1, count + 1)]
    return obj("Service", "s", ns="grown", spec={"type": "NodePort", "ports": ports})


EXISTING = with_ports(1)
"""A service that the server's files know."""


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    policies = {
        f"{name}.yaml": file_of(
            namespace(name),
            quota("compute", "cpu=2 memory=2Gi pods=6 services.nodeports=3 count/deployments.apps=1", ns=name),
            limit_range("limits", ns=name, **LIMITS),
        )
        for name in NAMESPACES
    }
    policies["services.yaml"] = file_of(EXISTING)
    with ServerProcess(policies, state=False) as running:
        yield running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ServerProcess) -> Path:
    """A folder to work in, with the server and its CA in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUOTA_ADMISSION_SERVER", f"https://127.0.0.1:{server.port}")
    monkeypatch.setenv("QUOTA_ADMISSION_CA", str(server.cert_dir / "ca.crt"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


def submit(*arguments: str, stdin: str | None = None, color: bool = False) -> Result:
    result = CliRunner().invoke(main, ["submit", *arguments], input=stdin, color=color)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def submitted(*objects: Json, options: tuple[str, ...] = ()) -> Result:
    return submit("-f", "-", *options, stdin=text_of(*objects))


# -- creating


def test_a_pod_that_states_nothing_is_patched_and_created(here, server):
    result = submitted(pod(), options=("-n", "team"))
    assert result.exit_code == 0
    assert result.stdout == (
        'patch: add /spec/containers/0/resources {"limits": {"cpu": "200m", "memory": "256Mi"}, '
        '"requests": {"cpu": "200m", "memory": "256Mi"}}\n'
        'patch: add /metadata/annotations {"kubernetes.io/limit-ranger": "LimitRanger plugin set: '
        'cpu, memory request for container c; cpu, memory limit for container c"}\n'
        "pod/web created\n"
    )
    assert result.stderr == 'Warning: LimitRange "limits" set defaults for container c\n'
    assert server.usage("team")["compute"]["cpu"] == "200m"


def test_a_dry_run_counts_nothing(here, server):
    result = submitted(pod(), options=("-n", "dry", "--dry-run"))
    assert result.stdout.endswith("pod/web created (server dry run)\n")
    assert server.usage("dry")["compute"]["pods"] == "0"


def test_what_is_deleted_is_given_back(here, server):
    Path("pod.yaml").write_text(text_of(pod(requests="cpu=1", limits="cpu=1")))
    for options, text, used in (
        ((), "pod/web created\n", "1"),
        (("--delete", "--dry-run"), 'pod "web" deleted from gone namespace (server dry run)\n', "1"),
        (("--delete",), 'pod "web" deleted from gone namespace\n', "0"),
    ):
        result = submit("-f", "pod.yaml", "-n", "gone", *options)
        assert result.stdout.endswith(text)
        assert server.usage("gone")["compute"]["cpu"] == used


def test_an_update_adds_what_the_object_grew(here, server):
    Path("old.yaml").write_text(text_of(EXISTING))
    options = ("-n", "grown", "--old", "old.yaml")
    result = submitted(with_ports(2), options=options)
    assert (result.stdout, result.exit_code) == ("service/s replaced\n", 0)
    result = submitted(with_ports(4), options=options)
    assert result.stderr.splitlines()[-1] == (
        'Error from server (Forbidden): error when replacing "STDIN": admission webhook '
        '"enforce.quota-admission.dev" denied the request: exceeded quota: compute, requested: services.nodeports=2, '
        "used: services.nodeports=2, limited: services.nodeports=3"
    )
    assert server.usage("grown")["compute"]["services.nodeports"] == "2"


def test_a_resize_is_judged(here, server):
    Path("old.yaml").write_text(text_of(pod(requests="cpu=100m memory=1Mi", limits="cpu=1 memory=1Mi")))
    options = ("-n", "grown", "--old", "old.yaml", "--subresource", "resize")
    result = submitted(pod(requests="cpu=200m memory=1Mi", limits="cpu=2 memory=1Mi"), options=options)
    assert "maximum cpu usage per Container is 1, but limit is 2" in result.stderr
    result = submitted(pod(requests="cpu=200m memory=1Mi", limits="cpu=1 memory=1Mi"), options=options)
    assert (result.exit_code, result.stdout) == (0, "pod/web replaced\n")


def test_the_object_is_shown_as_it_is_stored(here):
    result = submitted(pod(), deployment(), options=("-n", "shown", "--show-object"))
    before, web, rest = re.split(r"^(?:pod/web created|deployment.apps/web created)\n---\n", result.stdout, flags=re.M)
    assert before.count("patch: ") == 2
    found = yaml.safe_load(web)
    assert found["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m", "memory": "256Mi"}
    assert found["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert set(found["metadata"]) == {"name", "namespace", "uid", "creationTimestamp", "annotations"}
    assert yaml.safe_load(rest)["kind"] == "Deployment"


def test_numbers_that_were_written_with_a_point_are_shown_as_they_were(here):
    widget = '{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1.50}}'
    assert "size: '1.50'" in submit("-f", "-", "--show-object", stdin=widget).stdout


# -- the whole of it beside a real kubectl


@dataclass(frozen=True)
class Step:
    """One command; `name` is that of the file."""

    verb: str
    objects: tuple[Json, ...]
    options: tuple[str, ...] = ()
    old: tuple[Json, ...] = ()


def small(name: str, **more: str) -> Json:
    return pod(name, requests=more.get("requests", "cpu=10m memory=1Mi"), limits=more.get("limits", "cpu=1 memory=1Gi"))


NODE_PORTS = {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}
STEPS = {
    "defaults": Step("create", (pod("a"),)),
    "max of one": Step("create", (small("b", limits="cpu=1500m memory=1Gi"),)),
    "a default below what is requested": Step("create", (pod("b", requests="cpu=500m memory=1Gi"), pod("c"))),
    "only that one": Step("create", (pod("b", requests="cpu=500m memory=1Gi"),)),
    "only that one, once": Step("create", (pod("b", requests="cpu=500m", limits="memory=256Mi"),)),
    "the total": Step(
        "create", (small("b", requests="cpu=900m memory=1Mi"), small("c", requests="cpu=901m memory=1Mi"))
    ),
    "a generated name": Step("create", (obj("Pod", "", metadata={"generateName": "x-"}, spec=small("x")["spec"]),)),
    "a dry run": Step("create", (small("d"), small("e", limits="cpu=2 memory=1Gi")), ("--dry-run",)),
    "the count": Step("create", tuple(small(f"f{n}") for n in range(3))),
    "other kinds": Step("create", (deployment(), deployment("second"), obj("Service", "s", spec=NODE_PORTS))),
    "no quantity": Step("create", (pod("g", limits="cpu=abc"),)),
    "no name": Step("create", (obj("Pod", "", spec=small("x")["spec"]),)),
    "pod level": Step(
        "create", (pod("g", container(requests="cpu=1"), resources={"requests": {"cpu": "500m"}}), small("h"))
    ),
    "deleted": Step("delete", (small("b"), obj("Service", "s"))),
    "room again": Step("create", (small("c", requests="cpu=901m memory=1Mi"),)),
    "replaced": Step("replace", (small("c"), pod("gone")), old=(small("c"),)),
    "replaced, too large": Step(
        "replace",
        (obj("Service", "t", spec={"type": "NodePort", "ports": [{"port": p} for p in range(1, 5)]}),),
        old=(obj("Service", "t", spec={"type": "ClusterIP"}),),
    ),
}


def ours(step: Step, where: str) -> Printed:
    flags = {"create": (), "delete": ("--delete",), "replace": ("--old", "old.yaml")}[step.verb]
    Path("old.yaml").write_text(text_of(*step.old))
    result = submit("-f", "step.yaml", "-n", where, *flags, *step.options)
    out = "".join(line for line in result.stdout.splitlines(keepends=True) if not line.startswith("patch: "))
    return Printed(out, result.stderr, result.exit_code)


def theirs(step: Step, where: str, backend: ApiServer, home: Path) -> Printed:
    flags = ["--wait=false"] if step.verb == "delete" else ["--validate=false"]
    flags += ["--dry-run=server" if option == "--dry-run" else option for option in step.options]
    existing = {body["metadata"].get("name"): body for body in step.old or step.objects}
    with FakeApiServer(backend, existing) as api:
        return kubectl(api, home, step.verb, "-f", "step.yaml", "-n", where, *flags)


def alike(printed: Printed, where: str) -> Printed:
    """Without what is random or bound to differ: the ending of a generated name, the name of the namespace."""
    out, err = (
        re.sub(r"\bx-[a-z0-9]{5}\b", "x-?????", text).replace(where, "NS") for text in (printed.out, printed.err)
    )
    return Printed(out, err, printed.code)


def test_a_real_kubectl_in_front_of_the_same_server_prints_the_same(here, server):
    seen = ""
    connection = WebhookConnection(
        ServerAddress(f"https://127.0.0.1:{server.port}"), trusting(server.cert_dir / "ca.crt")
    )
    backend = ApiServer(connection, counting_sources())
    try:
        for title, step in STEPS.items():
            Path("step.yaml").write_text(text_of(*step.objects))
            expected = theirs(step, "with-kubectl", backend, here)
            assert alike(ours(step, "with-submit"), "with-submit") == alike(expected, "with-kubectl"), title
            seen += expected.out + expected.err
    finally:
        connection.close()
    assert server.usage("with-submit") == server.usage("with-kubectl")
    for text in ("exceeded quota: compute, requested: cpu=901m", "(server dry run)", "pod/x-", "pods=1, used: pods=6"):
        assert text in seen
    for text in (
        "Error from server (Invalid)",
        'The Pod "b" is invalid: \n* ',
        'The Pod "b" is invalid: spec.',
        "Warning: ",
    ):
        assert text in seen


# -- as a process


def test_lines_come_in_order_where_both_streams_are_one(here):
    Path("pods.yaml").write_text(text_of(pod("a"), pod("b", limits="cpu=2")))
    done = subprocess.run(
        [str(COMMAND), "submit", "-f", "pods.yaml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    starts = [line.split()[0] for line in done.stdout.splitlines()]
    assert starts == ["Warning:", "patch:", "patch:", "pod/a", "Warning:", "patch:", "patch:", "patch:", "Error"]
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("color", "environment", "coloured"), [(False, {}, False), (True, {}, True), (True, {"NO_COLOR": "1"}, False)]
)
def test_colours_are_for_terminals(here, monkeypatch, color, environment, coloured):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = submit("-f", "-", "--dry-run", stdin=text_of(pod()), color=color)
    assert ("\x1b[36mpatch:\x1b[0m" in result.stdout) is coloured
    assert ("\x1b[33m\x1b[1mWarning:\x1b[0m" in result.stderr) is coloured


# -- what can go wrong


def last_line(result: Result) -> str:
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    return result.stderr.splitlines()[-1]


def test_a_server_that_is_not_there(here, monkeypatch):
    monkeypatch.setenv("QUOTA_ADMISSION_SERVER", "https://127.0.0.1:1")
    assert last_line(submitted(pod())) == (
        'Error from server (InternalError): error when creating "STDIN": Internal error occurred: failed calling '
        'webhook "defaults.quota-admission.dev": failed to call webhook: Post '
        '"https://127.0.0.1:1/mutate?timeout=10s": '
        "dial tcp 127.0.0.1:1: connect: connection refused"
    )


def test_a_call_that_the_server_cannot_judge(here):
    body = pod()
    body["metadata"].update(deletionTimestamp="soon", deletionGracePeriodSeconds=1)
    assert last_line(submitted(body, options=("--delete",))) == (
        'Error from server (InternalError): error when deleting "STDIN": Internal error occurred: failed calling '
        'webhook "enforce.quota-admission.dev": failed to call webhook: the server rejected our request for an unknown '
        "reason (HTTP 400: metadata.deletionTimestamp is not an RFC 3339 time)"
    )


def test_the_ca_of_make_run_is_the_default(here, monkeypatch, server):
    monkeypatch.delenv("QUOTA_ADMISSION_CA")
    assert last_line(submitted(pod())) == (
        "error: no CA certificate: give --ca FILE or set QUOTA_ADMISSION_CA (serve writes ca.crt into --cert-dir)"
    )
    Path("run/certs").mkdir(parents=True)
    Path("run/certs/ca.crt").write_bytes((server.cert_dir / "ca.crt").read_bytes())
    assert submitted(pod(), options=("--dry-run",)).exit_code == 0


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "error: own.crt: No such file or directory"),
        ("no certificate", "error: own.crt: expected a CA certificate in PEM form"),
    ],
)
def test_a_ca_that_cannot_be_used(here, content, line):
    if content is not None:
        Path("own.crt").write_text(content)
    assert last_line(submitted(pod(), options=("--ca", "own.crt"))) == line


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, 'error: the path "objects.yaml" does not exist'),
        ("", "error: no objects passed to submit"),
        ("a: [1\n", "error: objects.yaml, line 2, column 1: did not find expected ',' or ']'"),
        ("- 1\n", "error: objects.yaml, document 1: expected an object with apiVersion and kind, got list"),
        (
            "apiVersion: v1\n",
            'error: unable to decode "objects.yaml": Object \'Kind\' is missing in \'{"apiVersion":"v1"}\'',
        ),
        (
            "kind: Pod\n",
            'error: unable to decode "objects.yaml": Object \'apiVersion\' is missing in \'{"kind":"Pod"}\'',
        ),
    ],
)
def test_a_file_that_cannot_be_used(here, content, line):
    if content is not None:
        Path("objects.yaml").write_text(content)
    assert last_line(submit("-f", "objects.yaml")) == line


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "Missing option '-f' / '--filename'"),
        (["-f", "-", "--delete", "--old", "a.yaml"], "--delete and --old exclude each other"),
        (["-f", "-", "--subresource", "resize"], "--subresource needs --old"),
        (["-f", "-", "--server", "127.0.0.1:10250"], "expected https://HOST:PORT, got '127.0.0.1:10250'"),
    ],
)
def test_options_that_make_no_sense(here, arguments, problem):
    result = submit(*arguments)
    assert result.exit_code == 2
    assert problem in result.stderr


def test_help_has_an_example():
    shown = submit("--help").stdout
    assert "\n    quota-admission submit -f pod.yaml --namespace team --ca certs/ca.crt\n" in shown


def test_everything_that_is_shown_of_an_object_survives_yaml(here):
    body: dict[str, Any] = {"yes": "no", "number": "1e3", "text": "a: b\nc", "list": [], "null": None}
    result = submitted(obj("ConfigMap", "c", data=body), options=("--show-object",))
    assert yaml.safe_load(result.stdout.partition("---\n")[2])["data"] == body
