"""The first letter of a message after `qcode: `."""

from __future__ import annotations

import pytest

from qcode.text.sentences import capitalized, uncapitalized


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The reply is empty.", "the reply is empty."),
        ("Sub-agent done. It wrote 2 files.", "sub-agent done. It wrote 2 files."),
        ("Stopped.", "stopped."),
        ("A turn runs.", "a turn runs."),
        ("the reply", "the reply"),
        ("", ""),
    ],
)
def test_first_letter_of_a_sentence_becomes_small(text: str, expected: str) -> None:
    assert uncapitalized(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "MCP is off",
        "AGENTS.md is too large",
        "OpenAI refused the key",
        "Ctrl+C was pressed",
        "Amazon's SDK found no key",
        "Ollama does not run",
        "Stop hook make test: deny (0 s)",
        "Notes/Plan is a folder",
        "Makefile: permission denied",
        '"The key" is unknown',
        "`Trust` is unknown",
        "Übung is a folder",
    ],
)
def test_first_letter_of_a_name_or_a_quote_stays(text: str) -> None:
    assert uncapitalized(text) == text


def test_name_of_a_provider_keeps_the_capitals_inside() -> None:
    assert capitalized("openai needs a key") == "OpenAI needs a key"
    assert capitalized("anthropic needs a key") == "Anthropic needs a key"
