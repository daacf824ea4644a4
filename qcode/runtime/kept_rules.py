"""Rules a person keeps for one folder beyond a session, in one file of the state folder and never in a project.

A folder is known by its real path together with its device and inode, as for trust: rules are relative to it, and say
nothing about what is put in its place. What could have been written by others holds no rule.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from qcode.protocol.controls import RuleEffect
from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.values import dataclass
from qcode.runtime.own_file import read_own, write_own
from qcode.safety.rules import parse_rule

FILE_NAME = "rules.json"

_VERSION = 1
_EFFECTS = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class KeptRule:
    """`at` is when it was kept, in seconds since 1970; `why` the call that it came from, for a person."""

    effect: RuleEffect
    text: str
    at: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class KeptRules:
    """The rules of `folder`. Every call reads the file: another process may have changed it."""

    state_dir: Path
    folder: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE_NAME

    def read(self) -> tuple[KeptRule, ...]:
        """Return the rules, leaving out what cannot be read as one."""
        identity = self._identity()
        rows = next((row["rules"] for row in self._rows() if identity == _without_rules(row)), [])
        return tuple(rule for row in (rows if isinstance(rows, list) else []) if (rule := _rule(row)) is not None)

    def add(self, rule: KeptRule) -> None:
        """Keep one more; the same rule twice is one. Raise `OSError` where that cannot be."""
        self._write([*(one for one in self.read() if not _is_same(one, rule)), rule])

    def remove(self, rule: KeptRule) -> None:
        """Forget one; nothing happens where it is not there. Raise `OSError` where that cannot be."""
        kept = self.read()
        left = [one for one in kept if not _is_same(one, rule)]
        if len(left) < len(kept):
            self._write(left)

    def _write(self, rules: list[KeptRule]) -> None:
        identity = self._identity()
        others = [row for row in self._rows() if row.get("path") != identity["path"]]
        rows: list[Json] = [
            {"effect": rule.effect, "rule": rule.text, "at": round(rule.at), "why": rule.why} for rule in rules
        ]
        folders: list[Json] = [*others, *([{**identity, "rules": rows}] if rows else [])]
        write_own(self.path, {"version": _VERSION, "folders": folders})

    def _rows(self) -> list[JsonObject]:
        stored = parse_object(read_own(self.path)) or {}
        rows = stored.get("folders") if stored.get("version") == _VERSION else None
        return [row for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict) and "rules" in row]

    def _identity(self) -> JsonObject:
        real = self.folder.resolve()
        state = real.stat()
        return {"path": str(real), "device": state.st_dev, "inode": state.st_ino}


def _without_rules(row: JsonObject) -> JsonObject:
    return {name: value for name, value in row.items() if name != "rules"}


def _is_same(one: KeptRule, other: KeptRule) -> bool:
    return (one.effect, one.text) == (other.effect, other.text)


def _rule(row: Json) -> KeptRule | None:
    if not isinstance(row, dict):
        return None
    effect, text, at, why = (row.get(name) for name in ("effect", "rule", "at", "why"))
    if effect not in _EFFECTS or not isinstance(text, str) or not isinstance(at, int | float):
        return None
    try:
        parse_rule(text)
    except ValueError:
        return None
    return KeptRule(cast("RuleEffect", effect), text, at, why if isinstance(why, str) else "")
