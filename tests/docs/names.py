"""The names in a page that the program does not have: flags, commands, keys, variables, files and exit codes.

Every function takes the text of a page and returns what is wrong in it; `tests/docs/test_names.py` applies them.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from qcode.cli.arguments import CommandLineError, parse, parse_subcommand, split_subcommand
from qcode.cli.flags import FLAGS, SUBCOMMANDS
from qcode.config.schema import KEYS
from qcode.protocol.errors import ExitCode
from qcode.tui.commands.command import key_names
from qcode.tui.commands.help import PROMPT_KEYS
from qcode.tui.commands.table import COMMANDS
from qcode.tui.prompt.editing import EDITING_KEYS
from tests.docs.blocks import ROOT

FLAG_NAMES = {name for flag in FLAGS for name in flag.names} | {
    name for command in SUBCOMMANDS.values() for flag in command.flags for name in flag.names
}
KEY_NAMES = {key.name for key in KEYS}
TABLES = {key.path[0] for key in KEYS if len(key.path) > 1}
_SLASH = {f"/{name}" for command in COMMANDS for name in command.names}
_FREE = {"batch", "models", "replay", "uninstall", "update"}
"""Subcommands whose words are not actions."""
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_FILE = re.compile(r"[\w.$~/-]*?([\w.-]+\.(?:json|jsonl|toml|log))")
_KEYBOARD = re.compile(r"\b(?:Ctrl|Alt|Shift|Super)\+(?:Shift\+)?\w+|\bF\d+\b|\bPg(?:Up|Dn)\b")
_EXITS = re.compile(
    r"\b[Ee]xit(?:s|ed)?(?: with)?(?: (?:the )?(?:codes?|status))?(?: is| of)?:? `?(\d+(?:(?:, | and | or )\d+)*)"
)


def prose(text: str) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", text)


def codes(text: str) -> list[str]:
    """Return the inline code of a page, with the line breaks of the prose as blanks."""
    return [code.replace("\\|", "|") for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", " ".join(prose(text).split()))]


def unknown_flags(text: str) -> set[str]:
    """Return the flags that begin an inline code and that qcode does not have."""
    named = (re.match(r"(--?[a-zA-Z][\w-]*)(?:[ =\[].*)?$", code) for code in codes(text))
    return {found[1] for found in named if found} - FLAG_NAMES


def invalid_commands(text: str) -> set[str]:
    """Return the commands of qcode, in blocks and in inline code, that its parser refuses."""
    written = [
        words for code in codes(text) if re.match(r"qcode [-a-z[]", code) for words in commands_of(_one_form(code))
    ]
    for language, block in _FENCE.findall(text):
        if language in ("sh", "console"):
            script = (
                re.sub(r"^\$ ", "", block, flags=re.MULTILINE)
                if language == "sh"
                else "\n".join(line[2:] for line in block.splitlines() if line.startswith("$ "))
            )
            written += commands_of(script)
    return {f"{shlex.join(['qcode', *words])}: {why}" for words in written if (why := _refusal(words))}


def _one_form(code: str) -> str:
    """Return a usage such as `sessions list [WORDS]|show ID` as its first form, without what is optional."""
    whole = re.sub(r" ?\[[^\]]*\]| ?…", "", code).replace("...", "")
    return whole.partition("|")[0] if re.search(r"\w\|\w", whole) else whole


@functools.cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def commands_of(script: str) -> list[list[str]]:
    """Return the arguments of each call of qcode in a shell script; an expansion stands for itself."""
    return [
        words for node in _nodes(_parser().parse(script.encode()).root_node) if (words := _arguments(node)) is not None
    ]


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _arguments(node: Node) -> list[str] | None:
    name = node.child_by_field_name("name") if node.type == "command" else None
    if name is None or _text(name) not in ("qcode", "qcode-cli", "env/bin/qcode"):
        return None
    return [_unquoted(_text(child)) for child in node.children_by_field_name("argument")]


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def _unquoted(word: str) -> str:
    try:
        return " ".join(shlex.split(word)) if word[:1] in "'\"" else word
    except ValueError:
        return word


def _refusal(words: list[str]) -> str:
    """Return why the parser refuses the arguments, empty if it accepts them."""
    try:
        if words in (["--version"], ["--help"]):
            return ""
        found = split_subcommand(words)
        if found is None:
            parse(words)
            return ""
        name, rest = found
        rest = [re.sub(r"^[A-Z]$", "1", word) for word in rest]  # `--jobs N`
        if name in ("acp", "help", "version"):
            return ""
        _, given, _ = parse_subcommand(name, rest, "")
    except CommandLineError as error:
        return "" if "needs a value" in str(error) and words[-1].startswith("--") else str(error)
    actions = SUBCOMMANDS[name].actions
    if given and actions and name not in _FREE and given[0] not in actions and not given[0].isupper():
        return f"{name} has no action {given[0]}"
    return ""


def unknown_slash_commands(text: str) -> set[str]:
    """Return the slash commands in inline code that do not exist."""
    return {found[1] for code in codes(text) if (found := re.match(r"(/[a-z][a-z:-]*)(?: |$)", code))} - _SLASH


def unknown_config_keys(text: str) -> set[str]:
    """Return the config keys and tables in inline code that do not exist."""
    unknown = set()
    for code in codes(text):
        key = re.match(r'\[?([a-z_]+)((?:\.[A-Za-z_]+|\."[^"]*")+)\]?(?: = .*)?$', code)
        if not key or key[1] not in TABLES:
            continue
        name = re.sub(
            r"^(providers|mcp_servers)\.[^.]+",
            r"\1.NAME",
            re.sub(r'^models\."[^"]*"', 'models."PROVIDER/MODEL"', key[1] + key[2]),
        )
        if not any(key_name == name or key_name.startswith(f"{name}.") for key_name in KEY_NAMES) and not re.fullmatch(
            r"ui\.keys\.[a-z-]+|hooks\.EVENT|providers\.NAME\.\w+\.\w+|after_edit\.servers\.\w+", name
        ):
            unknown.add(code)
    return unknown


def unknown_exit_codes(text: str) -> set[int]:
    """Return the exit codes, in sentences and in tables with such a column, that qcode does not have."""
    found = {int(code) for codes in _EXITS.findall(" ".join(prose(text).split())) for code in re.findall(r"\d+", codes)}
    for table in re.findall(r"(?:^\|.*\n?)+", prose(text), re.MULTILINE):
        head, *rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in table.splitlines()]
        if "exit code" in head:
            at = head.index("exit code")
            found |= {int(code) for row in rows[1:] if at < len(row) for code in re.findall(r"\d+", row[at])}
    return found - {int(code) for code in ExitCode}


def unknown_keyboard_keys(text: str) -> set[str]:
    """Return the keys and combinations of keys that nothing in the app is bound to."""
    return {key for key in _KEYBOARD.findall(prose(text)) if key not in _bound_keys()}


@functools.cache
def _bound_keys() -> frozenset[str]:
    written = [command.keys for command in COMMANDS if command.keys] + [
        names.split(",") for names, _, _ in EDITING_KEYS
    ]
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "qcode/tui").rglob("*.py"))
    written += [names.split(",") for names in re.findall(r'Binding\(\s*"([^"]+)"', sources)]
    written += [[name] for name in re.findall(r'"((?:ctrl|alt|shift)\+[a-z]+)"', sources)]
    named = ", ".join([*(key_names(keys) for keys in written), *(keys for keys, _ in PROMPT_KEYS)])
    return frozenset(_KEYBOARD.findall(named))


def variables(text: str) -> set[str]:
    """Return the environment variables in inline code and those that a block sets."""
    found = {name for code in codes(text) for name in _VARIABLE.findall(code)}
    return found | {
        name for _, block in _FENCE.findall(text) for name in re.findall(r"^export ([A-Z_]+)=", block, re.MULTILINE)
    }


def files(text: str) -> set[str]:
    """Return the names of data files in inline code, without their folders."""
    return {found[1] for code in codes(text) if (found := _FILE.fullmatch(code))}


def targets(text: str) -> set[str]:
    """Return the targets of `make` in inline code and blocks."""
    blocks = [block for language, block in _FENCE.findall(text) if language == "sh"]
    named = [code for code in codes(text) if code.startswith("make ")]
    return set(re.findall(r"^make (?:PYTHON=\S+ )?([a-z][a-z-]*)", "\n".join([*named, *blocks]), re.MULTILINE))


def identifiers(text: str) -> set[str]:
    """Return the names with an underscore in inline code: fields of JSON, tools, kinds of errors, keys of tables."""
    return {code for code in codes(text) if re.fullmatch(r"[a-z]+(?:_[a-z]+)+", code)}
