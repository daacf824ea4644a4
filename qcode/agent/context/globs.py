"""Globs of rules: `src/**/*.{ts,tsx}`, matched in time linear in pattern and path. Pure.

`*` and `?` stay inside a name, `**` crosses folders, braces hold alternatives and may be nested, `[a-z]` is one
character. A pattern is relative to the root of the project. A separate module because only rules with `paths` need
globs. `pathspec` has no braces, and a regular expression for 10,000 alternatives takes too long to compile.
"""

from __future__ import annotations

from qcode.values import dataclass

MAX_NODES = 200_000
MAX_STEPS = 60_000
"""The maximum number of comparisons in one match. A match that needs more comparisons fails."""

# The tests of wildcards, which no literal and no `[...]` has: the test of a literal is its character, the test of
# `[...]` is its source.
_ANY = "**"
_IN_NAME = "*/"
_ONE = "?/"


class GlobError(ValueError):
    """A pattern cannot be read. The message is a clause without a capital or a full stop."""


@dataclass(frozen=True, slots=True)
class GlobPattern:
    """A compiled pattern: the test and the next nodes of each node. An empty test matches without a character."""

    tests: tuple[str, ...]
    next_nodes: tuple[tuple[int, ...], ...]

    def matches(self, path: str) -> bool:
        """Return whether the pattern covers `path`, relative to the root of the project."""
        last = len(self.tests) - 1
        current = self._epsilon_closure({0})
        steps = 0
        for char in path:
            steps += len(current)
            if not current or steps > MAX_STEPS:
                return False
            after: set[int] = set()
            for node in current:
                test = self.tests[node]
                if test and _matches_char(test, char):
                    after.update((node,) if test in (_ANY, _IN_NAME) else self.next_nodes[node])
            current = self._epsilon_closure(after)
        return last in current

    def _epsilon_closure(self, nodes: set[int]) -> set[int]:
        """Return the nodes and all nodes that are reachable from them without consuming a character."""
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if self.tests[node] in ("", _ANY, _IN_NAME):
                new = [number for number in self.next_nodes[node] if number not in nodes]
                nodes.update(new)
                pending += new
        return nodes


def _matches_char(test: str, char: str) -> bool:
    """Return whether the test of a node accepts a character."""
    if test == _ANY:
        return True
    if test in (_IN_NAME, _ONE):
        return char != "/"
    if len(test) == 1:
        return test == char
    is_negated = test[1] in "!^"
    body = test[2 if is_negated else 1 : -1]
    position = 0
    while position < len(body):
        is_range = body[position + 1 : position + 2] == "-" and position + 2 < len(body)  # not the last `-` of `[a-]`
        last = body[position + 2] if is_range else body[position]
        if body[position] <= char <= last:
            return not is_negated
        position += 3 if is_range else 1
    return is_negated and char != "/"


def compile_glob(pattern: str) -> GlobPattern:
    """Return a compiled pattern; raise `GlobError`."""
    return _Compiler(pattern.removeprefix("./").removeprefix("/")).glob()


class _Compiler:
    """A builder of the nodes of a pattern, from left to right. The last node is the end."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._tests: list[str] = [""]
        self._next_nodes: list[list[int]] = [[]]
        self._shared_nodes: dict[tuple[int, str], int] = {}

    def glob(self) -> GlobPattern:
        ends = self._parse()
        last = self._node("", ends)
        assert last == len(self._tests) - 1
        return GlobPattern(tuple(self._tests), tuple(map(tuple, self._next_nodes)))

    def _node(self, test: str, before: list[int]) -> int:
        """Add a node after the nodes `before`, and return its number."""
        if len(self._tests) >= MAX_NODES:
            raise GlobError("the pattern is too long")
        node = len(self._tests)
        self._tests.append(test)
        self._next_nodes.append([])
        for number in before:
            self._next_nodes[number].append(node)
        return node

    def _literal(self, char: str, before: list[int]) -> int:
        """Return the node of a character; alternatives with a common prefix share nodes."""
        if len(before) > 1:
            return self._node(char, before)
        node = self._shared_nodes.get((before[0], char))
        if node is None:
            node = self._shared_nodes[before[0], char] = self._node(char, before)
        return node

    def _parse(self) -> list[int]:
        """Read the whole pattern and return the nodes before the end node."""
        pattern = self._pattern
        position = 0
        ends = [0]
        groups: list[tuple[list[int], list[int]]] = []  # of open braces: first nodes, last nodes of branches
        while position < len(pattern):
            char = pattern[position]
            size = 1
            if pattern.startswith("**/", position) and (position == 0 or pattern[position - 1] in "/{,"):
                # `a/**/b` also covers `a/b`: the folders and their last slash may be missing.
                size = 3
                while pattern.startswith("**/", position + size):
                    size += 3
                folders = self._node(_ANY, ends)
                ends = [*ends, self._node("/", [folders])]
            elif pattern.startswith("**", position):
                size = 2
                ends = [self._node(_ANY, ends)]
            elif char in "*?":
                ends = [self._node(_IN_NAME if char == "*" else _ONE, ends)]
            elif char == "[" and (close := pattern.find("]", position + 2)) > 0:
                size = close + 1 - position
                ends = [self._node(pattern[position : close + 1], ends)]
            elif char == "{":
                start = self._node("", ends)
                groups.append(([start], []))
                ends = [start]
            elif char == "," and groups:
                begin, branches = groups[-1]
                branches += ends
                ends = [*begin]
            elif char == "}" and groups:
                _, branches = groups.pop()
                ends = [self._node("", [*branches, *ends])]
            else:
                if char == "\\" and position + 1 < len(pattern):
                    size = 2
                    char = pattern[position + 1]
                ends = [self._literal(char, ends)]
            position += size
        if groups:
            raise GlobError("a brace is not closed")
        return ends
