"""The tools `write`, `edit` and `multi_edit`, and their base class `ChangeTool`.

A `ChangeTool` computes a change completely before it touches a file: the result of `plan` is shown to the user and then
carried out. `write` creates or replaces a whole file. `edit` replaces one passage of a file that was read, or all its
occurrences. `multi_edit` makes several edits of one file, all or none. Read `match` next (it is imported with the first
edit); `patch` and `files.notebooks` have the other tools that change files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from qcode.protocol.tools import ChangedFile, EditedFile, Refused, ToolOutcome, ToolSpec
from qcode.text.clean import visible
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text
from qcode.tools import text_file
from qcode.tools.arguments import Arguments, validate_arguments
from qcode.tools.disk import LoadedFile
from qcode.tools.text_file import Document
from qcode.tools.tool import WRITES_PATH, Preview, ToolRunContext, run_blocking_tool
from qcode.tools.workspace import FileChange, Workspace, WorkspacePath
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.tools.editing.match import EditResult


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change of one or more files that has not been carried out."""

    steps: tuple[FileChange, ...]
    """The changes of files, in order."""
    diff: str
    """One diff of all steps."""
    report: str
    """The result for the model."""


def plan_creation(location: WorkspacePath, data: bytes, document: Document | None, report: str) -> PlannedChange:
    """Return the change that creates a file with `data`, the encoded `document`, which is None for a binary file."""
    diff = text_file.diff_of(location.name, old=None, new=document)
    return PlannedChange((FileChange(location, old=None, data=data),), diff, report)


def plan_replacement(
    location: WorkspacePath, loaded: LoadedFile, old: Document, new: Document, data: bytes, report: str
) -> PlannedChange:
    """Return the change that replaces `old` with `new`, whose encoded form is `data`. `loaded` is the current file."""
    return PlannedChange((FileChange(location, loaded, data),), text_file.diff_of(location.name, old, new), report)


def open_for_change(location: WorkspacePath, workspace: Workspace) -> LoadedFile:
    """Return the current file. Raise `Refused` if the model has not seen this version, or the file is not writable."""
    loaded = workspace.load(location)
    workspace.check_fresh(location, loaded)
    workspace.check_writable(location, loaded)
    return loaded


class ChangeTool(ABC):
    """A tool that changes files: its plan is shown to the user and then carried out."""

    spec: ToolSpec

    @abstractmethod
    def plan(self, arguments: Arguments, workspace: Workspace) -> PlannedChange:
        """Compute the change from the current files. Raise `Refused` if it is not possible."""

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        """Return the diff against the current files, or the error that `run` would return."""
        try:
            change = self.plan(validate_arguments(self.spec, arguments), workspace)
        except Refused as refused:
            return Preview("Change a file?", detail="", refusal=str(refused))
        first = change.steps[0]
        if len(change.steps) > 1:
            locations = {step.location for step in change.steps}
            question = f"Edit {len(locations)} files"
        elif first.data is None:
            question = f"Delete {visible(first.location.name)}"
        elif first.old is None:
            question = f"Create {visible(first.location.name)}"
        else:
            question = f"Edit {visible(first.location.name)}"
        changes = changed_files(change, workspace)
        return Preview(f"{question}?", change.diff or "[an empty file]\n", is_diff=True, changes=changes)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        """Compute the change again and carry it out."""
        return await run_blocking_tool(lambda: self._perform(arguments, workspace))

    def _perform(self, arguments: JsonObject, workspace: Workspace) -> ToolOutcome:
        from qcode.text.diff import count_changes  # loads with the first change

        change = self.plan(validate_arguments(self.spec, arguments), workspace)
        workspace.apply(change.steps)
        changes = changed_files(change, workspace)
        edits = tuple(edited_files(change))
        summary = count_changes(change.diff)
        return ToolOutcome(change.report, summary=summary, diff=change.diff, changes=changes, edits=edits)


def edited_files(change: PlannedChange) -> Iterator[EditedFile]:
    """Yield each file of a change once, with its content before the first step and after the last one."""
    files: dict[str, EditedFile] = {}
    for step in change.steps:
        path = str(step.location.path)
        before = None if step.old is None else step.old.data
        if path in files:
            before = files[path].before
        files[path] = EditedFile(path, before, step.data)
    yield from files.values()


def changed_files(change: PlannedChange, workspace: Workspace) -> tuple[ChangedFile, ...]:
    """Return the texts of the files that a change creates, replaces or deletes, if the front end wants them."""
    if not workspace.wants_file_texts:
        return ()
    files: list[ChangedFile] = []
    for step in change.steps:
        try:
            old = None if step.old is None else text_file.decode(step.old.data, step.location.label).text
            new = "" if step.data is None else text_file.decode(step.data, step.location.label).text
        except Refused:
            continue
        files.append(ChangedFile(str(step.location.path), old, new))
    return tuple(files)


class Edit(ChangeTool):
    """The `edit` tool."""

    spec = ToolSpec(
        name="edit",
        description=(
            "Replace a passage of a file. Read the file first. old_text must match the file exactly, including "
            "indentation, without the line numbers that read adds, and must occur only once; with replace_all every "
            "occurrence is replaced. An empty old_text creates a file, or fills an empty one. For several changes in "
            "one file use multi_edit."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to change, relative to the workspace or absolute."},
                "old_text": {"type": "string", "description": "The passage to replace, with its indentation."},
                "new_text": {"type": "string", "description": "The replacement; empty to delete the passage."},
                "replace_all": {"type": "boolean", "description": "Replace every occurrence. Default false."},
            },
            "required": ["path", "old_text", "new_text"],
            "additionalProperties": False,
        },
        edit_format="passage",
        draft_argument="new_text",
        safety=WRITES_PATH,
    )

    def plan(self, arguments: Arguments, workspace: Workspace) -> PlannedChange:
        location = workspace.resolve(arguments.text("path"), "write")
        old_text = with_plain_newlines(arguments.text("old_text"))
        new_text = with_plain_newlines(arguments.text("new_text"))
        if not workspace.exists(location):
            if old_text:
                raise Refused(f"{location.label} does not exist; use write to create it")
            return plan_new_file(location, new_text)
        loaded = open_for_change(location, workspace)
        old = text_file.decode(loaded.data, location.label)
        edited = replace_passage(
            old.text, old_text, new_text, location.label, replaces_all=arguments.flag("replace_all")
        )
        new = text_file.with_text(old, edited.text)
        data = text_file.encode(new)
        if data == loaded.data:
            raise Refused(f"{location.label} already contains this text; no change made")
        report = f"Edited {location.label} {_location_and_note(edited)}"
        return plan_replacement(location, loaded, old, new, data, report)


def plan_new_file(location: WorkspacePath, content: str) -> PlannedChange:
    """Return the change that creates a file with `content`."""
    document = text_file.from_text(content)
    return plan_creation(location, text_file.encode(document), document, f"Created {location.label}.")


def replace_passage(content: str, old_text: str, new_text: str, label: str, *, replaces_all: bool) -> EditResult:
    """Return `content` with the passage `old_text` replaced by `new_text`; an empty passage matches an empty file."""
    from qcode.tools.editing import match  # loads with the first edit, not at start

    if not old_text and not content:
        return match.EditResult(new_text, lines=(1,))
    return match.apply(content, old_text, new_text, label, replaces_all=replaces_all)


def with_plain_newlines(value: str) -> str:
    r"""Return a text of the model with `\n` only, because line endings are taken from the file."""
    return value.replace("\r\n", "\n")


def edit_location(edited: EditResult) -> str:
    """Return a description of the lines that an edit changed."""
    first = edited.lines[0]
    if len(edited.lines) == 1:
        return f"at line {first}"
    return f"in {len(edited.lines)} places, first at line {first}"


def _location_and_note(edited: EditResult) -> str:
    """Return the end of the report on an edit: the changed lines, and the note if there is one."""
    text = f"{edit_location(edited)}."
    return f"{text} {edited.note}" if edited.note else text


class Write(ChangeTool):
    """The `write` tool."""

    spec = ToolSpec(
        name="write",
        description=(
            "Create a file, or replace the whole content of a file. Read an existing file first. Missing folders are "
            "created. The encoding of an existing file is kept, and its line endings unless content contains CRLF. To "
            "change part of a file use edit instead. For a long file, write a skeleton first and add to it in small "
            "steps."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to write, relative to the workspace or absolute."},
                "content": {"type": "string", "description": "The complete new content of the file."},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        draft_argument="content",
        safety=WRITES_PATH,
    )

    def plan(self, arguments: Arguments, workspace: Workspace) -> PlannedChange:
        location = workspace.resolve(arguments.text("path"), "write")
        content = arguments.text("content")
        line_count = len(content.removesuffix("\n").split("\n")) if content else 0
        size = count_text(line_count, "line")
        if not workspace.exists(location):
            document = text_file.from_text(content)
            return plan_creation(location, text_file.encode(document), document, f"Created {location.label} ({size}).")
        loaded = open_for_change(location, workspace)
        old = text_file.decode(loaded.data, location.label)
        new = _with_endings_of(old, content)
        data = text_file.encode(new)
        if data == loaded.data:
            raise Refused(f"{location.label} already has exactly this content; no change made")
        return plan_replacement(location, loaded, old, new, data, f"Wrote {location.label} ({size}).")


def _with_endings_of(old: Document, content: str) -> Document:
    """Return the document for `content`, which keeps its line endings if it has CRLF, otherwise gets those of `old`."""
    # The document gets the byte order mark of `old`: one in `content` would be the second.
    if old.mark:
        content = content.removeprefix("\ufeff")
    if "\r\n" in content:
        return text_file.from_text(content, old.encoding, old.mark)
    return text_file.with_text(old, content)


class MultiEdit(ChangeTool):
    """The `multi_edit` tool."""

    spec = ToolSpec(
        name="multi_edit",
        description=(
            "Make several edits in one file, in order; each applies to the result of the previous one. Either all "
            "are made or none. The rules of edit apply: read the file first; each old_text must match exactly and "
            "occur only once, unless replace_all is set."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to change, relative to the workspace or absolute."},
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "description": "The edits, in the order in which they are made.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "old_text": {"type": "string", "description": "The passage to replace."},
                            "new_text": {"type": "string", "description": "The replacement."},
                            "replace_all": {"type": "boolean", "description": "Replace every occurrence."},
                        },
                        "required": ["old_text", "new_text"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["path", "edits"],
            "additionalProperties": False,
        },
        edit_format="passage",
        safety=WRITES_PATH,
    )

    def plan(self, arguments: Arguments, workspace: Workspace) -> PlannedChange:
        location = workspace.resolve(arguments.text("path"), "write")
        edits = arguments.objects("edits")
        if not workspace.exists(location):
            if edits[0].text("old_text"):
                raise Refused(f"{location.label} does not exist; use write to create it")
            return plan_new_file(location, _apply_edits("", edits, location.label).text)
        loaded = open_for_change(location, workspace)
        old = text_file.decode(loaded.data, location.label)
        edited = _apply_edits(old.text, edits, location.label)
        new = text_file.with_text(old, edited.text)
        data = text_file.encode(new)
        if data == loaded.data:
            raise Refused(f"{location.label} already contains this text; no change made")
        report = "\n".join([f"Made {count_text(len(edits), 'edit')} in {location.label}.", *edited.reports])
        return plan_replacement(location, loaded, old, new, data, report)


class _EditedText(NamedTuple):
    """A text after several edits."""

    text: str
    reports: list[str]
    """One line for each edit."""


def _apply_edits(content: str, edits: list[Arguments], label: str) -> _EditedText:
    """Return the text after all edits. Raise `Refused` if one cannot be made."""
    reports = []
    for number, arguments in enumerate(edits, start=1):
        old_text = with_plain_newlines(arguments.text("old_text"))
        new_text = with_plain_newlines(arguments.text("new_text"))
        try:
            edited = replace_passage(content, old_text, new_text, label, replaces_all=arguments.flag("replace_all"))
        except Refused as refused:
            base = f" (applied to the text after edit {number - 1})" if number > 1 else ""
            raise Refused(f"Edit {number} of {len(edits)}{base}: {refused}\nNone of the edits was made.") from None
        content = edited.text
        reports.append(f"{number}. {_location_and_note(edited)}")
    return _EditedText(content, reports)
