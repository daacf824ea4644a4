"""The subcommands (`qcode config`, `qcode sessions`, ...). Each module loads when its command runs."""

from __future__ import annotations

from collections.abc import Sequence


def run_subcommand(name: str, arguments: Sequence[str]) -> int:
    """Run a subcommand and return its exit code; raise `CommandLineError` or `QcodeError`."""
    match name:
        case "auth":
            from qcode.cli.subcommands.auth import run_auth as run
        case "batch":
            from qcode.cli.subcommands.batch.batch import run_batch as run
        case "config":
            from qcode.cli.subcommands.config import run_config as run
        case "doctor":
            from qcode.cli.subcommands.doctor import run_doctor as run
        case "help":
            from qcode.cli.subcommands.help import run_help as run
        case "hooks":
            from qcode.cli.subcommands.hooks import run_hooks as run
        case "import":
            from qcode.cli.subcommands.imports import run_import as run
        case "mcp":
            from qcode.cli.subcommands.mcp import run_mcp as run
        case "models":
            from qcode.cli.subcommands.models import run_models as run
        case "permissions":
            from qcode.cli.subcommands.permissions import run_permissions as run
        case "replay":
            from qcode.cli.subcommands.replay import run_replay as run
        case "sessions":
            from qcode.cli.subcommands.sessions import run_sessions as run
        case "skills":
            from qcode.cli.subcommands.skills import run_skills as run
        case "stats":
            from qcode.cli.subcommands.sessions import run_stats as run
        case "themes":
            from qcode.cli.subcommands.themes import run_themes as run
        case "trust":
            from qcode.cli.trust import run_trust as run
        case "uninstall":
            from qcode.cli.subcommands.uninstall import run_uninstall as run
        case "update":
            from qcode.cli.subcommands.update import run_update as run
        case _:
            raise KeyError(name)
    return run(arguments)
