import pytest

from admission.config import Config, ConfigError, load_config
from admission.quota.check import LimitedResource
from admission.quota.scopes import Scope

HIGH = LimitedResource("pods", (), (Scope("PriorityClass", "In", ("high",)),))
CPU = LimitedResource("pods", ("requests.cpu", "memory"))
GOLD = LimitedResource("persistentvolumeclaims", (".storageclass.storage.k8s.io/",))
WIDGETS = LimitedResource("widgets.example.com", ("count/",))

ENTRIES = """
- resource: pods
  matchScopes:
  - scopeName: PriorityClass
    operator: In
    values: [high]
- apiGroup: ""
  resource: pods
  matchContains: [requests.cpu, memory]
- {resource: persistentvolumeclaims, matchContains: [.storageclass.storage.k8s.io/]}
- {apiGroup: example.com, resource: widgets, matchContains: [count/]}
"""


def load(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return load_config(path)


def indented(text, by):
    return "\n".join(by + line for line in text.strip().splitlines())


@pytest.mark.parametrize(
    "text",
    [
        f"quota:\n  limitedResources:\n{indented(ENTRIES, '  ')}",
        f"limitedResources:\n{ENTRIES}",
        f"apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimitedResources:\n{ENTRIES}",
        f"apiVersion: resourcequota.admission.k8s.io/v1beta1\nkind: Configuration\nlimitedResources:\n{ENTRIES}",
        f"limitedResources:\n{ENTRIES}\nserver: {{threads: 4}}\nquota: {{warnAt: 0.9}}",
    ],
    ids=[
        "under quota",
        "at the top",
        "as an API server has it",
        "as an older one has it",
        "at the top beside the rest",
    ],
)
def test_limited_resources_are_read_wherever_they_stand(tmp_path, text):
    assert load(tmp_path, text).limited() == (HIGH, CPU, GOLD, WIDGETS)


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing\n", "{}", "quota: {}", "server: {}\nquota: {limitedResources: []}"]
)
def test_whatever_is_not_said_has_a_default(tmp_path, text):
    assert load(tmp_path, text) == Config() == load_config(None)


def test_an_api_servers_document_without_entries_limits_nothing(tmp_path):
    text = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration"
    assert load(tmp_path, text).limited() == ()


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("quota: {warnAt: 0.5}", "quota.warn_at", 0.5),
        ("quota: {warnAt: 1}", "quota.warn_at", 1),
        ("server: {threads: 1}", "server.threads", 1),
        ("server: {threads: 64}", "server.threads", 64),
        ("server: {keepaliveSeconds: 90}", "server.keepalive_seconds", 90),
        ("server: {maxBodyBytes: 1048576}", "server.max_body_bytes", 1048576),
        ('{"server": {"threads": 2}}', "server.threads", 2),
    ],
)
def test_what_is_said_is_taken(tmp_path, text, path, value):
    found = load(tmp_path, text)
    for step in path.split("."):
        found = getattr(found, step)
    assert found == value


BAD = [
    ("quota: {warnAt: 0}", "quota.warnAt", "got 0"),
    ("quota: {warnAt: 1.1}", "quota.warnAt", "got 1.1"),
    ("quota: {warnAt: high}", "quota.warnAt", 'got "high"'),
    ("quota: {warnAt: .nan}", "quota.warnAt", "nan"),
    ("quota: [1]", "quota", "expected an object, got a list"),
    ("quota: null", "quota", "expected an object, got null"),
    ("quota: x", "quota", 'expected an object, got "x"'),
    ("quotas: {}", "quotas", "is not a known field"),
    ("quota: {limited: []}", "quota.limited", "is not a known field"),
    ("quota: {warn_at: 0.5}", "quota.warn_at", "is not a known field"),
    ("server: {threads: 0}", "server.threads", "got 0"),
    ("server: {threads: 65}", "server.threads", "got 65"),
    ("server: {threads: 4.5}", "server.threads", "got 4.5"),
    ("server: {threads: '4'}", "server.threads", 'got "4"'),
    ("server: {threads: true}", "server.threads", "got True"),
    ("server: {keepaliveSeconds: -1}", "server.keepaliveSeconds", "got -1"),
    ("server: {maxBodyBytes: 3Mi}", "server.maxBodyBytes", 'got "3Mi"'),
    ("limitedResources: {}", "limitedResources", "expected a list, got an object"),
    ("limitedResources: [pods]", "limitedResources[0]", 'expected an object, got "pods"'),
    ("limitedResources: [{}]", "limitedResources[0].resource", "is required"),
    ("limitedResources: [{resource: ''}]", "limitedResources[0].resource", "expected a text that is not empty"),
    (
        "limitedResources: [{resource: pods, matchContains: cpu}]",
        "limitedResources[0].matchContains",
        "expected a list",
    ),
    ("limitedResources: [{resource: pods, matchContains: [1]}]", "matchContains[0]", "expected a text, got 1"),
    ("limitedResources: [{resource: pods, contains: [a]}]", "limitedResources[0].contains", "is not a known field"),
    ("limitedResources: [{resource: pods, matchScopes: [{}]}]", "matchScopes[0].scopeName", "is required"),
    ("limitedResources: [{resource: pods, matchScopes: [{scopeName: X}]}]", "matchScopes[0].scopeName", 'got "X"'),
    (
        "limitedResources: [{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: Like}]}]",
        "matchScopes[0].operator",
        'got "Like"',
    ),
    (
        "limitedResources: [{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In}]}]",
        "matchScopes[0]",
        "value",
    ),
    (
        "limitedResources: [{resource: x, matchScopes: [{scopeName: PriorityClass, operator: Exists, values: [a]}]}]",
        "matchScopes[0]",
        "no values",
    ),
    (
        "limitedResources: [{resource: pods, matchScopes: [{scopeName: BestEffort, operator: In, values: [a]}]}]",
        "matchScopes[0]",
        "Exists",
    ),
    ("- a", "config.yaml", "expected a mapping, got list"),
    ("just words", "config.yaml", "expected a mapping, got str"),
    ("a: [", "config.yaml", "line"),
    ("a: b: c", "line 1", "mapping values are not allowed"),
    ("\tquota: {}", "line 1", "column"),
    ("kind: Config\napiVersion: v1", "apiVersion, kind", "expected apiserver.config.k8s.io/v1"),
    ("kind: ResourceQuotaConfiguration", "apiVersion, kind", "got None, ResourceQuotaConfiguration"),
    (
        "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimited: []",
        "limited",
        "is not a known field",
    ),
    ("limitedResources: []\nquota: {limitedResources: []}", "limitedResources", "is not a known field"),
    ("a: &a [*a]", "config.yaml", ""),
    ("quota: !!python/object/apply:os.getcwd []", "config.yaml", "line 1"),
    ("[" * 1000, "config.yaml", ""),
]


@pytest.mark.parametrize(("text", "place", "expected"), BAD, ids=[row[0][:70] for row in BAD])
def test_a_bad_file_is_told_in_one_line_with_place_and_expectation(tmp_path, text, place, expected):
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    line = str(raised.value)
    assert len(line.splitlines()) == 1
    assert line.startswith((f"{tmp_path / 'config.yaml'}: ", f"{tmp_path / 'config.yaml'}, line "))
    assert place in line
    assert expected in line


def test_the_path_is_the_one_that_stands_in_the_file(tmp_path):
    """What stands at the top is not told to stand under `quota`."""
    for text in (
        "limitedResources: [{}]",
        "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimitedResources: [{}]",
    ):
        with pytest.raises(ConfigError, match="is required") as raised:
            load(tmp_path, text)
        assert ": limitedResources[0].resource: is required" in str(raised.value)


@pytest.mark.parametrize("what", ["missing", "folder", "binary"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, what):
    path = tmp_path / "config.yaml"
    if what == "folder":
        path.mkdir()
    elif what == "binary":
        path.write_bytes(bytes(range(256)))
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert len(str(raised.value).splitlines()) == 1
