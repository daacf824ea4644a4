"""The first start in a real pty: from nothing to an answer of a real model, and never again afterwards."""

from __future__ import annotations

from tests.e2e.running import KEY, CliRunner
from tests.e2e.terminal import Terminal
from tests.fakes.server import FakeServer
from tests.fakes.turns import Turn

OPENED = "Connect a model"
PASTE = "\x1b[200~export OPENAI_API_KEY='{}'\x1b[201~"


def test_first_start_reaches_an_answer_and_never_shows_the_key(cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="hello from a model")], api_key=KEY, models=("only-one",)) as server:
        env = {"OPENAI_BASE_URL": server.base_url}
        with Terminal(cli, env=env) as terminal:
            terminal.wait_for(OPENED)
            terminal.press("openai")
            terminal.wait_for("›   OpenAI  ")
            terminal.press("\r")
            terminal.wait_for("API key for OpenAI")
            terminal.press(PASTE.format(KEY))
            terminal.wait_for("•••")
            terminal.press("\r")
            terminal.wait_for("Choose a model of OpenAI")
            terminal.press("\r")
            terminal.wait_for("preview")
            terminal.press("\x1b")
            terminal.wait_for("• Model: openai/only-one.")
            terminal.press("hi\r")
            terminal.wait_for("hello from a model")
            terminal.press("\x04")
            assert terminal.wait_for_end() == 0
            assert KEY not in terminal.raw
        files = [path for path in cli.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
        assert [path.name for path in files] == ["keys.json"]
        with Terminal(cli, env=env) as terminal:
            assert OPENED not in terminal.wait_for("openai/only-one (chosen in the app)")


def test_skipped_first_start_does_not_return(cli: CliRunner) -> None:
    with Terminal(cli, "--theme", "dark") as terminal:
        terminal.wait_for(OPENED)
        terminal.press("\x1b")
        screen_text = terminal.wait_for("built-in demo model")
        assert "/connect" in screen_text
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
    with Terminal(cli) as terminal:
        assert OPENED not in terminal.wait_for("built-in demo model")
        terminal.press("/connect\r")
        terminal.wait_for(OPENED)
