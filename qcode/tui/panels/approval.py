"""The panel for what the user must answer before a call runs, with the exact command, diff or question.

It decides and remembers nothing: it posts one `ApprovalDecided`. `form_of` says how each kind of approval is put. Keys
typed in the first 300 ms, and every key of a burst that began then, are ignored: they were meant for something else. A
preview shows every character of a call, also invisible ones. `MarkdownText` shows Markdown in a `Static` as the
transcript does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widget import Widget
from textual.widgets import Input, Static

from qcode.protocol.approvals import (
    AcceptPlan,
    Allow,
    Answer,
    Approval,
    Decision,
    Deny,
    PlanApproval,
    Question,
    RepeatedCall,
    ServerApproval,
    ToolApproval,
)
from qcode.text.clean import LINE_BREAK, cut, ensure_visible, visible
from qcode.text.diff import HUNK_HEADER, diff_lines
from qcode.text.numbers import count_text
from qcode.tui.messages import ApprovalDecided
from qcode.tui.transcript.diff import DiffRow, parse_diff
from qcode.tui.transcript.line import Line, shown
from qcode.tui.transcript.markdown import MarkdownStream
from qcode.tui.transcript.palette import Palette
from qcode.tui.widgets import Field
from qcode.values import dataclass

GUARD_SECONDS = 0.3
_MAX_QUESTION = 400

AGAIN = "the same call gave the same result several times; change the approach"


@dataclass(frozen=True, slots=True)
class Option:
    """One row: the keys that choose it, and the decision that it stands for; None: what the user then writes."""

    label: str
    number: str
    letter: str = ""
    decision: Decision | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """How an approval is put: what can be chosen, and the decision that a written text stands for.

    `format` is that of the detail: a `call` (a command or a unified diff), or `text` or `markdown` of the model.
    """

    options: tuple[Option, ...]
    format: Literal["call", "text", "markdown"] = "call"
    written: type[Deny | Answer] = Deny
    hint: str = "What should the model do instead? Enter send · Esc back"


# A kind keeps its number also if "always" is not offered: fingers remember numbers.
_TELL = Option("No, and tell it what to do", "4", "t")
_REPEAT_OPTIONS = (
    Option("Yes, run it again", "1", "y", Allow()),
    Option("No, change the approach", "3", "n", Deny(AGAIN)),
    _TELL,
)
_PLAN_OPTIONS = (
    Option("Yes, and accept edits", "1", "y", AcceptPlan("accept-edits"), "edits in this folder run without asking"),
    Option("Yes, and ask before each change", "2", "a", AcceptPlan()),
    Option("No, keep planning", "3", "n", Deny()),
    Option("No, and say what to change in the plan", "4", "t"),
)
_SERVER_OPTIONS = (
    Option("Yes, from now on", "1", "y", Allow()),
    Option("No, not in this session", "3", "n", Deny()),
)


def form_of(approval: Approval) -> Form:
    """Return how the app and the linear mode put an approval to the user."""
    match approval:
        case ToolApproval():
            return Form(_tool_options(approval))
        case RepeatedCall():
            return Form(_REPEAT_OPTIONS)
        case Question():
            hint = "Your answer. Enter send · Esc back"
            return Form(_answers_to(approval), "text", Answer, hint)
        case PlanApproval():
            hint = "What should change in the plan? Enter send · Esc back"
            return Form(_PLAN_OPTIONS, "markdown", hint=hint)
        case ServerApproval():
            return Form(_SERVER_OPTIONS)


def asked_by(approval: Approval) -> str:
    """Return the question on one line, with who asks it if that is not the conversation itself."""
    match approval:
        case ToolApproval(agent=agent) | RepeatedCall(agent=agent) if agent:
            return f"Sub-agent “{cut(visible(agent), 100)}” asks: {question_line(approval)}"
        case Question():
            return f"The model asks: {question_line(approval)}"
        case _:
            return question_line(approval)


def question_line(approval: Approval) -> str:
    """Return the question on one line, short enough to leave room for the choices; the preview has it all."""
    return cut(" ".join(ensure_visible(approval.question).split("\n")), _MAX_QUESTION)


def _tool_options(approval: ToolApproval) -> tuple[Option, ...]:
    session = Option(f"Yes, always this session: {visible(approval.rule)}", "2", "a", Allow("session"))
    folder = Option("Yes, always in this folder", "5", "f", Allow("folder"))
    return (
        Option("Yes, once", "1", "y", Allow()),
        *((session,) if approval.rule else ()),
        Option("No", "3", "n", Deny()),
        _TELL,
        *((folder,) if approval.rule and approval.is_keepable else ()),
    )


def _answers_to(question: Question) -> tuple[Option, ...]:
    choices = tuple(
        Option(visible(choice.label), str(number), decision=Answer(choice.label), detail=choice.detail)
        for number, choice in enumerate(question.choices, start=1)
    )
    own = "Other: write an answer" if choices else "Write an answer"
    return (*choices, Option(own, str(len(choices) + 1), "t"))


class ApprovalPanel(Vertical, can_focus=True):
    """Shows one approval at a time; hidden when there is none. Focus is the app's to give and take."""

    def __init__(self, clock: Callable[[], float], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._waiting: list[Approval] = []
        self._form = Form(())
        self._index = 0
        self._quiet_until = 0.0
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static(id="approval-question", markup=False)
        with VerticalScroll(id="approval-preview", can_focus=False):
            yield Static(id="approval-text", markup=False)
        yield Static(id="approval-more", markup=False)
        yield Static(id="approval-options", markup=False)
        yield Field(placeholder=self._form.hint, id="approval-reason", compact=True)

    @property
    def request(self) -> Approval | None:
        """The approval that is shown."""
        return self._waiting[0] if self._waiting else None

    @property
    def open_ids(self) -> tuple[str, ...]:
        """The ids of all approvals that wait for a decision."""
        return tuple(approval.id for approval in self._waiting)

    @property
    def is_telling(self) -> bool:
        """Whether the user is writing what to do instead."""
        return self._reason.display and self.request is not None

    @property
    def options(self) -> tuple[Option, ...]:
        """The options of the approval that is shown, in order."""
        return self._form.options

    @property
    def chosen(self) -> Option:
        return self.options[self._index]

    def ask(self, approval: Approval) -> None:
        """Show `approval`, or keep it until those before it are decided."""
        self._waiting.append(approval)
        if len(self._waiting) == 1:
            self._open()

    def withdraw(self, approval_id: str) -> bool:
        """Forget an approval that was settled elsewhere; return whether it was the one shown."""
        was_shown = self.request is not None and self.request.id == approval_id
        self._waiting = [approval for approval in self._waiting if approval.id != approval_id]
        if was_shown:
            self._open()
        return was_shown

    def withdraw_all(self) -> tuple[str, ...]:
        """Forget every approval of a turn and return their ids; those of tool servers stay."""
        ids = tuple(approval.id for approval in self._waiting if not isinstance(approval, ServerApproval))
        self._waiting = [approval for approval in self._waiting if isinstance(approval, ServerApproval)]
        self._open()
        return ids

    def leave_telling(self) -> bool:
        """Go back from the text to the choices; return whether there was something to leave."""
        if not self.is_telling:
            return False
        self._show_choices()
        return True

    def on_key(self, event: events.Key) -> None:
        if self.is_telling or self.request is None or event.key in ("tab", "shift+tab"):
            return
        event.stop()
        event.prevent_default()
        if self._is_guarded():
            return
        option = next((one for one in self.options if event.key in (one.number, one.letter)), None)
        if event.key in ("up", "down"):
            self._move(-1 if event.key == "up" else 1)
        elif event.key in ("shift+up", "shift+down"):
            self._preview.scroll_relative(y=-1 if event.key == "shift+up" else 1, animate=False, force=True)
        elif event.key == "enter":
            self._choose(self.chosen)
        elif option is not None:
            self._choose(option)
        else:
            # The user is typing and takes this for the prompt: the rest of the words must not decide.
            self._quiet_until = self._clock() + GUARD_SECONDS

    @on(Input.Submitted)
    def _take_text(self, event: Input.Submitted) -> None:
        event.stop()
        written = event.value.strip()
        if written or self._form.written is Deny:
            self._decide(self._form.written(written))

    def _open(self) -> None:
        approval = self.request
        self.display = approval is not None
        if approval is None:
            return
        self._form = form_of(approval)
        self._index = 0
        self._quiet_until = self._clock() + GUARD_SECONDS
        self.query_one("#approval-question", Static).update(Content(asked_by(approval)))
        self._show_detail(approval.detail)
        self._reason.placeholder = self._form.hint
        self._preview.display = bool(approval.detail.strip())
        self._preview.scroll_home(animate=False)
        self._show_choices()
        self.call_after_refresh(self._show_extent)

    def _show_detail(self, detail: str) -> None:
        text = self.query_one("#approval-text", Static)
        match self._form.format:
            case "markdown":
                text.update(MarkdownText(ensure_visible(detail), text))
            case "text":
                text.update(Content(ensure_visible(detail)))
            case "call":
                text.update(preview_content(detail))

    def _is_guarded(self) -> bool:
        """Whether a key comes too early to be meant; each one that does pushes the moment on."""
        now = self._clock()
        if now >= self._quiet_until:
            return False
        self._quiet_until = now + GUARD_SECONDS
        return True

    def _move(self, step: int) -> None:
        self._index = (self._index + step) % len(self.options)
        self._paint_options()

    def _choose(self, option: Option) -> None:
        if option.decision is not None:
            self._decide(option.decision)
            return
        self._index = self.options.index(option)
        self._paint_options()
        self._reason.value = ""
        self._reason.display = True
        self._reason.focus()

    def _decide(self, decision: Decision) -> None:
        if not self._waiting:
            return
        approval = self._waiting.pop(0)
        self.post_message(ApprovalDecided(approval.id, decision))
        self._open()

    def _show_choices(self) -> None:
        self._reason.display = False
        self._paint_options()
        self.focus()

    def _paint_options(self) -> None:
        rows = [
            Content.assemble(
                ("› " if place == self._index else "  ", "$text-accent"),
                (f"{option.number} {option.label}", "bold $text-accent" if place == self._index else ""),
                (f" ({option.letter})" if option.letter else "", "$muted"),
                (f"  {visible(option.detail)}" if option.detail else "", "$muted"),
            )
            for place, option in enumerate(self.options)
        ]
        self.query_one("#approval-options", Static).update(Content("\n").join(rows))

    def _show_extent(self) -> None:
        """Say how much of a long preview is out of view, and how to see it."""
        hidden = self._preview.max_scroll_y
        more = self.query_one("#approval-more", Static)
        more.display = hidden > 0 and self._preview.display
        words = f"… {count_text(int(hidden), 'more line')} (Shift+Down)"
        more.update(Content.styled(words, "$muted"))

    @property
    def _preview(self) -> VerticalScroll:
        return self.query_one("#approval-preview", VerticalScroll)

    @property
    def _reason(self) -> Input:
        return self.query_one("#approval-reason", Input)


_DIFF_STARTS = ("--- ", "diff ", "@@ ", "rename from ")
_DIFF_STYLES = {"outside": "bold", "hunk": "$text-primary", "note": "$muted"}
_DIFF_COLORS = {"+": "success", "-": "error"}


def preview_content(preview: str) -> Content:
    """Return the command or unified diff, which was made visible by who asks. Nothing is left out."""
    text = ensure_visible(preview)
    first, _, rest = text.partition("\n")
    # Each line break of a command has a mark, so that none looks like a diff.
    if first.startswith(_DIFF_STARTS) and not first.endswith(LINE_BREAK) and HUNK_HEADER.search(rest):
        return Content("\n").join(_diff_lines(text.removesuffix("\n")))
    return Content("\n").join(_command_lines(text))


def _command_lines(text: str) -> Iterator[Content]:
    """Mute the marks of line breaks: a line that was wrapped by the screen has none."""
    for line in text.split("\n"):
        if line.endswith(LINE_BREAK):
            yield Content.assemble(line[:-1], (LINE_BREAK, "$muted"))
        else:
            yield Content(line)


def _diff_lines(text: str) -> Iterator[Content]:
    """Add line numbers and mark the words that changed."""
    changed = iter([row for row in parse_diff(text) if row.kind in ("add", "remove")])
    lines = list(diff_lines(text.split("\n")))
    width = len(str(max(line.number for line in lines)))
    for line in lines:
        if line.kind in _DIFF_STYLES:
            yield Content.styled(line.text, _DIFF_STYLES[line.kind])
            continue
        row = None if line.kind == "same" else next(changed, None)
        yield Content.assemble((f"{line.number:>{width}} ", "$muted"), _changed_line(line.text, row))


def _changed_line(line: str, row: DiffRow | None) -> Content:
    color = _DIFF_COLORS.get(line[:1])
    if color is None:
        return Content(line)
    content = Content.styled(line, f"$text-{color}")
    if row is not None and row.text == line[1:]:
        for start, end in row.changed:
            content = content.stylize("reverse", start + 1, end + 1)
    return content


_MAX_MARKDOWN_CELLS = 100


class MarkdownText(Visual):
    """`text` may be foreign; `widget` is the one that shows it, whose colours it takes."""

    def __init__(self, text: str, widget: Widget) -> None:
        self._text = text
        self._widget = widget
        self._laid_out: tuple[int, list[Line]] = (0, [])

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        palette = Palette(self._widget)
        strips = []
        for line in self._rows(width)[:height]:
            segments = [Segment(shown(text), palette.style(paint)) for text, paint in line.spans]
            segments.append(Segment(" " * max(0, width - line.width), palette.style(line.fill)))
            strips.append(Strip(segments).adjust_cell_length(width, palette.base))
        return strips

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return min(container_width, _MAX_MARKDOWN_CELLS)

    def get_height(self, rules: RulesMap, width: int) -> int:
        return len(self._rows(width))

    def _rows(self, width: int) -> list[Line]:
        if self._laid_out[0] != width:
            stream = MarkdownStream(max(1, width))
            stream.feed(self._text)
            stream.finish()
            self._laid_out = width, stream.lines
        return self._laid_out[1]
