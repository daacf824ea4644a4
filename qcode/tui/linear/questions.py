"""The questions of the linear mode: prints an approval with numbered choices, and reads the line that answers it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from qcode.protocol.approvals import (
    Answer,
    Decision,
    Deny,
    Draft,
    PlanApproval,
    Question,
    Revise,
    ToolApproval,
    TurnApproval,
)
from qcode.text.clean import cut, ensure_visible
from qcode.text.sentences import capitalized
from qcode.tui.linear.terminal import LineTerminal
from qcode.tui.linear.view import LinearView
from qcode.tui.panels.choices import (
    BACK,
    Form,
    Option,
    choice_line,
    chosen_labels,
    confirmation_form,
    form_of,
    option_of,
    question_line,
    question_with_asker,
    reason_list,
    risk_line,
)
from qcode.values import dataclass

EDIT_LETTER = "e"
_EDIT_LINE = f"Type {EDIT_LETTER} to edit it in your editor before it runs."
_MAX_QUOTED = 60


def matching_options(typed: str, options: Sequence[Option]) -> tuple[Option, ...]:
    """Return the option with this number, letter or label; otherwise all options whose label begins with `typed`."""
    typed = typed.lower()
    if (option := option_of(typed, options)) is not None:
        return (option,)
    for option in options:
        if option.label.lower() == typed:
            return (option,)
    return tuple(option for option in options if typed and option.label.lower().startswith(typed))


def options_in_list(typed: str, options: Sequence[Option]) -> tuple[Option, ...]:
    """Return the options of a list of numbers, letters or labels, such as `1,3` or `lint, docs`, in their order.

    Numbers may also be separated by spaces. Return no options if an entry is not one of them.
    """
    is_of_numbers = _is_number_list(typed)
    entries = typed.replace(",", " ").split() if is_of_numbers else [entry.strip() for entry in typed.split(",")]
    labels = {option.label.lower(): option for option in options}
    chosen = [option_of(entry.lower(), options) or labels.get(entry.lower()) for entry in entries]
    return () if None in chosen else tuple(option for option in options if option in chosen)


def _is_number_list(typed: str) -> bool:
    return typed.replace(",", "").replace(" ", "").isdigit()


def _choice_prompt(form: Form) -> str:
    """Return the prompt of a question with choices, such as `Answer (1 to 3, several as 1,2, or your own words): `."""
    several = ", several as 1,2" if form.is_multi_select else ""
    own_words = ", or your own words" if form.text_decision is Answer else ""
    return f"Answer (1 to {len(form.options)}{several}{own_words}): "


def _is_answer_text(typed: str, form: Form) -> bool:
    """Return whether a line that matches no choice is an answer in the user's own words. A wrong number is not."""
    is_number = _is_number_list(typed) if form.is_multi_select else typed.isdigit()
    return form.text_decision is Answer and bool(typed) and not is_number


@dataclass(frozen=True, slots=True)
class _ChoiceResult:
    """The result of a question with choices."""

    result: Option | Decision | None
    """An option, or the decision of a typed text; None at the end of the input, or if the turn is cancelled."""
    rejected: str = ""
    """The last text of several words that was no choice. It may be a reason, which the user need not type again."""


class LinearQuestions:
    """Prints approvals and reads lines until one of them is a decision, or until `is_cancelled` returns True."""

    def __init__(self, view: LinearView, terminal: LineTerminal, is_cancelled: Callable[[], bool]) -> None:
        self._view = view
        self._terminal = terminal
        self._is_cancelled = is_cancelled

    async def decide(self, approval: TurnApproval) -> Decision:
        """Print the question and return the decision; the end of the input denies."""
        self._view.print_open_line()
        self._terminal.forget_typed()
        form = form_of(approval)
        draft = approval.draft if isinstance(approval, ToolApproval) else None
        self._print_question(approval, form)
        if form.begins_with_text:
            return await self._read_text_or_action(form)
        self._show_choices(form.options)
        if draft is not None:
            self._view.print_text(_EDIT_LINE)
        return await self._read_decision(form, draft)

    def _print_question(self, approval: TurnApproval, form: Form) -> None:
        view = self._view
        is_asked_by_model = isinstance(approval, Question) and not approval.server
        view.print_text(f"Question: {question_line(approval) if is_asked_by_model else question_with_asker(approval)}")
        if approval.detail:
            self._print_detail(approval, form)
        risks = risk_line(ensure_visible(approval.detail)) if form.format == "command" else ""
        # The list of all reasons repeats the line with the first ones, but not where the command runs.
        location = f"{capitalized(form.location)}." if form.location else ""
        reasons = (reason_list(form.reasons), location) if form.reasons else (form.reason,)
        for line in (risks, *reasons):
            if line:
                view.print_text(line)

    def _print_detail(self, approval: TurnApproval, form: Form) -> None:
        view, detail = self._view, ensure_visible(approval.detail)
        match form.format:
            case "edit" if isinstance(approval, ToolApproval):
                view.print_diff(approval.call.call_id, approval.detail)
            case "command":
                view.print_command(detail)
            case "text" | "markdown":
                # The model's text is indented, so that a line such as `1. Allow` in it cannot pass for a choice.
                rows = "\n".join(f"  {line}" for line in detail.split("\n"))
                if isinstance(approval, PlanApproval):
                    view.print_plan(approval.call.call_id, rows, approval.detail)
                else:
                    view.print_text(rows)
            case "call":
                view.print_text(detail)

    def _show_choices(self, options: Sequence[Option]) -> None:
        self._view.print_text("\n".join(choice_line(number, option) for number, option in enumerate(options, 1)))

    async def _read_decision(self, form: Form, draft: Draft | None) -> Decision:
        while True:
            chosen = await self._choose(form, draft)
            result = chosen.result
            if isinstance(result, Option) and result.warning:
                confirmation = confirmation_form(result, form)
                self._view.print_text(confirmation.reason)
                self._show_choices(confirmation.options)
                confirmed = await self._choose(confirmation, None)
                result = confirmed.result
                if result is BACK:
                    self._show_choices(form.options)
                    continue
            if result is None:
                return Deny()
            if not isinstance(result, Option):
                return result
            if form.is_multi_select:
                return await self._answer_of([result], form)
            if result.decision is None:
                return await self._read_text(form, chosen.rejected)
            return result.decision

    async def _choose(self, form: Form, draft: Draft | None) -> _ChoiceResult:
        """Read lines until one of them is a choice, or a decision by its text."""
        rejected = ""
        while not self._is_cancelled():
            line = await self._terminal.ask(_choice_prompt(form))
            if line is None:
                break
            typed = line.strip()
            if typed.lower() == EDIT_LETTER and draft is not None:
                revised = await self._edit_call(draft)
                if revised is not None:
                    return _ChoiceResult(revised)
                continue
            listed = options_in_list(typed, form.options) if form.is_multi_select else ()
            if listed:
                return _ChoiceResult(await self._answer_of(listed, form))
            matches = matching_options(typed, form.options)
            if len(matches) == 1:
                (option,) = matches
                is_whole_label = typed.lower() == option.label.lower()
                if not is_whole_label and option_of(typed.lower(), form.options) is None:
                    self._view.print_text(f"Chosen: {option.label}.")
                return _ChoiceResult(option, rejected)
            if not matches and _is_answer_text(typed, form):
                return _ChoiceResult(Answer(typed))
            if " " in typed and not form.is_multi_select:
                rejected = typed
            self._reject(typed, form.options, matches, keeps_text=bool(rejected))
        return _ChoiceResult(None)

    async def _answer_of(self, chosen: Sequence[Option], form: Form) -> Decision:
        """Return the answer with several choices, after the user has typed the text of one that needs a text."""
        decision: Decision = Answer("")
        if any(option.opens_text_field for option in chosen):
            decision = await self._read_text(form)
        if not isinstance(decision, Answer):
            return decision
        return Answer.of_choices(chosen_labels(chosen), decision.text)

    def _reject(self, typed: str, options: Sequence[Option], matches: Sequence[Option], *, keeps_text: bool) -> None:
        """Report that a typed line is not a choice, and name the choices. `keeps_text`: a key sends it as a reason."""
        letters = ", ".join(option.letter for option in options if option.letter)
        advice = f"Type 1 to {len(options)}" + (f", or a letter: {letters}." if letters else ".")
        quoted = f'"{cut(ensure_visible(typed), _MAX_QUOTED)}"'
        if matches:
            self._view.print_text(f"{quoted} begins {len(matches)} choices. {advice}")
            return
        reason_letter = next((option.letter for option in options if option.opens_text_field), "")
        note = f" {reason_letter} sends your text." if reason_letter and keeps_text else ""
        self._view.print_text(f"{quoted} is not one of the choices. {advice}{note}" if typed else advice)

    async def _read_text(self, form: Form, rejected: str = "") -> Decision:
        """Read a text and return its decision. An empty line sends `rejected`, a text that was no choice."""
        is_answer = form.text_decision is Answer
        label = "Your answer: " if is_answer else "Why not, or what to do instead? "
        if rejected:
            self._view.print_text(f'Enter alone sends "{cut(ensure_visible(rejected), _MAX_QUOTED)}".')
        while not self._is_cancelled():
            text = await self._terminal.ask_text(label)
            if text is None:
                break
            text = text.strip() or rejected
            if text or not is_answer:
                return form.text_decision(text) if text else Deny()
            self._view.print_text("Type an answer and press Enter. Ctrl+D leaves the question unanswered.")
        return Deny()

    async def _read_text_or_action(self, form: Form) -> Decision:
        """Read an answer, or the label of another option, such as `Decline`. A number is an answer, too."""
        actions = {option.label.lower(): option.decision for option in form.options if option.decision is not None}
        if actions:
            labels = " or ".join(f'"{option.label}"' for option in form.options if option.decision is not None)
            self._view.print_text(f"Type an answer, or {labels}.")
        decision = await self._read_text(form)
        typed = decision.text.lower() if isinstance(decision, Answer) else ""
        return actions.get(typed) or decision

    async def _edit_call(self, draft: Draft) -> Revise | None:
        """Let the user edit a call in their editor; return None if they have not changed it."""
        from qcode.tui.prompt.editor import EditorError, edit_text, editor_command

        try:
            edited = await asyncio.to_thread(edit_text, draft.text, editor_command(os.environ), draft.file_name)
        except EditorError as problem:
            self._view.add_notice("warning", f"{capitalized(str(problem))}; the call is unchanged.")
            return None
        if edited == draft.text:
            self._view.add_notice("info", "The call is unchanged.")
            return None
        return Revise(edited)
