"""The first lines of an empty transcript: name, model, folder, and three tips; and the last lines of the app. Pure."""

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
    """The facts of a run that the first paint shows.

    `model` is the model and why it was chosen, in lines. `folder` is abbreviated with `~`, `branch` is its git branch,
    `instructions` are the names of the instruction files.
    """

    model: tuple[str, ...]
    folder: str
    branch: str = ""
    instructions: tuple[str, ...] = ()
    version: str = __version__

    def lines(self) -> tuple[str, ...]:
        """Return the lines, sanitized."""
        location = one_line(self.folder) + (f" ({one_line(self.branch)})" if self.branch else "")
        chosen, *notes = map(one_line, self.model)
        lines = [
            f"qcode {self.version}",
            f"Model   {chosen}",
            *(f"        {note}" for note in notes),
            f"Folder  {location}",
        ]
        if self.instructions:
            lines.append(f"Reads   {', '.join(map(one_line, self.instructions))}")
        return (*lines, "", *(f"· {tip}" for tip in TIPS))


def farewell(seconds: float, tokens: int, cost: str, reply: str, *, can_resume: bool) -> str:
    """Return the lines printed after leaving the app: what the run took, and how to resume.

    They follow `reply`, the last reply, if it is not empty. `cost` is empty if unknown.
    """
    facts = (age_text(seconds), f"{tokens_text(tokens)} tokens" if tokens else "", cost)
    lines = [f"{clean(reply).rstrip()}\n"] if reply.strip() else []
    lines.append(" · ".join(fact for fact in facts if fact))
    if can_resume:
        lines.append("Resume with: qcode -c")
    return "\n".join(lines) + "\n"
