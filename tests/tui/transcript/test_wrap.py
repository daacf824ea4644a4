"""Breaking text into rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from qcode.tui.transcript.line import break_code, break_text, clusters, crop, shorten_start, source_text, style_of, wrap


def rows(text: str, width: int) -> list[str]:
    return [text[start:end] for start, end, _ in break_text(text, width)]


def test_text_breaks_at_words_and_drops_the_space() -> None:
    assert rows("one two three", 8) == ["one two", "three"]


def test_word_longer_than_the_row_is_cut() -> None:
    assert rows("a " + "x" * 12, 5) == ["a", "xxxxx", "xxxxx", "xx"]


def test_cut_word_leaves_no_lone_closing_character() -> None:
    assert rows("~/a (feature)", 8) == ["~/a", "(featur", "e)"]
    assert rows("(файлы-тут)", 10) == ["(файлы-ту", "т)"]
    assert rows("xxxxxxxxx", 8) == ["xxxxxxxx", "x"]


def test_ending_of_a_wide_file_name_stays_with_its_last_character() -> None:
    assert rows("源代码/项目文件.py", 16) == ["源代码/项目文", "件.py"]
    assert rows("(源代码文件.tar.gz)", 11) == ["(源代码文", "件.tar.gz)"]


def test_wide_characters_break_between_each_other_and_count_twice() -> None:
    assert rows("日本語のテキスト", 7) == ["日本語", "のテキ", "スト"]


def test_closing_punctuation_stays_with_its_text() -> None:
    assert rows("日本語。日本", 6) == ["日本", "語。日", "本"]


def test_joined_emoji_and_combining_marks_are_never_torn() -> None:
    family = "👨‍👩‍👧"
    assert list(clusters(f"e\u0301{family}❤️")) == ["e\u0301", family, "❤️"]
    assert all(family in row for row in rows(family * 6, 4))


def test_shortened_start_of_a_path_keeps_accents_with_their_letters() -> None:
    assert shorten_start("docs/re\u0301sume\u0301.md", 7) == "…ume\u0301.md"
    assert shorten_start("docs/日本語.md", 7) == "…語.md"


def test_leading_spaces_are_kept() -> None:
    assert rows("    indented text here", 14) == ["    indented", "text here"]


def code_rows(text: str, width: int) -> list[str]:
    return [text[start:end] for start, end, _ in break_code(text, width)]


def test_code_breaks_at_a_space_in_the_second_half_of_the_row() -> None:
    assert code_rows("def process(items: list[str], *, separator: str)", 36) == [
        "def process(items: list[str], *,",
        "separator: str)",
    ]
    assert code_rows("return total", 6) == ["return", "total"]
    assert code_rows("return total", 11) == ["return", "total"]


def test_code_without_a_space_is_cut_at_the_width() -> None:
    assert code_rows("x = " + "y" * 16, 10) == ["x = yyyyyy", "yyyyyyyyyy"]
    assert code_rows(" " * 8 + "y" * 8, 10) == [" " * 8 + "yy", "yyyyyy"]
    assert code_rows("日本 語のテキスト", 7) == ["日本", "語のテ", "キスト"]


@given(st.text(alphabet=" ab\u00e9\u0301日👨\u200d", max_size=60), st.integers(1, 20))
def test_wrapped_code_fits_its_rows_and_copies_as_its_original_text(text: str, width: int) -> None:
    lines = wrap([(text, style_of())], width, is_code=True)
    assert source_text(lines) == text
    assert all(line.width <= width or len(list(clusters(line.text))) == 1 for line in lines)


def test_wrapped_rows_copy_as_their_original_text() -> None:
    text = "The quick  brown fox\njumps over averyveryverylongword indeed"
    assert source_text(wrap([(text, style_of())], 9)) == text


def test_crop_leaves_room_for_its_ellipsis() -> None:
    assert crop("abcdef", 4) == "abc…"
    assert crop("abcd", 4) == "abcd"
    assert cell_len(crop("日本語", 4)) <= 4


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"]), max_size=80), st.integers(4, 30))
def test_no_row_exceeds_the_width_and_no_word_is_lost(text: str, width: int) -> None:
    pieces = rows(text, width)
    assert all(cell_len(piece) <= width for piece in pieces)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
