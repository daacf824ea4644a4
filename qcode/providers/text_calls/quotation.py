"""The check whether the text of a call is a quotation: the model repeats text from a prompt or a tool result. No I/O.

Such a call never runs, because the author of a file or a web page could have written it. The comparison ignores how a
tool shows a text: line numbers, the marks of a diff or a comment, JSON strings. Separate because it reads the prompts
and results of the request, and `tail` only the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from qcode.protocol.messages import Text, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.providers.text_calls.forms import LLAMA

_MIN_QUOTE_CHARS = 8
"""The minimum length of a part of a call that is searched in the texts of the user."""
# Characters that a quotation may lack: blanks, invisible characters, and the backslashes and `\n` of a JSON string.
_NOISE = re.compile(r"[\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]++|\\++[nrt]?")
_UNICODE_ESCAPE = re.compile(r"(?<!\\)\\++u([0-9A-Fa-f]{4})")  # `\u003c` for `<`
# Labels before the text of a line, as in `    12\t`, `src/a.py:12:`, `+`, `> `, `# ` and `// `.
_LINE_LABELS = re.compile(r"(?m)^(?:[ \t]*+(?:(?:[^\s:]{1,200}+:)?\d{1,9}+[\t:-]|//|[+>|#*;-]))++")
# The marks around a call. A quotation may have other ones.
_SEPARATORS = re.compile(
    r"</?tool_call>|<\|python_tag\|>|\[TOOL_CALLS\]|\[ARGS\]|`{3,16}(?:json|tool_calls?)?|</?minimax:tool_call>"
    r"|<｜tool▁[^｜<>]{1,40}｜>|</?｜DSML｜(?:function|tool)_calls>|<\|[a-z_]{1,40}\|>",
    re.IGNORECASE,
)


def is_quoted(pending: str, request: ModelRequest) -> bool:
    """Return whether a prompt, an attachment or a tool result contains `pending`: the model may be quoting it."""
    given = "\n".join(_user_texts(request))
    # A part without brackets is a name or a word, such as `function`, that any text may contain. Llama's form has
    # parentheses: `read.call(path="a.py")`.
    brackets = "{<(" if pending.startswith(LLAMA) else "{<"
    parts = [part for part in _SEPARATORS.split(pending) if any(bracket in part for bracket in brackets)]
    # `read` numbers the lines of a file, so a call of several lines is found only without the labels.
    for comparable in (_without_noise, _without_labels):
        source = comparable(given)
        searched = [comparable(pending)]
        searched += [text for part in parts if len(text := comparable(part)) >= _MIN_QUOTE_CHARS]
        if any(text in source for text in searched):
            return True
    return False


def _without_noise(text: str) -> str:
    """Return `text` without blanks and invisible characters, and with JSON escapes replaced."""
    return _NOISE.sub("", _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text))


def _without_labels(text: str) -> str:
    """Return `text` like `_without_noise`, and without the labels before its lines."""
    return _without_noise(_LINE_LABELS.sub("", text))


def _user_texts(request: ModelRequest) -> Iterable[str]:
    for message in request.messages:
        if message.role == "user":
            for block in message.blocks:
                if isinstance(block, Text):
                    yield block.text
                elif isinstance(block, ToolResult):
                    yield block.content
