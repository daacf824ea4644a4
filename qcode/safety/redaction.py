"""The redaction of secrets in texts and messages for a session file, a log or a crash report.

A `Redactor` replaces the values that it was created with, also as written in JSON and URLs. It also replaces text in
the format of a well-known key, values after a name such as `x-api-key:`, and passwords in URLs. It does not recognize
other secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from urllib.parse import quote

from qcode.protocol.messages import Block, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.safety.secret import REDACTED, Secret
from qcode.text.json import Json, parse_object
from qcode.text.pattern import lazy_pattern

_MIN_SECRET_CHARS = 6
"""The minimum length of a value to redact: a shorter one would match ordinary words."""

# The issuers document these prefixes for scanners: OpenAI, Anthropic, Google, Groq, xAI, GitHub, GitLab, Slack, AWS,
# Hugging Face, npm, PyPI, Stripe and SendGrid. Every pattern here is linear: the text is untrusted, and a pattern that
# backtracks would freeze the app. The group `jwt` matches only the `eyJ` of a JSON Web Token; `_redact_formats` matches
# the rest with `_JWT`. In one pattern, each `eyJ` of `-eyJ-eyJ-…` would scan to the end, which is quadratic.
_FORMATS = lazy_pattern(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|\bsk-(?:ant-|proj-|or-|svcacct-)?[A-Za-z0-9_-]{20,}"
    r"|\bAIza[A-Za-z0-9_-]{30,}|\bgsk_[A-Za-z0-9]{20,}|\bxai-[A-Za-z0-9]{20,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}|\bglpat-[A-Za-z0-9_-]{18,}"
    r"|\bxox[abposr]-[A-Za-z0-9-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bhf_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{50,}"
    r"|\b[rs]k_live_[A-Za-z0-9]{20,}|\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|(?P<jwt>\beyJ)",
    re.ASCII,  # a key directly after a Chinese character also starts at a word boundary
)
_FORMAT_PARTS = (
    ("_", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "gsk_", "hf_", "npm_", "k_live_")),
    ("-", ("sk-", "glpat-", "xai-", "xox", "pypi-", "-----BEGIN")),
    ("A", ("AIza", "AKIA", "ASIA")),
    ("J", ("eyJ",)),
    ("S", ("SG.",)),
)
"""Each match of `_FORMATS` contains one of these parts. Searching for the character first is ten times faster."""
_NAME_PARTS = ("authorization", "x-api-key", "x-goog-api-key", "bearer")
"""Each match of `_NAMED` contains one of these parts, ignoring case."""
_JWT = lazy_pattern(r"eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+")
_JWT_CHARS = lazy_pattern(r"[A-Za-z0-9_-]*+")
_NAMED = lazy_pattern(
    r"(?P<name>\b(?:authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+|x-api-key[\"']?\s*[:=]\s*[\"']?"
    r"|x-goog-api-key[\"']?\s*[:=]\s*[\"']?|bearer\s+(?=[A-Za-z0-9._~+/=-]{20})))[A-Za-z0-9._~+/=-]{8,}",
    re.IGNORECASE,
)
# A password in a URL: `scheme://user:password@`. A match starts only at the start of a run of scheme characters:
# `a.b-c.d` has a word boundary at every second character, and a start at each would make the search quadratic. So the
# run of `1.http://` includes `1.`; the lookahead checks that a scheme, which begins with a letter, starts in the run.
_IN_URL = lazy_pattern(
    r"(?P<name>(?<![a-z0-9+.-])(?=[a-z0-9+.-]*?\b[a-z])[a-z0-9+.-]++://[^\s:/@]*+:)[^\s/@]{3,}+(?=@)",
    re.IGNORECASE,
)


_PARTIAL_SECRET = lazy_pattern(
    r"(?:(?a:\b)(?:sk-|AIza|gsk_|xai-|gh[pousr]_|github_pat_|glpat-|xox[abposr]-|AKIA|ASIA|hf_|npm_|pypi-|[rs]k_live_"
    r"|SG\.|eyJ)"
    r"[A-Za-z0-9_.-]*+|(?i:\b(?:bearer|basic|token)\s+"
    r"|\bauthorization[\"']?\s*(?:[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)?"
    r"|x-(?:goog-)?api-key[\"']?\s*(?:[:=]\s*[\"']?)?)[A-Za-z0-9._~+/=-]*+"
    r"|://[^\s:/@]*+:[^\s/@]*+)\Z"
)
"""Matches the start of a secret with a known format, or only its name, at the end of a text that is still arriving.

It does not match the start of a private key, which the caller keeps whole; see `sessions.partial`.
"""
_MAX_PARTIAL_CHARS = 2_000
_MAX_NAME_CHARS = 40
"""The maximum length of a name before a secret, such as `x-goog-api-key: `."""
_MIN_PARTIAL_CHARS = 4
"""The minimum number of characters of a secret value at the end of a text that count as its start.

Fewer characters reveal nothing, and many ordinary words end with the first letters of a secret.
"""


_SECRET_NAMES = lazy_pattern(r"KEY|TOKEN|SECRET|PASS", re.IGNORECASE)


def named_secrets(env: Mapping[str, str]) -> list[str]:
    """Return the values of the environment variables whose name suggests a secret."""
    return [value for name, value in env.items() if _SECRET_NAMES.search(name)]


class Redactor:
    """A filter that replaces secrets with `[redacted]`. Values under six characters are ignored. Immutable."""

    def __init__(self, secrets: Iterable[str | Secret] = ()) -> None:
        values: set[str] = set()
        for secret in secrets:
            value = secret.reveal() if isinstance(secret, Secret) else secret
            if len(value) >= _MIN_SECRET_CHARS:
                values |= {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
                values |= {quote(value, safe="", errors="replace"), quote(value, errors="replace")}
        longest_first = sorted(values, key=len, reverse=True)
        self._values = tuple(longest_first)
        self._exact = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def redact(self, text: str) -> str:
        """Return `text` with every secret replaced. A second call changes nothing."""
        # Each pattern is searched only if a fixed part of it occurs: that check is a hundred times cheaper, and
        # streamed text is redacted several times a second.
        if self._exact is not None and any(value in text for value in self._values):
            text = self._exact.sub(REDACTED, text)
        if any(char in text and any(part in text for part in parts) for char, parts in _FORMAT_PARTS):
            text = _redact_formats(text)
        folded = text.casefold()
        if any(part in folded for part in _NAME_PARTS):
            text = _NAMED.sub(rf"\g<name>{REDACTED}", text)
        if "@" in text and "://" in text:
            text = _IN_URL.sub(rf"\g<name>{REDACTED}", text)
        return text

    def partial_secret_length(self, text: str) -> int:
        """Return how many characters at the end of `text` may be the name or the start of a secret.

        The start of a private key does not count.

        A caller that writes text while it arrives must hold these characters back, and keep a private key whole; see
        `sessions.partial`.
        """
        tail = text[-_MAX_PARTIAL_CHARS:]
        # A key of a known format has no blank, and its name is directly before it. So the search starts shortly before
        # the last blank.
        last_blank = max(tail.rfind(" "), tail.rfind("\n"))
        unfinished = _PARTIAL_SECRET.search(tail, max(0, last_blank - _MAX_NAME_CHARS))
        secret_start = len(tail) if unfinished is None else unfinished.start()
        for value in self._values:
            start = tail.find(value[:_MIN_PARTIAL_CHARS])
            while 0 <= start < secret_start:
                if value.startswith(tail[start:]):
                    secret_start = start
                start = tail.find(value[:_MIN_PARTIAL_CHARS], start + 1)
        return len(tail) - secret_start


_MAX_KEY_CHARS = 2_000
_REDACTED_ALONE = lazy_pattern(r"(?:export )?(?:\w{1,60}+=)?[\"']?\[redacted\][\"']?")


def is_secret(text: str) -> bool:
    """Return whether `text` is only a key of a known format, or a variable with one: `OPENAI_API_KEY=sk-…`.

    A key has a digit: `sk-learn-or-another-library` is text.
    """
    word = text.strip()
    if len(word) > _MAX_KEY_CHARS or REDACTED in word or not any(map(str.isdigit, word)):
        return False
    return _REDACTED_ALONE.fullmatch(Redactor().redact(word)) is not None


def _redact_formats(text: str) -> str:
    """Return `text` without keys that are recognized by their format."""
    redacted: list[str] = []
    # `copied` and `searched` are the ends of the copied and of the searched text. No JSON Web Token starts before
    # `excluded`.
    copied = searched = excluded = 0
    while (match := _FORMATS.search(text, searched)) is not None:
        end = match.end()
        if match["jwt"] is not None:
            searched = match.start() + 1
            if match.start() < excluded:
                continue
            jwt = _JWT.match(text, match.start())
            if jwt is None:
                # A later `eyJ` in this run of characters fails too: the run is shorter from there, and the text after
                # the run is the same.
                excluded = _end_of_run(text, match.start())
                continue
            end = jwt.end()
        redacted += [text[copied : match.start()], REDACTED]
        copied = searched = end
    return "".join([*redacted, text[copied:]])


def _end_of_run(text: str, start: int) -> int:
    """Return the end of the characters from `start` that a part of a JSON Web Token can contain."""
    run = _JWT_CHARS.match(text, start)
    return run.end() if run is not None else start


def redact_message(message: Message, redact: Callable[[str], str]) -> Message:
    return replace(message, blocks=tuple(redact_block(block, redact) for block in message.blocks))


def redact_block(block: Block, redact: Callable[[str], str]) -> Block:
    match block:
        case Text() | Reasoning():
            return replace(block, text=redact(block.text))
        case ToolCall():
            return redact_call(block, redact)
        case ToolResult():
            return replace(block, content=redact(block.content))
        case _:
            return block


def redact_call(call: ToolCall, redact: Callable[[str], str]) -> ToolCall:
    return replace(call, arguments=redact_arguments(call.arguments, redact))


def redact_arguments(arguments: str, redact: Callable[[str], str]) -> str:
    """Redact arguments so that they stay valid JSON: as text if possible, otherwise value by value."""
    text = redact(arguments)
    parsed = parse_object(arguments)
    if text != arguments and parsed is not None and parse_object(text) is None:
        return json.dumps(_redacted_json(parsed, redact), ensure_ascii=False)
    return text


def _redacted_json(value: Json, redact: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redacted_json(item, redact) for item in value]
    if isinstance(value, dict):
        return {redact(name): _redacted_json(item, redact) for name, item in value.items()}
    return value
