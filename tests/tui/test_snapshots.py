"""How the app looks, each with what must be readable in it. Everything that could differ between runs is fixed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from textual.pilot import Pilot

from qcode.protocol.events import (
    ApprovalRequested,
    Choice,
    OutputEscalated,
    Retry,
    StepStarted,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    UsageUpdated,
)
from qcode.protocol.reply import TextDelta
from qcode.protocol.stops import Outcome, StopReason
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.tui.app import QcodeApp
from qcode.tui.connect import ConnectScreen, KeyField
from qcode.tui.picker import Picker
from tests.tui.connecting import CHOICES, ScriptedConnecting
from tests.tui.harness import make_app
from tests.tui.scripted import Gate, Script, ScriptedConversation, UntilAnswered, call, ended, reply

Compare: TypeAlias = Callable[..., bool]

TEXT = "## Plan\n\nTwo steps:\n\n1. read `qcode/tui`\n2. **fix** it\n\n```python\ndef fix() -> None:\n    pass\n```\n"
DIFF = "--- a/app.py\n+++ b/app.py\n@@ -1,3 +1,3 @@\n import sys\n-print('old')\n+print('new')\n sys.exit(0)\n"
USAGE = UsageUpdated(Usage(12_000, 900), None, 12_900, 200_000)


def _app(script: Script, **changes: Any) -> QcodeApp:
    return make_app(ScriptedConversation(script), first_prompt="please fix the app", **changes)


def _when(holds: Callable[[QcodeApp], bool]) -> Callable[[Pilot[int]], Awaitable[None]]:
    """Return what waits until `holds` and everything is painted."""

    async def wait(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, QcodeApp)
        while not holds(app):
            await pilot.pause()
        await pilot.pause()
        app.parts.transcript.flush()
        await pilot.pause()

    return wait


def _at(gate: Gate) -> Callable[[Pilot[int]], Awaitable[None]]:
    return _when(lambda _: gate.reached.is_set())


def _is_over(app: QcodeApp) -> bool:
    return bool(app.conversation.prompts) and not app.turns.is_running  # type: ignore[attr-defined]  # a scripted one


def _shown(app: QcodeApp) -> str:
    return app.parts.transcript.plain_text()


def test_empty(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation())
    assert snap_compare(app, run_before=_when(lambda _: True))
    assert "qcode 0.1.0" in _shown(app)
    assert "Set ANTHROPIC_API_KEY" in _shown(app)


def test_streaming(snap_compare: Compare) -> None:
    gate = Gate()
    app = _app([StepStarted(1), TextDelta(0, TEXT), USAGE, gate])
    assert snap_compare(app, run_before=_at(gate))
    assert "Plan" in _shown(app)


def test_approval(snap_compare: Compare) -> None:
    edit = call("edit", '{"path": "app.py"}')
    request = ApprovalRequested(edit, "Edit app.py?", DIFF, "edit(app.py)")
    script: Script = [StepStarted(1), TextDelta(0, "I change one line."), reply("", edit), request, UntilAnswered("c1")]
    app = _app(script)
    assert snap_compare(app, run_before=_when(lambda app: app.parts.approval.request is not None))
    assert app.parts.approval.request == request


QUESTION = ApprovalRequested(
    call("ask_person", '{"question": "Where should the cache live?"}'),
    "Where should the cache live?",
    "Both work; the first is faster.",
    kind="question",
    choices=(Choice("In memory", "gone after a restart"), Choice("In a file of the project's own folder")),
)


def test_question(snap_compare: Compare) -> None:
    script: Script = [StepStarted(1), TextDelta(0, "One thing first."), reply("", QUESTION.call), QUESTION]
    app = _app([*script, UntilAnswered("c1")])
    assert snap_compare(app, run_before=_when(lambda app: app.parts.approval.request is not None))
    assert [option.label for option in app.parts.approval.options] == [
        "In memory",
        "In a file of the project's own folder",
        "Something else: write an answer",
    ]


def test_question_in_forty_columns(snap_compare: Compare) -> None:
    app = _app([StepStarted(1), reply("", QUESTION.call), QUESTION, UntilAnswered("c1")])
    asked = _when(lambda app: app.parts.approval.request is not None)
    assert snap_compare(app, run_before=asked, terminal_size=(40, 20))
    assert app.parts.approval.request == QUESTION


def test_tool_finished(snap_compare: Compare) -> None:
    edit, shell = call("edit", '{"path": "app.py"}', "c1"), call("shell", '{"command": "python app.py"}', "c2")
    script: Script = [
        StepStarted(1),
        TextDelta(0, "I change one line and run it."),
        reply("", edit, shell, stop=StopReason.TOOL_USE),
        ToolStarted(edit),
        ToolFinished(edit, ToolOutcome("edited", summary="1 line changed", diff=DIFF), "done"),
        ToolStarted(shell),
        ToolOutput("c2", "new\n"),
        ToolFinished(shell, ToolOutcome("new\n", summary="exit 0"), "done"),
        StepStarted(2),
        TextDelta(0, "Done."),
        reply("Done."),
        USAGE,
        ended(),
    ]
    app = _app(script)
    assert snap_compare(app, run_before=_when(_is_over))
    assert "Done." in _shown(app)


def test_continued(snap_compare: Compare) -> None:
    gate = Gate()
    script: Script = [StepStarted(1), TextDelta(0, "The first half of a long"), Retry(True, "max_tokens", 1, 64_000)]
    app = _app([*script, TextDelta(0, " sentence goes on here."), gate])
    assert snap_compare(app, run_before=_at(gate))
    assert "continued 1/3" in _shown(app)


def test_escalated(snap_compare: Compare) -> None:
    gate = Gate()
    script: Script = [
        StepStarted(1),
        TextDelta(0, "An answer that is\n\nlong and\n\nwas cut in the mid"),
        Retry(False, "max_tokens", 1, 64_000),
    ]
    app = _app([*script, OutputEscalated(8_000, 64_000), TextDelta(0, "A new answer"), gate])
    assert snap_compare(app, run_before=_at(gate))
    assert "A new answer" in _shown(app)


def test_error(snap_compare: Compare) -> None:
    message = "No key for anthropic. Set ANTHROPIC_API_KEY."
    app = _app([StepStarted(1), ended(Outcome.ERROR, error=message, usage=Usage())])
    assert snap_compare(app, run_before=_when(_is_over))
    assert "No key for anthropic." in _shown(app)


def test_light_theme(snap_compare: Compare) -> None:
    gate = Gate()
    app = _app([StepStarted(1), TextDelta(0, TEXT), USAGE, gate], theme="light")
    assert snap_compare(app, run_before=_at(gate))
    assert app.theme == "light"


def test_forty_columns(snap_compare: Compare) -> None:
    gate = Gate()
    app = _app([StepStarted(1), TextDelta(0, TEXT), USAGE, gate])
    assert snap_compare(app, run_before=_at(gate), terminal_size=(40, 20))
    assert "Plan" in _shown(app)


def test_slash_menu(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation())
    assert snap_compare(app, press=["slash", "m"], run_before=_when(lambda _: True))
    assert [choice.text for choice in app.parts.menu.choices] == ["/model ", "/mode "]


def test_keys(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation())
    assert snap_compare(app, press=["f1"], run_before=_when(lambda _: True), terminal_size=(100, 36))
    assert app.parts.help.heading == "Keys"


def _connect_step(step: str) -> Callable[[Pilot[int]], Awaitable[None]]:
    return _when(lambda app: isinstance(app.screen, ConnectScreen) and app.screen.step == step)


def test_first_start(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation(), connect=ScriptedConnecting(is_first=True, wants_theme=True))
    seen: list[str] = []

    async def look(pilot: Pilot[int]) -> None:
        await _connect_step("provider")(pilot)
        seen.extend(row.name for row in app.screen.query_one(Picker).shown)

    assert snap_compare(app, run_before=look)
    assert seen == [choice.name for choice in CHOICES]


def test_key_refused(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation(), connect=ScriptedConnecting(is_first=True), theme="light")
    seen: list[str] = []

    async def paste(pilot: Pilot[int]) -> None:
        await _connect_step("provider")(pilot)
        await pilot.press("enter")
        await _connect_step("key")(pilot)
        app.screen.query_one(KeyField).value = "bad-key"
        await pilot.press("enter")
        await _when(lambda app: isinstance(app.screen, ConnectScreen) and "refused" in app.screen.note)(pilot)
        assert isinstance(app.screen, ConnectScreen)
        seen.append(app.screen.note)

    assert snap_compare(app, run_before=paste, terminal_size=(40, 20))
    assert seen == ["anthropic refused the key: [not] valid"]
