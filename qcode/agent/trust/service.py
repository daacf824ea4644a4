"""Trust in the folder of a session, for a front end: what trust would allow, what has changed, and the decision.

`store` keeps the trusted folders. Loads with the first question about trust.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.context.instructions import LOCAL_NAME, NAMES, RULE_FOLDERS
from qcode.agent.trust.store import (
    SETTINGS,
    TrustStatus,
    TrustStore,
    first_names,
    save_trust,
    why_restricted,
)
from qcode.config.paths import CLAUDE_SETTINGS
from qcode.text.clean import visible
from qcode.text.numbers import count_text

if TYPE_CHECKING:
    from qcode.protocol.events import Notice

_MAX_LISTED = 20
_MAX_NAMED_FILES = 10
_UNPINNED_FILES = (
    *((name, "instructions, given to the model") for name in (*NAMES, LOCAL_NAME)),
    *((name, "rules, given to the model") for name in RULE_FOLDERS),
    (".mcp.json", "tool servers of the project"),
)


def files_in_use(folder: Path, root: Path, status: TrustStatus) -> Iterator[tuple[str, str]]:
    """Yield the path and kind of each file that a trusted run would use, from the root of the project to `folder`."""
    real_folder = folder.resolve()
    folders = [path for path in (real_folder, *real_folder.parents) if path == root or root in path.parents]
    for candidate in reversed(folders):
        for name, description in _UNPINNED_FILES:
            is_used_here = name in (*NAMES, LOCAL_NAME) or candidate == root
            if is_used_here and os.path.lexists(candidate / name):
                yield visible(str((candidate / name).relative_to(root))), description
    if any(name in status.files for name in (SETTINGS, *CLAUDE_SETTINGS)):
        from qcode.agent.hooks.events import project_hook_rows
        from qcode.config.show import project_command_rows

        yield from (*project_hook_rows(root), *project_command_rows(root))
    rows = _file_rows(status.files)
    yield from rows[:_MAX_LISTED]
    if len(rows) > _MAX_LISTED:
        yield "...", f"and {len(rows) - _MAX_LISTED:,} more for qcode"
    if status.problem:
        yield ".qcode", f"{status.problem}: trust in it cannot be saved"


def _file_rows(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return a row for each file, with its kind. All files of a skill are one row."""
    counts: dict[str, int] = {}
    for name in names:
        parent, separator, path_in_skills = name.partition("/skills/")
        label = f"{parent}{separator}{path_in_skills.partition('/')[0]}" if separator else name
        counts[label] = counts.get(label, 0) + 1
    return [(visible(name), _kind_of(name, count)) for name, count in counts.items()]


def _kind_of(name: str, count: int) -> str:
    if name == SETTINGS:
        return "settings of the project"
    if "/skills/" in name:
        return f"a skill, {count_text(count, 'file')}"
    parts = name.split("/")
    # `.claude/commands/review.md` is "one of its commands".
    return f"one of its {parts[1]}" if len(parts) > 2 else "a file for qcode"


RESTRICTED_NOTICE = "Restricted folder: qcode asks before anything but reading. Type /trust to lift this."


class TrustService:
    """Trust in the folder of a session, for a front end. Changed files must be shown before they can be trusted.

    `is_trusted` returns whether the folder is trusted now, `trust_folder` applies the user's trust to the session.
    """

    def __init__(
        self,
        root: Path,
        state_dir: Path,
        is_trusted: Callable[[], bool],
        trust_folder: Callable[[], None],
        folder: Path | None = None,
    ) -> None:
        self._root = root
        self._store = TrustStore(state_dir, folder)
        self._is_trusted = is_trusted
        self._trust_folder = trust_folder
        self._last_shown: TrustStatus | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether the folder is trusted now."""
        return self._is_trusted()

    def notices(self) -> tuple[Notice, ...]:
        """Return the notices at startup: why the folder is restricted; empty for a trusted folder."""
        if self.is_trusted:
            return ()
        from qcode.protocol.events import Notice

        reason = why_restricted(self._store.status_of(self._root))
        if not reason:
            return (Notice("info", RESTRICTED_NOTICE),)
        from qcode.text.sentences import capitalized

        return (Notice("warning", f"{capitalized(reason)}. Type /trust for details."),)

    def show(self, folder: Path) -> str:
        """Return what trusting the folder would allow; `accept_shown` then trusts exactly that."""
        self._last_shown = status = self._store.status_of(self._root)
        if self._is_trusted() and status.is_trusted:
            return _trusted_text(status)
        if status.kind in ("changed", "unpinned"):
            return f"{_review_text(status)}\n\nType /trust accept to trust it as shown."
        names = "\n".join(f"  {name}: {description}" for name, description in files_in_use(folder, self._root, status))
        contents = f"It contains:\n\n{names}" if names else "It contains nothing that qcode would use."
        return f"This folder is restricted. {contents}\n\nType /trust accept to trust {visible(str(self._root))}."

    def accept_shown(self, folder: Path) -> str:
        """Trust the folder if its files are those of the last `show`; otherwise show them."""
        status = self._store.status_of(self._root)
        return self.accept() if self._last_shown is not None and status == self._last_shown else self.show(folder)

    def accept(self) -> str:
        """Trust the folder, or first show its changes; return the message for the user."""
        status = self._store.status_of(self._root)
        if status.kind in ("changed", "unpinned") and status != self._last_shown:
            self._last_shown = status
            lead = "Trusted for this run only. " if self._is_trusted() else ""
            return f"{lead}{_review_text(status)}\n\nType /trust again to trust these files from the next start on."
        if not self._is_trusted():
            self._trust_folder()
        elif status.is_trusted:
            return _trusted_text(status)
        problem = status.problem or save_trust(self._root, self._store.state_dir, status.files, self._store.folder)
        if problem:
            return problem
        applied = "Your rules and modes apply now, its instructions from the next turn."
        if status.files or os.path.lexists(self._root / ".mcp.json"):
            applied += " Restart qcode to use its other files."
        return f"Folder trusted{_contents_text(status)}. {applied}"


def _review_text(status: TrustStatus) -> str:
    if status.kind == "changed":
        return f"Files in this folder have changed since you trusted it:\n\n{status.differences()}"
    names = "\n".join(f"  {visible(name)}" for name in status.files)
    return f"You trusted this folder with a version of qcode that did not record its files. It contains:\n\n{names}"


def _trusted_text(status: TrustStatus) -> str:
    change = "these files change" if status.files else "files that it would use are added"
    return f"This folder is trusted{_contents_text(status)}. qcode asks again if {change}."


def _contents_text(status: TrustStatus) -> str:
    return f", with {first_names(list(status.files), _MAX_NAMED_FILES)}" if status.files else ""
