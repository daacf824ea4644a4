"""`qcode uninstall`: the files and keys of qcode on this machine, and their removal after a confirmation.

Only files with the names that qcode uses are removed, because `QCODE_HOME` may be a folder with other files. The
program must be removed with its installer; the command for that is printed. `docs/files.md` lists the names.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from qcode.agent import crash
from qcode.agent.hooks import transcript
from qcode.agent.keys import store as key_files
from qcode.agent.keys.keys import LOGIN_PREFIX, Keys, key_store
from qcode.agent.mcp import pins
from qcode.agent.models import limits
from qcode.agent.skills import discovery, library
from qcode.agent.trust.store import FILE_NAME as TRUST_FILE_NAME
from qcode.agent.trust.store import TrustStore
from qcode.cli.arguments import invalid_arguments, parse_subcommand
from qcode.cli.subcommands.update import installation
from qcode.cli.terminal import InputEnded, ask, short_path, write_stderr, write_stdout
from qcode.config import folder_rules
from qcode.config.paths import AGENTS_FOLDER, CONFIG_NAME, DRAFTS_FOLDER, HISTORY_NAME, PROJECT_FOLDER, ConfigPaths
from qcode.config.saved_choices import FILE_NAME as CHOICES_FILE_NAME
from qcode.protocol.errors import QcodeError
from qcode.text.clean import visible
from qcode.text.columns import padded, width_of
from qcode.text.numbers import bytes_text, count_text
from qcode.values import dataclass

_USE = "use: qcode uninstall [--yes]"
CONFIG_NAMES = {
    CONFIG_NAME: "your settings",
    "config.schema.json": "their schema for an editor",
    "AGENTS.md": "your instructions",
    "commands": "your slash commands",
    AGENTS_FOLDER: "your sub-agents",
    "skills": "your skills",
    "themes": "your themes",
}
STATE_NAMES = {
    "sessions": "conversations, with the file contents that /undo restores",
    HISTORY_NAME: "prompts you typed",
    DRAFTS_FOLDER: "prompts you typed and did not send",
    transcript.FOLDER: "conversations for hooks",
    key_files.FOLDER_NAME: "keys, if no keyring works, and the list of those in the keyring",
    TRUST_FILE_NAME: "trusted folders",
    folder_rules.FILE_NAME: "approvals you kept",
    pins.FILE_NAME: "approved tool servers",
    CHOICES_FILE_NAME: "the last model and theme",
    limits.FILE_NAME: "learned limits of models",
    limits.LENGTHS_NAME: "learned lengths of replies",
    library.STATE_NAME: "how often you use each skill",
    discovery.CACHE_NAME: "names and descriptions of skills",
    crash.FOLDER: "crash reports",
}


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A file or folder of qcode with its size."""

    path: Path
    meaning: str
    size: int


def stored_items(paths: ConfigPaths) -> list[StoredItem]:
    """Return the files and folders of qcode that exist."""
    candidates = [(paths.config_dir / name, meaning) for name, meaning in CONFIG_NAMES.items()]
    backups = sorted(paths.config_dir.glob(f"{CONFIG_NAME}.bak*"))
    candidates += [(path, "your settings before an import") for path in backups]
    candidates += [(paths.state_dir / name, meaning) for name, meaning in STATE_NAMES.items()]
    return [StoredItem(path, meaning, _size(path)) for path, meaning in candidates if os.path.lexists(path)]


def run_uninstall(arguments: Sequence[str]) -> int:
    """List the files and keys, remove them if the user confirms, and print how to remove the program."""
    _, words, flags = parse_subcommand("uninstall", arguments, _USE)
    if words:
        raise invalid_arguments(words, _USE)
    paths = ConfigPaths.from_env(os.environ)
    items = stored_items(paths)
    keys = Keys(os.environ, partial(key_store, paths.state_dir, os.environ))
    names = sorted(keys.stored_names())
    for problem in keys.problems:
        write_stderr(problem)
    write_stdout("".join(f"{visible(line)}\n" for line in _listing(paths, items, names)))
    if not items:
        return 0
    if "yes" not in flags:
        if not (os.isatty(0) and os.isatty(1)):
            write_stdout("Nothing was removed; qcode uninstall --yes removes the files and keys.\n")
            return 0
        try:
            is_confirmed = ask('Remove these files and keys? Type "yes": ').casefold() == "yes"
        except InputEnded:
            is_confirmed = False
        if not is_confirmed:
            write_stdout("Nothing was removed.\n")
            return 0
    return _remove(paths, items, keys, names)


def _listing(paths: ConfigPaths, items: Sequence[StoredItem], names: Sequence[str]) -> Iterator[str]:
    if not items:
        yield f"qcode keeps no files in {short_path(paths.config_dir)} and {short_path(paths.state_dir)}."
    else:
        yield "qcode keeps:"
        width = max(width_of(short_path(item.path)) for item in items)
        for item in items:
            yield f"  {padded(short_path(item.path), width)}  {bytes_text(item.size):>8}  {item.meaning}"
    providers = [name for name in names if not name.startswith(LOGIN_PREFIX)]
    servers = [_server_of(name) for name in names if name.startswith(LOGIN_PREFIX)]
    stored = [f"keys of {', '.join(providers)}"] if providers else []
    stored += [f"logins of the tool servers {', '.join(servers)}"] if servers else []
    if stored:
        yield f"  {'; '.join(stored)}"
    project_folders = [folder for folder in _project_folders(paths) if folder.exists()]
    if project_folders:
        yield "Not removed, because they belong to projects:"
        yield from (f"  {short_path(folder)}" for folder in project_folders)
    current = installation()
    yield f"The program was installed {current.source}; remove it:"
    yield f"  {current.remove_command}"


def _server_of(login: str) -> str:
    """Return the tool server of a stored login: `github` for `mcp:github:0123456789abcdef`."""
    return login.removeprefix(LOGIN_PREFIX).rpartition(":")[0]


def _project_folders(paths: ConfigPaths) -> Iterator[Path]:
    try:
        yield from (folder / PROJECT_FOLDER for folder in TrustStore(paths.state_dir).folders())
    except OSError:
        return


def _remove(paths: ConfigPaths, items: Sequence[StoredItem], keys: Keys, names: Sequence[str]) -> int:
    """Remove keys and files; raise `QcodeError` if one remains.

    The keys are removed first, because the list of keys in the keyring is one of the files.
    """
    failed = []
    for name in names:
        try:
            if keys.store is not None:
                keys.store.remove(name)
        except QcodeError as error:
            what = f"the login of {_server_of(name)}" if name.startswith(LOGIN_PREFIX) else f"the key of {name}"
            failed.append(f"{what}: {error}")
    if failed:
        raise QcodeError(f"nothing but keys was removed, because a key is still stored; {'; '.join(failed)}")
    for item in items:
        try:
            _remove_item(item.path)
        except OSError as error:
            failed.append(f"{item.path}: {error.strerror or error}")
    for folder in (paths.state_dir, paths.config_dir):
        try:
            others = sorted(path.name for path in folder.iterdir())
            if not others:
                folder.rmdir()
            # With QCODE_HOME, the configuration folder contains the state folder, which was reported before.
            elif folder != paths.config_dir or others != [paths.state_dir.name]:
                write_stderr(f"kept in {short_path(folder)}: {', '.join(others[:9])}; qcode did not create them")
        except OSError:
            continue  # the folder does not exist, or cannot be removed; it contains no files of qcode
    if failed:
        raise QcodeError(f"could not remove {'; '.join(failed)}")
    login_count = sum(name.startswith(LOGIN_PREFIX) for name in names)
    counts = {"item": len(items), "key": len(names) - login_count, "login": login_count}
    removed = ", ".join(count_text(count, noun) for noun, count in counts.items() if count)
    write_stdout(f"Removed {removed}.\n")
    return 0


def _remove_item(path: Path) -> None:
    """Remove a file or folder; for a link, not its target."""
    try:
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if is_folder:
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    """Return the size of a file, or of all files in a folder, in bytes."""
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            return path.lstat().st_size
        return sum(
            os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118  # os.walk has texts
            for folder, _, names in os.walk(path)
            for name in names
        )
    except OSError:
        return 0
