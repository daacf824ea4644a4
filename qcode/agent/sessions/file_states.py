"""Versions of the files that a session changed, and their changes. Pure values."""

from __future__ import annotations

from typing import Literal

from qcode.values import dataclass

LINK_PREFIX = "link-"


@dataclass(frozen=True, slots=True)
class FileState:
    """A version of a file. The content of a symbolic link is its target."""

    digest: str
    """The SHA-256 of the content in hexadecimal.

    For a symbolic link it begins with `link-`, which earlier versions of qcode treat as missing content.
    """
    size: int
    """In bytes."""
    mode: int
    """The permission bits."""
    is_kept: bool = True
    """The content is in the store and can be restored."""

    @property
    def is_link(self) -> bool:
        return self.digest.startswith(LINK_PREFIX)

    @property
    def content_digest(self) -> str:
        """The digest under which the content is stored."""
        return self.digest.removeprefix(LINK_PREFIX)

    def is_same(self, other: FileState | None) -> bool:
        return other is not None and other.digest == self.digest


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change of a file; a state of None means that there is no file."""

    number: int
    """The number of the latest message before the change."""
    path: str
    """The absolute path."""
    before: FileState | None
    after: FileState | None
    by: Literal["tool", "command"] = "tool"
    """`tool`: reported by a tool, which is exact. `command`: detected by a comparison of files after a command."""


@dataclass(frozen=True, slots=True)
class FileMove:
    """A file that a move restored; a version of None means that there is no file."""

    path: str
    source: FileState | None
    """The version before the move."""
    target: FileState | None
    """The version after the move."""
