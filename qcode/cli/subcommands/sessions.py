"""`qcode sessions`: list, show, export, delete and import the sessions of a folder; `qcode stats`: their totals.

Sessions are exported to a new file or to standard output. An import does not change the files of other programs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcode.agent.context.project import find_project_root
from qcode.agent.sessions.file import open_elsewhere_text
from qcode.agent.sessions.store import SessionStore, SessionSummary, first_words
from qcode.cli.arguments import FOLDER_FLAGS, invalid_arguments, missing_argument, parse_subcommand, usage_of
from qcode.cli.context import folder_context, report_problem
from qcode.cli.terminal import InputEnded, ask, short_path, write_lines, write_stderr, write_stdout
from qcode.config.settings import Settings
from qcode.protocol.errors import ExitCode, InputError, QcodeError
from qcode.protocol.messages import Message, Text, typed_text
from qcode.safety.redaction import Redactor, named_secrets
from qcode.text.clean import clean, plain_line, single_spaced
from qcode.text.json import JsonObject
from qcode.text.numbers import age_text, bytes_text, count_text

if TYPE_CHECKING:
    from qcode.agent.imports.migration import ImportResult
    from qcode.agent.imports.session import ImportedSession
    from qcode.agent.imports.sources import SessionFile

_MAX_TITLE_CHARS = 200
_USES = {
    "": "use: qcode sessions list, show ID, export ID, import [PATH...], or delete ID",
    "list": "use: qcode sessions list [WORDS] [--json] [-C DIR]",
    "show": "use: qcode sessions show ID",
    "delete": "use: qcode sessions delete ID",
    "export": "use: qcode sessions export ID [--format md|json|html] [--turns 3-7] [--no-tools] [-o FILE]",
    "import": "use: qcode sessions import [PATH...] [--all] [--yes] [--json]",
}
_USE_OF_STATS = f"use: qcode stats [--all] {FOLDER_FLAGS}"
_COMMON_FLAGS = {"cwd", "trust", "settings"}
_FLAGS = {
    "list": {"json", *_COMMON_FLAGS},
    "export": {"format", "turns", "no_tools", "output", *_COMMON_FLAGS},
    "import": {"all", "yes", "json", *_COMMON_FLAGS},
}


def run_sessions(arguments: Sequence[str]) -> int:
    """Run `qcode sessions` and return the exit code; raise `CommandLineError` or `QcodeError`."""
    usage = usage_of(arguments, _USES)
    options, words, flags = parse_subcommand("sessions", arguments, usage)
    context, problem = folder_context(options)
    if problem is not None:
        write_stderr(str(problem))
    state_dir, root, settings = context.paths.state_dir, context.root, context.settings
    store = SessionStore(state_dir, root)
    match words or ["list"]:
        case ["list", *selection] if flags.keys() <= _FLAGS["list"]:
            code = _list(store, " ".join(selection), settings.sessions.retention_days, is_json="json" in flags)
        case ["export", selection] if flags.keys() <= _FLAGS["export"]:
            code = _export(store, selection, flags, settings)
        case ["import", *paths] if flags.keys() <= _FLAGS["import"]:
            code = _import(state_dir, root, [Path(path) for path in paths], flags)
        case ["show", selection] if flags.keys() <= _COMMON_FLAGS:
            code = _show(store, selection)
        case ["delete", selection] if flags.keys() <= _COMMON_FLAGS:
            write_stdout(f"deleted {store.delete(selection)}\n")
            code = ExitCode.OK
        case ["export" | "show" | "delete"]:
            raise missing_argument(usage)
        case _:
            raise invalid_arguments(arguments, usage)
    return code or (ExitCode.OK if problem is None else problem.exit_code)


def run_stats(arguments: Sequence[str]) -> int:
    """Print the totals of this folder's sessions, or of all sessions; return the exit code."""
    options, words, flags = parse_subcommand("stats", arguments, _USE_OF_STATS)
    if words:
        raise invalid_arguments(words, _USE_OF_STATS)
    from qcode.agent.models.client import price_of
    from qcode.agent.sessions.stats import Stats

    context, problem = folder_context(options)
    stats = Stats(lambda name: price_of(name, context.settings.models))
    folder = SessionStore(context.paths.state_dir, context.root).folder
    files = folder.parent.glob("*/*.jsonl") if "all" in flags else folder.glob("*.jsonl")
    stats.read(sorted(files))
    if "json" in flags:
        write_lines(json.dumps(stats.as_json()))
    else:
        write_lines(*map(clean, stats.lines()))
    return report_problem(problem)


def _list(store: SessionStore, words: str, retention_days: int, *, is_json: bool) -> int:
    """Print all sessions, or those that contain all words."""
    matching = store.search(words) if words else None
    summaries = [summary for summary in store.summaries() if matching is None or summary.session_id in matching]
    expiries = [summary.updated + timedelta(days=retention_days) if retention_days else None for summary in summaries]
    if is_json:
        objects = [_as_json(summary, expiry) for summary, expiry in zip(summaries, expiries, strict=True)]
        write_stdout(json.dumps(objects, ensure_ascii=False, indent=2) + "\n")
    elif not summaries:
        write_stdout(
            f'no session of this folder mentions "{single_spaced(words)}"\n'
            if words
            else "no sessions of this folder yet\n"
        )
    else:
        now = datetime.now(UTC)
        rows = [
            _row(summary, expiry, now, store.holder(summary.session_id))
            for summary, expiry in zip(summaries, expiries, strict=True)
        ]
        write_stdout(_table(rows))
    return 0


def _as_json(summary: SessionSummary, expiry: datetime | None) -> JsonObject:
    return {
        "session_id": summary.session_id,
        "title": summary.title,
        "model": summary.model,
        "created": summary.created,
        "updated": summary.updated.isoformat(timespec="seconds"),
        "messages": summary.messages,
        "size_bytes": summary.size,
        "expires": expiry.isoformat(timespec="seconds") if expiry else None,
    }


def _row(summary: SessionSummary, expiry: datetime | None, now: datetime, holder: int | None) -> tuple[str, ...]:
    updated = f"{summary.updated.astimezone():%Y-%m-%d %H:%M}"
    sizes = (count_text(summary.messages, "message"), bytes_text(summary.size))
    time_left = () if expiry is None else (f"{age_text((expiry - now).total_seconds())} left",)
    note = "" if holder is None else f"  ({open_elsewhere_text(holder)})"
    return (summary.session_id, updated, *sizes, *time_left, f"{plain_line(summary.title, _MAX_TITLE_CHARS)}{note}")


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows with aligned columns, except the last one, which is free text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = ("  ".join((*map(str.ljust, row, widths), row[-1])).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _show(store: SessionStore, selection: str) -> int:
    loaded = store.load(selection)
    for notice in loaded.notices:
        write_stderr(notice)
    write_stdout(
        "".join(f"{message.role}: {_printable(_text_of(message))}\n" for message in loaded.messages if message.text)
    )
    return 0


def _text_of(message: Message) -> str:
    """Return the text of a message. Each attachment of a prompt, such as a file, ends with a line break."""
    if message.role != "user":
        return message.text
    return "\n".join(block.text for block in message.blocks if isinstance(block, Text))


def _printable(text: str) -> str:
    """Return untrusted text unchanged for a file or a program, and without control sequences for a terminal."""
    return clean(text) if os.isatty(1) else text


def _export(store: SessionStore, selection: str, flags: Mapping[str, Any], settings: Settings) -> int:
    """Export a session to a file or to stdout; raise `InputError`. The session may be open in another process.

    Without `--format`, the extension of the file decides.
    """
    from qcode.agent.models.client import price_of
    from qcode.agent.sessions.export import ExportHeading, ExportRequest, export_turns, format_of, save_export
    from qcode.agent.sessions.turns import session_turns

    path: Path | None = flags.get("output")
    export_format = flags.get("format") or format_of(str(path or ""))
    loaded = store.load(selection)
    for notice in loaded.notices:
        write_stderr(notice)
    title = loaded.title or first_words(loaded.history.title_prompts())
    redact = Redactor(named_secrets(os.environ)).redact
    turns = session_turns(loaded.history, lambda name: price_of(name, settings.models), redact)
    request = ExportRequest(export_format, turns=flags.get("turns", ""), has_tools="no_tools" not in flags)
    try:
        text = export_turns(turns, ExportHeading(loaded.session_id, redact(title), loaded.model), request)
        if path is None:
            write_stdout(text)
        else:
            write_stderr(f"exported to {save_export(Path.cwd(), str(path), text)}")
    except ValueError as refusal:
        raise InputError(str(refusal)) from None
    return 0


def _import(state_dir: Path, root: Path, paths: Sequence[Path], flags: Mapping[str, Any]) -> int:
    """Import sessions of other programs.

    Without `paths`, search the default locations of these programs for sessions of this project, or of all folders with
    `--all`.
    """
    from qcode.agent.imports.sources import find_sessions, is_folder, sessions_in

    includes_all_folders, is_json = "all" in flags, "json" in flags
    if paths:
        sessions = [session for path in paths for session in sessions_in(path)]
    else:
        sessions = find_sessions(os.environ, None if includes_all_folders else root)
    if not sessions:
        scope = ""
        if paths:
            scope = f" in {', '.join(map(str, paths))}"
        elif not includes_all_folders:
            scope = f" for {short_path(root)}; --all looks in all folders"
        write_stderr(f"no sessions of Claude Code, Codex, qwen-code or Gemini CLI{scope}")
        write_stdout("[]\n" if is_json else "")
        return 0
    # A file on the command line is a choice; a folder is not.
    needs_choice = "yes" not in flags and (not paths or any(map(is_folder, paths)))
    chosen = _choose_sessions(sessions, is_json=is_json) if needs_choice else sessions
    # The oldest first, so that `-c` continues the newest.
    rows_and_codes = [
        _import_session(state_dir, root, session, uses_session_folder=includes_all_folders, is_json=is_json)
        for session in reversed(chosen)
    ]
    if is_json and chosen:
        write_stdout(json.dumps([row for row, _ in rows_and_codes], ensure_ascii=False, indent=2) + "\n")
    return max((code for _, code in rows_and_codes), default=0)


def _choose_sessions(sessions: Sequence[SessionFile], *, is_json: bool) -> list[SessionFile]:
    """List the sessions that were found and ask which to import; only list them as JSON, or without a terminal."""
    from qcode.agent.imports.sources import PROGRAMS

    if is_json:
        rows: list[JsonObject] = [
            {
                "path": str(session.path),
                "program": session.head.program,
                "cwd": session.head.cwd,
                "title": _title(session.head),
                "updated": datetime.fromtimestamp(session.modified, UTC).isoformat(timespec="seconds"),
                "size_bytes": session.size,
            }
            for session in sessions
        ]
        write_stdout(json.dumps(rows, ensure_ascii=False, indent=2) + "\n")
        return []
    table_rows = [
        (
            str(number),
            PROGRAMS[session.head.program],
            f"{datetime.fromtimestamp(session.modified, UTC).astimezone():%Y-%m-%d %H:%M}",
            bytes_text(session.size),
            single_spaced(_title(session.head)) or str(session.path),
        )
        for number, session in enumerate(sessions, start=1)
    ]
    write_stdout(_table(table_rows))
    if not (os.isatty(0) and os.isatty(1)):
        write_stderr("nothing was imported: name a file, or add --yes to import all of these")
        return []
    try:
        answer = ask("Which sessions? (1, 2-4 or all; Enter for none) ")
    except InputEnded:
        return []
    return [sessions[number - 1] for number in chosen_numbers(answer, len(sessions))]


def chosen_numbers(answer: str, count: int) -> list[int]:
    """Return the numbers in `1,3-5 7`, each once; `all` means all. Raise `InputError` for anything else."""
    if answer.casefold() == "all":
        return list(range(1, count + 1))
    numbers: dict[int, None] = {}
    for word in answer.replace(",", " ").split():
        first, dash, last = word.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) < 7 and 1 <= int(end) <= count for end in ends):
            raise InputError(f'"{word}" is not a number from 1 to {count}, a range such as 2-4, or all')
        numbers |= dict.fromkeys(range(int(ends[0]), int(ends[1]) + 1))
    return list(numbers)


def _import_session(
    state_dir: Path, root: Path, session: SessionFile, *, uses_session_folder: bool, is_json: bool
) -> tuple[JsonObject, int]:
    """Import one session; return a row about it and an exit code. A failure is reported and does not stop the others.

    `uses_session_folder`: import it into the project in which it was written, if that still exists, instead of `root`.
    """
    from qcode.agent.imports.migration import Migration
    from qcode.agent.imports.sources import read_file

    target = root
    try:
        source = read_file(session.path)
        session_folder = Path(source.cwd) if source.cwd else root
        if uses_session_folder and session_folder.is_dir():
            target = find_project_root(session_folder)
        result = Migration(state_dir, target, Redactor(named_secrets(os.environ)).redact).run(source)
    except (QcodeError, OSError) as error:
        write_stderr(f"{session.path}: {error}")
        code = error.exit_code if isinstance(error, QcodeError) else ExitCode.FAILED
        return {"path": str(session.path), "status": "failed", "error": str(error)}, code
    if not is_json:
        write_stdout(_report(source, result, "" if target == root else f" in {short_path(target)}"))
    return {
        "path": str(session.path),
        "program": source.program,
        "status": result.status,
        "session_id": result.session_id,
        "folder": str(target),
        "title": _title(source),
        "messages": len(source.messages),
        "added": result.added,
        "left_out": dict(source.left_out),
        "bookkeeping": dict(source.bookkeeping),
    }, 0


def _report(source: ImportedSession, result: ImportResult, target: str) -> str:
    """Return the lines that report an import: the added messages, and the content that was left out."""
    title = single_spaced(_title(source))
    facts = {
        "imported": f"{result.session_id}  imported {count_text(result.added, 'message')}{target}  {title}",
        "updated": f"{result.session_id}  added {count_text(result.added, 'new message')}{target}  {title}",
        "unchanged": f"{result.session_id}  already imported{target}  {title}",
        "changed": f"{result.session_id}  not imported again: both programs continued it{target}; "
        f"to import it again, run qcode sessions delete {result.session_id} first",
    }[result.status]
    left_out = [f"{single_spaced(name)} ({count:,})" for name, count in sorted(source.left_out.items()) if count]
    is_written = result.status in ("imported", "updated")
    return f"{facts}\n  left out: {', '.join(left_out)}\n" if is_written and left_out else f"{facts}\n"


def _title(source: ImportedSession) -> str:
    return source.title or first_words(typed_text(message.message) for message in source.messages if message.is_typed)
