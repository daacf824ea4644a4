"""What kind of call a tool's name makes it, and which paths it names. Pure."""

from __future__ import annotations

from qcode.protocol.json import JsonObject
from qcode.protocol.patch import PatchError, patch_paths

READERS = frozenset({"read", "ls", "glob", "grep"})
WRITERS = frozenset({"write", "edit", "multi_edit", "notebook_edit"})
# Each call of a sub-agent is judged for itself; starting one only asks the model.
HARMLESS = frozenset({"todo", "ask_person", "jobs", "agent", "exit_plan_mode"})


def paths_of(call_name: str, arguments: JsonObject) -> tuple[str, ...]:
    """Return the paths a call to a file tool names; none where it is another tool or malformed."""
    if call_name == "apply_patch":
        patch = arguments.get("input")
        try:
            return tuple(dict.fromkeys(patch_paths(patch))) if isinstance(patch, str) else ()
        except PatchError:
            return ()
    path = arguments.get("path") or ("." if call_name in READERS else None)
    return (path,) if call_name in READERS | WRITERS and isinstance(path, str) else ()
