"""Model limits learned from error messages of hosts, stored across runs in one small file.

The file is a cache: if it cannot be read or written, qcode continues without it. Separate from `client` because
`qcode models` and `qcode doctor` need no client.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from qcode.config import state_file
from qcode.engine.model_facts import HostKnowledge
from qcode.text.json import JsonObject, object_in
from qcode.values import dataclass

FILE_NAME = "limits.json"


@dataclass(frozen=True, slots=True)
class LimitStore:
    """Limits by host and model. Every call reads the file, because another process may have changed it."""

    state_dir: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE_NAME

    def knowledge(self, host: str, model: str) -> HostKnowledge:
        """Return the learned limits of `model` at `host`; empty if there are none."""
        return self.everything().get((host, model), HostKnowledge())

    def everything(self) -> Mapping[tuple[str, str], HostKnowledge]:
        """Return all stored limits by host and model, without invalid rows."""
        found: dict[tuple[str, str], HostKnowledge] = {}
        for host, models in state_file.load_json(self.path).items():
            for model, row in (models if isinstance(models, dict) else {}).items():
                if isinstance(row, dict):
                    found[host, model] = _knowledge(row)
        return found

    def remember(self, host: str, model: str, knowledge: HostKnowledge) -> None:
        """Store or replace the limits of one model."""
        rows = dict(self.everything())
        rows[host, model] = knowledge
        self._write(rows)

    def forget(self) -> int:
        """Delete all learned limits; return the number of models they were about."""
        count = len(self.everything())
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        return count

    def _write(self, rows: Mapping[tuple[str, str], HostKnowledge]) -> None:
        table: JsonObject = {}
        for (host, model), knowledge in sorted(rows.items()):
            table[host] = {**object_in(table.get(host)), model: _row(knowledge)}
        with contextlib.suppress(OSError):
            state_file.save_json(self.path, table)


def _row(knowledge: HostKnowledge) -> JsonObject:
    row: JsonObject = {
        "output": knowledge.output,
        "window": knowledge.window,
        "silently_capped": knowledge.is_silently_capped,
        "refuses_prefill": knowledge.refuses_prefill,
        "refuses_images": knowledge.refuses_images,
    }
    return {name: value for name, value in row.items() if value}


def _knowledge(row: JsonObject) -> HostKnowledge:
    return HostKnowledge(
        output=_count(row.get("output")),
        window=_count(row.get("window")),
        is_silently_capped=row.get("silently_capped") is True,
        refuses_prefill=row.get("refuses_prefill") is True,
        refuses_images=row.get("refuses_images") is True,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def learned_lines(limits: LimitStore, wanted: str = "") -> list[str]:
    """Return a line for each model with learned limits and `wanted` in its name."""
    rows = sorted(limits.everything().items())
    return [f"learned from {host}: {model}  {_facts(known)}" for (host, model), known in rows if wanted in model]


def _facts(known: HostKnowledge) -> str:
    facts = [
        f"window {known.window:,}" if known.window else "",
        f"output {known.output:,}" if known.output else "",
        "silently capped: nothing is escalated" if known.is_silently_capped else "",
        "refuses prefill: text is continued in words" if known.refuses_prefill else "",
    ]
    return ", ".join(fact for fact in facts if fact) or "nothing yet"
