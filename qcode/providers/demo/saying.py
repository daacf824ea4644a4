"""How a play says something and calls a tool, and what it reads out of a wish. Pure."""

from __future__ import annotations

import json
import re

from qcode.protocol.json import Json
from qcode.protocol.messages import Text, ToolCall
from qcode.providers.demo.scene import Scene, Step, paragraphs
from qcode.providers.demo.script import Script

_FILE = re.compile(r"`([^`\s]*[./][^`\s]*)`|(?<![\w/.-])((?:[\w~.-]+/)*[\w-]*\.?[\w-]+\.[A-Za-z][A-Za-z0-9]{0,7})\b")
_SHOWN_LINES = 12


def say(text: str) -> Script:
    return (Text(text),)


def call(scene: Scene, text: str, name: str, **arguments: Json) -> Script:
    encoded = json.dumps(arguments, ensure_ascii=False)
    return (Text(f"{text}\n"), ToolCall(f"demo_{scene.number}", name, encoded))


def failed(step: Step) -> Script:
    """Return what to say about a call that failed or was denied, nothing where it did not."""
    if not step.result.is_error:
        return ()
    return say(f"The `{step.call.name}` call came to nothing. Its result says:\n\n{fenced(step.result.content)}\n")


def fenced(text: str) -> str:
    lines = text.strip("\n").split("\n")
    more = [f"... and {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
    fence = "````" if "```" in text else "```"
    return "\n".join([fence, *lines[:_SHOWN_LINES], *more, fence])


def file_in(wish: str, otherwise: str) -> str:
    """Return the file that `wish` names, or `otherwise`."""
    found = last_match(_FILE, wish)
    return str(found[1] or found[2]) if found else otherwise


def last_match(pattern: re.Pattern[str], wish: str) -> re.Match[str] | None:
    """Return the first match in the last paragraph of `wish` that has one: what was piped in comes before it."""
    return next((found for part in reversed(paragraphs(wish)) if (found := pattern.search(part))), None)
