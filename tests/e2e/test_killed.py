"""qcode is killed (SIGKILL) in the middle of its work: the text survives and the history is valid."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from tests.e2e.running import KEY, KEY_VARIABLES, PROTOCOLS, Place
from tests.e2e.terminal import Terminal
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Asked, Faults, Turn

SHOWN = "The first half of the answer "
PATIENCE_S = 20.0


def stalling(asked: Asked) -> Turn:
    """Stop in the middle of the reply to `ask`; answer everything else."""
    if any("go on" in message.text for message in asked.messages):
        return Turn(text="The second half.")
    return Turn(text=(SHOWN, "and what never arrives"), faults=Faults(stall_after=_events_before_stall(asked)))


def _events_before_stall(asked: Asked) -> int:
    if "GenerateContent" in asked.path:
        return 1
    return 4 if "/messages" in asked.path else 2


def wait_for_partial(place: Place, wanted: str) -> None:
    """Block until the file of the reply under way holds `wanted`: the moment from which a kill must not lose it."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(wanted.strip() in path.read_text() for path in place.home.rglob("*.partial")):
        assert time.monotonic() < deadline, "the shown text was not written"
        time.sleep(0.01)


def flags_of(server: FakeServer, protocol: ProtocolName) -> tuple[str, ...]:
    return ("-m", f"{protocol}/test-model", "--base-url", server.base_url)


def check_resumed(place: Place, server: FakeServer, protocol: ProtocolName) -> None:
    """Continue the killed session: its shown text is in the history, which a strict host accepts."""
    done = place.ask(server, "-c", "-p", "go on")
    assert (done.code, done.out) == (0, "The second half.\n"), done.err
    assert "qcode ended while the last reply was written; the text so far is kept" in done.err
    assert server.complaints == []
    assert [message.role for message in server.requests[-1].messages] == ["user", "assistant", "user"]
    assert server.requests[-1].messages[1].text == SHOWN
    assert list(place.home.rglob("*.partial")) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reply_of_a_killed_pipe_is_in_the_resumed_history(protocol: ProtocolName, place: Place) -> None:
    with FakeServer(protocol, stalling) as server:
        environment = place.environment({KEY_VARIABLES[protocol]: KEY})
        command = place.command(*flags_of(server, protocol), "-p", "ask")
        process = subprocess.Popen(command, cwd=place.work, env=environment, stdin=subprocess.DEVNULL)
        wait_for_partial(place, SHOWN)
        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
        check_resumed(place, server, protocol)


def test_draft_of_a_killed_app_is_in_the_prompt_of_the_next_one(place: Place) -> None:
    def drafts() -> list[str]:
        return [path.read_text() for path in place.home.rglob("drafts/*.json")]

    with Terminal(place, "-m", "demo/demo", "--trust") as terminal:
        terminal.wait_for("sandbox")
        terminal.press("\x1b[200~line one\nline two\x1b[201~ and more")
        terminal.wait_for(lambda _: any("and more" in draft for draft in drafts()))
        terminal.send_signal(signal.SIGKILL)
    with Terminal(place, "-m", "demo/demo", "--trust") as terminal:
        shown = terminal.wait_for("line two and more")
        assert "line one" in shown
        assert "Restored the prompt that was not sent" in shown
        terminal.press("\x15\x15\x15")
        terminal.wait_for(lambda _: not drafts())


def test_reply_of_a_killed_app_is_on_screen_after_resume(place: Place) -> None:
    with FakeServer("openai", stalling) as server:
        flags = (*flags_of(server, "openai"), "--trust")
        environment = {KEY_VARIABLES["openai"]: KEY}
        with Terminal(place, *flags, env=environment) as terminal:
            terminal.wait_for("test-model")
            terminal.press("ask\r")
            terminal.wait_for(SHOWN.strip())
            wait_for_partial(place, SHOWN)
            terminal.send_signal(signal.SIGKILL)
            terminal.wait_for_end()
        with Terminal(place, *flags, "-c", env=environment) as terminal:
            terminal.wait_for(SHOWN.strip())
            terminal.wait_for("the text so far is kept")
            terminal.press("go on\r")
            terminal.wait_for("The second half.")
            terminal.press("\x04")
            assert terminal.wait_for_end() == 0
        assert server.complaints == []
        assert server.requests[-1].messages[1].text == SHOWN


def test_partial_file_is_private(place: Place) -> None:
    with FakeServer("openai", stalling) as server:
        environment = place.environment({KEY_VARIABLES["openai"]: KEY})
        command = place.command(*flags_of(server, "openai"), "-p", "ask")
        process = subprocess.Popen(command, cwd=place.work, env=environment, stdin=subprocess.DEVNULL)
        wait_for_partial(place, SHOWN)
        (found,) = place.home.rglob("*.partial")
        assert found.stat().st_mode & 0o777 == 0o600
        assert found.parent.stat().st_mode & 0o777 == 0o700
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        assert list(place.home.rglob("*.partial")) == [], "the interrupted reply is in the session now"
