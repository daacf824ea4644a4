"""Input from outside the app: texts edited in the user's `$EDITOR`, and the system clipboard.

The editor opens a private file, which qcode reads and removes when the editor exits.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from textual.app import App, SuspendNotSupported

from qcode.protocol.errors import InputError
from qcode.protocol.events import Level
from qcode.text.clean import one_line
from qcode.text.sentences import capitalized
from qcode.tui.prompt.attachments import AttachmentFinder
from qcode.tui.prompt.prompt import Prompt

_DEFAULT_EDITORS = ("nano", "vim", "vi")
_MAX_EDITED_BYTES = 16 * 1024 * 1024
_CANNOT_SUSPEND = "Cannot start an editor in this terminal."


class EditorError(Exception):
    """The editor could not be used, or its text could not be read. The message is one line for the user."""


def editor_command(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the editor and its arguments, from `VISUAL` or `EDITOR`; otherwise a common one that is installed."""
    for name in ("VISUAL", "EDITOR"):
        value = env.get(name, "").strip()
        if not value:
            continue
        try:
            return tuple(shlex.split(value))
        except ValueError:
            raise EditorError(f"cannot parse {name}: unclosed quote") from None
    editor = next((program for program in _DEFAULT_EDITORS if shutil.which(program, path=env.get("PATH"))), None)
    if editor is None:
        raise EditorError("no editor found: set VISUAL or EDITOR")
    return (editor,)


def edit_text(text: str, command: tuple[str, ...], file_name: str = "prompt.md") -> str:
    """Let the user edit `text` and return the result; block until the editor exits.

    Raise `EditorError` if that fails. The file is in a private folder, which is always removed. The result keeps the
    kind of line ends of `text`. It ends in a line end only if `text` does, because editors such as vim add one.
    """
    with tempfile.TemporaryDirectory(prefix="qcode-") as folder:
        path = Path(folder, file_name)
        try:
            data = text.encode()
        except UnicodeEncodeError:  # a lone surrogate, such as half of an emoji in the JSON of a model
            raise EditorError("the text contains invalid Unicode") from None
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        problem = _run_editor(path, command)
        if problem:
            raise EditorError(problem)
        edited = _read_edited(path)
    if "\r\n" not in text:
        edited = edited.replace("\r\n", "\n")
    end = "\r\n" if "\r\n" in text else "\n"
    edited = edited.removesuffix("\n").removesuffix("\r")
    has_end = bool(edited) and text.endswith(end)
    return edited + end if has_end else edited


def edit_in_place(path: str, command: tuple[str, ...]) -> str:
    """Open a file in the editor and block until it exits; return the error as one line, empty if it succeeded."""
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return f"cannot create {path}: {error.strerror}"
    return _run_editor(Path(path), command)


def _run_editor(path: Path, command: tuple[str, ...]) -> str:
    """Run the editor until it exits; return the error as one line, empty if it succeeded."""
    try:
        code = subprocess.run((*command, str(path)), check=False).returncode
    except OSError as error:
        return f"the editor {command[0]} could not be started: {os.strerror(error.errno or 0)}"
    if code == 0:
        return ""
    ending = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"the editor {command[0]} {ending}"


def _read_edited(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EditorError(f"cannot read the edited text: {error.strerror}") from None
    if len(data) > _MAX_EDITED_BYTES:
        raise EditorError("the edited text is larger than 16 MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise EditorError("the edited text is not UTF-8") from None


class ExternalInput:
    """Inserts text and images from the clipboard and from the user's editor into `prompt`."""

    def __init__(
        self,
        app: App[int],
        prompt: Prompt,
        attachments: AttachmentFinder,
        *,
        notify: Callable[[Level, str], None],
        show_hint: Callable[[str], None],
        suspend_terminal: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._app = app
        self._prompt = prompt
        self._attachments = attachments
        self._notify = notify
        """Adds a notice to the transcript."""
        self._show_hint = show_hint
        """Shows a hint in the status line."""
        self._suspend_terminal = suspend_terminal
        """Returns a context in which an editor has the terminal."""

    async def paste(self) -> None:
        """Insert the image or the text of the system clipboard."""
        try:
            pasted = await self._attachments.clipboard()
        except InputError as problem:
            # Text copied inside the app can be pasted even if the system clipboard cannot be read.
            if self._app.clipboard:
                self._prompt.paste_text(self._app.clipboard)
            else:
                self._show_hint(f"nothing to paste: {problem}")
            return
        if isinstance(pasted, str):
            self._prompt.paste_text(pasted)
        else:
            self._prompt.add_pictures((pasted,))

    async def edit(self) -> None:
        """Edit the prompt in the user's editor."""
        prompt = self._prompt
        prompt.leave_search()
        edited = await self.edited_text(prompt.whole_text, "prompt.md", "the prompt is unchanged")
        if edited is not None and edited != prompt.whole_text:
            prompt.replace_text(edited)

    async def edited_text(self, text: str, file_name: str, unchanged: str) -> str | None:
        """Return `text` as edited in the user's editor, None after a notice about an error.

        If the editor failed, the notice ends with `unchanged`, such as `the prompt is unchanged`. Turns continue while
        the user edits, but the app does not paint.
        """
        try:
            command = editor_command(os.environ)
            with self._suspend_terminal():
                # An error must not leave this block: Textual 8.2 would not take the terminal back.
                edited = await asyncio.to_thread(_edit_in_thread, text, command, file_name)
        except EditorError as problem:
            self._notify("warning", f"{capitalized(str(problem))}.")
        except SuspendNotSupported:
            self._notify("warning", _CANNOT_SUSPEND)
        else:
            if not isinstance(edited, EditorError):
                return edited
            self._notify("warning", f"{capitalized(str(edited))}; {unchanged}.")
        return None

    async def edit_file(self, path: str) -> None:
        """Open an instruction file in the user's editor, and show a notice about the result."""
        try:
            command = editor_command(os.environ)
            with self._suspend_terminal():
                problem = await asyncio.to_thread(edit_in_place, path, command)
        except EditorError as refusal:
            problem = str(refusal)
        except SuspendNotSupported:
            self._notify("warning", _CANNOT_SUSPEND)
            return
        if problem:
            self._notify("warning", f"{capitalized(problem)}.")
        else:
            self._notify("info", f"{one_line(path)} applies from the next turn.")


def _edit_in_thread(text: str, command: tuple[str, ...], file_name: str) -> str | EditorError:
    """Return the edited text, or the error of `edit_text`."""
    try:
        return edit_text(text, command, file_name)
    except EditorError as problem:
        return problem
