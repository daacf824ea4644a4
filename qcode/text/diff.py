"""Compares texts within a limit of steps; writes, reads and masks unified diffs. Pure.

`difflib` takes 40 seconds for 1,500 equal lines if every second line changes. `BoundedMatcher` returns the same
result up to a limit of steps. After that, it aligns ranges at their ends and at elements that occur once in both texts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Literal, NamedTuple, TypeVar

from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

MAX_STEPS = 5_000_000
"""The limit of one comparison: about one second. 4,000 lines take four million steps if every second line changes."""

_T = TypeVar("_T", bound=Hashable)


class _RangePair(NamedTuple):
    """A range of the first sequence, and one of the second with which it is compared."""

    a_start: int
    a_end: int
    b_start: int
    b_end: int


class Steps:
    """A budget of steps, which several comparisons can share.

    A step visits one element of the first sequence, or one equal element of the second.
    """

    def __init__(self, remaining: int = MAX_STEPS) -> None:
        self.remaining = remaining

    def use(self, count: int) -> bool:
        """Use up `count` steps; return False if fewer are left."""
        if count > self.remaining:
            return False
        self.remaining -= count
        return True


class BoundedMatcher(SequenceMatcher[_T]):
    """A `SequenceMatcher` whose `get_matching_blocks`, and everything based on it, takes a limited number of steps."""

    def __init__(self, a: Sequence[_T], b: Sequence[_T], *, autojunk: bool = True, steps: Steps | None = None) -> None:
        self._steps = steps or Steps()
        self._blocks: list[Match] | None = None
        self._a = a
        self._b = b
        super().__init__(None, a, (), autojunk=autojunk)
        if set(b).isdisjoint(a):
            self.b = b
            self._blocks = [Match(len(a), len(b), 0)]
        else:
            self.set_seq2(b)  # creates an index of `b`

    def get_matching_blocks(self) -> list[Match]:
        """Return the ranges that are equal in both sequences, in order, followed by an empty one."""
        if self._blocks is None:
            self._blocks = [*self._matching_blocks(), Match(len(self._a), len(self._b), 0)]
        return self._blocks

    def _matching_blocks(self) -> list[Match]:
        """Return the longest equal range and, recursively, those before and after it, as `difflib` does.

        If too few steps remain for a range, `_aligned` compares it instead.
        """
        b_indexes: dict[_T, list[int]] = self.b2j  # type: ignore[attr-defined]  # missing in typeshed
        # `costs[i]`: the steps for the first `i` elements of the first sequence.
        costs = [0, *accumulate(1 + len(b_indexes.get(element, ())) for element in self._a)]
        pending = [_RangePair(0, len(self._a), 0, len(self._b))]
        blocks: list[Match] = []
        while pending:
            ranges = pending.pop()
            a_start, a_end, b_start, b_end = ranges
            if not self._steps.use(costs[a_end] - costs[a_start]):
                blocks += _aligned(self._a, self._b, ranges)
                continue
            block = self.find_longest_match(a_start, a_end, b_start, b_end)
            if block.size:
                blocks.append(block)
                if a_start < block.a and b_start < block.b:
                    pending.append(_RangePair(a_start, block.a, b_start, block.b))
                if block.a + block.size < a_end and block.b + block.size < b_end:
                    pending.append(_RangePair(block.a + block.size, a_end, block.b + block.size, b_end))
        return _joined(sorted(blocks))


MAX_LINE_PAIRS = 500_000
"""The number of pairs of equal lines up to which two texts are compared line by line. That takes up to 0.2 s."""


def line_matcher(a: Sequence[str], b: Sequence[str]) -> BoundedMatcher[str]:
    """Return a matcher of two texts.

    In a text of 200 lines or more, `difflib` does not match a line that makes up over 1 % of it, such as an empty one.
    So it reports unchanged empty lines as changed if the lines around them change. This matcher does so only if the
    texts have more than `MAX_LINE_PAIRS` pairs of equal lines.
    """
    b_counts = Counter(b)
    line_pairs = sum(b_counts.get(line, 0) for line in a)
    return BoundedMatcher(a, b, autojunk=line_pairs > MAX_LINE_PAIRS)


def unified_diff(a: Sequence[str], b: Sequence[str], name: str, new_name: str, context: int = 3) -> Iterator[str]:
    """Yield the lines of a unified diff without line breaks; nothing if the sequences are equal.

    `name` and `new_name` are the file names of `a` and `b`. `context` is the number of equal lines around a change.
    """
    for index, opcodes in enumerate(line_matcher(a, b).get_grouped_opcodes(context)):
        if index == 0:
            yield f"--- {name}"
            yield f"+++ {new_name}"
        # An opcode contains its kind, then the start and end of its range in `a` and in `b`.
        _, hunk_start, _, new_hunk_start, _ = opcodes[0]
        _, _, hunk_end, _, new_hunk_end = opcodes[-1]
        yield f"@@ -{_range_text(hunk_start, hunk_end)} +{_range_text(new_hunk_start, new_hunk_end)} @@"
        for kind, start, end, new_start, new_end in opcodes:
            if kind == "equal":
                yield from (f" {line}" for line in a[start:end])
                continue
            yield from (f"-{line}" for line in a[start:end])
            yield from (f"+{line}" for line in b[new_start:new_end])


def _range_text(start: int, end: int) -> str:
    """Format a range for a hunk header; the number of an empty range is that of the line before it."""
    length = end - start
    number = start + 1 if length else start
    return f"{number}" if length == 1 else f"{number},{length}"


HUNK_HEADER = lazy_pattern(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
"""Groups: first line and number of lines in the old text, the same in the new text, and the text after the header."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a unified diff."""

    kind: Literal["outside", "hunk", "add", "remove", "same", "note"]
    """`outside`: between two files. `hunk`: a hunk header.

    `note`: it starts with a backslash, such as `\\ No newline at end of file`.
    """
    text: str
    number: int = 0
    """The line number in the new text, or in the old text for a removed line; 0 for `outside`, `hunk` and `note`."""
    old_number: int = 0
    """The line number of an unchanged line in the old text."""


def diff_lines(lines: Iterable[str]) -> Iterator[DiffLine]:
    """Yield the lines of a unified diff of one or more files; in any other text all lines are `outside`.

    A hunk header contains the number of lines in the hunk, so no content line is mistaken for a header. Example: after
    `@@ -1 +1 @@`, the line `--- a/x` removes the line `-- a/x`.
    """
    old = new = old_left = new_left = 0  # the next line numbers, and how many lines of the hunk are left
    for line in lines:
        if line.startswith("\\"):
            yield DiffLine("note", line)
        elif old_left <= 0 and new_left <= 0:
            hunk = HUNK_HEADER.match(line)
            if hunk is not None:
                old = int(hunk[1])
                new = int(hunk[3])
                old_left = int(hunk[2] or 1)
                new_left = int(hunk[4] or 1)
            yield DiffLine("outside" if hunk is None else "hunk", line)
        elif line.startswith("+"):
            yield DiffLine("add", line, new)
            new, new_left = new + 1, new_left - 1
        elif line.startswith("-"):
            yield DiffLine("remove", line, old)
            old, old_left = old + 1, old_left - 1
        else:
            yield DiffLine("same", line, new, old)
            old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The part of a unified diff about one file."""

    path: str
    """The new path; the old path if the file was deleted."""
    added: int
    """The number of added lines."""
    removed: int
    """The number of removed lines."""
    diff: str


def file_diffs(diffs: Iterable[str]) -> tuple[FileDiff, ...]:
    """Return the changes of several unified diffs, one value for each file, in the order of their first change."""
    by_path: dict[str, FileDiff] = {}
    for diff in diffs:
        for part in _split_at_files(diff):
            path = _path_of_file(part)
            kinds = [line.kind for line in part]
            before = by_path.get(path, FileDiff(path, 0, 0, ""))
            text = before.diff + "".join(f"{line.text}\n" for line in part)
            added = before.added + kinds.count("add")
            removed = before.removed + kinds.count("remove")
            by_path[path] = FileDiff(path, added, removed, text)
    return tuple(by_path.values())


def _split_at_files(diff: str) -> Iterator[list[DiffLine]]:
    """Yield the lines of each file, from its `---` line on; lines before the first `---` are dropped."""
    part: list[DiffLine] = []
    # Not `splitlines`: a form feed or U+2028 does not end a line of a diff.
    for line in diff_lines(diff.removesuffix("\n").split("\n")):
        if line.kind == "outside" and line.text.startswith("--- "):
            if part:
                yield part
            part = []
        if part or line.text.startswith("--- "):
            part.append(line)
    if part:
        yield part


def _path_of_file(lines: Sequence[DiffLine]) -> str:
    """Return the path in the `+++` line of a file, or if the file was deleted, in the `---` line before it."""
    paths = [_path_in_header(line) for line in lines[:2]]
    return paths[-1] or paths[0]


def _path_in_header(line: DiffLine) -> str:
    """Return the path in a `---` or `+++` line without its `a/` or `b/`; empty for `/dev/null`."""
    name = line.text[4:].split("\t")[0]
    return "" if name == "/dev/null" else name.partition("/")[2]


def count_changes(diff: str) -> str:
    """Return the number of lines that a diff adds and removes, as in `+3 -1 lines`."""
    kinds = [line.kind for line in diff_lines(diff.split("\n"))]
    return f"+{kinds.count('add')} -{kinds.count('remove')} lines"


def _joined(blocks: Sequence[Match]) -> list[Match]:
    """Return the sorted blocks with adjacent ones merged."""
    joined: list[Match] = []
    for block in blocks:
        last = joined[-1] if joined else Match(0, 0, 0)
        if last.size and block.a == last.a + last.size and block.b == last.b + last.size:
            joined[-1] = Match(last.a, last.b, last.size + block.size)
        else:
            joined.append(block)
    return joined


def _aligned(a: Sequence[_T], b: Sequence[_T], ranges: _RangePair) -> Iterator[Match]:
    """Yield blocks at both ends of the ranges and around elements that occur once in each, in n log n steps.

    Example: for "xAyBz" and "xBAyz" the ends give "x" and "z". Between them, "A" and "y" are in the same order in
    both and give the block "Ay"; "B" has moved, so it is in no block.
    """
    a_start, a_end, b_start, b_end = ranges
    head = _count_equal(a, b, a_start, b_start, min(a_end - a_start, b_end - b_start), step=1)
    a_middle, b_middle = a_start + head, b_start + head
    tail = _count_equal(a, b, a_end - 1, b_end - 1, min(a_end - a_middle, b_end - b_middle), step=-1)
    a_end, b_end = a_end - tail, b_end - tail
    blocks = [Match(a_start, b_start, head), Match(a_end, b_end, tail)]
    a_next, b_next = a_middle, b_middle  # the end of the previous block
    for a_offset, b_offset in _increasing(_unique_pairs(a[a_middle:a_end], b[b_middle:b_end])):
        a_index, b_index = a_middle + a_offset, b_middle + b_offset
        if a_index < a_next:
            continue  # inside the previous block
        before = _count_equal(a, b, a_index - 1, b_index - 1, min(a_index - a_next, b_index - b_next), step=-1)
        after = _count_equal(a, b, a_index, b_index, min(a_end - a_index, b_end - b_index), step=1)
        block = Match(a_index - before, b_index - before, before + after)
        blocks.append(block)
        a_next, b_next = block.a + block.size, block.b + block.size
    yield from (block for block in blocks if block.size)


def _count_equal(
    a: Sequence[_T], b: Sequence[_T], a_start: int, b_start: int, limit: int, *, step: Literal[1, -1]
) -> int:
    """Return how many elements from `a_start` and `b_start` on are equal, at most `limit`. `step` -1 goes backwards."""
    size = 0
    while size < limit and a[a_start + step * size] == b[b_start + step * size]:
        size += 1
    return size


def _unique_pairs(a: Sequence[_T], b: Sequence[_T]) -> list[tuple[int, int]]:
    """Return the indexes in `a` and `b` of each element that occurs exactly once in both, in the order of `a`."""
    a_counts = Counter(a)
    b_counts = Counter(b)
    b_indexes = {element: index for index, element in enumerate(b) if b_counts[element] == 1}
    unique = ((index, element) for index, element in enumerate(a) if a_counts[element] == 1)
    return [(index, b_indexes[element]) for index, element in unique if element in b_indexes]


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of `pairs`, sorted by their first number, that also increases in the second.

    Example: `[(0, 2), (1, 0), (2, 1)]` gives `[(1, 0), (2, 1)]`. The algorithm is patience sorting. For each length, it
    stores only the subsequence with the lowest last number, because this one can be extended most often.
    """
    lowest: list[int] = []  # for each length, the lowest last number
    ends: list[int] = []  # and the index of the pair with this number
    previous: list[int] = []  # for each pair, the index of the pair before it in its subsequence, or -1
    for index, (_, number) in enumerate(pairs):
        length = bisect_left(lowest, number)
        previous.append(ends[length - 1] if length else -1)
        # A slice, because the subsequence may be the first one of its length.
        lowest[length : length + 1] = [number]
        ends[length : length + 1] = [index]
    subsequence: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        subsequence.append(pairs[index])
        index = previous[index]
    return subsequence[::-1]


MASK = "[hidden]"
"""Replaces a secret."""

# The path in a header of a diff, and a variable in a line of a `.env` file.
_FILE = lazy_pattern(r"(?:---|\+\+\+) (?:[ab]/)?(.*)")
_ASSIGNMENT = lazy_pattern(r"(\s*(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=)\S.*")


def mask_diff(diff: str, is_secret: Callable[[str], bool]) -> str:
    """Return `diff` with removed and unchanged lines of secret files masked; in `NAME=value` the name stays.

    Added lines are not masked, because the model wrote them. The lines of each hunk are counted, so no line of a file
    can pass for a header.
    """
    return "\n".join(_mask_lines(diff.split("\n"), is_secret))


def _mask_lines(lines: list[str], is_secret: Callable[[str], bool]) -> Iterator[str]:
    is_secret_file = False
    for line in diff_lines(lines):
        header = _FILE.match(line.text) if line.kind == "outside" else None
        if header is not None:
            # A file is secret if its old path in `---` or its new path in `+++` is.
            is_old_path_secret = is_secret_file and line.text.startswith("+++")
            is_secret_file = is_old_path_secret or is_secret(header[1])
        is_masked = is_secret_file and line.kind in ("remove", "same")
        yield _mask_line(line.text) if is_masked else line.text


def _mask_line(line: str) -> str:
    """Mask a line with its sign: `-KEY=abc` becomes `-KEY=[hidden]`, ` other text` becomes ` [hidden]`."""
    if not line[1:].strip():
        return line
    assignment = _ASSIGNMENT.fullmatch(line[1:])
    name = assignment[1] if assignment is not None else ""
    return f"{line[0]}{name}{MASK}"
