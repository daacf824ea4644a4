"""An app in one of the themes: the one to start with, all others later, and light or dark as the terminal is."""

from __future__ import annotations

import os

from textual.app import App
from textual.driver import Driver

from qcode.tui.ground import GroundReported, asking, is_askable
from qcode.tui.setup import AppSetup
from qcode.tui.terminal_app import TerminalApp
from qcode.tui.themes import AUTO, choose_theme, first_theme, load_themes


class DressedApp(TerminalApp, inherit_bindings=False):
    """`theme_names` and `theme_problems` are empty until `add_themes` was called."""

    def __init__(self, setup: AppSetup) -> None:
        self.setup = setup  # before the rest: the class of the driver depends on it
        super().__init__()
        self.theme_names: tuple[str, ...] = ()
        self.theme_problems: tuple[str, ...] = ()
        self._dress()

    @property
    def has_chosen_theme(self) -> bool:
        """Whether the person has chosen a theme since the start."""
        return False

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return asking(driver) if self.setup.theme == AUTO and is_askable(os.environ) else driver

    def on_ground_reported(self, event: GroundReported) -> None:
        """Follow the terminal, unless the person has chosen a theme."""
        if not self.has_chosen_theme:
            self.add_themes()
            self.theme = choose_theme("dark" if event.is_dark else "light", self.theme_names, {})

    def _dress(self) -> None:
        """Put on the theme to start with; the others are read after the first paint where they do not matter for it."""
        setup = self.setup
        first = first_theme(setup.theme, setup.user_themes, os.environ)
        if first is None:
            self.add_themes()
            first = self.available_themes[choose_theme(setup.theme, self.theme_names, os.environ)]
        else:
            self.register_theme(first)
        # Setting it the usual way would have the style sheet parsed a second time before anything is shown.
        self.set_reactive(App.theme, first.name)
        self.set_class(first.dark, "-dark-mode", update=False)
        self.set_class(not first.dark, "-light-mode", update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def wear(self, name: str) -> None:
        """Put on the theme a setting names."""
        self.theme = choose_theme(name, self.theme_names, os.environ)

    def add_themes(self) -> None:
        """Read all themes, once."""
        if self.theme_names:
            return
        themes, self.theme_problems = load_themes(self.setup.user_themes)
        for theme in themes.values():
            self.register_theme(theme)
        self.theme_names = tuple(themes)
