"""Long texts for the demo model: made up on the spot, the same on every run, no two lines alike.

Every line carries the number of its section, so a seam, a gap or a doubled passage can be seen and tested. Only
blank lines and closing code fences repeat.
"""

from __future__ import annotations

from functools import lru_cache

LONG_CHARS = 40_000
VERY_LONG_CHARS = 320_000
HUGE_CHARS = 280_000
ENDLESS_CHARS = 300_000

_SUBJECTS = (
    "a parser", "a cache", "a queue", "a retry loop", "a log", "a command line", "a test", "a schema", "an index",
    "a clock", "a lock", "a file format", "a release",
)  # fmt: skip
_ACTS = ("Naming", "Shrinking", "Measuring", "Splitting", "Guarding", "Explaining", "Retiring")
_OPENINGS = (
    "Section {n} begins with {it} that works and that nobody wants to touch.",
    "By section {n} there is {it}, and three people hold three ideas of what it is for.",
    "What section {n} asks of {it} is modest: do one thing, and say when it cannot be done.",
    "Section {n} is about {it} as it is on a Friday afternoon, not as it is on the whiteboard.",
    "In section {n} the first draft of {it} is thrown away, which takes courage and ten minutes.",
)
_MIDDLES = (
    "Write down what goes in and what comes out; keep example {n} beside it, and let it fail once.",
    "The smallest useful change (number {n} here) is the one whose effect you can see within a minute.",
    "Where two names compete, rule {n} says: keep the one that a newcomer would search for.",
    "Count before you tune: figure {n} on your list is never the one you expected to be slow.",
)
_ITEMS = (
    "- [{n}a] say what holds before and after, in one sentence",
    "- [{n}b] *one* reason to change; the second reason gets a place of its own",
    "- [{n}c] an error that names the file, the line and `option_{n}`",
    "- [{n}d] **no** silent fallback, not even for case {n}",
    "- [{n}e] a test called `test_rule_{n}_holds`",
)
_QUOTES = (
    "> Note {n}: what is shown must be what is stored.",
    "> Note {n}: a limit is a fact to plan with, not a reason to stop.",
    "> Note {n}: if it cannot be explained, it cannot be repaired.",
)


@lru_cache(maxsize=8)
def guide(characters: int) -> str:
    """Return a Markdown guide of at least `characters` characters and less than one section more."""
    lines = ["# A field guide to small programs", "", "Everything below is made up by the built-in demo model.", ""]
    size, number = sum(len(line) + 1 for line in lines), 0
    while size < characters:
        number += 1
        section = _section(number)
        lines += section
        size += sum(len(line) + 1 for line in section)
    lines.append(f"That is the end of the guide: {number} sections, numbered from 1 to {number}, none missing.")
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=2)
def musing(characters: int) -> str:
    """Return at least `characters` characters of numbered thinking."""
    lines: list[str] = []
    size = 0
    while size < characters:
        number = len(lines) + 1
        subject = _SUBJECTS[number * 5 % len(_SUBJECTS)]
        lines.append(f"Thought {number}: what if {subject} were not needed at all? Then thought {number + 1} is next.")
        size += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def _section(n: int) -> list[str]:
    subject = _SUBJECTS[n % len(_SUBJECTS)]
    lines = [f"## {n}. {_ACTS[n % len(_ACTS)]} {subject}", ""]
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
    return ("read it aloud", "take one thing out", "run it with no input", "ask who would miss it")[n % 4]


def _code(n: int) -> list[str]:
    return [
        f"```python title=rule_{n}.py",
        f"def rule_{n}(value: int) -> int:",
        f'    """Return value moved by {n}; the caller keeps the old one."""',
        f"    moved_{n} = value + {n}",
        f"    return max(moved_{n}, 0)",
        "```",
    ]
