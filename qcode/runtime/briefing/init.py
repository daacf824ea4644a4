"""What `/init` asks of the model: to look at the project, and to write its instruction file or make it better."""

from __future__ import annotations

_NEW = "Look around this folder and write an AGENTS.md for it."
_BETTER = "Look around this folder and improve its {name}."

_WHAT = """\
{name} is read by coding assistants at the start of each session. It saves them the time to find out what you find out \
now, so it holds what cannot be seen at a glance and nothing else.

Find out first, and state only what you have seen:
- `ls` and `glob` for the layout; the files that say how the project is built, tested, checked and run (manifests, \
Makefile, CI configuration), the README and the contributing guide where there are some; two or three source files of \
the kind that matters most, with a test of them.
- instructions that are there for other assistants (`CLAUDE.md`, `GEMINI.md`, `.cursor/rules`, \
`.github/copilot-instructions.md`): take over what holds.

Then the file:
- Commands: set up, build, run, all tests, one single test, linter, formatter, type checker; exactly as they are typed.
- Layout: the parts and how they hang together, as far as it takes several files to understand.
- Habits: naming, style, errors, tests; what a newcomer gets wrong here. No general advice.
- Short: under about 100 lines of Markdown. No key, password or address of a person.
"""
_WRITE = "Write it to `AGENTS.md` in this folder with one call, then say in two lines what it holds."
_CHANGE = (
    "Improve `{name}`, which is there already: read it, keep what is right as it is worded, correct what is wrong, add "
    "what is missing, take out what says nothing. Then say in a few lines what you changed, or that nothing needs to."
)


def init_prompt(existing: str, wish: str = "") -> str:
    """Return the prompt; `existing` is the name of the file that is there, `wish` what the person added."""
    name = existing or "AGENTS.md"
    first = _BETTER.format(name=existing) if existing else _NEW
    last = _CHANGE.format(name=existing) if existing else _WRITE
    parts = [first, _WHAT.format(name=name), f"The person adds: {wish.strip()}" if wish.strip() else "", last]
    return "\n\n".join(part.strip() for part in parts if part)
