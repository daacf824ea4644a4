"""Placeholders of prompts from Markdown files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.context.placeholders import PromptPart, counts_from_one, expand, has_commands


def text_of(
    text: str, arguments: str = "", names: tuple[str, ...] = (), variables: dict[str, str] | None = None
) -> str:
    return "".join(part.text for part in expand(text, arguments, names, variables))


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("Do $ARGUMENTS.", "a b", "Do a b."),
        ("Do $ARGUMENTS[0] and $ARGUMENTS[1].", "a b", "Do a and b."),
        ("Do $0 and $1.", "a b", "Do a and b."),
        ("Do $1 and $2.", "a b", "Do a and b."),  # no $0: earlier programs counted from 1
        ("Do $1.", "'a b' c", "Do a b."),
        ("Do $1.", "it's", "Do it's."),
        ("Do $3.", "a b", "Do $3."),
        ("Do $1.", "", "Do $1."),
        (r"Do \$1 and \$ARGUMENTS.", "a", "Do $1 and $ARGUMENTS.\n\nARGUMENTS: a"),
        ("Do it.", "a b", "Do it.\n\nARGUMENTS: a b"),
        ("Do it.", "  ", "Do it."),
        ("Do $ARGUMENTS.", "$0 $ARGUMENTS", "Do $0 $ARGUMENTS."),  # values are not expanded again
        ("It costs $5 or $100.", "", "It costs $5 or $100."),
        ("$ARGUMENTSX and $HOME", "a", "$ARGUMENTSX and $HOME\n\nARGUMENTS: a"),
        ("$1st", "a", "$1st\n\nARGUMENTS: a"),
    ],
)
def test_arguments_replace_their_placeholders(text: str, arguments: str, expected: str) -> None:
    assert text_of(text, arguments) == expected


def test_named_arguments_replace_their_placeholders() -> None:
    assert text_of("Move $from to $to, not $other.", "a b", ("from", "to")) == "Move a to b, not $other."
    assert text_of("Move $to.", "a", ("from", "to")) == "Move $to."


def test_only_known_variables_are_filled_in() -> None:
    variables = {"QCODE_SKILL_DIR": "/s"}
    text = "${QCODE_SKILL_DIR}/x ${HOME} \\${QCODE_SKILL_DIR}"
    assert text_of(text, variables=variables) == "/s/x ${HOME} ${QCODE_SKILL_DIR}"


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("!`git status`", ["git status"]),
        ("State: !`git status`\n", ["git status"]),
        ("a!`no`", []),
        ("`!`no``", []),
        ("```!\nls\npwd\n```\n", ["ls\npwd"]),
        ("```sh\n!ls\n```\n", []),
        ("!`grep $1 x`", ["grep a x"]),
    ],
)
def test_commands_are_found_with_their_arguments(text: str, commands: list[str]) -> None:
    parts = expand(text, "a", runs_commands=True)
    assert [part.text for part in parts if part.kind == "command"] == commands
    assert has_commands(text) is bool(commands)


def test_command_in_an_argument_is_text() -> None:
    parts = expand("Do $ARGUMENTS", "!`rm -rf x`", runs_commands=True)
    assert parts == (PromptPart("Do "), PromptPart("!`rm -rf x`", "typed"))


def test_commands_stay_text_unless_they_may_run() -> None:
    assert text_of("!`git status`") == "!`git status`"


def test_placeholders_count_from_one_if_none_is_zero() -> None:
    assert counts_from_one("$1 and $2")
    assert not counts_from_one("$0 and $1")
    assert not counts_from_one(r"\$1")


@given(st.text(alphabet="$0129{}[]!`\\ \nABGMNSTUR"), st.text())
def test_any_text_expands_and_typed_words_are_marked(text: str, arguments: str) -> None:
    for runs_commands in (False, True):
        for part in expand(text, arguments, runs_commands=runs_commands):
            assert part.text
            assert (
                part.kind != "typed"
                or part.text in arguments
                or "'" in arguments
                or "\\" in arguments
                or '"' in arguments
            )
