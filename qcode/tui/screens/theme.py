"""The theme picker: each theme is on while it is highlighted; Enter keeps it, leaving puts the old one back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qcode.tui.screens.picker import Picker, Row


class ThemePicker(Picker):
    """Picks a theme. `use` puts one on, by name; `themes` are names with what is to be said about each."""

    ENTER = "keep"

    def __init__(self, themes: Sequence[tuple[str, str]], current: str, use: Callable[[str], None]) -> None:
        rows = [Row(name, name, detail, name == current) for name, detail in themes]
        super().__init__("Theme", rows, empty="There are no themes. Reinstall qcode.")
        self._current = current
        self._use = use
        self._worn = current

    def show_row(self, row: Row | None) -> None:
        name = row.id if row is not None else self._current
        if name != self._worn:
            self._worn = name
            self._use(name)

    def action_leave(self) -> None:
        """Leave at once, also with a filter: what is seen must be what was there before."""
        if self._worn != self._current:
            self._use(self._current)
        self.dismiss(None)
