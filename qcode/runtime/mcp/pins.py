"""What the person approved of tool servers, in one file of the state folder: projects' servers, and tools as they were.

A tool is pinned as its server described it when it was first offered. What differs later waits until the person has
seen it. What cannot be read, or could have been written by others, approves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.values import dataclass
from qcode.runtime.mcp.offered import Offered
from qcode.runtime.mcp.spec import ServerSpec, digest
from qcode.runtime.own_file import read_own, write_own

FILE_NAME = "tool_servers.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Pin:
    """A tool as it was: the hash of what its server said, and how that was offered, for a person to compare."""

    hash: str
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A tool that is not as it was approved; `before` is None where it is new."""

    tool: str
    before: Pin | None
    now: Pin

    def shown(self) -> str:
        """Return the difference for a person."""
        from difflib import unified_diff  # takes a while to load, and is seldom needed

        if self.before is None:
            return f"new tool {self.tool}\n{_indented(self.now.text)}"
        rows = list(unified_diff(self.before.text.splitlines(), self.now.text.splitlines(), lineterm="", n=2))[2:]
        if not rows:
            return f"changed tool {self.tool}\n  (in a part that is not shown to a model)"
        return f"changed tool {self.tool}\n" + "\n".join(rows)


class Pins:
    """Reads the file for each question, so that what another qcode wrote counts."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / FILE_NAME

    def is_approved(self, spec: ServerSpec) -> bool:
        """Return whether exactly this server may run. What is in the person's own configuration may."""
        return not spec.is_from_project or self._entry(spec.key).get("approved") == spec.fingerprint

    def was_approved(self, spec: ServerSpec) -> bool:
        """Return whether a server of this name was approved, be it another one."""
        return "approved" in self._entry(spec.key)

    def approve(self, spec: ServerSpec) -> None:
        """Let exactly this server run from now on. Raise `OSError` where that cannot be kept."""
        self._change(spec.key, {"approved": spec.fingerprint})

    def tools(self, spec: ServerSpec) -> dict[str, Pin] | None:
        """Return the pinned tools by the name a model calls; None where none were ever offered."""
        return _pins(self._entry(spec.key).get("tools"))

    def pin(self, spec: ServerSpec, pins: Mapping[str, Pin]) -> None:
        """Take these tools for approved, and nothing for waiting."""
        self._change(spec.key, {"tools": _rows(pins), "pending": None})

    def wait(self, spec: ServerSpec, changes: Sequence[Change]) -> None:
        """Note what waits for the person, for `qcode mcp approve` to show and accept exactly that."""
        self._change(spec.key, {"pending": _rows({change.tool: change.now for change in changes})})

    def pending(self, spec: ServerSpec) -> tuple[Change, ...]:
        entry = self._entry(spec.key)
        before, now = _pins(entry.get("tools")) or {}, _pins(entry.get("pending")) or {}
        return tuple(Change(name, before.get(name), pin) for name, pin in now.items())

    def accept(self, spec: ServerSpec, changes: Sequence[Change]) -> None:
        """Pin what changed as it is now."""
        known = self.tools(spec) or {}
        self.pin(spec, {**known, **{change.tool: change.now for change in changes}})

    def _entry(self, key: str) -> JsonObject:
        found = self._servers().get(key)
        return found if isinstance(found, dict) else {}

    def _servers(self) -> JsonObject:
        stored = parse_object(read_own(self.path)) or {}
        servers = stored.get("servers") if stored.get("version") == _VERSION else None
        return servers if isinstance(servers, dict) else {}

    def _change(self, key: str, values: Mapping[str, Json]) -> None:
        servers = self._servers()
        entry = {**self._entry(key), **values}
        servers[key] = {name: value for name, value in entry.items() if value is not None}
        write_own(self.path, {"version": _VERSION, "servers": servers})


def pin_of(tool: Offered) -> Pin:
    """Return how a tool is remembered."""
    import json

    shown = json.dumps(tool.spec.parameters, indent=1, sort_keys=True, ensure_ascii=False)
    return Pin(tool.hash, f"{tool.spec.description}\n{shown}")


def changes_of(known: Mapping[str, Pin], tools: Sequence[Offered]) -> tuple[Change, ...]:
    """Return what is not as it was pinned."""
    found = ((tool.spec.name, pin_of(tool)) for tool in tools if not tool.problem)
    return tuple(
        Change(name, known.get(name), now) for name, now in found if name not in known or known[name].hash != now.hash
    )


def key_of(spec: ServerSpec, what: str, changes: Sequence[Change] = ()) -> str:
    """Return the key of a question: another one as soon as anything of it differs."""
    return digest([what, spec.key, spec.fingerprint, [[change.tool, change.now.hash] for change in changes]])


def _pins(value: Json) -> dict[str, Pin] | None:
    return dict(_read(value)) if isinstance(value, dict) else None


def _read(rows: JsonObject) -> Iterator[tuple[str, Pin]]:
    for name, row in rows.items():
        if isinstance(row, dict):
            mark, text = row.get("hash"), row.get("text")
            if isinstance(mark, str) and isinstance(text, str):
                yield name, Pin(mark, text)


def _rows(pins: Mapping[str, Pin]) -> JsonObject:
    return {name: {"hash": pin.hash, "text": pin.text} for name, pin in pins.items()}


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
