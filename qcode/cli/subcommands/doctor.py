"""`qcode doctor`: what needs attention in this folder, and the facts about it.

A separate module, because each subcommand loads alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from qcode.agent.doctor import report, report_json, report_lines
from qcode.cli.arguments import FOLDER_FLAGS, invalid_arguments, parse_subcommand
from qcode.cli.context import folder_context
from qcode.cli.terminal import write_lines
from qcode.protocol.errors import ExitCode
from qcode.text.clean import clean

_USE = f"use: qcode doctor {FOLDER_FLAGS}"


def run_doctor(arguments: Sequence[str]) -> int:
    """Print the findings; return the exit code, which is that of an invalid configuration."""
    options, words, flags = parse_subcommand("doctor", arguments, _USE)
    if words:
        raise invalid_arguments(words, _USE)
    context, problem = folder_context(options)
    findings = report(context, problem=problem)  # with the problem, so it is not reported again
    if "json" in flags:
        write_lines(json.dumps(report_json(findings)))
    else:
        write_lines(*map(clean, report_lines(findings)))
    return ExitCode.OK if problem is None else problem.exit_code
