"""What write and edit share: a change worked out in full before anything is touched, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools import diffs
from qcode.tools.arguments import Arguments, check
from qcode.tools.disk import Loaded
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview
from qcode.tools.visible import visible
from qcode.tools.workspace import Place, Workspace


@dataclass(frozen=True, slots=True)
class Change:
    """A file as it is (`old`, None: not there) and the bytes it is to have. `report` is what the model is told."""

    place: Place
    old: Loaded | None
    data: bytes
    diff: str
    report: str


Plan: TypeAlias = Callable[[Arguments, Workspace], Change]
"""Works a change out from the file as it is now; raises `Refused` where it cannot be made."""


def preview_change(spec: ToolSpec, plan: Plan, arguments: JsonObject, workspace: Workspace) -> Preview:
    """Return the diff against the file as it is now, or the refusal that running would give."""
    try:
        change = plan(check(spec, arguments), workspace)
    except Refused as refused:
        return Preview(f"{spec.name.capitalize()} a file?", "", str(refused))
    verb = "Create" if change.old is None else "Change"
    detail = visible(change.diff) or "[an empty file]\n"
    return Preview(f"{verb} {change.place.shown} ({diffs.count(change.diff)})?", detail)


def perform(spec: ToolSpec, plan: Plan, arguments: JsonObject, workspace: Workspace) -> ToolOutcome:
    """Work the change out again and make it; raise `Refused` where it cannot be made."""
    change = plan(check(spec, arguments), workspace)
    workspace.write(change.place, change.data, change.old)
    return ToolOutcome(change.report, summary=diffs.count(change.diff), diff=change.diff)
