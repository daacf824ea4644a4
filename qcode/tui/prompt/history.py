"""The history of sent prompts in a private file, the stored draft, and the line of the history search.

The history file has one JSON object a line, `{"text", "folder"}`. If the file cannot be read or written, the history
has only the prompts of this process.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content
from textual.widgets import Static

from qcode.config import state_file
from qcode.config.paths import DRAFTS_FOLDER
from qcode.text.json import JsonObject
from qcode.tui.transcript.line import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_PROMPTS = 1_000
_MAX_STORED_CHARS = 50_000
"""A longer prompt is not written to the history file."""


class PromptHistory:
    """The sent prompts, with a cursor that moves to older and newer ones. The current draft is the newest position.

    Each text is listed once, at its latest use. Prompts sent in this folder count as newer than all others.
    """

    def __init__(self, path: Path | None = None, folder: str = "", *, is_stored: bool = True) -> None:
        """Read the history file, if there is one. Without `is_stored`, write neither it nor a draft."""
        self._path = path
        self._folder = folder
        """The working folder."""
        self._entries = _read_history(path, folder, may_trim=is_stored) if path is not None else []
        self._index = len(self._entries)
        """The position of the cursor; the number of entries stands for the draft."""
        self._draft = ""
        self.is_stored = is_stored and path is not None
        """Sent prompts are written to the history file."""
        self.draft_file = DraftFile(path.parent / DRAFTS_FOLDER if path is not None and is_stored else None, folder)

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def add(self, text: str, stored: str | None = None) -> None:
        """Remember `text` unless it is empty or only an API key, and move the cursor to the end.

        `stored` is the text for the file. It is needed if `text` has labels such as `[Image #1 a.png]`, which mean
        nothing in another session.
        """
        from qcode.safety.redaction import is_secret  # not needed for the first paint

        if text.strip() and not is_secret(text):
            is_new = not self._entries or self._entries[-1] != text
            with suppress(ValueError):
                self._entries.remove(text)
            self._entries.append(text)
            if is_new:
                self._write(text if stored is None else stored)
        self._index = len(self._entries)
        self._draft = ""

    def older(self, current: str) -> str | None:
        """Return the next older entry, None at the oldest. `current` is saved as the draft when the user leaves it."""
        if self._index == 0:
            return None
        if self._index == len(self._entries):
            self._draft = current
        self._index -= 1
        return self._entries[self._index]

    def newer(self) -> str | None:
        """Return the next newer entry, or the draft after the newest one; None if the cursor is at the draft."""
        if self._index == len(self._entries):
            return None
        self._index += 1
        return self._draft if self._index == len(self._entries) else self._entries[self._index]

    def matches(self, words: str) -> tuple[str, ...]:
        """Return the entries that contain `words`, newest first. A capital letter makes the search case-sensitive."""
        if words != words.lower():
            return tuple(entry for entry in reversed(self._entries) if words in entry)
        return tuple(entry for entry in reversed(self._entries) if words in entry.lower())

    def _write(self, text: str) -> None:
        """Append one entry. The first failure disables the file for this run (`is_stored`)."""
        if self._path is None or not self.is_stored or len(text) > _MAX_STORED_CHARS:
            return
        try:
            state_file.append(self._path, json.dumps({"text": text, "folder": self._folder}).encode("ascii") + b"\n")
        except OSError:
            self.is_stored = False


def _read_history(path: Path, folder: str, *, may_trim: bool) -> list[str]:
    """Return the newest entries, those of `folder` last. Invalid lines, such as one cut by a crash, are skipped."""
    lines = state_file.read(path).splitlines(keepends=True)
    if may_trim and len(lines) > 2 * _MAX_PROMPTS:
        with suppress(OSError):  # leave an unreadable file unchanged
            state_file.replace(path, b"".join(lines[-_MAX_PROMPTS:]))
    here: list[str] = []
    elsewhere: list[str] = []
    for text, entry_folder in _parse_entries(lines[-_MAX_PROMPTS:]):
        (here if entry_folder == folder else elsewhere).append(text)
    newest_first = dict.fromkeys(reversed(elsewhere + here))  # a repeated text keeps the place of its latest use
    return list(reversed(newest_first))


def _parse_entries(lines: list[bytes]) -> Iterator[tuple[str, str]]:
    """Yield text and folder of each line. In older files a line is a JSON string, the text alone."""
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            text = value.get("text")
            folder = value.get("folder")
        else:
            text, folder = value, ""
        if isinstance(text, str) and text:
            yield text, (folder if isinstance(folder, str) else "")


MAX_STORED_OUTPUT_CHARS = 200_000
"""The maximum number of characters of attached output that is stored with a draft."""


class UnsentPrompt(NamedTuple):
    """The prompts and attachments that were not sent."""

    text: str = ""
    """The text of the prompt, then the queued prompts."""
    attached: tuple[str, ...] = ()
    """The texts of attached blocks: output of commands."""


class DraftFile:
    """The unsent prompt of this process, in a private file that remains if the process is killed.

    Write errors are ignored.
    """

    def __init__(self, drafts_folder: Path | None, working_folder: str) -> None:
        self._drafts_folder = drafts_folder
        """The folder of the files of all processes, None to store nothing."""
        self._working_folder = working_folder
        """The folder in which the user works: the draft is restored only there."""
        self._saved = UnsentPrompt()

    def save(self, unsent: UnsentPrompt) -> None:
        """Replace the stored draft; an empty draft removes the file.

        Attached output of more than `MAX_STORED_OUTPUT_CHARS` is not stored.
        """
        if sum(map(len, unsent.attached)) > MAX_STORED_OUTPUT_CHARS:
            unsent = UnsentPrompt(unsent.text)
        if self._drafts_folder is None or unsent == self._saved:
            return
        self._saved = unsent
        path = self._drafts_folder / f"{os.getpid()}.json"
        with suppress(OSError):
            if unsent.text.strip() or unsent.attached:
                draft: JsonObject = {"folder": self._working_folder, "text": unsent.text}
                if unsent.attached:
                    draft["attached"] = list(unsent.attached)
                state_file.save_json(path, draft)
            else:
                path.unlink(missing_ok=True)

    def take_abandoned(self) -> UnsentPrompt:
        """Remove and return the draft of an ended process in this working folder; empty without one."""
        if self._drafts_folder is None:
            return UnsentPrompt()
        with suppress(OSError):
            for path in sorted(self._drafts_folder.glob("*.json")):
                draft = state_file.load_json(path)
                text = draft.get("text")
                if draft.get("folder") == self._working_folder and isinstance(text, str) and not _is_running(path.stem):
                    path.unlink()
                    attached = draft.get("attached")
                    texts = attached if isinstance(attached, list) else []
                    return UnsentPrompt(text, tuple(item for item in texts if isinstance(item, str)))
        return UnsentPrompt()


def _is_running(pid: str) -> bool:
    """Return whether another process with this id is running."""
    if not pid.isdecimal() or int(pid) == os.getpid():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it runs as another user
    return True


class HistorySearch(Static):
    """The line above the prompt during a history search. The prompt passes it the keys, and shows the match."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.display = False
        self.words = ""
        """The search text."""
        self.draft = ""
        """The text that the prompt shows again if the search is cancelled."""
        self.older_key = "Ctrl+R"
        """The key that starts the search and moves to an older match; empty if there is none."""
        self._matches: tuple[str, ...] = ()
        self._index = 0

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def match(self) -> str | None:
        """The current match, None if there is none."""
        return self._matches[self._index] if self._matches and self.words else None

    def open(self, draft: str) -> None:
        """Start a search over a prompt with the text `draft`."""
        self.words = ""
        self.draft = draft
        self._matches = ()
        self._index = 0
        self.display = True
        self._paint()

    def close(self) -> None:
        self.display = False

    def set_matches(self, words: str, matches: tuple[str, ...]) -> None:
        """Show the matches of the search text `words`: the current match if it is one of them, otherwise the newest."""
        match = self.match
        self.words = words
        self._matches = matches
        self._index = matches.index(match) if match in matches else 0
        self._paint()

    def move(self, step: int) -> None:
        """Move to an older (1) or newer (-1) match; do nothing at the ends."""
        self._index = max(0, min(self._index + step, len(self._matches) - 1))
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    def _paint(self) -> None:
        if not self.words:
            status = "type part of an earlier prompt"
        elif self._matches:
            older = f" · {self.older_key} older" if self.older_key else ""
            status = f"{self._index + 1} of {len(self._matches)}{older} · Enter select · Esc close"
        else:
            status = "no match · Esc close"
        width = self.size.width or 80
        words = f" {shorten(self.words, max(8, width // 2))} " if self.words else ""
        text = Content.assemble((f"history:{words}", "$text-accent"), (f" {status}", "$muted"))
        self.update(text.truncate(width, ellipsis=True))
