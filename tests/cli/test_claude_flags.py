"""The command lines of Claude Code's SDKs, recorded with the versions that `sdk_arguments.json` names."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path

import pytest

from qcode.agent.agent import Agent
from qcode.agent.mcp.spec import INLINE_SCOPE, configured_servers
from qcode.agent.options import LATEST, Options, RunContext
from qcode.agent.permissions import policy_of, verdict_on
from qcode.cli.arguments import CommandLineError, parse
from qcode.cli.main import main
from qcode.protocol.errors import ConfigError, InputError, QcodeError, UsageError

RECORDED: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).with_name("data") / "sdk_arguments.json").read_text("utf-8")
)
PYTHON, TYPESCRIPT = RECORDED.values()
ALL = [(sdk, name) for sdk, cases in RECORDED.items() for name in cases]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    return {"QCODE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}


def read(home: dict[str, str], *argv: str) -> RunContext:
    return RunContext.read(parse(["-C", str(Path(home["HOME"]) / "work"), *argv]), home)


@pytest.mark.parametrize(("sdk", "name"), ALL)
def test_recorded_command_line_is_understood(sdk: str, name: str, home: dict[str, str], tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.md"
    prompt.write_text("Be brief.")
    argv = [word.replace("/tmp/prompt.md", str(prompt)) for word in RECORDED[sdk][name]]
    # The host mode answers approvals itself.
    context = read(home, *(word for word in argv if not word.startswith("--permission-prompt-tool")))
    policy_of(context)
    assert (context.options.output_format, context.options.input_format) == ("stream-json", "stream-json")


def test_every_option_of_the_python_sdk_arrives(home: dict[str, str]) -> None:
    context = read(home, *PYTHON["everything"])
    options, permissions = context.options, context.settings.permissions
    assert (options.system_prompt, options.builtin_tools) == ("- be brief", ("shell", "read", "edit"))
    assert permissions.allow == ("shell(git log *)", "read", "mcp(calc/add)")
    assert permissions.deny == ("shell(curl *)", "fetch", "shell(rm *)")
    assert (context.settings.model, context.settings.fallback) == ("sonnet", ("haiku",))
    assert (permissions.mode, options.reasoning_effort, options.resume) == ("accept-edits", "high", LATEST)
    assert (options.user_config, options.reads_project, options.strict_mcp_config) == (False, True, True)
    assert (options.trust, options.fork_session, options.max_turns) == (True, True, 3)
    assert context.settings.warnings == ("--betas, --plugin-dir: no effect in qcode",)
    servers = configured_servers(context.settings, options.mcp_config, context.root, reads_project_file=False).specs
    assert [(server.name, server.config.url, server.scope) for server in servers] == [
        ("web", "https://mcp.example/v1", INLINE_SCOPE)
    ]


def test_every_option_of_the_typescript_sdk_arrives(home: dict[str, str]) -> None:
    context = read(home, *TYPESCRIPT["everything"])
    options, permissions = context.options, context.settings.permissions
    assert (permissions.allow, permissions.deny) == (("shell(git log *)", "read"), ("shell(curl *)", "fetch"))
    assert (permissions.mode, options.allow_dangerously_skip_permissions) == ("bypass", True)
    assert (options.user_config, options.reads_project, options.no_session) == (True, False, True)
    assert context.settings.warnings[0] == (
        "--betas, --debug, --include-hook-events, --plugin-dir, --task-budget: no effect in qcode"
    )


def test_presets_leave_the_prompt_and_all_tools(home: dict[str, str]) -> None:
    context = read(home, *PYTHON["presets"])
    options = context.options
    assert (options.system_prompt, options.append_system_prompt) == (None, "Be brief.")
    assert (options.builtin_tools, options.user_config, options.reads_project) == (None, False, False)
    assert (context.settings.permissions.mode, options.never_asks, options.resume) == ("default", True, "2026-abc")


def test_mode_that_never_asks_denies_calls_that_would_ask(home: dict[str, str]) -> None:
    policy = policy_of(read(home, "--permission-mode", "dontAsk", "--trust", "--allowedTools", "Bash(make:*)"))
    assert policy.judge_command("rm x").verdict == "deny"
    assert policy.judge_command("make x").verdict == "allow"
    assert policy.judge_command("ls").verdict == "allow"
    assert policy.judge_file("/elsewhere", "read").verdict == "deny"
    asking = policy_of(read(home, "--trust"))
    assert asking.judge_command("rm x").verdict == "ask"


@pytest.mark.parametrize(
    ("argv", "effort"),
    [
        (["--effort", "xhigh"], "high"),
        (["--effort=max"], "max"),
        (["--thinking", "disabled", "--effort", "high"], "none"),
        (["--thinking=adaptive"], None),
        (["--max-thinking-tokens", "0"], "none"),
        (["--max-thinking-tokens", "4096"], "low"),
        (["--max-thinking-tokens=4097"], "medium"),
        (["--max-thinking-tokens", "16385"], "high"),
        (["--max-thinking-tokens", "100", "--effort", "high"], "high"),
    ],
)
def test_thinking_flag_sets_the_effort(argv: list[str], effort: str | None) -> None:
    assert parse(argv).reasoning_effort == effort


@pytest.mark.parametrize("flag", ["--session-mirror", "--resume-session-at=x", "--resume-drops-turn=2"])
def test_flags_that_would_lose_data_are_refused(flag: str) -> None:
    with pytest.raises(CommandLineError, match="is not supported: "):
        parse([flag])


def test_error_never_suggests_a_flag_that_lowers_safety() -> None:
    for wrong in ("--allow-dangerously-skip-permission", "--dangerously-skip-permission"):
        with pytest.raises(CommandLineError) as raised:
            parse([wrong])
        assert "dangerously-skip-permissions" not in str(raised.value)


def test_text_that_begins_with_a_dash_is_the_value_of_the_flag_before_it() -> None:
    assert parse(["--append-system-prompt", "--- be brief ---"]).append_system_prompt == "--- be brief ---"
    with pytest.raises(CommandLineError, match="needs a value"):
        parse(["--append-system-prompt", "--verbose"])


def test_prompt_texts_come_from_files_too(home: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "prompt.md"
    file.write_text("\ufeffBe brief.\n")
    options = read(home, "--system-prompt-file", str(file), "--append-system-prompt-file", str(file)).options
    assert (options.system_prompt, options.append_system_prompt) == ("Be brief.\n", "Be brief.\n")
    with pytest.raises(CommandLineError, match="cannot be combined"):
        parse(["--system-prompt", "x", "--system-prompt-file", "y"])
    with pytest.raises(InputError, match="--system-prompt-file: cannot read the file"):
        read(home, "--system-prompt-file", str(tmp_path / "none"))
    with pytest.raises(InputError, match="Is a directory"):
        read(home, "--system-prompt-file", str(tmp_path))
    with pytest.raises(InputError, match="not a file"):
        read(home, "--system-prompt-file", "/dev/null")


SETTINGS = {
    "model": "opus",
    "permissions": {
        "allow": ["Bash(npm run test:*)", "Bash"],
        "ask": ["Edit(/src/**)"],
        "deny": ["Read(.env)", "Task"],
        "defaultMode": "acceptEdits",
        "additionalDirectories": ["..", "none"],
    },
    "env": {"A": "b"},
    "hooks": {},
}


def test_settings_of_claude_code_count_as_far_as_they_have_an_equivalent(home: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(SETTINGS))
    for given in (str(file), json.dumps(SETTINGS)):
        context = read(home, "--settings", given)
        settings = context.settings
        assert (settings.model, settings.permissions.mode) == ("opus", "accept-edits")
        assert settings.permissions.allow == ("shell(npm run test *)", "shell")
        assert settings.permissions.ask == ("edit(./src/**)",)
        assert settings.permissions.deny == ("read(.env)",)
        assert context.options.disallowed_tools == ("agent",)
        assert [folder.resolve() for folder in context.added_folders] == [tmp_path]
        assert settings.warnings == (
            "--settings: no effect in qcode: env, hooks",
            "--settings: additionalDirectories: none is not a folder",
        )


def test_folder_name_that_no_file_system_accepts_is_reported(home: dict[str, str]) -> None:
    given = json.dumps({"permissions": {"additionalDirectories": ["x" * 5_000, "a\0b"]}})
    warnings = read(home, "--settings", given).settings.warnings
    assert [warning.endswith(" is not a folder") for warning in warnings] == [True, True]


def test_flags_win_over_settings_of_claude_code(home: dict[str, str]) -> None:
    context = read(home, "--settings", json.dumps(SETTINGS), "--permission-mode", "plan", "-m", "demo/demo")
    assert (context.settings.model, context.settings.permissions.mode) == ("demo/demo", "plan")


@pytest.mark.parametrize(("argv", "mode"), [((), "default"), (("--allow-dangerously-skip-permissions",), "bypass")])
def test_settings_choose_bypass_mode_only_with_a_flag(home: dict[str, str], argv: tuple[str, ...], mode: str) -> None:
    text = json.dumps({"permissions": {"defaultMode": "bypassPermissions"}})
    assert read(home, "--settings", text, *argv).settings.permissions.mode == mode


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "--settings:1: not valid JSON"),
        ('{"permissions": []}', "permissions must be an object"),
        ('{"permissions": {"deny": "x"}}', "permissions.deny must be a list of strings"),
        ('{"model": 3}', "must be strings"),
        ('{"permissions": {"deny": ["Bash(* --help)"]}}', "cannot enforce a rule: --settings: deny Bash"),
    ],
)
def test_unusable_settings_are_one_line(home: dict[str, str], text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(home, "--settings", text)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_denial_that_cannot_be_enforced_stops_the_run(home: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="cannot enforce"):
        read(home, "--disallowedTools", "Bash(* --force)")
    assert "Skill(x)" in read(home, "--disallowedTools", "Skill(x)").settings.warnings[0]


def piped(text: str) -> tuple[str, threading.Thread]:
    """Return the path of a pipe that a thread writes to, as `<(...)` gives it."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "w") as pipe:
            pipe.write(text)

    thread = threading.Thread(target=write)
    thread.start()
    return f"/dev/fd/{reading}", thread


@pytest.mark.parametrize(
    "text", ['[permissions]\ndeny = ["shell(rm *)"]\n', '{"permissions": {"deny": ["Bash(rm:*)"]}}']
)
def test_settings_come_from_a_pipe_in_either_form(home: dict[str, str], text: str) -> None:
    path, thread = piped(text + "\n" * 100_000)
    assert read(home, "--settings", path).settings.permissions.deny == ("shell(rm *)",)
    thread.join()
    os.close(int(path.rpartition("/")[2]))


def test_error_in_settings_from_a_pipe_names_the_pipe_and_the_line(home: dict[str, str]) -> None:
    path, thread = piped("\n[outputs]\nmax_tokens = 3\n")
    with pytest.raises(ConfigError, match=rf"^{path}:2: unknown key outputs"):
        read(home, "--settings", path)
    thread.join()
    os.close(int(path.rpartition("/")[2]))


def test_servers_come_from_a_pipe(home: dict[str, str]) -> None:
    path, thread = piped('{"mcpServers": {"git": {"command": "git-mcp"}}}')
    context = read(home, "--mcp-config", path)
    servers = configured_servers(
        context.settings, context.options.mcp_config, context.root, reads_project_file=False
    ).specs
    assert [server.name for server in servers] == ["git"]
    thread.join()
    os.close(int(path.rpartition("/")[2]))


def test_silent_pipe_is_an_error(home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.agent.claude.settings.PIPE_TIMEOUT_S", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="nothing arrived"):
        read(home, "--settings", str(tmp_path / "pipe"))


def test_setting_sources_leave_out_the_files_of_the_user_or_the_project(home: dict[str, str]) -> None:
    work = Path(home["HOME"]) / "work"
    (work / ".qcode").mkdir()
    (work / ".qcode" / "config.toml").write_text('[permissions]\ndeny = ["shell(rm *)"]\n')
    (Path(home["QCODE_HOME"]) / "config.toml").write_text('[permissions]\nask = ["shell(make *)"]\n')

    def rules(*argv: str) -> tuple[object, object]:
        found = read(home, "--trust", *argv).settings.permissions
        return found.ask, found.deny

    assert rules() == (("shell(make *)",), ("shell(rm *)",))
    assert rules("--setting-sources", "user,project,local") == rules()
    assert rules("--setting-sources=project") == ((), ("shell(rm *)",))
    assert rules("--setting-sources=user") == (("shell(make *)",), ())
    assert rules("--setting-sources=") == ((), ())
    with pytest.raises(UsageError, match='unknown source "users"'):
        rules("--setting-sources", "users")


def test_strict_servers_are_those_of_the_flag_only(home: dict[str, str]) -> None:
    (Path(home["HOME"]) / "work" / ".mcp.json").write_text('{"mcpServers": {"project": {"command": "x"}}}')
    (Path(home["QCODE_HOME"]) / "config.toml").write_text('[mcp_servers.own]\ncommand = "x"\n')
    flag = ("--mcp-config", '{"mcpServers": {"flag": {"command": "x", "enabled": false}}}')

    def servers(*argv: str) -> list[str]:
        agent = Agent.begin(read(home, "-m", "demo/demo", "--no-session", "--trust", *flag, *argv))
        assert agent.servers is not None
        names = [status.name for status in agent.servers.statuses()]
        agent.release()
        return names

    assert servers() == ["own", "flag", "project"]
    assert servers("--strict-mcp-config") == ["flag"]


def test_empty_system_prompt_leaves_the_environment(home: dict[str, str]) -> None:
    (Path(home["HOME"]) / "work" / "AGENTS.md").write_text("Use tabs.")

    def prompt(*argv: str) -> str:
        agent = Agent.begin(read(home, "-m", "demo/demo", "--no-session", "--trust", *argv))
        agent.release()
        return agent.prompts.system("demo/demo", "default")

    assert "Use tabs." in prompt()
    empty = prompt("--system-prompt", "", "--append-system-prompt", "Be brief.")
    assert empty.startswith("# Environment\n- Folder: ")
    assert empty.endswith("\n\nBe brief.\n")
    assert "Use tabs." not in empty


VERDICTS = [
    # rule of Claude Code, kind, covered, not covered
    ("Bash(npm run test *)", "shell", "npm run test --watch", "npm run build"),
    ("Bash(npm run test:*)", "shell", "npm run test", "npm run testall"),
    ("Bash(make check)", "shell", "make check", "make check all"),
    ("Bash(git push * main)", "shell", "git push origin main", "git fetch origin main"),
    ("WebFetch(domain:docs.python.org)", "fetch", "https://docs.python.org/3/", "https://python.org/"),
    ("Edit(/src/**)", "write", "src/a.py", "lib/src/a.py"),
    ("Edit(docs/*.md)", "write", "docs/a.md", "other/a.md"),
]


@pytest.mark.parametrize(("rule", "kind", "covered", "other"), VERDICTS)
def test_rule_of_claude_code_gives_its_verdicts(
    rule: str,
    kind: str,
    covered: str,
    other: str,
    home: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in home.items():
        monkeypatch.setenv(name, value)
    lines = "".join(json.dumps({"kind": kind, "value": value}) + "\n" for value in (covered, other))

    def verdicts(flag: str) -> list[str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        here = ("-C", str(Path(home["HOME"]) / "work"), "--trust", "--permission-mode", "default")
        assert main(["permissions", "check", "--jsonl", *here, flag, rule]) == 0
        return [json.loads(line)["verdict"] for line in capsys.readouterr().out.splitlines()]

    assert verdicts("--allowedTools") == ["allow", "ask"]
    assert verdicts("--disallowedTools") == ["deny", "ask"]


@pytest.mark.parametrize(
    ("rule", "kind", "value"),
    [
        ("Bash(git * main)", "shell", "git push origin main"),
        ("Bash(git * main)", "shell", "git log --oneline a main"),
        ("Bash(ls*)", "shell", "ls -la"),
        ("Bash(rm *)", "shell", "sudo rm -rf x"),
        ("Read(secrets/**)", "read", "secrets/a"),
        ("Read(//etc/**)", "read", "/etc/hosts"),
        ("Write(~/x/**)", "write", "~/x/y"),
    ],
)
def test_denied_rule_is_at_least_as_broad(rule: str, kind: str, value: str, home: dict[str, str]) -> None:
    policy = policy_of(read(home, "--trust", "--disallowedTools", rule))
    found = verdict_on(policy, kind, value.replace("~", str(Path.home())))  # type: ignore[arg-type]  # a kind of the table
    assert found.verdict == "deny"


def test_library_takes_rules_of_claude_code_too(home: dict[str, str]) -> None:
    options = Options(cwd=home["HOME"], allowed_tools=["Bash(git log:*)"], disallowed_tools=["mcp__git__push"])
    context = RunContext.read(options, home)
    assert context.settings.permissions.allow == ("shell(git log *)",)
    assert context.settings.permissions.deny == ("mcp(git/push)",)
    assert context.options.disallowed_tools == ("mcp(git/push)", "git__push")


def test_unknown_names_of_tools_are_reported(home: dict[str, str]) -> None:
    context = read(home, "--tools", "Bash,LSP,Monitor,web__get")
    assert context.options.builtin_tools == ("shell", "web__get")
    assert context.settings.warnings == ("--tools: qcode has no LSP, Monitor",)
    with pytest.raises(QcodeError, match="no tool"):
        read(home, "--tools", "reed")
