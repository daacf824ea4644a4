"""`@path` in the prompt: which one the cursor is in, and the rows that complete it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qcode.protocol.json import parse_object
from qcode.protocol.messages import Message, ToolCall
from qcode.protocol.values import dataclass
from qcode.safety.cleaning import clean
from qcode.tui.slash_menu import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qcode.runtime.file_ranking import FileMatch

_BEFORE = re.compile(r'(?:^|(?<=\s))@(?:"([^"]*)|((?:\\.|[^\s"\\])*))$')
_REST_PLAIN = re.compile(r"(?:\\.|[^\s\\])*")
_REST_QUOTED = re.compile(r'[^"]*"?')
_ESCAPED = re.compile(r"\\(.)")
_AWKWARD = re.compile(r'(["\\\s])')
_MOST_MESSAGES, _MOST_RECENT = 60, 20


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention being typed: where it stands in its line, `@` included, and what is asked for."""

    start: int
    end: int
    query: str


def mention_at(line: str, column: int) -> Mention | None:
    """Return the mention that the cursor is in or right behind, None where it is in none."""
    match = _BEFORE.search(line[:column])
    if match is None:
        return None
    if match[1] is not None:
        rest, query = _REST_QUOTED.match(line, column), match[1]
    else:
        rest, query = _REST_PLAIN.match(line, column), _ESCAPED.sub(r"\1", match[2])
    return Mention(match.start(), rest.end() if rest is not None else column, query)


def mention_of(path: str, *, is_open: bool = False) -> str:
    """Return how a path is mentioned: as it is, in quotes, or escaped; `is_open` leaves a quote open to go on."""
    if '"' in path or "\\" in path:
        return "@" + _AWKWARD.sub(r"\\\1", path)
    if re.search(r"\s", path):
        return f'@"{path}' + ("" if is_open else '"')
    return f"@{path}"


def file_choices(found: Iterable[FileMatch]) -> tuple[Choice, ...]:
    """Return a row for each match; a folder is gone on with, a file ends the mention."""
    return tuple(
        Choice(
            mention_of(match.path, is_open=match.is_folder),
            clean(match.path),
            is_complete=not match.is_folder,
            marks=match.marks if clean(match.path) == match.path else (),
        )
        for match in found
    )


def recent_paths(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the paths that the latest calls of a transcript were about, newest first."""
    found: dict[str, None] = {}
    for message in list(messages)[: -_MOST_MESSAGES - 1 : -1]:
        for block in reversed(message.blocks):
            if isinstance(block, ToolCall):
                path = (parse_object(block.arguments) or {}).get("path")
                if isinstance(path, str) and path:
                    found.setdefault(path)
    return tuple(found)[:_MOST_RECENT]
