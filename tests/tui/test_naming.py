"""The title of the session in the terminal's title, and the usage of making it."""

from __future__ import annotations

from decimal import Decimal

from qcode.agent.usage import TurnUsage
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import ApiCalls, LimitReached, UsageUpdated
from qcode.protocol.usage import Usage
from qcode.tui.terminal.driver import RESTORE_TITLE, SAVE_TITLE, TerminalTitle
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, ended, says


def test_title_is_requested_after_the_turn_and_its_cost_counts() -> None:
    conversation = ScriptedConversation([*says("hi"), ended(cost="0.0021")])
    conversation.library.next_title = "Dates in the parser"
    conversation.library.title_usage = TurnUsage("", "tiny/m", Usage(100, 10), Decimal("0.01"), ApiCalls(1))
    named: list[str] = []

    async def test(run: Running) -> None:
        run.app.session_title.show = named.append
        await run.send("go")
        await run.until(lambda: bool(named) and named[-1] == "Dates in the parser")
        await run.pilot.pause()
        assert run.app.widgets.status.status.cost == Decimal("0.0121")
        await run.send("/rename x")
        await run.pilot.pause()
        assert named[-1] == "x"

    drive(test, conversation)


def test_cost_of_a_title_does_not_hide_the_cost_of_a_turn_that_has_started_since() -> None:
    waiting = Gate()
    running = UsageUpdated(Usage(10, 5), Decimal("0.5"), 15, 1_000)
    conversation = ScriptedConversation([*says("hi"), running, waiting, ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await waiting.reached.wait()
        conversation.library.title_usage = TurnUsage("", "tiny/m", Usage(100, 10), Decimal("0.01"), ApiCalls(1))
        await run.app.session_title.write_if_due()
        cost = run.app.widgets.status.status.cost
        waiting.open()
        await run.until_idle()
        assert cost == Decimal("0.51")

    drive(test, conversation)


def test_terminal_title_has_the_cleaned_and_bounded_session_and_folder() -> None:
    written: list[str] = []
    terminal_title = TerminalTitle("~/project", written.append, lambda text: None, has_title=True, has_bell=False)
    terminal_title.begin()
    terminal_title.show_session_title("Dates in\x07 the \x1b[31mparser")
    terminal_title.announce("working")
    terminal_title.announce("asking")
    terminal_title.show_session_title("x" * 200)
    terminal_title.end()
    assert written[1:5] == [
        "\x1b]0;qcode · project\x07",
        "\x1b]0;Dates in the parser · project\x07",
        "\x1b]0;… Dates in the parser · project\x07",
        "\x1b]0;? Dates in the parser · project\x07",
    ]
    assert written[5] == f"\x1b]0;? {'x' * 49}… · project\x07"


def test_terminal_title_counts_down_while_the_turn_waits_for_a_limit() -> None:
    waiting, left = Gate(), list[str]()
    limit = ErrorInfo(ErrorKind.RATE_LIMIT, "p: limit reached", 429, None, 7_800, 1_795_000_000)
    conversation = ScriptedConversation([LimitReached(limit, 7_800), waiting, *says("hi"), ended()])

    async def test(run: Running) -> None:
        assert run.app.widgets.status.on_countdown == run.app.terminal_title.count_down
        run.app.widgets.status.on_countdown = left.append
        await run.send("go")
        await waiting.reached.wait()
        assert left == ["2 h 10 min"]
        waiting.open()
        await run.until_idle()
        assert left == ["2 h 10 min", ""]

    drive(test, conversation)
    written: list[str] = []
    terminal_title = TerminalTitle("~/project", written.append, lambda text: None, has_title=True, has_bell=False)
    terminal_title.announce("working")
    terminal_title.count_down("2 h 10 min")
    terminal_title.count_down("")
    assert written[-2:] == ["\x1b]0;… 2 h 10 min · qcode · project\x07", "\x1b]0;… qcode · project\x07"]


def test_terminal_title_is_restored_when_disabled_and_set_again_when_enabled() -> None:
    written: list[str] = []
    terminal_title = TerminalTitle("~/project", written.append, lambda text: None, has_title=True, has_bell=False)
    terminal_title.begin()
    terminal_title.use_title(False)
    terminal_title.announce("working")
    assert written[-1] == RESTORE_TITLE
    terminal_title.use_title(True)
    assert written[-2:] == [SAVE_TITLE, "\x1b]0;… qcode · project\x07"]
    terminal_title.use_title(True)
    assert len(written) == 5
