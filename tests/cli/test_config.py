"""`qcode config set` and `unset`: one key changes, everything else in the file stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qcode.agent.trust.store import TrustStore
from qcode.cli.main import main
from qcode.config.paths import ConfigPaths

FILE = """\
# mine
model = "a/b"  # the good one

[ui]
bell = false # quiet

[permissions]
deny = ["shell(rm *)"]
"""


class Desk:
    """Runs `qcode config` with an own file and a project."""

    def __init__(self, base: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.file = base / "home" / "config.toml"
        self.work = base / "work"
        self.project = self.work / ".qcode" / "config.toml"
        self.file.parent.mkdir()
        self.work.mkdir()
        self._capfd = capfd

    def __call__(self, *argv: str, code: int = 0) -> tuple[str, str]:
        found = main(("config", "-C", str(self.work), *argv))
        out, err = self._capfd.readouterr()
        assert found == code, err
        return out, err


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Desk:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("QCODE_MODEL", raising=False)
    return Desk(tmp_path, capfd)


def test_theme_that_does_not_exist_is_refused(desk: Desk) -> None:
    _, err = desk("set", "ui.theme", "lihgt", code=2)
    assert 'unknown theme "lihgt"; did you mean light?' in err
    assert not desk.file.exists()


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("model", "anthropic/x", 'model = "anthropic/x"  # the good one'),
        ("ui.bell", "true", "bell = true # quiet"),
        ("ui.theme", "light", 'theme = "light"'),
        ("small_model", "true", 'small_model = "true"'),
        ("network.max_retries", "2", "network.max_retries = 2"),
        ("permissions.allow", '["shell(make test)", "read"]', 'allow = ["shell(make test)", "read"]'),
        ('models."openai/gpt-5".images', "false", 'models."openai/gpt-5".images = false'),
        ('models."a/b".price', "{ input = 1, output = 2.5 }", 'models."a/b".price = { input = 1, output = 2.5 }'),
        ("providers.lab", '{ type = "openai", base_url = "http://lab/v1" }', None),
        ("ui.keys.fold", "ctrl+y", 'fold = "ctrl+y"'),
        ("hooks.Stop", '[{ command = "notify" }]', 'hooks.Stop = [{ command = "notify" }]'),
    ],
)
def test_key_is_set_and_the_rest_of_the_file_stays(desk: Desk, key: str, value: str, line: str | None) -> None:
    desk.file.write_text(FILE)
    out, _ = desk("set", key, value)
    assert f"{key} " in out
    assert str(desk.file) in out
    text = desk.file.read_text()
    assert line is None or line in text
    kept_rows = [item for item in FILE.splitlines() if item and not item.startswith(("model", "bell"))]
    assert [item for item in text.splitlines() if item in kept_rows] == kept_rows
    assert key.partition(".")[0] in desk("show", "--json")[0]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("ui.bel", "true", "unknown key ui.bel; the nearest is ui.bell"),
        ("modle", "x", "unknown key modle; the nearest is model"),
        ("ui.bell", "maybe", "ui.bell must be true or false\n"),
        ("network.max_retries", "-1", "network.max_retries must be a whole number of at least 0"),
        ("output.policy", "escalat", 'did you mean "escalate"?'),
        ("permissions.mode", "bypass", "`bypass` cannot be set in a config file"),
        ("providers.lab.api_key", "canary", "unknown key providers.lab.api_key"),
        ("models.a/b.images", "true", "quote a part"),
        ("ui", "x", "ui is a table of keys"),
        pytest.param(".".join(["a"] * 5_000), "1", "it has more than 100 parts", id="long"),
        pytest.param("ui.bell", "[" * 5_000, "ui.bell must be true or false", id="deep"),
        ("model", '"x"\nui.bell = true', "model must be a string on one line"),
    ],
)
def test_invalid_change_is_refused_without_showing_the_value(desk: Desk, key: str, value: str, message: str) -> None:
    desk.file.write_text(FILE)
    out, err = desk("set", key, value, code=2)
    assert message in err
    assert "canary" not in out + err
    assert desk.file.read_text() == FILE


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("permissions.allow", '["shell(ls"]', 'permissions.allow: invalid rule "shell(ls"'),
        ("providers.lab.base_url", "http://lab", "providers.lab needs a type"),
        ('models."a/b".price.input', "1", "also needs output"),
    ],
)
def test_change_that_makes_the_file_invalid_is_refused(desk: Desk, key: str, value: str, message: str) -> None:
    desk.file.write_text(FILE)
    err = desk("set", key, value, code=52)[1]
    assert "nothing was changed" in err
    assert message in err
    assert desk.file.read_text() == FILE


def test_broken_file_is_mended_by_removing_its_keys(desk: Desk) -> None:
    desk.file.write_text("modle = 1\nthme = 2\n[ui]\nbell = true\n")
    assert ":1: unknown key modle" in desk("set", "ui.bell", "false", code=52)[1]
    desk("unset", "modle")
    desk("unset", "thme")
    assert desk.file.read_text() == "[ui]\nbell = true\n"
    desk("set", "ui.bell", "false")


def test_syntax_error_names_its_line(desk: Desk) -> None:
    desk.file.write_text("model = 'a/b'\n[ui\n")
    assert f"{desk.file}:2: not valid TOML" in desk("set", "ui.bell", "true", code=52)[1]


def test_unset_removes_a_key_or_a_table_once(desk: Desk) -> None:
    desk.file.write_text(FILE + '\n[[hooks.Stop]]\ncommand = "x"\n')
    assert desk("unset", "ui.bell")[0] == f"ui.bell is not set in {desk.file} (was false)\n"
    assert desk("unset", "ui.bell")[0] == f"ui.bell is not set in {desk.file}\n"
    desk("unset", "hooks.Stop")
    assert "bell" not in desk.file.read_text()
    assert "Stop" not in desk.file.read_text()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("permissions.mode", "accept-edits", "edits of project files run without asking"),
        ("permissions.mode", "auto", "sandboxed commands run without asking"),
        ("permissions.allow", '["shell(make *)"]', "run without asking in trusted folders"),
        ("permissions.deny", None, "no rule of this file denies any more"),
        ("tools.sandbox", "off", "commands run without a sandbox"),
        ("hooks.Stop", '[{ command = "x" }]', "outside the sandbox"),
        ("mcp_servers.git", '{ command = "x" }', "outside the sandbox"),
    ],
)
def test_change_of_a_safety_setting_states_its_effect(desk: Desk, key: str, value: str | None, message: str) -> None:
    desk.file.write_text(FILE)
    assert message in desk(*(("unset", key) if value is None else ("set", key, value)))[1]


def test_replaced_rules_are_shown(desk: Desk) -> None:
    desk.file.write_text(FILE)
    assert '(was ["shell(rm *)"])' in desk("set", "permissions.deny", '["read(secret)"]')[0]


def test_secret_is_not_shown(desk: Desk) -> None:
    desk.file.write_text('[providers.lab]\ntype = "openai"\n')
    out, err = desk("set", "providers.lab.headers.X-Key", "canary")
    assert "canary" not in out + err
    assert "canary" in desk.file.read_text()
    assert "canary" not in desk("set", "providers.lab.headers.X-Key", "other", "--json")[0]


def test_project_file_takes_only_what_a_project_may_set(desk: Desk) -> None:
    assert "a project may not set permissions.mode" in desk("set", "--project", "permissions.mode", "auto", code=52)[1]
    assert not desk.project.exists()
    out, err = desk("set", "--project", "permissions.deny", '["shell(rm *)"]')
    assert desk.project.read_text() == '[permissions]\ndeny = ["shell(rm *)"]\n'
    assert str(desk.project) in out
    assert "not trusted, so its file is ignored" in err
    assert not desk.file.exists()


def test_project_file_that_links_out_of_the_project_is_refused(desk: Desk) -> None:
    desk.file.write_text(FILE)
    desk.project.parent.mkdir()
    desk.project.symlink_to(desk.file)
    assert "is a link to a file outside the project" in desk("set", "--project", "ui.vim", "true", code=52)[1]
    assert desk.file.read_text() == FILE


def test_trusted_project_stays_trusted(desk: Desk) -> None:
    desk("set", "--project", "ui.vim", "true")
    paths = ConfigPaths.from_env({"QCODE_HOME": str(desk.file.parent)})
    store = TrustStore(paths.state_dir, desk.work)
    store.remember(desk.work)
    desk("set", "--project", "ui.vim", "false")
    assert store.is_trusted(desk.work)


def test_setting_that_is_overridden_is_reported(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCODE_MODEL", "openai/y")
    assert 'QCODE_MODEL takes precedence: model is still "openai/y"' in desk("set", "model", "a/b")[1]


def test_json_names_key_value_and_file(desk: Desk) -> None:
    out, _ = desk("set", "ui.bell", "true", "--json")
    assert json.loads(out) == {"key": "ui.bell", "value": "true", "file": str(desk.file)}
    assert json.loads(desk("path", "--json")[0]) == {"path": str(desk.file)}


@pytest.mark.parametrize(
    ("argv", "usage"),
    [
        ((), "use: qcode config path, schema, show, set KEY VALUE, or unset KEY"),
        (("set", "x"), "use: qcode config set KEY VALUE [--project]"),
        (("set", "a", "b", "c"), "use: qcode config set KEY VALUE [--project]"),
        (("show", "--project"), "--project only works with set and unset; use: qcode config show"),
    ],
)
def test_invalid_arguments_print_the_usage_of_the_action(desk: Desk, argv: tuple[str, ...], usage: str) -> None:
    assert usage in desk(*argv, code=2)[1]


def test_missing_key_prints_the_usage_of_its_action(desk: Desk) -> None:
    assert "an argument is missing; use: qcode config unset KEY" in desk("unset", code=2)[1]
