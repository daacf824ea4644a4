"""`qcode acp`: the agent for editors, with the flags of a run. Loads apart from other subcommands: a client waits.

`--login` is how an editor lets the user add a key: it asks on the terminal, as `qcode auth login` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from qcode.cli.arguments import invalid_arguments, parse_subcommand

_USE = "use: qcode acp [--login], with the flags of model, limits, permissions, servers, settings and trust"


def run_acp_command(rest: Sequence[str]) -> int:
    """Serve an editor, or log in; return the exit code."""
    options, words, given = parse_subcommand("acp", rest, _USE)
    if words:
        raise invalid_arguments(words, _USE)
    if "login" in given:
        return log_in()
    from qcode.acp.run import run_acp

    return run_acp(options)


def log_in() -> int:
    """Ask for a provider and its key on the terminal, and store the key."""
    from qcode.cli.config import run_subcommand

    return run_subcommand("auth", ["login"])
