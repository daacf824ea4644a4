"""The built-in tools in the order in which qcode sends them, and the selection for each model."""

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

_OPTIONAL_NAMES = ("fetch", "web_search", "agent", "skill", "exit_plan_mode")
"""The tools that exist only in some sessions, such as `exit_plan_mode` in plan mode."""
# OpenAI trains these models on the patch format (see its prompting guides for GPT-4.1 and GPT-5).
_PATCH_MODEL = lazy_pattern(r"(?:^|[/.:])(?:chatgpt|codex|gpt-|o\d)", re.IGNORECASE)


def offered(model: str) -> tuple[Tool, ...]:
    """Return the tools for a model, always in the same order. `model` is a name with or without its provider.

    Every model gets only one way to edit a file, the one that it was trained on: patches, or passages to replace.
    """
    unwanted = "passage" if _PATCH_MODEL.search(model) else "patch"
    return tuple(tool for tool in BUILTIN if tool.spec.edit_format != unwanted)


def specs(model: str = "") -> tuple[ToolSpec, ...]:
    """Return the specs of the tools for a model, always in the same order, so that providers can cache them."""
    return tuple(tool.spec for tool in offered(model))


def all_names() -> tuple[str, ...]:
    """Return the names of all tools of qcode, including those that exist only in some sessions."""
    return (*(tool.spec.name for tool in BUILTIN), *_OPTIONAL_NAMES)
