import json
import os

import pytest

from admission.standalone.documents import parse_documents, policy_files, read_documents
from admission.standalone.errors import PolicyError
from tests.standalone.manifests import pod


def bodies(text):
    data = text if isinstance(text, bytes) else text.encode()
    return [document.body for document in parse_documents(data, "file.yaml")]


def places(text):
    return [document.where for document in parse_documents(text.encode(), "file.yaml")]


A, B, C = ({"kind": kind} for kind in "ABC")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: A", [A]),
        ("---\nkind: A\n", [A]),
        ("kind: A\n---\nkind: B\n", [A, B]),
        ("---\n---\nkind: A\n---\n\n---\n# nothing\n---\nkind: B\n...\n", [A, B]),
        ("", []),
        ("\n\n", []),
        ("# only a remark\n", []),
        ("---\n", []),
        ("null\n", []),
        ('{"kind": "A"}', [A]),
        ('  \n{"kind": "A"}\n\n', [A]),
        ('{"kind": "A"}\n---\n{"kind": "B"}\n', [A, B]),
        ("{kind: A}", [A]),
        ("{kind: A}\n---\nkind: B", [A, B]),
        ("\ufeffkind: A", [A]),
        ("kind: A\r\n---\r\nkind: B\r\n", [A, B]),
        ("kind: List\nitems: [{kind: A}, {kind: B}]", [A, B]),
        ('{"kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}', [A, B]),
        ("kind: PodList\nitems: [{kind: A}]", [A]),
        ("kind: List\nitems: []", []),
        (
            "kind: List\nitems:\n- kind: List\n  items: [{kind: A}, {kind: List, items: [{kind: B}]}]\n- kind: C",
            [A, B, C],
        ),
        ("%YAML 1.1\n---\nkind: A", [A]),
        ("kind: 'A'  # a remark", [A]),
        ('kind: "\\u0041"', [A]),
        ("kind: |-\n  A", [A]),
        ("x: &x {kind: A}\ny: *x", [{"x": A, "y": A}]),
    ],
)
def test_what_kubectl_and_people_write_is_read(text, expected):
    assert bodies(text) == expected


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2025-01-02T03:04:05Z", "2025-01-02T03:04:05Z"),
        ("2025-01-02", "2025-01-02"),
        ("2025-01-02 03:04:05", "2025-01-02 03:04:05"),
        ("'2025-01-02'", "2025-01-02"),
        ("text", "text"),
        ("1", 1),
        ("-7", -7),
        ("1.5", 1.5),
        ("'1'", "1"),
        ("true", True),
        ("null", None),
        ("~", None),
        ("100m", "100m"),
        ("1Gi", "1Gi"),
        ("1e3", "1e3"),
    ],
)
def test_times_stay_texts_and_numbers_numbers(written, value):
    assert bodies(f"kind: {written}") == [{"kind": value}]


def test_a_key_merged_in_from_elsewhere_may_be_given_anew():
    text = "base: &base {a: 1, b: 1}\nmerged:\n  <<: *base\n  b: 2\n"
    assert bodies(text) == [{"base": {"a": 1, "b": 1}, "merged": {"a": 1, "b": 2}}]


def test_digits_of_json_numbers_are_kept():
    (body,) = bodies('{"a": 0.1, "b": 1e3, "c": 12345678901234567890.5}')
    assert [str(value) for value in body.values()] == ["0.1", "1e3", "12345678901234567890.5"]


def test_each_object_knows_where_it_stands():
    text = "kind: A\n---\nkind: List\nitems:\n- kind: B\n- kind: List\n  items: [{kind: C}]\n---\nkind: D"
    assert places(text) == [
        "file.yaml, document 1",
        "file.yaml, document 2, items[0]",
        "file.yaml, document 2, items[1], items[0]",
        "file.yaml, document 3",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: A\nkind: B", 'file.yaml, line 2, column 1: the key "kind" stands twice'),
        ("a:\n  b: 1\n  c: 1\n  b: 2", 'file.yaml, line 4, column 3: the key "b" stands twice'),
        ("kind: A\n---\nb: 1\nb: 2", "line 4"),
        ("{kind: A, kind: B}", 'the key "kind" stands twice'),
        ('{"kind": "A",\n "kind": "B"}', 'the key "kind" stands twice'),
        ('{"a": {"b": 1,\n "b": 2}}', 'the key "b" stands twice'),
        ("kind: [", "file.yaml, line 2, column 1"),
        ("kind: A\n  b: c", "file.yaml, line 2, column 4: mapping values are not allowed"),
        ("\tkind: A", "file.yaml, line 1, column 1"),
        ("kind: 'A", "file.yaml, line"),
        ("kind: *x", "file.yaml, line 1"),
        ("kind: !!python/object/apply:os.getcwd []", "file.yaml, line 1"),
        ("kind: !custom x", "file.yaml, line 1"),
        ("? [a]\n: b", "file.yaml, line 1"),
        ("- kind: A", "file.yaml, document 1: expected an object with apiVersion and kind, got list"),
        ("kind: A\n---\njust words", "file.yaml, document 2: expected an object with apiVersion and kind, got str"),
        ("1", "file.yaml, document 1: expected an object with apiVersion and kind, got int"),
        (
            "kind: List\nitems: [a]",
            "file.yaml, document 1, items[0]: expected an object with apiVersion and kind, got str",
        ),
        ('{"kind": "A"', "file.yaml, line 2, column 1"),
        ('{"kind": "A",}x', "file.yaml, line 1"),
        ("[" * 100_000, "file.yaml"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "file.yaml"),
        ("kind: \x07", "file.yaml"),
    ],
)
def test_what_is_broken_is_told_in_one_line_with_its_place(text, expected):
    with pytest.raises(PolicyError) as raised:
        bodies(text)
    line = str(raised.value)
    assert len(line.splitlines()) == 1
    assert expected in line


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"kind: \xff", "file.yaml: expected UTF-8, got byte 0xff at 6"),
        ("kind: A".encode("utf-16"), "file.yaml: expected UTF-8"),
        (b'{"kind": "\xff"}', "file.yaml: expected UTF-8"),
    ],
)
def test_other_encodings_are_told(data, expected):
    with pytest.raises(PolicyError, match=expected):
        bodies(data)


def test_aliases_that_multiply_are_no_bomb():
    levels = "\n".join(f"l{n + 1}: &l{n + 1} [{', '.join([f'*l{n}'] * 10)}]" for n in range(30))
    assert len(bodies(f"l0: &l0 [x]\n{levels}")) == 1


def test_a_thousand_objects_are_read_in_a_moment():
    listed = {"apiVersion": "v1", "kind": "List", "items": [pod(f"p{index}") for index in range(1000)]}
    assert len(bodies(json.dumps(listed))) == 1000
    assert len(bodies("\n---\n".join(json.dumps(item) for item in listed["items"]))) == 1000


# -- files


def test_only_yaml_and_json_is_read_and_nothing_hidden(tmp_path):
    for name in ("b.yaml", "a.yml", "c.json", "UP.YAML", "deep/er/d.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("kind: A")
    for name in ("notes.md", "e.yaml.bak", ".hidden.yaml", "..data/f.yaml", "yaml", "g.yaml~"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("kind: [")
    found = [str(path.relative_to(tmp_path)) for path in policy_files(tmp_path)]
    assert found == sorted(["b.yaml", "a.yml", "c.json", "UP.YAML", "deep/er/d.yaml"])


def test_files_of_a_mounted_volume_are_read_once(tmp_path):
    """A ConfigMap volume: links to a hidden folder that is swapped at each change."""
    (tmp_path / "..2025").mkdir()
    (tmp_path / "..2025" / "a.yaml").write_text("kind: A")
    (tmp_path / "..data").symlink_to("..2025")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    assert [path.name for path in policy_files(tmp_path)] == ["a.yaml"]
    assert read_documents(tmp_path / "a.yaml", "a.yaml")[0].body == A


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, what):
    path = tmp_path / "a.yaml"
    if what == "folder":
        path.mkdir()
    with pytest.raises(PolicyError, match=r"^a\.yaml: "):
        read_documents(path, "a.yaml")


def test_a_link_back_to_a_folder_above_is_not_followed(tmp_path):
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "a.yaml").touch()
    (tmp_path / "elsewhere").symlink_to(tmp_path / "team")
    for number in range(3):
        (tmp_path / "team" / f"up{number}").symlink_to(tmp_path)
        (tmp_path / f"here{number}").symlink_to(".")
    found = [str(path.relative_to(tmp_path)) for path in policy_files(tmp_path)]
    assert found == ["elsewhere/a.yaml", "team/a.yaml"]


@pytest.mark.parametrize(
    "value", ["!!bool hunter2", "!!int hunter2", "!!int ''", "!!float hunter2", "!!timestamp hunter2"]
)
def test_a_value_that_is_not_of_its_type_is_told_without_showing_it(value):
    with pytest.raises(PolicyError, match="holds a value that cannot be read") as raised:
        bodies(f"kind: {value}")
    assert "hunter2" not in str(raised.value)


def test_a_list_in_itself_is_told():
    with pytest.raises(PolicyError, match="lists are nested more than 8 deep"):
        bodies("&a {kind: List, items: [*a]}")


def test_a_list_without_items_holds_nothing():
    assert bodies("kind: List\n---\nkind: A") == [{"kind": "A"}]


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    assert list(policy_files(tmp_path)) == []
