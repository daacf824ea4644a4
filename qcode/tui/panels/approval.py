"""The panel for what the user must answer before a call runs, with the exact command, diff or question.

It decides and remembers nothing: it posts one `ApprovalAnswered`. Keys typed in its first 300 ms, and every key of a
burst that began then, are ignored: they were meant for something else. A preview shows every character of a call, also
invisible ones. `MarkdownText` shows Markdown in a `Static` as the transcript does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual, VisualType
from textual.widget import Widget
from textual.widgets import Input, Static

from qcode.protocol.approvals import Answer, ApprovalMode
from qcode.protocol.events import ApprovalRequested
from qcode.text.clean import LINE_BREAK, cut, ensure_visible, visible
from qcode.text.diff import HUNK_HEADER
from qcode.text.numbers import count_text
from qcode.tui.messages import ApprovalAnswered
from qcode.tui.transcript.diff import Row, parse_diff
from qcode.tui.transcript.line import Line, shown
from qcode.tui.transcript.markdown import MarkdownStream
from qcode.tui.transcript.palette import Palette
from qcode.tui.widgets import Field
from qcode.values import dataclass

GUARD_SECONDS = 0.3
_MAX_QUESTION = 400

_REASON_HINT = "What should it do instead? Enter sends, Esc goes back"
_ANSWER_HINT = "Your answer. Enter sends, Esc goes back"
_PLAN_HINT = "What to change in the plan? Enter sends, Esc goes back"

Kind: TypeAlias = Literal["once", "always", "folder", "plan", "no", "tell", "choice"]
AGAIN = "it has brought the same result several times; change the approach"


@dataclass(frozen=True, slots=True)
class Option:
    """One row: the keys that choose it, what it means where that is to be said, the mode an approved plan brings."""

    kind: Kind
    label: str
    number: str
    letter: str = ""
    detail: str = ""
    mode: ApprovalMode | None = None

    @property
    def shown(self) -> str:
        """The label as it is painted; that of a choice is the answer itself, in the words of the model."""
        return visible(self.label) if self.kind == "choice" else self.label


_PLAN_OPTIONS = (
    Option("plan", "Yes, and accept edits", "1", "y", "edits in this folder run without asking", "accept-edits"),
    Option("plan", "Yes, and ask before each change", "2", "a", mode="default"),
    Option("no", "No, keep planning", "3", "n"),
    Option("tell", "No, and say what to change in the plan", "4", "t"),
)


def asked_by(request: ApprovalRequested) -> str:
    """Return the question on one line, with who asks it if that is not the conversation itself."""
    if request.agent:
        return f"The sub-agent “{cut(visible(request.agent), 100)}” asks: {question_line(request)}"
    return f"The model asks: {question_line(request)}" if request.kind == "question" else question_line(request)


def question_line(request: ApprovalRequested) -> str:
    """Return the question on one line, short enough to leave room for the choices; the preview has it all."""
    return cut(" ".join(ensure_visible(request.question).split("\n")), _MAX_QUESTION)


def options_for(request: ApprovalRequested) -> tuple[Option, ...]:
    """Return the choices in their order; "always" only where a rule was proposed."""
    if request.kind == "question":
        return _answers_to(request)
    if request.kind == "plan":
        return _PLAN_OPTIONS
    # A kind keeps its number also where "always" is not offered: fingers remember numbers.
    if request.kind == "server":
        return Option("once", "Yes, from now on", "1", "y"), Option("no", "No, not in this session", "3", "n")
    if request.kind == "repeat":
        yes, no = "Yes, run it again", "No, it should change its approach"
    else:
        yes, no = "Yes, once", "No"
    always = Option("always", f"Yes, always this session: {visible(request.rule)}", "2", "a")
    folder = Option("folder", "Yes, always in this folder, later sessions too", "5", "f")
    return (
        Option("once", yes, "1", "y"),
        *((always,) if request.rule else ()),
        Option("no", no, "3", "n"),
        Option("tell", "No, and tell it what to do", "4", "t"),
        *((folder,) if request.rule and request.is_keepable else ()),
    )


def answer_of(option: Option, request: ApprovalRequested | None) -> Answer:
    """Return what choosing an option answers, where nothing more is to be written."""
    match option.kind:
        case "choice":
            return Answer(is_allowed=True, text=option.label)
        case "plan":
            return Answer(is_allowed=True, mode=option.mode)
        case "always" | "folder":
            return Answer(is_allowed=True, scope=option.kind)
        case "once":
            return Answer(is_allowed=True)
        case "no" | "tell":
            is_repeat = request is not None and request.kind == "repeat"
            return Answer(is_allowed=False, reason=AGAIN if is_repeat else "")


def _answers_to(request: ApprovalRequested) -> tuple[Option, ...]:
    choices = tuple(
        Option("choice", choice.label, str(number), detail=choice.detail)
        for number, choice in enumerate(request.choices, start=1)
    )
    own = "Something else: write an answer" if choices else "Write an answer"
    return (*choices, Option("tell", own, str(len(choices) + 1), "t"))


class ApprovalPanel(Vertical, can_focus=True):
    """Shows one request at a time; hidden when there is none. Focus is the app's to give and take."""

    def __init__(self, clock: Callable[[], float], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._waiting: list[ApprovalRequested] = []
        self._options: tuple[Option, ...] = ()
        self._index = 0
        self._quiet_until = 0.0
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static(id="approval-question", markup=False)
        with VerticalScroll(id="approval-preview", can_focus=False):
            yield Static(id="approval-text", markup=False)
        yield Static(id="approval-more", markup=False)
        yield Static(id="approval-options", markup=False)
        yield Field(placeholder=_REASON_HINT, id="approval-reason", compact=True)

    @property
    def request(self) -> ApprovalRequested | None:
        """The request that is shown."""
        return self._waiting[0] if self._waiting else None

    @property
    def open_ids(self) -> tuple[str, ...]:
        """The ids of all requests that wait for an answer."""
        return tuple(request.call.call_id for request in self._waiting)

    @property
    def is_telling(self) -> bool:
        """Whether the person is writing what to do instead."""
        return self._reason.display and self.request is not None

    @property
    def options(self) -> tuple[Option, ...]:
        """What can be chosen now, in order."""
        return self._options

    @property
    def chosen(self) -> Option:
        return self._options[self._index]

    def ask(self, request: ApprovalRequested) -> None:
        """Show `request`, or keep it until those before it are answered."""
        self._waiting.append(request)
        if len(self._waiting) == 1:
            self._open()

    def withdraw(self, call_id: str) -> bool:
        """Forget a request that was settled elsewhere; return whether it was the one shown."""
        was_shown = self.request is not None and self.request.call.call_id == call_id
        self._waiting = [request for request in self._waiting if request.call.call_id != call_id]
        if was_shown:
            self._open()
        return was_shown

    def withdraw_all(self) -> tuple[str, ...]:
        """Forget every request of a turn and return their ids; what is asked beside the turns stays."""
        ids = tuple(request.call.call_id for request in self._waiting if request.kind != "server")
        self._waiting = [request for request in self._waiting if request.kind == "server"]
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
        option = next((one for one in self._options if event.key in (one.number, one.letter)), None)
        if event.key in ("up", "down"):
            self._move(-1 if event.key == "up" else 1)
        elif event.key in ("shift+up", "shift+down"):
            self._preview.scroll_relative(y=-1 if event.key == "shift+up" else 1, animate=False, force=True)
        elif event.key == "enter":
            self._choose(self.chosen)
        elif option is not None:
            self._choose(option)
        else:
            # Somebody is typing, and takes this for the prompt: the rest of the words must not answer.
            self._quiet_until = self._clock() + GUARD_SECONDS

    @on(Input.Submitted)
    def _take_text(self, event: Input.Submitted) -> None:
        event.stop()
        written = event.value.strip()
        if self.request is None or self.request.kind != "question":
            self._answer(Answer(is_allowed=False, reason=written))
        elif written:
            self._answer(Answer(is_allowed=True, text=written))

    def _open(self) -> None:
        request = self.request
        self.display = request is not None
        if request is None:
            return
        self._options = options_for(request)
        self._index = 0
        self._quiet_until = self._clock() + GUARD_SECONDS
        self.query_one("#approval-question", Static).update(Content(asked_by(request)))
        self._show_preview(request)
        hints = {"question": _ANSWER_HINT, "plan": _PLAN_HINT}
        self._reason.placeholder = hints.get(request.kind, _REASON_HINT)
        self._preview.display = bool(request.preview.strip())
        self._preview.scroll_home(animate=False)
        self._show_choices()
        self.call_after_refresh(self._show_extent)

    def _show_preview(self, request: ApprovalRequested) -> None:
        text = self.query_one("#approval-text", Static)
        if request.kind == "plan":
            shown: VisualType = MarkdownText(ensure_visible(request.preview), text)
        elif request.kind == "question":
            shown = Content(ensure_visible(request.preview))
        else:
            shown = preview_content(request.preview)
        text.update(shown)

    def _is_guarded(self) -> bool:
        """Whether a key comes too early to be meant; each one that does pushes the moment on."""
        now = self._clock()
        if now >= self._quiet_until:
            return False
        self._quiet_until = now + GUARD_SECONDS
        return True

    def _move(self, step: int) -> None:
        self._index = (self._index + step) % len(self._options)
        self._paint_options()

    def _choose(self, option: Option) -> None:
        match option.kind:
            case "tell":
                self._index = self._options.index(option)
                self._paint_options()
                self._reason.value = ""
                self._reason.display = True
                self._reason.focus()
            case _:
                self._answer(answer_of(option, self.request))

    def _answer(self, answer: Answer) -> None:
        request = self.request
        if request is None:
            return
        self._waiting.pop(0)
        self.post_message(ApprovalAnswered(request.call.call_id, answer))
        self._open()

    def _show_choices(self) -> None:
        self._reason.display = False
        self._paint_options()
        self.focus()

    def _paint_options(self) -> None:
        rows = [
            Content.assemble(
                ("› " if place == self._index else "  ", "$text-accent"),
                (f"{option.number} {option.shown}", "bold $text-accent" if place == self._index else ""),
                (f" ({option.letter})" if option.letter else "", "$muted"),
                (f"  {visible(option.detail)}" if option.detail else "", "$muted"),
            )
            for place, option in enumerate(self._options)
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
    lines = text.split("\n")
    width = len(
        str(len(lines) + max((int(hunk[at]) for hunk in HUNK_HEADER.finditer(text) for at in (1, 3)), default=0))
    )
    old = new = 0
    is_inside = False
    for line in lines:
        sign, hunk = line[:1], HUNK_HEADER.match(line)
        if hunk is not None:
            old, new, is_inside = int(hunk[1]), int(hunk[3]), True
            yield Content.styled(line, "$text-primary")
        elif not is_inside or sign not in ("+", "-", " "):
            yield Content.styled(line, "bold" if not is_inside else "$muted")
        else:
            number = old if sign == "-" else new
            old, new = old + (sign != "+"), new + (sign != "-")
            row = next(changed, None) if sign != " " else None
            yield Content.assemble((f"{number:>{width}} ", "$muted"), _changed_line(line, row))


def _changed_line(line: str, row: Row | None) -> Content:
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
