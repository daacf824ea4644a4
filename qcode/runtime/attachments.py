"""Files a person puts beside a prompt: named by a flag, or as `@path` in what was typed.

Only typed text is searched for `@path`; piped text may come from anywhere and attaches nothing.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Iterable
from pathlib import Path

from qcode.protocol.messages import Block, Image, Text

MAX_TEXT_BYTES = 4 * 1024 * 1024
MAX_IMAGE_BYTES = 10 * 1024 * 1024
_IMAGE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_MENTION = re.compile(r"(?<!\S)@(\S+)")


class InputError(Exception):
    """Standard input or a file cannot be used; the text is one line for a person."""


def attachments(files: Iterable[Path], typed: str, folder: Path) -> tuple[Block, ...]:
    """Return the files named by flags and by `@path` in the typed prompt as blocks; raise `InputError` for a bad one.

    An `@word` that is no file stays a word.
    """
    blocks = [_block(folder / path, str(path)) for path in files]
    for word in dict.fromkeys(_MENTION.findall(typed)):
        path = _mentioned(word, folder)
        if path is not None:
            blocks.append(_block(path, word))
    return tuple(blocks)


def _mentioned(word: str, folder: Path) -> Path | None:
    for name in (word, word.rstrip(".,;:!?)\"'")):
        try:
            path = folder / Path(name).expanduser()
            if name and path.is_file():
                return path
        except (OSError, RuntimeError, ValueError):
            continue
    return None


def _block(path: Path, shown: str) -> Block:
    media_type = _IMAGE_TYPES.get(path.suffix.lower())
    limit = MAX_IMAGE_BYTES if media_type else MAX_TEXT_BYTES
    try:
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist" if not path.exists() else "is no plain file"
            raise InputError(f"{shown} {what}")
        size = path.stat().st_size
        if size > limit:
            raise InputError(f"{shown} is too large to attach ({size:,} bytes; at most {limit:,})")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{shown} cannot be read: {error.strerror}") from None
    if media_type:
        return Image(media_type, base64.b64encode(data).decode("ascii"))
    name = shown.replace('"', "'")
    return Text(f'<file path="{name}">\n{decoded(data, shown)}\n</file>')


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
