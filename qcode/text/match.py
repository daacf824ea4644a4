"""Fuzzy search: `rank` for rows, `suggestion` for a misspelt name, `PathIndex` and `FuzzySearch` for paths. Pure.

An error about an unknown name gets a hint. `suggestion` guesses among names that users or servers choose, and may find
no similar name. `nearest_hint` always names one of a fixed set, such as the config keys.

In a row, each typed word must occur as a whole or as letters in order; the cost is linear in the text. Paths are ranked
by the position of the match: at the start of the file name, at the start of a word in it, anywhere in it, anywhere in
the path, then letters in order. Among equals, recently used and then short paths come first. An index is sorted by
length, so the first matches are the best ones and a search can stop early. 100,000 files are searched without delay.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice

from qcode.values import dataclass

# The bit of each letter in a mask; a path is skipped if its mask lacks a letter of the query.
_LETTERS = {letter: 1 << index for index, letter in enumerate("abcdefghijklmnopqrstuvwxyz0123456789._-/")}
# The ranks of a matching path, best first. If the query contains a slash, the first two are about components of the
# path: the query matches at its start, or at the start of a later component. Otherwise they are about the file name.
_AT_START = 0
_AT_WORD_START = 1
_IN_NAME = 2
_IN_PATH = 3
_SCATTERED_IN_NAME = 4
_SCATTERED_IN_PATH = 5

_RECENT_BONUS = 2
"""The number of ranks by which a recently used path moves up."""
_MAX_CANDIDATES = 20_000
"""The maximum number of paths that are examined for one rank, shortest first."""
_MAX_TOP_LEVEL = 200
"""The number of paths that are offered before the user types anything, topmost folders first."""


@dataclass(frozen=True, slots=True)
class FileMatch:
    """A path that matches a query."""

    path: str
    """Relative to the folder; the path of a folder ends in `/`."""
    matched_positions: tuple[int, ...] = ()
    """The indexes of the matched letters."""

    @property
    def is_folder(self) -> bool:
        return self.path.endswith("/")


@dataclass(frozen=True, slots=True)
class JoinedTexts:
    """Many short texts joined into one, so that a single `str.find` searches all of them."""

    texts: tuple[str, ...]
    """The number of a text is its index in this tuple."""
    joined: str
    """The texts, with a line break before and after each."""
    starts: tuple[int, ...]
    """The offsets of the texts in `joined`."""

    @staticmethod
    def of(texts: Iterable[str]) -> JoinedTexts:
        lines = tuple(texts)
        starts: list[int] = []
        start = 1
        for text in lines:
            starts.append(start)
            start += len(text) + 1
        return JoinedTexts(lines, "\n" + "\n".join(lines) + "\n", tuple(starts))

    def containing(self, words: str) -> Iterator[int]:
        """Yield the number of each text that contains `words`."""
        position = self.joined.find(words)
        while position >= 0:
            number = bisect_right(self.starts, position) - 1
            yield number
            position = self.joined.find(words, self.starts[number] + len(self.texts[number]))

    def starting_with(self, words: str) -> Iterator[int]:
        """Yield the number of each text that starts with `words`."""
        line_break = self.joined.find("\n" + words)
        while line_break >= 0:
            yield bisect_right(self.starts, line_break + 1) - 1
            line_break = self.joined.find("\n" + words, line_break + 1)


@dataclass(frozen=True, slots=True)
class PathIndex:
    """An immutable index of paths, sorted by length."""

    paths: tuple[str, ...]
    lower: JoinedTexts
    """The paths in lower case."""
    names: JoinedTexts
    """The last components of the paths."""
    letters: tuple[int, ...]
    """The mask of the letters of each path."""
    top: tuple[int, ...]
    """The numbers of the paths with the fewest parent folders."""
    positions: Mapping[str, int] = field(repr=False)
    """Maps each path to its number."""

    @staticmethod
    def of(files: Iterable[str]) -> PathIndex:
        """Return the index of these files and their folders."""
        visited: set[str] = set()
        for path in files:
            visited.add(path)
            slash = path.rfind("/", 0, -1)
            while slash >= 0 and path[: slash + 1] not in visited:
                visited.add(path[: slash + 1])
                slash = path.rfind("/", 0, slash)
        paths = tuple(sorted(visited, key=lambda path: (len(path), path)))
        lower = tuple(path.lower() for path in paths)
        name_starts = [path.rfind("/", 0, -1) + 1 for path in lower]
        names = [path[start:] for path, start in zip(lower, name_starts, strict=True)]
        masks: dict[str, int] = {}
        letters = tuple(
            _mask(path[:start], masks) | _mask(name, masks)
            for path, start, name in zip(lower, name_starts, names, strict=True)
        )
        candidates = range(min(len(lower), _MAX_CANDIDATES))
        topmost_first = sorted(candidates, key=lambda number: (lower[number].count("/", 0, -1), lower[number]))
        return PathIndex(
            paths,
            JoinedTexts.of(lower),
            JoinedTexts.of(names),
            letters,
            tuple(topmost_first[:_MAX_TOP_LEVEL]),
            {path: number for number, path in enumerate(paths)},
        )


class FuzzySearch:
    """Searches one index, and caches the candidates of the last query, because the next query often extends it."""

    def __init__(self, index: PathIndex) -> None:
        self._index = index
        self._pool: Sequence[int] = range(len(index.paths))
        self._query = ""

    def find(self, query: str, recent: Sequence[str] = (), limit: int = 50) -> tuple[FileMatch, ...]:
        """Return the best matches, at most `limit`."""
        words = query.lower().removeprefix("./").replace("\n", " ")
        index = self._index
        latest = [index.positions[path] for path in dict.fromkeys(recent) if path in index.positions]
        if not words:
            numbers = list(dict.fromkeys((*latest, *index.top)))[:limit]
            return tuple(FileMatch(index.paths[path_number]) for path_number in numbers)
        ranked: dict[int, int] = {}
        for path_number in latest:
            rank = _rank(index.names.texts[path_number], index.lower.texts[path_number], words)
            if rank is not None:
                ranked[path_number] = rank - _RECENT_BONUS
        size = limit + len(ranked) + 1
        for rank, hits in self._matches_by_rank(words):
            if len(ranked) >= size:
                break
            for path_number in islice(hits, size):
                ranked.setdefault(path_number, rank)
        if words.endswith("/"):
            # A user who typed a whole folder wants its contents, not the folder.
            ranked = {
                path_number: rank for path_number, rank in ranked.items() if index.lower.texts[path_number] != words
            }
        recency = {path_number: position for position, path_number in enumerate(latest)}

        def sort_key(path_number: int) -> tuple[int, int, int]:
            return ranked[path_number], recency.get(path_number, len(recency)), path_number

        return tuple(self._match(path_number, words) for path_number in sorted(ranked, key=sort_key)[:limit])

    def _match(self, path_number: int, words: str) -> FileMatch:
        path = self._index.paths[path_number]
        lower = self._index.lower.texts[path_number]
        # A letter whose lower case is longer, such as `İ`, would shift the positions.
        return FileMatch(path, _matched_positions(lower, words) if len(lower) == len(path) else ())

    def _matches_by_rank(self, words: str) -> Iterator[tuple[int, Iterable[int]]]:
        """Yield the matches of each rank, best first; a match of an earlier rank may appear again."""
        index = self._index
        names, lower = index.names, index.lower
        if "/" in words:
            yield _AT_START, lower.starting_with(words)
            yield _AT_WORD_START, islice(lower.containing(f"/{words}"), _MAX_CANDIDATES)
        else:
            yield _AT_START, names.starting_with(words)
            containing = islice(names.containing(words), _MAX_CANDIDATES)
            yield (
                _AT_WORD_START,
                (number for number in containing if _name_rank(names.texts[number], words) != _IN_NAME),
            )
            yield _IN_NAME, names.containing(words)
        yield _IN_PATH, lower.containing(words)
        candidates = self._narrow(words)
        has_letters = _scattered_pattern(words).search
        if "/" not in words:
            yield _SCATTERED_IN_NAME, (number for number in candidates if has_letters(names.texts[number]))
        yield _SCATTERED_IN_PATH, (number for number in candidates if has_letters(lower.texts[number]))

    def _narrow(self, words: str) -> Sequence[int]:
        """Return the paths that have every letter of `words`; a longer query narrows the result of the shorter one."""
        if not (self._query and words.startswith(self._query)):
            self._pool = range(len(self._index.paths))
        needed, letters = _mask(words, {}), self._index.letters
        if isinstance(self._pool, range):
            self._pool = [number for number, mask in enumerate(letters) if needed & mask == needed]
        else:
            self._pool = [number for number in self._pool if needed & letters[number] == needed]
        self._query = words
        return self._pool


def _rank(name: str, path: str, words: str) -> int | None:
    """Return the rank of one path, as used by `FuzzySearch`; None if it does not match."""
    rank = _folder_rank(path, words) if "/" in words else _name_rank(name, words)
    if rank is not None:
        return rank
    if words in path:
        return _IN_PATH
    has_letters = _scattered_pattern(words).search
    if "/" not in words and has_letters(name):
        return _SCATTERED_IN_NAME
    return _SCATTERED_IN_PATH if has_letters(path) else None


def _folder_rank(path: str, words: str) -> int | None:
    """Return the rank of a path that contains `words`, which name a folder, at the start of a component, or None."""
    if path.startswith(words):
        return _AT_START
    return _AT_WORD_START if f"/{words}" in path else None


def _name_rank(name: str, words: str) -> int | None:
    """Return the rank of a file by the first match of `words` in its name; None if there is none."""
    position = name.find(words)
    if position < 0:
        return None
    if position == 0:
        return _AT_START
    is_word_start = not name[position - 1].isalnum()
    return _AT_WORD_START if is_word_start else _IN_NAME


def _mask(text: str, cache: dict[str, int]) -> int:
    """Return the letters of a text as a bit mask."""
    mask = cache.get(text)
    if mask is None:
        mask = 0
        for letter in set(text):
            mask |= _LETTERS.get(letter, 0)
        cache[text] = mask
    return mask


def _scattered_pattern(words: str) -> re.Pattern[str]:
    """Return a pattern for the letters of `words` in order, with anything between them: `a[^b]*b` for `ab`.

    It never backtracks, because each `[^b]*` ends at the first `b`.
    """
    others = "".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in words[1:])
    return re.compile(re.escape(words[0]) + others)


def _matched_positions(path: str, words: str) -> tuple[int, ...]:
    """Return the indexes of the letters of `words` in `path`: contiguous if possible, preferably in the file name."""
    start = path.rfind("/", 0, -1) + 1
    position = path.find(words, start)
    if position < 0:
        position = path.rfind(words)
    if position >= 0:
        return tuple(range(position, position + len(words)))
    return _letter_positions(path, words, start) or _letter_positions(path, words, 0)


def _letter_positions(path: str, words: str, start: int) -> tuple[int, ...]:
    """Return the index of each letter of `words` in order, from `start` on; empty if one is missing."""
    positions: list[int] = []
    for letter in words:
        position = path.find(letter, positions[-1] + 1 if positions else start)
        if position < 0:
            return ()
        positions.append(position)
    return tuple(positions)


_WHOLE_SCORE = 1_000
_START_SCORE = 100
_WORD_START_SCORE = 40
"""The scores of a word that occurs as a whole, at the start of the text, and at the start of a word in it."""


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a query in a text."""

    score: int
    """Higher is better."""
    positions: tuple[int, ...]
    """The indexes of the matched characters, in order."""


def match(query: str, text: str) -> Match | None:
    """Match `query` against `text`; return None if it does not match. An empty query matches everything equally."""
    score = 0
    positions: set[int] = set()
    folded = fold(text)
    for word in fold(query).split():
        word_match = _match_substring(word, folded) or _match_in_order(word, folded)
        if word_match is None:
            return None
        score += word_match.score
        positions.update(word_match.positions)
    return Match(score, tuple(sorted(positions)))


def rank(query: str, texts: Iterable[Sequence[str]]) -> list[int]:
    """Return the indexes of the matching `texts`, best first; equals keep their order.

    Each text is a sequence of parts; a match in an earlier part counts more.
    """
    scored: list[tuple[int, int]] = []
    for index, parts in enumerate(texts):
        score = _score(query, parts)
        if score is not None:
            scored.append((-score, index))
    return [index for _, index in sorted(scored)]


def fold(text: str) -> str:
    """Return `text` in lower case with the same length, so that indexes stay valid."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # The lower case of some letters has two characters, such as that of `İ`: they stay.
    return "".join(char if len(char.lower()) != 1 else char.lower() for char in text)


def _score(query: str, parts: Sequence[str]) -> int | None:
    """Return the score of a text for `rank`; None if a word of `query` matches no part."""
    score = 0
    for word in query.split():
        matches = [(index, match(word, part)) for index, part in enumerate(parts)]
        scores = [matched.score - index * _WHOLE_SCORE // 2 for index, matched in matches if matched is not None]
        if not scores:
            return None
        score += max(scores)
    return score


def _match_substring(word: str, text: str) -> Match | None:
    """Match a word as a whole, at the start of a word of `text` if possible, otherwise where it occurs first."""
    position = text.find(word)
    if position < 0:
        return None
    best = position
    while position >= 0:
        if _is_word_start(text, position):
            best = position
            break
        position = text.find(word, position + 1)
    score = _WHOLE_SCORE - min(best, 30)
    if best == 0:
        score += _START_SCORE
    if _is_word_start(text, best):
        score += _WORD_START_SCORE
    return Match(score, tuple(range(best, best + len(word))))


def _match_in_order(word: str, text: str) -> Match | None:
    """Match the letters in order, preferring a letter at the start of a word if the next letters still follow it.

    The first letter must start a word; otherwise `bell` would match `disabled skills`. Example: in `main config`, `mc`
    matches the `m` and `c` that start words. In `main.py`, no `y` starts a word, so `my` matches the first one.
    """
    latest = _latest_positions(word, text)
    if latest is None:
        return None
    positions: list[int] = []
    score = 0
    searched = 0
    for letter, limit in zip(word, latest, strict=True):
        position = text.index(letter, searched)
        word_starts = (
            index for index in range(position, limit + 1) if text[index] == letter and _is_word_start(text, index)
        )
        word_start = next(word_starts, None)
        is_first = not positions
        is_adjacent = not is_first and position == positions[-1] + 1
        if word_start is not None and not is_adjacent:
            position = word_start
        elif is_first and word_start is None:
            return None
        if _is_word_start(text, position):
            score += _WORD_START_SCORE
        score -= min(position - searched, 10)
        positions.append(position)
        searched = position + 1
    return Match(score, tuple(positions))


def _latest_positions(word: str, text: str) -> list[int] | None:
    """Return for each letter of `word` its last index in `text` before the next letter; None if one is missing."""
    positions: list[int] = []
    end = len(text)
    for letter in reversed(word):
        end = text.rfind(letter, 0, end)
        if end < 0:
            return None
        positions.append(end)
    return positions[::-1]


def _is_word_start(text: str, index: int) -> bool:
    return index == 0 or (text[index].isalnum() and not text[index - 1].isalnum())


MIN_ALIKE = 0.6
"""The minimum likeness, from 0 to 1, between a misspelt name and a suggested one."""
_MIN_OTHER_START = 0.7
"""The minimum likeness if the suggested name starts with another letter."""


def suggestion(
    name: str, names: Iterable[str], otherwise: str = "", label: str = "{}", min_alike: float = MIN_ALIKE
) -> str:
    """Return `did you mean X?` about a misspelt `name`; `otherwise` if none of `names` is similar.

    `label` is how X is typed, such as `/{}`. A name with another first letter must be more similar, or end like X:
    `nope` and `openai` have three letters in common, `file_path` means `path`.
    """
    closest = next(iter(similar(name, names, 1, min_alike)), None)
    if closest is None:
        return otherwise
    typed = name.lower()
    meant = closest.lower()
    is_near = typed[:1] == meant[:1] or typed.endswith(meant) or likeness(typed, meant) >= _MIN_OTHER_START
    return did_you_mean([label.format(closest)]) if is_near else otherwise


def did_you_mean(candidates: Sequence[str]) -> str:
    """Return `did you mean X or Y?`, an empty string if there are no candidates."""
    return f"did you mean {' or '.join(candidates)}?" if candidates else ""


def nearest_hint(name: str, names: Iterable[str], label: str = "{}") -> str:
    """Return `the nearest is X` for a `name` that is not in `names`, a fixed set that is not empty."""
    return f"the nearest is {label.format(max(names, key=lambda candidate: likeness(name, candidate)))}"


def nearest_list(names: Iterable[str]) -> str:
    """Return the hint `the nearest: X, Y` about an unknown name, an empty string if `names` is empty.

    For names that users or servers chose; `nearest_hint` is for a fixed set.
    """
    listed = ", ".join(names)
    return f"the nearest: {listed}" if listed else ""


def with_hint(error: str, hint: str) -> str:
    """Return an error and its hint, which may be empty, as sentences: `Unknown theme "drak". Did you mean dark?`."""
    from qcode.text.sentences import capitalized

    return f"{error}." + (f" {capitalized(hint)}" if hint else "")


def unknown_name_error(subject: str, name: str, names: Iterable[str], otherwise: str = "", label: str = "{}") -> str:
    """Return the error of the app about a name that does not exist, with the hint of `suggestion`."""
    return with_hint(f"Unknown {subject}", suggestion(name, names, otherwise, label))


def similar(name: str, names: Iterable[str], limit: int = 3, min_alike: float = MIN_ALIKE) -> tuple[str, ...]:
    """Return up to `limit` of `names` that a misspelt `name` may stand for, best first.

    `min_alike` is the share of equal letters, from 0 to 1. Names with two letters swapped come first: `modle` means
    `model`, although it shares more letters in order with `mode`.
    """
    from difflib import get_close_matches

    by_folded = {candidate.lower(): candidate for candidate in names}
    swapped = [folded for folded in by_folded if _is_swapped(name.lower(), folded)]
    close = get_close_matches(name.lower(), by_folded, limit, min_alike)
    return tuple(by_folded[folded] for folded in dict.fromkeys((*swapped, *close)))[:limit]


def _is_swapped(name: str, other: str) -> bool:
    """Return whether two names differ only in two neighboring letters that are swapped."""
    if len(name) != len(other):
        return False
    differing = [index for index in range(len(name)) if name[index] != other[index]]
    if len(differing) != 2 or differing[1] != differing[0] + 1:
        return False
    first, second = differing
    return name[first] == other[second] and name[second] == other[first]


def likeness(name: str, other: str) -> float:
    """Return how alike two names are, from 0 to 1."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, name, other).ratio()
