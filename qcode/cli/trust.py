"""Trust in a folder: the question at startup, and `qcode trust`.

The question is asked only if the folder has files that a trusted run would use; otherwise the folder stays restricted
until `/trust`. No file of the folder is applied or run before the answer. The question lists the files, or their
changes since the folder was trusted.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.agent.context.project import find_project_root
from qcode.agent.trust.store import TrustStatus, TrustStore, save_trust, why_restricted
from qcode.cli.arguments import CommandLineError, invalid_arguments, parse_subcommand
from qcode.cli.terminal import InputEnded, ask, ask_choice, working_folder, write_stderr, write_stdout
from qcode.config.paths import ConfigPaths
from qcode.protocol.errors import QcodeError, UsageError
from qcode.text.clean import visible
from qcode.text.json import JsonObject
from qcode.values import dataclass

_USE = "use: qcode trust [show] [--json], trust accept, trust forget [DIR], or trust list [--json]; with -C DIR"
_STATES = {
    "unknown": "restricted (not trusted)",
    "trusted": "trusted",
    "changed": "restricted (changed since it was trusted)",
    "unpinned": "restricted until you accept it (trusted by a version of qcode that did not record its files)",
    "unpinnable": "restricted unless you use --trust (it has more files than can be recorded)",
}
TrustAnswer: TypeAlias = Literal["always", "once", "restricted"]
_ANSWERS: dict[str, TrustAnswer | None] = {"1": "always", "2": "once", "3": "restricted", "q": None}
"""The answers by what the user types; None quits."""
_MAX_COMMAND_CHARS = 400
_UNKNOWN = "First time in this folder:"
_UNPINNED = "You trusted this folder with a version of qcode that did not record its files:"
_FACTS = """\
{heading}

  {folder}

It contains:

{listing}"""
_CHANGES = """\
Files in this folder have changed since you trusted it:

  {folder}

{changes}"""
_QUESTION, _QUESTION_AFTER_CHANGE = "Do you trust this folder?", "Do you trust this folder as it is now?"
_OPTIONS = """\
  1  trust        from now on: its files are used, your rules and modes apply
  2  once         the same, for this run only
  3  restricted   its files are ignored; qcode asks before anything but reading
  q  quit

"""


def run_trust(arguments: Sequence[str]) -> int:
    """Run `qcode trust` with these arguments and return the exit code; raise `CommandLineError` or `QcodeError`."""
    options, words, flags = parse_subcommand("trust", arguments, _USE)
    if "json" in flags and words not in ([], ["show"], ["list"]):
        raise CommandLineError(f"--json only works with show and list; {_USE}")
    store = TrustStore(ConfigPaths.from_env(os.environ).state_dir)
    folder = working_folder(options.cwd)
    match words:
        case [] | ["show"]:
            root = find_project_root(folder)
            status = replace(store, folder=folder).status_of(root)
            if "json" in flags:
                write_stdout(json.dumps(_shown_json(folder, root, status)) + "\n")
            else:
                write_stdout("".join(f"{line}\n" for line in _status_lines(folder, root, status)))
            return 0
        case ["accept"]:
            return _trust_folder(store, folder)
        case ["forget", *folders] if len(folders) <= 1:
            return _forget(store, Path(folders[0]) if folders else find_project_root(folder))
        case ["list"] if "json" in flags:
            listed = [{"folder": str(path), "state": store.status_of(path).kind} for path in store.folders()]
            write_stdout(json.dumps(listed) + "\n")
            return 0
        case ["list"]:
            rows = [f"{visible(str(path))}  {_STATES[store.status_of(path).kind]}\n" for path in store.folders()]
            write_stdout("".join(rows) or "no folder is trusted\n")
            return 0
        case _:
            raise invalid_arguments(arguments, _USE)


def _status_lines(folder: Path, root: Path, status: TrustStatus) -> Iterator[str]:
    from qcode.agent.trust.service import files_in_use  # not needed by a run in pipe mode

    yield f"{visible(str(root))}: {_STATES[status.kind]}"
    files = list(files_in_use(folder, root, status))
    if not files:
        yield "it contains no files for qcode"
    else:
        yield "it contains:"
        yield from _file_rows(files)
    if status.changes:
        yield "changes since it was trusted:"
        yield indented(status.differences())


def _shown_json(folder: Path, root: Path, status: TrustStatus) -> JsonObject:
    from qcode.agent.trust.service import files_in_use  # not needed by a run in pipe mode

    return {
        "folder": str(root),
        "state": status.kind,
        "is_trusted": status.is_trusted,
        "files": [name for name, _ in files_in_use(folder, root, status)],
        "changes": [change.diff() for change in status.changes],
    }


def _trust_folder(store: TrustStore, folder: Path) -> int:
    """Show the files of the project, ask whether to trust it, and store the trust; return the exit code.

    Raise `QcodeError` if the trust cannot be stored, `UsageError` without a terminal.
    """
    root = find_project_root(folder)
    store = replace(store, folder=folder)
    status = store.status_of(root)
    write_stdout("".join(f"{line}\n" for line in _status_lines(folder, root, status)))
    if status.is_trusted:
        return 0
    if status.problem:
        raise QcodeError(f"cannot save trust: {status.problem}")
    if not os.isatty(0):
        raise UsageError("this needs a terminal; use --trust to trust a folder for one run")
    try:
        answer = ask("\nTrust it from now on, as shown? y or n [n]: ")
    except InputEnded:
        answer = "n"
    if answer not in ("y", "yes"):
        write_stdout("no change made\n")
        return 0
    problem = save_trust(root, store.state_dir, status.files, folder)
    if problem:
        raise QcodeError(problem)
    write_stdout("trusted\n")
    return 0


def _forget(store: TrustStore, folder: Path) -> int:
    try:
        was_trusted = store.forget(folder)
    except OSError as error:
        raise QcodeError(f"cannot remove trust: {store.path}: {error.strerror}") from None
    write_stdout(f"{visible(os.path.realpath(folder))}: {'no longer trusted' if was_trusted else 'was not trusted'}\n")
    return 0


@dataclass(frozen=True, slots=True)
class TrustQuestion:
    """The question whether to trust a folder."""

    facts: str
    """The folder and its files, or the changes of the files since the folder was trusted."""
    question: str
    """The sentence that asks."""


def ask_in_lines(question: TrustQuestion) -> TrustAnswer:
    """Ask on the terminal; raise `InputEnded` if the user quits."""
    from qcode.tui.linear.terminal import terminal_columns
    from qcode.tui.linear.wrap import wrap_table

    text = wrap_table(f"\n{question.facts}\n\n{question.question}\n\n{_OPTIONS}", terminal_columns())
    answer = ask_choice(text, "1, 2, 3 or q [3]: ", _ANSWERS, default="3")
    if answer is None:
        raise InputEnded
    return answer


def decide_trust(
    folder: Path, root: Path, state_dir: Path, *, by_flag: bool, ask_user: Callable[[TrustQuestion], TrustAnswer] | None
) -> bool:
    """Return whether to trust the project at `root`, for a run in `folder`, which may be a subfolder.

    If that is not stored, ask the user and store the answer "always". `by_flag`: the run has --trust. `ask_user` is
    None if no user can answer. Raise `InputEnded` if the user quits.
    """
    if by_flag:
        return True
    status = TrustStore(state_dir, folder).status_of(root)
    if status.is_trusted or ask_user is None:
        return status.is_trusted
    question = _question(folder, root, status)
    if question is None:
        return False
    answer = ask_user(question)
    if answer == "always":
        problem = status.problem or save_trust(root, state_dir, status.files, folder)
        if problem:
            write_stderr(problem)
    return answer != "restricted"


def untrusted_text(consequence: str) -> str:
    """Return what an untrusted folder has as a consequence, and how to trust it."""
    return f"this folder is not trusted, so {consequence}; qcode trust accept trusts it"


def note_for_pipes(folder: Path, root: Path, state_dir: Path, arguments: Sequence[str]) -> str:
    """Return the note of pipe mode for a folder that lost its trust: the reason, and the command to run again."""
    why = why_restricted(TrustStore(state_dir, folder).status_of(root))
    if not why:
        return ""
    command = visible(shlex.join(("qcode", "--trust", *arguments)))
    again = command if len(command) <= _MAX_COMMAND_CHARS else "the same command with --trust"
    return f"{why}. Run qcode trust to see it. To trust it for one run: {again}"


def _question(folder: Path, root: Path, status: TrustStatus) -> TrustQuestion | None:
    """Return the question about a folder, None if it contains no files that need trust."""
    from qcode.agent.trust.service import files_in_use  # not needed by a run in pipe mode

    label = visible(str(root))
    if status.kind == "changed":
        facts = _CHANGES.format(folder=label, changes=indented(status.differences()))
        return TrustQuestion(facts, _QUESTION_AFTER_CHANGE)
    files = list(files_in_use(folder, root, status))
    if not files:
        return None
    listing = "\n".join(_file_rows(files, min_width=20))
    heading = _UNPINNED if status.kind == "unpinned" else _UNKNOWN
    return TrustQuestion(_FACTS.format(heading=heading, folder=label, listing=listing), _QUESTION)


def _file_rows(files: Sequence[tuple[str, str]], min_width: int = 0) -> list[str]:
    """Return names and descriptions in two aligned columns."""
    from qcode.text.columns import padded, width_of  # runs in a trusted folder do not need it

    width = max(min_width, *(width_of(name) for name, _ in files))
    return [f"  {padded(name, width)}  {description}" for name, description in files]


def indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n"))
