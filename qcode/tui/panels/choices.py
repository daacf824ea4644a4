"""The form of an approval: its title, its choices in order, and the type of decision for a typed text. Pure.

The app and the linear mode use the same forms. Choices are numbered from 1 without gaps; a letter has the same meaning
in every form. An option that allows more than this call comes after the plain "Yes". `OpenQuestions` is the queue of
the questions that wait for a decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from qcode.protocol.approvals import (
    CHANGE_APPROACH,
    AcceptPlan,
    Allow,
    Answer,
    Approval,
    Decision,
    Deny,
    Draft,
    ImpossibleCall,
    PlanApproval,
    Question,
    RateLimitApproval,
    RepeatedCall,
    ServerApproval,
    ToolApproval,
)
from qcode.safety.rules import rule_in_words
from qcode.safety.shell.risks import risky_words
from qcode.text.clean import LINE_BREAK, cut, ensure_visible, quoted, visible
from qcode.values import dataclass

_MAX_QUESTION_CHARACTERS = 400

WAITING = "waiting for your answer"


@dataclass(frozen=True, slots=True)
class FolderTrust:
    """The question whether to trust the folder. Answers: `Allow`, with the scope `folder` for later runs, or `Deny`.

    It is asked before there is a conversation. `detail` names the folder and its files, or their changes.
    """

    question: str
    detail: str
    id: str = "folder-trust"


PanelQuestion: TypeAlias = Approval | FolderTrust
"""Everything that the panel asks."""


@dataclass(frozen=True, slots=True)
class Option:
    """One choice."""

    label: str
    letter: str = ""
    """The letter that chooses it, empty if only its number does."""
    decision: Decision | None = None
    """The decision of this choice; None if the choice opens the text field, and for `BACK` and `SEND`."""
    detail: str = ""
    """Muted text after the label: the meaning of the choice, or the rule that it adds."""
    key: str = ""
    """A key of the app that has the same effect, such as `Esc`."""
    warning: str = ""
    """Shown before the choice becomes a decision, with the choices of `confirmation_form`."""
    unbroken: tuple[str, ...] = ()
    """Parts of label and detail, such as a rule, that are wrapped inside only if they are longer than a row."""
    is_checked: bool | None = None
    """Whether the option is checked; None if it has no check mark, because only one option can be chosen."""

    @property
    def opens_text_field(self) -> bool:
        return self.decision is None and self not in (BACK, SEND)

    @property
    def can_be_toggled(self) -> bool:
        """Whether choosing the option checks it, or removes its check mark."""
        return self.is_checked is not None and not self.opens_text_field

    @property
    def check_mark(self) -> str:
        """The mark before the label, with a space; empty for an option without one."""
        return "" if self.is_checked is None else f"[{'x' if self.is_checked else ' '}] "


@dataclass(frozen=True, slots=True)
class Form:
    """The options of an approval, and the type of decision for a typed text."""

    options: tuple[Option, ...]
    format: Literal["edit", "command", "call", "text", "markdown"] = "call"
    """The format of the detail: an `edit` is a unified diff, `text` and `markdown` are written by the model."""
    text_decision: type[Deny | Answer] = Deny
    """The decision whose text the user types: `Deny` with a reason, or `Answer`."""
    hint: str = "Why not, or what to do instead?"
    """Shown in the empty text field."""
    reason: str = ""
    """The reason for asking, one line."""
    reasons: tuple[str, ...] = ()
    """Every reason for asking, the worst first, if `reason` leaves out some of them."""
    location: str = ""
    """The place in which a command would run, which is the end of `reason`; empty for other calls."""
    initial_index: int = 0
    """The index of the option that is highlighted at first."""
    typing_caption: str = ""
    """The words for text that is typed while the choices have the focus, if Enter moves it into the text field.

    Empty if such text is for the next message.
    """
    writing_caption: str = "writing a reason"
    """The words of the status line while the text field is open."""
    begins_with_text: bool = False
    """The text field is open at first, because no option is an answer in itself."""

    @property
    def is_multi_select(self) -> bool:
        """Whether several options can be chosen."""
        return any(option.can_be_toggled for option in self.options)

    def with_toggled(self, toggled: Option) -> Form:
        """Return the form after `toggled` was checked, or after its check mark was removed."""
        options = (
            replace(option, is_checked=not option.is_checked) if option == toggled and option.can_be_toggled else option
            for option in self.options
        )
        return replace(self, options=tuple(options), reason="")

    def checked_answer(self, text: str) -> Answer | None:
        """Return the answer with the checked choices and `text`; None if nothing is checked and `text` is empty."""
        chosen = chosen_labels([option for option in self.options if option.is_checked])
        return Answer.of_choices(chosen, text) if chosen or text else None

    @property
    def text_index(self) -> int:
        """The index of the option that opens the text field, -1 if there is none."""
        return next((index for index, option in enumerate(self.options) if option.opens_text_field), -1)

    @property
    def is_text_only(self) -> bool:
        """Whether only a typed text answers."""
        return bool(self.options) and all(option.opens_text_field for option in self.options)


BACK = Option("Back", "n")
"""Returns from a warning to the choices."""
SEND = Option("Send the answer", key="Enter")
"""Sends the checked choices."""
NOTHING_CHECKED = "No choice is checked. Check one with Space or its number, or write an answer."
"""The note if Enter would send an empty answer."""
_THIS_SESSION = "(this session)"
MODE_KEY = "Shift+Tab"
"""Stands for the key that switches the mode, which the user can change."""
_NO = Option("No", "n", Deny(), "stops the turn", key="Esc")
_SAY_WHY = Option("No, and say why", "t")
_TYPING_REASON = "typing a reason for No"
_REPEAT_OPTIONS = (
    Option("Yes, run it again", "y", Allow()),
    Option("No, change the approach", "n", Deny(CHANGE_APPROACH)),
    _SAY_WHY,
)
_IMPOSSIBLE_OPTIONS = (
    Option("Yes, let it try again", "y", Allow()),
    _NO,
    _SAY_WHY,
)
_PLAN_OPTIONS = (
    Option("Yes, and ask before each edit", "y", AcceptPlan(), key=MODE_KEY),
    Option("Yes, and accept edits", "a", AcceptPlan("accept-edits"), "edits in this folder run without asking"),
    Option("No, keep planning", "n", Deny(), "stops the turn", key="Esc"),
    Option("No, and say what to change", "t"),
)
_TRUST_AND_ACCEPT = Option(
    "Yes, trust this folder and accept edits",
    decision=AcceptPlan("accept-edits", trusts_folder=True),
    detail="edits in it run without asking",
)
_LIMIT_OPTIONS = (
    Option("Yes, wait and continue", "y", Allow()),
    Option("No", "n", Deny(), "stops the turn; /model chooses another model", key="Esc"),
)
_SERVER_OPTIONS = (
    Option("Yes, from now on", "y", Allow()),
    Option("No, not in this session", "n", Deny()),
)
_LOGIN_OPTIONS = (
    Option("Yes, open the browser", "y", Allow()),
    Option("No, not in this session", "n", Deny()),
)
_RESTRICT = Option("No, keep it restricted", "n", Deny(), "qcode asks before anything but reading")
_TRUST_OPTIONS = (
    Option("Yes, from now on", "y", Allow("folder"), "its files are used, your rules and modes apply"),
    Option("Yes, for this run only", "a", Allow()),
    _RESTRICT,
)


def form_of(approval: PanelQuestion) -> Form:
    """Return the form of an approval, for the app and the linear mode."""
    match approval:
        case ToolApproval(kind=kind):
            return Form(
                _tool_options(approval),
                "call" if kind == "other" else kind,
                reason=approval.reason,
                reasons=approval.reasons,
                location=approval.location,
                typing_caption=_TYPING_REASON,
            )
        case RepeatedCall():
            return Form(_REPEAT_OPTIONS, typing_caption=_TYPING_REASON)
        case ImpossibleCall():
            return Form(_IMPOSSIBLE_OPTIONS, "text", typing_caption=_TYPING_REASON)
        case Question(accepts_text=False):
            return Form(_answers_to(approval), "text")
        case Question():
            return Form(
                _answers_to(approval),
                "text",
                Answer,
                "Your answer",
                typing_caption="typing an answer",
                writing_caption="writing an answer",
                begins_with_text=_is_answered_by_text(approval),
            )
        case PlanApproval(is_trusted=is_trusted):
            ask_first, accept_edits, *no_options = _PLAN_OPTIONS
            return Form(
                (ask_first, accept_edits if is_trusted else _TRUST_AND_ACCEPT, *no_options),
                "markdown",
                hint="What should change in the plan?",
                typing_caption="typing what to change",
                writing_caption="writing what to change",
            )
        case RateLimitApproval():
            return Form(_LIMIT_OPTIONS, "text")
        case ServerApproval(is_login=is_login):
            return Form(_LOGIN_OPTIONS if is_login else _SERVER_OPTIONS)
        case FolderTrust():
            return Form(_TRUST_OPTIONS, "text", initial_index=_TRUST_OPTIONS.index(_RESTRICT))


def panel_form_of(approval: PanelQuestion) -> Form:
    """Return the form of an approval for the app, with a last option that sends the checked choices."""
    form = form_of(approval)
    return replace(form, options=(*form.options, SEND)) if form.is_multi_select else form


def question_with_asker(approval: PanelQuestion) -> str:
    """Return the question on one line. It begins with the asker for a `Question`, and if a sub-agent asks."""
    match approval:
        case ToolApproval(agent=agent) | RepeatedCall(agent=agent) | ImpossibleCall(agent=agent) if agent:
            return f"Sub-agent {quoted(cut(agent, 100))} asks: {question_line(approval)}"
        case Question():
            return f"{visible(approval.asker)} asks: {question_line(approval)}"
        case _:
            return question_line(approval)


def question_line(approval: PanelQuestion) -> str:
    """Return the question on one line, truncated so that the choices fit; the detail has the whole question."""
    return cut(" ".join(ensure_visible(approval.question).split("\n")), _MAX_QUESTION_CHARACTERS)


def option_of(key: str, options: Sequence[Option]) -> Option | None:
    """Return the option with this number or letter."""
    numbers = {str(number): option for number, option in enumerate(options, start=1)}
    return numbers.get(key) or next((option for option in options if option.letter and option.letter == key), None)


def chosen_labels(options: Sequence[Option]) -> list[str]:
    """Return the labels that the model wrote for these options, without an option for another answer."""
    return [option.decision.text for option in options if isinstance(option.decision, Answer)]


def choice_line(number: int, option: Option) -> str:
    """Return an option as a line of the linear mode."""
    letter = f" ({option.letter})" if option.letter else ""
    return f"{number}. {option.label}{letter}" + (f": {option.detail}" if option.detail else "")


def reason_list(reasons: Sequence[str]) -> str:
    """Return a heading and every reason for asking on a separate line; empty without reasons."""
    if not reasons:
        return ""
    return "\n".join(["All reasons, the worst first:", *(f"- {reason}" for reason in reasons)])


def risk_line(command: str) -> str:
    """Return the risky words of a command as a sentence, for a screen without colors; empty if there are none."""
    command = command.replace(f"{LINE_BREAK}\n", "\n")
    words = [" ".join(command[start:end].split()) for start, end in risky_words(command)]
    return f"Careful: {', '.join(dict.fromkeys(words))}" if words else ""


def _tool_options(approval: ToolApproval) -> tuple[Option, ...]:
    rule = visible(approval.rule)
    covered = rule_in_words(rule)
    # Both options add the same rule, which is shown once: after the shorter label, so that it fits into 80 columns.
    session_detail, folder_detail = ("", rule) if approval.is_keepable else (rule, "")
    unbroken = _unbroken(covered, rule)
    session_label = f"Yes, and stop asking for {covered} {_THIS_SESSION}"
    session = Option(session_label, "a", Allow("session"), session_detail, unbroken=unbroken)
    folder_label = f"Yes, always in this folder: {covered}"
    folder = Option(folder_label, "f", Allow("folder"), folder_detail, unbroken=unbroken)
    return (
        Option("Yes", "y", Allow()),
        *((session,) if rule else ()),
        *((folder,) if rule and approval.is_keepable else ()),
        *_allow_options(approval),
        _NO,
        _SAY_WHY,
    )


def _unbroken(covered: str, rule: str = "") -> tuple[str, ...]:
    """Return `Option.unbroken` for a rule. In `exactly "git push"`, only the command stays in one row."""
    _, quote, command = covered.partition('"')
    return (quote + command if quote else covered, rule, _THIS_SESSION)


def _allow_options(approval: ToolApproval) -> Iterator[Option]:
    for scope in approval.offers:
        match scope:
            case "edits":
                yield Option("Yes, and all edits from now on", decision=Allow("edits"), key=MODE_KEY)
            case "trust":
                yield Option("Yes, and trust this folder", decision=Allow("trust"))
            case "prefix":
                rule = visible(approval.prefix_rule)
                covered = rule_in_words(rule)
                label = f"Yes, and stop asking for {covered} {_THIS_SESSION}"
                warning = _PREFIX_WARNING.format(covered=covered)
                unbroken = _unbroken(covered, rule)
                yield Option(label, decision=Allow("prefix"), detail=rule, warning=warning, unbroken=unbroken)
            case "sandbox":
                covered = rule_in_words(visible(approval.sandboxed_rule))
                label = f"Yes, and run {covered} in the sandbox without asking {_THIS_SESSION}"
                yield Option(label, decision=Allow("sandbox"), unbroken=_unbroken(covered))
            case _:
                pass


_PREFIX_WARNING = (
    "Careful: {covered} will run without asking, outside the sandbox. It runs any code of the project, also code that "
    "the model has just written."
)


def confirmation_form(option: Option, form: Form) -> Form:
    """Return the form that shows the warning of an option and asks for confirmation."""
    return replace(form, options=(replace(option, letter="y", warning=""), BACK), reason=option.warning, reasons=())


def _answers_to(question: Question) -> tuple[Option, ...]:
    is_checked = False if question.is_multi_select else None
    # The model's choices are as it wrote them; the labels of a server have been made visible, to tell them apart.
    make_visible = ensure_visible if question.server else visible
    choices = tuple(
        Option(
            make_visible(choice.label),
            decision=Answer(choice.label),
            detail=make_visible(choice.detail),
            is_checked=None if choice.is_action else is_checked,
        )
        for choice in question.choices
    )
    if not question.accepts_text:
        return choices
    if _is_answered_by_text(question):
        return (Option("Write an answer", "t"), *choices)
    return (*choices, Option("Other: write an answer", "t", is_checked=is_checked))


def _is_answered_by_text(question: Question) -> bool:
    """Return whether no choice is an answer in itself."""
    return all(choice.is_action for choice in question.choices)


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that waits for a decision."""

    approval: PanelQuestion
    position: str
    """The position among the questions of the reply, such as `1 of 2`; empty if it is the only one."""


class OpenQuestions:
    """The queue of open questions. The panel shows the first one.

    A call that the user has edited keeps its place in the queue, and the text as the user last edited it.
    """

    def __init__(self) -> None:
        self._questions: list[OpenQuestion] = []
        self._edited_texts: dict[str, str] = {}  # by the id of the approval
        self._ids_being_revised: set[str] = set()

    @property
    def shown_approval(self) -> PanelQuestion | None:
        """The first approval, which the panel shows."""
        return self._questions[0].approval if self._questions else None

    @property
    def shown_position(self) -> str:
        """The position of the shown approval, such as `1 of 2`; empty if it is the only one."""
        count = len(self._questions)
        return self._questions[0].position or (f"1 of {count}" if count > 1 else "")

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all open approvals."""
        return tuple(question.approval.id for question in self._questions)

    @property
    def is_being_revised(self) -> bool:
        """Whether the shown call was edited and waits for a new verdict."""
        return self.shown_approval is not None and self.shown_approval.id in self._ids_being_revised

    @property
    def draft(self) -> Draft | None:
        """The editable part of the shown call, as the user has last edited it; None if it cannot be edited now."""
        approval = self.shown_approval
        if not isinstance(approval, ToolApproval) or approval.draft is None or self.is_being_revised:
            return None
        return replace(approval.draft, text=self._edited_texts.get(approval.id, approval.draft.text))

    def add(self, approval: PanelQuestion, position: str) -> bool:
        """Add an approval, or replace that of a revised call; return whether it is the shown one."""
        self._ids_being_revised.discard(approval.id)
        if approval.id in self.ids:
            index = self.ids.index(approval.id)
            self._questions[index] = OpenQuestion(approval, position)
        else:
            index = len(self._questions)
            self._questions.append(OpenQuestion(approval, position))
        return index == 0

    def revise(self, approval_id: str, text: str) -> bool:
        """Store the text of an edited call, which waits for a new verdict; return whether its question is open."""
        if approval_id not in self.ids:
            return False
        self._ids_being_revised.add(approval_id)
        if text.strip():
            self._edited_texts[approval_id] = text
        else:
            self._edited_texts.pop(approval_id, None)
        return True

    def remove(self, approval_id: str) -> None:
        self._questions = [question for question in self._questions if question.approval.id != approval_id]
        self._edited_texts.pop(approval_id, None)

    def remove_all_of_turn(self) -> tuple[str, ...]:
        """Remove every approval of the turn and return their ids. Approvals of tool servers stay."""
        removed = tuple(item.approval.id for item in self._questions if not isinstance(item.approval, ServerApproval))
        for approval_id in removed:
            self.remove(approval_id)
        return removed
