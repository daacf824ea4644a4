"""Reads a shell command with tree-sitter's grammar of bash and keeps what is on a white list. Runs nothing.

A node of any other kind, an error, or text between nodes that is not blank is `NotPlain`. Words are unquoted by
`words`, which must agree with the tree about where each ends. tree-sitter is loaded with the first command.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from qcode.safety.shell.forms import (
    MARK,
    Bounds,
    Choice,
    Command,
    Hole,
    Listing,
    Loop,
    Negation,
    NotPlain,
    Operator,
    Piping,
    Reading,
    Script,
    Word,
)
from qcode.safety.shell.nodes import BLANKS, LINES, WORDS, Nodes, check_apart, check_characters, why_not
from qcode.safety.shell.words import read_call, read_words, split_tests

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_DEEPEST = 30
_RESERVED = frozenset(
    {
        "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
        "select", "function", "coproc", "in",
    }
)  # fmt: skip
_FRAME = ("  ", " \t", "\t ", "\t\t")
_HEREDOC = re.compile(r"<<(?P<quote>'?)(?P<mark>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)")
_VALUE = re.compile(r"\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\}|[?#])", re.ASCII)
_ARITHMETIC = re.compile(r"\$\(\([ \d+*/%()<>=!&|^~-]*\)\)", re.ASCII)
_VARIABLE = re.compile(r"(?!.*_proxy)[a-z][a-z0-9_]{0,40}|[A-Z]")
"""Names that mean nothing to bash or to a program: those are in capitals, and longer than a letter."""


@lru_cache(maxsize=512)
def read_script(text: str) -> Script:
    """Return what `text` is to bash; raise `NotPlain`, with one line for a person, where that is not certain."""
    check_characters(text)
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


def _in_order(scripts: list[Script]) -> Script:
    if not scripts:
        raise NotPlain("the command is incomplete")
    return Listing(scripts[0], tuple((";", one) for one in scripts[1:])) if len(scripts) > 1 else scripts[0]


def _alone(word: tuple[Word, ...]) -> Word:
    if len(word) != 1:
        raise NotPlain("it holds a brace expansion")
    return word[0]


class _Reader(Nodes):
    """Turns nodes into a `Script`."""

    def __init__(self, text: str, source: bytes) -> None:
        super().__init__(source)
        self.heredocs = text.count("<<") - 2 * text.count("<<<")
        self.depth = 0
        self.inside = 0
        """How many substitutions are around what is read."""

    def script_of(self, node: Node, *tokens: str) -> Script:
        """Return the script of a node that holds statements: the whole, a group, a subshell, a substitution."""
        found = self.named(node, LINES, {";", "\n", "(", ")", "{", "}", "else", *tokens})
        comments = [child for child in found if child.type == "comment"]
        if comments and self.inside:
            raise NotPlain("a comment inside a substitution")
        return _in_order([self.statement(child) for child in found if child.type != "comment"])

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
            case "command":
                return self._command(node)
            case "test_command":
                return self._test(node)
            case "redirected_statement":
                return self._redirected(node)
            case "list":
                return self._list(node)
            case "pipeline":
                return Piping(tuple(self.statement(part) for part in self.named(node, LINES, {"|"})))
            case "negated_command":
                return Negation(self.statement(self.named(node, BLANKS, {"!"})[0]))
            case "subshell":
                return Piping((self.script_of(node),))
            case "compound_statement":
                if not self.text(node).startswith("{"):
                    raise NotPlain("it holds arithmetic")
                return self.script_of(node)
            case "if_statement":
                return self._choice(node)
            case "for_statement":
                return self._loop(node)
            case "while_statement":
                return self._reading(node)
        raise NotPlain(why_not(node.type, f"it holds a {node.type.replace('_', ' ')}, which is not understood"))

    def _list(self, node: Node) -> Script:
        """Return a list; it is walked in a loop along its left side, which is as deep as the list is long."""
        chain: list[tuple[Operator, Node]] = []
        while node.type == "list":
            left, *middle, right = self.checked(node, LINES, {"&&", "||"})
            named = [child for child in middle if child.type != "comment"]
            if len(named) != 1 or named[0].type not in ("&&", "||") or (len(middle) > 1 and self.inside):
                raise NotPlain("a list that is not understood")
            chain.append(("&&" if named[0].type == "&&" else "||", right))
            node = left
        first = self.statement(node)
        return Listing(first, tuple((operator, self.statement(right)) for operator, right in reversed(chain)))

    def _choice(self, node: Node) -> Script:
        """Return `if`, whose clauses the grammar lists one after the other; `elif` is an `if` in an `else`."""
        condition: list[Script] = []
        then: list[Script] = []
        more: list[tuple[Script, Script]] = []
        otherwise: Script | None = None
        reading = condition
        for child in self.checked(node, LINES, {"if", "then", "fi", ";", "\n", "elif"}):
            if child.type == "then":
                reading = then
            elif child.type == "else_clause":
                otherwise = self.script_of(child)
            elif child.type == "elif_clause":
                one = self._choice(child)
                assert isinstance(one, Choice)
                more.append((one.condition, one.then))
            elif child.type == "comment":
                self._check_outside()
            elif child.is_named:
                reading.append(self.statement(child))
        for other, inner in reversed(more):
            otherwise = Choice(other, inner, otherwise)
        return Choice(_in_order(condition), _in_order(then), otherwise)

    def _check_outside(self) -> None:
        if self.inside:
            raise NotPlain("a comment inside a substitution")

    def _loop(self, node: Node) -> Script:
        """Return `for name in words`."""
        children = self.checked(node, LINES, {"for", "in", ";", "\n"})
        kinds = [child.type for child in children]
        if kinds[:1] + kinds[2:3] != ["for", "in"] or kinds[1] != "variable_name" or kinds[-1] != "do_group":
            raise NotPlain("it holds a loop that is not understood")
        values = [child for child in children[3:-1] if child.is_named]
        check_apart(values)
        words = tuple(word for value in values for word in self._words(value))
        return Loop(self._variable(self.text(children[1])), words, self._body(children[-1]))

    def _reading(self, node: Node) -> Reading:
        """Return `while read`; any other loop may have no end."""
        children = self.checked(node, LINES, {"while", ";", "\n"})
        if [child.type for child in children if child.is_named] != ["command", "do_group"] or not children[1].is_named:
            raise NotPlain("it holds a loop that may have no end")
        called = self.checked(children[1], BLANKS, set())
        separator = self.text(called.pop(0)) if called[0].type == "variable_assignment" else None
        check_apart(called)
        if separator not in (None, "IFS=", "IFS=,", "IFS=:") or any(
            child.type not in (*WORDS, "command_name") for child in called
        ):
            raise NotPlain("it holds a loop that is not understood")
        words = tuple(_alone(self._words(child)) for child in called)
        is_raw, is_apart, names = read_call(words)
        bounds: Bounds = "nul" if is_apart else "line" if separator == "IFS=" else "word"
        is_whole = is_raw and len(names) == 1 and (separator in (None, "IFS="))
        return Reading(tuple(self._variable(name) for name in names), self._body(children[-1]), None, is_whole, bounds)

    def _variable(self, name: str) -> str:
        if _VARIABLE.fullmatch(name) is None:
            raise NotPlain(f"a loop that sets {name}")
        return name

    def _body(self, node: Node) -> Script:
        return self.script_of(node, "do", "done")

    def _command(self, node: Node) -> Command:
        words: list[Word] = []
        texts: list[Word] = []
        children = self.checked(node, BLANKS, set())
        check_apart(children)
        for child in children:
            if child.type == "herestring_redirect":
                texts.append(self._herestring(child))
            elif child.type == "command_name" or (child.type in WORDS and words):
                words += self._words(child)
            else:
                raise NotPlain(why_not(child.type, "it holds something that is not understood"))
            if child.type == "command_name" and (len(words) != 1 or words[0].holes):
                raise NotPlain("the name of the program is an expansion")
        if words and words[0].text in _RESERVED:
            raise NotPlain("a word of the shell where a program is expected")
        return Command(tuple(words), texts=tuple(texts))

    def _test(self, node: Node) -> Script:
        """Return the words of `[ ... ]` or `[[ ... ]]`; the tree's own reading of the expression does not matter."""
        text, holes = self._marked(node, checks=False)
        size = 2 if text.startswith("[[") else 1
        inside = text[size:-size]
        if text[:size] + text[-size:] not in ("[]", "[[]]") or inside[:1] + inside[-1:] not in _FRAME:
            raise NotPlain("a test that is not understood")
        opening, closing = Word(text[:size]), Word(text[-size:])
        (_, first), *rest = split_tests(inside, holes)
        if rest and size == 1:
            raise NotPlain("a test that is not understood")
        tests = [(operator, Command((opening, *words, closing))) for operator, words in rest]
        found = Command((opening, *first, closing))
        return Listing(found, tuple(tests)) if tests else found

    def _redirected(self, node: Node) -> Script:
        children = self.checked(node, BLANKS, set())
        body, redirects = children[0], children[1:]
        if body.type == "while_statement":
            return self._redirected_loop(body, redirects)
        inner = self.statement(body)
        command = inner.inner if isinstance(inner, Negation) else inner
        if not isinstance(command, Command):
            self._check_harmless(redirects)
            return inner
        after: list[Script] = []
        for redirect in redirects:
            if redirect.type == "heredoc_redirect":
                after += self._heredoc(redirect)
            else:
                command = self._with_redirect(command, redirect)
        found: Script = Negation(command) if isinstance(inner, Negation) else command
        return Piping((found, *after)) if after else found

    def _check_harmless(self, redirects: list[Node]) -> None:
        """Take redirections of a group or list only where they neither read nor write a file."""
        if self._with_redirects(redirects) != Command((Word(":"),)):
            raise NotPlain("a redirection of several commands")

    def _redirected_loop(self, body: Node, redirects: list[Node]) -> Script:
        """Return a loop with what it reads: one file, text, or what a command prints."""
        source = self._with_redirects(redirects)
        if source.outputs or len(source.inputs) + len(source.texts) > 1 or len(source.words) > 1:
            raise NotPlain("a redirection of several commands")
        is_fed = bool(source.inputs or source.texts)
        return replace(self._reading(body), source=source if is_fed else None)

    def _with_redirects(self, redirects: list[Node]) -> Command:
        command = Command((Word(":"),))
        for redirect in redirects:
            command = self._with_redirect(command, redirect)
        return command

    def _with_redirect(self, command: Command, node: Node) -> Command:
        """Return the command with one redirection; the grammar takes words after the target for more targets."""
        if node.type == "herestring_redirect":
            return Command(command.words, command.inputs, command.outputs, (*command.texts, self._herestring(node)))
        if node.type != "file_redirect":
            raise NotPlain("a redirection that is not understood")
        children = self.checked(node, BLANKS, {"<", ">", ">>", ">&", "&>", "&>>"})
        if children[0].type == "file_descriptor":
            descriptor = self.text(children.pop(0))
            if descriptor not in ("0", "1", "2"):
                raise NotPlain("a redirection that is not understood")
        operator = children.pop(0).type
        check_apart(children)
        if not children or any(child.type not in WORDS for child in children):
            raise NotPlain("a redirection that is not understood")
        target = _alone(self._words(children[0]))
        more = [word for child in children[1:] for word in self._words(child)]
        inputs, outputs = command.inputs, command.outputs
        if operator == ">&":
            if target not in (Word("1"), Word("2")):
                raise NotPlain("it writes to a file")
        elif operator == "<":
            inputs = (*inputs, target)
        elif target.holes:
            raise NotPlain("it writes to a file whose name is not known")
        elif target != Word("/dev/null"):
            outputs = (*outputs, target)
        return Command((*command.words, *more), inputs, outputs, command.texts)

    def _herestring(self, node: Node) -> Word:
        """Return the text of a here-string, which is nothing but input."""
        children = self.checked(node, BLANKS, {"<<<"})
        word = _alone(self._words(children[1])) if len(children) == 2 else Word("~", is_home=True)
        if word.is_home:
            raise NotPlain("a here-string that is not understood")
        return word

    def _heredoc(self, node: Node) -> list[Script]:
        """Check that a here-document is plain text; return what its line pipes into.

        Where it ends is found once more without the tree: there is one in the whole command, its mark is plain, and the
        body is the lines up to the mark.
        """
        found = _HEREDOC.match(self.text(node))
        if found is None or self.heredocs != 1 or self.inside:
            raise NotPlain("a here-document that is not understood")
        after: list[Script] = []
        body = ""
        for child in node.children:
            if child.type == "pipeline":
                after += [self.statement(part) for part in self.named(child, LINES, {"|"})]
            elif child.type == "heredoc_body":
                body = self.text(child)
            elif child.type not in ("<<", "heredoc_start", "heredoc_end"):
                raise NotPlain("a here-document that is not understood")
        line, _, rest = self.source[node.start_byte :].decode("utf-8").partition("\n")
        mark = found["mark"]
        if "\\" in line or "#" in line or f"{body}{mark}" != self.text(node)[len(line) + 1 :]:
            raise NotPlain("a here-document that is not understood")
        expected = rest.split("\n")[: body.count("\n") + 1]
        if expected[-1:] != [mark] or mark in expected[:-1]:
            raise NotPlain("a here-document that is not understood")
        if not found["quote"] and set(body) & set("$`\\"):
            raise NotPlain("it holds an expansion")
        return after

    def _words(self, node: Node) -> tuple[Word, ...]:
        return read_words(*self._marked(node))

    def _marked(self, node: Node, *, checks: bool = True) -> tuple[str, tuple[Hole, ...]]:
        """Return the text of a node with a mark in place of each hole, and the holes."""
        pieces: list[bytes] = []
        holes: list[Hole] = []
        at = node.start_byte
        for hole in self.holes(node, checks=checks):
            if hole.type == "process_substitution" and hole != node:
                raise NotPlain("it holds an expansion that is not understood")
            pieces += [self.source[at : hole.start_byte], MARK.encode()]
            holes.append(self._hole(hole))
            at = hole.end_byte
        return b"".join([*pieces, self.source[at : node.end_byte]]).decode("utf-8"), tuple(holes)

    def _hole(self, node: Node) -> Hole:
        text = self.text(node)
        if node.type in ("simple_expansion", "expansion"):
            found = _VALUE.fullmatch(text)
            follower = self.follower(node)
            if found is None or (found["name"] and (follower.isalnum() or follower == "_")):
                raise NotPlain("it holds an expansion that is not understood")
            return Hole(found["name"] or found["braced"] or "")
        if node.type == "arithmetic_expansion":
            if _ARITHMETIC.fullmatch(text) is None:
                raise NotPlain("it holds arithmetic")
            return Hole()
        is_file, is_tick = text.startswith("<("), text.startswith("`")
        if text.startswith("$((") or (is_tick and set(text[1:-1]) & set('`\\"$')):
            raise NotPlain("it holds an expansion that is not understood")
        self.inside += 1
        script = self.script_of(node, "$(", "`", "<(")
        self.inside -= 1
        return Hole(script=script, is_file=is_file)
