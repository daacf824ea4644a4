"""What the tools that change files share: a change worked out in full before anything is touched, and its result."""

from __future__ import annotations

from abc import ABC, abstractmethod

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.protocol.values import dataclass
from qcode.tools import diffs
from qcode.tools.arguments import Arguments, check
from qcode.tools.disk import Loaded
from qcode.tools.refusal import Refused
from qcode.tools.text import Document
from qcode.tools.tool import Preview, ToolContext, answered
from qcode.tools.visible import visible
from qcode.tools.workspace import Place, Step, Workspace


@dataclass(frozen=True, slots=True)
class Change:
    """The steps that make it, in order, with the diff of all of them. `report` is what the model is told."""

    steps: tuple[Step, ...]
    diff: str
    report: str


def creation(place: Place, data: bytes, document: Document | None, report: str) -> Change:
    """Return the change that makes a new file; `document` is None for what is no text."""
    return Change((Step(place, None, data),), diffs.unified(place.shown, None, document), report)


def replacement(place: Place, loaded: Loaded, old: Document, new: Document, data: bytes, report: str) -> Change:
    """Return the change that puts `new` in place of `old`."""
    return Change((Step(place, loaded, data),), diffs.unified(place.shown, old, new), report)


def open_for_change(place: Place, workspace: Workspace) -> Loaded:
    """Return the file as it is; raise `Refused` unless the model knows it so and it can be replaced."""
    loaded = workspace.load(place)
    workspace.check_fresh(place, loaded)
    workspace.check_writable(place, loaded)
    return loaded


class ChangeTool(ABC):
    """A tool that changes files: what its plan works out is what the person is shown, and what is made."""

    spec: ToolSpec

    @abstractmethod
    def plan(self, arguments: Arguments, workspace: Workspace) -> Change:
        """Work the change out from the files as they are now; raise `Refused` where it cannot be made."""

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        """Return the diff against the files as they are now, or the refusal that running would give."""
        try:
            change = self.plan(check(self.spec, arguments), workspace)
        except Refused as refused:
            return Preview("Change a file?", "", str(refused))
        first = change.steps[0]
        if len(change.steps) > 1:
            what = f"Change {len({step.place for step in change.steps})} files"
        elif first.data is None:
            what = f"Delete {first.place.shown}"
        else:
            what = f"{'Create' if first.old is None else 'Change'} {first.place.shown}"
        detail = visible(change.diff) or "[an empty file]\n"
        return Preview(f"{what} ({diffs.count(change.diff)})?", detail)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        """Work the change out again and make it."""
        return await answered(lambda: self._perform(arguments, workspace))

    def _perform(self, arguments: JsonObject, workspace: Workspace) -> ToolOutcome:
        change = self.plan(check(self.spec, arguments), workspace)
        workspace.apply(change.steps)
        return ToolOutcome(change.report, summary=diffs.count(change.diff), diff=change.diff)
