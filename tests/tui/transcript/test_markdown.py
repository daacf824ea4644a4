"""Markdown as rows of styled text."""

from __future__ import annotations

import pytest

from qcode.tui.transcript.line import source_text
from qcode.tui.transcript.markdown import MarkdownStream
from tests.tui.transcript.rendering import lines_of, rows_of, slots_of


def test_heading_is_styled_without_its_marks() -> None:
    assert rows_of("## Title") == ["Title"]
    assert slots_of("## Title", "Title") == ("heading", "heading-2")


def test_setext_headings_and_rules_are_distinguished() -> None:
    assert rows_of("Title\n---\n\n---", 10) == ["Title", "", "─" * 10]


@pytest.mark.parametrize(
    ("source", "slot"),
    [("**word**", "strong"), ("*word*", "emphasis"), ("~~word~~", "strike"), ("`word`", "code")],
)
def test_inline_marks_become_styles(source: str, slot: str) -> None:
    assert rows_of(source) == ["word"]
    assert slots_of(source, "word") == (slot,)


def test_nested_styles_are_combined() -> None:
    assert slots_of("> **a *word***", "word") == ("quote", "strong", "emphasis")


def test_paragraph_is_reflowed_and_hard_breaks_stay() -> None:
    assert rows_of("one\ntwo  \nthree") == ["one two", "three"]


def test_text_that_looks_like_markup_is_shown_unchanged() -> None:
    text = "[bold]x[/bold] [@click=app.quit]y[/] <b>z</b>"
    assert rows_of(text) == [text]


def test_link_shows_its_real_target() -> None:
    assert rows_of("see [the docs](https://example.com/a)") == ["see the docs (https://example.com/a)"]
    assert rows_of("[https://good.example](https://evil.example)") == ["https://good.example (https://evil.example)"]


def test_link_with_its_target_as_text_is_shown_once() -> None:
    assert rows_of("<https://example.com> and [https://a.example/](https://a.example)") == [
        "https://example.com and https://a.example/"
    ]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("[x](https://e.example/p)", "https://e.example/p"),
        ("go to https://e.example/p.", "https://e.example/p"),
        ("[x](file:///etc/passwd)", ""),
        ("[x](src/app.py)", ""),
    ],
)
def test_only_web_targets_can_be_opened(source: str, target: str) -> None:
    assert {style_of.href for line in lines_of(source) for _, style_of in line.spans} - {""} == (
        {target} if target else set()
    )


def test_image_is_named_and_never_fetched() -> None:
    assert rows_of("![a cat](https://e.example/cat.png)") == ["[image: a cat] (https://e.example/cat.png)"]


def test_reference_definition_stays_visible() -> None:
    assert rows_of("[text][1]\n\n[1]: https://e.example") == ["[text][1]", "", "[1]: https://e.example"]


def test_lists_nest_with_hanging_indents() -> None:
    source = "- a text that is long\n  - inner\n    1. first\n    2. second\n- b"
    assert rows_of(source, 16) == ["• a text that is", "  long", "  ◦ inner", "    1. first", "    2. second", "• b"]


def test_task_items_have_boxes() -> None:
    assert rows_of("- [ ] open\n- [x] done") == ["☐ open", "☑ done"]


def test_blank_lines_between_items_are_kept_as_written() -> None:
    assert rows_of("- a\n- b\n\n- c\n\n  more") == ["• a", "• b", "", "• c", "", "  more"]


def test_repeated_list_numbers_are_incremented() -> None:
    assert rows_of("1. a\n1. b\n\n1. c") == ["1. a", "2. b", "", "3. c"]


def test_list_numbers_are_kept_across_a_code_block() -> None:
    assert rows_of("1. a\n```\nx\n```\n2. b") == ["1. a", " x", "2. b"]


def test_quote_has_a_bar_on_every_row() -> None:
    assert rows_of("> one two\n>\n> > three", 12) == ["│ one two", "│", "│ │ three"]


def test_item_without_room_beside_its_mark_is_below_it() -> None:
    assert rows_of("- a\n  - b\n    - c\n      - dd", 14)[-2:] == ["      ▪", "      dd"]


def test_deep_nesting_stops_indenting_before_the_width_is_used_up() -> None:
    bars = "│ " * 6
    assert rows_of(">" * 30 + " deep inside", 20) == [bars + "deep", bars + "inside"]


@pytest.mark.parametrize("depth", [19, 20, 21, 39, 40, 41, 200])
@pytest.mark.parametrize("mark", ["> ", "- "])
def test_no_text_is_lost_at_any_depth(depth: int, mark: str) -> None:
    assert "deep" in "\n".join(rows_of(mark * depth + "deep", 40))


def test_fenced_code_keeps_every_space_and_names_its_language() -> None:
    assert rows_of("```text\n  a\n\n    b  c\n```") == [" text", "   a", "", "     b  c"]


def test_fence_inside_an_item_belongs_to_it() -> None:
    assert rows_of("1. do\n\n   ```\n   # not a heading\n   ```\n2. next") == [
        "1. do",
        "",
        "    # not a heading",
        "2. next",
    ]


def test_unclosed_fence_is_code_to_the_end() -> None:
    assert rows_of("```\na\n\n# b") == [" a", "", " # b"]


def test_fence_is_closed_only_by_as_many_marks() -> None:
    assert rows_of("````\n```\n````\nafter") == [" ```", "after"]


def test_html_is_text_and_line_breaks_break() -> None:
    assert rows_of("<div>a</div>\nb<br>c") == ["<div>a</div> b", "c"]


def test_entities_cannot_add_characters_that_cleaning_removes() -> None:
    text = "\n".join(rows_of("a&#x202e;b&#27;c&#x9b;d\n\n```x&#x202e;y\n```"))
    assert not any(character in text for character in "\u202e\x1b\x9b")


def test_escape_sequences_are_removed_inside_code_too() -> None:
    assert rows_of("a\x1b[31mb\n\n```\nc\x1b]0;title\x07d\n```") == ["ab", "", " cd"]


def test_copied_text_is_the_source_without_gutters_and_wraps() -> None:
    lines = lines_of("> a quoted text that is long\n\n```py\nx = 1\nlonger_name = 22222222\n```\n- one\n- two", 18)
    assert source_text(lines) == "a quoted text that is long\n\nx = 1\nlonger_name = 22222222\n• one\n• two"


@pytest.mark.parametrize("width", [80, 40, 20])
def test_nothing_is_wider_than_the_screen(width: int) -> None:
    source = (
        "# T\n\n"
        + "word " * 40
        + "\n- "
        + "x" * 100
        + "\n\n| a | b |\n|-|-|\n| "
        + "y " * 60
        + "| z |\n\n```\n"
        + "c" * 90
    )
    assert max(line.width for line in lines_of(source, width)) <= width


def test_headings_of_different_levels_look_different() -> None:
    slots = {level: slots_of(f"{'#' * level} title", "title") for level in (1, 2, 3, 4)}
    assert len(set(slots.values())) == 3
    assert slots[3] == slots[4]


def test_prose_stays_narrow_on_a_wide_screen_and_code_does_not() -> None:
    words = "word " * 60
    for text in (words, f"## {words}", f"- {words}", f"> {words}"):
        assert 100 <= max(map(len, rows_of(text, 200))) <= 112
        assert max(map(len, rows_of(text, 80))) <= 80
    code = rows_of(f"```\n{'x' * 180}\n```", 200)
    assert max(map(len, code)) >= 180


def test_long_paragraph_has_the_same_width_while_it_grows() -> None:
    stream = MarkdownStream(200)
    for _ in range(2_000):
        stream.feed("word word ")
    stream.render_open_end()
    live = max(line.width for line in stream.lines)
    stream.finish()
    assert live == max(line.width for line in stream.lines) <= 110
