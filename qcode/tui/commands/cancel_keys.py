"""Esc and Ctrl+C: close, interrupt or clear; pressed twice, rewind or quit.

Each key performs the first action that applies; a hint announces the effect of a second press.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App
from textual.timer import Timer

from qcode.text.numbers import count_text
from qcode.tui.layout import Widgets
from qcode.tui.panels.servers import ServerWatch
from qcode.tui.shell_lines import ShellLines
from qcode.tui.turns import Turns

_CLEAR = "clear the prompt"
_SECOND_PRESS_S = 2.0
_VIM_ESCAPE_S = 0.5


class CancelKeys:
    """The actions of Esc and Ctrl+C. `clock` returns seconds, to recognize a second press."""

    def __init__(
        self,
        app: App[int],
        widgets: Widgets,
        turns: Turns,
        shell: ShellLines,
        servers: ServerWatch,
        clock: Callable[[], float],
        copy: Callable[[str], str],
        close_aside: Callable[[], bool],
    ) -> None:
        self._app = app
        self._widgets = widgets
        self._turns = turns
        self._shell = shell
        self._servers = servers
        self._close_aside = close_aside
        self._clock = clock
        self._copy = copy
        self._again: tuple[str, float, str] | None = None
        self._announced_copy: tuple[str, float] = ("", float("-inf"))
        self._vim_escaped = float("-inf")
        self._forget_timer: Timer | None = None

    def escape(self, rewind: Callable[[], None] | None) -> None:
        """Close the topmost panel, or interrupt; pressed twice, clear the prompt or `rewind` if that is not None."""
        widgets = self._widgets
        if (
            widgets.help.close()
            or self._close_aside()
            or widgets.transcript.leave_cards()
            or widgets.search.close(returns_to_start=True)
            or widgets.prompt.leave_search()
            or self._escape_vim()
            or widgets.prompt.close_menu()
            or widgets.approval.go_back()
            or self._shell.stop()
            or self._stop_turn()
            or self._servers.defer()
        ):
            return
        if not widgets.prompt.is_empty:
            # In vim mode users press Esc out of habit, so it never clears the prompt.
            if not widgets.prompt.has_vim and self._is_pressed_again("Esc", _CLEAR):
                widgets.prompt.stash()
            return
        if rewind is not None and self._is_pressed_again("Esc", "rewind"):
            rewind()

    def _stop_turn(self) -> bool:
        """Interrupt the turn; say so in the status line if the end of the transcript is out of view."""
        is_stopped = self._turns.stop(takes_back=True)
        if is_stopped and not self._widgets.transcript.is_anchored:
            self.hint("interrupted")
        return is_stopped

    def _escape_vim(self) -> bool:
        """Pass Esc to vim mode. A second one right after it, pressed out of habit, must not interrupt."""
        if self._widgets.prompt.escape_vim():
            self._vim_escaped = self._clock()
            return True
        return self._widgets.prompt.has_vim and self._clock() - self._vim_escaped < _VIM_ESCAPE_S

    def interrupt(self, leave: Callable[[], None]) -> None:
        """Copy a selection; otherwise interrupt; otherwise clear the prompt; pressed twice, quit."""
        prompt = self._widgets.prompt
        selected = self._app.screen.get_selected_text() or self._widgets.approval.selected_text
        selected = selected or ("" if prompt.is_refilled else prompt.selected_text)
        (announced, since), self._announced_copy = self._announced_copy, ("", float("-inf"))
        if not selected and self._clock() - since <= _SECOND_PRESS_S:
            # A new attempt at the reply has replaced the selected text, but the hint still promises to copy it.
            selected = announced
        if selected:
            self.hint(f"copied {count_text(len(selected), 'character')} {self._copy(selected)}")
            self._app.screen.clear_selection()
            prompt.end_selection()
        elif prompt.leave_search() or self._shell.stop() or self._stop_turn():
            return
        elif not prompt.is_empty:
            prompt.stash()
        elif self._is_pressed_again("Ctrl+C", "quit"):
            leave()

    def announce_copy(self, text: str) -> None:
        """Show the hint that Ctrl+C copies `text`, selected in the transcript. It does so until the hint disappears."""
        self._announced_copy = (text, self._clock())
        self.hint(f"Ctrl+C copies {count_text(len(text), 'character')}")

    def forget(self) -> None:
        """Forget the first press of a key that acts when pressed twice: the user is typing now."""
        if self._again is not None:
            self._again = None
            self.hint("")

    def forget_clearing(self) -> None:
        """Forget a first Esc whose second press would clear the draft, because the draft has changed."""
        if self._again is not None and self._again[2] == _CLEAR:
            self.forget()

    def _is_pressed_again(self, key: str, purpose: str) -> bool:
        """Whether `key` was pressed a moment ago; otherwise show a hint that a second press will `purpose`."""
        now = self._clock()
        before, self._again = self._again, None
        self.hint("")
        if before is not None and before[0] == key and now - before[1] <= _SECOND_PRESS_S:
            return True
        self._again = (key, now, purpose)
        self.hint(f"press {key} again to {purpose}")
        return False

    def hint(self, text: str) -> None:
        """Show `text` in the status line for a moment."""
        self._widgets.status.change(hint=text)
        if self._forget_timer is not None:
            self._forget_timer.stop()
        self._forget_timer = self._app.set_timer(_SECOND_PRESS_S, self._forget, name="hint") if text else None

    def _forget(self) -> None:
        self._forget_timer = None
        self._widgets.status.change(hint="")
