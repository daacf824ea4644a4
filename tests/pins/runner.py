"""A home and a workspace for a pin, and the rules that make a run comparable."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.e2e.running import KEY, CliRunner, Finished
from tests.fakes.server import FakeServer
from tests.fakes.turns import ReceivedRequest

PROTOCOLS = ("anthropic", "openai", "openai-responses", "gemini", "bedrock")
MODELS: Mapping[str, str] = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "test-model",
    "openai-responses": "gpt-5",
    "gemini": "gemini-2.5-pro",
    "bedrock": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
KEYS: Mapping[str, Mapping[str, str]] = {
    "anthropic": {"ANTHROPIC_API_KEY": KEY},
    "openai": {"OPENAI_API_KEY": KEY},
    "openai-responses": {"OPENAI_API_KEY": KEY},
    "gemini": {"GEMINI_API_KEY": KEY},
    "bedrock": {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIEXAMPLEKEY",
        "AWS_REGION": "eu-test-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    },
}
CONFIG = '[tools]\nsandbox = "off"\n'
"""Whether a sandbox works is up to the machine, and tool results mention it."""

_SESSION_ID = re.compile(r"\b(?!2025)\d{8}-\d{6}-[0-9a-f]{4}\b")
_CHOICES = re.compile(r"\(choose from [^)]*\)")
"""Python quotes choices up to 3.13 only."""

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<PORT>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<UUID>"),
        (r"\bmsg_[0-9a-f]{32}\b", "msg_<ID>"),
        # Stored sessions are from 2025; every other time is from this run.
        (r"\b(?!2025)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?", "<TIME>"),
        # An estimate counts the characters of paths.
        (r"\(about [\d,]+ tokens\)", "(about <COUNT> tokens)"),
        (r"^- Date: \d{4}-\d\d-\d\d", "- Date: <DATE>"),
        (r"^- System: .*", "- System: <SYSTEM>"),
        (r"\bqcode([ /])\d+\.\d+\.\d+\S*", r"qcode\1<VERSION>"),
        (r'("version": ?)"[^"]*"', r'\1"<VERSION>"'),
        (r'("qcode": ?)"\d[^"]*"', r'\1"<VERSION>"'),
        (r"(state/sessions/)[^/\s]+", r"\1<PROJECT>"),
        # The size of a session counts the characters of paths.
        (r"( messages?) +[\d.]+ [kM]?B +", r"\1  <SIZE>  "),
        # The mode of a new file is up to the umask.
        (r'("mode": ?)\d+', r"\g<1>0"),
        (r'("(?:duration|duration_api|delay)_ms": ?)\d+', r"\g<1>0"),
        # Under load a turn moves to the next class of durations.
        (r'("recovered_turn_seconds": ?\{)[^}]*', r"\1<COUNTS>"),
        # Whether the host's list of models arrives in time is up to the load of the machine.
        (r"; the nearest: \S+/fake-1, \S+/fake-2\b", ""),
        (r'("emitted_at": ?)[^,}]+', r"\g<1>0"),
        (r'("seconds":)[\d.]+', r"\g<1>0"),
        (r"\bBotocore/.*", "Botocore/<VERSION>"),
        (r"\b\d{8}T\d{6}Z\b", "<TIME>"),
        (r"reached until \d\d:\d\d\b", "reached until <CLOCK>"),
        (r"/\d{8}/(eu-test-1)", r"/<DATE>/\1"),
        (r"Signature=[0-9a-f]{64}", "Signature=<SIGNATURE>"),
    )
)


class PinRunner(CliRunner):
    """A runner with comparable output: ids, times, paths, ports and versions are replaced by names."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self._base = base
        self._sessions: dict[str, str] = {}
        self.config = self.home / "qcode"
        self.config.mkdir()
        self.configure()

    def configure(self, text: str = "") -> None:
        """Write the user's config file."""
        whole = text.replace("[tools]\n", CONFIG) if "[tools]\n" in text else text + CONFIG
        (self.config / "config.toml").write_text(whole)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {"QCODE_HOME": str(self.config), "GIT_CEILING_DIRECTORIES": str(self._base)}
        return super().environment({**own, **(extra or {})})

    def ask_host(
        self, server: FakeServer, protocol: str, *arguments: str, model: str = "", stdin: bytes | None = None
    ) -> Finished:
        """Run qcode against `server`, with the key of its protocol."""
        name = f"{protocol}/{model or MODELS[protocol]}"
        return self.run("-m", name, "--base-url", server.base_url, *arguments, env=KEYS[protocol], stdin=stdin)

    def normalized(self, text: str) -> str:
        for path, name in self._paths:
            text = text.replace(path, name)
        for pattern, replacement in _RULES:
            text = pattern.sub(replacement, text)
        text = _CHOICES.sub(lambda match: match[0].replace("'", ""), text)
        return _SESSION_ID.sub(self._session_name, text)

    def normalized_value(self, value: Any) -> Any:
        """Return a JSON value with every text in it normalized."""
        if isinstance(value, str):
            return self.normalized(value)
        if isinstance(value, list):
            return [self.normalized_value(item) for item in value]
        if isinstance(value, dict):
            return {self.normalized(key): self.normalized_value(each) for key, each in value.items()}
        return value

    def recorded(self, requests: Iterable[ReceivedRequest]) -> list[dict[str, Any]]:
        """Return requests as they are compared: address, headers in their order, and the body."""
        return [self._recorded(asked) for asked in requests]

    def _recorded(self, asked: ReceivedRequest) -> dict[str, Any]:
        headers = {name: value for name, value in asked.headers.items() if name not in ("host", "content-length")}
        if "accept-encoding" in headers:  # from Python 3.14 on the SDKs take zstd
            headers["accept-encoding"] = headers["accept-encoding"].removesuffix(", zstd")
        sent: dict[str, Any] = {"path": asked.path}
        if asked.query:
            sent["query"] = dict(asked.query)
        sent = self.normalized_value({**sent, "headers": headers, "encoding": "", "body": dict(asked.body)})
        spacing, characters = _encoding_of(asked)
        # A path of this machine is not part of the pin, and plain ASCII does not tell the two apart.
        is_told = not json.dumps(sent, ensure_ascii=False).isascii()
        sent["encoding"] = f"{spacing} {characters}" if is_told else spacing
        return sent

    def _session_name(self, match: re.Match[str]) -> str:
        return self._sessions.setdefault(match[0], f"<SESSION {len(self._sessions) + 1}>")

    @cached_property
    def _paths(self) -> list[tuple[str, str]]:
        """Return paths of this machine with their names, the longest first."""
        named = [
            (self.work, "<WORK>"),
            (self.home, "<HOME>"),
            (self._base, "<BASE>"),
            (Path(__file__).parents[2], "<REPOSITORY>"),
            (Path(sys.executable), "<PYTHON>"),
        ]
        found = {str(form): name for path, name in named for form in (path, path.resolve())}
        return sorted(found.items(), key=lambda pair: -len(pair[0]))


def _encoding_of(asked: ReceivedRequest) -> tuple[str, str]:
    """Return how the body was written as bytes, told by its length."""
    length = int(asked.headers["content-length"])
    for characters in ("UTF-8", "ASCII"):
        for spacing, separators in (("compact", (",", ":")), ("spaced", (", ", ": "))):
            text = json.dumps(asked.body, ensure_ascii=characters == "ASCII", separators=separators)
            if len(text.encode("utf-8", "surrogatepass")) == length:
                return spacing, characters
    return "other", f"{length} bytes"
