"""Questions with several answers: check marks, keys, the mouse, the text field, small screens, and the linear mode."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual import events

from qcode.protocol.approvals import Answer, Choice, Decision, Deny, Question
from qcode.tui.panels import draft as typing
from qcode.tui.panels.draft import GUARD_SECONDS
from tests.tui.harness import Running, drive
from tests.tui.scripted import ScriptedConversation, call
from tests.tui.test_linear_questions import answers
from tests.tui.test_question_panel import _click, _field, _press_slowly, _script, _stop, _until_asked

CALL = call("ask_person", '{"question": "Which checks?", "multi_select": true}')
CHECKS = Question(
    CALL,
    "Which checks?",
    choices=(Choice("Lint", "some seconds"), Choice("Types"), Choice("Unit, fast"), Choice("Docs")),
    is_multi_select=True,
)
ONLY_LINT = Answer("Lint")


def _choice_rows(run: Running) -> list[str]:
    """Return the rows of the screen with a check mark, without the border and the padding."""
    return [row.strip("│▌ ") for row in run.screen.split("\n") if "[x]" in row or "[ ]" in row]


def _answered(conversation: ScriptedConversation) -> list[Decision]:
    return [decision for _, decision in conversation.answers]


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("space", "enter"), "Lint"),
        (("space", "down", "down", "space", "enter"), 'Lint, "Unit, fast"'),
        (("4", "1", "enter"), "Lint, Docs"),
        (("1", "2", "1", "enter"), "Types"),
        (("up", "up", "up", "space", "up", "space", "enter"), '"Unit, fast", Docs'),
        (("2", "6"), "Types"),
        (("down", "space", "up", "up", "enter"), "Types"),
    ],
)
def test_space_and_numbers_toggle_and_enter_sends(keys: tuple[str, ...], answer: str) -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*keys)
        await run.until_idle()
        assert _answered(conversation) == [Answer(answer)]

    drive(test, conversation)


def test_marks_hint_and_send_row_are_shown() -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("2")
        assert _choice_rows(run) == [
            "1 [ ] Lint  some seconds",
            "› 2 [x] Types",
            "3 [ ] Unit, fast",
            "4 [ ] Docs",
            "5 [ ] Other: write an answer (t)",
        ]
        assert "6 Send the answer (Enter)" in run.screen
        assert "Space toggle · Enter send · Esc to interrupt" in run.status
        await run.pilot.press("space")
        assert "› 2 [ ] Types" in run.screen
        await _stop(run)
        assert _answered(conversation) == [Deny()]

    drive(test, conversation)


def test_enter_without_a_checked_choice_sends_nothing_and_says_why() -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("enter")
        await run.until(lambda: "No choice is checked. Check one with Space or its number" in run.screen)
        assert conversation.answers == []
        await run.pilot.press("space")
        assert "No choice is checked" not in run.screen
        await run.pilot.press("enter")
        await run.until_idle()
        assert _answered(conversation) == [ONLY_LINT]

    drive(test, conversation)


def test_keys_typed_as_the_question_opens_go_to_the_draft() -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run, is_late=False)
        for key in ("1", "space", "x", "enter"):
            await run.pilot.press(key)
            run.clock.now += 0.1
        assert run.app.widgets.prompt.text == "1 x"
        assert "[x]" not in run.screen
        await _press_slowly(run, "down", "1", "enter")
        await run.until_idle()
        assert _answered(conversation) == [ONLY_LINT]

    drive(test, conversation)


def test_numbers_pressed_quickly_toggle_each_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "HOLD_SECONDS", 600.0)
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        monkeypatch.setattr(typing, "BURST_SECONDS", 0.0)
        await run.pilot.press("1", "3", "4", "down", "4")
        assert ["[x]" in row for row in _choice_rows(run)] == [True, False, True, False, False]
        await run.pilot.press("enter")
        await run.until_idle()
        assert _answered(conversation) == [Answer('Lint, "Unit, fast"')]

    drive(test, conversation)


def test_answer_that_begins_with_a_number_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "HOLD_SECONDS", 600.0)
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"2nd", "enter")
        assert "[x] Types" not in run.screen
        await _press_slowly(run, "enter")
        await run.until_idle()
        assert _answered(conversation) == [Answer("2nd")]

    drive(test, conversation)


@pytest.mark.parametrize("open_field", [("t",), ("5",), ("tab",), ("down", "down", "down", "down", "enter")])
def test_written_text_is_sent_with_the_checked_choices(open_field: tuple[str, ...]) -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("1", "up", "down", *open_field)
        assert run.app.focused is _field(run)
        assert "writing an answer · Enter send · Esc back" in run.status
        await run.pilot.press(*"spell 2", "enter")
        await run.until_idle()
        assert _answered(conversation) == [Answer("Lint\nOther: spell 2")]

    drive(test, conversation)


def test_written_text_stays_a_checked_answer_after_escape() -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("t", *"spelling", "escape")
        await run.until(lambda: '5 [x] Other: write an answer (t)  "spelling"' in run.screen)
        await run.pilot.press("1", "enter")
        await run.until_idle()
        assert _answered(conversation) == [Answer("Lint\nOther: spelling")]
        assert run.app.widgets.prompt.is_empty

    drive(test, conversation)


def test_text_typed_at_the_choices_is_sent_with_them() -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("4", *"links too")
        await run.until(lambda: "Typing an answer: links too" in run.screen)
        await _press_slowly(run, "enter", "enter")
        await run.until_idle()
        assert _answered(conversation) == [Answer("Docs\nOther: links too")]
        assert run.app.widgets.prompt.is_empty

    drive(test, conversation)


def test_empty_text_field_sends_the_checked_choices() -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("t", "enter")
        await run.until(lambda: "No choice is checked" in run.screen)
        assert not run.app.widgets.approval.is_writing_text
        await run.pilot.press("2", "t", "enter")
        await run.until_idle()
        assert _answered(conversation) == [Answer("Types")]

    drive(test, conversation)


def test_paste_never_toggles_or_sends() -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.app.widgets.approval.post_message(events.Paste("1 2\n"))
        await run.until(lambda: "Typing an answer: 1 2" in run.screen)
        assert "[x]" not in run.screen
        assert conversation.answers == []
        await _stop(run)

    drive(test, conversation)


@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
def test_click_toggles_and_a_click_on_the_last_row_sends(size: tuple[int, int]) -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run, is_late=False)
        await _click(run, "Types")
        assert "[x]" not in run.screen
        run.clock.now += GUARD_SECONDS
        for words in ("Types", "Lint", "Types", "Docs"):
            await _click(run, words)
        assert conversation.answers == []
        await _click(run, "Send the answer")
        await run.until_idle()
        assert _answered(conversation) == [Answer("Lint, Docs")]

    drive(test, conversation, size=size)


def test_choices_and_keys_fit_into_forty_columns() -> None:
    long = Question(
        CALL,
        "Which checks?",
        choices=(Choice("Check the links of all pages", "needs a network"), Choice("\u4e2d\u6587" * 12)),
        is_multi_select=True,
    )
    conversation = _script(long)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("1")
        rows = run.screen.split("\n")
        first = next(index for index, row in enumerate(rows) if "[x] Check the links" in row)
        assert rows[first + 1].strip("│▌ ").startswith("needs a network")
        assert rows[first + 1].index("needs") == rows[first].index("Check")
        assert "Send the answer (Enter)" in run.screen
        assert "Space toggle · Enter send · Esc" in run.status
        await _stop(run)

    drive(test, conversation, size=(40, 20))


@pytest.mark.parametrize("is_multi_select", [False, True])
def test_current_choice_keeps_the_rows_that_fit_into_a_small_screen(is_multi_select: bool) -> None:
    choices = tuple(Choice(f"Choice number {number} with a long label", "and a detail " * 12) for number in range(8))
    question = replace(CHECKS, detail="line\n" * 20, choices=choices, is_multi_select=is_multi_select)
    conversation = _script(question)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("down")
        rows = run.screen.split("\n")
        first = next(index for index, row in enumerate(rows) if "› 2" in row)
        assert rows[first + 1].strip("▌ ").startswith("label  and a detail")
        last = next(index for index, row in enumerate(rows) if row.strip("▌ ").startswith("3 "))
        assert last - first >= 3
        assert rows[last - 1].rstrip().endswith("…") or not is_multi_select
        assert "9 " in run.screen
        await _stop(run)

    drive(test, conversation, size=(40, 20))


def test_question_that_fills_the_screen_fits_a_lower_screen() -> None:
    choices = tuple(Choice(f"Choice number {number} with a long label", "and a detail " * 12) for number in range(8))
    conversation = _script(replace(CHECKS, detail="line\n" * 20, choices=choices))

    async def test(run: Running) -> None:
        await _until_asked(run)
        for height in (12, 20, 12):
            await run.pilot.resize_terminal(40, height)
            await run.until(lambda: "Space toggle" in run.status and "› 1" in run.screen)
            await run.until(lambda: run.app.widgets.status.region.bottom == run.app.size.height)
        await _stop(run)

    drive(test, conversation, size=(40, 20))


def test_marks_survive_a_resize() -> None:
    conversation = _script(CHECKS)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("2", "4")
        await run.pilot.resize_terminal(40, 12)
        await run.pilot.resize_terminal(100, 30)
        await run.pilot.pause()
        assert ["[x]" in row for row in _choice_rows(run)] == [False, True, False, True, False]
        await run.pilot.press("enter")
        await run.until_idle()
        assert _answered(conversation) == [Answer("Types, Docs")]

    drive(test, conversation)


@pytest.mark.parametrize(
    ("keys", "answer"), [(("1", "2", "enter"), "a, b"), (("1", "3"), "Decline"), (("down", "down", "enter"), "Decline")]
)
def test_action_of_a_server_is_chosen_alone(keys: tuple[str, ...], answer: str) -> None:
    choices = (Choice("a"), Choice("b"), Choice("Decline", is_action=True))
    conversation = _script(Question(CALL, "Which?", choices=choices, server="fake", is_multi_select=True))

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "  3 Decline" in run.screen
        await run.pilot.press(*keys)
        await run.until_idle()
        assert [answer.text for answer in _answered(conversation) if isinstance(answer, Answer)] == [answer]

    drive(test, conversation)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (("1,3",), 'Lint, "Unit, fast"'),
        (("3 1",), 'Lint, "Unit, fast"'),
        ((" 2 , 4,",), "Types, Docs"),
        (("2",), "Types"),
        (("docs, lint",), "Lint, Docs"),
        (("unit, fast",), '"Unit, fast"'),
        (("uni",), '"Unit, fast"'),
        (("all of them, please",), "all of them, please"),
        (("t", "spelling"), "spelling"),
        (("1,5", "spelling"), "Lint\nOther: spelling"),
    ],
)
def test_linear_mode_takes_a_list_of_choices(typed: tuple[str, ...], answer: str) -> None:
    decisions, output = answers(CHECKS, *typed)
    assert decisions == [Answer(answer)]
    assert "Answer (1 to 5, several as 1,2, or your own words): " in output


@pytest.mark.parametrize("typed", ["1,9", "1 2 7", "0"])
def test_linear_mode_rejects_a_list_with_an_unknown_number(typed: str) -> None:
    decisions, output = answers(CHECKS, typed, "1")
    assert decisions == [ONLY_LINT]
    assert f'"{typed}" is not one of the choices. Type 1 to 5, or a letter: t.' in output
