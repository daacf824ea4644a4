"""Background jobs for the user: a notice at each end, the number in the status line, and `/jobs` as text.

`JobWatch` serves the app and the linear mode. The screens of `/jobs` are in `screens.jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from qcode.protocol.events import Level
from qcode.text.clean import clean, title_line
from qcode.text.numbers import age_text, count_text
from qcode.text.redrawn import redrawn
from qcode.tools.shell import background_job
from qcode.tui.transcript.cards import CardState, CardUpdate
from qcode.tui.transcript.line import crop

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.tools.jobs import Job

_NO_JOBS = "No background jobs. The model starts them"
_COMMAND_CELLS = 60


class JobWatch:
    """Watches the background jobs of a session. `clock` returns seconds, `notify` shows a notice.

    `show_count` gets the number of running jobs after each start and end.
    """

    def __init__(
        self,
        agent: Agent,
        clock: Callable[[], float],
        *,
        notify: Callable[[Level, str], None],
        show_count: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._jobs = agent.toolbox.jobs
        self._conversation = agent.conversation
        self._clock = clock
        self._notify = notify
        self._show_count = show_count
        self.background_key = ""
        """The key that moves a running command to the background, such as `Ctrl+B`; empty if there is none."""
        self.update_card: Callable[[str, CardUpdate], None] = lambda call_id, update: None
        """Updates the card of a call; set by the app, which shows the state of a job on the card of its command."""
        self.ring: Callable[[str], None] = lambda text: None
        """Rings, and notifies with its text, if the terminal has no focus; set by the app."""
        # By the number of a job.
        self._cards: dict[int, str] = {}  # the id of the call whose card shows the job
        self._started_at: dict[int, float] = {}  # in seconds
        self._sent_totals: dict[int, int] = {}  # `Job.total` when the output was last attached
        self._silent_stops: set[int] = set()  # jobs whose stop a screen shows, so that no notice reports it

    @property
    def empty_text(self) -> str:
        """The text in place of an empty list of jobs."""
        by_key = f", or {self.background_key} moves a running command to the background" if self.background_key else ""
        return f"{_NO_JOBS}{by_key}."

    @property
    def all(self) -> tuple[Job, ...]:
        return self._jobs.all

    @property
    def running(self) -> tuple[Job, ...]:
        return self._jobs.running

    def report_change(self, job: Job) -> None:
        """Show that `job` started or ended. Called in the event loop."""
        self._show_count(len(self.running))
        if job.is_running:
            self._started_at[job.number] = self._clock() - job.earlier_s
            return
        self._show_card(job)
        if job.number in self._silent_stops and job.problem == "stopped":
            return
        has_succeeded = _has_succeeded(job)
        ending = f'Job {job.number} ended ({job.state}): "{command_of(job)}".'
        text = f"{ending} /jobs {job.number} shows its output."
        self._notify("info" if has_succeeded else "warning", text)
        self.ring(f"qcode: job {job.number} has ended ({job.state})")

    def after_shell_line(self, card_id: str, summary: str) -> None:
        """Ring after the end of a shell line, or follow the job to which it was moved."""

        if background_job(summary):
            self.follow(card_id, summary)
        else:
            self.ring("qcode: a command has ended")

    def follow(self, call_id: str, summary: str) -> None:
        """Show the state of a job on the card of its call. `summary` is that of the call's result."""
        number = background_job(summary)
        job = next((job for job in self.all if job.number == number), None)
        if job is not None:
            self._cards[job.number] = call_id
            self._show_card(job)

    def _show_card(self, job: Job) -> None:
        """Update the card of a job, if it has one: its state, and its latest output once it has ended."""
        call_id = self._cards.get(job.number)
        hint = f"/jobs {job.number} shows its output"
        if call_id is None:
            return
        if job.is_running:
            summary = f"in background, {hint}"
            self.update_card(call_id, CardUpdate(state="running", summary=summary, hint=""))
            return
        del self._cards[job.number]
        state: CardState = "done" if _has_succeeded(job) else "failed"
        if job.problem == "stopped":
            state = "stopped"
        summary = hint if state == "stopped" else f"{job.state}, {hint}"
        self.update_card(call_id, CardUpdate(state=state, output=job.latest(), summary=summary))

    def find(self, number: str) -> Job:
        """Return the job with this number; raise `ValueError` with one line if there is none."""
        for job in self.all:
            if str(job.number) == number:
                return job
        numbers = ", ".join(str(job.number) for job in self.all)
        raise ValueError(f"There is no job {number}. Jobs: {numbers}." if numbers else self.empty_text)

    async def stop(self, job: Job, *, sends_notices: bool = True) -> str:
        """Stop a job, or return a sentence that it has already ended.

        `sends_notices`: False if a screen shows the end of the job and the sentence itself.
        """
        if job.is_running:
            if not sends_notices:
                self._silent_stops.add(job.number)
            await self._jobs.stop(job)
            return ""
        text = f"Job {job.number} has already ended ({job.state})."
        if sends_notices:
            self._notify("info", text)
        return text

    def send(self, job: Job) -> str:
        """Attach the latest output of a job to the next message to the model; return a sentence for the user.

        Raise `ValueError` with the reason if the job has no output that is not yet attached.
        """
        if not job.recent.strip():
            raise ValueError(f"Job {job.number} has {missing_output(job)}.")
        if self._sent_totals.get(job.number) == job.total:
            raise ValueError(f"Job {job.number} has no new output since you attached it.")
        from qcode.agent.context.attachments import job_block

        self._sent_totals[job.number] = job.total
        self._conversation.attach((job_block(job),))
        size = count_text(job.recent.rstrip("\n").count("\n") + 1, "line")
        return f"Attached the output of job {job.number} ({size}) to your next message."

    def forget_sent(self) -> None:
        """Allow the output of each job to be attached again: the user has removed an attachment."""
        self._sent_totals.clear()

    def state_of(self, job: Job) -> str:
        """Return the state of a job, and how long it has been running: `running 3 min`."""
        if not job.is_running or job.number not in self._started_at:
            return job.state
        return f"running {age_text(self._clock() - self._started_at[job.number])}"

    def listing(self) -> str:
        """Return all jobs as text, one line each."""
        if not self.all:
            return self.empty_text
        rows = [f"{job.number}  {self.state_of(job)}  {command_of(job)}" for job in self.all]
        hint = "/jobs NUMBER shows the output, /jobs stop NUMBER stops the job."
        send_hint = "/jobs send NUMBER attaches the output to your next message."
        return "\n".join([*rows, "", hint, send_hint])

    def details(self, job: Job) -> str:
        """Return a job with its latest output as text."""
        output = clean(redrawn(job.latest())).strip("\n")
        return f"{self.state_of(job)}: {command_of(job)}\n\n{output or f'({missing_output(job)})'}"


def missing_output(job: Job) -> str:
    """Return the words for a job without output."""
    return "no output yet" if job.is_running else "no output"


def _has_succeeded(job: Job) -> bool:
    return job.problem == "stopped" or (job.exit is not None and job.exit.exit_code == 0)


def command_of(job: Job) -> str:
    """Return the command of a job in one line, with everything visible."""
    return crop(title_line(job.command, _COMMAND_CELLS), _COMMAND_CELLS)


def quit_question(running: Sequence[Job]) -> str:
    """Return the question that is asked before qcode quits and stops the jobs in `running`."""
    return f"Quit and stop {count_text(len(running), 'background job')}?"


def commands_of(running: Sequence[Job]) -> str:
    """Return the commands of jobs in one line."""
    return crop(", ".join(command_of(job) for job in running), 4 * _COMMAND_CELLS)
