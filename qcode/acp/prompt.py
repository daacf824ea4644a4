"""Converts the blocks of a prompt (text, images, resources, links) to the text and the attachments of a message.

A linked file in the workspace is attached like `@path`, if the path policy allows it.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from qcode.acp.wire import WireError, invalid
from qcode.agent.context.attachments import (
    MAX_TEXT_BYTES,
    attached_file,
    attached_text,
    without_mentions,
)
from qcode.agent.context.pictures import decode_image
from qcode.protocol.errors import InputError
from qcode.protocol.messages import Block, Image
from qcode.protocol.tools import Refused
from qcode.text.clean import one_line, visible, visible_line
from qcode.text.json import Json, object_in
from qcode.tools.files.read import page_range, read_pdf
from qcode.tools.processes import HelperProcess
from qcode.values import dataclass

MAX_BLOCKS = 1_000
_PDF_START = "JVBERi"
"""The start of every PDF in base64, `%PDF-` decoded."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link to content that is not in the prompt."""

    uri: str
    name: str


@dataclass(frozen=True, slots=True)
class Resource:
    """A text in the prompt, such as an unsaved buffer or a selection."""

    uri: str
    text: str


@dataclass(frozen=True, slots=True)
class PdfDocument:
    """A PDF in the prompt."""

    uri: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PromptBlocks:
    """The blocks of a prompt as they were sent."""

    texts: tuple[str | Link, ...]
    """The texts, and a link for each resource, in the order of the blocks."""
    resources: tuple[Resource, ...] = ()
    documents: tuple[PdfDocument, ...] = ()
    images: tuple[Image, ...] = ()
    notes: tuple[str, ...] = ()
    """A line for each block that cannot be attached."""

    @property
    def first_text(self) -> str:
        return next((text for text in self.texts if isinstance(text, str)), "")


@dataclass(frozen=True, slots=True)
class PromptInput:
    """A prompt for the conversation."""

    text: str
    attached: tuple[Block, ...]
    notices: tuple[str, ...] = ()
    """A line for each file that was not attached."""


def read_prompt(blocks: Json) -> PromptBlocks:
    """Read the blocks of a prompt; raise `WireError` if they are invalid."""
    if not isinstance(blocks, list) or len(blocks) > MAX_BLOCKS:
        raise invalid(f"the prompt must be a list of at most {MAX_BLOCKS:,} blocks")
    texts: list[str | Link] = []
    resources: list[Resource] = []
    documents: list[PdfDocument] = []
    images: list[Image] = []
    notes: list[str] = []
    for block in map(object_in, blocks):
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "data": str(data)}:
                images.append(_image(data))
            case {"type": "resource_link", "uri": str(uri)}:
                name = block.get("name")
                texts.append(Link(uri, name if isinstance(name, str) else ""))
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                resources.append(Resource(uri, text))
                texts.append(Link(uri, ""))
            case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data)}}:
                texts.append(Link(uri, ""))
                if (document := _document(uri, data)) is not None:
                    documents.append(document)
                    continue
                try:
                    images.append(_image(data))
                except WireError:
                    notes.append(f"not attached: {one_line(uri)} is neither text, nor an image, nor a PDF")
            case {"type": "audio"}:
                raise invalid("audio is not supported")
            case _:
                raise invalid("the prompt has a block that is not valid")
    has_text = any(isinstance(text, Link) or text.strip() for text in texts)
    if not has_text and not images:
        raise invalid("the prompt is empty")
    return PromptBlocks(tuple(texts), tuple(resources), tuple(documents), tuple(images), tuple(notes))


def _document(uri: str, data: str) -> PdfDocument | None:
    """Return a PDF; None if `data` is not a PDF in base64."""
    if not data.lstrip().startswith(_PDF_START):
        return None
    try:
        return PdfDocument(uri, base64.b64decode("".join(data.split()), validate=True))
    except (binascii.Error, ValueError):
        return None


def _image(data: str) -> Image:
    try:
        return decode_image(data, "an image")
    except InputError as error:
        raise invalid(str(error)) from None


def prompt_input(blocks: PromptBlocks, folder: Path, why_not_read: Callable[[Path], str]) -> PromptInput:
    """Return the text and the attachments of a prompt, and read the linked files.

    `why_not_read` returns the reason why the model may not read a file without asking, empty if it may.
    """
    attached: list[Block] = []
    notices: list[str] = list(blocks.notes)
    paths: dict[str, Path] = {}  # of the attached and the linked files, by address
    for resource in blocks.resources:
        label = _label(resource.uri, folder)
        if len(resource.text.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
            notices.append(f"not attached: {label} is too large")
            continue
        attached.append(attached_text(label, resource.text))
        paths[resource.uri] = file_of(resource.uri) or Path(label)
    for document in blocks.documents:
        label = _label(document.uri, folder)
        try:
            text = read_pdf(document.data, label, page_range(""), HelperProcess()).content
        except Refused as refused:
            notices.append(f"not attached: {refused}")
            continue
        attached.append(attached_text(label, text))
        paths[document.uri] = file_of(document.uri) or Path(label)
    for link in blocks.texts:
        path = file_of(link.uri) if isinstance(link, Link) else None
        if not isinstance(link, Link) or path is None or link.uri in paths:
            continue
        paths[link.uri] = path
        try:
            attached.append(_linked_file(path, folder, why_not_read))
        except InputError as error:
            notices.append(f"not attached: {error}")
    text = "".join(_text_of(text, folder) for text in blocks.texts)
    text = without_mentions(text, folder, set(paths.values()))
    return PromptInput(text, (*attached, *blocks.images), tuple(notices))


def _linked_file(path: Path, folder: Path, why_not_read: Callable[[Path], str]) -> Block:
    """Return a linked file as an attachment; raise `InputError` if it cannot be attached."""
    label = _shown_path(path, folder)
    real = Path(os.path.realpath(path))
    why_not = why_not_read(real)
    if why_not:
        raise InputError(f"{label}: {why_not}")
    is_folder = os.path.isdir(real)  # noqa: PTH112  # never raises, unlike pathlib's for a long name
    return attached_file(real, f"{label}/" if is_folder else label)


def file_of(uri: str) -> Path | None:
    """Return the path of a `file:` address, None for any other address and for other hosts."""
    try:
        address = urlsplit(uri)
    except ValueError:
        return None
    if address.scheme != "file" or address.netloc not in ("", "localhost"):
        return None
    path = unquote(address.path)
    return Path(path) if path.startswith("/") and "\0" not in path else None


def _label(uri: str, folder: Path) -> str:
    """Return the path of a file, or any other address unchanged except for hidden characters."""
    path = file_of(uri)
    return visible_line(uri) if path is None else _shown_path(path, folder)


def _shown_path(path: Path, folder: Path) -> str:
    return visible(str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path))


def _text_of(text: str | Link, folder: Path) -> str:
    """Return a text unchanged, and a link as its path or name in brackets."""
    if isinstance(text, str):
        return text
    path = file_of(text.uri)
    if path is not None:
        return f"[{_shown_path(path, folder)}]"
    name, uri = one_line(text.name, 200), one_line(text.uri, 2_000)
    return f"[{name}]({uri})" if name else f"[{uri}]"
