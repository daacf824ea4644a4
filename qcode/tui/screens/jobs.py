"""The screens of `/jobs`: the list with live output, the output of one job, and the question before quitting.

An open list or output is refreshed four times a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from qcode.text.clean import title_line
from qcode.tui.panels.jobs import JobWatch, command_of, commands_of, missing_output, quit_question
from qcode.tui.panels.picker_list import Column, PickerRow
from qcode.tui.panels.preview import Rows
from qcode.tui.screens.pager import PagerScreen
from qcode.tui.screens.picker import ListScreen, Picker
from qcode.tui.transcript.ansi import output_rows
from qcode.tui.transcript.line import Line, style_of

if TYPE_CHECKING:
    from qcode.tools.jobs import Job

_REFRESH_S = 0.25
_PREVIEW_ROWS = 6
_MIN_HEIGHT = 14
"""A screen with fewer rows does not show the output of the highlighted job."""

_STOP, _SEND = ("Ctrl+X", "stop"), ("Ctrl+S", "attach to message")
_BINDINGS: list[BindingType] = [
    Binding("ctrl+x", "stop", "Stop", priority=True, show=False),
    Binding("ctrl+s", "send", "Attach to the next message", priority=True, show=False),
]


class JobsScreen(ListScreen[None]):
    """The jobs of the session, the last one first, with the end of the highlighted job's output."""

    ENTER = "show output"
    KEYS = (_STOP, _SEND)
    BINDINGS: ClassVar[list[BindingType]] = _BINDINGS
    COLUMNS: ClassVar[tuple[Column, ...]] = (Column("", is_number=False, min_width=9),)

    def __init__(self, jobs: JobWatch) -> None:
        self._jobs = jobs
        self._painted_content: tuple[object, ...] = ()
        self._note = Content("")
        super().__init__("Background jobs", self._build_rows(), empty=jobs.empty_text)

    def rows_below(self) -> int:
        return 1 + _PREVIEW_ROWS

    def compose_more(self) -> ComposeResult:
        yield Static(id="job-output", markup=False)

    def on_mount(self) -> None:
        self.set_interval(_REFRESH_S, self._refresh)

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys, without the key to stop a job if the highlighted job does not run."""
        job = self._job()
        keys = super().keys()
        return [key for key in keys if key != _STOP or (job is not None and job.is_running)]

    def show_row(self, row: PickerRow | None) -> None:
        self._note = Content("")
        self.show_title_and_keys()
        self._paint()

    def select(self, row: PickerRow) -> None:
        self.app.push_screen(JobOutput(self._jobs, self._jobs.find(row.id)))

    async def action_stop(self) -> None:
        if (job := self._job()) is not None:
            self._note = Content.styled(await self._jobs.stop(job, sends_notices=False), "$text-success")
            self._refresh()
            self._paint()

    def action_send(self) -> None:
        if (job := self._job()) is not None:
            self._note = _attach(self._jobs, job)
            self._paint()

    def _job(self) -> Job | None:
        return self._jobs.find(self.row.id) if self.row is not None else None

    def _refresh(self) -> None:
        rows = self._build_rows()
        job = self._job()
        content = (rows, job.total if job is not None else 0)
        if content != self._painted_content:
            self._painted_content = content
            self.set_rows(rows)
            self.show_title_and_keys()
            self._paint()

    def _build_rows(self) -> tuple[PickerRow, ...]:
        return tuple(
            PickerRow(str(job.number), f"{job.number}  {title_line(job.command)}", cells=(self._jobs.state_of(job),))
            for job in reversed(self._jobs.all)
        )

    def _paint(self) -> None:
        output = self.query_one("#job-output", Static)
        job = self._job()
        if self._note:
            output.update(self._note)
        elif job is None or self.size.height < _MIN_HEIGHT:
            output.update("")
        else:
            output.update(Rows(output_lines(job, max(1, self.size.width - 4))[-_PREVIEW_ROWS:], output))


class JobOutput(PagerScreen):
    """The latest output of one job. It follows the end until the user scrolls up."""

    BINDINGS: ClassVar[list[BindingType]] = _BINDINGS

    def __init__(self, jobs: JobWatch, job: Job) -> None:
        super().__init__("", lambda width: output_lines(job, width))
        self._jobs = jobs
        self._job = job
        self._painted_content: tuple[object, ...] = ()
        self._note = ""
        self._last_end = 0  # the scroll position of the end of the output when it was last shown

    def on_mount(self) -> None:
        self.set_interval(_REFRESH_S, self._refresh)
        self.call_after_refresh(self._refresh)

    def keys(self) -> Sequence[tuple[str, str]]:
        return (_STOP, _SEND) if self._job.is_running else (_SEND,)

    async def action_stop(self) -> None:
        self._note = await self._jobs.stop(self._job, sends_notices=False)
        self._refresh()

    def action_send(self) -> None:
        self._note = _attach(self._jobs, self._job).plain
        self._refresh()

    def _refresh(self) -> None:
        job, state = self._job, self._jobs.state_of(self._job)
        content = (job.total, state, self._note)
        if content != self._painted_content:
            self._painted_content = content
            self.show_title(f"Job {job.number}  {state}  {command_of(job)}", self._note)
            scroll = self.query_one("#pager-scroll", VerticalScroll)
            end = min(self._last_end, scroll.max_scroll_y)  # lower than `_last_end` if the screen has grown
            is_at_end = scroll.scroll_target_y >= end
            self.show_lines()
            if is_at_end:
                self.call_after_refresh(self._scroll_to_end, scroll)

    def _scroll_to_end(self, scroll: VerticalScroll) -> None:
        self._last_end = scroll.max_scroll_y
        scroll.scroll_to(y=self._last_end, animate=False)


def output_lines(job: Job, width: int) -> list[Line]:
    """Return the latest output of a job in rows of `width` cells."""
    text = job.latest().rstrip("\n")
    return output_rows(text, width) if text else [Line(((f"({missing_output(job)})", style_of("dim")),))]


def _attach(jobs: JobWatch, job: Job) -> Content:
    """Attach the output of a job to the next message, and return what happened in words."""
    try:
        return Content.styled(jobs.send(job), "$text-success")
    except ValueError as refusal:
        return Content.styled(str(refusal), "$text-warning")


class QuitPicker(Picker):
    """Asks whether to quit, which stops the jobs in `running`; the result is `quit`, `stay`, or None after Esc.

    `stay` is highlighted, so that an Enter too many after `/quit` stops no job. `y` quits with one key.
    """

    IS_QUESTION: ClassVar[bool] = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('quit')", "Quit", priority=True, show=False),
        Binding("n", "answer('stay')", "Stay", priority=True, show=False),
    ]

    def __init__(self, running: Sequence[Job]) -> None:
        rows = [
            PickerRow("stay", "Stay (n)"),
            PickerRow("quit", "Stop and quit (y)", commands_of(running)),
        ]
        super().__init__(quit_question(running), rows)

    def action_answer(self, answer: str) -> None:
        self.dismiss(answer)
