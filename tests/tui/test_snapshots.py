"""Snapshots of the app with their readable text. Everything that could differ between runs is fixed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import pytest
from textual.pilot import Pilot

from qcode.agent.context.file_index import FileIndex, FileMatches
from qcode.agent.context.pictures import Picture
from qcode.engine.reply.state import describe_cut, describe_thinking_only
from qcode.protocol.approvals import Choice, Question, ToolApproval
from qcode.protocol.events import (
    ApiCalls,
    ApprovalRequested,
    AttemptRecord,
    OutputEscalated,
    PartialRestored,
    Retry,
    StepStarted,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    UsageUpdated,
)
from qcode.protocol.messages import Image
from qcode.protocol.reply import Outcome, ReasoningDelta, StopReason, TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.text.match import FuzzySearch, PathIndex
from qcode.tui.app import QcodeApp
from qcode.tui.panels.draft import GUARD_SECONDS
from qcode.tui.panels.question_view import QuestionView
from qcode.tui.screens.connect import ConnectScreen, KeyField
from qcode.tui.screens.palette import ThemePicker
from qcode.tui.screens.picker import Finder
from tests.tui.harness import make_app, until_ready
from tests.tui.scripted import FixedClock, Gate, Script, ScriptedConversation, UntilAnswered, call, ended, reply, said
from tests.tui.scripted_keys import CHOICES, ScriptedKeysService

Compare: TypeAlias = Callable[..., bool]

TEXT = "## Plan\n\nTwo steps:\n\n1. read `qcode/tui`\n2. **fix** it\n\n```python\ndef fix() -> None:\n    pass\n```\n"
DIFF = "--- a/app.py\n+++ b/app.py\n@@ -1,3 +1,3 @@\n import sys\n-print('old')\n+print('new')\n sys.exit(0)\n"
USAGE = UsageUpdated(Usage(12_000, 900), None, 12_900, 200_000)


def _app(script: Script, **changes: Any) -> QcodeApp:
    return make_app(ScriptedConversation(script), prompt="please fix the app", **changes)


def _when(holds: Callable[[QcodeApp], bool]) -> Callable[[Pilot[int]], Awaitable[None]]:
    """Return a function that waits until `holds` and everything is painted."""

    async def wait(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, QcodeApp)
        await until_ready(app, pilot)
        while not holds(app):
            await pilot.pause()
        await pilot.pause()
        app.widgets.transcript.flush()
        await pilot.pause()

    return wait


def _at(gate: Gate) -> Callable[[Pilot[int]], Awaitable[None]]:
    return _when(lambda _: gate.reached.is_set())


def _is_over(app: QcodeApp) -> bool:
    return bool(app.agent.conversation.prompts) and not app.turns.is_running  # type: ignore[attr-defined]  # a scripted one


def _shown(app: QcodeApp) -> str:
    return app.widgets.transcript.plain_text()


def test_empty_app_looks_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation())
    assert snap_compare(app, run_before=_when(lambda _: True))
    assert "qcode 0.1.0" in _shown(app)
    assert "Set ANTHROPIC_API_KEY" in _shown(app)


def test_streaming_reply_looks_as_recorded(snap_compare: Compare) -> None:
    gate = Gate()
    app = _app([StepStarted(1), TextDelta(0, TEXT), USAGE, gate])
    assert snap_compare(app, run_before=_at(gate))
    assert "Plan" in _shown(app)


def test_approval_looks_as_recorded(snap_compare: Compare) -> None:
    edit = call("edit", '{"path": "app.py"}')
    approval = ToolApproval(edit, "Edit app.py?", DIFF, "edit(app.py)", kind="edit", offers=("edits",))
    script: Script = [StepStarted(1), TextDelta(0, "I change one line."), reply("", edit), ApprovalRequested(approval)]
    app = _app([*script, UntilAnswered("c1")])
    assert snap_compare(app, run_before=_when(lambda app: app.widgets.approval.shown_approval is not None))
    assert app.widgets.approval.shown_approval == approval


QUESTION = Question(
    call("ask_person", '{"question": "Where should the cache live?"}'),
    "Where should the cache live?",
    "Both work; the first is faster.",
    choices=(Choice("In memory", "gone after a restart"), Choice("In a file of the project's own folder")),
)


def test_question_looks_as_recorded(snap_compare: Compare) -> None:
    script: Script = [
        StepStarted(1),
        TextDelta(0, "One thing first."),
        reply("", QUESTION.call),
        ApprovalRequested(QUESTION),
    ]
    app = _app([*script, UntilAnswered("c1")])
    assert snap_compare(app, run_before=_when(lambda app: app.widgets.approval.shown_approval is not None))
    assert [option.label for option in app.widgets.approval.options] == [
        "In memory",
        "In a file of the project's own folder",
        "Other: write an answer",
    ]


def test_question_in_forty_columns_looks_as_recorded(snap_compare: Compare) -> None:
    app = _app([StepStarted(1), reply("", QUESTION.call), ApprovalRequested(QUESTION), UntilAnswered("c1")])
    asked = _when(lambda app: app.widgets.approval.shown_approval is not None)
    assert snap_compare(app, run_before=asked, terminal_size=(40, 20))
    assert app.widgets.approval.shown_approval == QUESTION


def test_finished_tool_looks_as_recorded(snap_compare: Compare) -> None:
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


LOOKS = [
    pytest.param({}, (80, 24), id="dark"),
    pytest.param({"theme": "light"}, (80, 24), id="light", marks=pytest.mark.broad),
    pytest.param({}, (40, 24), id="narrow"),
]
ATTEMPTS = [
    AttemptRecord("first", 8_000, "max_tokens", Usage()),
    *(AttemptRecord("continuation", 64_000, "max_tokens", Usage()) for _ in range(4)),
]
CUT = describe_cut(ATTEMPTS, "", can_raise_cap=True)


SEVERAL = Question(
    call("ask_person", '{"question": "Which checks should run?", "multi_select": true}'),
    "Which checks should run?",
    "They run before each commit.",
    choices=(
        Choice("Lint", "a few seconds"),
        Choice("Types and the import rules", "half a minute, for every package of the project"),
        Choice("Tests"),
    ),
    is_multi_select=True,
)


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_question_with_several_answers_looks_as_recorded(
    snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    asked: Script = [StepStarted(1), reply("", SEVERAL.call), ApprovalRequested(SEVERAL), UntilAnswered("c1")]
    clock = FixedClock()
    app = make_app(ScriptedConversation(asked), clock, prompt="please fix the app", **changes)

    async def check_two(pilot: Pilot[int]) -> None:
        await _when(lambda app: app.widgets.approval.shown_approval is not None)(pilot)
        panel = app.widgets.approval
        clock.now += GUARD_SECONDS
        panel.post_message(QuestionView.Chosen(0))
        panel.post_message(QuestionView.Chosen(1))
        await pilot.pause()

    assert snap_compare(app, run_before=check_two, terminal_size=size)
    assert [option.is_checked for option in app.widgets.approval.options] == [True, True, False, False, None]


def _words(app: QcodeApp) -> str:
    return " ".join(_shown(app).replace("│", " ").split())


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_continued_reply_looks_as_recorded(
    snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    gate = Gate()
    script: Script = [StepStarted(1), TextDelta(0, "The first half of a long"), Retry(True, "max_tokens", 1, 64_000)]
    app = _app([*script, TextDelta(0, " sentence continues here."), gate], **changes)
    assert snap_compare(app, run_before=_at(gate), terminal_size=size)
    assert "continued 1/3" in _shown(app)
    activity = app.widgets.status.status.activity
    assert activity is not None
    assert activity.text.startswith("continued 1/3: ")


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_escalated_reply_looks_as_recorded(
    snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    gate = Gate()
    old = "An answer that is\n\nlong and\n\nhas some lines\n\nand was cut in the mid"
    script: Script = [StepStarted(1), TextDelta(0, old), Retry(False, "max_tokens", 1, 64_000)]
    app = _app([*script, OutputEscalated(8_000, 64_000), TextDelta(0, "A new answer"), gate], **changes)
    assert snap_compare(app, run_before=_at(gate), terminal_size=size)
    assert "A new answer" in _shown(app)
    assert "truncated at 8,000 tokens" in _shown(app)
    assert "and was cut in the mid" in _shown(app)


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_reply_that_stays_truncated_looks_as_recorded(
    snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    script: Script = [StepStarted(1), TextDelta(0, "Part one")]
    for number in (1, 2, 3):
        script = [*script, Retry(True, "max_tokens", number, 64_000), TextDelta(0, f", part {number + 1}")]
    calls = ApiCalls(initial=1, escalations=1, continuations=3)
    over = ended(Outcome.MAX_TOKENS, api_calls=calls, discarded=8_000)
    app = _app([*script, reply("all", stop=StopReason.MAX_TOKENS, note=CUT), over], **changes)
    assert snap_compare(app, run_before=_when(_is_over), terminal_size=size)
    assert CUT in _words(app)
    assert "continued 3/3" in _shown(app)
    assert "5 API calls for 1 reply; 8,000 output tokens were discarded." in _words(app)


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_reply_without_text_looks_as_recorded(
    snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    note = describe_thinking_only(ATTEMPTS[:2], 43_210, can_raise_cap=True)
    script: Script = [StepStarted(1), ReasoningDelta(0, "hm, " * 30), Retry(False, "thinking", 1, 64_000)]
    script = [*script, ReasoningDelta(0, "hm, " * 20), reply("", stop=StopReason.MAX_TOKENS, note=note)]
    app = _app([*script, ended(Outcome.MAX_TOKENS)], **changes)
    assert snap_compare(app, run_before=_when(_is_over), terminal_size=size)
    assert note in _words(app)


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_restored_partial_reply_looks_as_recorded(
    snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    first = "The first answer, cut in the mid"
    script: Script = [StepStarted(1), TextDelta(0, first), Retry(False, "max_tokens", 1, 64_000)]
    script = [*script, OutputEscalated(8_000, 64_000), TextDelta(0, "A new"), PartialRestored(first, "")]
    note = describe_cut(ATTEMPTS[:2], "error")
    app = _app([*script, reply(first, stop=StopReason.MAX_TOKENS, note=note), ended(Outcome.MAX_TOKENS)], **changes)
    assert snap_compare(app, run_before=_when(_is_over), terminal_size=size)
    assert first in _words(app)
    assert "A new" not in _shown(app)


def test_error_looks_as_recorded(snap_compare: Compare) -> None:
    message = "No key for anthropic. Set ANTHROPIC_API_KEY."
    app = _app([StepStarted(1), ended(Outcome.ERROR, error=message, usage=Usage())])
    assert snap_compare(app, run_before=_when(_is_over))
    assert "No key for anthropic." in _shown(app)


def test_light_theme_looks_as_recorded(snap_compare: Compare) -> None:
    gate = Gate()
    app = _app([StepStarted(1), TextDelta(0, TEXT), USAGE, gate], theme="light")
    assert snap_compare(app, run_before=_at(gate))
    assert app.theme == "light"


def test_app_in_forty_columns_looks_as_recorded(snap_compare: Compare) -> None:
    gate = Gate()
    app = _app([StepStarted(1), TextDelta(0, TEXT), USAGE, gate])
    assert snap_compare(app, run_before=_at(gate), terminal_size=(40, 20))
    assert "Plan" in _shown(app)


@pytest.mark.parametrize(("theme", "size"), [("dark", (80, 24)), ("light", (120, 40))])
def test_slash_menu_of_all_commands_looks_as_recorded(snap_compare: Compare, theme: str, size: tuple[int, int]) -> None:
    app = make_app(ScriptedConversation(), theme=theme)
    assert snap_compare(app, press=["slash"], run_before=_when(lambda _: True), terminal_size=size)
    assert app.widgets.menu.choices[0].label == "/help"


def test_slash_menu_looks_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation())
    assert snap_compare(app, press=["slash", "m"], run_before=_when(lambda _: True))
    assert [choice.text for choice in app.widgets.menu.choices] == ["/model ", "/mode ", "/memory ", "/mcp "]


class _Files(FileIndex):
    """Real ranking over a fixed list."""

    def __init__(self) -> None:
        """List no folder."""

    def find(self, query: str, recent: Sequence[str] = (), limit: int = 50) -> FileMatches:
        paths = ("src/main.py", "src/deep/test_main.py", "docs/a page with a long name about the main thing.md")
        return FileMatches(FuzzySearch(PathIndex.of(paths)).find(query, recent, limit))

    def refresh(self, changed: Callable[[], None]) -> None:
        return None


def test_file_menu_looks_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation(), files=_Files())
    assert snap_compare(app, press=["a", "space", "@", "m", "a", "i"], run_before=_when(lambda _: True))
    assert app.widgets.menu.choices[0].text == "@src/main.py"


def test_file_menu_in_forty_columns_looks_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation(), files=_Files(), theme="light")
    press = ["@", "m", "a", "i", "n"]
    assert snap_compare(app, press=press, run_before=_when(lambda _: True), terminal_size=(40, 20))
    assert len(app.widgets.menu.choices) == 3


async def _shell(line: str, output: Callable[[str], None]) -> ToolOutcome:
    output("a.py\nb.py\n")
    return ToolOutcome("a.py\nb.py", summary="exit 0")


def _ready_to_send(theme: str) -> tuple[QcodeApp, Callable[[Pilot[int]], Awaitable[None]]]:
    """Return an app after a shell line, with an image and a folded paste in its prompt."""
    picture = Picture(Image("image/png", ""), "shot.png", (1200, 800), "/shot.png")
    app = make_app(ScriptedConversation(), run_user_command=_shell, read_picture=lambda path: picture, theme=theme)

    async def write(pilot: Pilot[int]) -> None:
        await until_ready(app, pilot)
        app.widgets.prompt.insert("!ls")
        await pilot.press("enter")
        while "exit 0" not in _shown(app):
            await pilot.pause()
        app.widgets.prompt.paste_text("/shot.png")
        app.widgets.prompt.paste_text("row\n" * 120)
        await _when(lambda _: True)(pilot)

    return app, write


def test_shell_line_image_and_paste_looks_as_recorded(snap_compare: Compare) -> None:
    app, write = _ready_to_send("dark")
    assert snap_compare(app, run_before=write)
    assert app.widgets.prompt.text == "[Image #1 shot.png 1200x800] [Pasted text #1 +120 lines]"


def test_shell_line_image_and_paste_in_forty_columns_looks_as_recorded(snap_compare: Compare) -> None:
    app, write = _ready_to_send("light")
    assert snap_compare(app, run_before=write, terminal_size=(40, 20))
    assert "! ls" in _shown(app)


def test_history_search_looks_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation())
    for text in ("fix the parser", "run the tests", "fix the docs"):
        app.widgets.prompt.prompt_history.add(text)
    assert snap_compare(app, press=["ctrl+r", "f", "i", "x"], run_before=_when(lambda _: True))
    assert app.widgets.prompt.text == "fix the docs"


def test_shell_mode_looks_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation())
    press = ["exclamation_mark", "l", "s"]
    assert snap_compare(app, press=press, run_before=_when(lambda _: True), terminal_size=(40, 20))
    assert app.widgets.prompt.text == "!ls"


def test_keys_look_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation())
    assert snap_compare(app, press=["f1"], run_before=_when(lambda _: True), terminal_size=(100, 36))
    assert app.widgets.help.heading == "Keys"


def _connect_step(step: str) -> Callable[[Pilot[int]], Awaitable[None]]:
    return _when(lambda app: isinstance(app.screen, ConnectScreen) and app.screen.step == step)


def test_first_start_looks_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation(), connect=ScriptedKeysService(is_first=True, wants_theme=True))
    seen: list[str] = []

    async def look(pilot: Pilot[int]) -> None:
        await _connect_step("provider")(pilot)
        seen.extend(row.id for row in app.screen.query_one(Finder).rows)

    assert snap_compare(app, run_before=look)
    assert seen == [choice.name for choice in CHOICES]


def test_refused_key_looks_as_recorded(snap_compare: Compare) -> None:
    app = make_app(ScriptedConversation(), connect=ScriptedKeysService(is_first=True), theme="light")
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
    assert seen == ["Anthropic refused the key: [not] valid."]


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_theme_picker_looks_as_recorded(snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]) -> None:
    app = make_app(ScriptedConversation(), **changes)
    seen: list[ThemePicker] = []
    open_picker = _when(lambda app: isinstance(app.screen, ThemePicker))

    async def wait(pilot: Pilot[int]) -> None:
        await _when(lambda _: True)(pilot)
        app.action_command("theme")
        await open_picker(pilot)
        assert isinstance(app.screen, ThemePicker)
        seen.append(app.screen)

    assert snap_compare(app, run_before=wait, terminal_size=size)
    assert [row.id for row in seen[0].rows if row.is_current] == [app.theme]


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_search_looks_as_recorded(snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]) -> None:
    app = make_app(ScriptedConversation(messages=said(TEXT)), **changes)

    async def wait(pilot: Pilot[int]) -> None:
        await _when(lambda _: True)(pilot)
        await pilot.press("ctrl+f", *"fix")
        await _when(lambda app: app.widgets.search.position.count > 0)(pilot)

    assert snap_compare(app, run_before=wait, terminal_size=size)
    assert app.widgets.search.position.count == 2
