"""Text shown for approval: no character is hidden, and different texts look different."""

from __future__ import annotations

import json
import re
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qcode.text.clean import (
    ensure_visible,
    plain_line,
    quoted_line,
    show_hidden,
    title_line,
    visible,
    visible_json,
    visible_line,
    visible_lines,
    visible_rows,
)
from qcode.text.json import Json

# Characters that are dangerous somewhere, far more often than a random text would hold them.
HOSTILE = (
    "\\ \n\t\r\x00\x07\x1b\x7f\x85\x9b\xa0\xad\u034f\u061c\u115f\u1160\u180e\u2000\u200b\u200d\u2028\u2029\u202e\u2066"
    "\u2800\u3000\u3164\ue000\ufe0f\ufeff\uffa0\U000e0001\U000e0100\U000f0000\ud800\u0300\u0301\u0335\u20dd\u037e\u1fef"
    "\u212b\u1100\u1161\u3099\u23ce\u21e5\u21b5xuU0123456789abcdefe\u00e9\u304b"
)
TEXTS = st.text(st.one_of(st.sampled_from(HOSTILE), st.characters()), max_size=40)


def is_seen(char: str) -> bool:
    """Return whether a character is visible by its Unicode properties, independently of qcode."""
    category = unicodedata.category(char)
    name = unicodedata.name(char, "")
    is_blank = any(word in name for word in ("FILLER", "BLANK", "VARIATION SELECTOR", "GRAPHEME JOINER"))
    return char == " " or (category[0] not in "CZ" and not is_blank)


def read_back(shown: str) -> str:
    """Return the text for which `visible` returns `shown`."""
    return re.sub(
        r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})|(\u23ce)|(\u21e5   )",
        lambda found: "\n" if found[4] else "\t" if found[5] else chr(int(found[1] or found[2] or found[3], 16)),
        shown,
    )


@given(TEXTS)
@example("\\u200b")
@example("\\\\u200b\u200b")
@example("a\u0335\u0335\u0335")
@example("\t ")
def test_visible_text_holds_no_invisible_character_and_can_be_read_back(text: str) -> None:
    visible_text = visible(text)
    assert all(map(is_seen, visible_text)), ascii(visible_text)
    assert not visible_text.endswith(" ") or visible_text.endswith("\u21e5   ")
    assert read_back(visible_text) == text
    assert unicodedata.is_normalized("NFC", visible_text)


@given(TEXTS)
def test_visible_lines_break_only_at_line_breaks_of_the_text(text: str) -> None:
    visible_text = visible_lines(text)
    assert visible_text.replace("\u23ce\n", "\u23ce") == visible(text)
    assert "\n" not in visible_text.replace("\u23ce\n", "")
    assert visible_text.count("\n") == text.count("\n")
    assert ensure_visible(visible_text) == visible_text


@given(TEXTS, TEXTS)
def test_visible_rows_keep_line_breaks_and_add_none(first: str, second: str) -> None:
    row, other = first.replace("\n", ""), second.replace("\n", "")
    visible_text = visible_rows(f"{row}\n{other}").splitlines()
    assert len([line for line in (row, other) if line]) == len([line for line in visible_text if line])
    assert ensure_visible(visible_rows(f"{row}\n{other}")) == visible_rows(f"{row}\n{other}")


@given(st.recursive(TEXTS | st.integers() | st.booleans(), lambda one: st.lists(one) | st.dictionaries(TEXTS, one)))
def test_visible_json_is_json_of_the_same_value_without_invisible_characters(value: Json) -> None:
    visible_text = visible_json(value)
    assert all(char == "\n" or is_seen(char) for char in visible_text), ascii(visible_text)
    assert json.loads(visible_text) == value


@given(TEXTS)
def test_raw_text_is_made_visible_before_it_is_painted(text: str) -> None:
    assert all(
        char == "\n" or unicodedata.category(char)[0] not in "CZ" or char == " " for char in ensure_visible(text)
    )


@pytest.mark.parametrize(
    "text",
    [
        "ls -la",
        r"sed -E 's/\d+\.(\w)/\1/' C:\temp",
        "caf\u00e9",
        "\u0928\u092e\u0938\u094d\u0924\u0947",
        "\u0e17\u0e35\u0e48",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert visible(text) == visible_lines(text) == visible_rows(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb\u200b", r"a\u202eb\u200b"),
        ("rm\u3164 x", r"rm\u3164 x"),
        (r"printf '\x41\u200b'", r"printf '\x5cx41\x5cu200b'"),
        ("cd /\n\trm x\n", "cd /\u23ce\u21e5   rm x\u23ce"),
        ("\u037e", r"\u037e"),
        ("e\u0301", r"e\u0301"),
        ("ls ", r"ls\x20"),
        ("\u23ce\u21e5", r"\u23ce\u21e5"),
    ],
)
def test_ambiguous_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "part", ["a", "\\x", "\u200b", "\u00e9", "\u0915\u093e", "\u093e", "\u0335", "\u1100\u1161", "\n"]
)
def test_visible_takes_linear_time(part: str) -> None:
    def seconds(size: int) -> float:
        text = (part * size)[:size]
        start = time.process_time()
        visible_lines(text)
        return time.process_time() - start

    small = max(min(seconds(10_000) for _ in range(3)), 0.0005)
    assert seconds(100_000) < 25 * small


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("I am the **built-in `demo` model**.\n\nMore", "I am the built-in demo model. More"),
        ("## The *plan*\n- one\n> [docs](https://x.y)", "The plan one docs"),
        ("```python\n# x\nf(**a)\n```\nafter", "# x f(**a) after"),
        ("***both*** and ``a`b``", "both and a`b"),
        ("f(*args, **kwargs) 2 * 3 __init__ src/**/*.py", "f(*args, **kwargs) 2 * 3 __init__ src/**/*.py"),
        ("`**kwargs` and #5 --flag `open", "**kwargs and #5 --flag `open"),
        ("```", "```"),
    ],
)
def test_plain_line_drops_the_marks_of_markdown_and_nothing_else(markdown: str, plain: str) -> None:
    assert plain_line(markdown, 200) == plain


def test_plain_line_is_cut_at_its_limit() -> None:
    assert plain_line("**" + "word " * 10_000, 20) == "**word word word wo…"


@pytest.mark.parametrize(
    "text",
    [
        "⚠\ufe0f careful",
        "# 👩\u200d💻 and ❤\ufe0f\u200d🔥",
        "👍🏽\u200d🌈",
        "1\ufe0f\u20e3 install #\ufe0f\u20e3",
        "ℹ\ufe0f note ‼\ufe0f",
        "\U0001fadf new",  # of Unicode 16, newer than the tables of Python 3.11
    ],
)
def test_emoji_of_a_shown_file_or_title_keep_their_invisible_parts(text: str) -> None:
    assert show_hidden(text) == title_line(text) == text
    assert title_line(f"echo '{text}' \u202e") == f"echo '{text}' \\u202e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\ufe0fb", "a\\ufe0fb"),
        ("⚠\ufe0f\ufe0f", "⚠\ufe0f\\ufe0f"),
        ("\ufe0f", "\\ufe0f"),
        ("x\u200dy", "x\\u200dy"),
        ("👍\u200d", "👍\\u200d"),
        ("pay\u202efile", "pay\\u202efile"),
        ("1\ufe0f2", "1\\ufe0f2"),
        ("🏴\U000e0068\U000e0069", "🏴\\U000e0068\\U000e0069"),
        ("👩\u200dx", "👩\\u200dx"),
        ("x\u200d👩", "x\\u200d👩"),
    ],
)
def test_invisible_character_outside_of_an_emoji_is_shown_in_a_file_and_a_title(text: str, shown: str) -> None:
    assert show_hidden(text) == title_line(text) == shown


def test_emoji_of_an_approval_show_their_invisible_parts() -> None:
    assert visible("👩\u200d💻 ❤\ufe0f") == "👩\\u200d💻 ❤\\ufe0f"


def test_line_of_a_text_marks_its_breaks_and_escapes_marks_that_it_contains() -> None:
    assert quoted_line(" one\n\ttwo\x1b[31m \u200bthree\n") == '"one⏎⇥   two \\u200bthree"'
    assert visible_line("a⏎b") == "a\\u23ceb"
    assert visible_line("long\n" * 100, 12) == "long⏎long⏎l…"
