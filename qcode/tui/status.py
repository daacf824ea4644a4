"""The status line: the permission mode and the current activity, then model, effort, context, cost and more.

`render_status` is pure. It fits any width by dropping parts, the least important first. `StatusLine` paints the result,
keeps the session's totals, and runs a timer only while the activity moves.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from qcode.protocol.approvals import ApprovalMode, effective_mode, mode_label
from qcode.text.clean import one_line
from qcode.text.numbers import cost_text, count_text, duration_text, retry_countdown, tokens_text
from qcode.tui.transcript.line import shorten, shorten_to_clauses
from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from qcode.agent.usage import TurnUsage
    from qcode.protocol.events import ModelUsage, TurnEnded, UsageUpdated
    from qcode.protocol.usage import Usage
    from qcode.tui.transcript.diff import DiffCount

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 8
_BAR_CELLS = 8
_GAP = "  "
_KEY_GAP = " · "
_TO_INTERRUPT, _STOP = " to interrupt", " stop"
"""The words after the key that interrupts: all of them, or a short form if they do not fit."""
_MAX_ACTIVITY_CELLS = 120
_MAX_WHOLE_ACTIVITY_CELLS = 48
"""An activity up to this width is shown whole before the model is. A longer one loses its last words first."""
_MIN_ACTIVITY_CELLS = 36
_MIN_REASON_CELLS = 12
_MIN_ACTIVITY_AFTER_HINT_CELLS = 8
"""The minimum width of the activity after a hint: a spinner and the key, such as `⠋ Ctrl+C`."""
_ACTIVITY_SHARE = 0.4
"""The share of their width that the activity gets at least if a hint is long; the hint loses clauses."""
_WARNING_SHARE = 0.75
"""The share of the context window from which the line warns."""
_ERROR_SHARE = 0.9
"""The share of the context window from which the figure has the color of an error."""
_MAX_WHOLE_MODEL_CELLS = 20
"""A model name up to this length keeps its provider: the `m` of `openai/m` alone would be unclear."""
_DROP_ORDER = (
    "branch",
    "bar",  # of the context, whose percentage stays
    "tokens",  # if no cost is known, shortened first, and dropped with "cost"
    "provider",  # in a long model name
    "key",  # of the mode
    "mode",  # its long name; the short one stays
    "cost",
    "effort",
    "sandbox",
    "known problem",  # the problem, while a turn runs
    "low context",  # the context, while a turn runs and the window is not nearly full
    "hint",  # the words `to interrupt` after `Esc`, which become `stop`
    "provider beside jobs",  # in any model name, if jobs run
    "jobs",
    "short provider",  # in any model name, if the window is nearly full
    "nearly full",  # these words
    "stop",  # this word after `Esc`
    "context",
    "model beside activity",  # the model, beside a hint, or an activity that then fits
    "details",  # the duration and the last words of the activity
    "model",
    "restricted",
    "problem",
)
"""The parts that are dropped or shortened if the line is too long, in this order."""
_MODE_WORDS: dict[str, str] = {
    "plan": "plan mode",
    "default": "ask before edits",
    "accept-edits": "accept edits",
    "auto": "auto mode",
    "bypass": "bypass: never asks",
}


@dataclass(frozen=True, slots=True)
class Activity:
    """The current activity. Times are in seconds of the app's clock."""

    text: str
    since: float
    """When it started."""
    until: float | None = None
    """The end of a wait, which makes the activity a countdown."""
    attempt: int = 1
    """The number of the retry after the wait; 0 if the wait is for a limit and not for a retry."""
    max_retries: int = 0
    """The number of retries, 0 if it is unknown."""
    is_moving: bool = True
    """A spinner and the elapsed time are shown; False while qcode waits for the user."""


@dataclass(frozen=True, slots=True)
class QuestionState:
    """The user's current action at an open question, and its keys."""

    action: str
    """Words such as `typing an answer`."""
    keys: str
    """The keys and their effects, such as `Enter send · Esc back`."""


@dataclass(frozen=True, slots=True)
class Status:
    """All values of the status line. An empty text is not shown."""

    model: str = ""
    mode: ApprovalMode = "default"
    mode_key: str = ""
    """The key that switches the mode, such as `Shift+Tab`."""
    context_tokens: int = 0
    context_window: int = 0
    tokens: int = 0
    """Input and output tokens of the session."""
    cost: Decimal | None = None
    """The cost of the session in dollars, None if unknown."""
    has_unknown_cost: bool = False
    """`cost` is only a part of the total."""
    branch: str = ""
    activity: Activity | None = None
    shell_line: Activity | None = None
    """The user's `!` line that runs; shown if `activity` is None."""
    is_opening: bool = False
    """A session is being resumed whose mode is not known yet, because no flag sets it."""
    hint: str = ""
    """A short text, such as `press Esc again to rewind`, shown before the activity."""
    effort: str = ""
    has_no_sandbox: bool = False
    """The sandbox is off, or none works here."""
    is_restricted: bool = False
    """The folder is not trusted."""
    problem: str = ""
    """Why the model cannot be reached."""
    problem_until: float | None = None
    """The expected end of the problem, in seconds of the app's clock; None if unknown."""
    jobs: int = 0
    """The number of running background jobs."""
    vim: str = ""
    """The mode of vim in the prompt, such as `INSERT`; empty if vim keys are off."""
    is_shell_prompt: bool = False
    """The prompt starts with `!`, so Enter runs it in the shell, whatever the mode."""
    question: QuestionState | None = None
    """The state of the open question, which replaces the activity; None if no question is open."""

    @property
    def is_active(self) -> bool:
        """Whether there is an activity to show: a question, a turn or a `!` line."""
        return self.question is not None or self.activity is not None or self.shell_line is not None


def render_status(status: Status, width: int, now: float) -> Content:
    """Return the line for `width` columns: the mode and the activity or hint on the left, facts on the right.

    Parts that do not fit are dropped in the order of `_DROP_ORDER`. The mode, the activity and `Esc` always stay; the
    activity is shortened last.
    """
    for left, facts in _layouts(status, width, now):
        right = Content(_GAP).join(facts)
        gap_cells = width - right.cell_length - left.cell_length
        if gap_cells >= (len(_GAP) if left and right else 0):
            return Content.assemble(left, " " * gap_cells, right)
    mode = _mode(status, is_long=False)
    free_cells = max(0, width - mode.cell_length - len(_GAP))
    activity = _shortened_activity(status, now, free_cells, free_cells)
    line = Content.assemble(mode, _GAP if activity else "", activity)
    return Content.assemble(line, " " * max(0, width - line.cell_length))


def _layouts(status: Status, width: int, now: float) -> Iterator[tuple[Content, list[Content]]]:
    """Yield every arrangement, from the fullest to the shortest: the left side, and the facts on the right."""
    facts: dict[str, Content] = {
        "problem": Content.styled(_problem(status, now), "bold $text-error"),
        "restricted": Content.styled("restricted" if status.is_restricted else "", "$text-warning"),
        "sandbox": Content.styled("no sandbox" if status.has_no_sandbox else "", "$text-warning"),
        "jobs": Content.styled(count_text(status.jobs, "job") if status.jobs else "", "$text-accent"),
        "model": Content.styled(one_line(status.model, 60), "$muted"),
        "effort": Content.styled(status.effort, "$muted"),
        "context": _context(status, has_bar=True),
        "tokens": Content.styled(f"session {tokens_text(status.tokens)} tokens" if status.tokens else "", "$muted"),
        "cost": Content.styled(cost_total_text(status), "$muted"),
        "branch": Content.styled(shorten(status.branch, 24), "$muted"),
    }
    left_parts = {"key", "mode", "details", "hint", "stop"}
    is_short = _activity(status, now, "", _MAX_ACTIVITY_CELLS).cell_length <= _MAX_WHOLE_ACTIVITY_CELLS
    for dropped in ("", *_DROP_ORDER):
        _drop(dropped, status, facts, left_parts, is_short=is_short)
        shown = [fact for fact in facts.values() if fact]
        if not shown:  # without facts, the long texts of the activity may fit
            yield _left_side(status, width, now, left_parts | {"details", "hint", "stop"}), shown
            yield _left_side(status, width, now, left_parts | {"details", "stop"}), shown
        yield _left_side(status, width - sum(len(_GAP) + fact.cell_length for fact in shown), now, left_parts), shown


def _drop(dropped: str, status: Status, facts: dict[str, Content], left_parts: set[str], *, is_short: bool) -> None:
    """Drop or shorten a part of `_DROP_ORDER`; do nothing if its condition does not hold.

    `is_short`: the activity is short, so that it is shown whole before the model.
    """
    is_turn_running = status.activity is not None
    is_nearly_full = _context_share(status) >= _WARNING_SHARE
    is_long_model = cell_len(status.model) > _MAX_WHOLE_MODEL_CELLS
    match dropped:
        case "provider" if is_long_model:
            facts["model"] = Content.styled(_without_provider(status.model), "$muted")
        case "short provider" | "provider beside jobs" if (
            is_long_model or is_nearly_full or (status.jobs and dropped == "provider beside jobs")
        ):
            facts["model"] = Content.styled(_without_provider(status.model), "$muted")
        case "tokens" if status.tokens and status.cost is None:  # the number of tokens says more than "cost unknown"
            facts["cost"] = Content("")
            facts["tokens"] = Content.styled(f"{tokens_text(status.tokens)} tokens", "$muted")
        case "cost":
            del facts["cost"]
            facts.pop("tokens", None)
        case "bar":
            facts["context"] = _context(status, has_bar=False)
        case "low context" if is_turn_running and not is_nearly_full:
            facts["context"] = Content("")
        case "nearly full" if facts["context"]:
            facts["context"] = _context(status, has_bar=False, says_nearly_full=False)
        case "model beside activity" if status.is_active and (status.hint or is_short):
            facts["model"] = Content("")
        case "known problem" if is_turn_running:  # a running turn reports its problems itself
            del facts["problem"]
        case _:
            facts.pop(dropped, None)
            left_parts.discard(dropped)


def _without_provider(model: str) -> str:
    return one_line(model.rpartition("/")[2], 40)


def _left_side(status: Status, width: int, now: float, parts: Collection[str]) -> Content:
    """Return the left side: the mode, then the activity. If there is none, the key that switches the mode follows.

    `parts` names the optional parts to show. Without "details" the activity is shortened to fit `width`, but not below
    a minimum.
    """
    mode = _mode(status, is_long="mode" in parts)
    if "details" in parts or (status.hint and not status.is_active):
        activity = _activity(status, now, _interrupt_key(status, parts), _MAX_ACTIVITY_CELLS)
    else:
        free_cells = width - mode.cell_length - len(_GAP)
        activity = _shortened_activity(status, now, max(_MIN_ACTIVITY_CELLS, free_cells), free_cells)
    if activity:
        return Content.assemble(mode, _GAP, activity)
    words = "Enter runs it" if mode and _is_shell_line_typed(status) else status.mode_key
    key = f"{_KEY_GAP}{words}" if words and "key" in parts else ""
    return Content.assemble(mode, (key, "$muted"))


def _interrupt_key(status: Status, parts: Collection[str]) -> str:
    """Return ` · ` and the key that interrupts the turn, with the words that `parts` names.

    The key is Ctrl+C in vim's insert mode, which Esc leaves.
    """
    key = "Ctrl+C" if status.vim == "INSERT" else "Esc"
    words = ""
    if "hint" in parts:
        words = _TO_INTERRUPT
    elif "stop" in parts:
        words = _STOP
    return f"{_KEY_GAP}{key}{words}"


def _shortened_activity(status: Status, now: float, max_cells: int, free_cells: int) -> Content:
    """Return the activity in at most `max_cells` cells, and the key with the words for which `free_cells` suffice."""
    shortest = _activity(status, now, _interrupt_key(status, ()), max_cells)
    for words in ("hint", "stop"):
        key = _interrupt_key(status, (words,))
        with_words = _activity(status, now, key, max_cells + len(_TO_INTERRUPT))
        if with_words.cell_length <= free_cells and with_words.plain.startswith(shortest.plain):
            return with_words
    return shortest


def activity_text(activity: Activity, now: float) -> str:
    """Return an activity in words, without its duration; for a wait, with the remaining time."""
    if activity.until is None:
        return activity.text
    retrying = _countdown(activity, activity.until, now)
    return f"{activity.text.rstrip('. ')}, {retrying}"


def _countdown(activity: Activity, until: float, now: float) -> str:
    return retry_countdown(activity.attempt, activity.max_retries, max(0, ceil(until - now)))


def limit_countdown(activity: Activity | None, now: float) -> str:
    """Return the remaining time of a wait for a limit; empty for any other activity."""
    if activity is None or activity.until is None or activity.attempt:
        return ""
    return duration_text(max(0, ceil(activity.until - now)))


def _activity(status: Status, now: float, interrupt: str, max_cells: int) -> Content:
    """Return the activity in at most `max_cells` cells, after the hint. An open question replaces it.

    `interrupt` is ` · ` and the key that stops the activity. It is kept when the text is shortened.
    """
    if status.hint:
        free_cells = max_cells - cell_len(status.hint) - len(_GAP)
        cells = max(free_cells, _MIN_ACTIVITY_AFTER_HINT_CELLS, int(max_cells * _ACTIVITY_SHARE))
        after = _activity(replace(status, hint=""), now, interrupt, cells)
        gap = _GAP if after else ""
        hint = shorten_to_clauses(status.hint, max_cells - after.cell_length - len(gap))
        return Content.assemble((hint, "$text-warning"), gap if hint else "", after)
    if status.question is not None:
        keys = status.question.keys
        if not interrupt.endswith(_TO_INTERRUPT):
            # `Enter send · Esc to interrupt` becomes `Enter send · Esc stop` or `Enter send · Esc`.
            keys = keys.replace(_TO_INTERRUPT, _STOP if interrupt.endswith(_STOP) else "")
        if cell_len(keys) > max_cells:
            keys = keys.rpartition(_KEY_GAP)[2]
        words = shorten_to_clauses(status.question.action, max_cells - cell_len(keys) - len(_KEY_GAP))
        gap = _KEY_GAP if words and keys else ""
        return Content.assemble((words, "bold $text-warning"), (f"{gap}{keys}", "$muted"))
    activity = status.activity or status.shell_line
    if activity is None:
        return Content("")
    if not activity.is_moving:
        words = shorten_to_clauses(activity.text, max_cells - cell_len(interrupt))
        return Content.assemble((words, "bold $text-warning"), (interrupt, "$muted"))
    frame = _SPINNER[int(max(0.0, now - activity.since) * FRAMES_PER_SECOND) % len(_SPINNER)]
    words, elapsed = _activity_words(activity, now, max_cells - len(frame) - 1 - cell_len(interrupt))
    if not words:  # only the spinner and the key, such as `⠋ Esc`
        key = interrupt.removeprefix(_KEY_GAP).removesuffix(_TO_INTERRUPT).removesuffix(_STOP)
        return Content.assemble((frame, "$text-accent"), (f" {key}", "$muted")).truncate(max_cells)
    return Content.assemble((f"{frame} {words}", "$text-accent"), (elapsed, "$muted"), (interrupt, "$muted"))


def _activity_words(activity: Activity, now: float, max_cells: int) -> tuple[str, str]:
    """Return the text of a running activity and its elapsed time, together at most `max_cells` wide.

    The elapsed time is dropped first, then words at the end of the text. A wait keeps its remaining time; its reason is
    dropped if less than `_MIN_REASON_CELLS` of it would remain.
    """
    text = one_line(activity.text)
    if activity.until is None:
        elapsed = f" {duration_text(now - activity.since)}" if now - activity.since >= 1 else ""
        if cell_len(text) + len(elapsed) <= max_cells:
            return text, elapsed
        return shorten_to_clauses(text, max_cells), ""
    remaining = _countdown(activity, activity.until, now)
    reason = text.rstrip(". ")
    # A short part, such as "openai" before ": Rate limit reached for gpt-5 in organization", is not a reason.
    short_reason = shorten_to_clauses(reason, max_cells - cell_len(remaining) - 2, min_cells=_MIN_REASON_CELLS)
    if short_reason and (short_reason == reason or cell_len(short_reason) >= _MIN_REASON_CELLS):
        return f"{short_reason}, {remaining}", ""
    return shorten_to_clauses(remaining, max_cells), ""


def _mode(status: Status, *, is_long: bool) -> Content:
    """Return vim's mode, if vim keys are on, then the permission mode in effect.

    While the user types a `!` line, which runs without asking, `shell command` replaces the permission mode.
    """
    styles = {"plan": "$text-primary", "accept-edits": "$text-warning", "auto": "$text-warning"}
    if status.is_opening:
        return Content.styled("opening the session" if is_long else "opening", "$muted")
    mode = effective_mode(status.mode, is_trusted=not status.is_restricted)
    style = styles.get(mode, "bold $text-error" if mode == "bypass" else "")
    label = mode_label(mode)
    words = _MODE_WORDS.get(mode, label)
    mode_content = Content.styled(words if is_long or len(words) <= len(label) else label, style)
    if _is_shell_line_typed(status):
        mode_content = Content.styled("shell command" if is_long else "shell", "$text-warning")
    if not status.vim:
        return mode_content
    vim_style = "$text-accent" if status.vim == "INSERT" else "bold $text-accent"
    return Content.assemble((status.vim, vim_style), _GAP, mode_content)


def _is_shell_line_typed(status: Status) -> bool:
    """Return whether Enter runs the prompt in the shell: it starts with `!`, and no question waits for an answer."""
    is_waiting = status.activity is not None and not status.activity.is_moving
    return status.is_shell_prompt and status.question is None and not is_waiting


def _problem(status: Status, now: float) -> str:
    if not status.problem or status.problem_until is None:
        return one_line(status.problem, 30)
    return f"{one_line(status.problem, 30)}, {duration_text(max(0, ceil(status.problem_until - now)))}"


def _context_share(status: Status) -> float:
    """Return the used share of the context window; 0 if it is unknown."""
    if status.context_window <= 0 or status.context_tokens <= 0:
        return 0
    return min(1.0, status.context_tokens / status.context_window)


def _context(status: Status, *, has_bar: bool, says_nearly_full: bool = True) -> Content:
    share = _context_share(status)
    if not share:
        return Content("")
    style = "$muted"
    if share >= _WARNING_SHARE:
        style = "$text-error" if share >= _ERROR_SHARE else "$text-warning"
    percent = f"context {share:.0%}" if share >= 0.01 else "context <1%"
    if says_nearly_full and share >= _WARNING_SHARE:
        percent += " nearly full"
    if not has_bar:
        return Content.styled(percent, style)
    filled = max(1, round(share * _BAR_CELLS))
    return Content.assemble(("━" * filled, style), ("─" * (_BAR_CELLS - filled), "$muted"), (f" {percent}", style))


def cost_total_text(status: Status | SessionTotals) -> str:
    """Return the cost of a session or a run; empty without usage.

    If a part is unknown, it is `at least $0.42`, or `cost unknown` if the known part is free or below $0.0001.
    """
    if status.cost is None:
        return "cost unknown" if status.has_unknown_cost else ""
    known = cost_text(status.cost)
    if status.has_unknown_cost:
        return "cost unknown" if not status.cost or known.startswith("<") else f"at least {known}"
    return known


def closing_text(event: TurnEnded, changes: DiffCount) -> str:
    """Return the line that closes a turn, such as `34 s · 2 files +9 -4 · $0.03`; it may be empty."""
    if event.seconds is None:
        return ""
    files = count_text(len(changes.files), "file")
    lines = f"+{changes.added} -{changes.removed}" if changes.has_diff else "changed"
    parts = (
        duration_text(event.seconds) if event.seconds >= 1 else "",
        f"{files} {lines}" if changes.files else "",
        cost_text(event.cost) if event.cost else "",
    )
    return " · ".join(filter(None, parts))


class StatusLine(Widget):
    """The status line. `status` has all its values; a change repaints only this widget."""

    def __init__(self, status: Status, clock: Callable[[], float], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.status = status
        self._clock = clock
        self._repaint_timer: Timer | None = None
        self._repaint_rate: float = 0
        self._initial_problem = status.problem
        self._totals = self._run_totals = SessionTotals()
        self._turn_usage: UsageUpdated | None = None  # of the running turn, which the totals do not include yet
        self._countdown = ""
        self.on_countdown: Callable[[str], None] = lambda remaining: None
        """Called with the remaining time of a wait for a limit whenever it changes, and with "" at its end."""

    @property
    def is_ticking(self) -> bool:
        """Whether a timer repaints the line."""
        return self._repaint_timer is not None

    def change(self, **changes: Any) -> None:  # noqa: ANN401  # fields of Status, which replace() checks
        """Replace fields of the status and repaint if any differs."""
        status = replace(self.status, **changes)
        if status == self.status:
            return
        self.status = status
        self._set_repaint_rate(_repaints_per_second(status))
        self._tick()

    def show_problem(self, problem: str, until: float | None) -> None:
        """Show why no model can be reached, with a countdown to `until` if that is known."""
        self.change(problem=problem, problem_until=until)

    def end_problem(self) -> None:
        """Hide the problem, because the model replied. A problem of the start, such as a missing key, returns."""
        self.change(problem=self._initial_problem, problem_until=None)

    def forget_problem(self) -> None:
        """Hide every problem, because another model is in use."""
        self._initial_problem = ""
        self.end_problem()

    def show_activity(self, activity: Activity | None) -> None:
        self.change(activity=activity)

    def show_shell_line(self, activity: Activity | None) -> None:
        self.change(shell_line=activity)

    def show_usage(self, event: UsageUpdated) -> None:
        """Show the usage of the running turn, added to the previous turns."""
        self._turn_usage = event
        self._show_totals()
        self.change(context_tokens=event.context_tokens, context_window=event.context_window)

    def add_turn(self, event: TurnEnded) -> None:
        """Add the running turn, which has ended, to the totals."""
        self._turn_usage = None
        self._add(event.usage, event.cost, event.by_model)

    def add_turns(self, turns: Iterable[TurnUsage]) -> None:
        """Add the turns of a resumed session to the totals; there may be thousands."""
        for turn in turns:
            self._totals = self._totals.plus(_tokens(turn.usage), turn.cost, turn.by_model)
        self._show_totals()

    def add_side_usage(self, usage: Usage, cost: Decimal | None, by_model: Sequence[ModelUsage] = ()) -> None:
        """Add usage outside the turns, such as that of a title, to the totals. A turn may be running."""
        self._add(usage, cost, by_model)

    def _add(self, usage: Usage, cost: Decimal | None, by_model: Sequence[ModelUsage] = ()) -> None:
        self._totals = self._totals.plus(_tokens(usage), cost, by_model)
        self._run_totals = self._run_totals.plus(_tokens(usage), cost, by_model)
        self._show_totals()

    @property
    def run_totals(self) -> SessionTotals:
        """The usage of this run in all of its sessions, without the earlier turns of a resumed one."""
        return self._with_running_turn(self._run_totals)

    def forget_session(self) -> None:
        """Reset the totals for a new session."""
        self._totals, self._turn_usage = SessionTotals(), None
        self._show_totals()
        self.change(context_tokens=0)

    def render(self) -> Content:
        now, until = self._clock(), self.status.problem_until
        if until is not None and now >= until:
            self.call_later(self.end_problem)
        return render_status(self.status, self.size.width, now)

    def _show_totals(self) -> None:
        totals = self._with_running_turn(self._totals)
        self.change(tokens=totals.tokens, cost=totals.cost, has_unknown_cost=totals.has_unknown_cost)

    def _with_running_turn(self, totals: SessionTotals) -> SessionTotals:
        turn = self._turn_usage
        return totals if turn is None else totals.plus(_tokens(turn.usage), turn.cost, turn.by_model)

    def _set_repaint_rate(self, times_per_second: float) -> None:
        """Repaint the line at this rate from now on; 0 stops the timer."""
        if times_per_second == self._repaint_rate:
            return
        self._repaint_rate = times_per_second
        if self._repaint_timer is not None:
            self._repaint_timer.stop()
        self._repaint_timer = self.set_interval(1 / times_per_second, self._tick) if times_per_second else None

    def _tick(self) -> None:
        self.refresh()
        remaining = limit_countdown(self.status.activity, self._clock())
        if remaining != self._countdown:
            self._countdown = remaining
            self.on_countdown(remaining)


def _repaints_per_second(status: Status) -> float:
    activity = status.activity or status.shell_line
    if activity is not None and activity.is_moving and status.question is None:
        return FRAMES_PER_SECOND
    return 1 if status.problem_until is not None else 0


def _tokens(usage: Usage) -> int:
    return (usage.input or 0) + (usage.output or 0)


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """The tokens and the cost of a session or a run so far."""

    tokens: int = 0
    cost: Decimal | None = None
    """The sum of the known costs in dollars, None if no turn has a known cost."""
    has_unknown_cost: bool = False
    """The cost of some turn is unknown."""

    def plus(self, tokens: int, cost: Decimal | None, by_model: Sequence[ModelUsage] = ()) -> SessionTotals:
        """Return the totals with one more turn.

        `by_model` tells a turn without an answered request, which is free, from an interrupted one, whose tokens and
        cost the provider did not report. Without it, a turn without tokens counts as free.
        """
        is_unknown = any(part.cost is None for part in by_model) if by_model else cost is None and tokens > 0
        total = self.cost if cost is None else (self.cost or Decimal(0)) + cost
        return SessionTotals(self.tokens + tokens, total, self.has_unknown_cost or is_unknown)
