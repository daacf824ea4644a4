"""Puts values in the place of holes in a word, and says what is known of the word then. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from qcode.safety.shell.forms import MARK, Found, Word

STREAM = Word("/dev/fd/63", is_quoted=True, found=Found(()))
"""The name of a file from which a program reads what another prints."""

_UNSPLIT = re.compile(r"[\w@%+:,./^-][\w@%+=:,./^-]*", re.ASCII)
"""Text that stays one word outside quotes: no blank and no wildcard in it."""
_WILD = re.compile(r"[*?\[\\]")


def filled(word: Word, values: Sequence[Word]) -> Word:
    """Return `word` with `values` for its holes, in their order."""
    if not values:
        return word
    if word.text == MARK:
        return _alone(values[0], is_split=word.is_split)
    if all(value.is_known for value in values):
        return _joined(word, values)
    is_number = all(value.unknown == "number" or value.is_known for value in values)
    # A number is one word outside quotes as well, and so is what a pattern of names in quotes stands for.
    return Word(_with(word, values), unknown="words" if word.is_split and not is_number else "text")


def _alone(value: Word, *, is_split: bool) -> Word:
    if value.unknown:
        return replace(value, unknown="words") if is_split and value.unknown == "text" else value
    if value.found is not None and is_split and value.found.starts:
        return replace(value, found=replace(value.found, bounds="word"))
    if value.found is not None and value.is_many:
        return Word(MARK, unknown="text")
    if not is_split or value.found is not None:
        return replace(value, is_quoted=True)
    if value.has_glob:
        return replace(value, is_split=True)
    is_one = _UNSPLIT.fullmatch(value.text) is not None
    return replace(value, is_quoted=True) if is_one else Word(MARK, unknown="words")


def _joined(word: Word, values: Sequence[Word]) -> Word:
    text = _with(word, values)
    has_glob = any(value.has_glob for value in values)
    is_clear = not (has_glob and _WILD.search(word.text) and not word.has_glob)
    is_unsplit = not word.is_split or all(value.has_glob or _UNSPLIT.fullmatch(value.text) for value in values)
    leads = word.text.startswith(MARK)
    if not is_clear or not is_unsplit or any(value.is_home for value in values[1 if leads else 0 :]):
        return Word(text, unknown="words" if word.is_split else "text")
    is_home = word.is_home or (leads and values[0].is_home)
    is_one = has_glob and not word.has_glob
    return Word(text, not word.has_glob, is_home, has_glob or word.has_glob, is_split=word.is_split, is_one=is_one)


def _with(word: Word, values: Sequence[Word]) -> str:
    pieces = word.text.split(MARK)
    texts = [value.text if value.is_known else MARK for value in values]
    return pieces[0] + "".join(text + piece for text, piece in zip(texts, pieces[1:], strict=True))
