"""From files to policies and objects: what is taken, what is doubted, what is refused."""

import json

import pytest

from admission.standalone.errors import PolicyError
from admission.standalone.store import StandaloneStore
from admission.standalone.world import Folder
from tests.standalone.manifests import claim, config_map, file_of, limit_range, namespace, pod, quota, service

HEAD = "apiVersion: v1\nkind: "


def world_of(tmp_path, *texts, **files):
    """The world of some files: unnamed ones are called 1.yaml, 2.yaml, ..."""
    for name, text in {**{f"{index}.yaml": text for index, text in enumerate(texts, 1)}, **files}.items():
        (tmp_path / name).write_text(text)
    folder = Folder(tmp_path)
    return folder.load(folder.fingerprints())


def used_of(world, ns="ns"):
    """Quota name -> what is used of it."""
    return {name: quota.used for name, quota in StandaloneStore(world).usage(ns).get(ns, {}).items()}


def refusal(tmp_path, *texts):
    with pytest.raises(PolicyError) as raised:
        world_of(tmp_path, *texts)
    line = str(raised.value)
    assert len(line.splitlines()) == 1
    return line


# -- what is taken


def test_each_kind_is_put_in_its_place(tmp_path):
    world = world_of(
        tmp_path,
        file_of(
            namespace("a"),
            limit_range("l", ns="a", max="cpu=1"),
            quota("q", "pods=1", ns="a"),
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1},
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "gpu"},
                "spec": {"extendedResourceName": "example.com/gpu"},
            },
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "tpu"}},
            pod("p", ns="a"),
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
        ),
    )
    assert [policy.name for policy in world.namespaces["a"].limits] == ["l"]
    assert [source.policy.name for source in world.namespaces["a"].quotas] == ["q"]
    assert [(found.identity.kind, found.identity.name) for found in world.namespaces["a"].objects] == [
        ("resourcequotas", "q"),
        ("pods", "p"),
    ]
    assert world.priority_classes == {"high"}
    assert world.devices == {"gpu": "example.com/gpu", "tpu": ""}
    assert world.doubts == ()


def test_an_exported_list_is_taken_as_it_is(tmp_path):
    """`kubectl get resourcequota,limitrange,pod -o yaml`, managed fields and status included."""
    text = """
apiVersion: v1
items:
- apiVersion: v1
  kind: ResourceQuota
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"4"}}}
    creationTimestamp: "2025-03-01T10:00:00Z"
    managedFields:
    - apiVersion: v1
      fieldsType: FieldsV1
      fieldsV1: {"f:spec": {"f:hard": {".": {}, "f:pods": {}}}}
      manager: kubectl
      operation: Update
      time: "2025-03-01T10:00:00Z"
    name: q
    namespace: ns
    resourceVersion: "4711"
    uid: 1b9c7f0e-0000-4000-8000-000000000001
  spec:
    hard:
      pods: "4"
      requests.cpu: 1500m
    scopes:
    - NotTerminating
  status:
    hard:
      pods: "4"
      requests.cpu: 1500m
    used:
      pods: "2"
      requests.cpu: "1"
- apiVersion: v1
  kind: LimitRange
  metadata:
    creationTimestamp: 2025-03-01T10:00:00Z
    name: l
    namespace: ns
    uid: 1b9c7f0e-0000-4000-8000-000000000002
  spec:
    limits:
    - default:
        cpu: 500m
      max:
        cpu: 2
      type: Container
- apiVersion: v1
  kind: Pod
  metadata:
    creationTimestamp: "2025-03-01T10:00:00Z"
    name: p
    namespace: ns
    uid: 1b9c7f0e-0000-4000-8000-000000000003
  spec:
    containers:
    - name: c
      resources: {limits: {cpu: 1, memory: 1e3}, requests: {cpu: 0.5, memory: 1e3}}
  status: {phase: Running}
kind: List
metadata:
  resourceVersion: ""
"""
    world = world_of(tmp_path, text)
    assert used_of(world) == {"q": {"pods": "2", "requests.cpu": "1"}}
    assert world.namespaces["ns"].limits[0].default_limits.keys() == {"cpu"}
    assert world.doubts == ()


@pytest.mark.parametrize("ns", [None, "default"])
def test_whatever_names_no_namespace_is_in_default(tmp_path, ns):
    objects = [quota("q", "pods=4 configmaps=4"), pod(), config_map(), limit_range(max="cpu=1")]
    for made in objects:
        del made["metadata"]["namespace"]
        if ns:
            made["metadata"]["namespace"] = ns
    world = world_of(tmp_path, file_of(*objects))
    assert used_of(world, "default") == {"q": {"configmaps": "1", "pods": "1"}}
    assert len(world.namespaces["default"].limits) == 1


def test_a_namespace_need_not_be_listed(tmp_path):
    assert used_of(world_of(tmp_path, file_of(quota("q", "pods=4")))) == {"q": {"pods": "0"}}


def test_a_quota_without_status_is_counted_from_the_objects_of_all_files(tmp_path):
    hard = "pods=9 count/pods=9 requests.cpu=9 services=9 services.nodeports=9 requests.storage=9Gi configmaps=9"
    world = world_of(
        tmp_path,
        file_of(pod("a", requests="cpu=1"), pod("b", requests="cpu=250m"), pod("far", ns="other", requests="cpu=1")),
        file_of(quota("q", f"{hard} resourcequotas=9 count/deployments.apps=9")),
        file_of(
            pod("done", requests="cpu=3", status={"phase": "Succeeded"}),
            service("s", kind="NodePort", ports=2),
            claim("d", "2Gi"),
            config_map(),
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ns"}},
            {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ns"}},
        ),
    )
    assert used_of(world)["q"] == {
        "pods": "2",
        "count/pods": "3",
        "requests.cpu": "1250m",
        "services": "1",
        "services.nodeports": "2",
        "requests.storage": "2Gi",
        "configmaps": "1",
        "resourcequotas": "1",
        "count/deployments.apps": "1",
    }


def test_a_quota_with_a_status_starts_from_it_whatever_the_objects(tmp_path):
    world = world_of(tmp_path, file_of(quota("q", "pods=9 requests.cpu=9", "pods=5 requests.cpu=1"), pod("a")))
    assert used_of(world) == {"q": {"pods": "5", "requests.cpu": "1"}}


@pytest.mark.parametrize(
    ("status", "used"),
    [
        ({}, {"pods": "1", "requests.cpu": "1"}),
        (None, {"pods": "1", "requests.cpu": "1"}),
        ({"used": {"pods": "7"}}, {"pods": "7"}),
        ({"hard": {"pods": "9"}}, {}),
        ({"hard": {"pods": "9"}, "used": {}}, {}),
        ({"used": {"pods": 7, "requests.cpu": 0.5}}, {"pods": "7", "requests.cpu": "500m"}),
    ],
)
def test_what_a_status_does_not_say_is_not_known(tmp_path, status, used):
    made = quota("q", "pods=9 requests.cpu=9")
    made["status"] = status
    assert used_of(world_of(tmp_path, file_of(made, pod("a", requests="cpu=1")))) == {"q": used}


CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "oxen.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Ox", "plural": "oxen", "singular": "ox"},
    },
}
OX = {"apiVersion": "example.com/v1", "kind": "Ox", "metadata": {"name": "o", "namespace": "ns"}}
OXEN = quota("q", "count/oxen.example.com=9 count/oxes.example.com=9")


@pytest.mark.parametrize(
    "files",
    [
        [[CRD, OX, OXEN]],
        [[OX, OXEN, CRD]],
        [[CRD], [OX], [OXEN]],
        [[OXEN], [OX], [CRD]],
    ],
    ids=["one file", "one file, last", "files, first", "files, last"],
)
def test_a_custom_resource_has_the_plural_that_its_definition_gives(tmp_path, files):
    used = used_of(world_of(tmp_path, *(file_of(*objects) for objects in files)))
    assert used["q"] == {"count/oxen.example.com": "1", "count/oxes.example.com": "0"}


def test_a_definition_that_comes_later_is_taken_over(tmp_path):
    folder = Folder(tmp_path)
    (tmp_path / "a.yaml").write_text(file_of(OX, OXEN))
    assert used_of(folder.load(folder.fingerprints()))["q"]["count/oxes.example.com"] == "1"
    (tmp_path / "b.yaml").write_text(file_of(CRD))
    assert used_of(folder.load(folder.fingerprints()))["q"]["count/oxen.example.com"] == "1"


def test_a_custom_resource_without_definition_has_the_usual_plural(tmp_path):
    gadget = {"apiVersion": "example.com/v1beta1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "ns"}}
    bus = {"apiVersion": "example.com/v1", "kind": "Bus", "metadata": {"name": "b", "namespace": "ns"}}
    hard = "count/gadgets.example.com=9 count/buses.example.com=9"
    used = used_of(world_of(tmp_path, file_of(quota("q", hard), gadget, bus)))
    assert used["q"] == {"count/gadgets.example.com": "1", "count/buses.example.com": "1"}


def test_a_cluster_wide_custom_resource_counts_in_no_namespace(tmp_path):
    wide = {**CRD, "spec": {**CRD["spec"], "scope": "Cluster"}}
    world = world_of(tmp_path, file_of(wide, {**OX, "metadata": {"name": "o"}}))
    assert all(not found.objects for found in world.namespaces.values())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        HEAD + "Namespace\nmetadata: {name: a}",
        HEAD + "ConfigMap\nmetadata: {name: a, namespace: b, labels: {x: 'y'}}\ndata: {a: '1'}\nbinaryData: {}",
        HEAD + "ResourceQuota\nmetadata: {name: a}",
        HEAD + "ResourceQuota\nmetadata: {name: a}\nspec: {}\nstatus: {}",
        HEAD + "ResourceQuota\nmetadata: {name: a}\nspec: {hard: {}}",
        HEAD + "LimitRange\nmetadata: {name: a}\nspec: {limits: []}",
        HEAD + "Pod\nmetadata: {name: a}",
        HEAD + "Pod\nmetadata: {name: a}\nspec:\nstatus:",
        "apiVersion: example.com/v1\nkind: Whatever\nmetadata: {name: a}\nspec: [1, 2]",
        "apiVersion: v1\nkind: List\nitems: []",
    ],
)
def test_the_least_that_can_be_written_is_taken(tmp_path, text):
    assert world_of(tmp_path, text).doubts == ()


# -- what is doubted

DOUBTS = [
    (quota("q", "podz=1"), "spec.hard[podz]: no kind of object uses this name: it limits nothing"),
    (quota("q", "pods=-1"), "spec.hard[pods]: -1 is negative"),
    (quota("q", "pods=1", scopes=["Nonsense"]), 'spec: scope "Nonsense" is unknown and matches nothing'),
    (
        quota("q", "services=1", scopes=["BestEffort"]),
        "spec.hard[services]: its objects are in none of the quota's scopes",
    ),
    (
        {**quota("q", "pods=1", "pods=0"), "spec": {"hard": {"pods": "2"}}},
        "status.hard differs from spec.hard: what is enforced is status.hard",
    ),
    (limit_range("l", min="cpu=2", max="cpu=1"), "spec.limits[0].min[cpu]: min value 2 is greater than max value 1"),
    (
        limit_range("l", maxLimitRequestRatio="cpu=500m"),
        "spec.limits[0].maxLimitRequestRatio[cpu]: ratio 500m is less than 1",
    ),
    (limit_range("l", type="Pot", max="cpu=1"), "spec.limits[0].type: Pot is not a standard limit type"),
    (limit_range("l", type="Pod", default="cpu=1"), "spec.limits[0].default: may not be specified when type is Pod"),
]


@pytest.mark.parametrize(("made", "text"), DOUBTS, ids=[row[1][:50] for row in DOUBTS])
def test_what_is_hardly_meant_is_taken_and_said(tmp_path, made, text):
    doubts = world_of(tmp_path, "", file_of(namespace(), made)).doubts
    assert all(
        doubt.startswith(f"2.yaml, document 2 ({made['kind']} ns/{made['metadata']['name']}): ") for doubt in doubts
    )
    assert [doubt for doubt in doubts if text in doubt]


# -- what is refused


def limits(text):
    return f"{HEAD}LimitRange\nmetadata: {{name: l, namespace: ns}}\nspec: {{limits: [{{type: Container, {text}}}]}}"


def hard(text):
    return f"{HEAD}ResourceQuota\nmetadata: {{name: q, namespace: ns}}\nspec: {{hard: {{{text}}}}}"


L, Q = "(LimitRange ns/l): spec.limits[0]", "(ResourceQuota ns/q): spec"
REFUSED = [
    (
        limits("max: {cpu: abc}"),
        f"{L}.max.cpu: expected a quantity such as 500m or 1Gi: quantities must match",
        '"abc"',
    ),
    (limits("max: {cpu: true}"), f"{L}.max.cpu: expected a quantity", "True"),
    (limits("max: {cpu: [1]}"), f"{L}.max.cpu: expected a quantity", "a list"),
    (limits("max: {cpu: null}"), f"{L}.max.cpu: expected a quantity", "null"),
    (limits("max: {cpu: .nan}"), f"{L}.max.cpu: expected a quantity", "nan"),
    (limits("max: {cpu: .inf}"), f"{L}.max.cpu: expected a quantity", "inf"),
    (limits("max: {cpu: 1e999999999}"), f"{L}.max.cpu: expected a quantity", ""),
    (limits("max: {example.com/gpu: x}"), f'{L}.max["example.com/gpu"]: expected a quantity', '"x"'),
    (limits("max: [cpu]"), f"{L}.max: expected a mapping of names to amounts", "a list"),
    (limits("maximum: {cpu: 1}"), f"{L}.maximum: is not a known field", ""),
    (limits("defaultRequests: {cpu: 1}"), f"{L}.defaultRequests: is not a known field", ""),
    (limits("max: {1: 1}"), f"{L}.max", ""),
    (limits("type: Pod"), "line 4", 'the key "type" stands twice'),
    (
        f"{HEAD}LimitRange\nmetadata: {{name: l, namespace: ns}}\nspec: {{limits: [{{max: {{}}}}]}}",
        f"{L}.type: is required",
        "",
    ),
    (
        f"{HEAD}LimitRange\nmetadata: {{name: l, namespace: ns}}\nspec: {{limits: {{}}}}",
        "spec.limits: expected a list",
        "an object",
    ),
    (
        f"{HEAD}LimitRange\nmetadata: {{name: l, namespace: ns}}\nspec: {{}}",
        "(LimitRange ns/l): spec.limits: is required",
        "",
    ),
    (f"{HEAD}LimitRange\nmetadata: {{name: l, namespace: ns}}", "(LimitRange ns/l): spec: is required", ""),
    (f"{HEAD}LimitRange\nmetadata: {{namespace: ns}}\nspec: {{limits: []}}", "metadata.name: is required", ""),
    (
        f"{HEAD}LimitRange\nmetadata: {{name: ''}}\nspec: {{limits: []}}",
        "metadata.name: expected a text that is not empty",
        "",
    ),
    (f"{HEAD}LimitRange\nmetadata: {{name: 7}}\nspec: {{limits: []}}", "metadata.name: expected a text", "7"),
    (f"{HEAD}LimitRange\nmetadata: l\nspec: {{limits: []}}", "metadata: expected an object", '"l"'),
    (f"{HEAD}LimitRange\nspec: {{limits: []}}", "metadata: is required", ""),
    (hard("pods: many"), f"{Q}.hard.pods: expected a quantity", '"many"'),
    (hard("pods: 1x"), f"{Q}.hard.pods: expected a quantity", '"1x"'),
    (
        f"{HEAD}ResourceQuota\nmetadata: {{name: q, namespace: ns}}\nspec: {{hards: {{}}}}",
        f"{Q}.hards: is not a known field",
        "",
    ),
    (
        f"{HEAD}ResourceQuota\nmetadata: {{name: q, namespace: ns}}\nspec: {{scopes: Terminating}}",
        f"{Q}.scopes: expected a list",
        "",
    ),
    (
        file_of(quota("q", "pods=1", scopeSelector={"matchExpressions": [{}]})),
        f"{Q}.scopeSelector.matchExpressions[0].scopeName: is required",
        "",
    ),
    (
        f"{HEAD}ResourceQuota\nmetadata: {{name: q, namespace: ns}}\nstatus: {{used: {{pods: x}}}}",
        "(ResourceQuota ns/q): status.used.pods: expected a quantity",
        '"x"',
    ),
    (f"{HEAD}ResourceQuota\nspec: {{hard: {{}}}}", "metadata: is required", ""),
    (f"{HEAD}Namespace\nmetadata: {{}}", "(Namespace): metadata.name: is required", ""),
    (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass",
        "(PriorityClass.scheduling.k8s.io): metadata: is required",
        "",
    ),
    (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: d}\nspec: {extendedResourceName: 1}",
        "spec.extendedResourceName: expected a text",
        "1",
    ),
    (f"{HEAD}Pod\nmetadata: {{namespace: ns}}", "(Pod ns): metadata.name: is required", ""),
    (f"{HEAD}Pod\nspec: {{}}", "metadata.name: is required", ""),
    (f"{HEAD}Pod\nmetadata: {{name: [p]}}", "metadata.name: expected `str", ""),
    (f"{HEAD}Pod\nmetadata: {{name: p}}\nspec: {{containers: 1}}", "(Pod p): spec.containers: expected", "int"),
    (
        f"{HEAD}Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{resources: {{limits: {{cpu: lots}}}}}}]}}",
        "(Pod p): spec.containers[0].resources.limits",
        "quantit",
    ),
    (
        f"{HEAD}Pod\nmetadata: {{name: p, deletionTimestamp: soon, deletionGracePeriodSeconds: 1}}",
        "(Pod p): metadata.deletionTimestamp",
        "",
    ),
    (f"{HEAD}Pod\nmetadata: &m {{name: p, annotations: *m}}", "1.yaml", ""),
    ("kind: Pod\nmetadata: {name: p}", "1.yaml, document 1: apiVersion: is required", ""),
    ("apiVersion: v1\nmetadata: {name: p}", "1.yaml, document 1: kind: is required", ""),
    ("apiVersion: 1\nkind: Pod", "apiVersion: expected a text, got int", ""),
    ("apiVersion: v1\nkind: [Pod]", "kind: expected a text, got list", ""),
    (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec: {group: g}",
        "spec.names: is required",
        "",
    ),
    (f"kind: List\nitems: []\n---\n---\n{hard('pods: x')}", "1.yaml, document 3 (ResourceQuota ns/q)", ""),
    (
        f"apiVersion: v1\nkind: List\nitems:\n- {json.dumps({'kind': 'Pod'})}",
        "document 1, items[0]: apiVersion: is required",
        "",
    ),
    (file_of(quota("q", "pods=1"), quota("q", "pods=2")), "document 2", "ResourceQuota|resourcequotas"),
    (
        file_of(limit_range("l", max="cpu=1"), limit_range("l", max="cpu=2")),
        "LimitRange ns/l stands twice, first in 1.yaml, document 1",
        "",
    ),
    (file_of(pod("p", uid="1"), pod("p", uid="2")), "pods ns/p stands twice, first in 1.yaml, document 1", ""),
    (
        file_of(config_map("m"), config_map("n"), config_map("m")),
        "1.yaml, document 3: configmaps ns/m stands twice",
        "",
    ),
]


@pytest.mark.parametrize(("text", "place", "value"), REFUSED, ids=[row[1][:60] for row in REFUSED])
def test_what_cannot_be_meant_is_refused_with_file_document_field_and_expectation(tmp_path, text, place, value):
    line = refusal(tmp_path, text)
    assert line.startswith("1.yaml")
    assert place in line
    assert any(part in line for part in value.split("|"))


def test_an_object_that_stands_in_two_files_is_refused(tmp_path):
    assert refusal(tmp_path, file_of(pod("p")), file_of(pod("q"), pod("p"))) == (
        "2.yaml, document 2: pods ns/p stands twice, first in 1.yaml, document 1"
    )


def test_two_objects_with_one_uid_are_refused(tmp_path):
    """A copied file: counted as one object, the other would be forgotten."""
    line = refusal(tmp_path, file_of(pod("p", uid="1"), pod("q", uid="1")))
    assert "uid" in line.lower()


SECRET = "HUSH-7Q2X-HUSH"


@pytest.mark.parametrize(
    "text",
    [
        f"data: {{password: *{SECRET}}}",
        f"data: {{password: !{SECRET} x}}",
        f"data: {{password: '{SECRET}",
        f"data: {{password: @{SECRET}}}",
        f"data: {{password: %{SECRET}}}",
        f"data:\n\t{SECRET}: x",
        f"metadata: {{name: s, annotations: {{a: [{SECRET}]}}}}",
        f"metadata: {{name: s, annotations: {{a: {{{SECRET}: 1}}}}}}",
        f"metadata: {{name: s, ownerReferences: {SECRET}}}",
        f"metadata: {SECRET}",
    ],
)
def test_a_refusal_does_not_tell_what_an_object_holds(tmp_path, text):
    line = refusal(tmp_path, f"{HEAD}Secret\n{text}\n")
    assert line.startswith("1.yaml")
    assert SECRET not in line


# -- folders


@pytest.mark.parametrize("what", ["missing", "file"])
def test_a_folder_that_is_none_is_named(tmp_path, what):
    path = tmp_path / "policies"
    if what == "file":
        path.write_text("kind: A")
    with pytest.raises(PolicyError, match="policies: expected a folder with YAML or JSON files"):
        Folder(path)


def test_a_file_that_cannot_be_looked_at_is_named(tmp_path):
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(PolicyError, match=r"loop\.yaml: "):
        world_of(tmp_path)


def test_only_changed_files_are_read_again(tmp_path, monkeypatch):
    from admission.standalone import world as module

    read = []
    original = module.read_part
    monkeypatch.setattr(module, "read_part", lambda path, *rest: read.append(path.name) or original(path, *rest))
    folder = Folder(tmp_path)
    (tmp_path / "a.yaml").write_text(file_of(quota("a", "pods=1")))
    (tmp_path / "b.yaml").write_text(file_of(quota("b", "pods=1")))
    folder.load(folder.fingerprints())
    folder.load(folder.fingerprints())
    (tmp_path / "b.yaml").write_text(file_of(quota("b", "pods=10")))
    folder.load(folder.fingerprints())
    assert read == ["a.yaml", "b.yaml", "b.yaml"]


def test_a_file_that_was_broken_is_read_again_once_it_is_whole(tmp_path):
    folder = Folder(tmp_path)
    (tmp_path / "a.yaml").write_text("kind: [")
    with pytest.raises(PolicyError):
        folder.load(folder.fingerprints())
    (tmp_path / "a.yaml").write_text(file_of(quota("q", "pods=1")))
    assert used_of(folder.load(folder.fingerprints())) == {"q": {"pods": "0"}}
