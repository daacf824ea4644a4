"""Everything that can be wrong before or beside a reply: one clear line, the right code, nothing lost, no traceback."""

from __future__ import annotations

import socket
import subprocess

import pytest

from tests.e2e.running import KEY, KEY_VARIABLES, CliRunner, Finished
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Turn, refused


def one_line(done: Finished) -> str:
    """Return the only line of the error; fail on a traceback or a second line."""
    assert "Traceback" not in done.err
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("qcode: ")
    return line


def test_missing_key_error_names_the_variable(cli: CliRunner) -> None:
    done = cli.run("-m", "anthropic/claude-sonnet-4", "-p", "hi")
    assert done.code == 41
    assert "ANTHROPIC_API_KEY" in one_line(done)


def test_missing_model_error_names_the_settings_in_three_lines(cli: CliRunner) -> None:
    done = cli.run("-p", "hi")
    assert done.code == 41
    assert len(done.err.splitlines()) == 3
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "demo/demo"):
        assert name in done.err


def test_unknown_provider_error_names_the_nearest(cli: CliRunner) -> None:
    done = cli.run("-m", "antropic/claude", "-p", "hi")
    assert done.code == 2
    assert "anthropic" in one_line(done)


def test_model_without_a_provider_resolves_or_names_the_nearest(cli: CliRunner) -> None:
    known = cli.run("-m", "claude-sonnet-4-20250514", "-p", "hi")
    assert known.code == 41
    unknown = cli.run("-m", "clade-sonet-4", "-p", "hi")
    assert unknown.code == 2
    assert "claude-sonnet-4" in one_line(unknown)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("protocol", ["openai", "anthropic", "gemini"])
def test_unknown_model_error_gives_the_nearest_names(protocol: str, cli: CliRunner) -> None:
    script = [refused(404, "model not found", code="model_not_found" if protocol == "openai" else None)]
    with FakeServer(protocol, script, models=("tiny-1", "large-2")) as server:  # type: ignore[arg-type]  # one of three
        done = cli.ask(server, "-p", "hi")
    assert done.code == 1
    assert "tiny-1" in one_line(done)


def test_address_of_the_demo_model_is_reported_as_unused(cli: CliRunner) -> None:
    done = cli.run("-m", "demo/demo", "--base-url", "http://127.0.0.1:1/v1", "-p", "hi")
    assert done.code == 0
    assert done.err == "qcode: --base-url is not used: demo/demo has no address\n"


def test_unreachable_address_is_named(cli: CliRunner) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        done = cli.run("-m", "openai/m", "--base-url", address, "-p", "hi", env={"OPENAI_API_KEY": KEY})
    assert done.code == 75
    assert f"127.0.0.1:{address.split(':')[2].split('/')[0]}" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--max-outputtokens", "5"), "--max-output-tokens"),
        (("--max-turns", "0"), "--max-turns"),
        (("--max-output-tokens", "many"), "whole number"),
        (("-o", "xml"), "stream-json"),
        (("--permission-mode", "free"), "accept-edits"),
        (("-m",), "-m needs a value"),
        (("-c", "-r", "abc"), "-r"),
        (("--yolo", "--permission-mode", "plan"), "--yolo"),
    ],
)
def test_invalid_flag_is_explained(flags: tuple[str, ...], part: str, cli: CliRunner) -> None:
    done = cli.run("-p", "hi", *flags)
    assert done.code == 2
    assert part in one_line(done)


def test_two_prompts_are_refused(cli: CliRunner) -> None:
    done = cli.run("-p", "one", "two", "-m", "demo/demo")
    assert done.code == 2
    assert "quotes" in one_line(done)


def test_missing_prompt_is_refused(cli: CliRunner) -> None:
    done = cli.run("-p", "-m", "demo/demo")
    assert done.code == 2
    assert "prompt" in one_line(done)


def test_binary_input_is_refused(cli: CliRunner) -> None:
    done = cli.run("-p", "hi", "-m", "demo/demo", stdin=b"\xff\xfe\x00\x01\xff")
    assert done.code == 42
    assert "standard input" in one_line(done)


def test_unreadable_standard_input_is_refused(cli: CliRunner) -> None:
    with (cli.work).joinpath("x").open("wb") as writable:
        done = subprocess.run(
            cli.command("-p", "hi", "-m", "demo/demo"),
            cwd=cli.work,
            env=cli.environment(),
            stdin=writable,
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert done.returncode == 42
    assert done.stderr.startswith("qcode: cannot read standard input")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("flags", "code", "part"),
    [(("-m", "demo/demo"), 52, "config.toml:2"), (("-m", "nosuch/model"), 2, 'unknown provider "nosuch"')],
)
def test_invalid_rule_or_model_is_reported_before_standard_input_ends(
    flags: tuple[str, ...], code: int, part: str, cli: CliRunner
) -> None:
    if code == 52:
        (cli.home / "config.toml").write_text('[permissions]\nallow = ["shell("]\n')
    argv = cli.command("-p", "hi", *flags)
    with subprocess.Popen(
        argv,
        cwd=cli.work,
        env=cli.environment({"QCODE_HOME": str(cli.home)}),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert part in process.stderr.read().decode()
    assert process.returncode == code


def test_closed_standard_input_is_empty(cli: CliRunner) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(cli.command('-p', 'hello', '-m', 'demo/demo'))} <&-"],
        cwd=cli.work,
        env=cli.environment(),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_file_that_cannot_be_attached_is_named(name: str, cli: CliRunner) -> None:
    done = cli.run("-p", "hi", "-m", "demo/demo", "-f", name)
    assert done.code == 42
    assert name in one_line(done)


def test_byte_of_a_file_name_that_is_not_utf8_is_marked(cli: CliRunner) -> None:
    done = cli.run("-p", "hi", "-m", "demo/demo", "-f", "a\udcff")
    assert done.code == 42
    assert one_line(done) == "qcode: a\ufffd does not exist"


def test_missing_folder_is_named(cli: CliRunner) -> None:
    done = cli.run("-p", "hi", "-m", "demo/demo", "-C", "nowhere")
    assert done.code == 42
    assert "nowhere" in one_line(done)


def in_bash(cli: CliRunner, command: str) -> Finished:
    """Run a command line in which `qcode` is the program, with nothing to read."""
    program = " ".join(cli.command())
    done = subprocess.run(
        ["bash", "-c", f'qcode() {{ {program} "$@"; }}; {command}'],
        cwd=cli.work,
        env=cli.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["-p hello -m demo/demo", "-p hello -m demo/demo -o json", "themes", "--help"])
@pytest.mark.parametrize(("target", "why"), [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")])
def test_failed_write_of_the_answer_is_one_line_and_a_failure(
    command: str, target: str, why: str, cli: CliRunner
) -> None:
    done = in_bash(cli, f"qcode {command} >{target}")
    assert (done.code, done.err) == (1, f"qcode: cannot write to standard output: {why}\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["/dev/full", "&-"])
def test_unwritable_stderr_does_not_change_the_answer(target: str, cli: CliRunner) -> None:
    done = in_bash(cli, f"qcode -p hello -v -m demo/demo 2>{target}")
    assert done.code == 0
    assert "demo model" in done.out
    assert in_bash(cli, f"qcode --bogus 2>{target}").code == 2


def test_deleted_working_folder_is_reported_by_every_command(cli: CliRunner) -> None:
    gone = "mkdir gone && cd gone && rmdir ../gone"
    for command in ("-p hi -m demo/demo", "sessions", "config show"):
        done = in_bash(cli, f"{gone} && qcode {command}")
        assert done.code == 42
        assert one_line(done) == "qcode: cannot use the current folder: No such file or directory"
    assert in_bash(cli, f"{gone} && qcode config path").code == 0


def test_closed_reader_is_not_an_error_for_short_output(cli: CliRunner) -> None:
    for command in ("models", "themes", "config show", "--completion bash", "-p --help"):
        done = in_bash(cli, f"qcode {command} | true; echo ${{PIPESTATUS[0]}}")
        assert done.out.strip() in ("0", "141")
        assert done.err == ""


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"])
def test_invalid_address_variable_affects_no_other_provider(variable: str, cli: CliRunner) -> None:
    done = cli.run("-p", "hello", "-m", "demo/demo", env={variable: "http://127.0.0.1:9/v1"})
    assert (done.code, done.err) == (0, "")


def test_invalid_config_error_names_file_and_line(cli: CliRunner) -> None:
    (cli.home / "config.toml").write_text("[output]\nmax_token = 5\n")
    done = cli.run("-p", "hi", "-m", "demo/demo", env={"QCODE_HOME": str(cli.home)})
    assert done.code == 52
    line = one_line(done)
    assert "config.toml:2" in line
    assert "max_tokens" in line


def test_unwritable_state_folder_is_only_a_warning(cli: CliRunner) -> None:
    (cli.home / "state").write_text("a file where the folder should be")
    with FakeServer("openai", [Turn(text="Still here.")]) as server:
        done = cli.run(
            "-m", "openai/m", "--base-url", server.base_url, "-p", "hi",
            env={"QCODE_HOME": str(cli.home), "OPENAI_API_KEY": KEY},
        )  # fmt: skip
    assert (done.code, done.out) == (0, "Still here.\n")
    assert len(done.err.splitlines()) == 1
    assert "Traceback" not in done.err


def test_missing_session_is_named(cli: CliRunner) -> None:
    done = cli.run("-p", "hi", "-m", "demo/demo", "--resume", "20200101-000000-abcd")
    assert done.code == 42
    assert "20200101" in one_line(done)


def test_prompt_larger_than_the_window_is_refused_with_the_figures(cli: CliRunner) -> None:
    (cli.work / "big.txt").write_text("word " * 250_000)
    done = cli.run("-p", "hi", "-m", "openai/unknown", "-f", "big.txt", env={"OPENAI_API_KEY": KEY})
    assert done.code == 42
    assert "200,000" in one_line(done)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("flags", "code", "why"),
    [
        (("-m", "openai/gpt-5"), 41, "openai needs a key"),
        (("--mcp-config", "none.json"), 52, "--mcp-config: none.json: cannot read the file: No such file"),
        (("--record", "none/r"), 42, "cannot write --record none/r: No such file or directory"),
        (("--debug-log", "none/d"), 42, "cannot write --debug-log none/d: No such file or directory"),
        (("-r", "none"), 42, 'no session "none"'),
        (("-r",), 2, "-r needs a session id"),
        (("-f", "none.txt"), 42, "none.txt does not exist"),
        (("-m", "openai/x", "--base-url", "http://127.0.0.1:1", "--max-budget-usd", "1"), 2, "needs a price"),
    ],
)
def test_error_is_reported_before_standard_input_ends(
    flags: tuple[str, ...], code: int, why: str, cli: CliRunner
) -> None:
    argv = cli.command("-m", "demo/demo", "-p", "hi", *flags)
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cli.work, env=cli.environment()
    ) as process:
        assert process.stderr is not None
        err = process.stderr.read().decode()  # to its end, while standard input is open
    assert process.returncode == code
    assert why in err


def test_mentioned_file_that_does_not_exist_is_reported(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="ok")]) as server:
        done = cli.ask(server, "-p", "compare @nope.txt with @main, please")
    assert (done.code, done.out, done.err) == (0, "ok\n", "qcode: nope.txt not found, not attached\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("protocol", "path", "hint"),
    [
        ("openai", "", "; the address from --base-url may lack a version: try {}/v1"),
        ("openai", "/v2", "; check the address {}/v2 from --base-url"),
        ("openai", "/v1/chat/completions", "; the address from --base-url names an operation: try {}/v1"),
        ("anthropic", "/other", "; check the address {}/other from --base-url"),
    ],
)
def test_address_that_the_server_does_not_serve_gets_a_hint(
    protocol: ProtocolName, path: str, hint: str, cli: CliRunner
) -> None:
    with FakeServer(protocol, []) as server:
        root = server.base_url.removesuffix("/v1")
        env = {KEY_VARIABLES[protocol]: KEY}
        done = cli.run("-m", f"{protocol}/m", "--base-url", root + path, "-p", "hi", env=env)
    assert done.code == 1
    assert hint.format(root) in one_line(done)


def test_web_page_instead_of_a_reply_names_the_address(cli: CliRunner) -> None:
    page = "<!doctype html><title>Sign in</title>"
    with FakeServer("openai", [refused(200, body=page)]) as server:
        address = server.base_url
        done = cli.run("-m", "openai/m", "--base-url", address, "-p", "hi", env={"OPENAI_API_KEY": KEY})
    assert done.code == 1
    assert 'a web page ("Sign in") instead of a reply' in one_line(done)
    assert f"; check the address {address} from --base-url" in one_line(done)


def test_hint_about_an_address_from_a_file_shortens_the_path_of_the_file(cli: CliRunner) -> None:
    with FakeServer("openai", []) as server:
        address = server.base_url.removesuffix("/v1") + "/v2"
        config = f'[providers.lab]\ntype = "openai"\nbase_url = "{address}"\n'
        (cli.home / "config.toml").write_text(config)
        done = cli.run("-m", "lab/m", "-p", "hi", env={"QCODE_HOME": str(cli.home), "HOME": str(cli.home.parent)})
    assert done.code == 1
    assert f"; check the address {address} from ~/{cli.home.name}/config.toml:3" in one_line(done)


def test_provider_without_an_address_names_the_setting(cli: CliRunner) -> None:
    (cli.home / "config.toml").write_text('[providers.lab]\ntype = "openai"\n')
    done = cli.run("-m", "lab/m", "-p", "hi", env={"QCODE_HOME": str(cli.home)})
    assert done.code == 2
    assert one_line(done) == "qcode: lab needs a base URL: set base_url under [providers.lab]"


def test_instruction_files_that_are_left_out_are_named(cli: CliRunner) -> None:
    (cli.work / "AGENTS.md").write_text("Be brief. See @notes.md and @../outside.md\n")
    (cli.work.parent / "outside.md").write_text("outside")
    (rules := cli.work / ".claude/rules").mkdir(parents=True)
    (rules / "odd.md").write_text("---\npaths: {a: 1}\n---\ntext\n")
    done = cli.run("-p", "hello", "-m", "demo/demo", "--trust")
    assert done.code == 0
    first, second, third = done.err.splitlines()
    assert first == "qcode: @notes.md in AGENTS.md does not exist"
    assert second == "qcode: @../outside.md in AGENTS.md leads outside the project and was not read"
    assert "odd.md:2: `paths`" in third
    restricted = cli.run("-p", "hello", "-m", "demo/demo")
    assert "AGENTS.md" not in restricted.err
