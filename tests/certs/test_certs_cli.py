import json
import subprocess
import sys
from datetime import timedelta

import pytest
from certs_helpers import DAY, NOW, foreign, foreign_leaf, key_pem, pem, put_ca, put_pair, snapshot
from click.testing import CliRunner
from cryptography.hazmat.primitives import hashes

from certs import CA_LIFETIME, Names, issue_ca, issue_leaf, load_bundle, load_pair
from certs.cli import main

HOST = "webhook.ns.svc"


@pytest.fixture
def run(monkeypatch):
    """Runs the command at a moment; gives back the exit code and what it wrote to both streams."""

    def run(*arguments, now=NOW):
        monkeypatch.setattr("certs.cli._now", lambda: now)
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="quota-admission-certs")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def folder(tmp_path, run):
    code, _, _ = run("init", "--dir", tmp_path / "certs", "--dns", HOST, "--ip", "10.0.0.1")
    assert code == 0
    return tmp_path / "certs"


def test_init_makes_the_files_and_says_why_and_for_how_long(tmp_path, run):
    code, out, err = run("init", "--dir", tmp_path, "--dns", HOST, "--dns", "*.ns.svc", "--ip", "fd00::1", "--days", 30)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "made CA (missing: ca.crt)",
        "made leaf (missing: tls.crt or tls.key)",
        f"{tmp_path}: good until 2030-06-16 12:00:00 UTC, renew at 2030-06-06 11:58:20 UTC",
    ]
    assert Names.of(load_pair(tmp_path).leaf) == Names.parse([HOST, "*.ns.svc"], ["fd00::1"])


def test_init_may_be_run_again_and_keeps_what_is_in_order(folder, run):
    before = snapshot(folder)
    code, out, _ = run("init", "--dir", folder, "--dns", HOST)
    assert (code, out.splitlines()[0]) == (0, "nothing to do")
    assert snapshot(folder) == before


def test_init_with_force_starts_over(folder, run):
    old = load_bundle(folder)
    code, out, _ = run("init", "--dir", folder, "--dns", HOST, "--force")
    assert (code, out.splitlines()[:2]) == (0, ["made CA (asked for)", "made leaf (asked for)"])
    assert not set(old) & set(load_bundle(folder))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Error: a certificate needs at least one DNS name or IP address"),
        (["--dns", "a_b.svc"], "Error: 'a_b.svc' is not a DNS name for a certificate: the label 'a_b'"),
        (
            ["--dns", "*.svc"],
            "Error: '*.svc' is not a DNS name for a certificate: a wildcard needs at least two labels",
        ),
        (["--dns", "a.*.svc"], "a wildcard must be the whole first label"),
        (["--dns", "10.0.0.1"], "it is an IP address"),
        (["--dns", ""], "it is empty"),
        (["--ip", "10.0.0.256"], "Error: '10.0.0.256' is not an IP address"),
        (["--ip", HOST], f"Error: '{HOST}' is not an IP address"),
    ],
)
def test_wrong_names_are_one_line_and_a_wrong_command_line(tmp_path, run, arguments, text):
    code, out, err = run("init", "--dir", tmp_path / "certs", *arguments)
    assert (code, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1
    assert not (tmp_path / "certs").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["init", "--dns", HOST],
        ["init", "--dir", "x", "--dns", HOST, "--days", "0"],
        ["init", "--dir", "x", "--dns", HOST, "--days", "3651"],
        ["show"],
        ["renew", "--dir", "x", "extra"],
        ["nothing"],
    ],
)
def test_a_wrong_command_line_has_exit_code_2(run, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "Usage: quota-admission-certs" in err


@pytest.mark.parametrize("command", [[], ["init"], ["show"], ["renew"]])
def test_help_has_an_example(run, command):
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert f"Example:\n    {' '.join(['quota-admission-certs', *(command or ['init'])])} --dir certs" in out.replace(
        "Example:\n  quota", "Example:\n    quota"
    )
    assert max(map(len, out.splitlines())) <= 100


def test_show_is_a_table_with_one_block_for_each_certificate(folder, run):
    code, out, _ = run("show", "--dir", folder, now=NOW + DAY)
    assert code == 0
    head, server, ca, verdict = out.strip().split("\n\n")
    leaf = load_pair(folder).leaf
    assert head == f"{folder}: managed"
    assert server.splitlines() == [
        "file         tls.crt (server)",
        "subject      CN=quota-admission",
        f"names        {HOST}, 10.0.0.1",
        f"sha-256      {leaf.fingerprint(hashes.SHA256()).hex(':').upper()}",
        "valid from   2030-05-17 11:55:00 UTC",
        "valid until  2030-08-15 12:00:00 UTC",
        "renew at     2030-07-16 11:58:20 UTC",
        "days left    89",
        "status       ok",
    ]
    assert ca.splitlines()[0] == "file         ca.crt (CA)"
    assert verdict == "ok"


def test_show_as_json_says_the_same(folder, run):
    code, out, _ = run("show", "--dir", folder, "--json", now=NOW + DAY)
    assert code == 0
    found = json.loads(out)
    server, ca = found.pop("certificates")
    assert found == {"dir": str(folder), "managed": True, "ok": True, "problems": []}
    assert server == {
        "file": "tls.crt",
        "role": "server",
        "subject": "CN=quota-admission",
        "dns_names": [HOST],
        "addresses": ["10.0.0.1"],
        "sha256": load_pair(folder).leaf.fingerprint(hashes.SHA256()).hex(),
        "valid_from": "2030-05-17T11:55:00Z",
        "valid_until": "2030-08-15T12:00:00Z",
        "renew_at": "2030-07-16T11:58:20Z",
        "days_left": 89,
        "renewal_due": False,
        "problems": [],
    }
    assert (ca["role"], ca["dns_names"], ca["days_left"]) == ("CA", [], 3649)


def another_key():
    return key_pem(issue_ca(now=NOW).key)


@pytest.mark.parametrize(
    ("damage", "after", "problems"),
    [
        (None, 91 * DAY, ["expired"]),
        (None, -DAY, ["not_yet_valid", "not_yet_valid"]),
        (("tls.key", another_key()), DAY, ["key_mismatch"]),
        (("tls.key", None), DAY, ["missing"]),
        (("tls.key", b"garbage"), DAY, ["unreadable"]),
        (("tls.crt", None), DAY, ["missing"]),
        (("tls.crt", b"garbage"), DAY, ["unreadable"]),
        (("ca.crt", None), DAY, ["missing"]),
        (("ca.crt", pem(issue_ca(now=NOW).certificate)), DAY, ["untrusted", "key_mismatch"]),
        (("ca.key", another_key()), DAY, ["key_mismatch"]),
        (("ca.key", b"garbage"), DAY, ["unreadable"]),
    ],
)
def test_show_tells_what_is_wrong_and_ends_with_1(folder, run, damage, after, problems):
    if damage:
        name, content = damage
        (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    code, out, err = run("show", "--dir", folder, "--json", now=NOW + after)
    assert (code, err) == (1, "")
    found = json.loads(out)
    assert found["ok"] is False
    assert [problem["problem"] for problem in found["problems"]] == problems
    code, out, _ = run("show", "--dir", folder, now=NOW + after)
    assert code == 1
    assert out.splitlines()[-1] == "wrong: " + "; ".join(problem["text"] for problem in found["problems"])


def test_show_of_an_empty_folder_is_wrong_as_well(tmp_path, run):
    code, out, _ = run("show", "--dir", tmp_path)
    assert code == 1
    assert out.splitlines()[0] == f"{tmp_path}: no certificates"


def test_show_says_that_a_renewal_is_due_and_that_all_is_still_fine(folder, run):
    code, out, _ = run("show", "--dir", folder, now=NOW + 61 * DAY)
    assert code == 0
    assert "status       ok, renewal is due" in out


def test_show_tells_a_pair_of_the_user_with_its_intermediate_ca(tmp_path, run):
    ca = foreign()
    leaf, key = foreign_leaf(ca)
    put_pair(tmp_path, [leaf, ca[0]], key)
    code, out, _ = run("show", "--dir", tmp_path)
    assert code == 0
    assert out.splitlines()[0] == f"{tmp_path}: yours, as there is no ca.key"
    assert "file         tls.crt (intermediate CA)" in out


def test_show_does_not_mind_a_former_ca_that_has_expired(tmp_path, run):
    authority, former = issue_ca(now=NOW), issue_ca(now=NOW - 20 * DAY, lifetime=10 * DAY)
    put_ca(tmp_path, authority, former.certificate)
    pair = issue_leaf(authority, Names.parse([HOST]), now=NOW)
    put_pair(tmp_path, pair.chain, pair.key)
    code, out, _ = run("show", "--dir", tmp_path)
    assert code == 0
    assert "file         ca.crt (former CA)" in out
    assert "status       expired: it ends 2030-05-07 12:00:00 UTC" in out
    assert "days left    -10" in out


def test_renew_with_nothing_due_says_so(folder, run):
    before = snapshot(folder)
    code, out, _ = run("renew", "--dir", folder, now=NOW + 10 * DAY)
    assert code == 0
    assert out.splitlines()[0] == "nothing to do"
    assert snapshot(folder) == before


def test_renew_makes_what_is_due_and_keeps_the_names(folder, run):
    names = Names.of(load_pair(folder).leaf)
    code, out, _ = run("renew", "--dir", folder, now=NOW + 61 * DAY)
    assert (code, out.splitlines()[0]) == (0, "made leaf (past two thirds of its life)")
    assert Names.of(load_pair(folder).leaf) == names


def test_renew_says_that_a_new_ca_was_made(folder, run):
    code, out, _ = run("renew", "--dir", folder, now=NOW + CA_LIFETIME * 0.7)
    assert code == 0
    assert out.splitlines()[:2] == [
        "made leaf (expired: it ends 2030-08-15 12:00:00 UTC)",
        "made CA (past two thirds of its life)",
    ]


def test_renew_with_force_makes_everything(folder, run):
    code, out, _ = run("renew", "--dir", folder, "--force", now=NOW + DAY)
    assert (code, out.splitlines()[:2]) == (0, ["made CA (asked for)", "made leaf (asked for)"])
    assert len(load_bundle(folder)) == 2


def test_what_cannot_be_done_is_one_line_and_ends_with_1(tmp_path, run):
    code, out, err = run("renew", "--dir", tmp_path / "nothing")
    assert (code, out) == (1, "")
    assert err == (
        f"Error: {tmp_path}/nothing/tls.crt: there is no such file, so there is nothing whose names could be kept\n"
    )


@pytest.mark.parametrize("command", [["renew"], ["renew", "--force"], ["init", "--dns", HOST, "--force"]])
def test_a_pair_of_the_user_is_refused_in_one_line(tmp_path, run, command):
    leaf, key = foreign_leaf(foreign())
    put_pair(tmp_path, [leaf], key)
    before = snapshot(tmp_path)
    code, out, err = run(*command, "--dir", tmp_path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "there is no ca.key" in err
    assert snapshot(tmp_path) == before


def test_init_warns_of_what_is_wrong_with_a_pair_of_the_user_and_ends_with_1(tmp_path, run):
    leaf, key = foreign_leaf(foreign())
    put_pair(tmp_path, [leaf], key)
    code, out, err = run("init", "--dir", tmp_path, "--dns", HOST)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "nothing to do"
    code, _, err = run("init", "--dir", tmp_path, "--dns", "other.svc")
    assert (code, err) == (1, "Warning: not for all names: other.svc not in it\n")


def test_the_command_reads_the_real_clock(tmp_path):
    result = CliRunner().invoke(main, ["init", "--dir", str(tmp_path), "--dns", HOST, "--days", "1"])
    assert result.exit_code == 0
    leaf = load_pair(tmp_path).leaf
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == DAY + timedelta(minutes=5)
    assert CliRunner().invoke(main, ["show", "--dir", str(tmp_path)]).exit_code == 0


def test_the_module_is_the_command(tmp_path):
    def call(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "certs", *arguments], capture_output=True, text=True, timeout=20, check=False
        )

    made = call("init", "--dir", str(tmp_path), "--dns", HOST)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("made CA (missing: ca.crt)\n")
    (tmp_path / "tls.key").unlink()
    shown = call("show", "--dir", str(tmp_path))
    assert (shown.returncode, shown.stderr) == (1, "")
    assert shown.stdout.endswith("wrong: missing: tls.key\n")
    wrong = call("init", "--dir", str(tmp_path), "--dns", "a_b")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("Error: 'a_b' is not a DNS name")
