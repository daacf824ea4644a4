"""The tools that come with qcode, in the order in which a model sees them, and which of them a model is offered."""

from __future__ import annotations

import re

from qcode.protocol.tools import ToolSpec
from qcode.tools.apply_patch import ApplyPatch
from qcode.tools.ask_person import AskPerson
from qcode.tools.diagnostics import Diagnostics
from qcode.tools.edit import Edit
from qcode.tools.glob import Glob
from qcode.tools.grep import Grep
from qcode.tools.ls import Ls
from qcode.tools.multi_edit import MultiEdit
from qcode.tools.notebook_edit import NotebookEdit
from qcode.tools.read import Read
from qcode.tools.shell import Shell
from qcode.tools.todo import Todo
from qcode.tools.tool import Tool
from qcode.tools.write import Write

BUILTIN: tuple[Tool, ...] = (
    Read(),
    Write(),
    Edit(),
    MultiEdit(),
    ApplyPatch(),
    NotebookEdit(),
    Ls(),
    Glob(),
    Grep(),
    Shell(),
    Diagnostics(),
    Todo(),
    AskPerson(),
)

_BY_REPLACING = frozenset({"edit", "multi_edit"})
_BY_PATCHING = frozenset({"apply_patch"})
# OpenAI trains these on the patch form (its prompting guides for GPT-4.1 and GPT-5); all others replace passages.
_PATCHING = re.compile(r"(?:^|[/.:])(?:chatgpt|codex|gpt-|o\d)", re.IGNORECASE)


def offered(model: str) -> tuple[Tool, ...]:
    """Return the tools for a model, by its name with or without a provider before it, always in the same order.

    Every model gets one way to change a part of a file, the one it was trained on, and not both.
    """
    other = _BY_REPLACING if _PATCHING.search(model) else _BY_PATCHING
    return tuple(tool for tool in BUILTIN if tool.spec.name not in other)


def specs(model: str = "") -> tuple[ToolSpec, ...]:
    """Return the specs of the tools for a model, always in the same order, so that prompt caches stay warm."""
    return tuple(tool.spec for tool in offered(model))
