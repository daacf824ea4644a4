"""Vim mode without vim: what a table can say, units of several characters, undo, and texts from outside."""

from __future__ import annotations

import time

import pytest

from qcode.tui.prompt.vim.grammar import VIM_KEYS, InvalidKeysError, parse
from qcode.tui.prompt.vim.machine import Vim
from qcode.tui.prompt.vim.undo import UndoHistory, difference
from qcode.tui.prompt.vim.units import Units
from tests.tui.vim.real import ESCAPE, REDO, Typist


def typed(text: str, *commands: str, at: int = 0) -> str:
    """Return the text after the commands, with `|` before the character under the cursor."""
    typist = Typist(text, at)
    for command in commands:
        typist.type(command)
    return f"{typist.text[: typist.cursor]}|{typist.text[typist.cursor :]}"


TABLE = [
    ("one two three", "dw", "|two three"),
    ("one two three", "d2w", "|three"),
    ("one two three", "2d1w", "|three"),
    ("one two three", "cwnew" + ESCAPE, "ne|w two three"),
    ("one two three", "wD", "one| "),
    ("one two three", "wyiwP", "one tw|otwo three"),
    ("one two three", "xp", "n|oe two three"),
    ("one two three", "fwr_", "one t|_o three"),
    ("one two three", "tt;x", "one two|three"),
    ("one two three", "$F x", "one two|three"),
    ("one two three", "e~", "onE| two three"),
    ("one two three", "gUiw", "|ONE two three"),
    ("one two three", "g~~", "|ONE TWO THREE"),
    ("one two three", "vwd", "|wo three"),
    ("one two three", "wviwp", "one R|R three"),
    ("one\ntwo\nthree", "jdd", "one\n|three"),
    ("one\ntwo\nthree", "ddp", "two\n|one\nthree"),
    ("one\ntwo\nthree", "Vjd", "|three"),
    ("one\ntwo\nthree", "J", "one| two\nthree"),
    ("one\ntwo\nthree", "3J", "one two| three"),
    ("one\ntwo\nthree", ">j", "    |one\n    two\nthree"),
    ("one\ntwo\nthree", "Vj>.", "        |one\n        two\nthree"),
    ("one\ntwo\nthree", "yyGp", "one\ntwo\nthree\n|one"),
    ("one\ntwo\nthree", "onew" + ESCAPE, "one\nne|w\ntwo\nthree"),
    ("one\ntwo\nthree", "GOnew" + ESCAPE, "one\ntwo\nne|w\nthree"),
    ("one\n\ntwo\nthree\n\nfour", "}dap", "one\n|\nfour"),
    ('say "hello there" now', 'ci"bye' + ESCAPE, 'say "by|e" now'),
    ("call(first, [1, 2])", "di(", "call(|)"),
    ("call(first, [1, 2])", "f[da[", "call(first, |)"),
    ("{ a: 1 }", "ci{x" + ESCAPE, "{|x}"),
    ("if (a) {b}", "%", "if (a|) {b}"),
    ("one two", "ihey " + ESCAPE + "w.", "hey hey| one two"),
    ("a b c d", "dw..", "|d"),
    ("one", "3ix" + ESCAPE, "xx|xone"),
    ("one", "A!" + ESCAPE + "2.", "one!!|!"),
]


@pytest.mark.parametrize(("text", "keys", "expected"), TABLE, ids=[keys for _, keys, _ in TABLE])
def test_keys_change_the_text(text: str, keys: str, expected: str) -> None:
    assert typed(text, keys) == expected


def test_every_operator_is_undone_and_redone_in_one_step() -> None:
    text = "one (two) three\n\n  four five\nsix"
    commands = [
        "dw", "dd", "2dd", "x", "3X", "D", "cwnew\x1b", "ccnew\x1b", "C!\x1b", "inew\x1b", "onew\x1b", "3Anew\x1b",
        ">>", "VG>", "gUU", "g~~", "J", "3J", "p", "P", "yyp", "~", "rZ", "vjd", "Vjd", "viwp", "ggVGd", "di(",
        "vjJ", "S!\x1b",
    ]  # fmt: skip
    for command in commands:
        typist = Typist(text, 5)
        typist.type(command)
        changed = typist.text
        assert changed != text, command
        typist.type("u")
        assert typist.text == text, command
        typist.type(REDO)
        assert typist.text == changed, command


def test_undo_goes_back_through_every_command_and_ends_at_the_first_text() -> None:
    typist = Typist("one two three", 0)
    typist.type(f"dwiX{ESCAPE}A end{ESCAPE}0x")
    seen = []
    for _ in range(6):
        typist.type("u")
        seen.append(typist.text)
    assert seen == ["Xtwo three end", "Xtwo three", "two three", *["one two three"] * 3]
    typist.type("9" + REDO)
    assert typist.text == "two three end"


def test_change_from_outside_is_undone_like_a_command() -> None:
    vim = Vim()
    vim.reset("draft", 5)
    vim.press("escape", "draft", 5)
    undone = vim.press("u", "from the history", 3)
    assert undone is not None
    assert undone.text == "draft"


def test_undo_in_insert_mode_reverts_typed_text_and_typing_continues() -> None:
    vim = Vim()
    vim.reset("", 0)
    assert vim.undo("typed", 5, is_redo=False).text == ""
    assert vim.mode == "insert"
    assert vim.undo("", 0, is_redo=True).text == "typed"


def test_unfinished_and_unknown_commands_change_nothing() -> None:
    for keys in ("d", "2", "d2", 'd"', "di", "f", "r", "dq", "gz", "zz", "dix", "q", "Z", "d" + ESCAPE, "3" + ESCAPE):
        typist = Typist("one two", 2)
        typist.type(keys)
        assert (typist.text, typist.cursor) == ("one two", 2), keys


def test_every_listed_key_is_a_command() -> None:
    listed_keys = {key.removesuffix(",") or key for keys, _ in VIM_KEYS for key in keys.split()}
    assert all(
        any(begins_command(key, is_visual=is_visual) for is_visual in (False, True))
        for key in listed_keys - {"Esc", "…"}
    )


def begins_command(keys: str, *, is_visual: bool) -> bool:
    """Whether a command begins with `keys`, which may name a text object."""
    typed = ["ctrl+r"] if keys == "Ctrl+R" else list(keys)
    typed = ["d", *typed] if typed[0] in "ia" and len(typed) > 1 else typed
    try:
        parse(typed, is_visual=is_visual)
    except InvalidKeysError:
        return False
    return True


def test_unknown_key_after_an_operator_cancels_it() -> None:
    assert typed("one two", "dqx") == "|ne two"


def test_named_key_without_a_command_is_not_handled() -> None:
    vim = Vim()
    vim.reset("one", 0)
    vim.press("escape", "one", 0)
    for key in ("ctrl+a", "f5", "ctrl+w", "pageup"):
        assert vim.press(key, "one", 0) is None


def test_escape_is_handled_only_if_it_cancels_or_leaves_a_mode() -> None:
    vim = Vim()
    vim.reset("one", 3)
    assert vim.press("escape", "one", 3) is not None
    assert vim.press("escape", "one", 2) is None
    vim.press("d", "one", 2)
    assert vim.press("escape", "one", 2) is not None
    vim.press("v", "one", 2)
    assert vim.press("escape", "one", 2) is not None
    assert vim.press("escape", "one", 2) is None


def test_huge_counts_are_executed_quickly() -> None:
    started = time.process_time()
    for keys in ("999999999dd", "99999l", "99999.", "9999u", "99999>>", "88888j", "99999w"):
        typed("one\ntwo", "x", keys)
    assert time.process_time() - started < 5


LABEL = "[Pasted text #1 +50 lines]"


def units() -> Units:
    return Units(lambda line: [(at, at + len(LABEL)) for at in [line.find(LABEL)] if at >= 0])


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        "café",
        "cafe\u0301",
        "👨\u200d👩\u200d👧 family",
        "日本語",
        f"see {LABEL} e\u0301",
        "\U000f0000 private",
        "🇩🇪🇫🇷",
    ],
)
def test_packed_text_is_restored(text: str) -> None:
    packer = units()
    assert packer.unpack(packer.pack(text)) == text


def test_grapheme_and_label_are_one_character() -> None:
    packer = units()
    packed = packer.pack(f"e\u0301👨\u200d👩\u200d👧{LABEL}🇩🇪")
    assert len(packed) == 4
    assert [packer.width(character) for character in packed] == [1, 2, len(LABEL), 2]


def test_equal_graphemes_share_a_character_and_others_do_not() -> None:
    packer = units()
    first = packer.pack("e\u0301 👨\u200d👩\u200d👧")
    assert packer.pack("e\u0301 👨\u200d👩\u200d👧") == first
    assert packer.pack("a\u0301") not in first


def test_word_motion_takes_accents_with_their_word_and_labels_as_words() -> None:
    packer = units()
    vim = Vim(packer.width)
    text = packer.pack(f"cafe\u0301s {LABEL} x")
    vim.reset(text, 0)
    vim.press("escape", text, 0)
    for key in "dw":
        edited = vim.press(key, text, 0)
    assert edited is not None
    assert packer.unpack(edited.text) == f"{LABEL} x"
    text = edited.text
    for key in "dw":
        edited = vim.press(key, text, 0)
    assert edited is not None
    assert packer.unpack(edited.text) == "x"


def test_difference_is_the_part_that_changed() -> None:
    assert difference("one two three", "one 2 three") == (4, "two", "2")
    assert difference("aaa", "aa") == (2, "a", "")
    assert difference("", "new") == (0, "", "new")
    assert difference("same", "same") == (4, "", "")


def test_undo_history_is_bounded() -> None:
    history = UndoHistory()
    history.begin("", 0)
    for number in range(2_000):
        history.record(str(number), 0)
    steps = 0
    while history.undo() is not None:
        steps += 1
    assert steps == 500


def test_commands_on_a_text_of_100_000_characters_are_quick() -> None:
    text = ("word (pair) " * 20 + "\n\n") * 420
    typist = Typist(text, len(text) // 2)
    started = time.process_time()
    commands = (
        "w",
        "dw",
        "u",
        "ci(x\x1b",
        ".",
        "dap",
        "u",
        "}",
        "{",
        "%",
        "VGd",
        "u",
        "J",
        ">ip",
        "gUip",
        "yyp",
        "G",
        "gg",
    )
    for command in commands:
        typist.type(command)
    assert time.process_time() - started < 0.05 * len(commands) * 2
