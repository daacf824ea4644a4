"""The transcript and status of the linear mode: prints each call of the presenter as sentences and lines.

Streamed text is printed line by line, everything else when it is complete. Printed lines are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import ceil

from qcode.agent.call_titles import verb
from qcode.protocol.events import Level, TurnEnded, UsageUpdated
from qcode.text.clean import clean, ensure_visible, one_line, show_hidden
from qcode.text.fences import fence_after
from qcode.text.numbers import count_text, duration_text, retry_countdown
from qcode.text.redrawn import redrawn
from qcode.tools.dialog import EXIT_PLAN_MODE
from qcode.tui.linear.wrap import wrap, wrap_command, wrap_table
from qcode.tui.status import Activity
from qcode.tui.transcript.cards import CardState, CardUpdate
from qcode.tui.transcript.content import ThinkingMode
from qcode.values import dataclass

WriteText = Callable[[str], None]
"""Prints text, which may have several lines, without wrapping it."""

_HEAD_LINES = 20
_TAIL_LINES = 20
"""The numbers of the first and the last lines that are printed of a truncated result."""
MAX_KEPT_RESULTS = 50
"""The number of truncated results that `/output` can print in full."""
_OUTPUT_INDENT = "  "
_LEVELS: dict[Level, str] = {"info": "Note", "warning": "Warning", "error": "Error"}
_STATE_PHRASES = {
    "done": "finished",
    "failed": "failed",
    "denied": "was denied",
    "declined": "was declined",
    "unanswered": "was not answered",
    "rejected": "did not run",
    "cancelled": "was cancelled",
    "stopped": "was stopped",
}


@dataclass(slots=True)
class _ShownCall:
    """The latest values of a call whose result is not printed yet."""

    name: str
    argument: str
    is_plan: bool = False
    state: CardState = "waiting"
    output: list[str] = field(default_factory=list)
    diff: str = ""
    plan: str = ""
    summary: str = ""
    sandbox_note: str = ""

    def apply(self, update: CardUpdate) -> None:
        """Take over the values of an update, except its state."""
        if update.argument is not None:
            self.argument = update.argument
        if update.output is not None:
            self.output = [update.output]
        if update.append is not None:
            self.output.append(update.append)
        if update.diff is not None:
            self.diff = update.diff
        if update.plan is not None:
            self.plan = update.plan
        if update.summary is not None:
            self.summary = update.summary
        if update.sandbox_note is not None:
            self.sandbox_note = update.sandbox_note


class LinearView:
    """Prints a conversation as text.

    `columns` returns the width in cells at which prose is wrapped between words; 0 turns wrapping off. Code is printed
    as it is.
    """

    def __init__(
        self,
        write: WriteText,
        show_thinking: ThinkingMode,
        clock: Callable[[], float],
        columns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._write = write
        self._show_thinking = show_thinking
        self._clock = clock
        self._columns = columns
        self._fence: str | None = None
        self._speaker = ""  # the label that was printed last, such as `Assistant:`
        self._partial_line = ""
        self._blank_lines = 0
        self._thinking_since: float | None = None
        self._calls: dict[str, _ShownCall] = {}
        # The calls of `_calls` that have ended. Their output may still follow, so they are printed with it, or before
        # anything else is printed.
        self._ended_calls: dict[str, _ShownCall] = {}
        self._asked_texts: dict[str, str] = {}  # by id of the call: the diff or plan that a question has shown
        self._truncated_results: dict[int, str] = {}
        self._truncated_count = 0
        self._is_turn_ending = False

    def output_columns(self) -> int | None:
        """Return the width in cells of the output of a command, None if it is not limited."""
        columns = self._columns()
        return max(1, columns - len(_OUTPUT_INDENT)) if columns else None

    def print_text(self, text: str) -> None:
        """Print text, wrapped between words."""
        self._write(wrap(text, self._columns()))

    def print_command(self, text: str) -> None:
        """Print a command, wrapped after blanks."""
        self._write(wrap_command(text, self._columns()))

    def print_verbatim(self, text: str) -> None:
        """Print text whose line ends matter: code, output."""
        self._write(text)

    def print_diff(self, call_id: str, diff: str) -> None:
        """Print the diff of a call in a question about it; its result does not repeat it."""
        self._asked_texts[call_id] = diff
        self.print_verbatim(ensure_visible(diff))

    def print_plan(self, call_id: str, rows: str, plan: str) -> None:
        """Print `rows`, the plan in a question about it; the result of the call does not repeat the plan."""
        self._asked_texts[call_id] = plan
        self.print_text(rows)

    def print_table(self, text: str) -> None:
        """Print text that may have columns."""
        self._write(wrap_table(text, self._columns()))

    def begin_turn_end(self) -> None:
        """Prepare for the end of the turn: the next mark, such as `34 s`, reports it; `end_turn` follows."""
        self._is_turn_ending = True

    def end_turn(self) -> None:
        """Report the end of the turn, unless a mark has reported it."""
        if self._is_turn_ending:
            self.add_mark("")

    def truncated_result(self, number: int) -> str | None:
        """Return all lines of a truncated result, None if there is none with this number."""
        return self._truncated_results.get(number)

    def last_truncated_result(self) -> str | None:
        """Return all lines of the last truncated result, None if there is none."""
        return self.truncated_result(self._truncated_count)

    def add_user(self, text: str) -> None:
        self._print_ended_calls()
        self._speaker = ""
        self.print_text(f"User: {clean(text)}")

    def add_attached(self, lines: Sequence[str]) -> None:
        self.print_text("\n".join(f"Attached: {one_line(line)}" for line in lines))

    def append_text(self, text: str) -> None:
        self._end_thinking()
        if self._ended_calls:
            self._print_ended_calls()
        self._print_speaker("Assistant:")
        self._append(text)

    def append_reasoning(self, text: str) -> None:
        if self._show_thinking == "hidden":
            return
        if self._thinking_since is None:
            self.print_open_line()
            self._thinking_since = self._clock()
            self._speaker = "Thinking:"
            self._write("Thinking:" if self._show_thinking == "expanded" else "Thinking.")
        if self._show_thinking == "expanded":
            self._append(text)

    def end_reasoning(self, seconds: float) -> None:
        if self._thinking_since is not None:
            self._thinking_since = self._clock() - seconds
            self._end_thinking()

    def settle(self) -> None:
        self._end_thinking()
        self.print_open_line()
        self._speaker = ""

    def print_open_line(self) -> None:
        """Print the unfinished last line of the streamed text, because something else is printed next."""
        line = self._partial_line
        self._partial_line = ""
        if line.strip():
            self._print_blank_lines()
            self._write(self._wrapped(clean(line)))
        self._fence = None
        self._blank_lines = 0

    def restart(self, label: str) -> None:
        self.settle()
        self.print_text(f"Restarting the reply: {one_line(label)}.")

    def restore(self, text: str, reasoning: str = "") -> None:
        self.settle()
        self.append_text(text)

    def add_mark(self, text: str) -> None:
        self._print_ended_calls()
        if self._is_turn_ending:
            self._is_turn_ending = False
            text = f"turn ended: {text}" if text else "turn ended"
        self.print_text(f"({one_line(text)})")

    def add_notice(self, level: Level, text: str) -> None:
        self._print_ended_calls()
        self._speaker = ""
        self.print_text(f"{_LEVELS[level]}: {clean(text)}")

    def add_card(self, call_id: str, name: str, argument: str) -> None:
        # A screen reader may skip the `!` of a shell line.
        title = "Shell" if name == "!" else verb(one_line(name, 60))
        self._calls[call_id] = _ShownCall(title, argument, is_plan=name == EXIT_PLAN_MODE)

    def update_card(self, call_id: str, update: CardUpdate) -> None:
        call = self._calls.get(call_id)
        if call is None:
            return
        call.apply(update)
        if update.state is not None and update.state != call.state:
            call.state = update.state
            # A plan has no title line: its result begins with one.
            if update.state == "running" and not call.is_plan:
                title = f"{call.name}: {clean(call.argument)}" if call.argument else f"{call.name}."
                self._print(wrap_command(title, self._columns()))
        has_ended = call.state in _STATE_PHRASES
        if not has_ended:
            return
        has_result = update.output is not None or update.diff is not None or update.plan is not None
        if update.state is not None and not has_result:
            self._ended_calls[call_id] = call  # an update with the output may follow
        else:
            self._print_result(call_id, call)

    def show_activity(self, activity: Activity | None) -> None:
        if activity is not None and activity.until is not None:
            seconds = max(0, ceil(activity.until - self._clock()))
            countdown = retry_countdown(activity.attempt, activity.max_retries, seconds)
            self._print(wrap(f"{one_line(activity.text).rstrip('.')}, {countdown}", self._columns()))

    def show_usage(self, event: UsageUpdated) -> None:
        """Print nothing: a screen reader would read every change."""

    def add_turn(self, event: TurnEnded) -> None:
        """Print nothing: a screen reader would read every change."""

    def _print(self, text: str) -> None:
        """Print text outside the reply, after everything that is not printed yet."""
        self._end_thinking()
        self._print_ended_calls()
        self._speaker = ""
        self._write(text)

    def _print_speaker(self, speaker: str) -> None:
        """Print the label of a speaker, unless it is the label above the current text."""
        if self._speaker != speaker:
            self.print_open_line()
            self._speaker = speaker
            self._write(speaker)

    def _append(self, text: str) -> None:
        """Print the lines that streamed text completes; keep its last, unfinished line."""
        *complete, self._partial_line = (self._partial_line + text).split("\n")
        for line in complete:
            if line.strip():
                self._print_blank_lines()
                self._write(self._wrapped(clean(line)))
            else:
                self._blank_lines += 1

    def _print_blank_lines(self) -> None:
        """Print the blank lines before a line of a reply. Blank lines at the end of the reply are not printed."""
        for _ in range(self._blank_lines):
            self._write("")
        self._blank_lines = 0

    def _wrapped(self, line: str) -> str:
        """Return a line of a reply, wrapped between words unless it is inside a code fence."""
        was_in_fence = self._fence is not None
        self._fence = fence_after(self._fence, line)
        is_in_fence = self._fence is not None
        # The line that opens a fence, and the line that closes it, belong to the code.
        return line if was_in_fence or is_in_fence else wrap(line, self._columns())

    def _end_thinking(self) -> None:
        if self._thinking_since is None:
            return
        seconds = self._clock() - self._thinking_since
        self._thinking_since = None
        self.print_open_line()
        self._speaker = ""
        if seconds >= 1:
            self._write(f"Thought for {duration_text(seconds)}.")

    def _print_ended_calls(self) -> None:
        """Print the result of each call that has ended, if that is not done yet."""
        self.print_open_line()
        for call_id, call in tuple(self._ended_calls.items()):
            if call_id in self._ended_calls:  # printing a result prints the others before it
                self._print_result(call_id, call)

    def _print_result(self, call_id: str, call: _ShownCall) -> None:
        del self._calls[call_id]
        self._ended_calls.pop(call_id, None)
        notes = ", ".join(filter(None, (one_line(call.summary), call.sandbox_note)))
        result = f"{call.name} {_STATE_PHRASES[call.state]}" + (f": {notes}" if notes else ".")
        # The question about a call has shown its diff or plan. A call that the user edited has another one.
        asked_text = self._asked_texts.pop(call_id, "").strip()
        plan = call.plan.strip()
        if plan:
            is_approved = call.state == "done"
            title = (one_line(call.summary) or "Plan") if is_approved else result
            reason = self._output_lines("".join(call.output))
            plan_lines = [] if plan == asked_text else [f"  {line}" for line in clean(plan).split("\n")]
            self._print(wrap("\n".join([title, *reason, *plan_lines]), self._columns()))
        else:
            lines = self._result_lines(call, asked_text)
            self._print("\n".join([wrap(result, self._columns()), *lines]))

    def _result_lines(self, call: _ShownCall, asked_text: str) -> Sequence[str]:
        """Return the diff, unless `asked_text` is the same, and the output. A call that was denied changed nothing."""
        is_denied = call.state in ("denied", "declined")
        diff = "" if is_denied or call.diff.strip() == asked_text else call.diff
        output = "" if is_denied and call.diff else "".join(call.output)
        visible_diff = "\n".join(show_hidden(line) for line in diff.split("\n"))
        return [*self._output_lines(visible_diff), *self._output_lines(output)]

    def _output_lines(self, text: str) -> Sequence[str]:
        """Return the lines of a result. A long result is truncated in the middle, and stored under a number."""
        text = clean(redrawn(text)).strip("\n") if text.strip() else ""
        lines = text.split("\n") if text else []
        omitted_lines = len(lines) - _HEAD_LINES - _TAIL_LINES
        if omitted_lines > 1:
            self._truncated_count += 1
            self._truncated_results[self._truncated_count] = text
            self._truncated_results.pop(self._truncated_count - MAX_KEPT_RESULTS, None)
            note = f"({count_text(omitted_lines, 'line')} left out; /output {self._truncated_count} shows all)"
            lines = [*lines[:_HEAD_LINES], note, *lines[-_TAIL_LINES:]]
        return [f"{_OUTPUT_INDENT}{line}" for line in lines]
