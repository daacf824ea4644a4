"""The edits of the demo model: turns the result of a `read` call into one exact replacement. Pure.

The replaced text is long enough to occur only once in the file, except in a replacement that the prompt contains.
"""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from qcode.providers.demo.scene import MAX_PROMPT_CHARS
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_NUMBERED_LINE = lazy_pattern(r" *(\d+)\t(.*)")
_REPLACE = lazy_pattern(
    r"\b(?:replace|change|rename)\s+(?P<old_quote>[\"'`]?)(?P<old>[^\n]+?)(?P=old_quote)\s+(?:with|to|by|into)\s+"
    r"(?P<new_quote>[\"'`]?)(?P<new>[^\n]+?)(?P=new_quote)\s+(?:in|inside)\b",
    re.IGNORECASE,
)
_NOTE = "Edited by the qcode demo model."
_LINE_COMMENTS = {"//": "c cc cpp cs go h java js jsx kt rs swift ts tsx", "--": "sql lua hs", ";": "ini lisp el"}
_BLOCK_COMMENTS = {("<!--", " -->"): "md html htm xml svg", ("/*", " */"): "css"}
_DOCUMENTED_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class DemoEdit:
    """One exact replacement."""

    old_text: str
    new_text: str
    summary: str
    """The edit in a few words, such as "added a comment as the last line"."""
    replace_all: bool = False


def text_in_result(result: str) -> str:
    """Return the text of the file in a result of the `read` tool, whose lines are a number, a tab and the text."""
    matches = (_NUMBERED_LINE.fullmatch(line) for line in result.split("\n"))
    return "\n".join(match[2] for match in matches if match)


def plan_edit(prompt: str, path: str, text: str) -> DemoEdit | None:
    """Return the edit that `prompt` asks for in the file at `path`, None if there is nothing to do.

    The edit is a replacement that the prompt contains, or in Python the first missing docstring. Otherwise it adds a
    comment as the last line, unless the prompt asks for a docstring.
    """
    replacement = _REPLACE.search(prompt[-MAX_PROMPT_CHARS:])
    if replacement:
        return _replacement(replacement["old"], replacement["new"], text)
    if path.endswith(".py"):
        edit = _docstring(path, text)
        if edit or "docstring" in prompt.lower():
            return edit
    return _last_line(path, text)


def without_replacement(prompt: str) -> str:
    """Return `prompt` without the words of a replacement, so that its texts are not mistaken for file names."""
    return _REPLACE.sub("", prompt[-MAX_PROMPT_CHARS:])


def new_file(path: str) -> str:
    """Return the text of the small file that is written if there is nothing to edit.

    A Python file has a function without a docstring, so that the user can ask for an edit next.
    """
    stem = PurePosixPath(path).stem
    if path.endswith(".py"):
        return (
            f'"""{stem}: written by the qcode demo model."""\n\n\ndef main() -> None:\n'
            '    print("Hello from the demo model.")\n\n\nif __name__ == "__main__":\n    main()\n'
        )
    if path.endswith(".md"):
        return f"# {stem}\n\nWritten by the qcode demo model.\n"
    return f"{comment(path, 'Written by the qcode demo model.')}\n"


def comment(path: str, text: str) -> str:
    """Return `text` as a comment in the language of the file at `path`; with `#` if the language is unknown."""
    kind = PurePosixPath(path).suffix.lstrip(".").lower()
    for mark, kinds in _LINE_COMMENTS.items():
        if kind in kinds.split():
            return f"{mark} {text}"
    for (opening, closing), kinds in _BLOCK_COMMENTS.items():
        if kind in kinds.split():
            return f"{opening} {text}{closing}"
    return text if kind in ("txt", "") else f"# {text}"


def _replacement(old: str, new: str, text: str) -> DemoEdit | None:
    count = text.count(old)
    if count == 0:
        return None
    return DemoEdit(old, new, f"replaced `{old}` with `{new}`", replace_all=count > 1)


def _docstring(path: str, text: str) -> DemoEdit | None:
    """Return the edit that adds the first missing docstring; None without one, or for invalid Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    lines = text.split("\n")
    undocumented = [
        node for node in ast.walk(tree) if isinstance(node, _DOCUMENTED_NODES) and _can_get_docstring(node, lines)
    ]
    if undocumented:
        node = min(undocumented, key=lambda candidate: candidate.lineno)
        words = node.name.strip("_").replace("_", " ").capitalize() or node.name
        return _insertion(text, _first_line(node.body[0]), f'"""{words}."""', f"a docstring to `{node.name}`")
    if ast.get_docstring(tree) is None and tree.body:
        stem = PurePosixPath(path).stem
        return _insertion(text, _first_line(tree.body[0]), f'"""What {stem} is for."""', "a docstring to the module")
    return None


def _can_get_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, lines: list[str]) -> bool:
    """Return whether `node` has no docstring and its body starts on a separate line."""
    first = node.body[0]
    return ast.get_docstring(node) is None and not lines[first.lineno - 1][: first.col_offset].strip()


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, _DOCUMENTED_NODES) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _insertion(text: str, number: int, line: str, addition: str) -> DemoEdit:
    """Return the edit that inserts `line` before line `number` (from 1) with the same indent.

    `addition` describes the line for the summary.
    """
    lines = text.split("\n")
    below = lines[number - 1]
    indent = below[: len(below) - len(below.lstrip())]
    start, end = _unique_range(lines, number - 1)
    before, after = lines[start : number - 1], lines[number - 1 : end]
    # A blank line follows the docstring of a module.
    gap = [] if indent else [""]
    return DemoEdit("\n".join(before + after), "\n".join([*before, indent + line, *gap, *after]), f"added {addition}")


def _last_line(path: str, text: str) -> DemoEdit | None:
    """Return the edit that adds a comment as the last line, None for a blank file."""
    lines = text.split("\n")
    non_blank = [number for number, line in enumerate(lines) if line.strip()]
    if not non_blank:
        return None
    start, end = _unique_range(lines, non_blank[-1])
    old = "\n".join(lines[start:end])
    last = lines[non_blank[-1]]
    indent = "" if path.endswith(".py") else last[: len(last) - len(last.lstrip())]
    return DemoEdit(old, f"{old}\n{indent}{comment(path, _NOTE)}", "added a comment as the last line")


class _LineRange(NamedTuple):
    """The indexes of adjacent lines."""

    start: int
    end: int
    """The index after the last line."""


def _unique_range(lines: list[str], index: int) -> _LineRange:
    """Return the smallest range around line `index`, extended upwards first, whose text occurs once."""
    text = "\n".join(lines)
    start, end = index, index + 1
    while not lines[start].strip() or text.count("\n".join(lines[start:end])) > 1:
        if start > 0:
            start -= 1
        elif end < len(lines):
            end += 1
        else:
            break
    return _LineRange(start, end)
