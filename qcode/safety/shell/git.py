"""The interpretation of git commands: whether the table allows a command, and which content it may print. Pure.

The table is `[git]` in commands.toml. It assumes the settings of `git_repository`. The most important rule: every word
before `--` that begins with a dash must be an option in the table, even as the value of another option. So a
command stays harmless even if git, which parses the options of `log` twice, assigns a value to another option.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, TypeAlias

from qcode.safety.probes import Repository
from qcode.safety.shell.ast import Word
from qcode.safety.shell.table import ParsedArguments, ProgramSpec, git_commands, git_options, read_arguments
from qcode.text.clean import quoted
from qcode.values import dataclass

Reads: TypeAlias = Literal["nothing", "objects", "work tree", "configuration"]
"""The data that a command reads. A work tree may contain other repositories, and a configuration credentials."""

Content: TypeAlias = Literal["none", "narrow", "wide-tracked", "wide-history"]
"""The printed content: none, the files in `paths`, any tracked file, or any file of any commit."""

Kind: TypeAlias = Literal["file", "folder", ""]
"""The type of a path on disk; empty if it does not exist or has another type."""


@dataclass(frozen=True, slots=True)
class GitUse:
    """A command of git that only reads."""

    name: str
    """As in the table: `stash list` is `stash/list`."""
    arguments: ParsedArguments
    reads: Reads
    content: Content = "none"
    """The printed content.

    Until `classify_operands` has checked the disk, an operand that may be a revision counts as one.
    """
    paths: tuple[str, ...] = ()
    """Words that may name files whose content is printed, relative to the folder that the command runs in.

    Reading these files must be permitted in any case.
    """
    stored_paths: tuple[str, ...] = ()
    """Files in a revision or the index whose content is printed, relative to the top of the work tree.

    Reading these files must be permitted in any case.
    """
    limits: tuple[str, ...] = ()
    """Pathspecs that limit wide content, relative to the folder that the command runs in; empty for all files."""
    ambiguous_operands: tuple[str, ...] = ()
    """Operands that are pathspecs if such a file or folder exists, otherwise revisions."""
    plain_content: Content = "none"
    """`content` if no operand is a revision."""
    unlimited_content: Content = "none"
    """The value of `content` before it was narrowed to the files in `limits`."""


@dataclass(frozen=True, slots=True)
class _PrintedContent:
    """The content that a command prints."""

    content: Content
    without_revision: Content
    """The content if no operand is a revision."""


class _UnknownGitUse(Exception):  # noqa: N818  # a finding, not a failure
    """The command may do more than read; the text is the reason."""


_DEFAULTS_TO_HEAD = frozenset({"--contains", "--no-contains", "--merged", "--no-merged"})
"""Options that take the next word as their value. As the last word, they use HEAD."""

_ACCEPT_COMBINED_OPTIONS = frozenset(
    {
        "status", "branch", "tag", "for-each-ref", "show-ref", "shortlog", "grep", "ls-files", "ls-tree", "merge-base",
        "cherry", "count-objects", "check-ignore", "check-attr", "config", "remote", "worktree/list",
    }
)  # fmt: skip
"""Commands for which git uses only its parse-options API. Other commands do not accept `-ab` for `-a -b`."""

_ONLY_PATHS_AFTER_DASHES = frozenset(
    {
        "status", "diff", "log", "show", "whatchanged", "rev-list", "shortlog", "diff-tree", "blame", "grep",
        "ls-files", "ls-tree", "check-ignore", "check-attr",
    }
)  # fmt: skip
"""Commands that take only paths after a `--`."""

_MAY_TAKE_BLOBS = frozenset({"show", "diff", "grep"})
"""Commands that print a whole file if an operand is the id of its blob, regardless of pathspecs."""

_ACCEPT_INDEX_FILES = frozenset({"show", "cat-file", "rev-parse"})
"""Commands that accept a file in the index, such as `:README`."""
_PATCH_OPTIONS = frozenset(
    {
        "-p", "-u", "--patch", "-U", "--unified", "-W", "--function-context", "--patch-with-raw", "--patch-with-stat",
        "--binary", "--check", "--word-diff", "--color-words", "-c", "--cc", "-m", "--diff-merges",
    }
)  # fmt: skip
"""Options that make a command print the content of files."""
_SEARCH_OPTIONS = frozenset({"-S", "-G", "-L"})
"""Options that reveal whether a file contains a text. Repeated guesses would reveal the whole text."""

_NO_PATCH_OPTIONS = frozenset(
    {
        "-s", "--no-patch", "--raw", "--numstat", "--shortstat", "--summary", "--cumulative", "--name-only",
        "--name-status", "--compact-summary", "--stat", "-X", "--dirstat", "--quiet",
    }
)  # fmt: skip
"""Options that make a command print no content of files."""
_OPTIONS_BEYOND_PATHS = frozenset({"--follow", "--full-diff", "-L"})
"""Options that make a command show files outside its pathspecs, for example a file under its former name."""

_REVISION_OPTIONS = frozenset(
    {"--all", "--reflog", "--branches", "--tags", "--remotes", "--glob", "-g", "--walk-reflogs"}
)
"""Options that select revisions."""

_LIST_OPTIONS = frozenset({"--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"})
"""Options with which the operands of `git branch` and `git tag` select names and do not create one."""
_FORMAT_NAMES = frozenset({"oneline", "short", "medium", "full", "fuller", "reference", "email", "mboxrd", "raw"})
_DIFF_MERGES = frozenset({"off", "none", "on", "m", "first-parent", "1", "separate", "combined", "c", "cc"})

_SAFE_GROUPS = re.compile(r"author|committer|trailer:[\w-]+")
"""Values of `git shortlog --group`. A format is not among them because it may verify signatures."""
_UNSAFE_PLACEHOLDERS = re.compile(r"%[-+ ]*(?:G|\((?!trailers[:)]|decorate[:)]))")
"""Placeholders that verify signatures (also with a modifier: `%+G?`) or start `git describe`."""

_SAFE_REF_FIELDS = re.compile(
    r"\*?(?:refname|objecttype|objectsize|objectname|deltabase|tree|parent|numparent|object|type|tag|author|committer|"
    r"tagger|authorname|authoremail|authordate|committername|committeremail|committerdate|taggername|taggeremail|"
    r"taggerdate|creator|creatordate|subject|body|contents|trailers|upstream|push|symref|flag|HEAD|color|worktreepath|"
    r"align|end|if|then|else)(?::[^()]*)?"
)
"""Fields of a ref that are neither computed by a program nor the raw content of an object."""

# The ref in `git reflog REF`, the operand of `git symbolic-ref`, and a file in the index: `:README`, `:0:README`.
_REFLOG = re.compile(r"(?:HEAD|@|stash|refs/)\S*")
_SYMBOLIC = re.compile(r"HEAD|refs/(?:[\w@+-][\w.@+-]*/)*[\w@+-][\w.@+-]*", re.ASCII)
_INDEX_FORM = re.compile(r":(?:[0-3]:)?([\w.@+-][\w.@+/-]*)", re.ASCII)
_MAY_BE_BLOB = re.compile(r"(?:.*-g)?[0-9a-fA-F]{4,64}(?:\^\{(?:blob|object)?\})*")
"""An object id. git also accepts `x-gID`, the output format of `git describe`."""
_BRACES = re.compile(r"\{[^{}]*\}")
"""The braces of a revision such as `main@{yesterday}` or `HEAD^{/a text: with any characters}`."""
_WILD = re.compile(r"[*?\[\\]")


def read_git(words: tuple[Word, ...], roots: tuple[str, ...]) -> GitUse | str:
    """Interpret the words after `git`; return a one-line reason if the command needs approval.

    `roots` are the accepted values of `-C`: spellings of the folder that the command runs in.
    """
    try:
        command = _command(words, roots)
        return _GitReader(command.name, command.words).read()
    except _UnknownGitUse as reason:
        return str(reason)


def classify_operands(use: GitUse, kind_of: Callable[[str], Kind]) -> GitUse:
    """Return `use` with each ambiguous operand classified as a path or a revision.

    `kind_of` returns the type of a path on disk, which is relative to the folder that the command runs in. git reads an
    operand as a path only if it is not a revision, and fails if a revision is also the name of a file.
    """
    paths = tuple(operand for operand in use.ambiguous_operands if kind_of(operand))
    are_all_paths = bool(paths) and len(paths) == len(use.ambiguous_operands)
    content = use.plain_content if are_all_paths else use.content
    limits = use.limits + paths
    classified = replace(use, content=content, limits=limits, ambiguous_operands=())
    if content.startswith("wide") and limits:
        are_files = all(not _WILD.search(limit) and kind_of(limit) == "file" for limit in limits)
        if are_files:
            return replace(classified, content="narrow", unlimited_content=content)
    return classified


def repository_refusal(use: GitUse, repository: Repository) -> str:
    """Return the reason why git needs approval in this repository, empty if it does not."""
    if use.reads == "nothing":
        return ""
    if repository.problem:
        return repository.problem
    if not repository.is_present:
        return "git finds no repository here"
    if use.reads == "work tree" and repository.has_submodules:
        return "the repository has submodules, whose git configuration was not checked"
    return ""


def secrets_refusal(use: GitUse, repository: Repository, prefix: str = "") -> str:
    """Return the reason why the output of the command may contain a secret, empty if it cannot.

    The operands of `use` must be classified. `prefix` is the folder that the command runs in, relative to the top of
    the work tree. The caller judges the files in `use.paths` and `use.stored_paths`.
    """
    if use.reads == "configuration" and repository.has_credentials:
        return "the git configuration holds credentials"
    if use.content == "none" or (use.content == "narrow" and not use.limits):
        return ""
    if use.unlimited_content == "wide-tracked":  # limited to files on disk, which are also in `use.paths`
        return ""
    tracked = repository.find_tracked()
    if tracked is None:
        return "git may show a file with secrets: the files of the repository could not be listed"
    if use.content == "narrow":
        # A file that is not tracked now may have been a folder in an older commit, with secrets below it.
        if all(_joined(prefix, limit) in tracked.files for limit in use.limits):
            return ""
    else:
        for secret in tracked.secrets:
            if not use.limits or any(_covers(_joined(prefix, limit), secret) for limit in use.limits):
                return f"git may show {secret}, which contains secrets"
    if use.content == "wide-tracked":
        folder = repository.find_linked_folder() if use.name == "grep" and not use.arguments.has("--cached") else ""
        return f"{folder} is a symbolic link that may lead to other files" if folder else ""
    secrets = repository.find_history_secrets()
    if secrets is None:
        return "git may show a file with secrets: the history is too long to check"
    return f"git may show {secrets[0]}, which contains secrets" if secrets else ""


def _joined(prefix: str, path: str) -> str:
    """Return a path below the folder `prefix`, relative to the top of the work tree; empty for the top itself."""
    return "/".join(part for part in f"{prefix}/{path}".split("/") if part not in ("", "."))


def _covers(spec: str, path: str) -> bool:
    """Return whether a pathspec may match a path. A pathspec with brackets is assumed to match any path."""
    if not spec or re.search(r"[\[\\]", spec):
        return True
    if not _WILD.search(spec):
        return path == spec or path.startswith(f"{spec}/")
    return fnmatchcase(path, spec) or fnmatchcase(path, f"{spec}/*")


class _Command(NamedTuple):
    """A command of git without the options before it."""

    name: str
    """As in the table: `stash list` is `stash/list`."""
    words: tuple[Word, ...]
    """The words after the name."""


def _command(words: tuple[Word, ...], roots: tuple[str, ...]) -> _Command:
    """Return the command in the words after `git`. Raise `_UnknownGitUse` if the table does not list it."""
    for word in words:
        if not word.is_known or word.has_glob or word.is_home or word.may_be_several:
            raise _UnknownGitUse("a value that is known only when it runs could become another argument of git")
    arguments = list(words)
    while arguments and (arguments[0].text in git_options() or arguments[0].text == "-C"):
        option = arguments.pop(0)
        if option.text == "-C":
            folder = arguments.pop(0).text if arguments else ""
            if folder not in (".", *roots):
                raise _UnknownGitUse("git would work in another folder, whose configuration was not checked")
    if not arguments:
        raise _UnknownGitUse("git is called without a command")
    first = arguments.pop(0)
    name = first.text
    if arguments and f"{name}/{arguments[0].text}" in git_commands() and _is_bare(arguments[0]):
        name = f"{name}/{arguments.pop(0).text}"
    elif name == "reflog" and arguments:
        arguments = _without_show(arguments)
    if name not in git_commands() or not _is_bare(first):
        raise _UnknownGitUse(f"git {first.text} may do more than read")
    return _Command(name, tuple(arguments))


def _is_bare(word: Word) -> bool:
    """Return whether a word is literal and unquoted."""
    return word == Word(word.text)


def _without_show(words: list[Word]) -> list[Word]:
    """Return the words after `git reflog` without `show`. Raise for any other command of reflog: it may write."""
    first = words[0]
    if first == Word("show"):
        return words[1:]
    if first.text == "--" or not (first.text.startswith("-") or _REFLOG.fullmatch(first.text)):
        raise _UnknownGitUse("this form of git reflog may do more than read")
    return words


class _GitReader:
    """The parser of one git command."""

    def __init__(self, name: str, words: tuple[Word, ...]) -> None:
        self._name = name
        self._program: ProgramSpec = git_commands()[name]
        end = next((index for index, word in enumerate(words) if word.text == "--"), len(words))
        self._is_separated = end < len(words)
        """The words contain a `--`."""
        self._before = words[:end]
        """The words before the `--`."""
        self._after = words[end + 1 :]
        """The words after the `--`."""
        self._arguments = ParsedArguments()
        self._ambiguous_operands: list[str] = []
        self._limits: list[str] = []
        self._paths: list[str] = []
        self._stored_paths: list[str] = []
        self._may_be_blob = False

    def read(self) -> GitUse:
        """Return the data that the command reads and prints."""
        if self._is_separated and self._name not in _ONLY_PATHS_AFTER_DASHES:
            raise _UnknownGitUse(f"qcode does not know what {self._program.label} does with --")
        self._check_combined_options()
        words = self._before
        if words and words[-1].text in _DEFAULTS_TO_HEAD & self._program.options.keys():
            words = (*words, Word("HEAD"))
        arguments = read_arguments(self._program, words)
        if isinstance(arguments, str):
            raise _UnknownGitUse(arguments)
        self._arguments = arguments
        self._check_values()
        self._check_form()
        for word, role in arguments.operands:
            self._add_operand(word.text, role)
        for word in self._after:
            self._limits.append(_checked_path(word.text))
        return self._use()

    def _check_combined_options(self) -> None:
        """Refuse combined options such as `-ab` for commands that do not read them as `-a -b`."""
        for word in self._before:
            text = word.text
            if re.match(r"-[^-\d].", text) and self._name not in _ACCEPT_COMBINED_OPTIONS:
                option = self._program.options.get(text[:2])
                if option is None or option.arity == "none":
                    raise _UnknownGitUse(f"qcode cannot check the combined options {text} of {self._program.label}")

    def _check_values(self) -> None:
        """Refuse values of options that may run a program, or that may be another option."""
        dashed = {word.text for word in self._before if word.text.startswith("-")}
        for name, word in self._arguments.options:
            if word is None:
                continue
            value = word.text
            if value in dashed or value == "--":
                raise _UnknownGitUse(f"the value of {name} could be another option of {self._program.label}")
            option = self._program.options.get(name)
            if option is not None and option.role == "revision":
                self._check_revision(value)
            if name in ("--format", "--pretty"):
                self._check_format(value)
            if name == "--sort" and not _SAFE_REF_FIELDS.fullmatch(re.sub(r"^-?(?:version:|v:)?", "", value)):
                raise _UnknownGitUse(f"sorting by {quoted(value)} may do more than read")
            if name == "--group" and not _SAFE_GROUPS.fullmatch(value):
                raise _UnknownGitUse(f"{name} {value} of {self._program.label} may do more than read")
            if name == "--diff-merges" and value not in _DIFF_MERGES:
                raise _UnknownGitUse(f"{name} {value} of {self._program.label} may do more than read")
            if name == "-L" and self._name == "log":
                self._add_line_range(value)

    def _check_format(self, value: str) -> None:
        """Refuse a format that may run a program, read the configuration or print an unknown field."""
        if self._name in ("ls-files", "ls-tree"):
            return
        if self._name in ("branch", "tag", "for-each-ref"):
            fields = re.findall(r"%\(([^)]*)\)?", value.replace("%%", ""))
            if "%(" in value and not all(_SAFE_REF_FIELDS.fullmatch(field) for field in fields):
                raise _UnknownGitUse("a field of the format may do more than read")
            return
        if value and "%" not in value and value not in _FORMAT_NAMES and not re.match(r"t?format:", value):
            raise _UnknownGitUse(f"the format {quoted(value)} comes from the configuration of git")
        if _UNSAFE_PLACEHOLDERS.search(value):
            raise _UnknownGitUse("the format verifies signatures or runs git")

    def _check_form(self) -> None:
        """Refuse forms of a command that do more than read."""
        operands = [word.text for word, _ in self._arguments.operands]
        has_option = self._arguments.has
        if self._name in ("branch", "tag") and operands and not has_option(*_LIST_OPTIONS):
            if not (self._name == "tag" and has_option("-l")):
                raise _UnknownGitUse(f"{self._program.label} would create {operands[0]}")
        elif self._name == "config":
            self._check_config(operands)
        elif self._name == "symbolic-ref" and not _SYMBOLIC.fullmatch(operands[0]):
            raise _UnknownGitUse(f"qcode cannot check the ref {quoted(operands[0])}")
        elif self._name == "blame" and not 1 <= len(operands) + len(self._after) <= 3:
            raise _UnknownGitUse("git blame names no file")
        elif self._name == "blame" and self._is_separated and len(self._after) != 1:
            raise _UnknownGitUse("git blame needs one file")
        elif self._name == "check-attr" and self._is_separated and has_option("-a", "--all") and operands:
            raise _UnknownGitUse("it names paths before and after --")

    def _check_config(self, words: list[str]) -> None:
        """Refuse `git config NAME VALUE`, which writes; `NAME` alone reads. `get` and `list` exist since git 2.46."""
        has_option = self._arguments.has
        is_listing = has_option("-l", "--list")
        is_getting = has_option("--get", "--get-all", "--get-regexp")
        reads_all = words == ["list"] or (is_listing and not words)
        reads_one = is_getting and len(words) == 1
        if not is_listing and not is_getting:
            names = words[1:] if words[:1] == ["get"] and not self._arguments.options else words
            reads_one = len(names) == 1 and "." in names[0]
        if not reads_all and not reads_one:
            raise _UnknownGitUse("this form of git config may do more than read")

    def _add_operand(self, text: str, role: str) -> None:
        # A parenthesis groups patterns of grep, and only grep reads an operand before its options.
        if text.startswith("-") or (self._name == "grep" and text in ("(", ")")):
            raise _UnknownGitUse(f"qcode does not know what {self._program.label} does with {quoted(text)}")
        if role == "revision":
            self._add_revision(text)
        elif role == "path" or (role == "word" and self._name == "check-attr" and self._is_separated):
            self._limits.append(_checked_path(text))

    def _add_revision(self, text: str) -> None:
        """Record an operand that may be a revision, a range, a file of a revision, or a path."""
        if self._name in _ACCEPT_INDEX_FILES and _INDEX_FORM.fullmatch(text):
            text = f"HEAD:{text.rpartition(':')[2]}"  # judged like the same file of a revision
        self._check_revision(text)
        revision, colon, path = _BRACES.sub("", text).partition(":")
        if colon:  # `HEAD:./file` is relative to the folder of the command, `HEAD:file` to the top of the work tree
            (self._paths if path.startswith("./") else self._stored_paths).append(path or ".")
            self._may_be_blob |= self._name in ("diff", "grep")
        elif _WILD.search(revision):
            self._limits.append(text)
        else:
            self._may_be_blob |= self._name in _MAY_TAKE_BLOBS and _MAY_BE_BLOB.fullmatch(text) is not None
            self._ambiguous_operands.append(text)

    def _check_revision(self, text: str) -> None:
        outside = _BRACES.sub("", text)
        revision, colon, path = outside.partition(":")
        if not text or text.startswith((":", "/", "~")) or ".." in re.split(r"[/:]", outside):
            raise _UnknownGitUse(f"{quoted(text)} may lead outside the repository")
        if colon and (not revision or path.startswith("/") or ".." in path or ":" in path):
            raise _UnknownGitUse(f"qcode cannot check the file {quoted(text)} of a revision")

    def _add_line_range(self, value: str) -> None:
        """Record the path of `-L 1,5:path` or `-L :function:path`."""
        match = re.fullmatch(r":[^:]+:([^:]+)|[^:]+:([^:]+)", value)
        if match is None:
            raise _UnknownGitUse(f"qcode cannot check the line range {quoted(value)}")
        self._paths.append(_checked_path(match[1] or match[2]))

    def _use(self) -> GitUse:
        """Return the parsed command, with the content that it prints."""
        options = frozenset(name for name, _ in self._arguments.options)
        printed = self._content(options)
        reads: Reads = self._program.reads  # type: ignore[assignment]  # a test checks the data file
        if printed.content == "none":
            return GitUse(self._name, self._arguments, reads)
        ambiguous = () if self._is_separated else tuple(self._ambiguous_operands)
        plain_limits = (limit for limit in self._limits if not _WILD.search(limit))
        paths = (*self._paths, *self._ambiguous_operands, *plain_limits)
        is_wide = printed.content != "narrow"
        is_limited = is_wide and not options & _OPTIONS_BEYOND_PATHS and not self._may_be_blob
        return GitUse(
            self._name,
            self._arguments,
            reads,
            printed.content,
            paths=paths,
            stored_paths=tuple(self._stored_paths),
            limits=tuple(self._limits) if is_limited else (),
            ambiguous_operands=ambiguous if is_limited else (),
            plain_content=printed.without_revision,
        )

    def _content(self, options: frozenset[str]) -> _PrintedContent:
        name = self._name
        has_revision = bool(self._ambiguous_operands or self._stored_paths)
        if name in ("blame", "cat-file", "grep"):
            return self._content_by_name(options, has_revision=has_revision)
        if name == "status":
            return _always("wide-history" if options & {"-v", "--verbose"} else "none")
        if not self._shows_patch(options):
            return _always("none")
        has_other_operands = bool(self._ambiguous_operands or self._limits)
        if name == "show" and self._stored_paths and not (has_other_operands or options & _REVISION_OPTIONS):
            return _always("narrow")
        if name == "diff" and not options & {"--cached", "--staged", "--merge-base"}:
            return self._by_revision(has_revision=has_revision)
        return _always("wide-history")

    def _content_by_name(self, options: frozenset[str], *, has_revision: bool) -> _PrintedContent:
        if self._name == "blame":
            return _always("narrow")
        if self._name == "grep":
            return self._by_revision(has_revision=has_revision)
        if options & {"-t", "-s", "-e"}:
            return _always("none")
        return _always("wide-history" if self._ambiguous_operands else "narrow")

    def _by_revision(self, *, has_revision: bool) -> _PrintedContent:
        """Return the content of `diff` or `grep`: without a revision, they print only tracked files."""
        return _PrintedContent(
            "wide-history" if has_revision else "wide-tracked",
            without_revision="wide-history" if self._stored_paths else "wide-tracked",
        )

    def _shows_patch(self, options: frozenset[str]) -> bool:
        """Return whether a command of the `log` and `diff` family may print contents."""
        if "-p" not in self._program.options:
            return False
        if options & (_PATCH_OPTIONS | _SEARCH_OPTIONS) or (self._name == "show" and self._may_be_blob):
            return True
        if self._name == "show" and self._stored_paths:
            return True
        is_default = self._name in ("diff", "show") or (self._name == "stash/show" and bool(options))
        return is_default and not options & _NO_PATCH_OPTIONS


def _always(content: Content) -> _PrintedContent:
    """Return the content of a command that prints the same with and without a revision."""
    return _PrintedContent(content, without_revision=content)


def _checked_path(text: str) -> str:
    """Return a pathspec if it has no magic and stays below the folder that the command runs in."""
    if not text or text.startswith((":", "/", "~")) or ".." in text.split("/"):
        raise _UnknownGitUse(f"{quoted(text)} may lead outside the repository")
    return text
