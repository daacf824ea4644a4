"""The questions of the linear mode: what is typed at them, and their text at narrow widths."""

from __future__ import annotations

import asyncio

import pytest
from rich.cells import cell_len

from qcode.protocol.approvals import Allow, Answer, Choice, Decision, Deny, PlanApproval, Question, ToolApproval
from qcode.protocol.events import ApprovalRequested, ToolFinished, ToolStarted
from qcode.protocol.tools import ToolOutcome
from qcode.tui.linear.wrap import COMMAND_INDENT, wrap, wrap_command, wrap_table
from tests.tui.harness import make_agent
from tests.tui.scripted import Script, ScriptedConversation, UntilAnswered, call, ended, says
from tests.tui.test_linear import Typed, linear, talk

ASKS = call("ask_person", '{"question": "Where?"}')
COMMAND = 'find . -name "*.py" -not -path "./node_modules/*" -print0 | xargs -0 grep -n "total(items)"'
WIDTHS = (40, 80)


def question(*choices: str, detail: str = "") -> Question:
    return Question(ASKS, "Where?", detail, tuple(map(Choice, choices)))


def answers(approval: Question | ToolApproval | PlanApproval, *typed: str) -> tuple[list[Decision], list[str]]:
    """Return the decisions after the lines were typed, and the output."""
    conversation = ScriptedConversation([ApprovalRequested(approval), UntilAnswered("c1"), ended()])
    output = talk(conversation, "go", *typed)
    return [decision for _, decision in conversation.answers], output


def test_question_without_choices_takes_the_typed_line() -> None:
    decisions, output = answers(question(), "in the attic")
    assert decisions == [Answer("in the attic")]
    assert "Your answer: " in output
    assert not any("Write an answer" in line for line in output)


@pytest.mark.parametrize(("diff", "shown"), [("-old\n+new\n", 1), ("-old\n+newer\n", 2)])
def test_result_of_an_edit_does_not_repeat_the_diff_of_its_question(diff: str, shown: int) -> None:
    edit = call("edit", '{"path": "a.py"}')
    approval = ToolApproval(edit, "Edit a.py?", "-old\n+new\n", kind="edit")
    outcome = ToolOutcome("Edited.", summary="+1 -1 lines", diff=diff)
    finished = ToolFinished(edit, outcome, "done")
    script: Script = [ApprovalRequested(approval), UntilAnswered("c1"), ToolStarted(edit), finished, ended()]
    lines = talk(ScriptedConversation(script), "go", "1")
    assert "Edit finished: +1 -1 lines" in lines
    assert [line.strip() for line in lines].count("-old") == shown
    assert diff.split("\n")[1] in [line.strip() for line in lines]


def test_empty_answer_to_a_free_question_is_asked_again() -> None:
    decisions, output = answers(question(), "", "t")
    assert decisions == [Answer("t")]
    assert "Type an answer and press Enter. Ctrl+D leaves the question unanswered." in output


@pytest.mark.parametrize(
    ("typed", "answer"), [("2", "2"), ("Decline", "Decline"), ("leave it out", "Leave it out"), ("none", "none")]
)
def test_number_typed_at_a_field_of_a_server_is_its_value(typed: str, answer: str) -> None:
    actions = (Choice("Leave it out", is_action=True), Choice("Decline", is_action=True))
    decisions, output = answers(Question(ASKS, "How many?", "Count", actions), typed)
    assert decisions == [Answer(answer)]
    assert 'Type an answer, or "Leave it out" or "Decline".' in output


def test_text_does_not_answer_a_confirmation_and_it_is_asked_again() -> None:
    choices = (Choice("Send"), Choice("Decline"))
    confirmation = Question(ASKS, "Send this?", "", choices, accepts_text=False)
    decisions, output = answers(confirmation, "looks good to me", "1")
    assert decisions == [Answer("Send")]
    assert "Answer (1 to 2): " in output
    assert '"looks good to me" is not one of the choices. Type 1 to 2.' in output


def test_free_answer_may_have_several_lines() -> None:
    assert answers(question(), "one\\", "two")[0] == [Answer("one\ntwo")]


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("2", "the cellar"),
        ("THE CELLAR", "the cellar"),
        ("the c", "the cellar"),
        ("the roof", "the roof"),
        ("on 2 floors", "on 2 floors"),
    ],
)
def test_choice_is_taken_by_number_text_beginning_or_own_words(typed: str, answer: str) -> None:
    assert answers(question("the attic", "the cellar"), typed)[0] == [Answer(answer)]


def test_ambiguous_answer_and_unknown_number_are_rejected_and_asked_again() -> None:
    decisions, output = answers(question("the attic", "the cellar"), "the", "7", "1")
    assert decisions == [Answer("the attic")]
    assert '"the" begins 2 choices. Type 1 to 3, or a letter: t.' in output
    assert '"7" is not one of the choices. Type 1 to 3, or a letter: t.' in output


def test_choice_by_its_beginning_is_confirmed_in_words() -> None:
    assert "Chosen: the cellar." in answers(question("the attic", "the cellar"), "the c")[1]


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        (["yes"], Allow()),
        (["no"], Deny()),
        (["yes, and"], Allow("session")),
        (["no, and say", "use rg"], Deny("use rg")),
        (["please use rg", "t", ""], Deny("please use rg")),
        (["please use rg", "t", "or fd"], Deny("or fd")),
        (["n0", "y"], Allow()),
    ],
)
def test_approval_is_answered_by_words_and_keeps_a_rejected_text(typed: list[str], decision: Decision) -> None:
    assert answers(ToolApproval(call(), "Run ls?", "ls", "shell(ls)"), *typed)[0] == [decision]


def test_rejected_text_can_be_sent_as_the_reason() -> None:
    output = answers(ToolApproval(call(), "Run ls?", "ls"), "please use rg", "t", "")[1]
    assert '"please use rg" is not one of the choices. Type 1 to 3, or a letter: y, n, t. t sends your text.' in output
    assert 'Enter alone sends "please use rg".' in output


def test_rejected_text_at_a_confirmation_is_not_offered_as_a_reason() -> None:
    approval = ToolApproval(
        ASKS, "Run this?", "pytest", kind="command", offers=("prefix",), prefix_rule="shell(pytest *)"
    )
    decisions, output = answers(approval, "2", "run it once", "n", "n")
    assert '"run it once" is not one of the choices. Type 1 to 2, or a letter: y, n.' in output
    assert decisions == [Deny()]


def test_list_of_all_reasons_replaces_the_line_that_counts_them() -> None:
    location = "the command runs outside the sandbox"
    why = f"Asks because a · b; and 1 more · {location}"
    approval = ToolApproval(
        call(), "Run it?", "ls", kind="command", reason=why, reasons=("a · b", "c"), location=location
    )
    output = answers(approval, "y")[1]
    at = output.index("All reasons, the worst first:")
    assert output[at + 1 : at + 4] == ["- a · b", "- c", "The command runs outside the sandbox."]
    assert not any("Asks because" in line for line in output)


def test_reason_with_a_separator_is_not_printed_as_the_location_of_a_command() -> None:
    approval = ToolApproval(
        call(), "Run it?", "ls", kind="command", reason="Asks because a · b", reasons=("a · b", "c")
    )
    output = answers(approval, "y")[1]
    at = output.index("All reasons, the worst first:")
    assert output[at + 1 : at + 3] == ["- a · b", "- c"]
    assert "B." not in output


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_question_or_the_welcome_is_wider_than_the_terminal(width: int) -> None:
    words = "several words that do not fit into one row of a narrow terminal, "
    approvals = (
        ToolApproval(
            call(), f"Run this command, {words * 2}?", COMMAND, "shell(find *)", kind="command", reason=f"Asks: {words}"
        ),
        Question(ASKS, f"Where is it, {words}?", words * 3, (Choice("here", words), Choice(words * 2))),
        PlanApproval(call("exit_plan_mode"), f"Carry out {words}?", f"# Plan\n\n1. {words * 2}\n- {words * 2}"),
    )
    for approval in approvals:
        conversation = ScriptedConversation([ApprovalRequested(approval), UntilAnswered("c1"), ended()])
        typed = Typed(["go", "1"])
        typed.width = width
        asyncio.run(linear(make_agent(conversation), typed).run())
        lines = [line for text in typed.said for line in text.split("\n")]
        assert [line for line in lines if cell_len(line) > width] == []
        assert len(conversation.answers) == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_command_is_wrapped_after_blanks_and_keeps_every_character(width: int) -> None:
    shown = wrap_command(COMMAND, width)
    first, *rest = shown.split("\n")
    assert not first.startswith(" ")
    assert rest
    assert all(row.startswith(COMMAND_INDENT) for row in rest)
    assert all(row.endswith(" ") for row in [first, *rest][:-1])
    assert shown.replace(f"\n{COMMAND_INDENT}", "") == COMMAND


def test_lines_of_a_command_stay_apart_and_a_long_word_stays_whole() -> None:
    word = "https://example.org/" + "a" * 40
    assert wrap_command(f"cd x\ncurl {word} -o y", 30) == f"cd x\ncurl \n    {word} \n    -o y"
    assert wrap_command("a" * 50, 0) == "a" * 50


def test_wrapped_items_and_columns_are_indented_below_their_text() -> None:
    assert wrap("- some words here", 12) == "- some words\n  here"
    assert (
        wrap_table("Model   demo with words\nplain words here", 16) == "Model\n  demo with\n  words\nplain words here"
    )
    assert wrap_table("Model   demo with some more words", 30) == "Model   demo with some more\n        words"


def test_wrapped_list_item_keeps_its_bullet_if_its_indent_is_too_wide() -> None:
    assert wrap("          - one two three", 16) == "  - one two\n  three"
    assert wrap("        12. one two three", 16) == "  12. one two\n  three"


def test_width_is_read_again_for_each_text() -> None:
    class Narrowing(Typed):
        async def ask(self, label: str) -> str | None:
            self.width = 12 if self.width == 40 else 40
            return await super().ask(label)

    typed = Narrowing(["one", "two"])
    text = "some words of a reply\n"
    asyncio.run(linear(make_agent(ScriptedConversation([*says(text), ended()], [*says(text), ended()])), typed).run())
    assert [said for said in typed.said if said.startswith("some")] == [
        "some words of a reply",
        "some words\nof a reply",
    ]


def test_started_command_is_wrapped_as_a_command() -> None:
    shell = call("shell", '{"command": "echo aaaa bbbb cccc dddd"}')
    lines = talk(ScriptedConversation([ToolStarted(shell), ended()]), "x", width=24)
    at = lines.index("Run: echo aaaa bbbb ")
    assert lines[at + 1] == "    cccc dddd"


def test_help_names_every_command_in_a_readable_length() -> None:
    lines = talk(ScriptedConversation(), "/help", width=80)
    assert len(lines) <= 26
    text = " ".join(lines)
    assert "/model [name]: Choose" in text
    assert "/hooks" in text
    assert "F1" not in text
    everything = talk(ScriptedConversation(), "/help all", width=80)
    assert any(line.startswith("/hooks: ") for line in everything)
