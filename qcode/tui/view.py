"""The actions of commands and keys on the app's screen. This module loads after the first paint.

Commands call them through the protocol `commands.command.View`. The actions of Esc and Ctrl+C are in
`commands.cancel_keys`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from textual.screen import Screen

from qcode.agent.context.attachments import attachment_line, of_last_run, restored_text
from qcode.agent.sessions.shown import precedes_prompt
from qcode.agent.settings import Setting
from qcode.agent.trust.service import RESTRICTED_NOTICE
from qcode.protocol.approvals import ApprovalMode, Draft, TurnOptions
from qcode.protocol.events import Level, Notice
from qcode.protocol.messages import Text
from qcode.text.clean import quoted
from qcode.text.match import unknown_name_error
from qcode.text.numbers import count_text
from qcode.text.sentences import capitalized
from qcode.tools.dialog import TodoItem
from qcode.tui.commands.cancel_keys import CancelKeys
from qcode.tui.failures import Failures, with_app_commands
from qcode.tui.main_widgets import MainWidgets
from qcode.tui.panels.aside import AsideTalk
from qcode.tui.panels.jobs import JobWatch
from qcode.tui.panels.servers import ServerWatch
from qcode.tui.panels.todos import todos_in
from qcode.tui.preferences import ModelUse, shown_effort
from qcode.tui.prompt.attachments import AttachmentFinder
from qcode.tui.prompt.editor import ExternalInput
from qcode.tui.prompt.prompt import Prompt
from qcode.tui.prompt.queue import Submission
from qcode.tui.session_title import SessionTitle
from qcode.tui.shell_lines import INTERRUPT_HINT, ShellLines
from qcode.tui.terminal import driver
from qcode.tui.terminal.clipboard import CopyResult
from qcode.tui.terminal.textual_internals import is_closing, is_mounted
from qcode.tui.terminal.themed_app import ThemedApp
from qcode.tui.theme import AUTO
from qcode.tui.transcript.line import shorten
from qcode.tui.transcript.replay import first_shown_message, replay, show_attached, show_earlier, show_end
from qcode.tui.transcript.transcript import Transcript
from qcode.tui.turns import Turns
from qcode.tui.welcome import Welcome

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.protocol.messages import Block
    from qcode.tools.jobs import Job
    from qcode.tui.screens.connect import ConnectResult
    from qcode.tui.shared_widgets import ScrollTarget


Result = TypeVar("Result")
_UNDO_PAUSE_SECONDS = 1.0
"""For this time after Ctrl+Z found nothing to undo, another Ctrl+Z does not suspend qcode."""
_NOTICE_TITLES: dict[Level, str] = {"info": "Note", "warning": "Warning", "error": "Error"}
"""The titles of a panel with notices, by level, the least severe first."""


class AppView:
    """The actions on the app's screen. `leave`, `copy`, `suspend_terminal` and `apply_setting` are the app's own."""

    def __init__(
        self,
        app: ThemedApp,
        agent: Agent,
        widgets: MainWidgets,
        turns: Turns,
        shell: ShellLines,
        attachments: AttachmentFinder,
        servers: ServerWatch,
        session_title: SessionTitle,
        *,
        welcome: Welcome,
        clock: Callable[[], float],
        leave: Callable[[], None],
        copy: Callable[[str], CopyResult],
        suspend_terminal: Callable[[], AbstractContextManager[None]],
        apply_setting: Callable[[Setting], bool],
    ) -> None:
        self.servers: ServerWatch = servers
        self.transcript: Transcript = widgets.transcript
        self.prompt: Prompt = widgets.prompt
        self.attachments = attachments
        self.turns: Turns = turns
        self.themed_app = app
        self._widgets, self._welcome = widgets, welcome
        self._first_model = agent.conversation.model
        self._clock = clock
        self._last_empty_undo = -_UNDO_PAUSE_SECONDS  # the time of the last Ctrl+Z that found nothing to undo
        self._agent, self._shell = agent, shell
        self._leave = leave
        self.jobs: JobWatch = JobWatch(agent, clock, notify=self.transcript.add_notice, show_count=self._show_job_count)
        self._connect_callbacks()
        self.aside: AsideTalk = AsideTalk(
            agent, lambda used: widgets.status.add_side_usage(used.usage, used.cost, used.by_model), self._add_aside
        )
        self.copy_text = copy
        self.failures: Failures = Failures(agent.report_crash, self.transcript.add_notice)
        self.session_title: SessionTitle = session_title
        self.apply_setting = apply_setting
        self._session_id = agent.conversation.session_id
        self._has_resumed = False
        self._panel_notices: list[Notice] = []
        self.model_use: ModelUse = ModelUse(agent, notify=self.notify, on_change=self._show_model)
        widgets.status.change(effort=shown_effort(agent.conversation))
        widgets.prompt.use_vim(agent.context.settings.ui.vim)
        self.cancel_keys: CancelKeys = CancelKeys(app, widgets, turns, shell, servers, clock, copy, self.close_aside)
        self._external_input = ExternalInput(
            app, widgets.prompt, attachments, notify=self.notify, show_hint=self.hint, suspend_terminal=suspend_terminal
        )

    @property
    def is_turn_running(self) -> bool:
        return self.turns.is_running

    @property
    def is_prompt_empty(self) -> bool:
        """Whether the prompt is empty and the user writes nothing elsewhere: no answer, no search text."""
        widgets = self._widgets
        return widgets.prompt.is_empty and not widgets.approval.is_writing_text and not widgets.search.is_open

    @property
    def is_prompt_focused(self) -> bool:
        return self.themed_app.focused is self._widgets.prompt

    @property
    def has_question(self) -> bool:
        return self._widgets.approval.shown_approval is not None

    @property
    def is_writing_answer(self) -> bool:
        """Whether the user is writing an answer or a reason in a question."""
        return self._widgets.approval.is_writing_text

    @property
    def is_asking_about_draft(self) -> bool:
        """Whether a question is open whose call the user can edit, or whose answer is a text."""
        return self._widgets.approval.is_editable

    def leave(self) -> None:
        """Leave the app. Ask first if that stops background jobs."""
        running = self.jobs.running
        if not running:
            self._leave()
            return
        from qcode.tui.screens.jobs import QuitPicker

        def on_answer(answer: str | None) -> None:
            if answer == "quit":
                self._leave()

        self.open_screen(QuitPicker(running), on_answer)

    def _show_job_count(self, count: int) -> None:
        self._widgets.status.change(jobs=count)

    def _connect_callbacks(self) -> None:
        """Connect the jobs to cards, and the attachments and the queue to the prompt."""
        self.turns.on_prompt_restored = lambda: self.run_later(self._show_usage())
        pending = self._agent.conversation.attachments
        pending.on_change = self._show_attachments
        self._show_attachments(pending.blocks)
        self.prompt.drop_attachment = self._drop_attachment
        queue = self._widgets.queue
        queue.on_change = self.prompt.save_draft
        self.prompt.queued_texts = lambda: queue.typed_texts
        self.prompt.answer_text = lambda: self._widgets.approval.unsent_text
        self.prompt.attached_texts = self._attached_texts
        self.prompt.restore_attached = self._restore_attached
        self.jobs.update_card = self.transcript.update_card
        self.turns.report_results(self.jobs.follow)
        self._shell.on_result = self.jobs.after_shell_line
        self._agent.toolbox.jobs.watcher = self._watch_job

    def _show_attachments(self, blocks: Sequence[Block]) -> None:
        states = {job.number: job.state for job in self.jobs.all}
        self._widgets.queue.show_attachments([attachment_line(block, states) for block in blocks])
        self.prompt.save_draft()

    def _attached_texts(self) -> list[str]:
        blocks = (*self._agent.conversation.attachments.blocks, *self.prompt.unsent_asides)
        return [self._agent.redact(block.text) for block in blocks if isinstance(block, Text)]

    def _restore_attached(self, texts: tuple[str, ...]) -> None:
        """Attach output of commands and side questions that the last process did not send, and show their cards."""
        blocks = tuple(Text(text) for text in map(of_last_run, texts) if show_attached(text, self.transcript))
        self._agent.conversation.attach(blocks)
        if blocks:
            self.notify("info", restored_text(blocks))

    def _drop_attachment(self) -> None:
        """Remove the last attachment of the next prompt, if there is one."""
        if self._agent.conversation.attachments.drop_last() is not None:
            self.jobs.forget_sent()

    def _watch_job(self, job: Job) -> None:
        """Show a change of a job and of its attached output, unless the app is closing: that ends every job."""
        if is_mounted(self.themed_app) and not is_closing(self.themed_app):
            self.themed_app.call_later(self.jobs.report_change, job)
            self.themed_app.call_later(lambda: self._show_attachments(self._agent.conversation.attachments.blocks))

    def ask_aside(self, question: str) -> None:
        """Ask a side question in its panel; an earlier one is cancelled."""
        self._widgets.help.close()
        presenter = self._widgets.aside.presenter(question, self._agent.context.settings.output.max_continuations)
        self.run_later(self.aside.ask(question, presenter))

    def close_aside(self) -> bool:
        """Close the panel of the side question and cancel its request; return False if it is not visible."""
        if not self._widgets.aside.close():
            return False
        self.aside.stop()
        return True

    def _add_aside(self, question: str, block: Text) -> str:
        """Add a side question to the prompt, which shows it as a label."""
        self.prompt.add_aside(question, block)
        return "Added to your prompt. Delete the label to remove it."

    @property
    def can_add_aside(self) -> bool:
        """Whether the visible side question has an answer that is not yet added to the conversation."""
        return self._widgets.aside.is_open and self.aside.has_answer

    def start_shell(self, line: str) -> None:
        self._shell.start(line)
        self.transcript.scroll_end(animate=False)

    def show_background_key(self, key: str) -> None:
        """Show on cards that `key`, such as `Ctrl+B`, moves their command to the background; empty: no key does."""
        hint = f"{key} to run in background" if key else ""
        self.jobs.background_key = key
        self.turns.show_background_hint(hint)
        self._shell.hint = f"{INTERRUPT_HINT} · {hint}" if hint else INTERRUPT_HINT

    def send_first(self, prompt: str) -> None:
        """Send the prompt from the command line as if it had been typed."""
        self._widgets.prompt.prompt_history.add(prompt)
        self.turns.submit(Submission(prompt, prompt))

    @property
    def todos(self) -> tuple[TodoItem, ...]:
        return self._widgets.todos.items or todos_in(self._agent.conversation.messages)

    def toggle_todos(self) -> bool:
        return self._widgets.todos.toggle()

    def notify(self, level: Level, text: str) -> None:
        """Show a notice, the answer to a command.

        If the end of the transcript is out of view, a panel shows it too, with all notices since the panel was opened.
        """
        text = with_app_commands(text)
        is_in_view = self.transcript.is_anchored
        self.transcript.add_notice(level, text)
        if is_in_view:
            return
        panel = self._widgets.help
        if not (panel.is_open and panel.heading in _NOTICE_TITLES.values()):
            self._panel_notices.clear()
        self._panel_notices.append(Notice(level, text))
        levels = {notice.level for notice in self._panel_notices}
        most_severe = next(level for level in reversed(_NOTICE_TITLES) if level in levels)
        self.show_panel(_NOTICE_TITLES[most_severe], "\n".join(notice.text for notice in self._panel_notices))

    def show_panel(self, title: str, text: str) -> None:
        self._widgets.help.show(title, text)

    def close_help(self) -> None:
        self._widgets.help.close()

    def toggle_panel(self, title: str, text: str) -> None:
        """Show the panel, or close it if it already shows `title`."""
        panel = self._widgets.help
        if panel.heading == title and panel.is_open:
            panel.close()
        else:
            panel.show(title, text)

    def open_screen(self, screen: Screen[Result], on_close: Callable[[Result | None], None]) -> None:
        self.themed_app.push_screen(screen, on_close)

    def run_later(self, work: Coroutine[Any, Any, object], *, may_open_screen: bool = False) -> None:
        work = self.failures.guard(work)
        if may_open_screen:
            work = self.themed_app.hold_input_during(work)
        self.themed_app.run_worker(work, group="command")

    def show_new_session(self) -> None:
        """Show an empty conversation: the welcome, no usage, no to-do list."""
        self._session_id = self._agent.conversation.session_id
        self._has_resumed = False
        self._widgets.transcript.clear()
        self._widgets.status.forget_session()
        self._widgets.todos.replace_items(())
        self._widgets.transcript.add_welcome(self._welcome_lines())

    def _welcome_lines(self) -> tuple[str, ...]:
        """Return the welcome, without the reason for the choice of the model if another model is in use."""
        model = self._agent.conversation.model
        if model != self._first_model or self._has_resumed:
            return replace(self._welcome, model_lines=(model,)).lines()
        return self._welcome.lines()

    def show_conversation(self) -> None:
        """Show the conversation again, after a rewind or after another session was resumed."""
        transcript, conversation = self._widgets.transcript, self._agent.conversation
        is_resumed = conversation.session_id != self._session_id
        self._session_id = conversation.session_id
        if is_resumed:
            self._has_resumed = True
            self._show_model()
            self.show_mode()
        transcript.clear()
        transcript.add_welcome(self._welcome_lines())
        if not self._agent.trust.is_trusted:
            transcript.add_notice("info", RESTRICTED_NOTICE)
        self.replay()
        show_end(conversation, transcript, is_resumed=is_resumed)
        self._widgets.todos.replace_items(todos_in(conversation.messages))
        transcript.scroll_end(animate=False)

    def replay(self) -> None:
        """Show the conversation as the user saw it, and its usage so far."""
        max_continuations = self._agent.context.settings.output.max_continuations
        stored, transcript, clock = self._agent.conversation.stored_messages, self._widgets.transcript, self._clock
        first = first_shown_message(stored)
        replay(stored[first:], transcript, clock, max_continuations=max_continuations)
        if first:
            self.run_later(show_earlier(stored[:first], transcript, clock, max_continuations=max_continuations))
        self.run_later(self._show_usage())

    async def _show_usage(self) -> None:
        """Show the session's title, and fill the status line. Counting takes a while, so it is done in a thread."""
        self.session_title.refresh()
        conversation, status = self._agent.conversation, self._widgets.status
        context = await asyncio.to_thread(conversation.context_report)
        status.forget_session()
        status.add_turns(conversation.usage())
        status.change(model=conversation.model, context_tokens=context.used, context_window=context.window)

    def put_in_prompt(self, text: str) -> None:
        """Write `text` into an empty prompt, selected, so that typing replaces it."""
        if self._widgets.prompt.is_empty:
            self._widgets.prompt.refill(text)
            if self._widgets.prompt.is_refilled:
                self.hint("type to replace the text · End to edit it")

    def put_back_command(self, command: str) -> None:
        """Put a refused command back into the prompt, selected, so that typing replaces it.

        It is not selected if its argument is still missing, or if the user has typed other text since.
        """
        if command.endswith(" ") or not self._widgets.prompt.is_empty:
            self._widgets.prompt.put_back(command)
        else:
            self.put_in_prompt(command)

    def _show_model(self) -> None:
        conversation, status_line = self._agent.conversation, self._widgets.status
        is_same_model = status_line.status.model == conversation.model
        window = status_line.status.context_window if is_same_model else 0  # 0: shown once it is known
        status_line.change(model=conversation.model, context_window=window, effort=shown_effort(conversation))
        self._widgets.transcript.change_welcome(self._welcome_lines())
        if conversation.model != self._first_model:
            status_line.forget_problem()
        elif not is_same_model:
            status_line.end_problem()

    def connect(self, provider: str) -> None:
        """Open the connect screen, at the key of `provider` if it is not empty."""
        from qcode.tui.screens.connect import ConnectScreen

        screen = ConnectScreen(
            self._agent.keys,
            self._clock,
            theme_notes=self.themed_app.theme_notes,
            theme=self.themed_app.theme_choice,
            preview_theme=self.themed_app.apply_theme,
            current_model=self._agent.conversation.model,
            provider=provider,
        )
        self.open_screen(screen, self._show_connected)

    def _show_connected(self, result: ConnectResult | None) -> None:
        if result is None:
            return
        if result.theme:
            self.use_theme(result.theme)
        if result.lines:
            self.notify("info", "\n".join(result.lines))
        if result.model:
            self.model_use.use(result.model)

    def show_mode(self) -> None:
        self._widgets.status.change(mode=self._agent.conversation.mode)

    def use_theme(self, name: str) -> bool:
        """Apply a theme and keep it for the next start; `auto` follows the terminal. Return False if it is unknown."""
        if name == AUTO or name in self.themed_app.theme_names:
            self.themed_app.apply_theme(name)
            self._agent.settings.choices.save_theme(name)
            return True
        text = unknown_name_error(f"theme {quoted(name)}", name, self.themed_app.theme_names, "/theme lists them.")
        self.notify("warning", text)
        return False

    def show_trust(self) -> None:
        self._widgets.status.change(is_restricted=not self._agent.trust.is_trusted)

    def copy_reply(self) -> None:
        """Open the list of replies and code blocks, the last reply first, including one that still streams."""
        from qcode.tui.screens.copy_picker import CopyPicker, copy_items

        running = self.transcript.content.live_text if self.turns.is_running else ""
        items = copy_items(self._agent.conversation.stored_messages, running)
        if not items:
            self.notify("info", "No reply to copy yet.")
            return

        def on_pick(picked_id: str | None) -> None:
            if picked_id is not None:
                item = items[int(picked_id)]
                result = self.copy_text(item.text)
                text = result.report(f"{item.name} ({count_text(len(item.text), 'character')})")
                self.notify("info" if result.is_copied else "warning", f"{capitalized(text)}.")

        self.open_screen(CopyPicker(items), on_pick)

    def suspend(self) -> None:
        """Undo a deletion in the prompt; with nothing to undo, suspend qcode.

        Directly after the last undo, show a hint instead: the user may press Ctrl+Z once too often.
        """
        prompt, now = self._widgets.prompt, self._clock()
        if prompt.undo_deletion():
            return
        follows_undo = prompt.is_emptied_by_undo or now - self._last_empty_undo < _UNDO_PAUSE_SECONDS
        if not driver.has_job_control():
            self.hint("cannot suspend: no shell to return to")
        elif follows_undo:
            prompt.is_emptied_by_undo = False
            self._last_empty_undo = now
            self.hint("nothing left to undo; Ctrl+Z after a pause suspends")
        else:
            self.themed_app.action_suspend_process()

    def open_link(self, address: str) -> None:
        """Open `address` in a browser; copy it if the user could not see a browser."""
        if driver.has_browser(os.environ, sys.platform) and not self.themed_app.is_headless:
            self.themed_app.open_url(address)
            self.hint(f"opening {shorten(address, 60)}")
        else:
            self.hint(self.copy_text(address).report(shorten(address, 40)))

    def toggle_search(self) -> None:
        search = self._widgets.search
        if not search.close(returns_to_start=False):
            self._widgets.help.close()
            search.open()

    def jump(self, step: int) -> None:
        """Scroll to the previous (-1) or next (1) message of the user."""
        if not self._widgets.transcript.jump_to_prompt(step):
            self.hint("no earlier messages" if step < 0 else "end of the transcript")

    def scroll_transcript(self, to: ScrollTarget) -> None:
        """Scroll the open menu, help or question by a page, otherwise the open side question or the transcript.

        `home` and `end` do not scroll the menu, the help and a question.
        """
        widgets, transcript = self._widgets, self.transcript
        if to == "page_up" or to == "page_down":
            step = -1 if to == "page_up" else 1
            if widgets.menu.is_open:
                widgets.menu.page(step)
                return
            if widgets.help.is_open:
                widgets.help.scroll_page(step)
                return
            if self.has_question and widgets.approval.view.scroll_page(to):
                return
        if widgets.aside.is_open:
            widgets.aside.scroll(to)
            return
        scroll = {
            "page_up": transcript.scroll_page_up,
            "page_down": transcript.scroll_page_down,
            "home": transcript.scroll_home,
            "end": transcript.scroll_end,
        }
        scroll[to](animate=False)

    def send(self, text: str, typed: str, options: TurnOptions) -> None:
        # A prompt after a command such as `/plan` may join the running turn, so it is sent without options.
        shown = typed if typed != text and not precedes_prompt(text, typed) else ""
        self.turns.submit(Submission(text, typed, options=replace(options, shown_prompt=shown)))

    def fold(self) -> None:
        """Fold or unfold the transcript; while a question is open, show all of the question in a pager."""
        approval = self._widgets.approval
        if approval.shown_approval is None:
            self._toggle_folds()
            return
        if not approval.view.has_more:
            self.hint("the whole question is in view")
            return
        from qcode.tui.screens.pager import PagerScreen

        self.open_screen(PagerScreen(approval.heading, approval.view.all_rows), lambda _: None)

    def _toggle_folds(self) -> None:
        """Fold or unfold all output, including later output; show a hint if that changes no visible row."""
        transcript = self.transcript
        if not transcript.has_folds:
            self.hint("nothing to unfold yet")
            return
        self.hint("")  # before the change, which shows the keys of a chosen card
        if not transcript.toggle_folds():
            self.hint("all output is unfolded now" if transcript.content.is_unfolded else "all output is folded again")

    def choose_card(self) -> None:
        """Let the user choose a card with keys and unfold it."""
        self.hint("")
        if not self._widgets.transcript.choose_card(self._end_choosing, self._show_card_keys):
            self.hint("no cards yet")

    def _show_card_keys(self, action: str) -> None:
        """Show the keys for the chosen card; `action` is the effect of Enter, empty if it has none."""
        enter_key = f"Enter {action} · " if action else ""
        self._widgets.status.change(hint=f"j k move · {enter_key}Esc close")

    def _end_choosing(self, typed: str) -> None:
        """Focus the open question or the prompt, and insert `typed`, which the user typed to leave the cards."""
        approval, prompt = self._widgets.approval, self._widgets.prompt
        self._widgets.status.change(hint="")
        if self.has_question:
            approval.focus()
            if typed:
                approval.write(typed)
        else:
            prompt.focus()
            if typed:
                prompt.paste_text(typed)

    def open_editor(self) -> None:
        """Edit the prompt, the answer to a question, or the call that a question is about."""
        approval = self._widgets.approval
        if approval.shown_approval is not None and approval.open_text_field():
            self.run_later(self._edit_answer(approval.shown_approval.id))
        elif approval.shown_approval is not None and approval.draft is not None:
            self.run_later(self._revise(approval.shown_approval.id, approval.draft))
        else:
            self.run_later(self._external_input.edit())

    async def _revise(self, approval_id: str, draft: Draft) -> None:
        """Open the call in the user's editor; if it was changed, ask again about the new call."""
        edited = await self._external_input.edited_text(draft.text, draft.file_name, "the call is unchanged")
        if edited is not None and edited != draft.text:
            self._widgets.approval.revise(approval_id, edited)

    async def _edit_answer(self, approval_id: str) -> None:
        approval = self._widgets.approval
        edited = await self._external_input.edited_text(approval.field_text, "answer.md", "the answer is unchanged")
        is_open = approval.shown_approval is not None and approval.shown_approval.id == approval_id
        has_failed = edited is None
        if is_open and not (has_failed and approval.field_text):
            approval.write((edited or "").rstrip("\n"), replaces=True)  # an empty text closes the field

    def edit_file(self, path: str) -> None:
        self.run_later(self._external_input.edit_file(path))

    def paste(self) -> None:
        self.run_later(self._external_input.paste())

    def write_prompt(self, text: str) -> None:
        """Replace the text of the prompt. Up restores the old text."""
        self._widgets.prompt.clear_into_history()
        self._widgets.prompt.put_back(text)

    def hint(self, text: str) -> None:
        """Show `text` in the status line for a moment."""
        self.cancel_keys.hint(text)

    def accept_plan(self, mode: ApprovalMode) -> bool:
        """Approve the open plan and switch to `mode`; return False if no plan is open."""
        return self._widgets.approval.accept_plan(mode)
