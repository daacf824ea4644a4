"""Check docstrings, comments, messages and pages against the style of the project (see CONTRIBUTING.md, "Style").

    python -m scripts.prose                      the paths in prose.toml, and word counts for every package
    python -m scripts.prose qcode/tui README.md  these paths, whether they are in prose.toml or not

`prose.toml` lists the paths that must pass, the banned patterns, and the allowed exceptions, each with a reason.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

ROOT = Path(__file__).parents[1]
CONFIG = Path(__file__).with_name("prose.toml")
MAX_LINE = 100  # characters in a page
THE_PERSON = "person"
MAX_PER_1000 = {"what": 3.0, "where": 2.0, THE_PERSON: 0.0}
"""The maximum number of each word per 1,000 words of docstrings in a checked package."""
MIN_WORDS = 1_000
"""The minimum number of words in the docstrings of a package for this check."""

LAYOUT = ("line too long", "table without a header")

Kind: TypeAlias = Literal["docstring", "comment", "message", "page"]
KINDS: tuple[Kind, ...] = ("docstring", "comment", "message", "page")

_START = r"(?:^|(?<=[.!?] )|(?<=[.!?]\n)|(?<=^\| ))"
"""The start of a sentence; `{start}` in a pattern of `prose.toml`."""
_STATEMENT = r"(?![^.!?\n]*\?)"
"""The sentence is not a question; `{statement}` in a pattern."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A docstring, comment, message or paragraph, with the file and number of its first line."""

    path: str
    line: int
    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Ban:
    """A pattern that the style forbids, by name, and the advice printed with each finding."""

    name: str
    pattern: re.Pattern[str]
    instead: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A banned pattern in a passage."""

    path: str
    line: int
    ban: str
    excerpt: str
    """The text around the pattern."""
    instead: str = ""

    def __str__(self) -> str:
        advice = f" [{self.instead}]" if self.instead else ""
        return f"{self.path}:{self.line}: {self.ban}{advice}: {self.excerpt}"


@dataclass(frozen=True, slots=True)
class Exemption:
    """An allowed finding: the file, the name of the ban, a part of the line, and the reason."""

    path: str
    ban: str
    text: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Return whether this entry allows `finding`."""
        return (self.path, self.ban) == (finding.path, finding.ban) and self.text in finding.excerpt


@dataclass(frozen=True, slots=True)
class Config:
    """The content of `prose.toml`."""

    checked: tuple[str, ...]
    """The paths that must pass."""
    checked_docstrings: tuple[str, ...]
    """The paths of which only docstrings and comments must pass."""
    bans: tuple[Ban, ...]
    allowed: tuple[Exemption, ...]


@cache
def passages(path: Path) -> tuple[Passage, ...]:
    """Return every passage of a Python file or a Markdown page."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return tuple(_page_passages(name, text))
    return (*_code_passages(name, text), *_comment_passages(name, text))


def _code_passages(name: str, text: str) -> Iterator[Passage]:
    """Yield the docstrings and the messages of a module. A message is a string that looks like prose."""
    docstrings: set[int] = set()
    nodes = tuple(ast.walk(ast.parse(text)))
    for node in nodes:
        for child in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            value = child.value if isinstance(child, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings.add(id(value))
                yield Passage(name, child.lineno, "docstring", _dedented(value.value))
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            docstrings.update(id(part) for part in node.values)
            yield from _message_passages(name, node.lineno, "".join(_literal(part) for part in node.values))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from _message_passages(name, node.lineno, node.value)


def _literal(part: ast.expr) -> str:
    """Return a part of an f-string as text, `X` for an inserted value."""
    return str(part.value) if isinstance(part, ast.Constant) else "X"


def _message_passages(name: str, line: int, text: str) -> Iterator[Passage]:
    """Yield a string that looks like prose: words with spaces between them, and no backslash as in a pattern."""
    if "\\" not in text and re.search(r"[A-Za-z]{2,} [A-Za-z]{2,}", text):
        yield Passage(name, line, "message", text)


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in _without_code(text).splitlines())


def _comment_passages(name: str, text: str) -> Iterator[Passage]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(name, token.start[0], "comment", _without_code(token.string.lstrip("#! ")))


def _page_passages(name: str, text: str) -> Iterator[Passage]:
    """Yield the paragraphs of a page, without its code. A table row and a list entry are passages too."""
    start, paragraph, fence = 0, list[str](), ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark:
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        starts = re.match(r"\s*(?:[-*] |\d+\. |#+ |\|)", line)
        if paragraph and (not line.strip() or mark or starts or fence):
            yield Passage(name, start, "page", "\n".join(paragraph))
            paragraph = []
        if not fence and not mark and line.strip():
            start = start if paragraph else number
            paragraph.append(_without_code(re.sub(r"^(?:\s|[-*>] |\d+\. |#+ )+", "", line)))


def _without_code(text: str) -> str:
    """Return `text` with `x` instead of code, link targets and addresses."""
    return re.sub(r"(`+)(?:(?!\1).)+?\1|\]\([^)]*\)|<https?:[^>]*>", "`x`", text, flags=re.DOTALL)


def findings(passage: Passage, bans: Sequence[Ban]) -> list[Finding]:
    """Return the banned patterns of a passage."""
    matches = []
    for ban in bans:
        for match in ban.pattern.finditer(passage.text):
            before = passage.text[: match.start()].count("\n")
            start = max(match.start() - 60, 0)
            excerpt = " ".join(passage.text[start : match.end() + 60].split())
            matches.append(Finding(passage.path, passage.line + before, ban.name, excerpt, ban.instead))
    return matches


def layout(path: Path) -> list[Finding]:
    """Return the overlong lines of a page and its tables without a header. Lines of tables and code may be long."""
    name = path.relative_to(ROOT).as_posix()
    is_fenced, problems = False, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        is_fenced ^= line.lstrip().startswith("```")
        if len(line) > MAX_LINE and not is_fenced and not line.lstrip().startswith(("|", "![", "http")):
            problems.append(Finding(name, number, LAYOUT[0], f"{len(line)} characters"))
        if not is_fenced and re.fullmatch(r"\|(?:[ -]*\|)+", line) and "-" not in line:
            problems.append(Finding(name, number, LAYOUT[1], line))
    return problems


def files(names: Sequence[str]) -> list[Path]:
    """Return the Python files and pages below these paths, which are relative to the project."""
    paths: set[Path] = set()
    for name in names:
        path = ROOT / name
        inside = [path] if path.is_file() else [*path.rglob("*.py"), *path.rglob("*.md")]
        paths.update(item for item in inside if not {"__pycache__", "__snapshots__", "data"} & set(item.parts))
    return sorted(paths)


def word_rates(name: str) -> tuple[int, dict[str, float]]:
    """Return the number of words in the docstrings below a path, and the rate of each limited word per 1,000 words."""
    text = " ".join(
        passage.text
        for path in files([name])
        if path.suffix == ".py"
        for passage in passages(path)
        if passage.kind == "docstring"
    )
    words = len(re.findall(r"[A-Za-z']+", text))
    counts = {
        "what": len(re.findall(r"\bwhat\b", text, re.IGNORECASE)),
        "where": len(re.findall(r"\bwhere\b", text, re.IGNORECASE)),
        THE_PERSON: len(re.findall(r"\b(?:the|a) person\b", text, re.IGNORECASE)),
    }
    return words, {word: 1000 * count / max(words, 1) for word, count in counts.items()}


def packages() -> list[str]:
    """Return the folders for which word counts are printed."""
    inside = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("qcode/*/__init__.py"))
    return [*inside, "qcode", "scripts", "tests"]


def check(names: Sequence[str], config: Config, kinds: Sequence[Kind] = KINDS) -> list[str]:
    """Return a line for each finding that is not allowed, and for each exemption that is no longer needed."""
    paths = files(names)
    all_passages = (passage for path in paths for passage in passages(path) if passage.kind in kinds)
    problems = [finding for passage in all_passages for finding in findings(passage, config.bans)]
    pages = [path for path in paths if path.suffix == ".md" and ROOT / "qcode" not in path.parents]
    problems += [item for path in pages for item in layout(path)]
    checked = {path.relative_to(ROOT).as_posix() for path in paths if kinds == KINDS}
    lines = [str(item) for item in problems if not any(exempt.covers(item) for exempt in config.allowed)]
    used = {id(exempt) for exempt in config.allowed if any(exempt.covers(finding) for finding in problems)}
    unused = (exempt for exempt in config.allowed if exempt.path in checked and id(exempt) not in used)
    return [
        *lines,
        *(f"prose.toml: {exempt.path} no longer needs the exemption of {exempt.text!r}" for exempt in unused),
    ]


def over_limit(names: Sequence[str]) -> list[str]:
    """Return a line for each folder whose docstrings use a limited word too often."""
    lines = []
    for name in names:
        words, rates = word_rates(name)
        for word, rate in rates.items():
            if words >= MIN_WORDS and rate > MAX_PER_1000[word]:
                lines.append(f"{name}: `{word}` {rate:.1f} per 1,000 words; the limit is {MAX_PER_1000[word]:g}")
    return lines


def load() -> Config:
    """Return the content of `prose.toml`. Raise `SystemExit` for an exemption without a reason or a known ban."""
    data = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    bans = tuple(Ban(name, _compiled(entry["pattern"]), entry["instead"]) for name, entry in data["ban"].items())
    allowed = tuple(Exemption(**entry) for entry in data.get("allow", ()))
    known = {*(ban.name for ban in bans), *LAYOUT}
    for item in allowed:
        if len(item.reason.split()) < 3 or item.ban not in known or not (ROOT / item.path).is_file():
            raise SystemExit(f"prose.toml: the exemption of {item.text!r} needs a file, a known ban and a reason")
    return Config(tuple(data["checked"]), tuple(data["checked_docstrings"]), bans, allowed)


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of `prose.toml`. A space also matches a line break. Only `{start}` makes it case-sensitive."""
    flags = re.MULTILINE if "{start}" in pattern else re.MULTILINE | re.IGNORECASE
    return re.compile(pattern.replace(" ", r"\s").format(start=_START, statement=_STATEMENT), flags)


def table() -> str:
    """Return the word counts of every package, and the limits, as text."""
    lines = [f"{'docstrings':18}{'words':>8}" + "".join(f"{word:>12}" for word in MAX_PER_1000)]
    for name in packages():
        words, rates = word_rates(name)
        lines.append(f"{name:18}{words:>8}" + "".join(f"{rate:>12.1f}" for rate in rates.values()))
    limits = "".join(f"{limit:>12g}" for limit in MAX_PER_1000.values())
    return "\n".join([*lines, f"{'limit':26}{limits}"])


def main(names: Sequence[str]) -> int:
    """Check `names`, by default the paths in `prose.toml`; return 1 if there is a finding."""
    config = load()
    chosen = list(names) or config.checked
    docstring_paths = () if names else config.checked_docstrings
    lines = [f"{name}: no such file or folder" for name in (*chosen, *docstring_paths) if not (ROOT / name).exists()]
    lines += [*check(chosen, config), *check(docstring_paths, config, ("docstring", "comment"))]
    lines += over_limit([name for name in (*chosen, *docstring_paths) if (ROOT / name).is_dir()])
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if not names:
        sys.stdout.write(table() + "\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
