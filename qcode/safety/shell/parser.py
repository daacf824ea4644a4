"""The parser of shell commands: from tree-sitter's grammar of bash to the types of `ast`. Runs nothing.

Example: `cat "a b" $f | head` becomes a `Pipeline` of two commands. The words of the first are `cat`, the quoted `a b`,
and a word with one expansion, of the variable `f`.
Only an allowlist of node kinds is accepted. Any other node, an error, or non-blank text between nodes raises
`UnsupportedSyntax`. Each word is unquoted again here, character by character, and must have the same end as in the
tree. tree-sitter is loaded with the first command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from qcode.safety.shell.ast import (
    HERE_DOCUMENT,
    PLACEHOLDER,
    REDIRECTED_LIST,
    UNREADABLE,
    CommandList,
    Expansion,
    ListItem,
    Loop,
    Negation,
    Operator,
    Pipeline,
    Script,
    SimpleCommand,
    UnsupportedSyntax,
    Word,
)
from qcode.safety.shell.bounds import check_bounds
from qcode.safety.shell.characters import DisallowedCharacter, character_reason, has_hidden, is_bare_text, is_plain
from qcode.text.clean import quoted

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_EXPANSION_KINDS = frozenset(
    {"simple_expansion", "expansion", "arithmetic_expansion", "command_substitution", "process_substitution"}
)
"""Node kinds of expansions."""
_WORDS = frozenset({"word", "number", "raw_string", "string", "concatenation", "brace_expression"}) | _EXPANSION_KINDS
_LEAVES = _WORDS | {"string_content", '"', "$", "[", "]", "{", "}", "..", "command_name"}
# The text between words (with continued lines), and between statements.
_BLANKS = re.compile(r"[ \t]*|[ \t]+(?:\\\n[ \t]*)+")
_LINES = re.compile(r"(?:[ \t\n]|(?<=[ \t])\\\n[ \t])*")
_REASONS = {
    **dict.fromkeys(_EXPANSION_KINDS, "it has an expansion that qcode cannot check"),
    **dict.fromkeys(("ansi_c_string", "translated_string"), "it has a quote with escapes"),
    "process_substitution": "it contains a process substitution",
    **dict.fromkeys(("variable_assignment", "variable_assignments"), "it sets a variable"),
    **dict.fromkeys(("declaration_command", "unset_command"), "it changes the state of the shell"),
    "function_definition": "it defines a function",
    "c_style_for_statement": "it has a loop that qcode cannot check",
    "while_statement": "it contains a loop that may not end",
    "case_statement": "it contains a case statement",
    "if_statement": "it contains a condition",
    "heredoc_redirect": HERE_DOCUMENT,
    "herestring_redirect": "it contains a here-string",
    "&": "it would run in the background",
    "|&": "it uses the operator |&",
}


def _reason(kind: str, default: str) -> str:
    """Return why a node of this kind is not accepted."""
    return _REASONS.get(kind, default)


def _check_separated(nodes: list[Node]) -> None:
    """Check that a blank precedes each word but the first, because bash reads adjacent nodes as one word."""
    for before, node in pairwise(nodes):
        if before.end_byte == node.start_byte and node.type in _WORDS:
            raise UnsupportedSyntax("it has a word without a clear end")


MAX_DEPTH = 30  # of nested statements
_RESERVED = frozenset(
    {
        "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
        "select", "function", "coproc", "in",
    }
)  # fmt: skip
# The first and last character inside `[ … ]`: bash needs a blank at both ends.
_TEST_BLANKS = ("  ", " \t", "\t ", "\t\t")
# The accepted expansions: `$name`, `${name}`, `$?`, `$#`, and arithmetic with literal numbers.
_VALUE = re.compile(r"\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\}|[?#])", re.ASCII)
_ARITHMETIC = re.compile(r"\$\(\([ \d+*/%()<>=!&|^~-]*\)\)", re.ASCII)
_VARIABLE = re.compile(r"(?!.*_proxy)[a-z][a-z0-9_]{0,40}|[A-Z]")
"""Variables that a loop may set. Names with a meaning for bash or programs are in capitals or end in `_proxy`."""


def read_script(text: str) -> Script:
    """Parse `text` as bash would; raise `UnsupportedSyntax` with the reason if the result is not certain."""
    reason = check_bounds(text)
    if reason:
        raise UnsupportedSyntax(reason)
    if has_hidden(text):
        raise UnsupportedSyntax(character_reason(text))
    source = text.encode("utf-8")
    root = bash_parser().parse(source).root_node
    if root.has_error:
        raise UnsupportedSyntax(UNREADABLE)
    try:
        return _SyntaxReader(source).script_of(root)
    except DisallowedCharacter as error:
        raise UnsupportedSyntax(character_reason(text, error.char)) from None


@lru_cache(maxsize=1)
def bash_parser() -> Parser:
    """Return tree-sitter with the grammar of bash, which also reads syntax that `read_script` does not accept."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _sequence(scripts: list[Script]) -> Script:
    if not scripts:
        raise UnsupportedSyntax("the command is incomplete")
    return scripts[0] if len(scripts) == 1 else CommandList(tuple(ListItem(";", script) for script in scripts))


def _single_word(word: tuple[Word, ...]) -> Word:
    if len(word) != 1:
        raise UnsupportedSyntax("it contains a brace expansion")
    return word[0]


class _Nodes:
    """Access to the syntax tree of one command. Offsets are in bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8")

    def next_character(self, node: Node) -> str:
        """Return the character after a node, empty at the end."""
        return self.source[node.end_byte : node.end_byte + 1].decode("utf-8", "replace")

    def named_children(self, node: Node, gap: re.Pattern[str], tokens: set[str]) -> list[Node]:
        """Return the children of `node` without the tokens; see `children`."""
        return [child for child in self.children(node, gap, tokens) if child.is_named]

    def children(self, node: Node, gap: re.Pattern[str], tokens: set[str]) -> list[Node]:
        """Return the children of `node`.

        Raise `UnsupportedSyntax` for a token that is not in `tokens`, and for text between children that does not match
        `gap`.
        """
        position = 0 if node.type == "program" else node.start_byte
        end = len(self.source) if node.type == "program" else node.end_byte
        for child in node.children:
            self._check_gap(position, child.start_byte, gap)
            if child.is_missing or child.is_error or not (child.is_named or child.type in tokens):
                raise UnsupportedSyntax(_reason(child.type, UNREADABLE))
            position = child.end_byte
        self._check_gap(position, end, gap)
        return list(node.children)

    def _check_gap(self, start: int, end: int, gap: re.Pattern[str]) -> None:
        if start != end and gap.fullmatch(self.source[start:end].decode("utf-8", "replace")) is None:
            raise UnsupportedSyntax(UNREADABLE)

    def expansions(self, node: Node, *, checks: bool = True) -> Iterator[Node]:
        """Yield the expansions below a word, in order. With `checks`, raise for parts that no plain word has."""
        pending = [node]
        while pending:
            item = pending.pop()
            if item.type in _EXPANSION_KINDS:
                yield item
                continue
            if checks and item.type not in _LEAVES:
                raise UnsupportedSyntax(_reason(item.type, "it has a word that qcode cannot read"))
            pending += reversed(item.children)


class _SyntaxReader(_Nodes):
    """The conversion of syntax nodes to a `Script`."""

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self.depth = 0
        self.substitution_depth = 0
        """The number of substitutions around the current node."""

    def script_of(self, node: Node, *tokens: str) -> Script:
        """Return the script of a node with statements: the whole command, a group, a subshell or a substitution."""
        children = self.named_children(node, _LINES, {";", "\n", "(", ")", "{", "}", "else", *tokens})
        statements = [child for child in children if child.type != "comment"]
        if len(statements) < len(children) and self.substitution_depth:
            raise UnsupportedSyntax("it has a comment inside a substitution")
        return _sequence([self.statement(child) for child in statements])

    def statement(self, node: Node) -> Script:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnsupportedSyntax("it is nested very deeply")
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
                return self._read_redirected(node)
            case "list":
                return self._list(node)
            case "pipeline":
                return Pipeline(tuple(self.statement(part) for part in self.named_children(node, _LINES, {"|"})))
            case "negated_command":
                return Negation(self.statement(self.named_children(node, _BLANKS, {"!"})[0]))
            case "subshell":
                return Pipeline((self.script_of(node),))
            case "compound_statement":
                if not self.text(node).startswith("{"):
                    raise UnsupportedSyntax("it contains arithmetic")
                return self.script_of(node)
            case "for_statement":
                return self._loop(node)
        raise UnsupportedSyntax(_reason(node.type, f"it has a {node.type.replace('_', ' ')}, which qcode cannot check"))

    def _list(self, node: Node) -> Script:
        """Return a list of commands. Its nodes are nested on the left, so a loop walks them without recursion."""
        later_items: list[tuple[Operator, Node]] = []
        while node.type == "list":
            left, *middle, right = self.children(node, _LINES, {"&&", "||"})
            operators = [child.type for child in middle if child.type != "comment"]
            has_comment = len(operators) < len(middle)
            if operators not in (["&&"], ["||"]) or (has_comment and self.substitution_depth):
                raise UnsupportedSyntax("it joins commands in a way that qcode cannot check")
            later_items.append(("&&" if operators == ["&&"] else "||", right))
            node = left
        items = [ListItem(";", self.statement(node))]
        items += [ListItem(operator, self.statement(right)) for operator, right in reversed(later_items)]
        return CommandList(tuple(items))

    def _loop(self, node: Node) -> Script:
        """Return `for name in words`."""
        children = self.children(node, _LINES, {"for", "in", ";", "\n"})
        kinds = [child.type for child in children]
        if kinds[:3] != ["for", "variable_name", "in"] or kinds[-1] != "do_group":
            raise UnsupportedSyntax("it has a loop that qcode cannot check")
        values = [child for child in children[3:-1] if child.is_named]
        _check_separated(values)
        words = tuple(word for value in values for word in self._words(value))
        name = self.text(children[1])
        if _VARIABLE.fullmatch(name) is None:
            raise UnsupportedSyntax(f"a loop in it sets {name}")
        return Loop(name, words, self.script_of(children[-1], "do", "done"))

    def _command(self, node: Node) -> SimpleCommand:
        """Return a simple command. The name of its program must be one word without an expansion."""
        words: list[Word] = []
        children = self.children(node, _BLANKS, set())
        _check_separated(children)
        for child in children:
            if child.type == "command_name" or (child.type in _WORDS and words):
                words += self._words(child)
            else:
                raise UnsupportedSyntax(_reason(child.type, UNREADABLE))
            if child.type == "command_name" and (len(words) != 1 or words[0].expansions):
                raise UnsupportedSyntax("its program is known only when it runs")
        if words and words[0].text in _RESERVED:
            raise UnsupportedSyntax("it has a keyword of the shell in the place of a program")
        return SimpleCommand(tuple(words))

    def _test(self, node: Node) -> Script:
        """Return the commands of `[ ... ]` or `[[ ... ]]`, read from its text and not from the nodes inside."""
        text, expansions = self._with_placeholders(node, checks=False)
        size = 2 if text.startswith("[[") else 1
        inside = text[size:-size]
        if text[:size] + text[-size:] not in ("[]", "[[]]") or inside[:1] + inside[-1:] not in _TEST_BLANKS:
            raise UnsupportedSyntax("it has a test that qcode cannot check")
        opening, closing = Word(text[:size]), Word(text[-size:])
        tests = [
            ListItem(operator, SimpleCommand((opening, *words, closing)))
            for operator, words in split_tests(inside, expansions)
        ]
        if len(tests) == 1:
            return tests[0].script
        if size == 1:
            raise UnsupportedSyntax("it has a test that qcode cannot check")
        return CommandList(tuple(tests))

    def _read_redirected(self, node: Node) -> Script:
        """Return a statement with its redirections, such as `sort < a > b`."""
        children = self.children(node, _BLANKS, set())
        body, redirects = children[0], children[1:]
        inner = self.statement(body)
        command = inner.inner if isinstance(inner, Negation) else inner
        if not isinstance(command, SimpleCommand):
            self._check_harmless(redirects)
            return inner
        command = self._with_redirects(command, redirects)
        return Negation(command) if isinstance(inner, Negation) else command

    def _check_harmless(self, redirects: list[Node]) -> None:
        """Raise if a redirection of a group or list reads or writes a file."""
        nothing = SimpleCommand((Word(":"),))
        if self._with_redirects(nothing, redirects) != nothing:
            raise UnsupportedSyntax(REDIRECTED_LIST)

    def _with_redirects(self, command: SimpleCommand, redirects: list[Node]) -> SimpleCommand:
        for redirect in redirects:
            command = self._with_redirect(command, redirect)
        return command

    def _with_redirect(self, command: SimpleCommand, node: Node) -> SimpleCommand:
        """Return the command with one more redirection. In the grammar, words after the target are further targets."""
        if node.type != "file_redirect":
            raise UnsupportedSyntax(_reason(node.type, "it has a redirection that qcode cannot check"))
        children = self.children(node, _BLANKS, {"<", ">", ">>", ">&", "&>", "&>>"})
        if children[0].type == "file_descriptor":
            descriptor = self.text(children.pop(0))
            if descriptor not in ("0", "1", "2"):
                raise UnsupportedSyntax("it has a redirection that qcode cannot check")
        operator = children.pop(0).type
        _check_separated(children)
        if not children or any(child.type not in _WORDS for child in children):
            raise UnsupportedSyntax("it has a redirection that qcode cannot check")
        target = _single_word(self._words(children[0]))
        further_words = [word for child in children[1:] for word in self._words(child)]
        inputs, outputs = command.inputs, command.outputs
        if operator == ">&":
            if target not in (Word("1"), Word("2")):
                raise UnsupportedSyntax("it writes to a file")
        elif operator == "<":
            inputs = (*inputs, target)
        elif target.expansions:
            raise UnsupportedSyntax("it writes to a file whose name is known only when it runs")
        elif target != Word("/dev/null"):
            outputs = (*outputs, target)
        return SimpleCommand((*command.words, *further_words), inputs, outputs)

    def _words(self, node: Node) -> tuple[Word, ...]:
        return read_words(*self._with_placeholders(node))

    def _with_placeholders(self, node: Node, *, checks: bool = True) -> tuple[str, tuple[Expansion, ...]]:
        """Return the text of a node with `PLACEHOLDER` in place of each expansion, and the expansions."""
        parts: list[bytes] = []
        expansions: list[Expansion] = []
        position = node.start_byte
        for expansion in self.expansions(node, checks=checks):
            if expansion.type == "process_substitution":
                raise UnsupportedSyntax(_reason(expansion.type, ""))
            parts += [self.source[position : expansion.start_byte], PLACEHOLDER.encode()]
            expansions.append(self._expansion(expansion))
            position = expansion.end_byte
        return b"".join([*parts, self.source[position : node.end_byte]]).decode("utf-8"), tuple(expansions)

    def _expansion(self, node: Node) -> Expansion:
        """Return a variable, an arithmetic expansion (a number), or a substitution with its script."""
        text = self.text(node)
        if node.type in ("simple_expansion", "expansion"):
            match = _VALUE.fullmatch(text)
            following = self.next_character(node)
            if match is None or (match["name"] and (following.isalnum() or following == "_")):
                raise UnsupportedSyntax("it has an expansion that qcode cannot check")
            return Expansion(match["name"] or match["braced"] or "")
        if node.type == "arithmetic_expansion":
            if _ARITHMETIC.fullmatch(text) is None:
                raise UnsupportedSyntax("it contains arithmetic")
            return Expansion()
        if text.startswith(("$((", "`")):
            raise UnsupportedSyntax("it has an expansion that qcode cannot check")
        self.substitution_depth += 1
        script = self.script_of(node, "$(")
        self.substitution_depth -= 1
        return Expansion(script=script)


_ESCAPABLE = frozenset(" ()[]{}*?;&|<>#!$'\"`~\\")
_PLAIN_BRACES = re.compile(r"[@^]\{[A-Za-z0-9-]*\}|\{\}")
_WORD_ENDS = frozenset(" \t\n|&;<>()`")
_BRACE_CHARS = r"\w@%+=:./^*?\x80-\U0010ffff-"
_BRACED = re.compile(
    rf"(?P<before>[{_BRACE_CHARS},]*)\{{(?P<list>[{_BRACE_CHARS}]*(?:,[{_BRACE_CHARS}]*)+)\}}"
    rf"(?P<after>[{_BRACE_CHARS},]*)",
    re.ASCII,
)
MAX_EXPANDED = 100  # words of one brace list


def read_words(text: str, expansions: tuple[Expansion, ...] = ()) -> tuple[Word, ...]:
    """Return the words that one written word expands to: several for a brace list, otherwise one.

    `text` has a `PLACEHOLDER` for each of the `expansions`.
    """
    if is_bare_text(text):
        return (Word(text),)
    braced = None if expansions else _BRACED.fullmatch(text)
    return tuple(read_word(word) for word in _expanded(braced)) if braced else (read_word(text, expansions),)


def read_word(text: str, expansions: tuple[Expansion, ...] = ()) -> Word:
    """Return `text` as one word; raise `UnsupportedSyntax` if it is not exactly one."""
    lexer = _Lexer(text, expansions)
    word = lexer.word()
    if lexer.position != len(text) or lexer.expansions:
        raise UnsupportedSyntax("it has a word without a clear end")
    return word


def split_words(text: str) -> tuple[Word, ...]:
    """Return the words of `text`; raise `UnsupportedSyntax` for any operator."""
    (_, words), *further_tests = split_tests(text)
    if further_tests:
        raise UnsupportedSyntax("it contains an operator where a word is expected")
    return words


def split_tests(text: str, expansions: tuple[Expansion, ...] = ()) -> list[tuple[Operator, tuple[Word, ...]]]:
    """Split `text` at `&&` and `||`. Return the words of each part with the operator before it, first a `;`."""
    lexer = _Lexer(text, expansions)
    tests: list[tuple[Operator, tuple[Word, ...]]] = []
    operator: Operator = ";"
    words: list[Word] = []
    while lexer.skip_blanks():
        following = text[lexer.position : lexer.position + 3]
        if following in ("&& ", "|| "):
            tests.append((operator, tuple(words)))
            operator, words = "&&" if following == "&& " else "||", []
            lexer.position += 3
        elif text[lexer.position] == "#":
            raise UnsupportedSyntax("it contains a comment")
        else:
            words.append(lexer.word())
    if lexer.expansions:
        raise UnsupportedSyntax("it contains an expansion")
    return [*tests, (operator, tuple(words))]


def _expanded(braced: re.Match[str]) -> list[str]:
    """Return the words of one brace list: `a.py` and `b.py` for `{a,b}.py`."""
    words = [f"{braced['before']}{middle}{braced['after']}" for middle in braced["list"].split(",")]
    if len(words) > MAX_EXPANDED or "" in words:
        raise UnsupportedSyntax("it contains a brace expansion")
    return words


class _Lexer:
    """A reader of words as bash unquotes them. `text` has a `PLACEHOLDER` for each of the `expansions`."""

    def __init__(self, text: str, expansions: tuple[Expansion, ...] = ()) -> None:
        self.text = text
        self.expansions = expansions
        self.position = 0

    def skip_blanks(self) -> bool:
        """Skip to the next word; return whether there is one."""
        while self.position < len(self.text) and self.text[self.position] in " \t":
            self.position += 1
        return self.position < len(self.text)

    def word(self) -> Word:
        start = self.position
        parts: list[str] = []
        is_quoted = is_split = False
        if start == len(self.text):
            raise UnsupportedSyntax("it lacks a word")
        is_home = self._starts_at_home()
        while self.position < len(self.text) and self.text[self.position] not in _WORD_ENDS:
            char = self.text[self.position]
            if char in "'\"\\":
                is_quoted = True
                parts.append(self._quoted(char))
            else:
                is_split = is_split or char == PLACEHOLDER
                parts.append(self._bare_text(char, is_first=self.position == start))
        if self.position == start:
            raise UnsupportedSyntax("it contains an operator where a word is expected")
        raw = self.text[start : self.position]
        _check_braces(raw, is_quoted=is_quoted)
        has_glob = not is_quoted and ("*" in raw or "?" in raw)
        word = "".join(parts)
        count = word.count(PLACEHOLDER)
        if count > len(self.expansions):
            raise UnsupportedSyntax("it contains an expansion")
        expansions, self.expansions = self.expansions[:count], self.expansions[count:]
        return Word(word, is_quoted, is_home, has_glob, expansions, is_split)

    def _starts_at_home(self) -> bool:
        if self.text[self.position] != "~":
            return False
        follower = self.text[self.position + 1 : self.position + 2]
        if follower and follower != "/" and follower not in _WORD_ENDS:
            raise UnsupportedSyntax("it names a home folder that qcode cannot check")
        return True

    def _bare_text(self, char: str, *, is_first: bool) -> str:
        """Return the next character outside quotes; raise if bash may read it in another way."""
        if char == "~" and not is_first:
            before = self.text[self.position - 1]
            if not before.isalnum() and before not in "_.^-":  # `PATH=~/bin` expands, `HEAD~1` does not
                raise UnsupportedSyntax("it has a ~ that may be a home folder")
        is_literal = char == PLACEHOLDER or char in "*?~{}!" or is_plain(self.text, self.position)
        if is_literal or (char in "[]" and is_first and self._is_alone()):
            self.position += 1
            return char
        if char == "$":
            raise UnsupportedSyntax("it contains an expansion")
        if not char.isascii():
            raise DisallowedCharacter(char)
        raise UnsupportedSyntax(f"it contains {quoted(char)} where its meaning is ambiguous")

    def _is_alone(self) -> bool:
        """Return whether the current character is a separate word, such as the `[` of a test."""
        follower = self.text[self.position + 1 : self.position + 2]
        return not follower or follower in " \t\n;|&"

    def _quoted(self, char: str) -> str:
        """Return the text of a quote that begins with `char`, or of one escaped character."""
        if char == "\\":
            escaped = self.text[self.position + 1 : self.position + 2]
            if escaped not in _ESCAPABLE:
                raise UnsupportedSyntax("it has a backslash that can be read in two ways")
            self.position += 2
            return escaped
        if char == "'":
            end = self.text.find("'", self.position + 1)
            if end < 0:
                raise UnsupportedSyntax("a quote is not closed")
            inside = self.text[self.position + 1 : end]
            self.position = end + 1
            return self._checked_printable(inside)
        return self._double_quoted()

    def _double_quoted(self) -> str:
        self.position += 1
        parts: list[str] = []
        while self.position < len(self.text):
            char = self.text[self.position]
            self.position += 1
            if char == '"':
                self._checked_printable("".join(parts).replace(PLACEHOLDER, ""))
                return "".join(parts)
            # No expansion begins with these: "line (1|2)$" ends with a plain dollar sign.
            is_plain = char == "$" and self.text[self.position : self.position + 1] in ('"', "|", ")")
            if char in "$`" and not is_plain:
                raise UnsupportedSyntax("it contains an expansion")
            if char == "\\":
                escaped = self.text[self.position : self.position + 1]
                if escaped == "\n":
                    raise UnsupportedSyntax("it has a backslash that can be read in two ways")
                if escaped and escaped in '$`"\\':
                    char = escaped
                    self.position += 1
            parts.append(char)
        raise UnsupportedSyntax("a quote is not closed")

    def _checked_printable(self, text: str) -> str:
        if not all(char.isprintable() or char in "\n\t" for char in text):
            raise UnsupportedSyntax("it contains a control or invisible character")
        return text


def _check_braces(raw: str, *, is_quoted: bool) -> None:
    """Raise for braces, except for `{}` and those of `HEAD@{1}` and `HEAD^{tree}`, which bash does not expand."""
    if is_quoted and ("*" in raw or "?" in raw or "{" in raw) and _has_bare_special(raw):
        raise UnsupportedSyntax("it mixes quotes and wildcards in one word")
    if not is_quoted and set(_PLAIN_BRACES.sub("", raw)) & set("{}"):
        raise UnsupportedSyntax("it contains a brace expansion")


def _has_bare_special(raw: str) -> bool:
    """Return whether `raw` has a wildcard or brace outside quotes. All quotes must be closed."""
    quote, index = "", 0
    while index < len(raw):
        char = raw[index]
        if quote:
            if char == "\\" and quote == '"':
                index += 1
            elif char == quote:
                quote = ""
        elif char == "\\":
            index += 1
        elif char in "'\"":
            quote = char
        elif char in "*?{}":
            return True
        index += 1
    return False
