"""An app that applies qcode's themes and follows the background of the terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from textual import on
from textual.app import App
from textual.driver import Driver
from textual.filter import LineFilter
from textual.theme import Theme

from qcode.text.clean import quoted
from qcode.tui.terminal.cell_style import NoColors
from qcode.tui.terminal.driver import TerminalApp
from qcode.tui.terminal.input import (
    TerminalBackgroundChanged,
    can_query_background,
    count_typed_ahead,
    query_background,
)
from qcode.tui.terminal.textual_internals import refresh_ansi_colors, repaint_moved_widgets
from qcode.tui.theme import (
    AUTO,
    TERMINAL,
    TERMINAL_LIGHT,
    choose_theme,
    first_theme,
    for_256_colors,
    load_themes,
    theme_note,
)


class ThemedApp(TerminalApp, inherit_bindings=False):
    """An app with qcode's themes.

    `configured_theme` is the theme in the settings, `user_themes` the folder of the user's theme files.

    A terminal with 16 colors or none shows only themes that use the colors of the terminal. Any other theme is replaced
    by `terminal`: with the nearest of 16 colors, text would be invisible, and added lines would look like removed ones.
    """

    def __init__(self, configured_theme: str, user_themes: Path) -> None:
        self._configured_theme = configured_theme
        self._chosen = configured_theme  # the setting, or the theme that the user chose last
        self._background = ""  # `dark` or `light`, once the terminal has reported it
        self._user_themes = user_themes
        # The themes of qcode as adapted to 256 colors, by name; None before the first use of a theme.
        self._adapted_themes: dict[str, Theme | None] = {}
        repaint_moved_widgets()
        super().__init__()
        self.theme_names: tuple[str, ...] = ()
        """The names of all themes; empty before `add_themes`."""
        self.theme_problems: tuple[str, ...] = ()
        """A sentence for each theme file that cannot be used; empty before `add_themes`."""
        self._apply_first_theme()

    def get_driver_class(self) -> type[Driver]:
        driver = count_typed_ahead(super().get_driver_class())
        # Also for another theme: the user may switch to `auto` later.
        return query_background(driver) if can_query_background(os.environ) else driver

    @on(TerminalBackgroundChanged)
    def _follow_background(self, event: TerminalBackgroundChanged) -> None:
        """Follow the terminal if the theme is `auto`, or if it has too few colors for the theme."""
        self._background = "dark" if event.is_dark else "light"
        depends_on_background = not self.no_color if self.has_few_colors else self._chosen == AUTO
        if depends_on_background:
            self.add_themes()
            self.theme = self._theme_for(self._chosen)

    def _apply_first_theme(self) -> None:
        """Apply the first theme. The others are loaded after the first paint, unless they are needed to choose it."""
        has_few_colors = self.has_few_colors
        first = first_theme(self._chosen, self._user_themes, os.environ, has_few_colors=has_few_colors)
        if first is None:
            self.add_themes()
            first = self.available_themes[self._theme_for(self._chosen)]
        else:
            self.add_theme(first)
        # Setting `self.theme` would parse the style sheet a second time before the first paint.
        self.set_reactive(App.theme, first.name)
        self.set_class(first.dark, "-dark-mode", update=False)
        self.set_class(not first.dark, "-light-mode", update=False)
        refresh_ansi_colors(self)
        self.stylesheet.set_variables(self.get_css_variables())

    def add_theme(self, theme: Theme) -> None:
        """Register a theme. If the terminal has 256 colors, it is adapted at its first use."""
        if self.available_themes.get(theme.name) != theme:
            self._adapted_themes[theme.name] = None
            self.register_theme(theme)

    def get_theme(self, theme_name: str) -> Theme | None:
        """Return a theme, adapted if the terminal has 256 colors; None for an unknown name."""
        theme = super().get_theme(theme_name)
        if theme is None or theme.name not in self._adapted_themes:
            return theme
        if theme.ansi or self.console.color_system != "256":
            return theme
        adapted = self._adapted_themes[theme.name]
        if adapted is None:
            self._adapted_themes[theme.name] = adapted = for_256_colors(theme)
        return adapted

    def get_line_filters(self) -> Sequence[LineFilter]:
        return (_NO_COLORS,) if self.no_color else super().get_line_filters()

    def _theme_for(self, chosen: str) -> str:
        """Return the name of the theme to show if the user has chosen `chosen`, as far as the terminal can show it."""
        if not self.has_few_colors:
            name = self._background if chosen == AUTO and self._background else chosen
            return choose_theme(name, self.theme_names, os.environ)
        name = choose_theme(chosen, self.theme_names, os.environ, has_few_colors=True)
        if chosen != AUTO and self.available_themes[name].ansi:
            return name
        reported = {"dark": TERMINAL, "light": TERMINAL_LIGHT}.get(self._background, "")
        fitting = reported or choose_theme(AUTO, self.theme_names, os.environ, has_few_colors=True)
        return fitting if fitting in self.theme_names else name

    @property
    def theme_choice(self) -> str:
        """The theme as the user names it: `auto` if it follows the terminal."""
        return self._chosen if self._chosen in (AUTO, *self.theme_names) else self.theme

    @property
    def theme_notes(self) -> dict[str, str]:
        """The themes to choose from, each with a note about it."""
        themes = {name: self.available_themes[name] for name in self.theme_names}
        has_few_colors = self.has_few_colors
        notes = {
            name: theme_note(theme) + (", needs 256 colors" if has_few_colors and not theme.ansi else "")
            for name, theme in themes.items()
        }
        return {AUTO: "follows the terminal", **notes}

    def apply_theme(self, name: str) -> None:
        """Apply the theme that a setting names; `auto` is the one for the background that the terminal reported."""
        self._chosen = name
        self.theme = self._theme_for(name)

    def all_theme_problems(self) -> tuple[str, ...]:
        """Return a sentence for each theme file that cannot be used, and for a wanted theme that does not exist."""
        if self._configured_theme in (*self.theme_names, AUTO):
            return self.theme_problems
        missing = f"Unknown theme {quoted(self._configured_theme)}; using {self.theme}. /theme lists the themes."
        return (*self.theme_problems, missing)

    def add_themes(self) -> None:
        """Load all themes, once."""
        if self.theme_names:
            return
        themes, self.theme_problems = load_themes(self._user_themes)
        for theme in themes.values():
            self.add_theme(theme)
        self.theme_names = tuple(themes)


_NO_COLORS = NoColors()
