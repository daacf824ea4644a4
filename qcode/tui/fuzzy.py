"""Finding what somebody means by a few letters: every word typed has to be in the text, in one piece or in order.

Pure and linear in the length of the text, so that it can run over thousands of rows with each key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qcode.protocol.values import dataclass

_WHOLE = 1_000
_START = 100
_WORD_START = 40


@dataclass(frozen=True, slots=True)
class Match:
    """How well a text fits: the higher the better. `places` are the characters that did, in order."""

    score: int
    places: tuple[int, ...]


def match(query: str, text: str) -> Match | None:
    """Return how `query` fits `text`, None where it does not. An empty query fits everything alike."""
    score = 0
    places: set[int] = set()
    folded = fold(text)
    for word in fold(query).split():
        found = _in_one_piece(word, folded) or _in_order(word, folded)
        if found is None:
            return None
        score += found.score
        places.update(found.places)
    return Match(score, tuple(sorted(places)))


def rank(query: str, texts: Iterable[Sequence[str]]) -> list[int]:
    """Return the indexes of `texts` that fit, the best first and equals in their order.

    Each text is given in parts, the most telling one first: a word found there counts more.
    """
    found: list[tuple[int, int]] = []
    for index, parts in enumerate(texts):
        score = _score(query, parts)
        if score is not None:
            found.append((-score, index))
    return [index for _, index in sorted(found)]


def fold(text: str) -> str:
    """Return `text` without regard to case, character for character."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(one if len(one.lower()) != 1 else one.lower() for one in text)


def _score(query: str, parts: Sequence[str]) -> int | None:
    score = 0
    for word in query.split():
        fits = [(place, found) for place, part in enumerate(parts) if (found := match(word, part)) is not None]
        if not fits:
            return None
        score += max(found.score - place * _WHOLE // 2 for place, found in fits)
    return score


def _in_one_piece(word: str, text: str) -> Match | None:
    at = text.find(word)
    if at < 0:
        return None
    best = at
    while at >= 0 and not _is_word_start(text, best):
        if _is_word_start(text, at):
            best = at
            break
        at = text.find(word, at + 1)
    score = _WHOLE + (_START if best == 0 else 0) + (_WORD_START if _is_word_start(text, best) else 0) - min(best, 30)
    return Match(score, tuple(range(best, best + len(word))))


def _in_order(word: str, text: str) -> Match | None:
    """Take each letter where a word starts with it if that leaves room for the rest, else at its next place."""
    latest = _latest_places(word, text)
    if latest is None:
        return None
    places: list[int] = []
    score = 0
    at = 0
    for letter, limit in zip(word, latest, strict=True):
        place = text.index(letter, at)
        start = next((i for i in range(place, limit + 1) if text[i] == letter and _is_word_start(text, i)), None)
        if start is not None and not (places and place == places[-1] + 1):
            place = start
        score += _WORD_START if _is_word_start(text, place) else 0
        score -= min(place - at, 10)
        places.append(place)
        at = place + 1
    return Match(score, tuple(places))


def _latest_places(word: str, text: str) -> list[int] | None:
    """Return for each letter the last place that still leaves room for those after it."""
    places: list[int] = []
    end = len(text)
    for letter in reversed(word):
        end = text.rfind(letter, 0, end)
        if end < 0:
            return None
        places.append(end)
    return places[::-1]


def _is_word_start(text: str, index: int) -> bool:
    return index == 0 or (text[index].isalnum() and not text[index - 1].isalnum())
