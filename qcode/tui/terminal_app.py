"""An app that knows whether the terminal is its own: it writes to it only then, and takes it back whatever happens."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from textual.app import App

if TYPE_CHECKING:
    from collections.abc import Iterator


class TerminalApp(App[int], inherit_bindings=False):
    """`_is_lent`: another program has the terminal."""

    _is_lent = False

    @contextmanager
    def _lend(self) -> Iterator[None]:
        """Give the terminal away; nothing is written to it until it is back."""
        suspended = self.suspend()
        with self.batch_update():
            suspended.__enter__()
            self._is_lent = True
            try:
                yield
            finally:
                self._is_lent = False
                # Textual 8.2 takes the terminal back only where nothing was raised, so it is told of nothing.
                suspended.__exit__(None, None, None)

    def _write(self, sequence: str) -> None:
        """Write a sequence that Textual has no call for to the terminal, where there is one."""
        if sequence and self._driver is not None and not self.is_headless and not self._is_lent:
            self._driver.write(sequence)
