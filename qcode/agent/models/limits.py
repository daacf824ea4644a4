"""Limits of models that qcode learned from errors and replies of hosts, stored across runs in two small files.

The files are caches: if they cannot be read or written, qcode continues without them. Separate from `client` because
`qcode models` and `qcode doctor` need no client.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path

from qcode.config import state_file
from qcode.engine.caps import CAPPED_DEFAULT_MAX_TOKENS, MAX_KEPT_LENGTHS, FirstCap, learn_first_cap
from qcode.engine.model_facts import HostKnowledge
from qcode.protocol.events import ReplyFinished
from qcode.protocol.reply import StopReason
from qcode.text.json import JsonObject, object_in, text_in
from qcode.values import dataclass

FILE_NAME = "limits.json"
MAX_NATIVE_CALLS = 2
"""The number of native calls after which a host counts as one that sends calls natively."""
LENGTHS_NAME = "reply_lengths.json"


def reply_length(event: ReplyFinished) -> int | None:
    """Return the output tokens of a reply, negative if it stayed truncated; None if it is unsuitable to choose a cap.

    A reply is unsuitable if its usage is unknown, if it was refused, or if its first cap was below the default cap.
    A reply whose first attempt was truncated counts as longer than the default cap, even if its final text is shorter.
    """
    attempts = event.attempts
    lengths = [attempt.usage.output for attempt in attempts if not attempt.is_discarded]
    if not attempts or attempts[0].kind != "first" or attempts[0].max_tokens < CAPPED_DEFAULT_MAX_TOKENS:
        return None
    if event.stop not in (StopReason.END_TURN, StopReason.TOOL_USE, StopReason.MAX_TOKENS) or None in lengths:
        return None
    tokens = sum(count or 0 for count in lengths)
    if event.stop is StopReason.MAX_TOKENS:
        return -max(1, tokens)
    is_long = attempts[0].stop == StopReason.MAX_TOKENS or any(attempt.kind == "escalated" for attempt in attempts)
    return max(tokens, CAPPED_DEFAULT_MAX_TOKENS + 1) if is_long else tokens


class _LengthsCache:
    """A cache of the file of reply lengths, valid until the file is replaced. Each turn needs it several times."""

    def __init__(self) -> None:
        self._version: tuple[int, ...] = ()
        self._rows: dict[tuple[str, str], list[int]] = {}

    def read(self, path: Path) -> dict[tuple[str, str], list[int]]:
        """Return the lengths in the file by host and model; empty if the file cannot be read."""
        try:
            state = path.stat()
        except OSError:
            return {}
        version = (state.st_mtime_ns, state.st_ino, state.st_size)
        if version != self._version:
            self._rows = {}
            for host, models in state_file.load_json(path).items():
                for model, row in object_in(models).items():
                    values = row if isinstance(row, list) else []
                    self._rows[host, model] = [value for value in values if type(value) is int]
            self._version = version
        return self._rows


@dataclass(frozen=True, slots=True)
class LimitStore:
    """Limits by host and model.

    Every call reads the file of limits, because another process may have changed it. The file of reply lengths is read
    only if it was replaced.
    """

    state_dir: Path
    _cached_lengths: _LengthsCache = field(default_factory=_LengthsCache, compare=False, repr=False)

    @property
    def path(self) -> Path:
        return self.state_dir / FILE_NAME

    def knowledge(self, host: str, model: str) -> HostKnowledge:
        """Return the learned limits of `model` at `host`; empty if there are none."""
        return self._rows().get((host, model), HostKnowledge())

    def all_knowledge(self) -> Mapping[tuple[str, str], HostKnowledge]:
        """Return the stored limits by host and model, without rows that only count native calls."""
        return {
            host_and_model: row
            for host_and_model, row in self._rows().items()
            if replace(row, native_calls=0) != HostKnowledge()
        }

    def _rows(self) -> Mapping[tuple[str, str], HostKnowledge]:
        """Return the stored limits by host and model, without invalid rows."""
        rows: dict[tuple[str, str], HostKnowledge] = {}
        for host, models in state_file.load_json(self.path).items():
            for model, row in (models if isinstance(models, dict) else {}).items():
                if isinstance(row, dict):
                    rows[host, model] = _knowledge(row)
        return rows

    def all_limits(self) -> list[tuple[tuple[str, str], HostKnowledge]]:
        """Return the limits of `all_knowledge` with the learned first caps, sorted by host and model."""
        limits = dict(self.all_knowledge())
        for host_and_model, lengths in self._lengths().items():
            first_cap = learn_first_cap(lengths)
            if first_cap is not None:
                limits[host_and_model] = replace(limits.get(host_and_model, HostKnowledge()), first_cap=first_cap)
        return sorted(limits.items())

    def remember(self, host: str, model: str, knowledge: HostKnowledge) -> None:
        """Store or replace the limits of one model."""
        rows = dict(self._rows())
        rows[host, model] = knowledge
        self._write(rows)

    def forget(self) -> int:
        """Delete all learned limits and lengths; return the number of models that had any. Raise `OSError`."""
        count = len({*self.all_knowledge(), *self._lengths()})
        for path in (self.path, self._lengths_path):
            path.unlink(missing_ok=True)
        return count

    def first_cap(self, host: str, model: str) -> FirstCap | None:
        """Return the first output cap that suits the stored lengths; None for the default cap."""
        return learn_first_cap(self._lengths().get((host, model), []))

    def record_reply_length(self, host: str, model: str, length: int) -> None:
        """Store a length in the form of `reply_length`, and drop the oldest if there are too many."""
        rows = {**self._lengths()}
        rows[host, model] = [*rows.get((host, model), []), length][-MAX_KEPT_LENGTHS:]
        table: JsonObject = {}
        for (owner, name), lengths in sorted(rows.items()):
            table[owner] = {**object_in(table.get(owner)), name: list(lengths)}
        with contextlib.suppress(OSError):
            # Without line breaks, because the file is written after each turn and has up to 200 numbers for each model.
            state_file.replace(self._lengths_path, json.dumps(table).encode("ascii"))

    @property
    def _lengths_path(self) -> Path:
        return self.state_dir / LENGTHS_NAME

    def _lengths(self) -> dict[tuple[str, str], list[int]]:
        """Return the stored lengths by host and model, without invalid values. The caller must not change them."""
        return self._cached_lengths.read(self._lengths_path)

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
        "text_calls": knowledge.text_calls,
        "text_calls_since": knowledge.text_calls_since,
        "native_calls": knowledge.native_calls,
    }
    return {name: value for name, value in row.items() if value}


def _knowledge(row: JsonObject) -> HostKnowledge:
    return HostKnowledge(
        output=_count(row.get("output")),
        window=_count(row.get("window")),
        is_silently_capped=row.get("silently_capped") is True,
        refuses_prefill=row.get("refuses_prefill") is True,
        refuses_images=row.get("refuses_images") is True,
        text_calls=text_in(row.get("text_calls")),
        text_calls_since=text_in(row.get("text_calls_since")),
        native_calls=_count(row.get("native_calls")) or 0,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


class NoLimits(LimitStore):
    """A store that is always empty, so that a recording is played back in the same way everywhere."""

    __slots__ = ()

    def knowledge(self, host: str, model: str) -> HostKnowledge:
        return HostKnowledge()

    def remember(self, host: str, model: str, knowledge: HostKnowledge) -> None:
        pass

    def first_cap(self, host: str, model: str) -> FirstCap | None:
        return None

    def record_reply_length(self, host: str, model: str, length: int) -> None:
        pass


class StoredCallFacts:
    """The stored facts about how a host sends the tool calls of one model. Reads the file once.

    Implements `providers.blocks.HostCallFacts`, which explains the members.
    """

    def __init__(self, limits: LimitStore, host: str, model: str) -> None:
        self._limits = limits
        self._host_and_model = (host, model)
        self._knowledge: HostKnowledge | None = None

    @property
    def form(self) -> str:
        return self._row.text_calls

    @property
    def accepts_bare_json(self) -> bool:
        return bool(self._row.text_calls) or not self._row.native_calls

    def note_native_call(self) -> None:
        """Count a native call; `MAX_NATIVE_CALLS` of them after a call as text reset `form`."""
        row = self._row
        if row.native_calls >= MAX_NATIVE_CALLS:
            return
        row = replace(row, native_calls=row.native_calls + 1)
        if row.native_calls == MAX_NATIVE_CALLS:
            row = replace(row, text_calls="", text_calls_since="")
        self._store(row)

    def note_text_call(self, form: str) -> None:
        row = self._row
        if row.text_calls != form or row.native_calls:
            since = row.text_calls_since or datetime.now(UTC).date().isoformat()
            self._store(replace(row, text_calls=form, text_calls_since=since, native_calls=0))

    @property
    def _row(self) -> HostKnowledge:
        if self._knowledge is None:
            self._knowledge = self._limits.knowledge(*self._host_and_model)
        return self._knowledge

    def _store(self, knowledge: HostKnowledge) -> None:
        self._knowledge = knowledge
        current = self._limits.knowledge(*self._host_and_model)
        form, since, count = knowledge.text_calls, knowledge.text_calls_since, knowledge.native_calls
        self._limits.remember(
            *self._host_and_model, replace(current, text_calls=form, text_calls_since=since, native_calls=count)
        )


def learned_lines(limits: LimitStore, model_name: str = "") -> list[str]:
    """Return a line for each model with learned limits whose name contains `model_name`, in any case."""
    return [
        f"learned from {host}: {model}  {_facts(knowledge)}"
        for (host, model), knowledge in limits.all_limits()
        if model_name.casefold() in model.casefold()
    ]


def _facts(knowledge: HostKnowledge) -> str:
    """Return the learned facts as text for a line of `learned_lines`."""
    facts = [
        f"window {knowledge.window:,}" if knowledge.window else "",
        f"output {knowledge.output:,}" if knowledge.output else "",
        "silently capped: no escalation" if knowledge.is_silently_capped else "",
        "no prefill: replies are continued with a prompt" if knowledge.refuses_prefill else "",
        "no images" if knowledge.refuses_images else "",
        f"calls as text ({knowledge.text_calls}, since {knowledge.text_calls_since})" if knowledge.text_calls else "",
        f"first output cap {knowledge.first_cap.tokens:,}" if knowledge.first_cap else "",
    ]
    return ", ".join(fact for fact in facts if fact)
