"""Highlighting of fenced code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from qcode.tui.transcript.code import CodeBlock, Highlighter
from qcode.tui.transcript.line import Span, source_text, style_of
from tests.tui.transcript.rendering import facts, slots_of

DOCSTRING = ["def f():", '    """One', "    if two", '    """', "    return 1  # three"]


def slots(spans: list[Span]) -> set[str]:
    return {slot for _, style in spans for slot in style.slots}


def test_code_has_the_colors_of_its_language() -> None:
    source = "```python\ndef f():\n    return 'x'  # why\n```"
    assert slots_of(source, "def") == ("code-block", "code-keyword")
    assert slots_of(source, "'x'") == ("code-block", "code-string")
    assert slots_of(source, "# why") == ("code-block", "code-comment")


def test_unknown_language_stays_plain() -> None:
    assert slots_of("```nosuchlanguage\nif x\n```", "if x") == ("code-block",)


def test_growing_code_keeps_the_lexer_state_between_lines() -> None:
    highlighter = Highlighter("python")
    rows = [row for line in DOCSTRING for row in highlighter.highlight_next([line])]
    assert slots(rows[2]) == {"code-block", "code-string"}
    assert rows == highlighter.highlight_block(DOCSTRING)


def test_line_gets_its_colors_when_it_is_complete() -> None:
    block = CodeBlock("python", 30)
    assert slots(list(block.grow(["x = 1", 'y = """'])[-1].spans)) == {"code-block"}
    assert slots(list(block.grow(["x = 1", 'y = """', "if inside", ""])[-2].spans[1:])) == {"code-block", "code-string"}


@pytest.mark.parametrize(
    "language", ["json", "yaml", "html", "bash", "perl", "c", "js", "ruby", "pycon", "diff", "http", "php", "console"]
)
def test_every_line_keeps_its_text_with_any_lexer(language: str) -> None:
    lines = ["", "  <a b='c'>", "cat <<EOF", "{", '"k": [1, 2', "EOF", ">>> x", "/* a", "b */", "+x", "GET / HTTP/1.1"]
    highlighter = Highlighter(language)
    grown = [row for line in lines for row in highlighter.highlight_next([line])]
    for rows in (grown, highlighter.highlight_block(lines)):
        assert ["".join(text for text, _ in row) for row in rows] == lines


def test_finished_block_does_not_depend_on_how_it_grew() -> None:
    grown = CodeBlock("python", 30)
    for count in range(1, len(DOCSTRING) + 1):
        grown.grow(DOCSTRING[:count])
    assert facts(grown.finish(DOCSTRING)) == facts(CodeBlock("python", 30).finish(DOCSTRING))


def test_very_long_line_is_shown_without_colors() -> None:
    line = "x = " + "1 + " * 1000
    assert Highlighter("python").highlight_block([line]) == [[(line, style_of("code-block"))]]


def test_pygments_and_the_parser_are_not_loaded_with_the_widget() -> None:
    program = (
        "import sys, qcode.tui.transcript.transcript; "
        "print([name for name in ('pygments.lexers', 'pygments.lexer', 'markdown_it.main') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_long_code_is_highlighted_once_for_all_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[int] = []
    highlight = Highlighter.highlight_block

    def counted(self: Highlighter, lines: Sequence[str]) -> list[list[Span]]:
        blocks.append(len(lines))
        return highlight(self, lines)

    monkeypatch.setattr(Highlighter, "highlight_block", counted)
    source = [f"once_{number} = 'a text'" for number in range(400)]
    rows = [CodeBlock("python", width).finish(source) for width in (60, 12, 60)]
    assert blocks == [400]
    assert [row.spans for row in rows[0]] == [row.spans for row in rows[2]]


def test_long_line_breaks_at_a_space_and_its_next_row_has_a_mark_that_is_not_copied() -> None:
    source = ["def process(items: list[str], *, separator: str) -> int:", "    return 1"]
    rows = CodeBlock("", 38).finish(source)
    assert [row.text for row in rows] == [
        " def process(items: list[str], *,",
        "↳separator: str) -> int:",
        "     return 1",
    ]
    assert source_text(rows) == "\n".join(source)
