"""Changing one key leaves everything else as the user wrote it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcode.config.edit import change, is_changeable, read_typed, with_items, with_value, without_table, without_value
from qcode.config.schema import KEYS, find_key
from qcode.protocol.errors import ConfigError
from tests.fakes.examples import share

FILE = """\
# mine
model = "a/b"  # the good one

[ui]  # looks
theme = "dark"
# why
bell = false

[output]
max_tokens = 5
"""


@pytest.mark.parametrize(
    ("text", "path", "value", "expected"),
    [
        (FILE, ("ui", "bell"), True, FILE.replace("bell = false", "bell = true")),
        (FILE, ("model",), "c/d", FILE.replace('"a/b"  #', '"c/d"  #')),
        (FILE, ("ui", "mouse"), False, FILE.replace("bell = false\n", "bell = false\nmouse = false\n")),
        (FILE, ("small_model",), "x/y", FILE.replace("good one\n", 'good one\nsmall_model = "x/y"\n')),
        (FILE, ("network", "max_retries"), 2, None),
        ("", ("ui", "bell"), True, "[ui]\nbell = true\n"),
        ("", ("model",), "a/b", 'model = "a/b"\n'),
        ("[ui]\n# nothing yet", ("ui", "bell"), True, "[ui]\nbell = true\n# nothing yet"),
        ("[ui]", ("ui", "bell"), True, "[ui]\nbell = true\n"),
        ("[ui]\nbell = false", ("model",), "a/b", 'model = "a/b"\n\n[ui]\nbell = false'),
        ("ui = { theme = 'x' }\n", ("ui", "bell"), True, "ui = { bell = true, theme = 'x' }\n"),
        ("ui = {}\n", ("ui", "bell"), True, "ui = { bell = true }\n"),
        ("ui.theme = 'x'\n", ("ui", "bell"), True, "ui.theme = 'x'\nui.bell = true\n"),
        ("[ui]\r\nbell = false\r\n", ("ui", "title"), True, "[ui]\r\nbell = false\r\ntitle = true\r\n"),
        ("[ui]\n  theme = '''a\nb'''\n", ("ui", "theme"), 'q"\\', '[ui]\n  theme = "q\\"\\\\"\n'),
        ("[ui.keys]\nfold = 'x'\n", ("ui", "bell"), True, "[ui.keys]\nfold = 'x'\n\n[ui]\nbell = true\n"),
    ],
)
def test_key_is_set_in_its_table(text: str, path: tuple[str, ...], value: object, expected: str | None) -> None:
    changed = with_value(text, path, value)
    assert changed == expected or expected is None
    found: object = tomllib.loads(changed)
    for part in path:
        assert isinstance(found, dict)
        found = found[part]
    assert found == value


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (FILE, ("ui", "bell"), FILE.replace("bell = false\n", "")),
        (FILE, ("model",), FILE.replace('model = "a/b"  # the good one\n', "")),
        (FILE, ("ui", "mouse"), FILE),
        ("ui = { bell = true, theme = 'x' }\n", ("ui", "bell"), "ui = { theme = 'x' }\n"),
        ("ui = { theme = 'x', bell = true }\n", ("ui", "bell"), "ui = { theme = 'x' }\n"),
        ("ui.bell = true", ("ui", "bell"), ""),
    ],
)
def test_key_is_removed_with_its_line(text: str, path: tuple[str, ...], expected: str) -> None:
    assert without_value(text, path) == expected


@settings(max_examples=share(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["ui.bell", "ui.mouse", "model", "output.x"]), st.booleans()), max_size=6),
    st.sampled_from([FILE, "", "ui = { title = true }\n", "ui.title = true\n[output]\n", "[ui]\n[output]\n# end"]),
)
def test_changes_set_their_values_and_keep_comments(steps: list[tuple[str, bool]], text: str) -> None:
    comments = [line.partition("#")[2] for line in text.split("\n") if "#" in line]
    expected = tomllib.loads(text)
    for name, value in steps:
        path = tuple(name.split("."))
        text = with_value(text, path, value)
        table = expected.setdefault(path[0], {}) if len(path) > 1 else expected
        table[path[-1]] = value
    assert tomllib.loads(text) == expected
    assert [line.partition("#")[2] for line in text.split("\n") if "#" in line] == comments


def test_edit_changes_the_target_of_a_link_and_keeps_its_mode(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "qcode.toml"
    real.parent.mkdir()
    real.write_text(FILE)
    real.chmod(0o640)
    link = tmp_path / "config.toml"
    link.symlink_to(real)
    change(link, ("ui", "bell"), True)
    assert link.is_symlink()
    assert "bell = true" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    change(link, ("ui", "bell"), None)
    assert "bell" not in real.read_text()
    assert [path.name for path in real.parent.iterdir()] == ["qcode.toml"]


def test_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "new" / "config.toml"
    change(file, ("ui", "theme"), None)
    assert not file.exists()
    change(file, ("ui", "theme"), "light")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ('[ui]\ntheme = "light"\n', 0o600)


def test_invalid_file_is_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[ui\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        change(file, ("ui", "bell"), True)
    assert file.read_text() == "[ui\n"


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("ui.bell", "true", True),
        ("network.max_retries", " 7 ", 7),
        ("network.idle_timeout_s", "1.5", 1.5),
        ("model", "anthropic/x", "anthropic/x"),
        ("model", "7", "7"),
        ("output.policy", "continue", "continue"),
        ("ui.theme", "dark", "dark"),
    ],
)
def test_typed_value_is_converted_to_the_kind_of_the_key(name: str, typed: str, value: object) -> None:
    key = find_key(tuple(name.split(".")))
    assert key is not None
    assert read_typed(key, typed) == value


@pytest.mark.parametrize(
    ("name", "typed", "message"),
    [
        ("network.max_retries", "-1", "a whole number of at least 0"),
        ("network.max_retries", "many", "a whole number of at least 0$"),
        ("network.max_retries", '"many"', "a whole number of at least 0, not a string$"),
        ("ui.bell", "yes", "^ui.bell must be true or false$"),
        ("output.policy", "contnue", 'did you mean "continue"'),
        ("permissions.mode", "bypass", "cannot be set in a config file"),
        ("model", "  ", "must be a string"),
    ],
)
def test_invalid_value_is_refused_with_the_schema_error(name: str, typed: str, message: str) -> None:
    key = find_key(tuple(name.split(".")))
    assert key is not None
    with pytest.raises(ConfigError, match=message):
        read_typed(key, typed)


def test_every_key_has_a_meaning_in_one_line() -> None:
    assert [key.name for key in KEYS if not key.meta.meaning or "\n" in key.meta.meaning] == []


def test_lists_and_tables_are_not_changed_line_by_line() -> None:
    names = {key.name for key in KEYS if not is_changeable(key) and "*" not in key.path}
    rules = {"permissions.allow", "permissions.ask", "permissions.deny"}
    hooks = {name for name in names if name.startswith("hooks.")}
    commands = {"after_edit.format", "after_edit.check", "after_edit.test"}
    assert names - hooks == {"fallback", "fallback_on", "skills.off", "skills.paths"} | rules | commands
    assert {"hooks.PreToolUse", "hooks.Stop"} <= hooks
    assert not {"hooks.enabled", "hooks.claude"} & hooks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '[permissions]\ndeny = ["a"]\n'),
        ("[permissions]\ndeny = []\n", '[permissions]\ndeny = ["a"]\n'),
        ('[permissions]\ndeny = ["b"]  # why\n', '[permissions]\ndeny = ["a", "b"]  # why\n'),
        (
            '[permissions]\ndeny = [\n  # first\n  "b",  # why\n]\n',
            '[permissions]\ndeny = [\n  "a",\n  # first\n  "b",  # why\n]\n',
        ),
        ('[permissions]\r\ndeny = [\r\n  "b",\r\n]\r\n', '[permissions]\r\ndeny = [\r\n  "a",\r\n  "b",\r\n]\r\n'),
        ('permissions = { deny = ["b"] }\n', 'permissions = { deny = ["a", "b"] }\n'),
    ],
)
def test_item_is_added_to_a_list_and_comments_stay(text: str, expected: str) -> None:
    assert with_items(text, ("permissions", "deny"), ["a"]) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('permissions = "x"\n', "a key above it is not a table"),
        ("[permissions]\ndeny = 3\n", "it is not a list"),
        ("[permissions]\ndeny = {}\n", "it is not a list"),
    ],
)
def test_item_is_not_added_to_another_kind_of_value(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"permissions.deny cannot be set: {reason}"):
        with_items(text, ("permissions", "deny"), ["a"])


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_removed_last_table_leaves_the_line_ends_of_the_file(newline: str) -> None:
    lines = ["a = 1", "", "[ui]", "bell = true", ""]
    assert without_table(newline.join(lines), ("ui",)) == f"a = 1{newline}"
