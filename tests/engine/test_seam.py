"""The join of a continuation with the text before it: only repeated text is removed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.reply.seam import RESTART_MARK, Seam


def join(before: str, continuation: str, size: int = 3) -> str:
    """Feed the continuation in pieces of `size` characters; return the whole text."""
    seam = Seam(before)
    pieces = [seam.feed(continuation[start : start + size]) for start in range(0, len(continuation), size)]
    return before + "".join(pieces) + seam.flush()


TITLED = "# Title\n\nThe quick brown fox jumps over the lazy dog. Then the par"
CODE = "See:\n\n```python\ndef area(width, height):\n    return width"
INDENTED = "- Sizes:\n\n  | name | size |\n  |---|---|\n  | one | 1 |\n"
TABLE = "| name | size |\n|---|---|\n| one | 1 |\n| two |"

CLEANED: list[tuple[str, str, str, str]] = [
    ("an exact overlap inside a line", TITLED, "Then the parser runs.", "ser runs."),
    ("a short overlap inside a line", "We call the parser", "the parser once", " once"),
    ("a whole line", "first line\nsecond line\n", "second line\nthird line", "third line"),
    ("a lead-in", TITLED, "Continuing from where I left off:\n\nser runs.", "ser runs."),
    ("a lead-in on the same line", TITLED, "Continuing from where we stopped: ser runs.", "ser runs."),
    ("a lead-in and an overlap", TITLED, "Sure, here is the rest:\n\nThen the parser runs.", "ser runs."),
    ("a fence opened again", CODE, "```python\n    return width * height\n```\n", " * height\n```\n"),
    ("a fence opened again, nothing replayed", CODE, "```python\n * height\n```", " * height\n```"),
    ("a replayed heading", "# T\n\nIntro.\n\n## Use\n\nFirst part. ", "## Use\n\nSecond part.", "Second part."),
    ("a replayed table header", TABLE + " 2 |\n", "| name | size |\n|---|---|\n| three | 3 |", "| three | 3 |"),
    (
        "a replayed table header, indented",
        TABLE + " 2 |\n",
        "  | name | size |\n  |---|---|\n  | three | 3 |",
        "| three | 3 |",
    ),
    ("an indented header", INDENTED, "| name | size |\n|---|---|\n| two | 2 |", "| two | 2 |"),
    ("a replayed heading, indented", "## Use\n\nFirst part. ", "  ## Use\n\nSecond part.", "Second part."),
    ("a restart that reaches the end", TITLED, TITLED + "ser runs.", "ser runs."),
    ("a short restart that reaches the end", "Hello wor", "Hello world", "ld"),
    ("a lead-in before an indented line", CODE + "\n", "Continuing where I left off:\n\n    # end", "    # end"),
    ("a lead-in before a blank", "built in", "Continuing from where I left off:\n\n 1871 by", " 1871 by"),
    ("a lead-in before a paragraph", "It ended.", "Resuming where I stopped:\n\n\n\nThen came", "\n\nThen came"),
    ("a lead-in before a list item", "- one\n- two", "Continuing:\n\n- three", "\n\n- three"),
    ("a lead-in on the line of a blank", "built in", "Continuing from where I left off:  1871 by", " 1871 by"),
    ("a lead-in on the line of the text", "built in 18", "Continuing from where I left off: 71 by", "71 by"),
    ("a lead-in in two sentences", TITLED, "Sorry for the cut. Continuing where I left off:\n\nser.", "ser."),
    ("a lead-in in two lines", TITLED, "Sure!\n\nContinuing from where I left off:\n\nser.", "ser."),
    ("a lead-in in brackets", TITLED, "[Continuing from where I left off]\n\nser.", "ser."),
    ("a lead-in about a cut-off", TITLED, "Continuing from the cut-off point:\nser.", "ser."),
    ("a German lead-in", TITLED, "Ich fahre dort fort, wo ich aufgehört habe:\n\nser.", "ser."),
    ("a French lead-in", TITLED, "Je continue là où je me suis arrêté :\n\nser.", "ser."),
    ("a Spanish lead-in", TITLED, "Continúo donde lo dejé:\n\nser.", "ser."),
    ("a Chinese lead-in", TITLED, "接着上文继续:\n\nser.", "ser."),
    ("a fence with its language in other words", CODE, "```py\n    return width * 2", " * 2"),
    ("a bare fence opened again inside a line", CODE, "```\n    return width * 2\n```", " * 2\n```"),
    ("a bare fence before an indented line", CODE + "\n", "```\n    # end\n```", "    # end\n```"),
    ("a fence whose line was cut", "See:\n\n```py", "```python\nimport os", "thon\nimport os"),
    ("a heading that was cut", "# T\n\nIntro.\n\n## Usa", "## Usage\n\nRun it.", "ge\n\nRun it."),
    ("a heading at the end", "# T\n\nIntro.\n\n## Usage", "## Usage\n\nRun it.", "\n\nRun it."),
    ("a replayed heading before a block", "## Use\n\nLike this:", "## Use\n\n\n\n```sh\nls", "\n\n```sh\nls"),
    ("a replayed table header before a new row", TABLE + " 2 |", TABLE[:26] + "| three | 3 |", "\n| three | 3 |"),
    ("a replayed table header inside a row", TABLE, "| name | size |\n|---|---|\n 2 |\n", " 2 |\n"),
    ("a replayed heading and the first letters", "# T\n\nIn.\n\n## Use\n\nTh", "## Use\n\nThis way.", "is way."),
    ("a short reply from its heading on", "# T\n\nSo", "# T\n\nSome text.", "me text."),
    ("a replayed table header and the start of a row", TABLE[:28], TABLE[:26] + "| three | 3 |", "three | 3 |"),
    ("a replayed heading with a note", "# T\n\n## Use\n\nFirst part. ", "## Use (continued)\n\nSecond.", "Second."),
    ("a replayed heading with a dash", "# T\n\n## Use\n\nFirst part. ", "## Use – cont.\n\nSecond.", "Second."),
    ("a lead-in that quotes the end", TITLED, 'Continuing from "Then the par":\nser runs.', "ser runs."),
    ("a lead-in that names the reply", TITLED, "Continuing the response:\n\nser runs.", "ser runs."),
    ("a lead-in of two sentences", TITLED, "Sure, here's the rest. Resuming where I stopped:\nser.", "ser."),
    ("a whole line at the end of the reply", "a = 1\nx += 1\n", "x += 1\n", ""),
    ("a row that begins like the row before", TABLE + " 2 |\n| t", "two | 2 |\n| three", "hree"),
    ("white space before an overlap", TITLED, "\n\njumps over the lazy dog. Then the parser", "ser"),
]

KEPT: list[tuple[str, str, str]] = [
    ("a clean continuation", TITLED, "ser runs."),
    ("a coincidence of three characters", "one and two and", "and three"),
    ("a list opener", "- one\n- ", "- two"),
    ("a line that follows twice more", "a = 1\nx += 1\n", "x += 1\nx += 1\nend"),
    ("a line that follows twice more, before its end", "a = 1\nx += 1", "\nx += 1\nx += 1\nend"),
    ("the rest of a line that repeats the one before", "a = 1\nx += 1\nx +", "= 1\nx += 1\nend"),
    ("a row that repeats the one before", "| a |\n|---|\n| none | 0 |\n| non", "e | 0 |\n| end"),
    ("a new heading that only begins alike", "## Use\n\nFirst part. ", "## Use continuous mode\n\nRun."),
    ("a numbered list opener", "1. one\n", "1. two"),
    ("a run of one character", "==========", "=========="),
    ("a repeated word", "it is very very very ", "very very good"),
    ("a line that recurs", "pass\n    retry()\npass\n    retry()\n", "    retry()\nend"),
    ("the next column of a table's second row", "| a | b |\n|---", "|---|\n| 1 | 2 |"),
    ("the next wide column", "| a | b |\n|" + "-" * 24, "|" + "-" * 24 + "|\n| 1 | 2 |"),
    ("a fence inside a longer one", "````markdown\nLike:\n\n", "```js\nlet a;\n```\n````\n"),
    ("a fence inside a separate text", "```markdown\n# T\n\n", "```sh\nls\n```\n"),
    ("a bare fence that closes, and prose", CODE + "\n", "```\nThat is all."),
    ("a bare fence that closes behind a line", CODE, "```\n\nThat is all."),
    ("a first chapter", "", "Continuing from where I left off:\n"),
    ("a sentence in German", "Und ", "weiter geht es mit dem zweiten Teil:\n\nDort."),
    ("a closing fence", CODE, "\n```\nDone."),
    ("a fence that is really new", "Some text.\n\n", "```python\nprint(1)\n```"),
    ("prose equal to something far earlier", "A sentence that is here.\n" + "x y z\n" * 3, "A sentence"),
    ("a heading that recurs", "### Example\na\n\n### Example\nb\n\n", "### Example\nc"),
    ("a word that only begins like a lead-in", "Then ", "continue with the next step.\nDone."),
    ("a sentence about continuing", "Steps:\n", "Continue with the next step.\nThen stop."),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("before", "continuation", "added"), [row[1:] for row in CLEANED], ids=[r[0] for r in CLEANED])
def test_replayed_text_is_removed(before: str, continuation: str, added: str, size: int) -> None:
    assert join(before, continuation, size) == before + added


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("before", "continuation"), [row[1:] for row in KEPT], ids=[row[0] for row in KEPT])
def test_possibly_intended_repetition_is_kept(before: str, continuation: str, size: int) -> None:
    assert join(before, continuation, size) == before + continuation


SIZES = st.sampled_from([1, 2, 5, 17, 1000])
OPENINGS = (
    "",
    "Sure!\n\n",
    "Sorry. ",
    "Continuing from where I left off:",
    "(continued)\n",
    "```\n",
    "```py\n",
    "## Use\n",
)
BEFORE = (
    "It ended.",
    "```py\nx = 1",
    "````md\n",
    "# T\n\n## Use\n\nIt was ",
    "| a |\n|---|\n| 1 |\n| 2 |",
    "- one\n- two",
)
BLANKS = ("", " ", "\n", "\n\n", "\r\n", " \n  ", "\n\n\n\t")
BEGINNINGS = ("", "- x", "-x", "| a |\n|---|\n| 3 |", "Then", "then", "#", "``", "    y", "1. z", "a" * 250)


@given(
    st.sampled_from(BEFORE),
    *(st.sampled_from(part) for part in (OPENINGS, BLANKS, OPENINGS, BLANKS, BEGINNINGS)),
    SIZES,
)
def test_result_does_not_depend_on_how_an_opening_is_split(
    before: str, first: str, blank: str, second: str, more: str, rest: str, size: int
) -> None:
    continuation = first + blank + second + more + rest
    assert join(before, continuation, size) == join(before, continuation, max(1, len(continuation)))
    assert join(before, continuation, size).endswith(rest.strip()) or rest.startswith(("|", "`"))


def test_restart_with_other_text_is_marked() -> None:
    joined = join(TITLED, "# Title\n\nThe quick brown cat sat down.")
    assert joined == TITLED + RESTART_MARK + "cat sat down."


def test_possible_replay_is_held_back() -> None:
    seam = Seam(TITLED)
    assert [seam.feed(piece) for piece in ("Then ", "the ", "par")] == ["", "", ""]
    assert seam.feed("ser") == "ser"


def test_no_line_break_is_added_inside_json() -> None:
    seam = Seam('{"content": "One.', is_json=True)
    assert seam.feed('Continuing from where I left off:\n\n\n- two"}') + seam.flush() == '- two"}'


def test_filter_without_earlier_text_passes_everything() -> None:
    seam = Seam("")
    assert seam.feed("Continuing from where I left off:\n") == "Continuing from where I left off:\n"


# Lines that differ from each other, as the lines of real text do.
LINES = st.lists(
    st.text(alphabet="abcdefghij klmnop.,:;()'\"-_=+*/<>äöß漢字🙂", min_size=1, max_size=40), min_size=1, max_size=12
).map(lambda lines: "\n".join(f"{index} {line} {index * 7919 % 1000}" for index, line in enumerate(lines)))


@given(LINES, st.data(), SIZES)
def test_text_split_anywhere_joins_exactly_without_a_replay(text: str, data: st.DataObject, size: int) -> None:
    at = data.draw(st.integers(0, len(text)))
    assert join(text[:at], text[at:], size) == text


@given(LINES, st.data(), SIZES)
def test_text_whose_tail_is_replayed_joins_exactly(text: str, data: st.DataObject, size: int) -> None:
    at = data.draw(st.integers(0, len(text)))
    back = data.draw(st.integers(0, at))
    replayed = text[at - back : at]
    if back < 20 or text[:at].count(replayed) != 1:
        return
    assert join(text[:at], replayed + text[at:], size) == text


@given(st.text(max_size=60), st.text(max_size=60), SIZES)
def test_result_does_not_depend_on_how_a_continuation_is_split(before: str, continuation: str, size: int) -> None:
    assert join(before, continuation, size) == join(before, continuation, max(1, len(continuation)))


@given(st.text(max_size=60), st.text(max_size=60))
def test_removed_text_is_in_the_earlier_text_or_an_opening(before: str, continuation: str) -> None:
    joined = join(before, continuation)
    assert joined.startswith(before)
    added = joined[len(before) :].removeprefix(RESTART_MARK)
    assert continuation.endswith(added)
    taken = continuation[: len(continuation) - len(added)]
    assert taken.strip() in before
