import pytest

from admission.selectors import is_label_value, is_qualified_name

PREFIX_253 = ".".join(["a" * 62] * 4) + ".b"


@pytest.mark.parametrize(
    "text",
    ["a", "A9", "a-b_c.d", "9", "a" * 63, "example.com/a", "x/a", "a-b.c/Name_1", "1.2/x", f"{PREFIX_253[:253]}/a"],
)
def test_a_qualified_name_is_a_name_with_or_without_a_dns_prefix(text):
    assert is_qualified_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-a",
        "a-",
        ".a",
        "a_",
        "a b",
        "a\n",
        "ä",
        "a" * 64,
        "/a",
        "a/",
        "a/b/c",
        "A.com/a",
        "a_b/c",
        "-a/b",
        "a-/b",
        "a..b/c",
        ".a/b",
        "a./b",
        f"{'a' * 254}/b",
        f"x/{'a' * 64}",
        "x/-a",
    ],
)
def test_any_other_text_is_no_qualified_name(text):
    assert not is_qualified_name(text)


@pytest.mark.parametrize("text", ["", "a", "MyValue", "my_value", "12345", "a.b-c_d", "a" * 63, "A-9"])
def test_a_label_value_is_short_and_alphanumeric_at_both_ends(text):
    assert is_label_value(text)


@pytest.mark.parametrize("text", ["bad value", "-a", "a-", "_a", "a.", "a/b", "ä", "a" * 64, "a\n", " "])
def test_any_other_text_is_no_label_value(text):
    assert not is_label_value(text)
