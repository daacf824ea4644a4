"""Esc and Ctrl+C: close, interrupt or clear; pressed twice, rewind or quit.

Each key performs the first action that applies; a hint announces the effect of a second press.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App
from textual.timer import Timer

from qcode.text.numbers import count_text
from qcode.tui.main_widgets import MainWidgets
from qcode.tui.panels.servers import ServerWatch
from qcode.tui.shell_lines import ShellLines
from qcode.tui.terminal.clipboard import CopyResult
from qcode.tui.turns import Turns
from qcode.values import dataclass

_CLEAR = "clear the prompt"
_SECOND_PRESS_S = 2.0
"""The time in which a second press counts, and for which a hint is shown."""
_VIM_ESCAPE_S = 0.5
"""For this time after Esc has left vim's insert mode, another Esc has no effect."""


@dataclass(frozen=True, slots=True)
class _FirstPress:
    """The first press of a key whose second press has an effect."""

    key: str
    time: float
    effect: str


class CancelKeys:
    """The actions of Esc and Ctrl+C.

    `clock` returns seconds. `copy` copies a text. `close_aside` closes the side question and returns whether one was
    open.
    """

    def __init__(
        self,
        app: App[int],
        widgets: MainWidgets,
        turns: Turns,
        shell: ShellLines,
        servers: ServerWatch,
        clock: Callable[[], float],
        copy: Callable[[str], CopyResult],
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
        self._last_key = ""
        self._first_press: _FirstPress | None = None
        self._announced_text = ""  # the selected text that the hint promises to copy
        self._announced_until = float("-inf")
        self._vim_escape_time = float("-inf")
        self._hint_timer: Timer | None = None

    def escape(self, rewind: Callable[[], None] | None) -> None:
        """Close an open panel or menu, interrupt a shell line or the turn, or postpone the question of a tool server.

        Only the first of these that applies is done. If none applies, a second press clears the prompt, except in vim
        mode. In an empty prompt, a second press calls `rewind` unless it is None.
        """
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
                widgets.prompt.clear_into_history()
            return
        if rewind is not None and self._is_pressed_again("Esc", "rewind"):
            rewind()

    def _stop_turn(self) -> bool:
        """Interrupt the turn. The transcript reports it at its end; if the end is out of view, show a hint, too."""
        is_stopped = self._turns.stop(restores_prompt=True)
        if is_stopped and not self._widgets.transcript.is_anchored:
            self.hint("interrupted")
        return is_stopped

    def _escape_vim(self) -> bool:
        """Pass Esc to vim mode; return whether vim used it, or used another Esc less than `_VIM_ESCAPE_S` ago."""
        if self._widgets.prompt.escape_vim():
            self._vim_escape_time = self._clock()
            return True
        return self._widgets.prompt.has_vim and self._clock() - self._vim_escape_time < _VIM_ESCAPE_S

    def interrupt(self, leave: Callable[[], None]) -> None:
        """Copy a selection; otherwise interrupt; otherwise clear the prompt; pressed twice, quit."""
        prompt = self._widgets.prompt
        selected = self._app.screen.get_selected_text() or self._widgets.approval.selected_text
        if not selected and not prompt.is_refilled:
            selected = prompt.selected_text
        if not selected and self._clock() <= self._announced_until:
            # A new attempt at the reply has replaced the selected text, but the hint still promises to copy it.
            selected = self._announced_text
        self._announced_text = ""
        if selected:
            self.hint(self._copy(selected).report(count_text(len(selected), "character")))
            self._app.screen.clear_selection()
            prompt.end_selection()
        elif prompt.leave_search() or self._shell.stop() or self._stop_turn():
            return
        elif not prompt.is_empty:
            prompt.clear_into_history()
        elif self._is_pressed_again("Ctrl+C", "quit"):
            leave()

    def announce_copy(self, text: str) -> None:
        """Show the hint that Ctrl+C copies `text`, which was selected in the transcript.

        Until the hint disappears, Ctrl+C copies this text even if it is no longer in the transcript.
        """
        self._announced_text = text
        self._announced_until = self._clock() + _SECOND_PRESS_S
        self.hint(f"Ctrl+C copies {count_text(len(text), 'character')}")

    def note_key(self, key: str) -> None:
        """Forget a first press and hide its hint if `key` differs from the last key. `key` is empty for a paste."""
        if key != self._last_key:
            self._first_press = None
            if self._hint_timer is not None:
                self.hint("")
        self._last_key = key

    def _forget_first_press(self) -> None:
        if self._first_press is not None:
            self._first_press = None
            self.hint("")

    def forget_clear_press(self) -> None:
        """Forget a first Esc whose second press would clear the prompt, because its text has changed."""
        if self._first_press is not None and self._first_press.effect == _CLEAR:
            self._forget_first_press()

    def _is_pressed_again(self, key: str, effect: str) -> bool:
        """Return whether this is the second press of `key`; otherwise show a hint with the effect of a second press."""
        now = self._clock()
        previous = self._first_press
        self._first_press = None
        self.hint("")
        if previous is not None and previous.key == key and now - previous.time <= _SECOND_PRESS_S:
            return True
        self._first_press = _FirstPress(key, now, effect)
        self.hint(f"press {key} again to {effect}")
        return False

    def hint(self, text: str) -> None:
        """Show `text` in the status line for a moment."""
        self._widgets.status.change(hint=text)
        if self._hint_timer is not None:
            self._hint_timer.stop()
        self._hint_timer = self._app.set_timer(_SECOND_PRESS_S, self._clear_hint, name="hint") if text else None

    def _clear_hint(self) -> None:
        self._hint_timer = None
        self._widgets.status.change(hint="")
