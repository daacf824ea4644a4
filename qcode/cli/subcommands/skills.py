"""`qcode skills`: lists the skills that apply in this folder, and validates skills against the format.

It runs no command of a skill, and needs no model. A separate module, because each subcommand loads alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from qcode.agent.options import Options
from qcode.cli.arguments import CommandLineError, invalid_arguments, missing_argument, parse_subcommand
from qcode.cli.context import folder_context, report_problem
from qcode.cli.terminal import working_folder, write_lines
from qcode.cli.trust import untrusted_text
from qcode.protocol.errors import ExitCode, InputError
from qcode.protocol.tools import Refused
from qcode.text.clean import visible

_USE = "use: qcode skills [list] [--json], skills show NAME, or skills check [DIR]"


def run_skills(arguments: Sequence[str]) -> int:
    """Print the answer and return the exit code; raise `CommandLineError` or `QcodeError`."""
    options, words, flags = parse_subcommand("skills", arguments, _USE)
    if "json" in flags and words not in ([], ["list"]):
        raise CommandLineError(f"--json only works with list; {_USE}")
    match words:
        case [] | ["list"]:
            return _list(options, is_json="json" in flags)
        case ["show", name]:
            return _show(options, name)
        case ["check"]:
            return _check(working_folder(options.cwd))
        case ["check", path]:
            return _check(working_folder(options.cwd) / path)
        case ["show"]:
            raise missing_argument(_USE)
        case _:
            raise invalid_arguments(words, _USE)


def _list(options: Options, *, is_json: bool) -> int:
    from qcode.agent.skills.library import SkillLibrary
    from qcode.agent.skills.listing import list_rows, list_text

    context, problem = folder_context(options)
    exit_code = report_problem(problem)
    if is_json:
        write_lines(json.dumps(list_rows(SkillLibrary(context))))
        return exit_code
    write_lines(list_text(SkillLibrary(context), context))
    if not context.is_trusted:
        write_lines(untrusted_text("its own skills are not read"))
    return exit_code


def _show(options: Options, name: str) -> int:
    from qcode.agent.skills.library import SkillLibrary
    from qcode.agent.skills.listing import detail_text

    context, problem = folder_context(options)
    exit_code = report_problem(problem)
    skills = SkillLibrary(context)
    try:
        skill = skills.find_discovered(name)
    except Refused as refused:
        # The error is written for the model and begins with the name of the tool.
        raise InputError(str(refused).removeprefix("skill: ")) from None
    write_lines(detail_text(skills, skill))
    return exit_code


def _check(target: Path) -> int:
    """Check a skill, given its folder or `SKILL.md`, or all skills below a folder; return 1 if one breaks a rule."""
    from qcode.agent.skills.discovery import SkillFolder, skill_files
    from qcode.agent.skills.skill import skill_file
    from qcode.agent.skills.strict import check_folder

    if target.is_file() and target.name.lower() == "skill.md":
        target = target.parent
    folders = [target]
    if target.is_dir() and skill_file(target) is None:
        folders = [file.parent for file in skill_files(SkillFolder(target, str(target)))] or [target]
    is_valid = True
    for path in folders:
        problems = check_folder(path)
        if problems:
            is_valid = False
            listed = [f"  - {visible(problem)}" for problem in problems]
            write_lines(f"Validation failed for {visible(str(path))}:", *listed)
        else:
            write_lines(f"Valid skill: {visible(str(path))}")
    return ExitCode.OK if is_valid else ExitCode.FAILED
