"""The app before its agent is open: it is painted immediately, and no input is lost."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from textual import events
from textual.pilot import Pilot

from qcode.protocol.errors import ExitCode, QcodeError
from qcode.protocol.events import Notice
from qcode.protocol.messages import Text, assistant, user
from qcode.tui.app import QcodeApp
from qcode.tui.opening import start_session
from qcode.tui.screens.connect import ConnectScreen
from tests.tui.harness import make_agent, until_ready
from tests.tui.scripted import ScriptedConversation
from tests.tui.scripted_keys import ScriptedKeysService
from tests.tui.staged_app import WELCOME, StagedAgent, StagedApp

pytestmark = pytest.mark.frames


@dataclass
class Gate:
    """Opens the agent when the test allows it; `threads` are the threads it was called in."""

    conversation: ScriptedConversation = field(default_factory=ScriptedConversation)
    is_possible: bool = True
    connect: ScriptedKeysService | None = None
    let: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def open(self) -> StagedAgent:
        self.threads.append(threading.current_thread())
        self.let.wait(30)
        if not self.is_possible:
            raise QcodeError("no session s9", ExitCode.BAD_INPUT)
        return make_agent(self.conversation, connect=self.connect)


class GatedApp(StagedApp):
    """The app, with an agent that opens at a gate."""

    def __init__(self, gate: Gate) -> None:
        agent = make_agent(ScriptedConversation(model="demo/soon"), mode="plan")
        super().__init__(agent, WELCOME)
        self._gate = gate

    def open_agent(self) -> StagedAgent:
        return self._gate.open()


def drive(gate: Gate, test: Callable[[QcodeApp, Pilot[int]], Awaitable[None]]) -> QcodeApp:
    app = GatedApp(gate)

    async def body() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            try:
                await test(app, pilot)
            finally:
                gate.let.set()

    asyncio.run(body())
    return app


def test_styles_of_the_first_paint_are_those_of_its_widgets() -> None:
    named = set(re.findall(r"#([a-z-]+)", re.sub(r"\$[\w-]+", "", QcodeApp.CSS_PATH.read_text(encoding="utf-8"))))
    assert named == {"transcript", "prompt-row", "prompt-mark", "prompt", "status"}


def test_first_screen_is_painted_before_the_conversation_opens() -> None:
    gate = Gate()

    async def test(app: QcodeApp, pilot: Pilot[int]) -> None:
        while not gate.threads:
            await pilot.pause()
        assert not app.is_ready
        assert "qcode 0.1.0" in app.widgets.transcript.plain_text()
        status = app.widgets.status.render().plain
        assert "demo/soon" in status
        assert "plan" in status
        await pilot.press("h", "i")
        assert app.widgets.prompt.text == "hi"
        gate.let.set()
        await until_ready(app, pilot)
        assert "demo/scripted" in app.widgets.status.render().plain
        assert app.widgets.prompt.text == "hi"

    drive(gate, test)
    assert gate.threads != [threading.main_thread()]
    assert len(gate.threads) == 1


def test_input_before_the_agent_is_open_is_handled_in_order() -> None:
    gate = Gate()

    async def test(app: QcodeApp, pilot: Pilot[int]) -> None:
        await pilot.press("o", "n", "e", "enter", "t", "w", "o", "space")
        app.post_message(events.Paste("three"))
        await pilot.press("enter")
        await pilot.pause()
        assert gate.conversation.prompts == []
        gate.let.set()
        await until_ready(app, pilot)
        while len(gate.conversation.prompts) < 2:
            await pilot.pause()
        assert gate.conversation.prompts == ["one", "two three"]

    drive(gate, test)


def test_text_typed_before_the_prompt_has_the_focus_stays_in_front_of_its_enter() -> None:
    gate = Gate()

    async def test(app: QcodeApp, pilot: Pilot[int]) -> None:
        app.set_focus(None)
        for key in "fail":
            app.post_message(events.Key(key, key))
        app.post_message(events.Key("enter", "\r"))
        await pilot.pause()
        gate.let.set()
        await until_ready(app, pilot)
        while not gate.conversation.prompts:
            await pilot.pause()
        assert gate.conversation.prompts == ["fail"]
        assert app.widgets.prompt.text == ""

    drive(gate, test)


def test_command_typed_before_the_conversation_opens_runs() -> None:
    gate = Gate()

    async def test(app: QcodeApp, pilot: Pilot[int]) -> None:
        await pilot.press("slash", "h", "e", "l", "p", "enter")
        gate.let.set()
        await until_ready(app, pilot)
        while not app.widgets.help.is_open:
            await pilot.pause()

    drive(gate, test)


def test_text_typed_before_connect_screen_is_in_prompt_afterwards() -> None:
    gate = Gate(connect=ScriptedKeysService(is_first=True))

    async def test(app: QcodeApp, pilot: Pilot[int]) -> None:
        await pilot.press(*"hi", "space", *"all")
        gate.let.set()
        await until_ready(app, pilot)
        while not isinstance(app.screen, ConnectScreen):
            await pilot.pause()
        assert app.widgets.prompt.text == "hi all"
        assert gate.conversation.prompts == []

    drive(gate, test)


def test_prompt_sent_before_connect_screen_skips_it() -> None:
    connecting = ScriptedKeysService(is_first=True)
    gate = Gate(connect=connecting)

    async def test(app: QcodeApp, pilot: Pilot[int]) -> None:
        await pilot.press(*"hi", "space", *"all", "enter")
        gate.let.set()
        await until_ready(app, pilot)
        while not gate.conversation.prompts:
            await pilot.pause()
        assert gate.conversation.prompts == ["hi all"]
        assert not isinstance(app.screen, ConnectScreen)
        assert connecting.finished == 1

    drive(gate, test)


def test_resumed_conversation_is_shown_once_it_is_loaded() -> None:
    gate = Gate(ScriptedConversation(messages=(user("earlier"), assistant(Text("an answer")))))

    async def test(app: QcodeApp, pilot: Pilot[int]) -> None:
        assert "an answer" not in app.widgets.transcript.plain_text()
        gate.let.set()
        await until_ready(app, pilot)
        assert "an answer" in app.widgets.transcript.plain_text()

    drive(gate, test)


def test_hidden_panel_mounts_its_parts_when_it_is_first_shown() -> None:
    gate = Gate()
    gate.let.set()

    async def test(app: QcodeApp, pilot: Pilot[int]) -> None:
        await until_ready(app, pilot)
        widgets = app.widgets
        panels = (widgets.search, widgets.approval, widgets.help, widgets.aside, widgets.todos)
        assert not [child for panel in panels for child in panel.children]

        for _ in range(2):
            await pilot.press("ctrl+f")
            await pilot.press("escape")
        assert len(widgets.search.children) == 3

    drive(gate, test)


def test_failure_to_open_the_agent_ends_the_app_with_its_error() -> None:
    gate = Gate(is_possible=False)
    gate.let.set()

    with pytest.raises(QcodeError, match="no session s9"):
        GatedApp(gate).run(headless=True, size=(80, 24))


def test_start_notices_name_no_command_of_the_command_line() -> None:
    warning = "this folder is not trusted, so /p/.qcode/config.toml is ignored; qcode trust accept trusts it"
    agent = make_agent(ScriptedConversation(), notices=(Notice("warning", warning),))
    texts = [notice.text for notice in start_session(agent).notices]
    assert texts == ["this folder is not trusted, so /p/.qcode/config.toml is ignored; /trust trusts it"]
