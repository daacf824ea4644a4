"""`qcode import`: what other programs keep in their settings, as configuration of qcode."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode import Agent, Options
from qcode.agent.definitions import kinds_of
from qcode.agent.imports.configuration.findings import WriteFile, parse_relaxed
from qcode.agent.imports.configuration.prompts import codex_prompt, convert_agent, gemini_prompt, opencode_prompt
from qcode.agent.options import RunContext
from qcode.cli.main import main
from qcode.protocol.errors import ConfigError
from qcode.testing import Scripted
from tests.agent.imports.layouts import write_all

OWN = """\
# my settings
[permissions]
deny = [
  "shell(curl *)",  # no network
]

[mcp_servers.local]
command = "mine"
"""


class Place:
    """A home with five programs, a configuration of qcode, and a folder to work in."""

    def __init__(self, base: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.home, self.work, self.own = base / "home", base / "work", base / "qcode"
        for folder in (self.home, self.work, self.own):
            folder.mkdir()
        self._capture = capture
        self.err = ""
        patch.setenv("HOME", str(self.home))
        patch.setenv("QCODE_HOME", str(self.own))
        for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"):
            patch.delenv(name, raising=False)
        patch.chdir(self.work)

    def write(self, name: str, text: str) -> None:
        path = self.home.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def run(self, *words: str, code: int = 0) -> str:
        found = main(["import", *words])
        out, self.err = self._capture.readouterr()
        assert found == code, out + self.err
        return out

    def items(self, *words: str, code: int = 0) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the items by program and name."""
        rows = json.loads(self.run(*words, "--json", code=code))["items"]
        return {(row["program"], row["name"]): row for row in rows}

    def config(self) -> Mapping[str, Any]:
        return tomllib.loads((self.own / "config.toml").read_text())

    def files(self) -> dict[str, str]:
        """Return all files of the configuration but the state."""
        found = (path for path in self.own.rglob("*") if path.is_file() and "state" not in path.parts)
        return {str(path.relative_to(self.own)): path.read_text() for path in found}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, monkeypatch, capfd)


@pytest.fixture
def full(place: Place) -> Place:
    write_all(place.home, place.work)
    place.write("qcode/config.toml", OWN)
    return place


def test_import_shows_the_plan_and_writes_nothing_without_the_flag(full: Place) -> None:
    before = full.files()
    out = full.run(code=1)
    assert "+ server github -> mcp_servers.github: https://api.githubcopilot.com/mcp/  (~/.claude.json:3)" in out
    assert "+ rule deny Bash(rm -rf:*) -> deny shell(rm -rf *)  (~/.claude/settings.json:6)" in out
    assert "! server local: " in out
    assert "nothing was written; add --write" in out
    assert full.files() == before


def test_import_names_each_lost_denial_and_fails(full: Place) -> None:
    full.run("claude", "codex", code=1)
    assert full.err.splitlines() == [
        "qcode: ~/.claude/settings.json:6: qcode does not enforce this rule: deny Bash(* --force)",
    ]
    full.run("gemini", "qwen", "opencode")


def test_import_writes_once_and_keeps_comments_and_a_backup(full: Place) -> None:
    full.run("--write", code=1)
    first = full.files()
    assert first["config.toml.bak"] == OWN
    assert '  "shell(curl *)",  # no network' in first["config.toml"]
    assert first["config.toml"].startswith("# my settings\n")
    assert full.config()["mcp_servers"]["local"] == {"command": "mine"}
    out = full.run("--write", code=1)
    assert "0 to add (+)" in out
    assert full.files() == first


def test_only_the_backup_is_called_a_backup(full: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    own = full.home / "mine.bak"
    full.write("home/mine.bak/config.toml", OWN)
    monkeypatch.setenv("QCODE_HOME", str(own))
    lines = full.run("--write", code=1).splitlines()
    assert [line for line in lines if line.endswith(("config.toml", ".bak"))] == [
        "saved a backup: ~/mine.bak/config.toml.bak",
        "wrote ~/mine.bak/config.toml",
    ]
    assert "wrote ~/mine.bak/commands/test.md" in lines


def test_imported_servers_have_the_values_of_qcode(full: Place) -> None:
    full.run("--write", code=1)
    servers = full.config()["mcp_servers"]
    assert servers["github"]["headers"] == {"Authorization": "${GITHUB_AUTHORIZATION}"}
    assert servers["airtable"]["env"] == {"AIRTABLE_API_KEY": "${AIRTABLE_API_KEY}"}
    assert servers["vars"] == {"command": "srv", "args": ["${ROOT:-/srv}"], "env": {"TOKEN": "${MY_TOKEN}"}}
    assert servers["old"] == {"url": "https://mcp.asana.com/sse?api_key=${OLD_API_KEY}", "transport": "sse"}
    assert servers["here"] == {"command": "uvx", "args": ["mcp-server-git"]}
    assert servers["docs"] == {
        "command": "sh",
        "args": ["-c", 'cd "$1" && shift && exec "$@"', "sh", "/srv/docs dir", "npx", "-y", "docs-server", "--api-key",
                 "${DOCS_API_KEY}"],
        "env": {"DOCS_REGION": "${DOCS_REGION}"},
        "timeout_s": 45.5,
        "startup_timeout_s": 20,
        "tools": ["search", "read"],
    }  # fmt: skip
    assert servers["figma"] == {
        "url": "https://mcp.figma.com/mcp",
        "headers": {
            "X-Figma-Region": "us-east-1",
            "X-Trace": "${TRACE_ID}",
            "Authorization": "Bearer ${FIGMA_OAUTH_TOKEN}",
        },
        "enabled": False,
    }
    assert servers["python"]["env"] == {"API_KEY": "${MY_API_TOKEN}"}
    assert servers["python"]["timeout_s"] == 15
    assert servers["http"] == {"url": "http://localhost:3000/mcp", "transport": "http"}
    assert servers["sse"] == {"url": "https://x.example/sse", "transport": "sse", "tools": ["a"], "enabled": False}
    assert servers["jira"]["headers"] == {"Authorization": "Bearer ${JIRA}"}
    text = (full.own / "config.toml").read_text()
    assert not [secret for secret in ("ghp_", "pat-123456", "abcdefgh1") if secret in text]
    denied = full.config()["permissions"]["deny"]
    assert "mcp(docs/delete)" in denied
    assert "mcp(python/rm)" in denied


def test_imported_rules_are_as_narrow_or_as_broad(full: Place) -> None:
    full.run("--write", code=1)
    permissions = full.config()["permissions"]
    assert permissions["mode"] == "accept-edits"
    assert set(permissions["allow"]) == {
        "shell(npm run test *)", "fetch(docs.python.org)", "shell(git status *)", "shell(git status)",
    }  # fmt: skip
    assert {"shell(rm -rf *)", "read(./.env)", "read(.pem)", "read(*.env)", "shell(git push *)", "fetch"} <= set(
        permissions["deny"]
    )
    assert permissions["ask"] == ["shell(git push *)"]


def test_imported_commands_and_agents_are_read_by_qcode(full: Place) -> None:
    full.run("--write", code=1)
    options = Options(cwd=full.work, model=Scripted(["done"]), no_session=True)
    context = RunContext.read(options, dict(os.environ))
    agent = Agent.begin(context)
    try:
        commands = {skill.handle: skill for skill in agent.skill_commands()}
    finally:
        agent.release()
    assert {"prompts:draftpr", "git:commit", "fix", "component", "test"} <= set(commands)
    assert commands["prompts:draftpr"].hint == "[FILES=<paths>]"
    found = kinds_of(context)
    assert not found.problems
    known = {kind.name: kind for kind in found.kinds}
    assert known["security-auditor"].tools == {"read", "grep"}
    assert known["security-auditor"].max_turns == 10
    assert known["testing-expert"].only_reads
    assert known["docs"].excluded_tools == {"shell", "fetch"}
    assert "write" in known["reviewer"].excluded_tools
    assert "silent" not in known


def test_import_names_the_lost_part_of_each_setting(full: Place) -> None:
    items = full.items(code=1)
    lost = {name: item["lost"] for name, item in items.items()}
    assert lost["claude", "github"] == ["the value of Authorization is left out: set the variable GITHUB_AUTHORIZATION"]
    assert "`oauth_resource` has no equivalent" in lost["codex", "figma"]
    assert lost["codex", "prompts:draftpr"] == ["$FILES is argument 1 in qcode, without FILES="]
    assert "{{args}} inside !{...} is not quoted in qcode" in lost["gemini", "git:commit"]
    assert "qcode has no tool save_memory" in lost["qwen", "testing-expert"]
    assert "$2 is one word in qcode, not all remaining words" in lost["opencode", "test"]
    why = {name: item["why"] for name, item in items.items()}
    assert why["claude", "PreToolUse"] == 'they run with hooks.claude = "own" in your config.toml'
    assert why["claude", "/elsewhere"] == "servers of another project; run qcode import in its folder"
    assert why["gemini", "tools.sandbox"] == "has no equivalent"
    assert why["opencode", "allow bash npm *"] == "a later rule decides"
    assert "value from a file" in why["opencode", "file"]
    assert "a sub-agent can use none of them" in why["opencode", "silent"]
    assert items["claude", "CLAUDE.md"]["status"] == "read"


def test_nothing_that_exists_is_overwritten(full: Place) -> None:
    full.write("qcode/commands/git/commit.toml", 'prompt = "mine"\n')
    full.write("qcode/agents/docs.md", "mine")
    items = full.items("--write", code=1)
    assert items["gemini", "git:commit"]["status"] == "taken"
    assert items["opencode", "docs"]["status"] == "taken"
    assert (full.own / "agents/docs.md").read_text() == "mine"
    assert not (full.own / "commands/git/commit.md").exists()


def test_project_files_are_read_after_trust_and_go_to_the_project(place: Place) -> None:
    place.write("work/.claude/settings.json", json.dumps({
        "permissions": {"allow": ["Bash(make:*)"], "deny": ["Read(./secrets/**)"], "defaultMode": "bypassPermissions"}
    }))  # fmt: skip
    place.write("work/.gemini/settings.json", json.dumps({"mcpServers": {"evil": {"command": "evil"}}}))
    place.write("work/.gemini/commands/x.toml", 'prompt = "do {{args}}"\n')
    assert "not trusted" in place.run()
    assert "evil" not in place.run("--write")
    items = place.items("--trust", "--write")
    assert items["claude", "allow Bash(make:*)"]["status"] == "lost"
    assert items["claude", "bypassPermissions"]["status"] == "lost"
    written = tomllib.loads((place.work / ".qcode/config.toml").read_text())
    assert written == {"permissions": {"deny": ["read(./secrets/**)"]}, "mcp_servers": {"evil": {"command": "evil"}}}
    assert (place.work / ".qcode/commands/x.md").read_text() == "do $ARGUMENTS\n"
    assert place.files() == {}


def test_project_folder_outside_the_project_is_not_written(place: Place) -> None:
    place.write("work/.gemini/commands/x.toml", 'prompt = "do"\n')
    (place.home / "elsewhere").mkdir()
    (place.work / ".qcode").mkdir()
    (place.work / ".qcode/commands").symlink_to(place.home / "elsewhere")
    items = place.items("gemini", "--trust", "--write")
    assert items["gemini", "x"]["status"] == "lost"
    assert list((place.home / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".claude/settings.json", "{"),
        (".claude/settings.json", "[]"),
        (".claude/settings.json", '{"permissions": {"ask": "Bash", "allow": [1, null]}}'),
        (".claude.json", '{"mcpServers": {"a": 1, "b": {}, "../c": {"command": "x"}, "d": {"command": ["x"]}}}'),
        (".claude.json", '{"mcpServers": [], "projects": {"x": 3}}'),
        (".codex/config.toml", "= 3"),
        (".codex/config.toml", '[mcp_servers.a]\ncommand = "x"\nargs = "y"\ntool_timeout_sec = "z"\n'),
        (".codex/prompts/a.md", "---\n: [\n---\nx"),
        (".gemini/commands/a.toml", "prompt = 3"),
        (".gemini/settings.json", '{"mcpServers": {"a": {"command": "x", "env": {"A": {}}}}, "tools": 3}'),
        (".qwen/agents/a.md", "no front matter"),
        (".config/opencode/opencode.json", '{"mcp": {"a": {"type": "local", "command": []}}, "permission": "allow"}'),
        (".config/opencode/opencode.json", '{"agent": {"a": 3}, "command": {"b": {"template": 3}}}'),
    ],
)
def test_unusable_files_are_reported_and_the_others_imported(place: Place, name: str, text: str) -> None:
    place.write(f"home/{name}", text)
    place.write("home/.qwen/commands/good.md", "Good.\n")
    out = place.run("--write")
    assert "+ command good" in out
    assert (place.own / "commands/good.md").is_file()
    assert "Traceback" not in place.err


@pytest.mark.parametrize(
    ("program", "name", "values", "line", "code"),
    [
        ("claude", ".claude/settings.json", {"permissions": {"deny": "Bash"}}, 'deny "Bash": it is not a list', 1),
        ("claude", ".claude/settings.json", {"permissions": {"deny": [5]}}, "deny 5: it is not text", 1),
        ("claude", ".claude/settings.json", {"permissions": {"allow": [None]}}, "allow null: it is not text", 0),
        ("claude", ".claude/settings.json", {"permissions": ["deny"]}, "permissions: it is not a table", 1),
        ("claude", ".claude.json", {"mcpServers": ["x"]}, "mcpServers: it is not a table", 0),
        ("gemini", ".gemini/settings.json", {"tools": {"exclude": "x"}}, 'deny "x": it is not a list', 1),
        ("opencode", ".config/opencode/opencode.json", {"permission": "deny"}, "permission: it is not a table", 1),
        ("opencode", ".config/opencode/opencode.json", {"permission": "allow"}, "permission: it is not a table", 0),
    ],
)
def test_part_of_another_type_is_named_and_a_lost_denial_fails(
    program: str, name: str, values: dict[str, Any], line: str, code: int, place: Place
) -> None:
    place.write(f"home/{name}", json.dumps(values))
    assert f" {line}  (~/{name}:1)" in place.run(program, code=code)


@pytest.mark.parametrize(
    ("values", "line", "code"),
    [
        ({"*": "deny", "bash": "allow"}, "+ rule deny * -> deny read, deny edit, deny fetch, deny mcp", 0),
        ({"*": "deny", "bash": {"ls": "allow"}}, "+ rule deny * -> deny shell, deny read, deny edit, deny fetch", 0),
        ({"*": "allow"}, "- rule allow *: a rule for every tool is not imported", 0),
        ({"read": {"$HOME/keys/*": "deny"}}, "+ rule deny read $HOME/keys/* -> deny read(~/keys/*)", 0),
        ({"jira_*": "deny"}, "+ rule deny jira_* -> deny mcp(jira/*)", 0),
        ({"jira_cloud_get_*": "deny"}, "+ rule deny jira_cloud_get_* -> deny mcp(jira_cloud/*)", 0),
        ({"jira_delete": "deny"}, "+ rule deny jira_delete -> deny mcp(jira/delete)", 0),
        ({"other_*": "deny"}, "- rule deny other_*: the pattern names no server of this file", 1),
        ({"external_directory": "deny"}, "- rule deny external_directory: qcode asks outside the workspace", 1),
    ],
    ids=str,
)
def test_denial_of_opencode_is_enforced_or_fails_the_import(
    values: dict[str, Any], line: str, code: int, place: Place
) -> None:
    servers = {name: {"type": "local", "command": ["x"]} for name in ("jira", "jira_cloud")}
    place.write("home/.config/opencode/opencode.json", json.dumps({"mcp": servers, "permission": values}))
    assert line in place.run("opencode", code=code)


def test_tool_of_a_server_that_gemini_excludes_is_denied(place: Place) -> None:
    settings = {"mcpServers": {"jira": {"command": "x"}}, "tools": {"exclude": ["jira__delete", "mcp_jira_close"]}}
    place.write("home/.gemini/settings.json", json.dumps(settings))
    out = place.run("gemini")
    assert "+ rule deny jira__delete -> deny mcp(jira/delete)" in out
    assert "+ rule deny mcp_jira_close -> deny mcp(jira/close)" in out


def test_tool_that_opencode_switches_off_is_denied(place: Place) -> None:
    place.write("home/.config/opencode/opencode.json", json.dumps({"tools": {"webfetch": False, "bash": True}}))
    assert "+ rule deny webfetch -> deny fetch" in place.run("opencode")


def test_special_file_in_the_place_of_settings_does_not_block(place: Place) -> None:
    (place.home / ".gemini").mkdir()
    os.mkfifo(place.home / ".gemini/settings.json")
    assert "is not a regular file" in place.run("gemini")


def test_invalid_configuration_is_not_changed(place: Place) -> None:
    place.write("qcode/config.toml", "nonsense = 1\n")
    place.write("home/.qwen/commands/good.md", "Good.\n")
    place.run("--write", code=52)
    assert place.files() == {"config.toml": "nonsense = 1\n"}


def test_unknown_program_is_an_error_that_lists_the_supported_ones(place: Place) -> None:
    place.run("cursor", code=2)
    assert "claude|codex|gemini|qwen|opencode" in place.err


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("$1 and $ARGUMENTS", "$1 and $ARGUMENTS"),
        ("costs $$5, $$x, $0, $10", "costs \\$5, $x, \\$0, \\$10"),
        ("${HOME}", "\\${HOME}"),
        ("!`ls` and a!`ls`", "! `ls` and a!`ls`"),
        ("```!\nls\n```", "``` !\nls\n```"),
    ],
)
def test_prompt_of_codex_keeps_its_meaning(text: str, body: str) -> None:
    assert codex_prompt(text).body == body


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("Fix {{args}}", "Fix $ARGUMENTS"),
        ("!{ls} a!{ls}", "!`ls` a !`ls`"),
        ("!{echo '{}'}", "!`echo '{}'`"),
        ("!{echo `x`}", "\n```!\necho `x`\n```\n"),
        ("@{a/b.md}", "@a/b.md"),
        ("!{open", "!{open"),
        ("$1 ${A} !`x`", "\\$1 \\${A} ! `x`"),
    ],
)
def test_prompt_of_gemini_keeps_its_meaning(text: str, body: str) -> None:
    assert gemini_prompt(text).body == body


def test_prompt_of_opencode_keeps_its_meaning() -> None:
    assert opencode_prompt("Do $1 (!`ls`)").body == "Do $ARGUMENTS ( !`ls`)"
    assert opencode_prompt("Do $1 with $2").losses == ("$2 is one word in qcode, not all remaining words",)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(), lambda inner: st.lists(inner) |
    st.dictionaries(st.text(), inner), max_leaves=6,
)  # fmt: skip


@given(JSON)
def test_relaxed_json_reads_all_json(value: object) -> None:
    assert parse_relaxed(json.dumps({"a": value})) == {"a": value}


@given(st.text(alphabet='{}[],:"/*\\\n a1', max_size=40))
def test_relaxed_json_of_any_text_is_an_object_or_an_error(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(parse_relaxed(text), dict)


@pytest.mark.parametrize("limit", ["0", "many", "9" * 5_000])
def test_agent_with_an_impossible_limit_of_turns_loses_the_limit(limit: str) -> None:
    fields = {"description": "reviews code", "max_turns": limit}
    found = convert_agent("reviewer", fields, "Review it.", "~/a.md", "gemini")
    assert found.losses == ("`max_turns` is not a valid number of turns",)
    (change,) = found.changes
    assert isinstance(change, WriteFile)
    assert "maxTurns" not in change.text


def test_opencode_placeholder_with_thousands_of_digits_is_converted() -> None:
    assert opencode_prompt(f"explain ${'9' * 5_000}").losses


def test_server_with_an_infinite_timeout_is_not_imported(place: Place) -> None:
    place.write("home/.gemini/settings.json", '{"mcpServers": {"slow": {"command": "x", "timeout": 1e999}}}')
    assert "`timeout` must be a number" in place.run("gemini")
