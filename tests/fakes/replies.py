"""Turns for a fake server, for tests that run qcode as a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.fakes.turns import Call, Turn


def call(name: str, call_id: str = "", **arguments: Any) -> Call:
    """Return a complete call."""
    return Call(name, json.dumps(arguments), call_id)


def text(*pieces: str, reasoning: str = "", input_tokens: int = 10, output_tokens: int = 5) -> Turn:
    """Return a finished text reply."""
    return Turn(text=pieces, reasoning=reasoning, usage=Usage(input=input_tokens, output=output_tokens))


def calls(*made: Call, text: str = "", reasoning: str = "", signature: str = "c2lnbmF0dXJl") -> Turn:
    """Return a reply that ends in calls."""
    return Turn(text=text, reasoning=reasoning, calls=made, signature=signature)


def truncated(*pieces: str, reasoning: str = "", calls: Sequence[Call] = (), output_tokens: int = 8000) -> Turn:
    """Return a reply that ran into its output cap."""
    usage = Usage(input=10, output=output_tokens)
    return Turn(text=pieces, reasoning=reasoning, calls=calls, stop=StopReason.MAX_TOKENS, usage=usage)


def declined(*pieces: str) -> Turn:
    """Return a reply that the model or a filter refused to finish."""
    return Turn(text=pieces, stop=StopReason.REFUSAL)


def window_full(*pieces: str) -> Turn:
    """Return a reply that ended because the context window is full."""
    return Turn(text=pieces, stop=StopReason.CONTEXT_WINDOW_EXCEEDED)


def paused(*pieces: str) -> Turn:
    return Turn(text=pieces, stop=StopReason.PAUSED)


def malformed(*pieces: str) -> Turn:
    """Return a reply that ended in a call that the host could not parse."""
    return Turn(text=pieces, stop=StopReason.MALFORMED_CALL)


def stopped_by(word: str, *pieces: str) -> Turn:
    """Return a reply with the raw stop reason `word`."""
    return Turn(text=pieces, stop=word)


def half_call(name: str, arguments: str, call_id: str = "call_cut") -> Call:
    """Return a call whose arguments are truncated."""
    return Call(name, arguments, call_id)
