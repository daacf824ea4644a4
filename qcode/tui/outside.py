"""What comes into the prompt from outside the app: the person's editor, and the system's clipboard."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractContextManager

from textual.app import App, SuspendNotSupported

from qcode.protocol.events import Level
from qcode.runtime.attachments import InputError
from qcode.tui.attaching import Attaching
from qcode.tui.editor import EditorError, edit_in_place, edit_text, editor_command
from qcode.tui.prompt import Prompt
from qcode.tui.text import one_line


class Outside:
    """Brings text and pictures into `prompt`. `lend` gives the terminal away for as long as it is entered."""

    def __init__(
        self,
        app: App[int],
        prompt: Prompt,
        attaching: Attaching,
        *,
        say: Callable[[Level, str], None],
        hint: Callable[[str], None],
        lend: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._app = app
        self._prompt = prompt
        self._attaching = attaching
        self._say = say
        self._hint = hint
        self._lend = lend

    async def paste(self) -> None:
        try:
            found = await self._attaching.clipboard()
        except InputError as problem:
            # What was copied inside the app is there even where the system's clipboard cannot be read.
            if self._app.clipboard:
                self._prompt.paste_text(self._app.clipboard)
            else:
                self._hint(f"nothing to paste: {problem}")
            return
        if isinstance(found, str):
            self._prompt.paste_text(found)
        else:
            self._prompt.add_pictures((found,))

    async def edit(self) -> None:
        """Hand the terminal to the person's editor; turns go on meanwhile, painting waits."""
        prompt = self._prompt
        prompt.leave_search()
        try:
            command = editor_command(os.environ)
            with self._lend():
                # Nothing may be raised in here: Textual 8.2 would not take the terminal back.
                written = await asyncio.to_thread(_edited, prompt.whole_text, command)
        except EditorError as problem:
            self._say("warning", str(problem))
        except SuspendNotSupported:
            self._say("warning", "This terminal cannot be lent to an editor.")
        else:
            if isinstance(written, EditorError):
                self._say("warning", str(written))
            elif written != prompt.whole_text:
                prompt.replace_text(written)

    async def edit_file(self, path: str) -> None:
        """Hand the terminal to the person's editor with a file of theirs."""
        try:
            command = editor_command(os.environ)
            with self._lend():
                problem = await asyncio.to_thread(edit_in_place, path, command)
        except EditorError as refusal:
            problem = str(refusal)
        except SuspendNotSupported:
            problem = "This terminal cannot be lent to an editor."
        self._say("warning" if problem else "info", problem or f"{one_line(path)} holds from the next turn on.")


def _edited(text: str, command: tuple[str, ...]) -> str | EditorError:
    try:
        return edit_text(text, command)
    except EditorError as problem:
        return problem
