"""The command of tool servers."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.tui.commands.command import Command, CommandHost, nearest
from qcode.tui.servers import details, listing

_TITLE = "Tool servers"


def _mcp(host: CommandHost, argument: str) -> None:
    first, _, rest = argument.partition(" ")
    is_restart = first == "restart" and bool(rest.strip())
    name = rest.strip() if is_restart else argument
    found = next((status for status in host.servers.statuses if status.name == name), None)
    if name and found is None:
        close = nearest(name, [status.name for status in host.servers.statuses])
        host.say("warning", f"There is no tool server {name!r}." + (f" Did you mean {close}?" if close else ""))
    elif is_restart:
        host.servers.restart(name)
        host.say("info", f"Starting {name} again.")
    elif found is not None:
        host.show_panel(f"{_TITLE}: {found.name}", details(found))
    else:
        host.show_panel(_TITLE, listing(host.servers.statuses))
        host.servers.ask_again()


def _choices(host: CommandHost) -> Sequence[str]:
    names = [status.name for status in host.servers.statuses]
    return (*names, *(f"restart {name}" for name in names))


SERVERS: tuple[Command, ...] = (
    Command(
        "mcp",
        "Tool servers",
        "Show the tool servers and their tools, ask what waits, start one again.",
        _mcp,
        ("mcp",),
        "[name | restart name]",
        _choices,
    ),
)
