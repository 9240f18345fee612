"""The examples print what they say they print."""

from __future__ import annotations

import difflib
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.examples.playing import EXAMPLES, NAMES, environment, play, recorded


def difference(name: str) -> str:
    """From what is recorded to what is; empty where they are the same."""
    played, expected = play(name), recorded(name)
    pairs = ((expected.output, played.output, "expected.txt"), (expected.usage, played.usage, "usage.json"))
    return "\n".join(
        line
        for old, new, file in pairs
        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), f"{name}/{file}", "now", lineterm="")
    )


@pytest.mark.timeout(400)
def test_every_example_prints_and_uses_what_is_recorded():
    # At once, because most of the time is that of starting processes.
    with ThreadPoolExecutor(3) as pool:
        differences = dict(zip(NAMES, pool.map(difference, NAMES), strict=True))
    assert len(differences) == 8
    assert not any(differences.values()), "\n\n".join(filter(None, differences.values()))


def test_an_example_runs_by_the_script_that_the_readme_names():
    done = subprocess.run(
        [EXAMPLES / "run", "priority"], env=environment(), capture_output=True, text=True, timeout=100, check=True
    )
    assert (done.stdout, done.stderr) == (recorded("priority").output, "")


def test_the_script_says_which_examples_there_are():
    done = subprocess.run(
        [EXAMPLES / "run"], env=environment(), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode != 0
    assert all(name in done.stderr for name in NAMES)


def files_of(name: str, folder: str) -> set[str]:
    return {f"{folder}/{path.name}" for path in (EXAMPLES / name / folder).iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_every_manifest_is_used_and_every_file_that_is_used_is_there(name):
    lines = (EXAMPLES / name / "run.sh").read_text().splitlines()
    words = {word for line in lines if line.startswith("run ") for word in shlex.split(line)}
    used = {word for word in words if word.endswith(".yaml")}
    assert used - files_of(name, "policies") == files_of(name, "manifests")


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_tells_of_every_example(name):
    assert f"| [{name}]({name}) | " in (EXAMPLES / "README.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_recorded_is_the_same_everywhere(name):
    text = recorded(name).output + recorded(name).usage
    assert not re.search(
        r"127\.0\.0\.1|localhost|\b[0-9a-f]{8}-[0-9a-f]{4}-|/(tmp|home|root|Users|var)/|Traceback", text
    )


def outcomes(name: str) -> list[str]:
    """One word for each line that ends a request."""
    words = []
    for line in recorded(name).output.splitlines():
        if line.startswith("Error from server (Forbidden)"):
            words.append(line.partition(" denied the request: ")[2])
        elif re.search(r"^\S+/\S+ (created|replaced)$|^\S+ \"\S+\" deleted", line):
            words.append("admitted")
    return words


def test_the_namespace_tells_the_story_with_its_numbers():
    total = "exceeded quota: compute, requested: cpu=300m, used: cpu=1800m, limited: cpu=2"
    assert outcomes("namespace") == [
        "admitted",
        "failed quota: compute: must specify cpu for: app; memory for: app",
        "admitted",
        "maximum cpu usage per Container is 1, but limit is 1500m",
        "admitted",
        "admitted",
        total,
        *[total] * 10,
        "admitted",
        "admitted",
        "admitted",
        "admitted",
        *["admitted"] * 6,
        "exceeded quota: compute, requested: pods=1, used: pods=6, limited: pods=6",
        "maximum cpu usage per Container is 1, but limit is 1500m",
    ]
    assert (
        'which LimitRange "strict" does not allow: their author must change one of them' in recorded("namespace").output
    )


def test_the_priority_class_moves_its_own_quota_alone():
    first = recorded("priority").output.partition("# A pod of class low")[0]
    assert re.findall(r"^(?:Name|cpu|memory|pods) .*$|^Name:.*$", first, re.M) == [
        "Name:       pods-high",
        "cpu         500m  1k",
        "memory      10Gi  200Gi",
        "pods        1     10",
        "Name:       pods-low",
        "cpu         0     5",
        "memory      0     10Gi",
        "pods        0     10",
        "Name:       pods-medium",
        "cpu         0     10",
        "memory      0     20Gi",
        "pods        0     10",
    ]


@pytest.mark.parametrize(
    ("name", "refusals"),
    [
        ("priority", ["exceeded quota: pods-low"]),
        (
            "myspace",
            [
                "failed quota: compute-resources: must specify limits.cpu for: app; limits.memory for: app; "
                "requests.cpu for: app; requests.memory for: app",
                "failed quota: compute-resources: must specify limits.cpu for: app; limits.memory for: app",
                "exceeded quota: compute-resources, requested: requests.nvidia.com/gpu=2",
                "exceeded quota: object-counts, requested: services.loadbalancers=1",
            ],
        ),
        ("object-counts", ["exceeded quota: test, requested: count/pods=1"]),
        (
            "storage",
            [
                "exceeded quota: volumes, requested: gold.storageclass.storage.k8s.io/requests.storage=200Gi",
                "exceeded quota: volumes, requested: requests.storage=700Gi",
                "exceeded quota: ephemeral, requested: requests.ephemeral-storage=2Gi",
            ],
        ),
        (
            "scopes",
            [
                "exceeded quota: best-effort, requested: pods=1",
                "exceeded quota: terminating, requested: pods=1",
                "exceeded quota: no-foreign-affinity, requested: pods=1, used: pods=0, limited: pods=0",
            ],
        ),
        (
            "limited",
            [
                "insufficient quota to match these scopes: [{PriorityClass In [cluster-services]}]",
                "insufficient quota to match these scopes: [{CrossNamespacePodAffinity Exists []}]",
            ],
        ),
        (
            "terminal",
            [
                "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=1",
                "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1",
            ],
        ),
    ],
)
def test_what_is_refused_is_refused_for_the_reason_that_is_told(name, refusals):
    found = [outcome for outcome in outcomes(name) if outcome != "admitted"]
    assert [text[: len(wanted)] for text, wanted in zip(found, refusals, strict=True)] == refusals
