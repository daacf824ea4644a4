"""Text that comes in pieces gives the rows of the same text at once."""

from __future__ import annotations

from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qcode.tui.transcript import entries
from qcode.tui.transcript.content import Content
from qcode.tui.transcript.entries import ReplyEntry
from qcode.tui.transcript.line import shown_text
from qcode.tui.transcript.markdown import MarkdownStream
from tests.fakes.examples import share
from tests.tui.transcript.rendering import facts, lines_of

PIECES = st.sampled_from(
    [
        *("```", "```py\n", "~~~\n", "    ", "  ", "- ", "* ", "1. ", "2) ", "> ", "# ", "| a | b |\n", "|---|---|\n"),
        *(
            "---\n",
            "===\n",
            "\n",
            "\n\n",
            "\t",
            "**",
            "*",
            "_",
            "`",
            "~~",
            "[x](http://e.x)",
            "[ ] ",
            "![i](u)",
            "<br>",
        ),
        *("&#x202e;", "&#9;", "&#10;", "\r\n", "日本", "👨‍👩‍👧", "❤️", "\u0301", "\x1b[31m", "word ", "unbroken" * 9),
        *("def f(): pass\n", '"""', "/*", "<!--", "\\", "http://a.b/c", "  \n", "[", "](", ")", "<", "\u2028", "[/b]"),
    ]
)
MARKDOWN = st.lists(st.one_of(PIECES, PIECES, st.text(max_size=6)), max_size=40).map("".join)
CUTS = st.lists(st.integers(1, 12), min_size=1, max_size=40)
WIDTHS = st.sampled_from([20, 40, 80])


def split(text: str, cuts: list[int]) -> list[str]:
    pieces: list[str] = []
    position = 0
    while position < len(text):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(text[position : position + size])
        position += size
    return pieces


@settings(max_examples=share(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MARKDOWN, CUTS, WIDTHS)
def test_any_split_settles_to_the_same_rows(text: str, cuts: list[int], width: int) -> None:
    stream = MarkdownStream(width)
    for piece in split(text, cuts):
        stream.feed(piece)
        stream.render_open_end()
        assert all(line.width <= width for line in stream.lines)
    stream.finish()
    assert facts(stream.lines) == facts(lines_of(text, width))


@settings(max_examples=share(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MARKDOWN, CUTS, WIDTHS, st.integers(0, 30))
def test_text_divided_into_parts_has_the_rows_of_the_whole(text: str, cuts: list[int], width: int, size: int) -> None:
    content = Content(lambda: 0.0)
    with mock.patch.object(entries, "_MIN_PART_CHARS", size):
        for piece in split(text, cuts):
            content.append_text(piece)
            for entry in content.entries:
                entry.update(width)
        content.settle()
    rows = [row for entry in content.entries for row in entry.rows(width)]
    assert facts(rows) == facts(lines_of(text, width))
    again = [row for entry in content.entries for row in (entry.rows(30), entry.rows(width))[1]]
    assert facts(again) == facts(rows)


def test_long_reply_is_divided_and_marks_stay_at_their_places() -> None:
    sections = [f"## Section {number}\n\n{'word ' * 100}\n\n1. one\n1. two\n\n" for number in range(40)]
    divided = Content(lambda: 0.0)
    for number, section in enumerate(sections):
        for content_text in (section[:70], section[70:]):
            divided.append_text(content_text)
            for entry in divided.entries:
                entry.update(60)
        if number % 9 == 0:
            divided.add_mark(f"MARK {number}")
    with mock.patch.object(entries, "_MIN_PART_CHARS", 10**9):
        whole = ReplyEntry()
        for number, section in enumerate(sections):
            whole.append(section)
            whole.update(60)
            if number % 9 == 0:
                whole.mark(f"MARK {number}")
    divided.settle()
    whole.settle()
    assert len(divided.entries) > 8
    assert facts([row for entry in divided.entries for row in entry.rows(60)]) == facts(whole.rows(60))


@settings(max_examples=share(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MARKDOWN, WIDTHS)
def test_any_text_fits_and_contains_no_terminal_sequence(text: str, width: int) -> None:
    for line in lines_of(text, width):
        assert line.width <= width
        assert not set(line.text) & set("\x1b\x9b\u202e\n\t\r\x07\u2028")


@settings(max_examples=share(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MARKDOWN, CUTS, st.data())
def test_marks_are_between_rows_and_change_none(text: str, cuts: list[int], data: st.DataObject) -> None:
    pieces = split(text, cuts)
    marked = data.draw(st.sets(st.integers(0, max(0, len(pieces) - 1)), max_size=3))
    live, rewrapped = ReplyEntry(), ReplyEntry()
    for index, piece in enumerate(pieces):
        for reply in (live, rewrapped):
            if index in marked:
                reply.mark(f"MARK{index}")
            reply.append(piece)
        live.update(40)
    rewrapped.update(80)
    for reply in (live, rewrapped):
        reply.settle()
    rows = live.rows(40)
    assert facts([line for line in rows if "── MARK" not in line.text]) == facts(lines_of(text, 40))
    assert sum("── MARK" in line.text for line in rows) == len(marked & set(range(len(pieces))))
    assert facts(rows) == facts(rewrapped.rows(40))


def test_settled_rows_are_never_rendered_again() -> None:
    stream = MarkdownStream(40)
    stream.feed("first\n\nsecond\n\nthird")
    stream.render_open_end()
    settled_lines = stream.lines[: stream.settled_count]
    assert shown_text(settled_lines) == "first"
    stream.feed(" and more\n\nfourth")
    stream.render_open_end()
    assert all(line is before for line, before in zip(stream.lines, settled_lines, strict=False))


def test_rows_of_a_long_open_fence_are_kept_while_it_grows() -> None:
    stream = MarkdownStream(40)
    stream.feed("```python\n" + "value = 1\n" * 50)
    stream.render_open_end()
    before = list(stream.lines)
    stream.feed("last = 2\n")
    stream.render_open_end()
    assert all(line is other for line, other in zip(stream.lines[1:50], before[1:50], strict=True))


def test_start_of_a_possible_mark_is_held_back() -> None:
    stream = MarkdownStream(40)
    shown = []
    for piece in ("text\n", "``", "`", "py\n", "x = 1\n"):
        stream.feed(piece)
        stream.render_open_end()
        shown.append(shown_text(stream.lines))
    assert shown == ["text", "text", "text", "text\n py", "text\n py\n x = 1"]


def test_mark_inside_a_paragraph_does_not_break_it() -> None:
    stream = MarkdownStream(20)
    stream.feed("one two three four fi")
    stream.add_mark("continued 1/3")
    stream.feed("ve six **seven")
    stream.feed("** eighth")
    stream.finish()
    assert shown_text(stream.lines).split("\n") == [
        "one two three four",
        "five six seven",
        "── continued 1/3 ───",
        "eighth",
    ]


def test_mark_inside_code_does_not_end_it() -> None:
    stream = MarkdownStream(24)
    stream.feed("```\na = 1\nb =")
    stream.add_mark("continued 1/3")
    stream.feed(" 2\nc = 3\n```\nafter")
    stream.finish()
    assert [line.text.strip("─ ") for line in stream.lines] == ["a = 1", "b = 2", "continued 1/3", "c = 3", "after"]
