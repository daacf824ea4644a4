"""The long texts of the demo model: a guide in Markdown, and numbered thinking.

They are the same in every run. Their lines contain the number of the section, so tests can detect a gap or a repeated
passage.
"""

from __future__ import annotations

from functools import lru_cache

LONG_CHARS = 40_000
"""More than the first output cap of 8,000 tokens (32,000 characters)."""
VERY_LONG_CHARS, LONG_FILE_CHARS, LONG_THINKING_CHARS = 320_000, 280_000, 300_000
"""Each is more than 64,000 tokens (256,000 characters), the output cap of an escalation."""

_SUBJECTS = (
    "a parser", "a cache", "a queue", "a retry loop", "a log", "a command line", "a test", "a schema", "an index",
    "a clock", "a lock", "a file format", "a release",
)  # fmt: skip
_TITLE_VERBS = ("Naming", "Simplifying", "Measuring", "Splitting", "Protecting", "Documenting", "Replacing")
_OPENINGS = (
    "Section {n} covers {it} that works but is hard to change.",
    "Section {n} covers {it} that three teams use for three different purposes.",
    "Section {n} covers {it} with one task, and a clear error if that task fails.",
    "Section {n} covers {it} in production, where the input is larger than in any test.",
    "Section {n} covers {it} whose first draft was replaced after a review.",
)
_MIDDLES = (
    "Write down its inputs and outputs, keep example {n} next to them, and test one failure.",
    "Start with the smallest useful change: number {n} should show its effect within a minute.",
    "If two names compete, follow rule {n}: keep the one that a new developer would search for.",
    "Measure before you optimize: line {n} of the profile is rarely the one you expected.",
)
_ITEMS = (
    "- [{n}a] state the conditions before and after, in one sentence",
    "- [{n}b] *one* responsibility; move a second one to another module",
    "- [{n}c] an error that names the file, the line and `option_{n}`",
    "- [{n}d] **no** silent fallback, not even for case {n}",
    "- [{n}e] a test called `test_rule_{n}_holds`",
)
_QUOTES = (
    "> Note {n}: the displayed text and the stored text must be the same.",
    "> Note {n}: plan for a limit instead of stopping at it.",
    "> Note {n}: code that cannot be explained cannot be repaired.",
)


@lru_cache(maxsize=8)
def guide(characters: int) -> str:
    """Return a Markdown guide of at least `characters` characters. Its last line counts its sections."""
    lines = ["# A guide to small programs", "", "The built-in demo model made this text up.", ""]
    size, number = sum(len(line) + 1 for line in lines), 0
    while size < characters:
        number += 1
        section = _section(number)
        lines += section
        size += sum(len(line) + 1 for line in section)
    lines.append(f"End of the guide: {number} sections, numbered from 1 to {number}, none missing.")
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=2)
def numbered_thinking(characters: int) -> str:
    """Return at least `characters` characters of numbered thinking."""
    lines: list[str] = []
    size = 0
    while size < characters:
        number = len(lines) + 1
        subject = _SUBJECTS[number * 5 % len(_SUBJECTS)]
        lines.append(f"Thought {number}: is {subject} needed at all? If not, thought {number + 1} is next.")
        size += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def _section(n: int) -> list[str]:
    """Return the lines of section `n`."""
    subject = _SUBJECTS[n % len(_SUBJECTS)]
    lines = [f"## {n}. {_TITLE_VERBS[n % len(_TITLE_VERBS)]} {subject}", ""]
    lines.append(_OPENINGS[n % len(_OPENINGS)].format(n=n, it=subject))
    lines += [_MIDDLES[n % len(_MIDDLES)].format(n=n), ""]
    if n % 3 == 0:
        lines += _code(n)
    elif n % 3 == 1:
        lines += [_ITEMS[(n + i) % len(_ITEMS)].format(n=n) for i in range(3)]
    else:
        lines.append(_QUOTES[n % len(_QUOTES)].format(n=n))
        lines += ["", *(f"{i}. Step {n}.{i}: {_step(n + i)}" for i in (1, 2, 3))]
    return [*lines, ""]


def _step(n: int) -> str:
    return ("read it aloud", "remove one part", "run it without input", "ask who depends on it")[n % 4]


def _code(n: int) -> list[str]:
    return [
        f"```python title=rule_{n}.py",
        f"def rule_{n}(value: int) -> int:",
        f'    """Return value moved by {n}; the caller keeps the old one."""',
        f"    moved_{n} = value + {n}",
        f"    return max(moved_{n}, 0)",
        "```",
    ]
