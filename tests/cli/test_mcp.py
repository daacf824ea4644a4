"""`qcode mcp`, and the servers of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qcode.agent.mcp.pins import Pins, changes_of, pin_of
from qcode.agent.mcp.spec import ServerSpec, configured_servers
from qcode.agent.mcp.tools import ListedTool, check_tools
from qcode.cli.main import main
from qcode.config.load import load
from qcode.config.paths import ConfigPaths

COMMAND = ("npx", "-y", "a b", '"q"\\')


class Asked:
    """Runs the command in a trusted folder with a server of each origin."""

    def __init__(self, base: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.home, self.work = base / "home", base / "work"
        self.home.mkdir()
        self.work.mkdir()
        (self.home / "config.toml").write_text('[mcp_servers.mine]\ncommand = "mine"\nargs = ["canary"]\n')
        self.project({"theirs": {"command": "theirs", "args": ["\x1b[8mhidden"]}, "mine": {"command": "evil"}})
        self._capfd = capfd

    def project(self, servers: object) -> None:
        (self.work / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def __call__(self, *argv: str, code: int = 0) -> str:
        assert main(("mcp", "-C", str(self.work), *argv)) == code
        out, err = self._capfd.readouterr()
        return out + err

    def specs(self) -> dict[str, ServerSpec]:
        paths = ConfigPaths.from_env({"QCODE_HOME": str(self.home)})
        settings = load(paths, {}, {}, self.work, True)
        return {spec.name: spec for spec in configured_servers(settings, (), self.work, reads_project_file=True).specs}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Asked:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Asked(tmp_path, capfd)


def test_user_server_keeps_its_name(asked: Asked) -> None:
    output = asked("list", "--trust")
    assert "mine    never started  mine" in output
    assert "theirs  not approved  theirs" in output
    assert f"mine of {asked.work / '.mcp.json'} is ignored: that name is already used" in output
    assert "evil" not in output


def test_untrusted_project_has_no_servers(asked: Asked) -> None:
    output = asked()
    assert "theirs" not in output
    assert "this folder is not trusted" in output
    (asked.work / ".mcp.json").unlink()
    assert "not trusted" not in asked()


def test_server_is_approved_as_it_is_shown(asked: Asked) -> None:
    output = asked("show", "theirs", "--trust")
    assert "argument: \\x1b[8mhidden" in output
    assert "not approved" in output
    assert "approved: theirs may be started" in asked("approve", "theirs", "--trust")
    assert "never started" in asked("show", "theirs", "--trust")
    assert "nothing in theirs needs" in asked("approve", "theirs", "--trust")
    asked.project({"theirs": {"command": "theirs", "args": ["other"]}})
    assert "not approved" in asked("list", "--trust")
    assert "canary" not in asked("show", "mine", "--trust")


def test_server_whose_script_changed_is_shown_with_the_difference(asked: Asked) -> None:
    script = asked.work / "server.py"
    script.write_text("print(1)\n")
    asked.project({"theirs": {"command": "sh", "args": ["server.py"]}})
    output = asked("approve", "theirs", "--trust")
    assert "starts:   server.py" in output
    assert "never started" in asked("list", "--trust")
    script.write_text("print(2)\n")
    assert "theirs  not approved" in asked("list", "--trust")
    assert "server.py has changed\n@@ -1 +1 @@\n-print(1)\n+print(2)\n" in asked("show", "theirs", "--trust")
    assert "approved: theirs may be started" in asked("approve", "theirs", "--trust")
    assert "never started" in asked("list", "--trust")


def test_changed_tools_are_approved_as_they_are_shown(asked: Asked) -> None:
    pins, spec = Pins(asked.home / "state"), asked.specs()["mine"]
    before, after = (check_tools("mine", [ListedTool("t", text, {})]) for text in ("before", "after \x1b[2J"))
    pins.pin(spec, {before[0].spec.name: pin_of(before[0])})
    assert "1 tools" in asked("list")
    pins.store_pending(spec, changes_of(pins.tools(spec) or {}, after))
    assert "1 changed tools not approved" in asked("list")
    output = asked("approve", "mine")
    assert "+A tool of the server mine, which says about it: after" in output
    assert changes_of(pins.tools(spec) or {}, after) == ()
    assert "nothing in mine needs" in asked("approve", "mine")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("show",), "use: qcode mcp show NAME"),
        (("remove",), "use: qcode mcp remove NAME"),
        (("remove", "x"), "config.toml has no tool server"),
        (("remove", "theirs", "--trust"), "config.toml has no tool server"),
        (("remove", "mime"), "did you mean mine?"),
        (("add", "x"), "use: qcode mcp add NAME [--env NAME=VALUE] -- COMMAND..."),
        (("add", "mine", "--", "prog"), "qcode mcp remove mine removes it"),
        (("list", "--env", "A=b"), "use: qcode mcp list [--json]"),
        (("add", "a__b", "x"), "letters, digits"),
        (("add", "x", "https://h/mcp", "--env", "A=b"), "takes --header"),
        (("add", "x", "--header", "A:b", "--", "prog"), "a server with a URL"),
        (("add", "x", "--env", "A", "--", "prog"), "the form --env NAME=VALUE"),
        (("add", "x", "--", ""), "the command of the server is empty"),
        (("add", "x", "ftp://h/mcp"), "use http:// or https://"),
        (("show", "mime"), "did you mean mine?"),
        (("approve", "xyz"), "run qcode mcp list to see them"),
    ],
)
def test_wrong_mcp_usage_is_an_error(argv: tuple[str, ...], says: str, asked: Asked) -> None:
    assert says in asked(*argv, code=2)


def test_invalid_mcp_config_file_prevents_the_run(asked: Asked) -> None:
    assert "--mcp-config: " in asked("list", "--mcp-config", "absent.json", code=52)


def test_server_is_added_to_the_own_configuration_and_removed(asked: Asked) -> None:
    file = asked.home / "config.toml"
    before = file.read_text() + "# mine ends\n\n# colors\n[ui]\ntheme = 'dark'\n"
    file.write_text(before)
    output = asked(
        "add", "files", "--env", "ROOT=${HOME}", "--env", "API_TOKEN=canary", "--", "npx", "-y", "a b", '"q"\\'
    )
    assert f"added files to {file}" in output
    assert (
        f"API_TOKEN is stored unencrypted in {file}; to keep it out of the file, write '${{API_TOKEN}}' instead"
        in output
    )
    assert "canary" not in output
    config = asked.specs()["files"].config
    assert (config.command, config.args) == (COMMAND[0], COMMAND[1:])
    assert dict(config.env) == {"ROOT": "${HOME}", "API_TOKEN": "canary"}
    asked("add", "docs", "https://h.example/mcp", "--header", "Authorization: Bearer ${T}", "--transport", "sse")
    docs = asked.specs()["docs"].config
    assert (docs.url, docs.transport, dict(docs.headers)) == (
        "https://h.example/mcp",
        "sse",
        {"Authorization": "Bearer ${T}"},
    )
    assert "has a tool server docs already" in asked("add", "docs", "https://h/mcp", code=2)
    asked("remove", "docs")
    asked("remove", "files")
    assert file.read_text() == before
    asked("remove", "mine")
    assert file.read_text() == "# mine ends\n\n# colors\n[ui]\ntheme = 'dark'\n"


def test_removed_server_loses_its_approvals(asked: Asked) -> None:
    pins, spec = Pins(asked.home / "state"), asked.specs()["mine"]
    pins.approve(spec)
    asked("remove", "mine")
    assert not pins.was_approved(spec)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('mcp_servers = { mine = { command = "x" } }\n', "mcp_servers = { }\n"),
        ('[mcp_servers.mine]\ncommand = "x"\n[mcp_servers.mine.env]\nA = """\n[ui]\n"""\n[ui]\ntheme = "a"\n', None),
        ('[mcp_servers]\nmine.command = "x"\nmine.args = ["a"]\n', None),
    ],
)
def test_server_written_in_another_form_is_removed_or_left_with_a_reason(
    text: str, left: str | None, asked: Asked
) -> None:
    file = asked.home / "config.toml"
    file.write_text(text)
    if left is not None:
        asked("remove", "mine")
        assert file.read_text() == left
    else:
        assert "edit it by hand" in asked("remove", "mine", code=52)
        assert file.read_text() == text
