"""Files a person puts beside a prompt: named by a flag, or as `@path` in what was typed.

Only typed text is searched for `@path`; piped text may come from anywhere and attaches nothing.
"""

from __future__ import annotations

import base64
import codecs
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from qcode.protocol.messages import Block, Image, Text
from qcode.tools.pictures import image_type

MAX_TEXT_BYTES = 4 * 1024 * 1024
MAX_IMAGE_BYTES = 10 * 1024 * 1024

_IMAGE_NAMES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|((?:\\.|\S)+))')
_ESCAPED = re.compile(r"\\(.)")
_TAG = re.compile(r"</(?=file\b)", re.IGNORECASE)


class InputError(Exception):
    """Standard input or a file cannot be used; the text is one line for a person."""


def attachments(files: Iterable[Path], typed: str, folder: Path) -> tuple[Block, ...]:
    """Return the files named by flags and by `@path` in the typed prompt as blocks; raise `InputError` for a bad one.

    An `@word` that is no file stays a word. A path with spaces is written `@"a b"` or `@a\\ b`.
    """
    named = [_block(folder / path, str(path), takes_pipes=True) for path in files]
    return (*named, *(_block(path, word) for path, word in _mentioned(typed, folder)))


def mentions(typed: str, folder: Path) -> tuple[tuple[Block, ...], tuple[str, ...]]:
    """Return what `@path` in the typed prompt attaches, and a line for each file that cannot be attached."""
    blocks: list[Block] = []
    complaints: list[str] = []
    for path, word in _mentioned(typed, folder):
        try:
            blocks.append(_block(path, word))
        except InputError as error:
            complaints.append(f"not attached: {error}")
    return tuple(blocks), tuple(complaints)


def _mentioned(typed: str, folder: Path) -> list[tuple[Path, str]]:
    """Return the files that are there, each once, with the name they were typed by."""
    found: dict[Path, str] = {}
    for match in _MENTION.finditer(typed):
        word = match[1] or _ESCAPED.sub(r"\1", match[2])
        for name in (word, word.rstrip(".,;:!?)\"'")):
            path = _file_at(name, folder)
            if path is not None:
                found.setdefault(path, name)
                break
    return list(found.items())


def _file_at(name: str, folder: Path) -> Path | None:
    try:
        path = folder / Path(name).expanduser()
        return path if name and path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _block(path: Path, shown: str, *, takes_pipes: bool = False) -> Block:
    """Read a file, or, where a flag named it, a pipe such as `<(git diff)`."""
    is_image_by_name = path.suffix.lower() in _IMAGE_NAMES
    limit = MAX_IMAGE_BYTES if is_image_by_name else MAX_TEXT_BYTES
    data = _read(path, shown, limit, takes_pipes)
    media_type = image_type(data)
    if media_type:
        return Image(media_type, base64.b64encode(data).decode("ascii"))
    if is_image_by_name:
        raise InputError(f"{shown} is no PNG, JPEG, GIF or WebP image, whatever its name says")
    name = shown.replace('"', "'")
    return Text(f'<file path="{name}">\n{_TAG.sub("&lt;/", decoded(data, shown))}\n</file>')


def _read(path: Path, shown: str, limit: int, takes_pipes: bool) -> bytes:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not (takes_pipes and stat.S_ISFIFO(mode)):
            raise InputError(f"{shown} is {'a folder' if stat.S_ISDIR(mode) else 'no plain file'}")
        with path.open("rb") as file:
            data = file.read(limit + 1)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise InputError(f"{shown} does not exist") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{shown} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > limit:
        raise InputError(f"{shown} is too large to attach ({max(size, len(data)):,} bytes; at most {limit:,})")
    return data


def decoded(data: bytes, what: str) -> str:
    """Return `data` as text without its byte order mark; raise `InputError` naming `what` where it is none."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise InputError(f"{what} is not text in UTF-8 or UTF-16") from None
    if "\0" in text:
        raise InputError(f"{what} is not text: it holds NUL bytes")
    return text
