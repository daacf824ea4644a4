"""The simple commands that bash would run for a script, with the words and the possible folders of each. Pure.

`cd` is followed: `cd src && cat x` reads `src/x`. `cd src; cat x` reads `src/x`, or `x` if the cd fails. A loop over
literal words is unrolled. The body of a loop over a wildcard is analyzed once: its variable stands for any one match.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from qcode.safety.shell.ast import (
    PLACEHOLDER,
    SAFE_VARIABLES,
    CommandList,
    Expansion,
    Loop,
    Negation,
    Pipeline,
    Script,
    SimpleCommand,
    UnsupportedSyntax,
    Word,
)
from qcode.safety.shell.characters import is_bare_text
from qcode.safety.verdict import Verdict
from qcode.values import dataclass

MAX_FOLDERS = 8  # possible working folders of one command
MAX_PARTS = 300  # simple commands, with loops unrolled
_ANY_TEXT = Word(PLACEHOLDER, unknown="text")
_NUMBER = Word(PLACEHOLDER, unknown="number")
_WILD = re.compile(r"[*?\[\\]")
_CHANGE_FOLDER = frozenset({"cd", "pushd", "popd"})

Feature: TypeAlias = Literal["loop", "substitution", "variable", "wildcard"]
"""Features of the shell beyond a list of literal commands. Without a sandbox, a command that uses one asks."""
Folders: TypeAlias = "frozenset[str]"
"""The possible working folders of a command, as absolute normalized paths."""


class _EndFolders(NamedTuple):
    """The folders in which a script may end."""

    succeeded: Folders
    """If it succeeds."""
    failed: Folders
    """If it fails."""


@dataclass(frozen=True, slots=True)
class FlowPart:
    """A simple command with the values of its expansions, and the folders it may run in."""

    command: SimpleCommand
    folders: Folders
    piped_from: tuple[str, ...] = ()
    """The programs before it in its pipeline."""


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """A simple command and the verdict on it."""

    part: FlowPart
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Flow:
    """The simple commands of a script in order, and the features of the shell that it uses."""

    parts: tuple[FlowPart, ...]
    features: frozenset[Feature]

    @property
    def has_outputs(self) -> bool:
        """Whether a command writes to a file by a redirection."""
        return any(part.command.outputs for part in self.parts)


def flow_of(script: Script, start: str) -> Flow:
    """Return the simple commands of `script`, run in the folder `start`.

    Raise `UnsupportedSyntax` if the folder of a command or the value of a variable is not known.
    """
    walk = _FlowPass([], set(), {})
    walk.add_script(script, frozenset({start}))
    return Flow(tuple(walk.parts), frozenset(walk.features))


def cd_target(command: SimpleCommand) -> str | None:
    """Return DIR, as spelled, if the command is a plain `cd DIR`, None otherwise."""
    match command.words:
        case (Word("cd", False), folder) | (Word("cd", False), Word("--"), folder):
            is_plain = folder.is_known and not (folder.is_home or folder.has_glob or folder.text.startswith(("-", "+")))
            return folder.text if is_plain and folder.text else None
    return None


def with_values(word: Word, values: Sequence[Word]) -> Word:
    """Return `word` with its expansions replaced by `values`, in order.

    Example: in `src/$f`, the value `a.py` gives `src/a.py`. An unknown value makes the word unknown too.
    """
    if not values:
        return word
    fixed_parts = word.text.split(PLACEHOLDER)
    texts = [value.text if value.is_known else PLACEHOLDER for value in values]
    text = fixed_parts[0] + "".join(text + fixed_part for text, fixed_part in zip(texts, fixed_parts[1:], strict=True))
    if any(not value.is_known or value.is_home for value in values):
        is_number = all(value.unknown == "number" for value in values)
        if is_number and word.text == PLACEHOLDER:
            return _NUMBER
        return Word(text, unknown="words" if word.is_split and not is_number else "text")
    has_glob = any(value.has_glob for value in values)
    # "[$f]" with a wildcard in f: the quoted brackets would become part of the pattern.
    is_clear = word.has_glob or not (has_glob and _WILD.search(word.text))
    is_one_text = not word.is_split or all(value.has_glob or is_bare_text(value.text) for value in values)
    if not is_clear or not is_one_text:
        return Word(text, unknown="words" if word.is_split else "text")
    is_glob = has_glob or word.has_glob
    return Word(
        text,
        is_quoted=not is_glob,
        is_home=word.is_home,
        has_glob=is_glob,
        is_split=word.is_split,
        is_one_match=has_glob and not word.has_glob,
    )


@dataclass(frozen=True, slots=True)
class _FlowPass:
    """One walk through a script.

    A pass for a subshell shares `parts` and `features`, and has a copy of the variables.
    """

    parts: list[FlowPart]
    """The parts collected so far."""
    features: set[Feature]
    """The features collected so far."""
    variables: dict[str, Word]
    """The values set by loops."""

    def add_script(self, script: Script, folders: Folders) -> _EndFolders:
        """Add the parts of `script`, and return the folders it may end in."""
        if len(folders) > MAX_FOLDERS:
            raise UnsupportedSyntax("it changes the folder too often")
        match script:
            case SimpleCommand():
                return self._command(script, folders)
            case Pipeline():
                sources: tuple[str, ...] = ()
                for part in script.parts:
                    start = len(self.parts)
                    _FlowPass(self.parts, self.features, dict(self.variables)).add_script(part, folders)
                    added = self.parts[start:]
                    self.parts[start:] = [replace(item, piped_from=sources + item.piped_from) for item in added]
                    sources += tuple(item.command.words[0].text for item in added)
                return _EndFolders(folders, folders)
            case Negation():
                inner = self.add_script(script.inner, folders)
                return _EndFolders(succeeded=inner.failed, failed=inner.succeeded)
            case CommandList():
                return self._command_list(script, folders)
            case Loop():
                return self._loop(script, folders)

    def _command_list(self, script: CommandList, folders: Folders) -> _EndFolders:
        """Follow `&&`, `||` and `;`.

        Example: in `cd a && x; y`, `x` runs in `a`, and `y` in `a` or in the folder in which the line started.
        """
        succeeded = failed = folders
        for item in script.items:
            match item.operator:
                case "&&":
                    ends = self.add_script(item.script, succeeded)
                    succeeded, failed = ends.succeeded, failed | ends.failed
                case "||":
                    ends = self.add_script(item.script, failed)
                    succeeded, failed = succeeded | ends.succeeded, ends.failed
                case ";":
                    succeeded, failed = self.add_script(item.script, succeeded | failed)
        return _EndFolders(succeeded, failed)

    def _command(self, script: SimpleCommand, folders: Folders) -> _EndFolders:
        """Add a simple command, and follow it if it is a `cd`."""
        command = SimpleCommand(
            self._fill_words(script.words, folders), self._fill_words(script.inputs, folders), script.outputs
        )
        if any(word.has_glob for word in (*command.words, *command.inputs)):
            self.features.add("wildcard")
        if len(self.parts) >= MAX_PARTS:
            raise UnsupportedSyntax("it runs very many commands")
        self.parts.append(FlowPart(command, folders))
        target = cd_target(command)
        if target is None:
            if command.words and command.words[0].text in _CHANGE_FOLDER:
                raise UnsupportedSyntax("qcode cannot tell where this cd leads")
            return _EndFolders(folders, folders)
        targets = frozenset(os.path.normpath(os.path.join(folder, target)) for folder in folders)  # noqa: PTH118  # plain text, as bash joins it
        return _EndFolders(succeeded=targets, failed=folders)

    def _loop(self, script: Loop, folders: Folders) -> _EndFolders:
        """Add the body of a loop once for each word."""
        self.features.add("loop")
        words = self._fill_words(script.words, folders)
        variables_before, folders_after = dict(self.variables), folders
        for word in words:
            self.variables[script.name] = (
                replace(word, is_one_match=word.has_glob) if word.unknown != "words" else _ANY_TEXT
            )
            ends = self.add_script(script.body, folders_after)
            folders_after = ends.succeeded | ends.failed
            # A body that is analyzed once for many values must not change the folder or an outer variable.
            changed = [
                name
                for name, value in variables_before.items()
                if name != script.name and self.variables[name] != value
            ]
            if (not word.is_known or word.has_glob) and (folders_after != folders or changed):
                raise UnsupportedSyntax("a loop changes the folder or a variable of another loop")
        self.variables[script.name] = _ANY_TEXT
        return _EndFolders(folders_after, folders_after)

    def _fill_words(self, words: tuple[Word, ...], folders: Folders) -> tuple[Word, ...]:
        return tuple(
            with_values(word, [self._value(expansion, folders) for expansion in word.expansions]) for word in words
        )

    def _value(self, expansion: Expansion, folders: Folders) -> Word:
        """Return the value of an expansion; the commands of a substitution are added to the parts."""
        if expansion.script is not None:
            self.features.add("substitution")
            _FlowPass(self.parts, self.features, dict(self.variables)).add_script(expansion.script, folders)
            return _ANY_TEXT
        self.features.add("variable")
        return _value_of(expansion.name, self.variables)


def _value_of(name: str, variables: Mapping[str, Word]) -> Word:
    """Return the value of a variable, which is any text for a harmless variable of the environment."""
    if not name:
        return _NUMBER
    if name in variables:
        return variables[name]
    if name in SAFE_VARIABLES:
        return _ANY_TEXT
    raise UnsupportedSyntax(f"the value of ${name} is known only when it runs")
