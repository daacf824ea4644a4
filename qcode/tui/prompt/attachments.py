"""Files and images of the prompt: completion of `@path`, images from paths and from the clipboard.

It loads after the first paint, because it imports the file index and the image reader. `labels` is separate: the prompt
needs it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from qcode.agent.context.file_index import FileMatches
from qcode.agent.context.pictures import Picture, picture_of
from qcode.protocol.errors import InputError
from qcode.protocol.events import Level
from qcode.text.clean import one_line
from qcode.tui.prompt.menu import MenuItem, mention_of, recent_paths

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.mcp.completion import ServerCompletion


class AttachmentFinder:
    """Finds files and images for the prompt."""

    def __init__(
        self,
        agent: Agent,
        *,
        notify: Callable[[Level, str], None],
        on_index_change: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._notify = notify
        """Shows a notice in the transcript."""
        self._on_index_change = on_index_change
        """Called from a thread when the files or the resources of tool servers have changed."""
        self._recent_paths: tuple[str, ...] = ()
        self._servers: ServerCompletion | None = None
        self._warned_model = ""
        """The last model about which the user was warned that it does not accept images."""

    def files(self, query: str, is_new_mention: bool) -> FileMatches:
        """Return the files that match a mention. A new mention also starts a scan of the folder in the background."""
        file_index = self._agent.files
        if is_new_mention:
            self._recent_paths = recent_paths(self._agent.conversation.messages)
            file_index.refresh(self._on_index_change)
        return file_index.find(query, self._recent_paths)

    @property
    def servers(self) -> ServerCompletion | None:
        """The completions of tool servers, None without servers. Trusting the folder may add servers later."""
        if self._servers is None and self._agent.servers is not None:
            from qcode.agent.mcp.completion import ServerCompletion

            self._servers = ServerCompletion(self._agent.servers, self._on_index_change)
        return self._servers

    def resources(self, query: str) -> tuple[MenuItem, ...]:
        """Return the rows for the resources of tool servers that match a mention."""
        completion = self.servers
        rows = completion.resources(query) if completion is not None else ()
        return tuple(
            MenuItem(mention_of(row.text, is_open=not row.is_complete), one_line(row.text), is_complete=row.is_complete)
            for row in rows
        )

    def pictures(self, paths: tuple[str, ...]) -> tuple[Picture, ...]:
        """Return the images at pasted paths, empty if any file is not an image: the paste is then plain text."""
        try:
            pictures = tuple(map(self._agent.read_picture, paths))
        except InputError:
            return ()
        self._warn_if_unsupported()
        return pictures

    def _warn_if_unsupported(self) -> None:
        """Warn if the model does not accept images, but not twice in a row about one model."""
        conversation = self._agent.conversation
        model = conversation.model
        if not conversation.supports_images and model != self._warned_model:
            self._warned_model = model
            self._notify("warning", f"{model} does not accept images. /model switches to one that does.")

    async def clipboard(self) -> Picture | str:
        """Return the image or the text of the clipboard; raise `InputError` if it has neither."""
        clip = await asyncio.to_thread(self._agent.read_clipboard)
        if clip.image:
            picture = picture_of(clip.image, "clipboard")
            self._warn_if_unsupported()
            return picture
        if clip.text:
            return clip.text
        raise InputError(clip.problem or "the clipboard is empty")
