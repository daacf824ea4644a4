"""The prompt at a real terminal: pastes, files, shell lines, the editor, commands from files."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.agent.context.folders import make_executable
from tests.agent.test_pictures import png
from tests.e2e.running import KEY, KEY_VARIABLES, CliRunner
from tests.e2e.terminal import Answering, Terminal
from tests.e2e.test_app import ALTERNATE_SCREEN_OFF
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Turn

READY = "Ask ·"


def at(server: FakeServer, cli: CliRunner, *more: str, **env: str) -> Terminal:
    flags = ("-m", "openai/test-model", "--base-url", server.base_url, "--trust", *more)
    return Terminal(cli, *flags, env={KEY_VARIABLES["openai"]: KEY, **env})


@pytest.mark.broad
def test_large_paste_with_escapes_is_collapsed_and_sends_nothing(cli: CliRunner) -> None:
    text = "line \x1b[31mof\x1b[0m text\r\n" * 40_000
    with FakeServer("openai", [Turn(text="I have read it all.")]) as server, at(server, cli) as terminal:
        terminal.wait_for(READY)
        writing = threading.Thread(target=terminal.press, args=(f"\x1b[200~{text}\x1b[201~",))
        writing.start()
        terminal.wait_for("[Pasted text #1 +40,000 lines]")
        writing.join()
        assert server.requests == []
        terminal.press("\r")
        terminal.wait_for("I have read it all.")
        assert "line of text\n" * 40_000 in server.requests[0].messages[-1].text


def test_keys_and_pastes_keep_their_order(cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo", "--trust") as terminal:
        terminal.wait_for(READY)
        for number in range(10):
            # One write, as a terminal multiplexer or a fast hand sends it: clear, paste, type, go home, paste again.
            keys = f"\x15\x1b[200~<paste {number}>\x1b[201~tail\x1b[H\x1b[200~[head {number}]\x1b[201~!"
            terminal.press(f"lost {number}{keys}")
            terminal.wait_for(f"› [head {number}]!<paste {number}>tail\n", timeout_s=5)
            terminal.press("\x05")


def test_file_is_completed_and_attached_together_with_a_shell_command(cli: CliRunner) -> None:
    (cli.work / "notes.txt").write_text("The cow says moo.")
    (cli.work / "src").mkdir()
    (cli.work / "src/main.py").write_text("print()")
    with FakeServer("openai", [Turn(text="I see both.")]) as server, at(server, cli) as terminal:
        terminal.wait_for(READY)
        terminal.press("!echo from-$((40+2))\r")
        terminal.wait_for("exit 0")
        terminal.press("see @nts")
        terminal.wait_for("notes.txt")
        terminal.press("\t")
        terminal.wait_for("see @notes.txt")
        terminal.press("\r")
        terminal.wait_for("I see both.")
        text = server.requests[0].messages[-1].text
        assert "from-42" in text
        assert "The cow says moo." in text
        assert text.endswith("see @notes.txt ")


def test_escape_cancels_a_shell_command(cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo", "--trust") as terminal:
        terminal.wait_for(READY)
        terminal.press("!echo begun; sleep 600\r")
        terminal.wait_for("│ begun")
        terminal.press("\x1b")
        terminal.wait_for("stopped")
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0


def test_editor_gets_the_terminal_and_returns_it(cli: CliRunner, tmp_path: Path) -> None:
    editor = make_executable(
        tmp_path / "editor", 'printf "the editor is open"; read answer; printf "\\n%s" "$answer" >> "$2"'
    )
    with (
        FakeServer("openai", [Turn(text="Understood.")]) as server,
        at(server, cli, VISUAL=f"{editor} -x") as terminal,
    ):
        terminal.wait_for(READY)
        terminal.press("first line")
        terminal.wait_for("first line")
        terminal.press("\x07")
        terminal.wait_for("the editor is open")
        terminal.press("second line\r")
        terminal.wait_for("› first line\n   second line")
        terminal.press("\r")
        terminal.wait_for("Understood.")
        assert server.requests[0].messages[-1].text == "first line\nsecond line"


def test_edited_command_runs_and_is_reported_to_the_model(cli: CliRunner, tmp_path: Path) -> None:
    editor = make_executable(tmp_path / "editor", 'printf "the editor is open"; read word; echo "touch $word" > "$1"')
    script = [Turn(calls=[Call("shell", '{"command": "touch one"}')]), Turn(text="It ran.")]
    with FakeServer("openai", script) as server, at(server, cli, VISUAL=str(editor)) as terminal:
        terminal.wait_for(READY)
        terminal.press("run it\r")
        terminal.wait_for("Ctrl+G edits it")
        terminal.press("\x07")
        terminal.wait_for("the editor is open")
        terminal.press("two\r")
        terminal.wait_for(lambda text: "edited by you" in text and "touch two" in text)
        screen_text = terminal.wait_for(Answering(terminal, "It ran."))
        assert "edited by you" in screen_text
        assert "`command`: touch two" in str(server.requests[1].body)
    assert (cli.work / "two").exists()
    assert not (cli.work / "one").exists()


def test_failure_to_start_the_editor_is_reported(cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo", "--trust", env={"EDITOR": "/no/such/editor"}) as terminal:
        terminal.wait_for(READY)
        terminal.press("/editor\r")
        terminal.wait_for("could not be started")
        assert "qcode is suspended" not in terminal.raw


def test_pasted_image_path_is_sent_as_an_image(cli: CliRunner) -> None:
    (cli.work / "shot.png").write_bytes(png(7, 5))
    with FakeServer("openai", [Turn(text="Red.")]) as server, at(server, cli) as terminal:
        terminal.wait_for(READY)
        terminal.press(f"\x1b[200~'{cli.work}/shot.png'\x1b[201~")
        terminal.wait_for("[Image #1 shot.png 7x5]")
        terminal.press("what color?\r")
        terminal.wait_for("Red.")
        assert "image/png" in str(server.requests[0].body)


def test_command_from_a_file_has_its_own_cap_in_the_app_and_in_pipe_mode(cli: CliRunner) -> None:
    folder = cli.work / ".qcode/commands/git"
    folder.mkdir(parents=True)
    (folder / "sum.toml").write_text('prompt = "Sum up {{args}}."\n[output]\nmax_tokens = 123\n')
    with FakeServer("openai", [Turn(text="Once."), Turn(text="Twice.")]) as server:
        with at(server, cli) as terminal:
            terminal.wait_for(READY)
            terminal.press("/git:sum the diff\r")
            terminal.wait_for("Once.")
            terminal.press("and again\r")
            terminal.wait_for("Twice.")
        assert server.caps == [123, 8000]
        assert server.requests[0].messages[-1].text == "Sum up the diff."
    with FakeServer("openai", [Turn(text="Done.")]) as server:
        done = cli.ask(server, "-p", "/git:sum all", "--trust")
        assert (done.code, done.out.strip(), server.caps) == (0, "Done.", [123])
    with FakeServer("openai", [Turn(text="Done.")]) as server:
        cli.ask(server, "-p", "/git:sum all", "--trust", "--max-output-tokens", "77")
        assert server.caps == [77]
    with FakeServer("openai", [Turn(text="Done.")]) as server:
        cli.ask(server, "-p", "/git:sum all")
        assert server.requests[0].messages[-1].text == "/git:sum all"


def test_key_binding_of_an_unknown_command_is_a_config_error(cli: CliRunner) -> None:
    config = cli.home / "q"
    config.mkdir()
    (config / "config.toml").write_text('[ui.keys]\nfold = "ctrl+y"\ncopyy = "f8"\n')
    with Terminal(cli, "-m", "demo/demo", env={"QCODE_HOME": str(config)}) as terminal:
        assert terminal.wait_for_end() == 52
        screen_text = terminal.raw.rpartition(ALTERNATE_SCREEN_OFF)[2]
        assert "config.toml:3: ui.keys.copyy: unknown command copyy; the nearest is copy" in screen_text
