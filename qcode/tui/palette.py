"""The command palette: Textual's own, fed by the command table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from qcode.tui.commands.command import Command, CommandHost, key_names
from qcode.tui.commands.keymap import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEFT_OUT = frozenset({"palette", "escape", "interrupt", "keys-empty", "quit-empty"})


class HasHost(Protocol):
    """The app, as far as the palette needs it."""

    @property
    def host(self) -> CommandHost: ...


class CommandProvider(Provider):
    """Offers every enabled command; its keys and slash name are part of what is shown."""

    async def discover(self) -> Hits:
        for command in self._commands():
            yield DiscoveryHit(command.title, partial(command.run, self._host, ""), help=self._help(command))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in self._commands():
            wording = " ".join((command.title, *command.names))
            if (score := matcher.match(wording)) > 0:
                run = partial(command.run, self._host, "")
                yield Hit(score, matcher.highlight(command.title), run, text=command.title, help=self._help(command))

    @property
    def _host(self) -> CommandHost:
        return cast("HasHost", self.app).host

    def _commands(self) -> Iterator[Command]:
        return (command for command in self._host.commands if command.id not in _LEFT_OUT)

    def _help(self, command: Command) -> str:
        keys = key_names(keys_of(command, self._host))
        ways = ", ".join(way for way in (f"/{command.names[0]}" if command.names else "", keys) if way)
        return f"{command.help} ({ways})" if ways else command.help
