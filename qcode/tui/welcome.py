"""The first lines of a transcript, and the lines printed after the app has ended. Pure.

The first lines name the version, the model, the folder and the instruction files, and give tips.
"""

from __future__ import annotations

from qcode import __version__
from qcode.text.clean import clean, one_line
from qcode.text.numbers import age_text, tokens_text
from qcode.values import dataclass

TIPS = (
    "Enter sends, Ctrl+J makes a new line.",
    "/ lists the commands, ? the keys.",
    "Esc interrupts and keeps the partial reply.",
)


@dataclass(frozen=True, slots=True)
class Welcome:
    """The facts of a run that the first paint shows."""

    model_lines: tuple[str, ...]
    """The name of the model, then the reasons for the choice, one on each line."""
    folder: str
    """The folder, abbreviated with `~`."""
    branch: str = ""
    """The git branch, empty outside a repository."""
    instructions: tuple[str, ...] = ()
    """The names of the instruction files."""
    version: str = __version__

    def lines(self) -> tuple[str, ...]:
        """Return the lines, sanitized."""
        location = one_line(self.folder) + (f" ({one_line(self.branch)})" if self.branch else "")
        model, *reasons = map(one_line, self.model_lines)
        lines = [
            f"qcode {self.version}",
            f"Model   {model}",
            *(f"        {reason}" for reason in reasons),
            f"Folder  {location}",
        ]
        if self.instructions:
            lines.append(f"Reads   {', '.join(map(one_line, self.instructions))}")
        return (*lines, "", *(f"· {tip}" for tip in TIPS))


def resume_hint(session_id: str, latest: str | None) -> str:
    """Return the line that names the command to resume a session, for the end of a run.

    `latest` is the id of the session that `qcode -c` opens, None if there is none.
    """
    return f"Resume with: qcode {'-c' if session_id == latest else f'-r {session_id}'}"


def farewell(seconds: float, tokens: int, cost: str, reply: str, *, resume: str) -> str:
    """Return the lines printed after the app: the last reply, then duration, tokens and cost, and how to resume.

    `seconds`, `tokens` and `cost` are those of the run; `cost` is empty if unknown. `reply` is the text of the last
    reply, empty to omit it. `resume` is the line of `resume_hint`, empty if the session was not saved. A run that used
    no tokens, such as a look at an earlier session, has no duration.
    """
    used = list(filter(None, (f"{tokens_text(tokens)} tokens" if tokens else "", cost)))
    facts = " · ".join([age_text(seconds), *used]) if used else ""
    lines = (f"{clean(reply).rstrip()}\n" if reply.strip() else "", facts, resume)
    return "".join(f"{line}\n" for line in lines if line)
