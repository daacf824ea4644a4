"""git commands that only read, each with its options. Pure.

Facts: https://git-scm.com/docs. They hold while the configuration was looked at and qcode's overrides are in force
(`launch.git_config`): without that any of these may run a program. Left out is what writes (`--output`), runs (`-O`,
`--ext-diff`, `--textconv`), verifies signatures (`--show-signature`, `%G`), asks the network, opens a page of the
manual, or reads outside the repository (`--no-index`, `--contents`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from qcode.protocol.values import dataclass
from qcode.safety.shell.forms import Word
from qcode.safety.shell.usage import Program, Role, Use, program

Reads: TypeAlias = Literal["nothing", "objects", "work tree", "configuration"]
"""What a command looks at; a work tree may hold other repositories, a configuration credentials."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A reading command of git: its name, the words after it, and the table to read them by."""

    name: str
    words: tuple[Word, ...]
    program: Program
    reads: Reads


_TRACKED: tuple[Role, ...] = ("tracked",)
_BEFORE = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"})
_MAGIC = re.compile(r":(\([a-z,!^:/ ]*\)|[!^/:]+|[0-3]:)?")

_DIFF_FLAGS = (
    "stat stat= numstat shortstat dirstat summary name-only name-status raw patch no-patch patch-with-stat minimal "
    "patience histogram diff-algorithm= color color= no-color word-diff word-diff= color-words color-words= "
    "color-moved color-moved= no-renames check full-index binary abbrev abbrev= find-renames find-renames= find-copies "
    "find-copies= find-copies-harder pickaxe-regex pickaxe-all text ignore-space-at-eol ignore-space-change "
    "ignore-all-space ignore-blank-lines ignore-cr-at-eol ignore-submodules ignore-submodules= function-context "
    "exit-code quiet no-ext-diff no-textconv relative relative= no-prefix compact-summary cc combined-all-paths "
    "indent-heuristic no-indent-heuristic unified= inter-hunk-context= diff-filter= stat-width= stat-count= "
    "ws-error-highlight= src-prefix= dst-prefix= submodule=short no-relative"
)
_DIFF_VALUES = "U|unified:number S G inter-hunk-context:number diff-filter diff-algorithm"
_LOG_FLAGS = (
    "oneline graph all decorate decorate= no-decorate merges no-merges first-parent reverse follow full-history dense "
    "sparse simplify-merges ancestry-path abbrev-commit no-abbrev-commit date= pretty pretty= format= since= after= "
    "until= before= author= committer= grep= invert-grep all-match extended-regexp fixed-strings perl-regexp "
    "regexp-ignore-case date-order topo-order author-date-order simplify-by-decoration branches branches= tags tags= "
    "remotes remotes= glob= exclude= cherry-pick cherry-mark cherry left-right left-only right-only boundary "
    "walk-reflogs relative-date parents children source show-pulls no-walk max-count= skip= min-parents= max-parents= "
    "notes no-notes full-diff use-mailmap mailmap no-mailmap root clear-decorations decorate-refs= log-size "
    "count left-right objects no-expand-tabs show-notes encoding= not reflog do-walk"
)
_LOG_VALUES = (
    f"{_DIFF_VALUES} n|max-count:number L since after until before author committer grep skip:number format pretty date"
)
_DIFF = program(
    "pusRawbzMCBDWmct", f"{_DIFF_FLAGS} cached staged merge-base", _DIFF_VALUES, _TRACKED, has_number_flag=True
)
_LOG = program("pusqaRwbzMCBDWmctgiEFP", f"{_DIFF_FLAGS} {_LOG_FLAGS}", _LOG_VALUES, _TRACKED, has_number_flag=True)
_LIST = (
    "list contains contains= no-contains no-contains= merged merged= no-merged no-merged= points-at= sort= format= "
    "column column= no-column color color= no-color ignore-case abbrev= no-abbrev"
)
_LIST_VALUES = "sort format points-at"
_ASKS_FOR_A_LIST = (
    "-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at",
)  # fmt: skip


def _check_list(use: Use) -> str:
    """`branch` and `tag` make what they are told the name of, unless an option asks for a list."""
    return "" if not use.operands or use.has(*_ASKS_FOR_A_LIST) else "an operand names what is made"


def _check_reflog(use: Use) -> str:
    is_known = not use.operands or re.fullmatch(r"show|list|(HEAD|@|stash|refs/).*", use.operands[0].text)
    return "" if is_known else "this form of reflog is not known to only read"


def _check_config(use: Use) -> str:
    """One name reads; two write. `get` and `list` are words since git 2.46."""
    words = [word.text for word in use.operands]
    if use.has("-l", "--list") and not words:
        return ""
    if use.has("--get", "--get-all", "--get-regexp") and len(words) == 1:
        return ""
    if words == ["list"] or (len(words) == 2 and words[0] == "get") or (len(words) == 1 and "." in words[0]):
        return ""
    return "this form of config is not known to only read"


def _check_symbolic(use: Use) -> str:
    return "" if len(use.operands) == 1 else "a second operand is written"


def _check_cat(use: Use) -> str:
    has_mode = use.has("-t", "-s", "-p", "-e")
    return "" if len(use.operands) == (1 if has_mode else 2) else "this form of cat-file is not known to only read"


_COMMANDS: Mapping[str, tuple[Program, Reads]] = {
    "status": (
        program(
            "sbvzu",
            "short branch long verbose porcelain porcelain= show-stash ahead-behind no-ahead-behind untracked-files "
            "untracked-files= ignored ignored= no-renames renames column no-column ignore-submodules "
            "ignore-submodules=",
            "",
            _TRACKED,
            exact="-uno -unormal -uall",
        ),
        "work tree",
    ),
    "diff": (_DIFF, "work tree"),
    "log": (_LOG, "objects"),
    "show": (_LOG, "objects"),
    "whatchanged": (_LOG, "objects"),
    "rev-list": (_LOG, "objects"),
    "reflog": (replace(_LOG, check=_check_reflog), "objects"),
    "stash list": (_LOG, "objects"),
    "stash show": (_LOG, "objects"),
    "shortlog": (
        program("nsecE", f"{_LOG_FLAGS} numbered summary email group= no-merges", "since until author", _TRACKED),
        "objects",
    ),
    "branch": (
        program("arvlqi", f"{_LIST} all remotes verbose show-current", _LIST_VALUES, _TRACKED, check=_check_list),
        "objects",
    ),
    "tag": (
        program("li", _LIST, _LIST_VALUES, _TRACKED, check=_check_list, exact="-n -n1 -n2 -n3 -n5 -n9"),
        "objects",
    ),
    "for-each-ref": (program("", f"{_LIST} count=", f"{_LIST_VALUES} count:number", _TRACKED), "objects"),
    "show-ref": (
        program("dsq", "head heads tags branches dereference hash hash= verify quiet abbrev=", "", _TRACKED),
        "objects",
    ),
    "blame": (
        program(
            "wMCslteflnpbc",
            "porcelain line-porcelain show-email show-name show-number root date= since= abbrev= color-lines "
            "color-by-age incremental show-stats first-parent reverse ignore-rev=",
            "L ignore-rev date since",
            _TRACKED,
        ),
        "work tree",
    ),
    "grep": (
        program(
            "niIlLcwvoEFGPhHqazpWsr",
            "cached line-number ignore-case files-with-matches name-only files-without-match count word-regexp "
            "invert-match only-matching extended-regexp basic-regexp fixed-strings perl-regexp text quiet "
            "all-match and or not color color= no-color break heading column show-function function-context full-name "
            "null max-count= threads= no-recursive recursive",
            "e A|after-context:number B|before-context:number C|context:number m|max-count:number max-depth:number",
            roles=lambda use: ("tracked",) if use.has("-e") else ("text", "tracked"),
            has_number_flag=True,
        ),
        "work tree",
    ),
    "ls-files": (
        program(
            "cdmoiskuztvf",
            "cached deleted modified others ignored stage unmerged killed exclude-standard eol full-name abbrev "
            "abbrev= error-unmatch directory no-empty-directory deduplicate format= exclude= debug",
            "x|exclude",
            _TRACKED,
        ),
        "work tree",
    ),
    "ls-tree": (
        program(
            "drtlz", "name-only name-status long full-name full-tree object-only abbrev abbrev= format=", "", _TRACKED
        ),
        "objects",
    ),
    "rev-parse": (
        program(
            "q",
            "show-toplevel git-dir absolute-git-dir git-common-dir is-inside-work-tree is-inside-git-dir "
            "is-bare-repository is-shallow-repository show-prefix show-cdup show-ref-format show-object-format "
            "abbrev-ref abbrev-ref= short short= verify quiet symbolic symbolic-full-name all branches branches= tags "
            "tags= remotes remotes= revs-only no-revs flags no-flags path-format= since= until= not",
            "",
            _TRACKED,
        ),
        "objects",
    ),
    "describe": (
        program(
            "",
            "all tags long always dirty dirty= broken exact-match first-parent contains abbrev= candidates= match= "
            "exclude= debug",
            "match exclude",
            _TRACKED,
        ),
        "work tree",
    ),
    "merge-base": (program("a", "all is-ancestor fork-point octopus independent", "", _TRACKED), "objects"),
    "name-rev": (program("", "tags refs= exclude= name-only all always no-undefined", "", _TRACKED), "objects"),
    "cherry": (program("v", "abbrev abbrev=", "", _TRACKED), "objects"),
    "cat-file": (program("tspe", "", "", _TRACKED, check=_check_cat), "objects"),
    "diff-tree": (replace(_LOG, flags=_LOG.flags | {"-r", "--no-commit-id", "-v"}), "objects"),
    "diff-index": (_DIFF, "work tree"),
    "diff-files": (_DIFF, "work tree"),
    "count-objects": (program("vH", "verbose human-readable"), "objects"),
    "check-ignore": (program("vqn", "verbose quiet non-matching no-index", "", _TRACKED), "work tree"),
    "check-attr": (program("a", "all cached", "", _TRACKED), "work tree"),
    "remote": (program("v", "verbose"), "configuration"),
    "remote get-url": (program("", "push all", "", ("text",), most=1), "configuration"),
    "config": (
        program(
            "lz",
            "list get get-all get-regexp local global system worktree show-origin show-scope name-only null includes "
            "no-includes type= bool int bool-or-int path",
            "",
            ("text",),
            check=_check_config,
        ),
        "configuration",
    ),
    "symbolic-ref": (program("q", "short quiet recurse no-recurse", "", _TRACKED, check=_check_symbolic), "objects"),
    "worktree list": (program("vz", "verbose porcelain"), "objects"),
    "notes list": (program("", "", "", _TRACKED, most=1), "objects"),
    "notes show": (program("", "", "", _TRACKED, most=1), "objects"),
    "version": (program("", "build-options"), "nothing"),
}


def asked_by(words: tuple[Word, ...], roots: tuple[str, ...]) -> Asked | str:
    """Return the reading command that the words after `git` ask for, or what is not known among them.

    `roots` are spellings of the folder it runs in, which `-C` may name.
    """
    rest = list(words)
    while rest and rest[0].text in (*_BEFORE, "-C"):
        option = rest.pop(0)
        if option.text == "-C" and (not rest or rest.pop(0).text not in (".", *roots)):
            return "it works in another folder, whose configuration was not looked at"
    if not rest:
        return "it has no command"
    first = rest.pop(0)
    name = first.text
    if rest and f"{name} {rest[0].text}" in _COMMANDS and rest[0] == Word(rest[0].text):
        name = f"{name} {rest.pop(0).text}"
    if first != Word(first.text) or name not in _COMMANDS:
        what = "option" if name.startswith("-") else "command"
        return f"the {what} {name!r} is not known to only read"
    known, reads = _COMMANDS[name]
    if any("%G" in word.text or "%(signature" in word.text for word in rest):
        return "a format that verifies signatures"
    return Asked(name, tuple(rest), known, reads)


def without_magic(text: str) -> str:
    """Return the path of a pathspec without what git reads before it: `:(top)`, `:!`, `:/`."""
    return _MAGIC.sub("", text, count=1)
