"""`qcode import`: lists the settings of other programs that qcode can use, and with `--write` imports them.

It runs nothing, and changes no file of another program.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qcode.agent.imports.configuration.findings import AddRule, AddServer, Change, SetMode, shown_path
from qcode.agent.imports.configuration.programs import PROGRAMS, ImportLocations, find_settings
from qcode.agent.imports.configuration.target import PlannedSetting, Target, WrittenFile
from qcode.agent.options import RunContext
from qcode.cli.arguments import CommandLineError, parse_subcommand
from qcode.cli.context import folder_context
from qcode.cli.terminal import write_lines, write_stderr
from qcode.cli.trust import untrusted_text
from qcode.config.paths import CONFIG_NAME, PROJECT_FOLDER
from qcode.protocol.errors import ExitCode
from qcode.text.clean import clean, single_spaced, visible
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text

_USE = "use: qcode import [claude|codex|gemini|qwen|opencode] [--write] [--json] [-C DIR] [--trust]"
_MARKS = {"new": "+", "same": "=", "taken": "!", "lost": "-", "read": "="}
"""The mark in the list for each `PlannedSetting.status`."""
_MAX_SHOWN_CHARS = 160


def run_import(arguments: Sequence[str]) -> int:
    """Print the plan, and with `--write` apply it. Return 1 if a deny rule is not enforced. Raise `QcodeError`."""
    options, words, flags = parse_subcommand("import", arguments, _USE)
    unknown = next((word for word in words if word not in PROGRAMS), None)
    if unknown is not None:
        raise CommandLineError(f'unknown program "{single_spaced(unknown, 60)}"; {_USE}')
    context, problem = folder_context(options)
    if problem is not None:
        raise problem
    home = context.env.get("HOME", "")
    user_target = Target(context.paths.config_file, context.paths.config_dir, home)
    reads_project = context.reads_project
    folder = context.root / PROJECT_FOLDER
    project = Target(folder / CONFIG_NAME, folder, home, context.root) if reads_project else None
    folders = ImportLocations(context.env, context.root, reads_project)
    plans = {name: _plan_import(name, folders, user_target, project) for name in words or PROGRAMS}
    is_written = "write" in flags
    files: list[WrittenFile] = []
    if is_written:
        files += user_target.write()
        if project is not None:
            files += project.write()
    if "json" in flags:
        write_lines(json.dumps(_as_json(plans, files), ensure_ascii=False, indent=2))
    else:
        write_lines(*map(clean, _lines(plans, context, files, is_written=is_written)))
    denials = [row for rows in plans.values() for row in rows if row.setting.is_lost_denial]
    for row in denials:
        write_stderr(f"{row.setting.location}: qcode does not enforce this rule: {visible(row.setting.name)}")
    return ExitCode.FAILED if denials else ExitCode.OK


def _plan_import(
    program: str, folders: ImportLocations, user_target: Target, project: Target | None
) -> list[PlannedSetting]:
    plans: list[PlannedSetting] = []
    for setting, is_project in find_settings(program, folders):
        target = project if is_project and project is not None else user_target
        plans.append(target.plan(setting, is_project=is_project))
    return plans


def _lines(
    plans: Mapping[str, Sequence[PlannedSetting]],
    context: RunContext,
    files: Sequence[WrittenFile],
    *,
    is_written: bool,
) -> Iterator[str]:
    """Yield the plan, its totals, and the written files, as lines."""
    rows = [row for plan in plans.values() for row in plan]
    for program, plan in plans.items():
        if plan:
            yield PROGRAMS[program]
            for row in plan:
                yield from _row_lines(row)
    if not rows:
        yield f"nothing to import from {', '.join(PROGRAMS[program] for program in plans)}"
    if not context.is_trusted:
        yield untrusted_text("files of the project are not read")
    if not rows:
        return
    counts = Counter(row.status for row in rows)
    partly_lost = [row for row in rows if row.setting.losses and row.status in ("new", "same")]
    yield (
        f"{counts['new']} to add (+), {counts['same'] + counts['read']} already present (=), {counts['taken']} "
        f"different in qcode (!), {counts['lost'] + len(partly_lost)} not or only partly imported (-)"
    )
    home = context.env.get("HOME", "")
    for file in files:
        yield f"{'saved a backup:' if file.is_backup else 'wrote'} {shown_path(file.path, home)}"
    if counts["new"] and not is_written:
        yield f"nothing was written; add --write to write {count_text(counts['new'], 'item')}"
    if files and any(row.is_project and row.status == "new" for row in rows):
        yield "files in .qcode have changed: qcode asks whether you trust them at the next start"


def _row_lines(row: PlannedSetting) -> Iterator[str]:
    setting = row.setting
    name = visible(single_spaced(setting.name, _MAX_SHOWN_CHARS))
    results = [_change_text(change) for change in setting.changes] if row.status in ("new", "same") else []
    result = f" -> {', '.join(results)}" if results else ""
    reason = f": {visible(single_spaced(row.reason, 400))}" if row.reason else ""
    yield f"  {_MARKS[row.status]} {setting.kind} {name}{result}{reason}  ({visible(setting.location)})"
    if row.status in ("new", "same"):
        yield from (f"    - {visible(single_spaced(line, 400))}" for line in setting.losses)


def _change_text(change: Change) -> str:
    match change:
        case AddServer(name=name, values=values):
            words = [str(values.get("command") or values.get("url")), *values.get("args", ())]
            return visible(single_spaced(f"mcp_servers.{name}: {' '.join(words)}", _MAX_SHOWN_CHARS))
        case AddRule(effect=effect, rule=rule):
            return f"{effect} {visible(single_spaced(rule, _MAX_SHOWN_CHARS))}"
        case SetMode(mode=mode):
            return f"permissions.mode = {mode}"
    return f"{change.folder}/{change.name.replace(':', '/')}.md"


def _as_json(plans: Mapping[str, Sequence[PlannedSetting]], files: Sequence[WrittenFile]) -> JsonObject:
    rows: list[Any] = [_row(program, row) for program, plan in plans.items() for row in plan]
    return {"items": rows, "written": [str(file.path) for file in files]}


def _row(program: str, row: PlannedSetting) -> JsonObject:
    setting = row.setting
    return {
        "program": program,
        "kind": setting.kind,
        "name": setting.name,
        "where": setting.location,
        "status": row.status,
        "is_project": row.is_project,
        "becomes": [_change_text(change) for change in setting.changes],
        "why": row.reason or None,
        "lost": list(setting.losses),
        "is_lost_denial": setting.is_lost_denial,
    }
