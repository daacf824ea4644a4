"""Follows a script to the simple commands that bash would run, with the folder and the words of each. Pure.

`cd` is followed: `cd src && cat x` reads `src/x`, and after `cd src; cat x` it may be either. A loop over known words
is unrolled; over names of files or unknown text its body is read once, with a variable that stands for any of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from qcode.protocol.values import dataclass
from qcode.safety.shell.feeds import feed_of
from qcode.safety.shell.filling import STREAM, filled
from qcode.safety.shell.forms import (
    MARK,
    TELLING,
    Choice,
    Command,
    Found,
    Hole,
    Listing,
    Loop,
    Negation,
    NotPlain,
    Piping,
    Reading,
    Script,
    Word,
)

_MOST_PLACES = 8
_MOST_PARTS = 300
_ANYTHING = Word(MARK, unknown="text")
_NUMBER = Word(MARK, unknown="number")

Places: TypeAlias = "frozenset[str]"
"""Normal absolute folders of which a command runs in one."""

_Stack: TypeAlias = "tuple[str, ...]"
"""The folder, and those that `pushd` left behind."""
_Stacks: TypeAlias = "frozenset[_Stack]"
_Ends: TypeAlias = "tuple[_Stacks, _Stacks]"
"""Where a script may end, having succeeded and having failed."""


@dataclass(frozen=True, slots=True)
class Part:
    """A simple command with the folders it may run in, and the names of files that are piped into it, where known."""

    command: Command
    places: Places
    feed: Found | None = None


def parts_of(script: Script, start: str) -> tuple[Part, ...]:
    """Return the simple commands in order, their words without holes.

    Raise `NotPlain` where nobody can say which folder one runs in, or what a variable is.
    """
    walk = _Walk([], {})
    walk.script(script, frozenset({(start,)}), None)
    return tuple(walk.parts)


def target_of_cd(command: Command) -> str | None:
    """Return where a plain `cd DIR` or `pushd DIR` goes, as spelled; None for any other command or form of it."""
    match command.words:
        case (Word("cd" | "pushd", False), folder) | (Word("cd" | "pushd", False), Word("--"), folder):
            is_plain = folder.is_known and not (folder.is_home or folder.has_glob or folder.text.startswith(("-", "+")))
            return folder.text if is_plain and folder.text else None
    return None


@dataclass(frozen=True, slots=True)
class _Walk:
    parts: list[Part]
    variables: dict[str, Word]

    def script(self, script: Script, stacks: _Stacks, feed: Found | None) -> _Ends:
        """Add the parts of `script`, and return where it may end."""
        if len(stacks) > _MOST_PLACES:
            raise NotPlain("it changes the folder too often")
        match script:
            case Command():
                return self._command(script, stacks, feed)
            case Piping():
                for index, part in enumerate(script.parts):
                    inner = _Walk(self.parts, dict(self.variables))
                    inner.script(part, stacks, _placed(feed_of(script.parts[:index]), stacks) if index else None)
                return stacks, stacks
            case Negation():
                yes, no = self.script(script.inner, stacks, None)
                return no, yes
            case Choice():
                yes, no = self.script(script.condition, stacks, None)
                done = self.script(script.then, yes, None)
                other = self.script(script.otherwise, no, None) if script.otherwise is not None else (no, no)
                return done[0] | other[0], done[1] | other[1]
            case Listing():
                return self._listing(script, stacks)
            case Loop():
                return self._loop(script, stacks)
            case Reading():
                return self._reading(script, stacks, feed)

    def _listing(self, script: Listing, stacks: _Stacks) -> _Ends:
        yes, no = self.script(script.first, stacks, None)
        for operator, right in script.rest:
            if operator == "&&":
                done = self.script(right, yes, None)
                yes, no = done[0], done[1] | no
            elif operator == "||":
                done = self.script(right, no, None)
                yes, no = done[0] | yes, done[1]
            else:
                yes, no = self.script(right, yes | no, None)
        return yes, no

    def _command(self, script: Command, stacks: _Stacks, feed: Found | None) -> _Ends:
        command = Command(
            self._filled(script.words, stacks),
            self._filled(script.inputs, stacks),
            script.outputs,
            self._filled(script.texts, stacks),
        )
        if len(self.parts) >= _MOST_PARTS:
            raise NotPlain("it runs very many commands")
        is_piped = not (command.inputs or command.texts)
        self.parts.append(Part(command, _places(stacks), feed if is_piped else None))
        name, target = command.words[0].text, target_of_cd(command)
        if command.words == (Word("popd"),):
            return frozenset(stack[1:] or stack for stack in stacks), stacks
        if target is None:
            return stacks, stacks
        after = {(_joined(stack[0], target), *(stack if name == "pushd" else stack[1:])) for stack in stacks}
        return frozenset(after), stacks

    def _loop(self, script: Loop, stacks: _Stacks) -> _Ends:
        words = tuple(replace(word, is_many=False) for word in self._filled(script.words, stacks))
        are_known = all(word.is_known and not word.has_glob for word in words)
        seen = stacks
        before = dict(self.variables)
        for word in words:
            self.variables[script.name] = replace(word, is_one=word.has_glob) if word.unknown != "words" else _ANYTHING
            yes, no = self.script(script.body, seen, None)
            seen = yes | no
            if not are_known:
                self._check_steady(before, script.name, seen, stacks)
        self.variables[script.name] = _ANYTHING
        return seen, seen

    def _reading(self, script: Reading, stacks: _Stacks, feed: Found | None) -> _Ends:
        if script.source is not None:
            self._command(script.source, stacks, None)
            feed = None
        value = _ANYTHING
        if feed is not None and script.is_whole and (feed.bounds == "nul") == (script.bounds == "nul"):
            value = Word(MARK, found=replace(feed, bounds=script.bounds))
        for name in script.names:
            self.variables[name] = value
        before = dict(self.variables)
        yes, no = self.script(script.body, stacks, None)
        self._check_steady(before, "", yes | no, stacks)
        for name in script.names:
            self.variables[name] = _ANYTHING
        return stacks, stacks

    def _check_steady(self, before: Mapping[str, Word], name: str, after: _Stacks, stacks: _Stacks) -> None:
        """Check that a body that was followed once finds the next time what it found the first time."""
        changed = [one for one in before if one != name and self.variables[one] != before[one]]
        if after != stacks or changed:
            raise NotPlain("a loop that changes the folder or a variable of another")

    def _filled(self, words: tuple[Word, ...], stacks: _Stacks) -> tuple[Word, ...]:
        return tuple(filled(word, [self._value(hole, stacks) for hole in word.holes]) for word in words)

    def _value(self, hole: Hole, stacks: _Stacks) -> Word:
        if hole.script is not None:
            inner = _Walk(self.parts, dict(self.variables))
            inner.script(hole.script, stacks, None)
            if hole.is_file:
                return STREAM
            feed = _placed(feed_of((hole.script,)), stacks)
            return _ANYTHING if feed is None or feed.bounds == "nul" else Word(MARK, found=feed, is_many=True)
        return _value_of(hole.name, self.variables)


def _value_of(name: str, variables: Mapping[str, Word]) -> Word:
    if not name:
        return _NUMBER
    if name in variables:
        return variables[name]
    if name in TELLING:
        return _ANYTHING
    raise NotPlain(f"the value of ${name} is not known")


def _placed(found: Found | None, stacks: _Stacks) -> Found | None:
    places = _places(stacks)
    return replace(found, place=min(places)) if found is not None and len(places) == 1 else None


def _places(stacks: _Stacks) -> Places:
    return frozenset(stack[0] for stack in stacks)


def _joined(place: str, target: str) -> str:
    return os.path.normpath(os.path.join(place, target))  # noqa: PTH118  # plain text, as bash joins it
