"""Reading what servers send beside an error status: JSON in seven shapes, HTML, text or nothing.

Pure. Shapes: OpenAI and Anthropic (`error.message/type/code/param/details`), Google (`error.status/details`),
Ollama (`error` is text), vLLM and Mistral (flat), FastAPI (`detail`), OpenRouter (`error.metadata.raw`),
Amazon (flat, `__type` or a header).
"""

from __future__ import annotations

import json
import re

from qcode.protocol.json import Json, JsonObject
from qcode.protocol.values import dataclass
from qcode.providers.shapes import object_in, objects_in, text_in

MAX_MESSAGE = 600

_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_HEADING = re.compile(r"<h1[^>]*>(.*?)</h1>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What an error says of itself; empty where it does not. `message` is one line, never empty."""

    message: str
    type: str = ""
    code: str = ""
    param: str = ""
    status: int | None = None
    request_id: str = ""
    retry_after: float | None = None
    quota_ids: tuple[str, ...] = ()

    @property
    def everything(self) -> str:
        return f"{self.type} {self.code} {self.message}"


def read_body(status: int, content: bytes) -> ErrorBody:
    """Read the body of an answer with an error status."""
    text = content[:65_536].decode("utf-8", "replace").strip()
    try:
        sent: Json = json.loads(text)
    except (ValueError, RecursionError):
        return ErrorBody(_status_line(status) if not text else _text_line(status, text))
    if isinstance(sent, list):
        sent = next(iter(objects_in(sent)), None)
    if isinstance(sent, dict):
        return read_object(sent, status)
    return ErrorBody((one_line(sent) if isinstance(sent, str) else "") or _status_line(status))


def read_object(sent: JsonObject, status: int | None = None) -> ErrorBody:
    """Read an error object, as an answer's body or an event of a stream holds it."""
    inner = sent.get("error")
    error = inner if isinstance(inner, dict) else sent
    details = objects_in(error.get("details"))
    message = (
        text_in(inner)
        or text_in(error.get("message"))
        or _detail(sent)
        or text_in(error.get("msg"))
        or text_in(error.get("Message"))
    )
    raw = text_in(object_in(error.get("metadata")).get("raw"))
    if raw:
        message = f"{message}: {raw}"
    code = error.get("code")
    named = next((text_in(detail.get("error_code")) for detail in details if detail.get("error_code")), "")
    return ErrorBody(
        one_line(message) or _status_line(status or _number(code)),
        type=text_in(error.get("type")) or text_in(error.get("status")) or _shape_name(error.get("__type")),
        code=named or next((text_in(d.get("reason")) for d in details if d.get("reason")), "") or _word(code),
        param=text_in(error.get("param")),
        status=status if status is not None else _number(code),
        request_id=text_in(sent.get("request_id")),
        retry_after=_retry_delay(details),
        quota_ids=_quota_ids(details),
    )


def one_line(text: str) -> str:
    """Return `text` on one line, without control characters, of at most `MAX_MESSAGE` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: MAX_MESSAGE * 8]).split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"


def page_title(text: str) -> str:
    """Return the title (or first heading) of an HTML page, empty where it has none."""
    # A table of thousands of names that no healthy run needs.
    from html import unescape

    for pattern in (_TITLE, _HEADING):
        found = pattern.search(text)
        if found and (title := one_line(unescape(_TAG.sub(" ", found.group(1))))):
            return title
    return ""


def is_page(text: str) -> bool:
    head = text[:512].lstrip("\ufeff \t\r\n").lower()
    return head.startswith(("<!doctype", "<html", "<head", "<body", "<?xml", "<h1", "<title"))


def _text_line(status: int, text: str) -> str:
    if not is_page(text):
        return one_line(text)
    title = page_title(text)
    return f"a web page instead of an answer: {title}" if title else f"a web page instead of an answer, {status}"


def _status_line(status: int | None) -> str:
    if status is None:
        return "no reason given"
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"


def _detail(sent: JsonObject) -> str:
    """FastAPI: `detail` is text, or a list of `{loc, msg}`."""
    detail = sent.get("detail")
    if isinstance(detail, str):
        return detail
    lines: list[str] = []
    for item in objects_in(detail):
        place = item.get("loc")
        where = ".".join(str(step) for step in place if step != "body") if isinstance(place, list) else ""
        lines.append(f"{where}: {text_in(item.get('msg'))}" if where else text_in(item.get("msg")))
    return "; ".join(line for line in lines if line)


def _retry_delay(details: list[JsonObject]) -> float | None:
    """google.rpc.RetryInfo: `retryDelay` is seconds with an `s` behind."""
    for detail in details:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)s", text_in(detail.get("retryDelay")))
        if found:
            return float(found.group(1))
    return None


def _quota_ids(details: list[JsonObject]) -> tuple[str, ...]:
    """google.rpc.QuotaFailure: which limits were exceeded."""
    return tuple(
        text_in(violation.get("quotaId"))
        for detail in details
        for violation in objects_in(detail.get("violations"))
        if violation.get("quotaId")
    )


def _number(code: Json) -> int | None:
    return code if isinstance(code, int) and not isinstance(code, bool) and 100 <= code < 600 else None


def _shape_name(value: Json) -> str:
    """Amazon: `com.amazon.coral.service#ThrottlingException`, or the last part alone."""
    return text_in(value).rpartition("#")[2]


def _word(code: Json) -> str:
    return code if isinstance(code, str) else ""
