"""Approvals of tool servers and their tools, in one file of the state folder.

The pin of a server has the contents of the files that it starts (`mcp.identity`). The pin of a tool has the description
with which it was first offered. A changed server or tool is withheld until the user has seen the difference. A state
file that cannot be read, or that other users could have written, approves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.mcp.spec import NOT_FOUND, TOO_LARGE, ServerSpec, digest
from qcode.agent.trust.store import TrustedFile, TrustedFileChange, changes_between, files_from_json, files_to_json
from qcode.config import state_file
from qcode.config.paths import with_tilde
from qcode.protocol.approvals import ServerApproval
from qcode.text.clean import quoted, visible, visible_rows
from qcode.text.json import Json, JsonObject
from qcode.text.numbers import count_text
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.mcp.tools import CheckedTool

FILE_NAME = "tool_servers.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Pin:
    """The approved form of a tool."""

    hash: str
    """The hash of everything that the server listed about the tool (`CheckedTool.hash`)."""
    text: str
    """The description and parameters as the model gets them, for the user to compare."""


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool that differs from its pin; `before` is None for a new tool."""

    tool: str
    before: Pin | None
    now: Pin

    def diff(self) -> str:
        """Return the difference as text, with invisible characters made visible."""
        from difflib import unified_diff  # slow to import and seldom needed

        name, lines = visible(self.tool), self.now.text.split("\n")
        if self.before is None:
            return "\n".join([f"new tool {name}", *(f"  {visible_rows(line)}" for line in lines)])
        rows = list(unified_diff(self.before.text.split("\n"), lines, lineterm="", n=2))[2:]
        if not rows:
            return f"changed tool {name}\n  (in a part that the model does not see)"
        return "\n".join([f"changed tool {name}", *map(visible_rows, rows)])


class Pins:
    """The file of approvals. Every call reads it, because another process may have changed it."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / FILE_NAME

    def is_approved(self, spec: ServerSpec, files: Mapping[str, TrustedFile] | None = None) -> bool:
        """Return whether exactly this server may run: this configuration, with these contents of its files.

        If `files` is None, only the configuration is compared. A server in the user's configuration needs no approval,
        but its files are pinned at its first run, so that no change goes unnoticed.
        """
        if spec.is_from_project and self._entry(spec.key).get("approved") != spec.fingerprint:
            return False
        if files is None:
            return True
        approved = self.files(spec)
        if approved is None:
            return not spec.is_from_project or not files
        return not changes_between(approved, files) and all(file.hash != TOO_LARGE for file in files.values())

    def was_approved(self, spec: ServerSpec) -> bool:
        """Return whether a server of this name was approved, even with another configuration."""
        return "approved" in self._entry(spec.key)

    def approve(self, spec: ServerSpec, files: Mapping[str, TrustedFile] | None = None) -> None:
        """Approve exactly this server with these files. Raise `OSError` if that cannot be stored."""
        self.change(spec.key, {"approved": spec.fingerprint, "files": files_to_json(files or {})})

    def files(self, spec: ServerSpec) -> dict[str, TrustedFile] | None:
        """Return the files that were approved with exactly this server, None if none were recorded."""
        entry = self._entry(spec.key)
        return files_from_json(entry.get("files")) if entry.get("approved") == spec.fingerprint else None

    def changed_files(self, spec: ServerSpec, files: Mapping[str, TrustedFile]) -> tuple[TrustedFileChange, ...]:
        """Return the files that differ from the approved ones; empty without approved files."""
        approved = self.files(spec)
        return () if approved is None else changes_between(approved, files)

    def tools(self, spec: ServerSpec) -> dict[str, Pin] | None:
        """Return the pinned tools by the name that a model calls; None if no tool was ever offered."""
        return _pins_from_json(self._entry(spec.key).get("tools"))

    def pin(self, spec: ServerSpec, pins: Mapping[str, Pin]) -> None:
        """Approve these tools, and clear the pending changes."""
        self.change(spec.key, {"tools": _pins_to_json(pins), "pending": None})

    def store_pending(self, spec: ServerSpec, changes: Sequence[ToolChange]) -> None:
        """Store the changes that wait for approval, so that `qcode mcp approve` shows and accepts exactly these."""
        self.change(spec.key, {"pending": _pins_to_json({change.tool: change.now for change in changes})})

    def pending(self, spec: ServerSpec) -> tuple[ToolChange, ...]:
        """Return the changes of `store_pending`."""
        entry = self._entry(spec.key)
        before, now = _pins_from_json(entry.get("tools")) or {}, _pins_from_json(entry.get("pending")) or {}
        return tuple(ToolChange(name, before.get(name), pin) for name, pin in now.items())

    def accept(self, spec: ServerSpec, changes: Sequence[ToolChange]) -> None:
        """Pin the changed tools in their new form."""
        pinned = self.tools(spec) or {}
        self.pin(spec, {**pinned, **{change.tool: change.now for change in changes}})

    def forget(self, key: str) -> None:
        """Delete the approvals of a server that was removed."""
        servers = self._servers()
        if servers.pop(key, None) is not None:
            state_file.save_json(self.path, {"version": _VERSION, "servers": servers})

    def _entry(self, key: str) -> JsonObject:
        entry = self._servers().get(key)
        return entry if isinstance(entry, dict) else {}

    def _servers(self) -> JsonObject:
        stored = state_file.load_json(self.path)
        servers = stored.get("servers") if stored.get("version") == _VERSION else None
        return servers if isinstance(servers, dict) else {}

    def change(self, key: str, values: Mapping[str, Json]) -> None:
        """Set values of the entry of a server; None deletes a value. Raise `OSError` if that cannot be stored."""
        servers = self._servers()
        entry = {**self._entry(key), **values}
        servers[key] = {name: value for name, value in entry.items() if value is not None}
        state_file.save_json(self.path, {"version": _VERSION, "servers": servers})


def start_text(spec: ServerSpec, pins: Pins, files: Mapping[str, TrustedFile]) -> str:
    """Return everything that an approval covers: the configuration of a server, its files, and their changes.

    Arguments of a server in the user's configuration are hidden, because they may be keys. Arguments of a project's
    server are shown, because a file of the project does not contain a key of the user.
    """
    label = "command:" if spec.config.url is None else "address:"
    summary = f"file:     {visible(with_tilde(str(spec.origin)))}\n{label}  {visible(spec.target)}"
    rows = [spec.detail() if spec.is_from_project else summary]
    changes = pins.changed_files(spec, files)
    rows += [f"starts:   {visible(name)}{_file_note(file)}" for name, file in sorted(files.items())]
    return "\n".join([*rows, *(f"\n{change.diff()}" for change in changes)])


def _file_note(file: TrustedFile) -> str:
    if file.hash == TOO_LARGE:
        return " (too large to compare, so every start needs approval)"
    return " (not found)" if file.hash == NOT_FOUND else ""


def pin_of(tool: CheckedTool) -> Pin:
    """Return the current form of a tool, to compare with its pin or to replace it."""
    import json

    schema = json.dumps(tool.spec.parameters, indent=1, sort_keys=True, ensure_ascii=False)
    return Pin(tool.hash, f"{tool.spec.description}\n{schema}")


def changes_of(pinned: Mapping[str, Pin], tools: Sequence[CheckedTool]) -> tuple[ToolChange, ...]:
    """Return the tools that differ from their pins."""
    pins = ((tool.spec.name, pin_of(tool)) for tool in tools if not tool.problem)
    return tuple(
        ToolChange(name, pinned.get(name), now)
        for name, now in pins
        if name not in pinned or pinned[name].hash != now.hash
    )


def approval_id(
    spec: ServerSpec, action: str, changes: Sequence[ToolChange] = (), files: Mapping[str, TrustedFile] | None = None
) -> str:
    """Return the id of an approval, a hash of its details. `action` is "run", "tools" or "sign in"."""
    tools = [[change.tool, change.now.hash] for change in changes]
    started = sorted((name, file.hash) for name, file in (files or {}).items())
    return digest([action, spec.key, spec.fingerprint, tools, started])


def _pins_from_json(value: Json) -> dict[str, Pin] | None:
    return dict(_valid_pins(value)) if isinstance(value, dict) else None


def _valid_pins(rows: JsonObject) -> Iterator[tuple[str, Pin]]:
    for name, row in rows.items():
        if isinstance(row, dict):
            tool_hash, text = row.get("hash"), row.get("text")
            if isinstance(tool_hash, str) and isinstance(text, str):
                yield name, Pin(tool_hash, text)


def _pins_to_json(pins: Mapping[str, Pin]) -> JsonObject:
    return {name: {"hash": pin.hash, "text": pin.text} for name, pin in pins.items()}


def start_question(spec: ServerSpec, pins: Pins, files: Mapping[str, TrustedFile]) -> ServerApproval:
    """Return the question whether to start a server."""
    text = f"{_start_reason(spec, pins)} Start it now and in the future?"
    return ServerApproval(approval_id(spec, "run", files=files), spec.name, text, start_text(spec, pins, files))


def tools_question(spec: ServerSpec, changes: Sequence[ToolChange]) -> ServerApproval:
    """Return the question whether to offer changed tools of a server to models."""
    text = f"{count_text(len(changes), 'tool')} of the server {spec.name} changed. Make them available to models?"
    detail = "\n\n".join(change.diff() for change in changes)
    return ServerApproval(approval_id(spec, "tools", changes), spec.name, text, detail)


def _start_reason(spec: ServerSpec, pins: Pins) -> str:
    """Return why a server must be approved before it starts."""
    if not spec.is_from_project:
        return f"Files that your tool server {quoted(spec.name)} runs have changed since its last start."
    if not pins.was_approved(spec):
        was = "never approved"
    elif pins.is_approved(spec) and pins.files(spec) is None:
        was = "approved by a version of qcode that did not check the files it runs"
    elif pins.is_approved(spec):
        was = "approved before, but files that it runs have changed"
    else:
        was = "a different server with this name was approved before"
    return f"This project wants to start the tool server {quoted(spec.name)} ({was})."


def login_question(spec: ServerSpec, problem: str) -> ServerApproval:
    """Return the question whether to sign in to a server that refuses requests."""
    text = f"The tool server {quoted(spec.name)} refuses requests: {problem}. Sign in with your browser?"
    return ServerApproval(
        approval_id(spec, "sign in"), spec.name, text, f"address:  {visible(spec.target)}", is_login=True
    )
