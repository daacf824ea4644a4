"""Programs that run others with names they were given: what `xargs` and `find -exec` start. Pure."""

from __future__ import annotations

from dataclasses import replace

from qcode.safety.shell.feeds import find_of
from qcode.safety.shell.forms import MARK, Bounds, Found, Word
from qcode.safety.shell.usage import program, read_use

_XARGS = program(
    "0rtx",
    "null no-run-if-empty verbose exit",
    "n|max-args:number L|max-lines:number P|max-procs:number s|max-chars:number d|delimiter I|replace",
    ("text",),
    is_ordered=True,
)
_ECHO = Word("echo")


def read_xargs(words: tuple[Word, ...], feed: Found | None) -> tuple[Word, ...] | str:
    """Return what xargs runs, with a word for what it reads from `feed`, or what is not known among its `words`.

    Without a feed it may read anything.
    """
    use = read_use(_XARGS, words)
    if isinstance(use, str):
        return use
    is_apart, ends = use.has("-0", "--null"), use.values("-d", "--delimiter")
    if any(end != "\\n" for end in ends) or (is_apart and ends):
        return "names that end in another way"
    numbers = use.values("-n", "--max-args", "-L", "--max-lines", "-P", "--max-procs", "-s", "--max-chars")
    if not all(number.isdigit() for number in numbers) or any(word and not word.is_known for _, word in use.options):
        return "an option that is no number"
    bounds: Bounds = "nul" if is_apart else "line" if ends else "word"
    found = replace(feed, bounds=bounds) if feed is not None and (feed.bounds == "nul") == is_apart else None
    inner = use.operands or (_ECHO,)
    signs = use.values("-I", "--replace")
    if not signs:
        is_many = use.values("-n", "--max-args") != ("1",)
        return (*inner, _given(found, is_many=is_many))
    sign = signs[-1]
    if not sign or any(sign in word.text and not word.is_known for word in inner) or sign in inner[0].text:
        return "what it reads would be run"
    return tuple(_replaced(word, sign, _given(found)) for word in inner)


def _given(found: Found | None, *, is_many: bool = False) -> Word:
    if found is None:
        return Word(MARK, unknown="words" if is_many else "text")
    return Word(MARK, found=found, is_many=is_many)


def _replaced(word: Word, sign: str, given: Word) -> Word:
    if word.text == sign:
        return given
    return Word(word.text.replace(sign, MARK), unknown="text") if sign in word.text else word


def split_find(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], list[tuple[Word, ...] | str]]:
    """Return the words of find without its `-exec` actions, and what each of those runs, or why nobody knows."""
    rest: list[Word] = []
    started: list[tuple[Word, ...] | str] = []
    pending = list(words)
    while pending:
        word = pending.pop(0)
        if word.text != "-exec":
            rest.append(word)
            continue
        inner: list[Word] = []
        while pending and not _ends(pending[0], inner):
            inner.append(pending.pop(0))
        end = pending.pop(0).text if pending else ""
        before = tuple(one.text for one in rest) if all(one.is_known for one in rest) else ("-unknown",)
        found = find_of(before) if not any(one.has_glob or one.is_home for one in rest) else None
        started.append(_executed(inner, found, is_many=end == "+") if end else "an -exec without its end")
        # It stands for a test, so that a binary operator next to it has two sides.
        rest.append(Word("-true"))
    return tuple(rest), started


def _ends(word: Word, before: list[Word]) -> bool:
    return word.text == ";" or (word.text == "+" and bool(before) and before[-1].text == "{}")


def _executed(inner: list[Word], found: Found | None, *, is_many: bool) -> tuple[Word, ...] | str:
    if not inner or "{}" in inner[0].text:
        return "what it finds would be run"
    if found is None:
        return "nobody can say what it finds"
    given = Word(MARK, found=replace(found, bounds="nul"), is_many=is_many)
    return tuple(_replaced(word, "{}", given) for word in inner)
