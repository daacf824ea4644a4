"""`qcode skills`: lists the skills that apply in this folder, and validates skills against the format.

It runs no command of a skill, and needs no model. A separate module, because each subcommand loads alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from qcode.agent.options import Options, RunContext
from qcode.cli.arguments import CommandLineError, invalid_arguments, parse_subcommand
from qcode.cli.context import folder_context
from qcode.cli.terminal import working_folder, write_stderr, write_stdout
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
        case _:
            raise invalid_arguments(words, _USE)


def _list(options: Options, *, is_json: bool) -> int:
    from qcode.agent.skills.library import SkillLibrary
    from qcode.agent.skills.listing import list_rows, list_text

    context, code = _context(options)
    if is_json:
        write_stdout(json.dumps(list_rows(SkillLibrary(context))) + "\n")
        return code
    write_stdout(f"{list_text(SkillLibrary(context))}\n")
    if not context.is_trusted:
        write_stdout("this folder is not trusted: its own skills are not read\n")
    return code


def _show(options: Options, name: str) -> int:
    from qcode.agent.skills.library import SkillLibrary
    from qcode.agent.skills.listing import detail_text

    context, code = _context(options)
    skills = SkillLibrary(context)
    try:
        skill = skills.find_discovered(name)
    except Refused as refused:
        # The error is written for the model and begins with the name of the tool.
        raise InputError(str(refused).removeprefix("skill: ")) from None
    write_stdout(f"{detail_text(skills, skill)}\n")
    return code


def _context(options: Options) -> tuple[RunContext, int]:
    """Return the context of the folder and the exit code, which is not 0 if the configuration is invalid."""
    context, problem = folder_context(options)
    if problem is None:
        return context, ExitCode.OK
    write_stderr(str(problem))
    return context, problem.exit_code


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
        is_valid = is_valid and not problems
        write_stdout(
            f"{'Validation failed for' if problems else 'Valid skill:'} {visible(str(path))}{':' if problems else ''}\n"
        )
        write_stdout("".join(f"  - {visible(problem)}\n" for problem in problems))
    return ExitCode.OK if is_valid else ExitCode.FAILED
