"""`qcode themes`: the names of the themes. A separate module, because each subcommand loads alone."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from qcode.cli.arguments import invalid_arguments, parse_subcommand
from qcode.cli.terminal import working_folder, write_lines, write_stderr
from qcode.config.paths import ConfigPaths
from qcode.protocol.errors import ExitCode
from qcode.tui.theme import load_themes

_USE = "use: qcode themes [-C DIR] [--json]"


def run_themes(arguments: Sequence[str]) -> int:
    """Print the names of the themes, and problems of theme files on stderr; return the exit code."""
    options, words, flags = parse_subcommand("themes", arguments, _USE)
    if words:
        raise invalid_arguments(words, _USE)
    working_folder(options.cwd)  # the themes do not depend on the folder, but it must exist
    themes, problems = load_themes(ConfigPaths.from_env(os.environ).config_dir / "themes")
    for problem in problems:
        write_stderr(problem)
    if "json" in flags:
        write_lines(json.dumps(sorted(themes)))
    else:
        write_lines(*sorted(themes))
    return ExitCode.OK
