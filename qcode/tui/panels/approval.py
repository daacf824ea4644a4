"""The approval panel: a question with the whole change, then the choices. While it is open, it replaces the prompt.

`preview` has the content, `choices` the choices, `question_layout` the rows, `answer_field` the field for a typed text;
`draft` decides whether a key is an answer or text. The panel posts `ApprovalDecided`. Enter chooses the highlighted
choice, if there is one. If the question takes a typed answer, Enter moves the typed text into the text field, and a
later Enter sends it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from textual import events, on
from textual.containers import Vertical

from qcode.protocol.approvals import (
    AcceptPlan,
    ApprovalMode,
    Decision,
    Deny,
    Draft,
    PlanApproval,
    Revise,
    ServerApproval,
    ToolApproval,
)
from qcode.tui.messages import ApprovalDecided
from qcode.tui.panels.answer_field import AnswerField
from qcode.tui.panels.choices import (
    BACK,
    MODE_KEY,
    NOTHING_CHECKED,
    SEND,
    Form,
    OpenQuestions,
    Option,
    PanelQuestion,
    confirmation_form,
    option_of,
    panel_form_of,
    question_with_asker,
    reason_list,
)
from qcode.tui.panels.draft import GUARD_SECONDS, HeldKeys, TypedDraft, cursor_cell, key_after_escape
from qcode.tui.panels.preview import ApprovalDetail
from qcode.tui.panels.question_layout import QuestionText, shown_options, title_spans
from qcode.tui.panels.question_view import QuestionView, question_state
from qcode.tui.prompt.editing import EDITING_ACTIONS
from qcode.tui.shared_widgets import mount_parts, set_screen_class
from qcode.tui.status import QuestionState
from qcode.tui.transcript.line import Span, style_of

if TYPE_CHECKING:
    from textual.timer import Timer

    from qcode.tui.prompt.prompt import Prompt
    from qcode.tui.shared_widgets import ScrollTarget

_PAGE_KEYS: dict[str, ScrollTarget] = {"pageup": "page_up", "pagedown": "page_down", "home": "home", "end": "end"}
_ARROW_STEPS = {"up": -1, "down": 1, "shift+up": -1, "shift+down": 1}
_STATUS_ROWS = 1
_MAX_FIELD_ROWS = 6


class ApprovalPanel(Vertical, can_focus=True):
    """Shows one approval at a time; hidden if there is none. The app moves the focus to the panel and away from it.

    `prompt` gets the text that is typed before a key counts as an answer. `show_state` gets the state of the shown
    question after each change, None if no question is open.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        prompt: Prompt,
        show_state: Callable[[QuestionState | None], None],
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._prompt = prompt
        self._typed = TypedDraft(clock, prompt)
        self._show_state = show_state
        self._questions = OpenQuestions()
        self._form = Form(())
        self._shown_detail = ApprovalDetail.of("text", "")
        self._index = 0
        self._held_keys = HeldKeys(self.set_timer, self._choose)
        self._pause_timer: Timer | None = None
        self._is_field_open = False  # the text field is open
        self.edit_key = ""
        """The key that edits a call, such as `Ctrl+G`; empty if there is none."""
        self.mode_key = MODE_KEY
        """The key that switches the mode; empty if there is none."""
        self.view = QuestionView(self._question_text, id="approval-view")
        """The part of the panel that shows the question."""
        self.display = False

    @cached_property
    def _text_field(self) -> AnswerField:
        """The text field, created for the first question: an editor is slow to create."""
        return AnswerField(self._intercept, self._prompt.pastes, id="approval-answer")

    def focus_on_click(self) -> bool:
        """Leave the focus where it is: a click on a diff must not end the writing of a reason."""
        return False

    def focus(self, scroll_visible: bool = True) -> Self:
        """Focus the text field if the user is writing, otherwise the choices."""
        if self.is_writing_text:
            self._text_field.focus(scroll_visible)
        else:
            super().focus(scroll_visible)
        return self

    @property
    def shown_approval(self) -> PanelQuestion | None:
        """The approval that is shown."""
        return self._questions.shown_approval

    @property
    def heading(self) -> str:
        """The question in one line; for an edit, also the numbers of added and removed lines."""
        assert self.shown_approval is not None
        question, change = question_with_asker(self.shown_approval), self._shown_detail.change
        return question if change is None else f"{question.removesuffix('?')}  +{change.added} -{change.removed}"

    @property
    def has_highlighted_choice(self) -> bool:
        """Whether a choice is highlighted, so that Enter chooses it. It is not while Enter belongs to typed text."""
        return self._held_keys.is_holding or not self._typed.is_changed

    @property
    def open_ids(self) -> tuple[str, ...]:
        """The ids of all approvals that wait for a decision."""
        return self._questions.ids

    @property
    def is_writing_text(self) -> bool:
        """Whether the user is writing an answer or a reason."""
        return self._is_field_open and self.shown_approval is not None

    @property
    def selected_text(self) -> str:
        """The text that is selected in the text field."""
        return self._text_field.selected_text if self.is_writing_text else ""

    @property
    def options(self) -> tuple[Option, ...]:
        """The options of the approval that is shown, in order."""
        return self._form.options

    @property
    def draft(self) -> Draft | None:
        """The editable part of the shown call, as the user has last edited it; None if it cannot be edited now."""
        return self._questions.draft

    def revise(self, approval_id: str, text: str) -> None:
        """Send the edited call back for a new verdict. It stays in view and cannot be answered until then."""
        if self._questions.revise(approval_id, text):
            self.post_message(ApprovalDecided(approval_id, Revise(text)))

    @property
    def highlighted(self) -> Option:
        return self.options[self._index]

    def ask(self, approval: PanelQuestion, position: str = "") -> None:
        """Show `approval`, or queue it until those before it are decided. `position` is text such as `1 of 2`.

        A revised call keeps its position in the queue.
        """
        if self._questions.add(approval, position):
            self._open()
        else:
            self._paint()  # the title counts the open questions

    def withdraw(self, approval_id: str) -> bool:
        """Remove an approval that needs no answer any more; return whether it was shown."""
        was_shown = self.shown_approval is not None and self.shown_approval.id == approval_id
        if was_shown:
            self._move_text_to_prompt()
        self._questions.remove(approval_id)
        if was_shown:
            self._open()
        elif self.shown_approval is not None:
            self._paint()
        return was_shown

    def withdraw_all(self) -> tuple[str, ...]:
        """Remove every approval of the turn and return their ids. Approvals of tool servers stay."""
        if not isinstance(self.shown_approval, ServerApproval):
            self._move_text_to_prompt()
        removed = self._questions.remove_all_of_turn()
        self._open()
        return removed

    def _move_text_to_prompt(self) -> None:
        """Move the unsent text of the text field to the prompt, because its question closes without a decision."""
        if self.shown_approval is None:
            return
        if self.unsent_text:
            self._prompt.add_below(self.unsent_text)  # an older draft stayed in the prompt
        self._text_field.approval_id = ""

    @property
    def unsent_text(self) -> str:
        """The text of the text field, if it belongs to the shown question; empty if there is none."""
        field, approval = self._text_field, self.shown_approval
        is_its_text = approval is not None and field.approval_id == approval.id
        return field.unsent_text if is_its_text and field.unsent_text.strip() else ""

    @property
    def field_text(self) -> str:
        """The text that the user has written in the text field."""
        return self._text_field.whole_text

    def write(self, text: str, *, replaces: bool = False) -> None:
        """Add `text` to the open text field, or to the draft if the field is closed.

        `replaces`: replace the text of the field instead. An empty `text` then closes the field.
        """
        if not self.is_writing_text:
            self._paste_into_draft(text)
        elif replaces:
            self._text_field.replace_in_one_step(text, (0, 0), self._text_field.document.end)
            if not text.strip():
                self.go_back()
        else:
            self._text_field.insert(text)

    @property
    def is_editable(self) -> bool:
        """Whether the external editor can open the call of the question, or the answer to it."""
        return self.draft is not None or (
            self.shown_approval is not None and (self.is_writing_text or bool(self._form.typing_caption))
        )

    def open_text_field(self) -> bool:
        """Open the text field if the question takes a typed text; return whether the field is open.

        If the call can be edited, do not open the field: the external editor then gets the call, not a reason for No.
        """
        if self.draft is not None:
            return self.is_writing_text
        if self._takes_typed_answer:
            self._move_draft_to_field()
        elif self.shown_approval is not None and self._form.typing_caption and not self._is_field_open:
            self._open_field()
        return self.is_writing_text

    @on(AnswerField.Left)
    def go_back(self) -> bool:
        """Return from the text field or a warning to the choices; return False if neither is open."""
        self._held_keys.end()
        if self.shown_approval is not None and BACK in self.options:
            self._choose(BACK)
            return True
        if not self.is_writing_text or self._form.is_text_only:
            return False
        self._show_choices()
        return True

    def accept_plan(self, mode: ApprovalMode) -> bool:
        """Approve the shown plan and switch to `mode`; return False if no plan is shown.

        While keys are guarded, the plan stays open, but return True, so that the key has no other effect.
        """
        if not isinstance(self.shown_approval, PlanApproval) or self.is_writing_text:
            return False
        if not self._is_guarded():
            self._decide(AcceptPlan(mode))
        return True

    def on_key(self, event: events.Key) -> None:
        if self.shown_approval is None:
            return
        if character := key_after_escape(event.key, is_writing_text=self.is_writing_text):
            # Terminals send Alt+2 for Escape and a quick `2`: handle both keys.
            event.stop()
            self.app.post_message(events.Key("escape", None))
            self.app.post_message(events.Key(character, character))
            return
        if self.is_writing_text:
            return
        event.stop()
        event.prevent_default()
        if event.key in _PAGE_KEYS and not (self._is_typing and event.key in EDITING_ACTIONS):
            self.view.scroll_page(_PAGE_KEYS[event.key])
            return
        if self._end_hold_by(event):
            return
        if event.key in ("enter", "tab") and self._takes_typed_answer:
            self._move_draft_to_field()
        else:
            self._press(event)

    def _end_hold_by(self, event: events.Key) -> bool:
        """End the hold of a key because `event` follows; return whether that has handled the event, too.

        A letter and Enter choose the option of the letter, unless both came in one burst: that is a paste, such as `y`
        and a line break. Two letters are text. Other keys also choose an option that can be checked.
        """
        held = self._held_keys.end()
        if held is None or not (event.key == "enter" or event.is_printable or held.option.can_be_toggled):
            return False
        is_burst = held.is_in_burst_with(event)
        if held.option.can_be_toggled and self._is_answer(event) and not is_burst:
            self._choose(held.option)
            return False
        if (event.key == "enter" or held.key == "enter") and not is_burst:
            self._choose(held.option)
            return True
        self._index = held.index_before
        self._typed.add_held(held)
        if event.key == "enter" and self._takes_typed_answer:
            self._move_draft_to_field()
        else:
            self._type_into_draft(event)
        return True

    def _is_answer(self, event: events.Key) -> bool:
        """Return whether a key after the number of a choice that can be checked is not text: `3` after `1`."""
        return not event.is_printable or event.key == "space" or option_of(event.key, self.options) is not None

    def _press(self, event: events.Key) -> None:
        """Move, scroll, choose an option, or add the key to the draft."""
        option = option_of(event.key, self.options)
        if event.key == "tab" and self._form.text_index >= 0:
            option = self.options[self._form.text_index]
        elif event.key == "space" and self._form.is_multi_select:
            option = self.highlighted
        is_enter = event.key == "enter"
        belongs_to_panel = is_enter or option is not None or event.key in _ARROW_STEPS
        belongs_to_draft = self._typed.is_changed if is_enter else self._typed.is_writing and event.is_printable
        if self._typed.is_changed and event.key in ("up", "down"):
            # The first arrow key only ends the typing. No choice was highlighted; now the current one is.
            self._typed.end()
            self._paint()
        elif self._is_guarded() or not belongs_to_panel or belongs_to_draft:
            self._type_into_draft(event)
        elif event.key in ("up", "down"):
            self._index = (self._index + _ARROW_STEPS[event.key]) % len(self.options)
            self._paint()
        elif event.key in _ARROW_STEPS:
            self.view.scroll_by(_ARROW_STEPS[event.key])
        elif is_enter or (event.is_printable and event.key != "space"):
            # Space chooses an option that can be checked, and Enter sends the checked ones.
            self._hold(event, option or (SEND if self.highlighted.can_be_toggled else self.highlighted))
        else:
            self._choose(option or self.highlighted)

    def on_paste(self, event: events.Paste) -> None:
        """Add pasted text to the draft. It is never an answer, nor is the Enter after it."""
        if not self.is_writing_text:
            event.stop()
            self._paste_into_draft(event.text)

    def _paste_into_draft(self, text: str) -> None:
        if held := self._held_keys.end():
            self._index = held.index_before
            self._typed.add_held(held)
        self._typed.paste(text)
        self._paint()

    def _intercept(self, event: events.Key | events.Paste) -> bool:
        """Handle a key or a paste instead of the text field if it comes too early; return whether it was handled."""
        if self._text_field.moved_draft is not None and self._typed.is_guarded:
            self._typed.guard()
            return self._text_field.continue_burst(event)
        if not (self._form.begins_with_text and self._is_guarded()):
            return False
        # The question has just opened with the text field: the user types for the draft.
        if isinstance(event, events.Paste):
            self._paste_into_draft(event.text)
        else:
            self._type_into_draft(event)
        return True

    @on(QuestionView.Chosen)
    def _choose_clicked(self, event: QuestionView.Chosen) -> None:
        """Choose the clicked option, unless answers are still guarded."""
        event.stop()
        if not self._is_guarded() and event.index < len(self.options):
            self._held_keys.end()
            self._choose(self.options[event.index])

    @on(events.Resize)
    @on(QuestionView.ScreenResized)
    def _paint_resized(self) -> None:
        if self.shown_approval is not None:
            self._paint()

    @on(AnswerField.Changed)
    def _fit_field(self) -> None:
        """Adapt the height of the text field to its text, which is saved like a draft."""
        self._prompt.schedule_draft()
        if self.is_writing_text:
            self._paint()

    @on(AnswerField.Sent)
    def _decide_by_text(self, event: AnswerField.Sent) -> None:
        event.stop()
        if self._form.is_multi_select:
            self._send_checked()
        elif self.is_writing_text and (event.text or self._form.text_decision is Deny):
            self._text_field.moved_draft = None
            self._decide(self._form.text_decision(event.text))

    def _send_checked(self) -> None:
        """Answer with the checked choices and the text of the field, or show that there is no answer yet."""
        answer = self._form.checked_answer(self._text_field.whole_text.strip())
        if answer is None:
            self._form = replace(self._form, reason=NOTHING_CHECKED)
            self._show_choices()
        else:
            self._text_field.moved_draft = None
            self._decide(answer)

    def _type_into_draft(self, event: events.Key) -> None:
        """Type a key into the prompt, and guard against answers by the keys that follow."""
        self._typed.type_key(event, is_early=self._is_guarded())
        self._paint()
        if self._typed.is_changed:
            self._paint_after_pause()

    def _paint_after_pause(self) -> None:
        """Show that keys answer again, once no key has followed for a while."""
        if self._pause_timer is not None:
            self._pause_timer.stop()
            self._pause_timer = None
        if self._is_typing and not self._typed.is_writing:
            self._pause_timer = self.set_timer(GUARD_SECONDS, self._paint_after_pause)
        elif self.shown_approval is not None:
            self._paint()

    def _hold(self, event: events.Key, option: Option) -> None:
        """Highlight `option` and choose it after a pause, if no other key follows."""
        self._held_keys.hold(event, option, self._index)
        if self._held_keys.is_holding and event.key != "enter":
            self._index = self.options.index(option)
            self._paint()

    def _open(self) -> None:
        self._held_keys.end()
        self._prompt.schedule_draft()  # the text of a question that was answered is no longer unsent
        approval = self.shown_approval
        self.display = approval is not None
        if self.is_attached:
            self.screen.query_one("#prompt-row").display = approval is None
            set_screen_class(self.screen, "-asking", approval is not None, "#todos, #queued, #aside")
        if approval is None:
            self._is_field_open = False
            self.screen.query_one("#transcript").styles.max_height = None
            self._show_state(None)
            return
        mount_parts(self, self.view, self._text_field)
        self._prompt.close_menu()
        self._form = panel_form_of(approval)
        self._shown_detail = ApprovalDetail.of(self._form.format, approval.detail)
        self._index = self._form.initial_index
        self._typed.open()
        self._text_field.begin(approval.id, placeholder=self._form.hint)
        self.view.open(self._shown_detail)
        if self._form.begins_with_text:
            self._open_field()
        else:
            self._show_choices()

    def _is_guarded(self) -> bool:
        """Return whether a key comes too early to be meant as an answer, or the call is being revised."""
        return self._typed.is_guarded or self._questions.is_being_revised

    @property
    def _is_typing(self) -> bool:
        """Whether keys are text of the draft now."""
        return self._typed.is_being_typed or (self._typed.is_writing and not self.is_writing_text)

    @property
    def _takes_typed_answer(self) -> bool:
        """Whether Enter makes the typed text the answer."""
        return self._typed.is_writing and bool(self._form.typing_caption) and not self._form.is_text_only

    def _choose(self, option: Option) -> None:
        if option is BACK and self.shown_approval is not None:
            self._form = panel_form_of(self.shown_approval)
            self._index = 0
            self._paint()
        elif option.warning:
            self._form = confirmation_form(option, self._form)
            self._index = self.options.index(BACK)
            self._paint()
        elif option.can_be_toggled:
            self._index = self.options.index(option)
            self._form = self._form.with_toggled(option)
            self._paint()
        elif option is SEND:
            self._send_checked()
        elif option.decision is not None:
            self._decide(option.decision)
        else:
            self._open_field()

    def _decide(self, decision: Decision) -> None:
        approval = self.shown_approval
        if approval is None:
            return
        if self._text_field.moved_draft is not None:
            self._move_text_to_prompt()
        self._questions.remove(approval.id)
        self._text_field.approval_id = ""
        self.post_message(ApprovalDecided(approval.id, decision))
        self._open()

    def _show_choices(self) -> None:
        self._is_field_open = False
        self._paint()
        self.focus()

    def _open_field(self) -> None:
        """Open the text field, with the cursor at the end of the text that it already has."""
        self._is_field_open = True
        self._index = self._form.text_index
        self._typed.forget_changes()
        self._text_field.move_cursor(self._text_field.document.end)
        self._paint()
        self.focus()

    def _move_draft_to_field(self) -> None:
        """Move the typed text into the text field, where Enter sends it after a pause."""
        if BACK in self.options:
            self._choose(BACK)  # a warning has no choice with a text field
        typed = self._typed.take_answer()
        text = self._prompt.asides.without_labels(self._prompt.images.with_file_mentions(typed))
        self._text_field.add_draft(text, prompt_text=typed)
        self._typed.guard()
        self._open_field()

    def _paint(self) -> None:
        """Show everything at the current size; the text field has as many rows as its text, up to a limit."""
        height, field = self.app.size.height, self._text_field
        max_rows = max(1, min(_MAX_FIELD_ROWS, height // 4))
        field.display = self._is_field_open
        field.set_class(self._form.is_text_only, "-alone")
        field.styles.max_height = max_rows
        field_rows = min(max_rows, field.wrapped_document.height) if self._is_field_open else 0
        free_rows = self.view.paint(height - _STATUS_ROWS - field_rows)
        # A height of `1fr` is at least one row, which would push the status line off a very low screen.
        self.screen.query_one("#transcript").styles.max_height = None if free_rows else 0
        state = question_state(
            self.shown_approval,
            self._form,
            is_typing=self._is_typing,
            takes_typed_answer=self._takes_typed_answer,
            written_text=self._text_field.whole_text if self.is_writing_text else None,
        )
        self._show_state(state)

    def _question_text(self, width: int) -> QuestionText:
        """Return the parts of the shown question for a width in cells."""
        form = self._form
        is_warning = BACK in self.options
        reason = ((form.reason, style_of("risk" if is_warning else "dim")),) if form.reason else ()
        draft = self._typed.spans(
            width,
            is_typing=self._is_typing,
            answer_caption=self._form.typing_caption if self._takes_typed_answer else "",
            has_choices=not form.is_text_only,
        )
        return QuestionText(
            title=self._title_spans(width),
            notes=tuple(filter(None, (reason, draft))),
            options=() if form.is_text_only else self._shown_options(),
            current=self._index if self.has_highlighted_choice else -1,
            is_warning=is_warning,
            is_prose=form.format == "text",
            ends_with_name=bool(self._shown_detail.diff),
            hidden_notes=reason_list(form.reasons),
            show_all_key=self.view.show_all_key,
            draft_cursor=cursor_cell(draft),
        )

    def _shown_options(self) -> tuple[Option, ...]:
        """Return the options, with the effect of a held key that checks one."""
        form = self._form.with_toggled(self.highlighted) if self._held_keys.is_holding else self._form
        options = [replace(option, key=self.mode_key) if option.key == MODE_KEY else option for option in form.options]
        return shown_options(options, self._text_field.text, is_field_open=self._is_field_open)

    def _title_spans(self, width: int) -> tuple[Span, ...]:
        """Return the title, with the position among the questions of the reply, and the key that edits the call."""
        approval = self.shown_approval
        assert approval is not None
        is_revised = isinstance(approval, ToolApproval) and approval.is_revised
        notes = (self._questions.shown_position, "edited by you" if is_revised else "")
        hint = f"{self.edit_key} edits it" if self.edit_key and self.draft is not None else ""
        return title_spans(question_with_asker(approval), self._shown_detail.change, notes, hint, width)
