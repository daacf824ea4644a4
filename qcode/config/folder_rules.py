"""The permission rules that the user saved for a folder, in one file of the state folder.

A folder is identified by its real path, device and inode, so that no rule applies to a folder that replaces it. A file
that other users could have written counts as empty. `agent.permissions` applies the rules.
"""

from __future__ import annotations

from pathlib import Path

from qcode.config import state_file
from qcode.protocol.approvals import RULE_EFFECTS, RuleEffect
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

FILE_NAME = "rules.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class FolderRule:
    """A rule saved for a folder."""

    effect: RuleEffect
    text: str
    timestamp: float
    """The time when the user added the rule, in seconds since 1970."""
    added_for: str = ""
    """The call that the rule was added for, empty if the rule was typed."""


@dataclass(frozen=True, slots=True)
class FolderRules:
    """The rules saved for `folder`. Every call reads the file, because another process may have changed it."""

    state_dir: Path
    folder: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE_NAME

    def read(self) -> tuple[FolderRule, ...]:
        """Return the rules without malformed entries. The text of a rule is not checked."""
        identity = self._identity()
        entry = next((entry for entry in self._entries() if _identity_in(entry) == identity), {})
        rows = entry.get("rules")
        rules = map(_rule_from_json, rows if isinstance(rows, list) else [])
        return tuple(rule for rule in rules if rule is not None)

    def add(self, rule: FolderRule) -> None:
        """Save a rule, and replace the same rule. Raise `OSError` if the file cannot be written."""
        self._write([*(saved_rule for saved_rule in self.read() if not _is_same(saved_rule, rule)), rule])

    def remove(self, rule: FolderRule) -> None:
        """Remove a rule; an unknown rule is ignored. Raise `OSError` if the file cannot be written."""
        rules = self.read()
        remaining = [saved_rule for saved_rule in rules if not _is_same(saved_rule, rule)]
        if len(remaining) < len(rules):
            self._write(remaining)

    def _write(self, rules: list[FolderRule]) -> None:
        """Replace the rules of this folder, also those of an earlier folder with the same path."""
        identity = self._identity()
        entries: list[Json] = [entry for entry in self._entries() if entry.get("path") != identity["path"]]
        if rules:
            entries.append({**identity, "rules": [_rule_to_json(rule) for rule in rules]})
        state_file.save_json(self.path, {"version": _VERSION, "folders": entries})

    def _entries(self) -> list[JsonObject]:
        """Return the entries of all folders; each has the identity of a folder and its rules."""
        stored = state_file.load_json(self.path)
        folders = stored.get("folders") if stored.get("version") == _VERSION else None
        if not isinstance(folders, list):
            return []
        return [entry for entry in folders if isinstance(entry, dict) and "rules" in entry]

    def _identity(self) -> JsonObject:
        real_path = self.folder.resolve()
        status = real_path.stat()
        return {"path": str(real_path), "device": status.st_dev, "inode": status.st_ino}


def _identity_in(entry: JsonObject) -> JsonObject:
    return {name: value for name, value in entry.items() if name != "rules"}


def _is_same(rule: FolderRule, other: FolderRule) -> bool:
    return (rule.effect, rule.text) == (other.effect, other.text)


def _rule_to_json(rule: FolderRule) -> JsonObject:
    return {"effect": rule.effect, "rule": rule.text, "at": round(rule.timestamp), "why": rule.added_for}


def _rule_from_json(row: Json) -> FolderRule | None:
    """Return a stored rule, None if the row is malformed."""
    if not isinstance(row, dict):
        return None
    effect, text, timestamp, added_for = (row.get(name) for name in ("effect", "rule", "at", "why"))
    if effect not in RULE_EFFECTS or not isinstance(text, str) or not isinstance(timestamp, int | float):
        return None
    return FolderRule(effect, text, timestamp, added_for if isinstance(added_for, str) else "")
