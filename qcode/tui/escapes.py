"""What Esc and Ctrl+C do: close, interrupt, clear, and, pressed twice, go back or leave.

Each does the one thing that is nearest; the hint at the foot says what a second press would do.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App
from textual.timer import Timer
from textual.widgets.text_area import Selection

from qcode.tui.commands.command import CommandHost, find
from qcode.tui.figures import count_text
from qcode.tui.servers import ServerWatch
from qcode.tui.shell_lines import ShellLines
from qcode.tui.turns import Turns
from qcode.tui.widgets import Widgets

_AGAIN_SECONDS = 2.0


class Escapes:
    """The ways out of what is open or running; `clock` tells how long ago a key was pressed, in seconds."""

    def __init__(
        self,
        app: App[int],
        widgets: Widgets,
        turns: Turns,
        shell: ShellLines,
        servers: ServerWatch,
        *,
        clock: Callable[[], float],
        copy: Callable[[str], str],
    ) -> None:
        self._app = app
        self._widgets = widgets
        self._turns = turns
        self._shell = shell
        self._servers = servers
        self._clock = clock
        self._copy = copy
        self._again: tuple[str, float] | None = None
        self._forgetting: Timer | None = None

    def escape(self, host: CommandHost) -> None:
        """Close what is open; otherwise interrupt; otherwise, the second time, clear the prompt or rewind."""
        widgets = self._widgets
        if (
            widgets.help.close()
            or widgets.search.close(is_going_back=True)
            or widgets.prompt.leave_search()
            or widgets.prompt.close_menu()
            or widgets.approval.leave_telling()
            or self._shell.stop()
            or self._turns.stop()
            or self._servers.put_off()
        ):
            return
        if not widgets.prompt.is_empty:
            if self._is_pressed_again("Esc", "clear the prompt"):
                widgets.prompt.stash()
            return
        rewind = find("rewind", host.commands)
        if rewind is not None and rewind.when(host) and self._is_pressed_again("Esc", "rewind"):
            rewind.run(host, "")

    def interrupt(self, host: CommandHost) -> None:
        """Copy a selection; otherwise interrupt; otherwise clear the prompt; otherwise, the second time, quit."""
        prompt = self._widgets.prompt
        selected = self._app.screen.get_selected_text() or prompt.selected_text
        if selected:
            self.hint(f"copied {count_text(len(selected), 'character')} {self._copy(selected)}")
            self._app.screen.clear_selection()
            prompt.selection = Selection.cursor(prompt.cursor_location)
        elif prompt.leave_search() or self._shell.stop() or self._turns.stop():
            return
        elif not prompt.is_empty:
            prompt.stash()
        elif self._is_pressed_again("Ctrl+C", "quit"):
            host.leave()

    def _is_pressed_again(self, key: str, purpose: str) -> bool:
        """Whether `key` was pressed before, just now; otherwise say that a second time will do `purpose`."""
        now = self._clock()
        before, self._again = self._again, None
        self.hint("")
        if before is not None and before[0] == key and now - before[1] <= _AGAIN_SECONDS:
            return True
        self._again = (key, now)
        self.hint(f"press {key} again to {purpose}")
        return False

    def hint(self, text: str) -> None:
        """Show `text` at the foot for a moment."""
        self._widgets.status.change(hint=text)
        if self._forgetting is not None:
            self._forgetting.stop()
        self._forgetting = self._app.set_timer(_AGAIN_SECONDS, self._forget, name="hint") if text else None

    def _forget(self) -> None:
        self._forgetting = None
        self._widgets.status.change(hint="")
