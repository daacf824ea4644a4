"""Front matter: accepted and refused forms, and the line that an error names."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.context.front_matter import MAX_BYTES, FrontMatterError, read_front_matter, split_names, unwrap_scalars


@pytest.fixture(params=["C", "Python"])
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both builds of PyYAML: with the scanner in C, and without."""
    if request.param == "Python":
        monkeypatch.delattr(yaml, "CSafeLoader")


def fields(text: str | bytes) -> dict[str, object]:
    return {name: unwrap_scalars(found.value) for name, found in read_front_matter(text, "f.md").fields.items()}


READ: list[tuple[str, dict[str, object], str]] = [
    ("---\nname: x\n---\nbody\n", {"name": "x"}, "body\n"),
    ("\ufeff---\r\nname: x\r\n---\r\na\r\nb", {"name": "x"}, "a\nb"),
    ("---  \nname: x\n--- \nbody", {"name": "x"}, "body"),
    ("---\n---\nbody", {}, "body"),
    ("---\n# only a comment\n---\nbody", {}, "body"),
    ("no front matter\n---\n", {}, "no front matter\n---\n"),
    ("", {}, ""),
    ("---", {}, "---"),
    ("---\na: b\n---\none\n---\ntwo", {"a": "b"}, "one\n---\ntwo"),
    ("---\na: >\n  folded\n  text\nb: |\n  kept\n  lines\n---\n", {"a": "folded text\n", "b": "kept\nlines\n"}, ""),
    ("---\ntools: [Read, Bash(git:*)]\n---\n", {"tools": ["Read", "Bash(git:*)"]}, ""),
    ("---\ntools:\n  - Read\n  - Edit\n---\n", {"tools": ["Read", "Edit"]}, ""),
    ("---\nmetadata:\n  author: me\n  version: 1.0\n---\n", {"metadata": {"author": "me", "version": "1.0"}}, ""),
    ("---\ndate: 2026-99-99\n---\n", {"date": "2026-99-99"}, ""),  # PyYAML's own constructor fails on it
    ("---\non: x\n123: y\n<<: {a: b}\n---\n", {"on": "x", "123": "y", "<<": {"a": "b"}}, ""),
    # Not YAML until the value is quoted:
    ("---\nname: x\ndescription: Use when: asked\n---\n", {"name": "x", "description": "Use when: asked"}, ""),
    ("---\ndescription: It's for: you\n---\n", {"description": "It's for: you"}, ""),
    ("---\nargument-hint: [file] [format]\n---\n", {"argument-hint": "[file] [format]"}, ""),
    ("---\ndescription: @mention it\n---\n", {"description": "@mention it"}, ""),
    ("---\nmetadata:\n  note: a: b\n---\n", {"metadata": {"note": "a: b"}}, ""),
]


@pytest.mark.parametrize(("text", "expected", "body"), READ)
@pytest.mark.usefixtures("scanner")
def test_front_matter_and_body_are_read(text: str, expected: dict[str, object], body: str) -> None:
    assert fields(text) == expected
    assert fields(text.encode()) == expected
    assert read_front_matter(text, "f.md").body == body


REFUSED = [
    ("---\nname: x\nbody", 1, "the front matter has no second --- line"),
    ("---\nname: x\nname: y\n---\n", 3, "`name` is given twice"),
    ("---\nm:\n  a: 1\n  a: 2\n---\n", 4, "`a` is given twice"),
    ("---\nname: &x 1\n---\n", 2, "YAML anchors (&name) are not supported; quote the value if it is text"),
    ("---\na: 1\nname: *x\n---\n", 3, "YAML aliases (*name) are not supported; quote the value if it is text"),
    ("---\nname: !x 1\n---\n", 2, "YAML tags (!name) are not supported; quote the value if it is text"),
    ("---\na: !!python/object:os.system {}\n---\n", 2, "YAML tags (!name) are not supported"),
    ("---\na: !!str 1\n---\n", 2, "YAML tags (!name) are not supported"),
    ("---\n- a\n---\n", 2, "the front matter must be lines of the form `name: value`"),
    ("---\ntext\n---\n", 2, "the front matter must be lines of the form `name: value`"),
    ("---\n? [a, b]\n: c\n---\n", 2, "a name must be one word, followed by a colon"),
    ("---\na: b\n...\nc: d\n---\n", 4, "not YAML: "),
    ("---\na: b\n...\n--- c\n---\n", 4, "the front matter has a second document"),
    ("---\na: b\nc: \x07\n---\n", 3, "not YAML: "),
    ("---\n\ta: b\n---\n", 2, "not YAML: "),
    ('---\na: b\nc: "open\n---\n', 4, "not YAML: "),
    ("---\na: " + 8000 * "[" + "\n---\n", 2, "values are nested more than 16 deep"),
    ("---\na: " + 4000 * "{a: " + "\n---\n", 2, "values are nested more than 16 deep"),
    ("---\na: b\nc: \ud800\n---\n", 3, "not UTF-8 text"),
    (f"---\na: {MAX_BYTES * 'x'}\n---\n", 1, "the front matter is larger than 16 KiB"),
]


@pytest.mark.parametrize(("text", "line", "what"), REFUSED)
@pytest.mark.usefixtures("scanner")
def test_unusable_front_matter_is_an_error_with_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(FrontMatterError) as raised:
        read_front_matter(text, "some/f.md")
    message = str(raised.value)
    assert message.startswith(f"some/f.md:{line}: {what}")
    assert "\n" not in message


def test_bytes_that_are_not_utf_8_are_an_error_with_their_line() -> None:
    with pytest.raises(FrontMatterError, match=r"^f\.md:3: not UTF-8 text$"):
        read_front_matter(b"---\na: b\nc: \xff\n---\n", "f.md")


def test_error_names_the_words_of_the_file_if_quoting_does_not_help() -> None:
    with pytest.raises(FrontMatterError, match=r"^f\.md:2: not YAML: mapping values are not allowed"):
        read_front_matter('---\ndescription: a: b\nname: "open\n---\n', "f.md")


@pytest.mark.parametrize("value", ["123", "1.5", "yes", "true", "2026-01-31", "0x1F", "12:30:45"])
def test_text_field_of_another_type_says_to_quote_it(value: str) -> None:
    matter = read_front_matter(f"---\na: b\nname: {value}\n---\n", "f.md")
    with pytest.raises(FrontMatterError) as raised:
        matter.text("name")
    assert str(raised.value) == f'f.md:3: `name` must be a string; quote it: name: "{value}"'
    assert read_front_matter(f'---\nname: "{value}"\n---\n', "f.md").text("name") == value


@pytest.mark.parametrize(("value", "kind"), [("[a]", "list"), ("{a: b}", "map")])
def test_text_field_that_is_a_collection_is_an_error(value: str, kind: str) -> None:
    with pytest.raises(FrontMatterError, match=rf"^f\.md:2: `name` must be a string, not a {kind}$"):
        read_front_matter(f"---\nname: {value}\n---\n", "f.md").text("name")


@pytest.mark.parametrize("value", ["", "null", "~", '""', "'  '"])
def test_empty_text_field_counts_as_missing(value: str) -> None:
    matter = read_front_matter(f"---\nname: {value}\n---\n", "f.md")
    assert matter.text("name") is None
    assert matter.text("other") is None


@pytest.mark.parametrize("word", ["true", "yes", "on", "1", "True", "YES", '"true"', "'on'"])
def test_switch_is_true_for_each_word_for_true(word: str) -> None:
    assert read_front_matter(f"---\nx: {word}\n---\n", "f.md").switch("x", default=False)


@pytest.mark.parametrize("word", ["false", "no", "off", "0", "False", '"no"'])
def test_switch_is_false_for_each_word_for_false(word: str) -> None:
    assert not read_front_matter(f"---\nx: {word}\n---\n", "f.md").switch("x", default=True)


@pytest.mark.parametrize("word", ["maybe", "2", "[true]", "2026-01-31"])
def test_switch_with_another_value_is_an_error(word: str) -> None:
    with pytest.raises(FrontMatterError, match=r"^f\.md:2: `x` must be true or false$"):
        read_front_matter(f"---\nx: {word}\n---\n", "f.md").switch("x", default=True)


def test_missing_or_empty_switch_has_its_default() -> None:
    assert read_front_matter("---\nx:\n---\n", "f.md").switch("x", default=True)
    assert not read_front_matter("---\n---\n", "f.md").switch("x", default=False)


@pytest.mark.parametrize(("value", "number"), [("7", 7), ('"12"', 12), ("", None)])
def test_number_is_read(value: str, number: int | None) -> None:
    assert read_front_matter(f"---\nmaxTurns: {value}\n---\n", "f.md").number("maxTurns") == number


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "[1]", "99999999999999999999"])
def test_invalid_number_is_an_error(value: str) -> None:
    with pytest.raises(FrontMatterError, match=r"^f\.md:2: `maxTurns` must be a whole number$"):
        read_front_matter(f"---\nmaxTurns: {value}\n---\n", "f.md").number("maxTurns")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Read, Edit", ("Read", "Edit")),
        ("Read Edit", ("Read", "Edit")),
        ("Read,Bash(git log:*), Edit", ("Read", "Bash(git log:*)", "Edit")),
        ("Bash(git add *) Read", ("Bash(git add *)", "Read")),
        ("[Read, Bash(git:*)]", ("Read", "Bash(git:*)")),
        ("\n  - Read\n  - Task(a, b)", ("Read", "Task(a, b)")),
        ("[]", ()),
        ('""', ()),
    ],
)
def test_names_are_read_from_a_list_or_one_string(value: str, expected: tuple[str, ...]) -> None:
    assert read_front_matter(f"---\ntools: {value}\n---\n", "f.md").names("tools") == expected


def test_names_that_are_not_text_are_an_error() -> None:
    with pytest.raises(FrontMatterError, match=r"^f\.md:2: `tools` must be a list of strings; quote its items$"):
        read_front_matter("---\ntools: [Read, 1]\n---\n", "f.md").names("tools")
    assert read_front_matter("---\ntools:\n---\n", "f.md").names("tools") is None


def test_unclosed_parenthesis_reaches_to_the_end_of_the_names() -> None:
    assert split_names("Read, Bash(git, x") == ("Read", "Bash(git, x")


@pytest.mark.parametrize("value", ["[file] [format]", "[file]", "<file>", "file | none"])
def test_source_is_the_value_as_written(value: str) -> None:
    assert read_front_matter(f"---\nargument-hint: {value}\n---\n", "f.md").source("argument-hint") == value


def test_fields_body_and_errors_have_the_line_numbers_of_the_file() -> None:
    matter = read_front_matter("---\n# comment\na: |\n  x\n\nb: y\n---\nbody", "f.md")
    assert {name: found.line for name, found in matter.fields.items()} == {"a": 3, "b": 6}
    assert matter.body_line == 8
    assert str(matter.error("b", "what")) == "f.md:6: what"
    assert str(matter.error("missing", "what")) == "f.md:1: what"


def test_error_never_contains_control_characters_of_the_file() -> None:
    with pytest.raises(FrontMatterError) as raised:
        read_front_matter('---\n"a\\e]0;x\\a": 1\n"a\\e]0;x\\a": 2\n---\n', "f\x1b[31m.md")
    assert str(raised.value) == "f.md:3: `a` is given twice"


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (f"---\n{text}\n---\n", text):
        try:
            read_front_matter(whole, "f.md")
        except FrontMatterError as error:
            assert str(error).startswith("f.md:")


NAMES = st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.sampled_from(" :#'\"[]{}\n,&*!|>%@`-"))


@given(st.dictionaries(NAMES, TEXTS))
def test_every_text_that_yaml_can_write_is_read_back(table: dict[str, str]) -> None:
    written = yaml.safe_dump(table, allow_unicode=True, sort_keys=False, width=4000, default_style='"')
    matter = read_front_matter(f"---\n{written}---\n", "f.md")
    assert {name: found.value for name, found in matter.fields.items()} == table


def test_yaml_is_imported_only_for_a_file_with_front_matter() -> None:
    code = (
        "import sys; from qcode.agent.context.front_matter import read_front_matter as read\n"
        "read('unwrap_scalars', 'f.md'); assert 'yaml' not in sys.modules\n"
        "read('---\\na: b\\n---\\n', 'f.md'); assert 'yaml' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
