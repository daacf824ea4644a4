"""The conversion of a text file to plain text for the model, and back to bytes without unwanted changes. Pure.

The conversion preserves the byte order mark, the encoding (UTF-8, or UTF-16 with a mark), the ending of each line, and
a missing newline at the end. In `Document.text` every ending is a plain newline. `diff_of` compares two documents.
"""

from __future__ import annotations

import codecs
import contextlib
from collections import Counter

from qcode.protocol.tools import Refused
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_ENDING = lazy_pattern(r"\r\n|\n")
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL_BYTES = lazy_pattern(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LINE_BREAKING = lazy_pattern("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NO_NEWLINE = "\n\\ No newline at end of file"
_SAMPLE_BYTES = 64 * 1024
_MAX_COMPARED_PAIRS = 2_000_000
"""The maximum product of both line counts. Above it, changed lines are not matched one by one."""


@dataclass(frozen=True, slots=True)
class Document:
    """A decoded text file."""

    text: str
    """Every line ending is a plain newline."""
    endings: tuple[str, ...] = ()
    """The original ending of each line, one for each newline of `text`."""
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark, empty if there is none."""


class BinaryFile(Refused):
    """The file contains NUL bytes: it is binary, or UTF-16 text without a byte order mark."""


def decode(data: bytes, label: str) -> Document:
    """Decode a file. Raise `Refused` if it is not text in a supported encoding."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)) and len(data) % 4 == 0:
        raise Refused(f"{label} is UTF-32; only UTF-8 and UTF-16 can be read and edited")
    mark, encoding = next(((mark, name) for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), (b"", "utf-8"))
    if encoding == "utf-8" and b"\0" in data:
        raise BinaryFile(f"{label} is a binary file ({len(data):,} bytes)")
    try:
        raw = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        raise Refused(
            f"{label} is neither UTF-8 nor UTF-16 text ({len(data):,} bytes); "
            "if it is text in another encoding, convert it in the shell with iconv"
        ) from None
    return from_text(raw, encoding, mark)


@dataclass(frozen=True, slots=True)
class DisplayText:
    """A document to show."""

    document: Document
    note: str = ""
    """Why the file cannot be edited; empty if it can."""


def decode_to_show(data: bytes, label: str) -> DisplayText:
    """Decode a file to show it, even if its encoding does not allow editing. Raise `Refused` if it is not text."""
    try:
        return DisplayText(decode(data, label))
    except Refused:
        encoding = _other_encoding(data)
        if not encoding:
            raise
    name = "UTF-16 without a byte order mark" if encoding.startswith("utf-16") else "not UTF-8 and is shown as Latin-1"
    note = f"this file is {name}; convert it before you edit it, for example with iconv in the shell"
    return DisplayText(from_text(data.decode(encoding)), note)


def _other_encoding(data: bytes) -> str:
    """Return the most likely encoding of bytes that are not UTF-8, empty if they are not text."""
    sample = data[:_SAMPLE_BYTES]
    if b"\0" not in data:
        return "" if _CONTROL_BYTES.search(sample) else "latin-1"
    # The high bytes of Western text in UTF-16 are zero, its low bytes are not.
    for encoding, high_offset in (("utf-16-le", 1), ("utf-16-be", 0)):
        high_zeros, low_zeros = sample[high_offset::2].count(0), sample[1 - high_offset :: 2].count(0)
        if len(data) % 2 == 0 and high_zeros > len(sample) // 5 and not low_zeros:
            with contextlib.suppress(UnicodeDecodeError):
                data.decode(encoding)
                return encoding
    return ""


def from_text(raw: str, encoding: str = "utf-8", mark: bytes = b"") -> Document:
    """Return the document of a decoded text with its original line endings."""
    if "\r" in raw and "\n" not in raw:
        return Document(raw.replace("\r", "\n"), ("\r",) * raw.count("\r"), encoding, mark)
    endings = tuple(_ENDING.findall(raw))
    return Document(raw.replace("\r\n", "\n"), endings, encoding, mark)


def encode(document: Document) -> bytes:
    """Return the bytes of a document; the inverse of `decode`."""
    lines = document.text.split("\n")
    raw = "".join(line + ending for line, ending in zip(lines, (*document.endings, ""), strict=True))
    return document.mark + raw.encode(document.encoding)


def with_text(document: Document, text: str) -> Document:
    """Return `document` with a new text. Unchanged lines keep their endings; a new line gets its neighbor's ending."""
    old, new = document.text.split("\n"), text.split("\n")
    default = Counter(document.endings).most_common(1)[0][0] if document.endings else "\n"
    if len(set(document.endings)) <= 1:
        return Document(text, (default,) * (len(new) - 1), document.encoding, document.mark)
    old_endings = [*document.endings, default]
    endings: list[str] = []
    for kind, old_start, old_end, new_start, new_end in _changes(old, new):
        if kind == "equal":
            endings += old_endings[old_start:old_end]
            continue
        replaced = old_endings[old_start:old_end][: new_end - new_start]
        endings += replaced
        neighbor = endings[-1] if endings else old_endings[0]
        endings += [neighbor] * (new_end - new_start - len(replaced))
    return Document(text, tuple(endings[: len(new) - 1]), document.encoding, document.mark)


def _changes(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """Return opcodes like those of difflib.

    To bound the cost, difflib gets only the lines between the common start and end. If these are too many, they are one
    replacement.
    """
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    changes = [("equal", 0, start, 0, start)]
    if (old_end - start) * (new_end - start) > _MAX_COMPARED_PAIRS:
        changes.append(("replace", start, old_end, start, new_end))
    else:
        from qcode.text.diff import BoundedMatcher  # loads with the first change

        matcher = BoundedMatcher(old[start:old_end], new[start:new_end], autojunk=False)
        for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
            changes.append((kind, old_from + start, old_to + start, new_from + start, new_to + start))
    return [*changes, ("equal", old_end, len(old), new_end, len(new))]


def diff_of(name: str, old: Document | None, new: Document | None, *, old_name: str = "") -> str:
    """Return the unified diff from `old` (None: a new file) to `new` (None: a deleted file); empty for no change.

    `old_name` is the earlier name of a renamed file. Carriage returns are shown as a symbol if line endings change.
    """
    shows_endings = old is not None and new is not None and bool(old.endings) and set(old.endings) != set(new.endings)
    before = _diff_lines(old, shows_endings) if old is not None else []
    after = _diff_lines(new, shows_endings) if new is not None else []
    source = f"a/{name_in_diff(old_name or name)}" if old is not None else "/dev/null"
    target = f"b/{name_in_diff(name)}" if new is not None else "/dev/null"
    from qcode.text.diff import unified_diff

    lines = list(unified_diff(before, after, source, target))
    return "\n".join(lines) + "\n" if lines else ""


def name_in_diff(name: str) -> str:
    """Return the name of a file for a header line, with `\ufffd` for each character that could break the line."""
    return _LINE_BREAKING.sub("\ufffd", name)


def _diff_lines(document: Document, shows_endings: bool) -> list[str]:
    """Return the lines of a document for a diff. A missing newline at the end gets a note, as in git."""
    if not document.text:
        return []
    lines = document.text.split("\n")
    if shows_endings:
        marks = [ending.replace("\r", "\u240d").replace("\n", "") for ending in document.endings]
        lines = [line + mark for line, mark in zip(lines, (*marks, ""), strict=True)]
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], lines[-1] + _NO_NEWLINE]
