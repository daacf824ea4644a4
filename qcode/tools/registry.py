"""The tools that come with qcode, in the order in which a model sees them."""

from __future__ import annotations

from qcode.protocol.tools import ToolSpec
from qcode.tools.edit import Edit
from qcode.tools.glob import Glob
from qcode.tools.grep import Grep
from qcode.tools.multi_edit import MultiEdit
from qcode.tools.read import Read
from qcode.tools.shell import Shell
from qcode.tools.tool import Tool
from qcode.tools.write import Write

BUILTIN: tuple[Tool, ...] = (Read(), Write(), Edit(), MultiEdit(), Glob(), Grep(), Shell())


def specs() -> tuple[ToolSpec, ...]:
    """Return the specs of the built-in tools, always in the same order, so that prompt caches stay warm."""
    return tuple(tool.spec for tool in BUILTIN)
