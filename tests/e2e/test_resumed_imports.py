"""A session of another program, imported and resumed: in a pipe on every protocol, and on the screen of the app."""

from __future__ import annotations

import pytest

from tests.agent.imports.written import AGAIN, ANSWER, ASKED, LAST, RECORDS, SAID, write
from tests.e2e.running import PROTOCOLS, CliRunner
from tests.e2e.terminal import Terminal
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Turn


def imported(cli: CliRunner, program: str) -> str:
    path = write(cli.work / f"{program}.jsonl", RECORDS[program](str(cli.work)))
    done = cli.run("sessions", "import", path.name)
    assert (done.code, done.err) == (0, "")
    return done.out.split()[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("program", RECORDS)
def test_strict_host_accepts_the_next_request_of_an_imported_session(
    program: str, protocol: ProtocolName, cli: CliRunner
) -> None:
    session_id = imported(cli, program)
    with FakeServer(protocol, [Turn(text="You are welcome.")]) as server:
        done = cli.ask(server, "-r", session_id, "-p", "thanks")
        assert (done.code, done.out) == (0, "You are welcome.\n"), done.err
        assert server.complaints == []
        (request,) = server.requests
    roles = [message.role for message in request.messages]
    assert roles == ["user", "assistant", "user", "assistant", "user", "assistant", "user"]
    texts = [message.text for message in request.messages]
    assert [texts[0], texts[1], texts[3], texts[4], texts[5]] == [ASKED, SAID, ANSWER, AGAIN, LAST]
    assert len(request.messages[1].calls) == 2


def test_app_shows_an_imported_session_like_its_own(cli: CliRunner) -> None:
    session_id = imported(cli, "claude-code")
    with Terminal(cli, "-m", "demo/demo", "--trust", "-r", session_id) as terminal:
        screen_text = terminal.wait_for(LAST)
        for text in (ASKED, SAID, ANSWER, AGAIN, "Makefile", "make"):
            assert text in screen_text
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
