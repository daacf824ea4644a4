"""`qcode trust`: how it is with this folder, what it brings, what changed; accepts that, or takes trust back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from qcode.agent.context.project import find_project_root
from qcode.agent.trust import Standing, TrustStore, remember
from qcode.cli.arguments import UsageError
from qcode.cli.terminal import Left, ask, put, working_folder
from qcode.cli.trust_question import brought, indented
from qcode.protocol.errors import ExitCode, QcodeError
from qcode.text.clean import visible

_USE = "use: qcode trust [show], trust accept, trust forget [DIR], or trust list"
_STATES = {
    "unknown": "not trusted: restricted",
    "trusted": "trusted",
    "changed": "not as it was trusted: restricted",
    "unpinned": "trusted before qcode kept what a folder brings: restricted until it is accepted",
    "unpinnable": "brings more than can be kept: restricted unless --trust is given",
}


def run_trust(rest: Sequence[str], state_dir: Path) -> int:
    """Show, accept, forget or list, and return the exit code; raise `UsageError` or `QcodeError`."""
    store = TrustStore(state_dir)
    match list(rest):
        case [] | ["show"]:
            folder = working_folder(None)
            root = find_project_root(folder)
            put("".join(f"{line}\n" for line in _shown(folder, root, store.look(root))))
            return 0
        case ["accept"]:
            return _accept(store)
        case ["forget", *folders] if len(folders) <= 1:
            return _forget(store, Path(folders[0]) if folders else find_project_root(working_folder(None)))
        case ["list"]:
            rows = [f"{visible(str(path))}  {_STATES[store.look(path).kind]}\n" for path in store.folders()]
            put("".join(rows) or "no folder is trusted\n")
            return 0
        case _:
            raise UsageError(_USE)


def _shown(folder: Path, root: Path, standing: Standing) -> Iterator[str]:
    yield f"{visible(str(root))}: {_STATES[standing.kind]}"
    found = list(brought(folder, root, standing))
    if not found:
        yield "it brings nothing that a trusted run would use"
    else:
        yield "it brings:"
        width = max(len(name) for name, _ in found)
        yield from (f"  {name:<{width}}  {what}" for name, what in found)
    if standing.changes:
        yield "what changed since it was trusted:"
        yield indented(standing.differences())


def _accept(store: TrustStore) -> int:
    folder = working_folder(None)
    root = find_project_root(folder)
    standing = store.look(root)
    put("".join(f"{line}\n" for line in _shown(folder, root, standing)))
    if standing.is_trusted:
        return 0
    if standing.problem:
        raise QcodeError(f"trust cannot be kept: {standing.problem}", ExitCode.FAILED)
    if not os.isatty(0):
        raise QcodeError(
            "only a person at a terminal can accept it; --trust trusts a folder for one run", ExitCode.USAGE
        )
    try:
        answer = ask("\nTrust it from now on, as shown? y or n [n]: ")
    except Left:
        answer = "n"
    if answer not in ("y", "yes"):
        put("nothing is changed\n")
        return 0
    complaint = remember(root, store.state_dir, standing.pieces)
    if complaint:
        raise QcodeError(complaint, ExitCode.FAILED)
    put("trusted\n")
    return 0


def _forget(store: TrustStore, folder: Path) -> int:
    try:
        had = store.forget(folder)
    except OSError as error:
        raise QcodeError(f"trust cannot be taken back: {store.path}: {error.strerror}", ExitCode.FAILED) from None
    put(f"{visible(str(folder.resolve()))}: {'not trusted any more' if had else 'was not trusted'}\n")
    return 0
