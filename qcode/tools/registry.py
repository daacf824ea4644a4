"""The built-in tools in the order in which a model sees them, and the selection for each model."""

from __future__ import annotations

import re

from qcode.protocol.tools import ToolSpec
from qcode.text.pattern import lazy_pattern
from qcode.tools.dialog import AskUser, Todo
from qcode.tools.editing.diagnostics import Diagnostics
from qcode.tools.editing.edit import Edit, MultiEdit, Write
from qcode.tools.editing.patch import ApplyPatch
from qcode.tools.files.grep import Grep
from qcode.tools.files.listing import Glob, Ls
from qcode.tools.files.notebooks import NotebookEdit
from qcode.tools.files.read import Read
from qcode.tools.shell import JobsTool, Shell
from qcode.tools.tool import Tool

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
    JobsTool(),
    Diagnostics(),
    Todo(),
    AskUser(),
)

# OpenAI trains these on the patch format (its prompting guides for GPT-4.1 and GPT-5); all others replace passages.
_PATCHING = lazy_pattern(r"(?:^|[/.:])(?:chatgpt|codex|gpt-|o\d)", re.IGNORECASE)


_SOMETIMES = ("fetch", "web_search", "agent", "skill", "exit_plan_mode")


def offered(model: str) -> tuple[Tool, ...]:
    """Return the tools for a model, by its name with or without a provider before it, always in the same order.

    Every model gets one way to change a part of a file, the one it was trained on, and not both.
    """
    other = "passage" if _PATCHING.search(model) else "patch"
    return tuple(tool for tool in BUILTIN if tool.spec.edits_by != other)


def specs(model: str = "") -> tuple[ToolSpec, ...]:
    """Return the specs of the tools for a model, always in the same order, so that prompt caches stay warm."""
    return tuple(tool.spec for tool in offered(model))


def all_names() -> tuple[str, ...]:
    """Return the names of all tools of qcode, also of those that are offered only in some sessions."""
    return (*(tool.spec.name for tool in BUILTIN), *_SOMETIMES)
