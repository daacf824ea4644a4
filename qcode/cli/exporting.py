"""Writes exports of sessions: to a new file, or to standard output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from qcode.cli.arguments import UsageError
from qcode.cli.failure import StartError
from qcode.cli.output import put, say
from qcode.protocol.library import EXPORT_FORMS, ExportForm
from qcode.runtime.export.session import About, exported
from qcode.runtime.store.store import SessionStore
from qcode.runtime.store.summaries import first_words

_USAGE = "use: qcode sessions export ID [--format md|json|html] [-o FILE]"


def export_session(store: SessionStore, wanted: str, options: Sequence[str]) -> int:
    """Export a session that may be open elsewhere; the form is the one asked for, else that of the file's ending."""
    form, path = _options(options)
    loaded = store.load(wanted)
    for notice in loaded.notices:
        say(notice)
    history = loaded.history()
    title = loaded.title or first_words(entry.message for entry in history)
    text = exported(history, About(loaded.session_id, title, loaded.model), form)
    if not path:
        put(text)
        return 0
    try:
        say(f"exported to {save_export(Path.cwd(), path, text)}")
    except ValueError as refusal:
        raise StartError(str(refusal), 42) from None
    return 0


def _options(options: Sequence[str]) -> tuple[ExportForm, str]:
    given: dict[str, str] = {}
    rest = [part for option in options for part in (option.split("=", 1) if option.startswith("--") else [option])]
    while rest:
        name = rest.pop(0)
        if name not in ("--format", "-o", "--output") or not rest:
            raise UsageError(_USAGE)
        given["path" if name != "--format" else "form"] = rest.pop(0)
    path = given.get("path", "")
    wanted = given.get("form") or path.rpartition(".")[2].lower()
    for form in EXPORT_FORMS:
        if form == wanted:
            return form, path
    if "form" in given:
        raise UsageError(_USAGE)
    return "md", path


def save_export(folder: Path, name: str, text: str) -> str:
    """Write `text` to the file `name`, relative to `folder`; return where it is. A file that exists is not replaced.

    Raise `ValueError` with one line for a person.
    """
    try:
        path = folder / Path(name).expanduser()
        # An export holds all that was said, so it is for its owner only.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ValueError(f"{name} exists already: name another file.") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{name} cannot be written: {getattr(error, 'strerror', None) or error}.") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ValueError(f"{name} cannot be written: {error.strerror}.") from None
    return str(path)
