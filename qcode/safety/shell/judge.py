"""The judge of shell commands: a command may run without approval if it certainly does nothing but read.

Each simple command is looked up in the table (`table`, `git`, `languages`), and the path layer judges every file it
names (`file_reads`). Nothing is run here. The core programs of the table may run without a sandbox. Other programs, and
features of the shell such as a loop, need a working sandbox too: it is an independent protection in case the table is
wrong.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from qcode.safety.paths import PathJudge, SessionFolders, absolute_path, home_of, real_path
from qcode.safety.probes import Probes
from qcode.safety.protected_paths import is_within, is_within_any
from qcode.safety.shell.ast import SimpleCommand, Word
from qcode.safety.shell.characters import foreign_characters, foreign_host
from qcode.safety.shell.file_reads import LeadingWildcards, NeedsApproval, PathNeedsApproval, ReadChecker, ReadJudge
from qcode.safety.shell.flow import Feature, Flow, FlowPart, Folders, cd_target, flow_of
from qcode.safety.shell.git import Kind, classify_operands, read_git, repository_refusal, secrets_refusal
from qcode.safety.shell.languages import Roles, roles_of_test, script_refusal
from qcode.safety.shell.parser import read_script
from qcode.safety.shell.table import ProgramSpec, Role, git_commands, programs, read_arguments
from qcode.safety.verdict import SHELL_READS, SandboxSupport, Verdict
from qcode.values import dataclass

_VERSION_FILES = (
    ".python-version", ".ruby-version", ".node-version", ".nvmrc", ".tool-versions", ".java-version", ".go-version",
    ".perl-version", ".php-version", "mise.toml", ".mise.toml", ".mise", ".config/mise.toml", "mise.local.toml",
)  # fmt: skip
"""Files with which a folder selects the program that a shim of pyenv, asdf or mise runs."""

_HARM = ("writes", "runs", "changes", "may change", "sets")
"""The first words of the reasons in the table for refused options that do more than read."""
_METADATA_ROLES: frozenset[Role] = frozenset({"list", "names"})
"""Roles of files whose content is not read."""

NO_SANDBOX = "shell:no-sandbox"
_UNCONFINED = "a rule lets the whole command run outside the sandbox"


class _NeedsSandbox(NeedsApproval):
    """The reason why a command needs approval on a machine without a working sandbox."""

    check = NO_SANDBOX


@dataclass(frozen=True, slots=True)
class Judge:
    """The judge of the simple commands in one command line."""

    paths: PathJudge
    probes: Probes
    search_path: str = ""
    """The PATH of the command. If it leads to a program in the workspace, the command needs approval."""
    read_judge: ReadJudge | None = None
    """A replacement for the path layer's verdicts on reading."""
    features: frozenset[Feature] = frozenset()
    """The features of the shell in the whole line."""

    @staticmethod
    def of(
        flow: Flow, session_folders: SessionFolders, probes: Probes, search_path: str, read_judge: ReadJudge | None
    ) -> Judge:
        """Return the judge for the parts of `flow`."""
        return Judge(PathJudge(session_folders), probes, search_path, read_judge, flow.features)

    def judge_part(self, part: FlowPart) -> Verdict:
        """Judge one simple command, without the files it writes through `>`.

        Return `allow` if it only reads permitted files, otherwise `ask` with the reason.
        """
        try:
            for folder in sorted(part.folders):
                self._check(part.command, folder)
        except NeedsApproval as reason:
            return Verdict("ask", str(reason), reason.check)
        return Verdict("allow", "it only reads", SHELL_READS)

    def judge_unconfined_part(self, part: FlowPart) -> Verdict:
        """Judge a part that runs outside the sandbox, because a rule allows another part of the command.

        A part with only literal words needs no sandbox for the features of the line: a loop would merely repeat it.
        """
        words = (*part.command.words, *part.command.inputs)
        features = self.features if any(word.may_differ or word.has_glob for word in words) else frozenset()
        without_sandbox = replace(self.probes, sandbox=lambda: SandboxSupport())
        judge = replace(self, probes=without_sandbox, features=features)
        verdict = judge.judge_part(part)
        return verdict if verdict.is_allowed else replace(verdict, reason=f"{_UNCONFINED}: {verdict.reason}")

    def judge_inputs(self, part: FlowPart) -> Verdict:
        """Judge only the files that a simple command reads through `<`."""
        try:
            for folder in part.folders:
                self._check_inputs(part.command, self._checker(folder, self.probes.sandbox()))
        except NeedsApproval as reason:
            return Verdict("ask", str(reason), "shell:input")
        return Verdict("allow", "its input may be read", "shell:input")

    def _check(self, command: SimpleCommand, folder: str) -> None:
        """Raise `NeedsApproval` unless the command, run in `folder`, only reads permitted files."""
        support = self.probes.sandbox()
        checker = self._checker(folder, support)
        self._check_inputs(command, checker)
        name = command.words[0].text
        if command.words[0] != Word(name):  # quoted, or with an expansion: `"ls"`, `$program`
            raise NeedsApproval("the program is spelled in an unusual way")
        if not name.isascii():
            raise NeedsApproval(f"the name of its program, {name}, contains {foreign_characters(name)}")
        if "read-only" not in support.levels and self.features:
            raise _NeedsSandbox(f"it uses a {min(self.features)}, which needs a sandbox, and none works here")
        if name == "cd":
            self._check_cd(cd_target(command), folder, checker)
            return
        program = programs().get(name)
        if program is None or not program.is_builtin:
            self._check_origin(name, folder)
        leading = _leading_wildcards(program)
        # Words that are checked in one batch. A `file` or `tree` ends it, so that the first word with an error counts.
        pending: list[Word] = []
        for word, role in self._roles(name, command.words[1:], folder, has_sandbox="read-only" in support.levels):
            if role in ("file", "tree"):
                checker.check_files(*pending, leading=leading)
                pending = []
            if role == "file":
                checker.check_plain_files(word)
            elif role == "tree":
                checker.check_tree(word, leading=leading)
            # A wildcard reveals file names even in a text operand: `echo /etc/*`.
            elif role in ("read", "list", "names") or word.has_glob:
                pending.append(word)
        checker.check_files(*pending, leading=leading)

    def _checker(self, folder: str, support: SandboxSupport) -> ReadChecker:
        return ReadChecker(self.paths, self.read_judge, folder, self.probes.contents, support.masks)

    def _check_inputs(self, command: SimpleCommand, checker: ReadChecker) -> None:
        for word in command.inputs:
            if word.may_be_several:
                raise NeedsApproval("it reads a file whose name is known only when it runs")
            checker.check_files(word)

    def _roles(self, name: str, words: tuple[Word, ...], folder: str, *, has_sandbox: bool) -> Roles:
        """Return the words of a known program with their roles."""
        if name == "git" and words == (Word("--version"),):
            return ()
        if name == "git":
            if not has_sandbox:
                raise _NeedsSandbox("git needs a sandbox to run without asking, and none works here")
            return self._git(words, folder)
        program = _program_spec(name)
        if program is None:
            host = next(filter(None, (foreign_host(name, word.text) for word in words)), "")
            warning = f", and {host} contains {foreign_characters(host)}" if host else ""
            raise NeedsApproval(f"{name} may do more than read{warning}")
        return _table_roles(name, program, words, has_sandbox=has_sandbox)

    def _git(self, words: tuple[Word, ...], folder: str) -> Roles:
        """Return the files whose content a git command prints, each with the role `read`."""
        roots = self._roots()
        if folder not in roots and not self._is_plain_folder(folder, roots):
            raise NeedsApproval("git would run outside the workspace, where its configuration was not checked")
        use = read_git(words, roots)
        if isinstance(use, str):
            raise NeedsApproval(use)
        if use.reads == "nothing":
            return ()
        repository = self.probes.repository()
        reason = repository_refusal(use, repository)
        if reason:
            raise NeedsApproval(reason)
        top = repository.top or roots[1]  # the real path
        classified = classify_operands(use, lambda path: _kind(os.path.join(folder, path)))  # noqa: PTH118  # plain text
        reason = secrets_refusal(classified, repository, os.path.relpath(real_path(folder), top))
        if reason:
            raise PathNeedsApproval(reason)
        stored = (Word(f"{top}/{path}", is_quoted=True) for path in classified.stored_paths)
        named = (Word(f"./{path}", is_quoted=True) for path in classified.paths)
        return tuple((word, "read") for word in (*named, *stored))

    def _is_plain_folder(self, folder: str, roots: Collection[str]) -> bool:
        """Return whether git, started in `folder`, uses the repository of the workspace and not a nested one."""
        root = next((root for root in roots if is_within(folder, root)), "")
        if not root or not os.path.isdir(folder):  # noqa: PTH112  # plain text
            return False
        below = Path(folder).relative_to(root).parts
        folders = [Path(root, *below[: depth + 1]) for depth in range(len(below))]
        # For git, a folder that contains one of these names may be a separate repository.
        return not any(os.path.lexists(inner / name) for inner in folders for name in (".git", "HEAD", "gitdir"))

    def _roots(self) -> tuple[str, ...]:
        """Return the workspace folder as the session names it, and with its links resolved."""
        return os.path.normpath(self.paths.session_folders.root), os.path.realpath(self.paths.session_folders.root)

    def _check_cd(self, target: str | None, folder: str, checker: ReadChecker) -> None:
        """Check that `cd` stays in the workspace and uses no link: bash and the kernel differ about `LINK/..`."""
        if target is None:
            raise NeedsApproval("qcode cannot tell where this cd leads")
        joined = os.path.join(folder, target)  # noqa: PTH118  # plain text, as bash joins it
        path = os.path.normpath(joined)
        # bash resolves LINK/../x to the x beside the link; if that does not exist, it resolves it like the kernel.
        if real_path(joined) != real_path(path):
            raise PathNeedsApproval(f"cd {target} goes up from a symbolic link")
        folders = (self.paths.session_folders.root, *self.paths.session_folders.added_folders)
        spellings = (*map(os.path.realpath, folders), *map(os.path.normpath, folders))
        # The real path must be the real base and the same names below it, so no folder between them is a link.
        base = max((spelling for spelling in spellings if is_within(path, spelling)), key=len, default="")
        if not base or real_path(path) != os.path.normpath(f"{real_path(base)}/{path[len(base) :]}"):
            raise NeedsApproval(f"cd {target} leaves the workspace")
        checker.check_path(path)

    def _check_origin(self, name: str, folder: str) -> None:
        """Raise if bash would run `name` from the workspace, or from a shim that a project configures."""
        if "/" in name:
            raise NeedsApproval("it names a program by its path")
        # The first match in PATH is the program. An empty part of PATH is the current folder.
        for part in self.search_path.split(":") if self.search_path else ():
            program = f"{part or '.'}/{name}"
            if not os.path.isfile(program) or not os.access(program, os.X_OK):  # noqa: PTH113  # plain text
                continue
            real_paths = (os.path.realpath(program), os.path.realpath(part or "."))
            if not part.startswith("/") or any(is_within_any(path, self.paths.roots) for path in real_paths):
                raise NeedsApproval(f"{name} would run {program} of the workspace")
            if os.path.basename(os.path.normpath(part)) == "shims" and _has_version_file(folder):  # noqa: PTH119  # plain text
                raise NeedsApproval(f"a file of the project decides which {name} runs")
            return


@lru_cache(maxsize=512)
def read_flow(command: str, root: str) -> Flow:
    """Return the simple commands of a command line; raise `UnsupportedSyntax` if it is not understood."""
    return flow_of(read_script(command), root)


def resolve(session_folders: SessionFolders, word: Word, folders: Folders) -> tuple[str, ...]:
    """Return the absolute paths that a word without wildcards may name."""
    path = f"./{word.text}" if word.text.startswith("~") and not word.is_home else word.text
    return tuple(absolute_path(path, folder, home_of(session_folders)) for folder in sorted(folders))


def spec_of(words: tuple[Word, ...]) -> ProgramSpec | None:
    """Return the row of the table for a command, None if its program is not in the table."""
    name = words[0].text
    if name != "git":
        return _program_spec(name)
    pair = "/".join(word.text for word in words[1:3])  # the row of `git stash list` is `stash/list`
    return git_commands().get(pair) or git_commands().get(pair.partition("/")[0])


def is_table_command(words: tuple[Word, ...]) -> bool:
    """Return whether a command only reads according to the table. Files and the repository are not checked."""
    name = words[0].text
    if name == "git":
        use = read_git(words[1:], ())
        return not isinstance(use, str)
    program = _program_spec(name)
    if program is None:
        return name == "cd"
    try:
        _table_roles(name, program, words[1:], has_sandbox=True)
    except NeedsApproval:
        return False
    return True


def _program_spec(name: str) -> ProgramSpec | None:
    # `[[` is a keyword of bash with the operators of `test`.
    return programs().get("test" if name == "[[" else name)


def _table_roles(name: str, program: ProgramSpec, words: tuple[Word, ...], *, has_sandbox: bool) -> Roles:
    """Return the arguments of a program with their roles; raise `NeedsApproval` for a use that the table lacks."""
    arguments = read_arguments(program, words)
    if isinstance(arguments, str):
        # The reason of such a row, a missing operand, would mislead: `make` needs approval because of what it does.
        raise NeedsApproval(f"{name} may do more than read" if program.only_prints_version else arguments)
    reason = script_refusal(program.name, arguments)
    if reason:
        raise NeedsApproval(reason)
    if not has_sandbox:
        is_allowed_unconfined = program.is_core and all(
            option in program.core_options for option, _ in arguments.options
        )
        if not is_allowed_unconfined or arguments.by_role("tree", "names"):
            raise _NeedsSandbox(
                f"this form of {program.name} needs a sandbox to run without asking, and none works here"
            )
    if program.name in ("test", "["):
        roles = roles_of_test(name, arguments.by_role("test"))
        if isinstance(roles, str):
            raise NeedsApproval(roles)
        return roles
    return arguments.roles


def _leading_wildcards(program: ProgramSpec | None) -> LeadingWildcards:
    """Return the wildcards that are accepted at the start of an operand, where a match may become an option.

    If the program has a harmful option, no wildcard is accepted. If it reads only names and sizes (`du -sh *`), any is.
    Otherwise a wildcard needs an ending (`*.py`).
    """
    if program is None or any(reason.startswith(_HARM) for reason in program.refused.values()):
        return "none"
    roles = program.operands.roles
    return "any" if roles and _METADATA_ROLES.issuperset(roles) else "ending"


def _kind(path: str) -> Kind:
    """Return `folder` or `file`, empty if there is neither at `path`."""
    if os.path.isdir(path):  # noqa: PTH112  # plain text
        return "folder"
    return "file" if os.path.isfile(path) else ""  # noqa: PTH113  # plain text


def _has_version_file(folder: str) -> bool:
    """Return whether a folder, or one above it, selects the version of a program."""
    folders = (Path(folder), *Path(folder).parents)
    return any(os.path.lexists(path / name) for path in folders for name in _VERSION_FILES)
