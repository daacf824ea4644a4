"""The `apply_patch` tool: one patch for any number of files, in the format that GPT models are trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.protocol.tools import FileAccess, Refused, ToolSpec
from qcode.text.json import JsonObject
from qcode.tools import text_file
from qcode.tools.arguments import Arguments
from qcode.tools.disk import LoadedFile
from qcode.tools.editing.edit import ChangeTool, PlannedChange, open_for_change
from qcode.tools.text_file import Document
from qcode.tools.workspace import FileChange, Workspace, WorkspacePath
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.text.patch import Section, UpdatedFile  # it loads with the first patch


def _paths(arguments: JsonObject) -> tuple[str, ...] | str:
    """Return all paths in the patch of a call, or the error if there is no valid patch."""
    from qcode.text.patch import PatchError, patch_paths

    patch = arguments.get("input")
    if not isinstance(patch, str):
        return "the call has no patch"
    try:
        return tuple(dict.fromkeys(patch_paths(patch)))
    except PatchError:
        return "cannot read the patch"


class ApplyPatch(ChangeTool):
    """The `apply_patch` tool."""

    spec = ToolSpec(
        name="apply_patch",
        description=(
            "Change files with a patch. Either the whole patch is applied or nothing. Read a file before you change "
            "it. Format:\n"
            "*** Begin Patch\n"
            "*** Update File: path/to/file.py\n"
            "@@ class Shape:\n"
            "     def area(self):\n"
            "-        return 0\n"
            "+        return self.width * self.height\n"
            "*** Add File: path/to/new.py\n"
            "+every line of a new file begins with a plus\n"
            "*** Delete File: path/to/old.py\n"
            "*** End Patch\n"
            "Lines of a hunk begin with a space (unchanged), - (removed) or + (added); include about three unchanged "
            "lines before and after a change. If these lines occur more than once in the file, begin the hunk with "
            "'@@ ' and the line of the enclosing function or class. '*** Move to: new/path' after '*** Update File:' "
            "renames the file; '*** End of File' after a hunk means that the hunk ends the file. Do not use line "
            "numbers."
        ),
        parameters={
            "type": "object",
            "properties": {
                "input": {"type": "string", "description": "The patch, from '*** Begin Patch' to '*** End Patch'."},
            },
            "required": ["input"],
            "additionalProperties": False,
        },
        edit_format="patch",
        draft_argument="input",
        safety=FileAccess("write", _paths),
    )

    def plan(self, arguments: Arguments, workspace: Workspace) -> PlannedChange:
        from qcode.text.patch import PatchError, parse_patch

        try:
            sections = parse_patch(arguments.text("input"))
        except PatchError as error:
            raise Refused(f"apply_patch: {error}. Nothing was changed") from None
        changes: list[_SectionChange] = []
        paths: set[WorkspacePath] = set()
        for section in sections:
            change = _plan_section(section, workspace)
            for step in change.steps:
                if step.location in paths:
                    raise Refused(
                        f"the patch has two sections for {step.location.label}: merge them. Nothing was changed"
                    )
                paths.add(step.location)
            changes.append(change)
        steps = tuple(step for change in changes for step in change.steps)
        diff = "".join(change.diff for change in changes)
        notes = [f"Note: {note}" for change in changes for note in change.notes]
        return PlannedChange(steps, diff, "\n".join([*(change.report for change in changes), *notes]))


@dataclass(frozen=True, slots=True)
class _SectionChange:
    """The planned change of one section of a patch."""

    steps: tuple[FileChange, ...]
    diff: str
    report: str
    notes: tuple[str, ...] = ()


def _plan_section(section: Section, workspace: Workspace) -> _SectionChange:
    """Return the change of one section; raise `Refused` if it is not possible."""
    from qcode.text.patch import AddedFile, DeletedFile

    location = workspace.resolve(section.path, "write")
    if isinstance(section, AddedFile):
        return _plan_addition(location, section.content, workspace)
    if not workspace.exists(location):
        raise Refused(f"{location.label} does not exist. Nothing was changed")
    removes_path = isinstance(section, DeletedFile) or bool(section.moved_to)
    # Only the target of the link would be removed, not the path that the patch names.
    if removes_path and workspace.is_link(section.path):
        raise Refused(f"{section.path} is a link to {location.label}: name that file, or change the link in the shell")
    if isinstance(section, DeletedFile):
        return _plan_deletion(location, workspace)
    return _plan_update(location, section, workspace)


def _plan_addition(location: WorkspacePath, content: str, workspace: Workspace) -> _SectionChange:
    if workspace.exists(location):
        raise Refused(
            f"{location.label} already exists: use '*** Update File:' to change it, or write to replace it. "
            "Nothing was changed"
        )
    document = text_file.from_text(content)
    diff = text_file.diff_of(location.name, old=None, new=document)
    step = FileChange(location, old=None, data=text_file.encode(document))
    return _SectionChange((step,), diff, f"A {location.label}")


def _plan_deletion(location: WorkspacePath, workspace: Workspace) -> _SectionChange:
    loaded = workspace.load(location)
    workspace.check_fresh(location, loaded, is_required=False)  # a file may be deleted without having been read
    workspace.check_writable(location, loaded)
    step = FileChange(location, loaded, data=None)
    return _SectionChange((step,), _whole_diff(location, loaded), f"D {location.label}")


def _whole_diff(location: WorkspacePath, loaded: LoadedFile) -> str:
    """Return the diff of a deleted file, or its name and size if it is not text."""
    name = text_file.name_in_diff(location.name)
    try:
        document = text_file.decode(loaded.data, location.label)
    except Refused:
        return f"--- a/{name}\n+++ /dev/null\n[a binary file of {len(loaded.data):,} bytes]\n"
    return text_file.diff_of(location.name, document, None) or f"--- a/{name}\n+++ /dev/null\n[an empty file]\n"


def _plan_update(location: WorkspacePath, section: UpdatedFile, workspace: Workspace) -> _SectionChange:
    from qcode.tools.editing.hunks import apply_hunks  # loads with the first patch, not at start

    loaded = open_for_change(location, workspace)
    old = text_file.decode(loaded.data, location.label)
    patched = apply_hunks(old.text, section.hunks, location.label)
    new = text_file.with_text(old, patched.text)
    data = text_file.encode(new)
    if section.moved_to:
        return _plan_move(location, section.moved_to, loaded, old, new, patched.notes, workspace)
    if data == loaded.data:
        raise Refused(f"{location.label} already contains this text; no change made")
    diff = text_file.diff_of(location.name, old, new)
    return _SectionChange((FileChange(location, loaded, data),), diff, f"M {location.label}", patched.notes)


def _plan_move(
    location: WorkspacePath,
    path: str,
    loaded: LoadedFile,
    old: Document,
    new: Document,
    notes: tuple[str, ...],
    workspace: Workspace,
) -> _SectionChange:
    new_location = workspace.resolve(path, "write")
    if workspace.exists(new_location):
        raise Refused(
            f"{new_location.label} already exists, so {location.label} cannot be moved there. Nothing was changed"
        )
    header = (
        f"rename from {text_file.name_in_diff(location.name)}\nrename to {text_file.name_in_diff(new_location.name)}\n"
    )
    diff = header + text_file.diff_of(new_location.name, old, new, old_name=location.name)
    created = FileChange(new_location, old=None, data=text_file.encode(new), like=loaded)
    deleted = FileChange(location, loaded, data=None)
    return _SectionChange((created, deleted), diff, f"R {location.label} -> {new_location.label}", notes)
