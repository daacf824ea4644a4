"""Reads a shell command with tree-sitter's grammar of bash and keeps what is on a white list. Runs nothing.

A node of any other kind, an error, or text between nodes that is not blank is `NotPlain`. Words are unquoted by
`words`, which must agree with the tree about where each ends. tree-sitter is loaded with the first command.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from qcode.safety.shell.script import Choice, Command, Listing, Negation, Operator, Piping, Script
from qcode.safety.shell.words import NotPlain, Word, read_word, split_words

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 20_000
"""Characters of a command that are looked at; a longer one is not plain."""

_DEEPEST = 30
_WORD_KINDS = frozenset({"word", "number", "raw_string", "string", "concatenation"})
_WORD_LEAVES = _WORD_KINDS | {"string_content", '"', "[", "]", "{", "}", "command_name"}
_GAP = re.compile(r"[ \t]*|[ \t]+(?:\\\n[ \t]*)+")
_LINES = re.compile(r"(?:[ \t\n]|(?<=[ \t])\\\n[ \t])*")
_RESERVED = frozenset(
    {
        "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
        "select", "function", "coproc", "in",
    }
)  # fmt: skip
_BLANKS = ("  ", " \t", "\t ", "\t\t")
_HEREDOC = re.compile(r"<<(?P<quote>'?)(?P<mark>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)")
_WHY = {
    "simple_expansion": "it holds an expansion",
    "expansion": "it holds an expansion",
    "arithmetic_expansion": "it holds an expansion",
    "command_substitution": "it runs a command inside another",
    "process_substitution": "it runs a command inside another",
    "ansi_c_string": "it holds a quote with escapes",
    "translated_string": "it holds a quote with escapes",
    "variable_assignment": "it sets a variable",
    "variable_assignments": "it sets a variable",
    "declaration_command": "it changes the state of the shell",
    "unset_command": "it changes the state of the shell",
    "function_definition": "it defines a function",
    "for_statement": "it holds a loop",
    "c_style_for_statement": "it holds a loop",
    "while_statement": "it holds a loop",
    "case_statement": "it holds a case",
    "&": "it would run in the background",
    "|&": "an operator that is not understood",
}


@lru_cache(maxsize=512)
def read_script(text: str) -> Script:
    """Return what `text` is to bash; raise `NotPlain`, with one line for a person, where that is not certain."""
    _check_characters(text)
    source = text.encode("utf-8")
    root = _parser().parse(source).root_node
    if root.has_error:
        raise NotPlain("its syntax was not understood")
    return _Reader(text, source).script_of(root)


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _check_characters(text: str) -> None:
    if len(text) > LONGEST:
        raise NotPlain("the command is very long")
    for char in text:
        if char in "\n\t" or " " <= char <= "~":
            continue
        if char < " " or not char.isprintable() or unicodedata.category(char) in ("Zs", "Mn", "Me", "Mc"):
            raise NotPlain("it holds a control or invisible character")


def _in_order(scripts: list[Script]) -> Script:
    if not scripts:
        raise NotPlain("the command is incomplete")
    return Listing(scripts[0], tuple((";", one) for one in scripts[1:])) if len(scripts) > 1 else scripts[0]


def _check_apart(nodes: list[Node]) -> None:
    """Check that a blank stands before each word but the first: what touches is one word to bash."""
    for before, node in pairwise(nodes):
        if before.end_byte == node.start_byte and node.type in _WORD_KINDS:
            raise NotPlain("a word whose end is not certain")


class _Reader:
    """Turns nodes into a `Script`. Offsets of the tree count bytes."""

    def __init__(self, text: str, source: bytes) -> None:
        self.source = source
        self.heredocs = text.count("<<") - 2 * text.count("<<<")
        self.depth = 0

    def script_of(self, node: Node) -> Script:
        """Return the script of a node that holds statements: the whole, a group, a subshell."""
        children = self._checked(node, _LINES, {";", "\n", "(", ")", "{", "}", "else"})
        return _in_order([self.statement(child) for child in children if child.is_named and child.type != "comment"])

    def statement(self, node: Node) -> Script:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise NotPlain("it is nested very deeply")
        try:
            return self._statement(node)
        finally:
            self.depth -= 1

    def _statement(self, node: Node) -> Script:
        match node.type:
            case "command" | "test_command":
                return self._command(node)
            case "redirected_statement":
                return self._redirected(node)
            case "list":
                return self._list(node)
            case "pipeline":
                parts = [child for child in self._checked(node, _LINES, {"|"}) if child.is_named]
                return Piping(tuple(self.statement(part) for part in parts))
            case "negated_command":
                inner = [child for child in self._checked(node, _GAP, {"!"}) if child.is_named]
                return Negation(self.statement(inner[0]))
            case "subshell":
                return Piping((self.script_of(node),))
            case "compound_statement":
                if not self._text(node).startswith("{"):
                    raise NotPlain("it holds arithmetic")
                return self.script_of(node)
            case "if_statement":
                return self._choice(node)
        raise NotPlain(_WHY.get(node.type, f"it holds a {node.type.replace('_', ' ')}, which is not understood"))

    def _list(self, node: Node) -> Script:
        """Return a list; it is walked in a loop along its left side, which is as deep as the list is long."""
        chain: list[tuple[Operator, Node]] = []
        while node.type == "list":
            left, *middle, right = self._checked(node, _LINES, {"&&", "||"})
            named = [child for child in middle if child.type != "comment"]
            if len(named) != 1 or named[0].type not in ("&&", "||"):
                raise NotPlain("a list that is not understood")
            chain.append(("&&" if named[0].type == "&&" else "||", right))
            node = left
        first = self.statement(node)
        return Listing(first, tuple((operator, self.statement(right)) for operator, right in reversed(chain)))

    def _choice(self, node: Node) -> Script:
        """Return `if`, whose clauses the grammar lists one after the other."""
        condition: list[Script] = []
        then: list[Script] = []
        otherwise: Script | None = None
        reading = condition
        for child in self._checked(node, _LINES, {"if", "then", "fi", ";", "\n"}):
            if child.type == "then":
                reading = then
            elif child.type == "else_clause":
                otherwise = self.script_of(child)
            elif child.type == "elif_clause":
                raise NotPlain("it holds an elif, which is not understood")
            elif child.is_named and child.type != "comment":
                reading.append(self.statement(child))
        return Choice(_in_order(condition), _in_order(then), otherwise)

    def _command(self, node: Node) -> Command:
        if node.type == "test_command":
            return Command(self._test(node))
        words: list[Word] = []
        children = self._checked(node, _GAP, set())
        _check_apart(children)
        for child in children:
            if child.type == "herestring_redirect":
                self._herestring(child)
            elif child.type == "command_name" or child.type in _WORD_KINDS:
                words.append(self._word(child))
            else:
                raise NotPlain(_WHY.get(child.type, "it holds something that is not understood"))
        if words and words[0].text in _RESERVED:
            raise NotPlain("a word of the shell where a program is expected")
        return Command(tuple(words))

    def _test(self, node: Node) -> tuple[Word, ...]:
        """Return the words of `[ ... ]` or `[[ ... ]]`; the tree's own reading of the expression does not matter."""
        text = self._text(node)
        size = 2 if text.startswith("[[") else 1
        inside = text[size:-size]
        if text[:size] + text[-size:] not in ("[]", "[[]]") or inside[:1] + inside[-1:] not in _BLANKS:
            raise NotPlain("a test that is not understood")
        return (Word(text[:size]), *split_words(inside), Word(text[-size:]))

    def _redirected(self, node: Node) -> Script:
        children = self._checked(node, _GAP, set())
        body, redirects = children[0], children[1:]
        is_simple = body.type in ("command", "negated_command") or (body.type == "test_command")
        if not is_simple:
            return self._redirected_group(body, redirects)
        inner = self.statement(body)
        command = inner.inner if isinstance(inner, Negation) else inner
        after: list[Script] = []
        for redirect in redirects:
            if not isinstance(command, Command):
                raise NotPlain("a redirection that is not understood")
            if redirect.type == "heredoc_redirect":
                after += self._heredoc(redirect)
            elif redirect.type == "herestring_redirect":
                self._herestring(redirect)
            else:
                command = self._with_redirect(command, redirect)
        found: Script = Negation(command) if isinstance(inner, Negation) else command
        return Piping((found, *after)) if after else found

    def _redirected_group(self, body: Node, redirects: list[Node]) -> Script:
        """Take redirections of a group or list only where they neither read nor write a file."""
        inner = self.statement(body)
        for redirect in redirects:
            if redirect.type != "file_redirect":
                raise NotPlain("a redirection of several commands")
            target = self._with_redirect(Command((Word("group"),)), redirect)
            if target != Command((Word("group"),)):
                raise NotPlain("a redirection of several commands")
        return inner

    def _with_redirect(self, command: Command, node: Node) -> Command:
        """Return the command with one redirection; the grammar takes words after the target for more targets."""
        if node.type != "file_redirect":
            raise NotPlain("a redirection that is not understood")
        children = self._checked(node, _GAP, {"<", ">", ">>", ">&", "&>", "&>>"})
        if children[0].type == "file_descriptor":
            descriptor = self._text(children.pop(0))
            if descriptor not in ("0", "1", "2"):
                raise NotPlain("a redirection that is not understood")
        operator = children.pop(0).type
        _check_apart(children)
        if not children or any(child.type not in _WORD_KINDS for child in children):
            raise NotPlain("a redirection that is not understood")
        target, *more = [self._word(child) for child in children]
        inputs, outputs = command.inputs, command.outputs
        if operator == ">&":
            if target not in (Word("1"), Word("2")):
                raise NotPlain("it writes to a file")
        elif operator == "<":
            inputs = (*inputs, target)
        elif target != Word("/dev/null"):
            outputs = (*outputs, target)
        return Command((*command.words, *more), inputs, outputs)

    def _herestring(self, node: Node) -> None:
        """Check that a here-string is plain text; it is nothing but input then."""
        children = self._checked(node, _GAP, {"<<<"})
        if len(children) != 2 or self._word(children[1]).is_home:
            raise NotPlain("a here-string that is not understood")

    def _heredoc(self, node: Node) -> list[Script]:
        """Check that a here-document is plain text; return what its line pipes into.

        Where it ends is found once more without the tree: there is one in the whole command, its mark is plain, and the
        body is the lines up to the mark.
        """
        found = _HEREDOC.match(self._text(node))
        if found is None or self.heredocs != 1:
            raise NotPlain("a here-document that is not understood")
        after: list[Script] = []
        body = ""
        for child in node.children:
            if child.type == "pipeline":
                parts = [part for part in self._checked(child, _LINES, {"|"}) if part.is_named]
                after += [self.statement(part) for part in parts]
            elif child.type == "heredoc_body":
                body = self._text(child)
            elif child.type not in ("<<", "heredoc_start", "heredoc_end"):
                raise NotPlain("a here-document that is not understood")
        line, _, rest = self.source[node.start_byte :].decode("utf-8").partition("\n")
        mark = found["mark"]
        if "\\" in line or "#" in line or f"{body}{mark}" != self._text(node)[len(line) + 1 :]:
            raise NotPlain("a here-document that is not understood")
        expected = rest.split("\n")[: body.count("\n") + 1]
        if expected[-1:] != [mark] or mark in expected[:-1]:
            raise NotPlain("a here-document that is not understood")
        if not found["quote"] and set(body) & set("$`\\"):
            raise NotPlain("it holds an expansion")
        return after

    def _word(self, node: Node) -> Word:
        pending = [node]
        while pending:
            one = pending.pop()
            if one.type not in _WORD_LEAVES:
                raise NotPlain(_WHY.get(one.type, "a word that is not understood"))
            pending += one.children
        return read_word(self._text(node))

    def _text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8")

    def _checked(self, node: Node, gap: re.Pattern[str], tokens: set[str]) -> list[Node]:
        """Return the children of `node` where its other tokens are among `tokens` and only blanks lie between them."""
        at = 0 if node.type == "program" else node.start_byte
        end = len(self.source) if node.type == "program" else node.end_byte
        for child in node.children:
            self._check_gap(at, child.start_byte, gap)
            if child.is_missing or child.is_error or not (child.is_named or child.type in tokens):
                raise NotPlain(_WHY.get(child.type, "its syntax was not understood"))
            at = child.end_byte
        self._check_gap(at, end, gap)
        return list(node.children)

    def _check_gap(self, start: int, end: int, gap: re.Pattern[str]) -> None:
        if start != end and gap.fullmatch(self.source[start:end].decode("utf-8", "replace")) is None:
            raise NotPlain("it holds something that is not understood")
