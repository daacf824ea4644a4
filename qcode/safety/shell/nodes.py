"""What the tree of a command is made of: its text, its children, and whether anything between them was left out. Pure.

`grammar` reads statements with it. Whatever is not on a list here is `NotPlain`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from qcode.safety.shell.forms import NotPlain

if TYPE_CHECKING:
    from tree_sitter import Node

LONGEST = 20_000
"""Characters of a command that are looked at; a longer one is not plain."""

HOLES = frozenset(
    {"simple_expansion", "expansion", "arithmetic_expansion", "command_substitution", "process_substitution"}
)
"""Kinds of what bash fills in."""
WORDS = frozenset({"word", "number", "raw_string", "string", "concatenation", "brace_expression"}) | HOLES
_LEAVES = WORDS | {"string_content", '"', "[", "]", "{", "}", "..", "command_name"}
BLANKS = re.compile(r"[ \t]*|[ \t]+(?:\\\n[ \t]*)+")
LINES = re.compile(r"(?:[ \t\n]|(?<=[ \t])\\\n[ \t])*")
_WHY = {
    **dict.fromkeys(HOLES, "it holds an expansion that is not understood"),
    "ansi_c_string": "it holds a quote with escapes",
    "translated_string": "it holds a quote with escapes",
    "variable_assignment": "it sets a variable",
    "variable_assignments": "it sets a variable",
    "declaration_command": "it changes the state of the shell",
    "unset_command": "it changes the state of the shell",
    "function_definition": "it defines a function",
    "c_style_for_statement": "it holds a loop",
    "case_statement": "it holds a case",
    "&": "it would run in the background",
    "|&": "an operator that is not understood",
}


def why_not(kind: str, otherwise: str) -> str:
    """Return why a node of this kind is not understood."""
    return _WHY.get(kind, otherwise)


def check_characters(text: str) -> None:
    """Raise `NotPlain` where a person would not see what bash reads."""
    if len(text) > LONGEST:
        raise NotPlain("the command is very long")
    for char in text:
        if char in "\n\t" or " " <= char <= "~":
            continue
        if char < " " or not char.isprintable() or unicodedata.category(char) in ("Zs", "Mn", "Me", "Mc"):
            raise NotPlain("it holds a control or invisible character")


def check_apart(nodes: list[Node]) -> None:
    """Check that a blank stands before each word but the first: what touches is one word to bash."""
    for before, node in pairwise(nodes):
        if before.end_byte == node.start_byte and node.type in WORDS:
            raise NotPlain("a word whose end is not certain")


class Nodes:
    """Reads the tree of one command. Its offsets count bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8")

    def follower(self, node: Node) -> str:
        """Return the character after a node, empty at the end."""
        return self.source[node.end_byte : node.end_byte + 1].decode("utf-8", "replace")

    def named(self, node: Node, gap: re.Pattern[str], tokens: set[str]) -> list[Node]:
        """Return the children of `node` that mean something; see `checked`."""
        return [child for child in self.checked(node, gap, tokens) if child.is_named]

    def checked(self, node: Node, gap: re.Pattern[str], tokens: set[str]) -> list[Node]:
        """Return the children of `node` where its other tokens are among `tokens` and only blanks lie between them."""
        at = 0 if node.type == "program" else node.start_byte
        end = len(self.source) if node.type == "program" else node.end_byte
        for child in node.children:
            self._check_gap(at, child.start_byte, gap)
            if child.is_missing or child.is_error or not (child.is_named or child.type in tokens):
                raise NotPlain(why_not(child.type, "its syntax was not understood"))
            at = child.end_byte
        self._check_gap(at, end, gap)
        return list(node.children)

    def _check_gap(self, start: int, end: int, gap: re.Pattern[str]) -> None:
        if start != end and gap.fullmatch(self.source[start:end].decode("utf-8", "replace")) is None:
            raise NotPlain("it holds something that is not understood")

    def holes(self, node: Node, *, checks: bool = True) -> Iterator[Node]:
        """Yield what bash fills in below a word, in order; raise `NotPlain` for parts that no plain word has."""
        pending = [node]
        while pending:
            one = pending.pop()
            if one.type in HOLES:
                yield one
                continue
            if checks and one.type not in _LEAVES:
                raise NotPlain(why_not(one.type, "a word that is not understood"))
            pending += reversed(one.children)
