"""What a model without calls of its own is told about tools, and the form in which it sees calls and results. Pure.

One form is taught, `<tool_call>`; all that `forms` lists are understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from qcode.protocol.messages import ToolCall, ToolResult
from qcode.protocol.tools import ToolSpec
from qcode.providers.text_calls.forms import END_TAG, TAG

_RESULT = "tool_result"
_RESULT_TAG = re.compile(rf"<(\s*/?\s*{_RESULT})", re.IGNORECASE)

_RULES = f"""\
# Tools

You can use the tools listed below. To use one, write a call into your reply, in exactly this form and on lines of its own:

{TAG}
{{"name": "NAME OF THE TOOL", "arguments": {{"PARAMETER": "VALUE"}}}}
{END_TAG}

- Between the tags stands one JSON object with `name` and `arguments`. In its strings, write a line break as `\\n`, a quote as `\\"` and a backslash as `\\\\`.
- Write calls outside code blocks. For several calls, write several such blocks, one after another.
- After your calls, end your reply. The results come in the next message, each in a `<{_RESULT}>` element; never write one yourself.
- Without a call your reply is your answer to the person, so make the call instead of announcing it.

Each line below is one tool: its name, what it does, and the JSON Schema of its arguments."""  # noqa: E501 - a paragraph of the text is a line


def instructions(tools: Iterable[ToolSpec]) -> str:
    """Return what the system text says about `tools`, always the same for the same tools; empty without any."""
    lines = [
        _json({"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)})
        for tool in tools
    ]
    return "\n".join([_RULES, "", *lines]) if lines else ""


def call_text(call: ToolCall) -> str:
    """Return a call as the model would have written it; `arguments` of a stored call is valid JSON."""
    return f'{TAG}\n{{"name": {_json(call.name)}, "arguments": {call.arguments or "{}"}}}\n{END_TAG}'


def result_text(result: ToolResult) -> str:
    """Return a result as the model sees it; nothing inside can end the element before its end."""
    content = _RESULT_TAG.sub(r"<\\\1", result.content)
    name = re.sub(r"[^\w.\-]", "_", result.name)
    status = ' status="error"' if result.is_error else ""
    return f'<{_RESULT} name="{name}"{status}>\n{content}\n</{_RESULT}>'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
