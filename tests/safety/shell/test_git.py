"""Parsing of git commands: which are understood, which contents they print, and how the repository affects both."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from qcode.safety.probes import Repository, TrackedFiles
from qcode.safety.shell.ast import PLACEHOLDER, Expansion, Word
from qcode.safety.shell.git import GitUse, Kind, classify_operands, read_git, repository_refusal, secrets_refusal
from qcode.safety.shell.table import git_commands

ROOTS = ("/repo", "/real/repo")


def why_not(use: GitUse, repository: Repository, prefix: str = "") -> str:
    return repository_refusal(use, repository) or secrets_refusal(use, repository, prefix)


def words(command: str) -> tuple[Word, ...]:
    return tuple(Word(text) for text in shlex.split(command))


def use_of(command: str, **kinds: Kind) -> GitUse:
    """Read a command, with files and folders as the keywords say; `a_py` stands for `a.py`."""
    found = read_git(words(command), ROOTS)
    assert isinstance(found, GitUse), found
    on_disk = {name.replace("_", "."): kind for name, kind in kinds.items()}
    return classify_operands(found, lambda path: on_disk.get(path.rstrip("/"), ""))


def complaint(command: str) -> str:
    found = read_git(words(command), ROOTS)
    assert isinstance(found, str), f"{command}: understood as {found}"
    assert "\n" not in found
    return found


def repository_with(
    tracked: tuple[str, ...] = (), history: tuple[str, ...] | None = (), files: tuple[str, ...] = (), link: str = ""
) -> Repository:
    return Repository(
        find_tracked=lambda: TrackedFiles(frozenset((*files, *tracked)), tracked),
        find_history_secrets=lambda: history,
        find_linked_folder=lambda: link,
    )


@pytest.mark.parametrize(
    "command",
    [
        # --pretty takes no next word: what follows is an option to git.
        "log -1 --pretty --output=x --format=%B",
        "log -1 --pretty --output x",
        # git reads the options of log twice; the first time --quiet is taken out, so --grep takes --author.
        "log --grep --quiet --author --output=x",
        "log --grep --quiet --author --stat",
        "log -S --stat",
        "log -n -5",
        "log --author -- x",
        "log --grep=x --end-of-options y",
        # Several options in one word: the revision machinery reads only the first.
        "log -pw",
        "diff -pq",
        "show -sp",
        "blame -wC x",
        "stash show -pu",
        "log --onel",
        "log --outp=x",
        "diff --output=x",
        "diff --no-index a b",
        "diff -Oorder",
        "diff -O order",
        "diff --ext-diff",
        "diff --textconv",
        "diff --submodule",
        "diff --submodule=log",
        "log --remerge-diff",
        "log --diff-merges=remerge -p",
        "log --diff-merges=r -p",
        "log --show-signature",
        "log --format=%G?",
        "shortlog --group=%GK HEAD",
        "shortlog --group=format:%GS HEAD",
        "log --format=%+G?",
        "log --format=%-GK",
        "log '--format=% GS'",
        "log --pretty=tformat:%GG",
        "log '--format=%(describe)'",
        "log '--format=%+(describe:tags)'",
        "log --pretty=mine",
        "log --stdin",
        "log --alternate-refs",
        "describe --dirty",
        "describe --broken",
        "blame --contents x y",
        "blame --ignore-revs-file x y",
        "blame -S x y",
        "blame",
        "blame -- a b",
        "grep -f x",
        "grep -O x",
        "grep -Ovim x",
        "grep --open-files-in-pager x",
        "grep --untracked x",
        "grep --no-index x",
        "grep --recurse-submodules x",
        "grep x -n",
        "grep -- x",
        "grep -e x ( y )",
        "ls-files --eol",
        "ls-files -X x",
        "ls-files --exclude-per-directory=.env",
        "ls-files -o :/",
        "ls-files :(top)x",
        "log -- :/",
        "log -- :!x",
        "diff :(attr:diff)x",
        "show :/fix",
        "show ':!x'",
        "show :0:../x",
        "show HEAD:../x",
        "show HEAD:a..HEAD:.env",
        "show HEAD:/etc/passwd",
        "diff /etc/passwd x",
        "diff ../x ../y",
        "diff a b/../../x",
        "diff ..",
        "diff HEAD -",
        "log ~/x",
        "log -- ~/x",
        "log -L /a:b/,+5:x",
        "log -L 1,5:../x",
        "log -L 1,5",
        "cat-file --batch",
        "cat-file --textconv HEAD:x",
        "cat-file -p",
        "cat-file -p a b",
        "branch x",
        "branch -v x",
        "branch -l x",
        "branch --sort=refname x",
        "branch -d x",
        "branch --merged --sort=x main",
        "branch --sort=signature",
        "branch --sort=describe",
        "branch '--format=%(signature:signer)'",
        "for-each-ref '--format=%(raw)'",
        "for-each-ref '--format=%(*raw)'",
        "for-each-ref '--format=%(describe)'",
        "for-each-ref '--format=%%%(raw)'",
        "for-each-ref '--format=%(raw'",
        "tag x",
        "tag -n x",
        "tag --format=x y",
        "config a.b c",
        # The first operand ends the options: this writes the value --get.
        "config a.b --get",
        "config a.b --list",
        "config --get a.b c",
        "config --system -l",
        "config -f x -l",
        "config --blob x -l",
        "config set a.b",
        "config unset a.b",
        "config edit",
        "config --list x.y",
        "config --type=bool a.b c",
        "reflog expire",
        "reflog delete x",
        "reflog drop",
        "reflog write",
        "reflog -- expire",
        "remote update",
        "remote -v update",
        "remote -v get-url origin",
        "stash",
        "stash pop",
        "stash list -- x",
        "stash -q list",
        "notes add",
        "symbolic-ref HEAD refs/heads/x",
        "symbolic-ref ../x",
        "symbolic-ref refs/heads/../x",
        "rev-parse --parseopt",
        "rev-parse --git-path x",
        "check-ignore --stdin",
        "check-ignore ../x",
        "check-attr -a ../x",
        "submodule status",
        "-c a.b=c log",
        "-ca.b=c log",
        "-p log",
        "--no-replace-objects log",
        "--git-dir=x log",
        "-C src log",
        "-C . -C src log",
        "-C /repo/src log",
        "-C",
        "--no-pager",
        "",
        "log ''",
        "log -- ''",
        "log '@file' --output=x",
    ],
)  # fmt: skip
def test_command_that_may_do_more_than_read_is_not_understood(command: str) -> None:
    assert complaint(command)


@pytest.mark.parametrize(
    "word",
    [
        Word(PLACEHOLDER, unknown="text"),
        Word(f"--grep={PLACEHOLDER}", unknown="text"),
        Word("x", expansions=(Expansion("X"),), unknown="text"),
        Word("*.py", has_glob=True),
        Word("~/x", is_home=True),
    ],
)
def test_word_that_is_not_known_in_full_is_not_understood(word: Word) -> None:
    assert isinstance(read_git((Word("log"), word), ROOTS), str)
    assert isinstance(read_git((Word("log"), Word("--"), word), ROOTS), str)


def test_quoted_name_of_a_command_is_not_understood() -> None:
    assert isinstance(read_git((Word("log", is_quoted=True),), ROOTS), str)
    assert isinstance(read_git((Word("stash"), Word("list", is_quoted=True)), ROOTS), str)


@pytest.mark.parametrize(
    "command",
    [
        "--no-pager -P --no-optional-locks --literal-pathspecs log",
        "-C . status",
        "-C /repo log",
        "-C /real/repo log",
        "status -sb",
        "status -uno",
        "status --porcelain=v2",
        "status -- x",
        "log @{u}..HEAD",
        "log -5",
        "log --since=yesterday -- '*.py'",
        "log --format= --name-only",
        "log --pretty=oneline --format='%h %(trailers:key=X) %C(auto)%d'",
        "log --diff-merges=first-parent --stat",
        "log --decorate --graph",
        "branch --contains",
        "branch --merged",
        "branch -r --merged main --no-contains HEAD~3",
        "branch -av --sort=-committerdate '--format=%(refname:short) %(*objectname)'",
        "branch --list 'x*'",
        "tag -l 'v*'",
        "tag -n5",
        "tag --sort=-v:refname",
        "for-each-ref --count=3 --sort=-creatordate '--format=%(if)%(HEAD)%(then)*%(end)%(refname)' refs/heads",
        "config a.b",
        "config get a.b",
        "config list",
        "config --get-regexp '^remote'",
        "config --local --list --show-origin",
        "reflog",
        "reflog show main -5",
        "reflog HEAD@{1}",
        "reflog -5",
        "stash list -p",
        "stash show stash@{1}",
        "notes show HEAD",
        "worktree list --porcelain",
        "symbolic-ref --short HEAD",
        "shortlog -sne --since='1 week ago'",
        "describe --tags --always",
        "ls-tree -r HEAD -- src",
        "check-attr diff -- x",
        "check-attr -a x",
        "rev-parse --abbrev-ref --symbolic-full-name @{u}",
    ],
)
def test_command_that_only_reads_is_understood(command: str) -> None:
    assert use_of(command).name in git_commands()


def test_option_that_takes_a_commit_reads_the_head_if_it_is_the_last_word() -> None:
    assert use_of("branch --merged").arguments.values("--merged") == ("HEAD",)
    assert use_of("branch --merged main").arguments.values("--merged") == ("main",)
    assert complaint("branch --merged --no-color")


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("log", "none"),
        ("log --stat --name-only HEAD -- .env", "none"),
        ("log -p", "wide-history"),
        ("log -1 -U5", "wide-history"),
        ("log -S x --oneline", "wide-history"),
        ("log -Gx", "wide-history"),
        ("log --cc", "wide-history"),
        ("log -L 1,5:x", "wide-history"),
        ("log --follow -p -- x", "wide-history"),
        ("show", "wide-history"),
        ("show --stat HEAD", "none"),
        ("show -s --format=%B main", "none"),
        ("show --stat -p", "wide-history"),
        ("show -s abcd1234", "wide-history"),
        ("show --stat ABCD", "wide-history"),
        ("show --stat v1-2-gabcd1234", "wide-history"),
        ("show -s x-gabcd^{blob}", "wide-history"),
        ("show --stat abcd^{blob}", "wide-history"),
        ("show --stat abcd~1", "none"),
        ("show HEAD:a/b", "narrow"),
        ("show -s HEAD:a/b", "narrow"),
        ("show :a/b", "narrow"),
        ("show --reflog :a/b", "wide-history"),
        ("show --branches=x HEAD:a/b", "wide-history"),
        ("show :2:a/b", "narrow"),
        ("show HEAD HEAD:a/b", "wide-history"),
        ("diff", "wide-tracked"),
        ("diff --stat", "none"),
        ("diff --name-only main", "none"),
        ("diff --quiet", "none"),
        ("diff --quiet -S x", "wide-tracked"),
        ("diff --check", "wide-tracked"),
        ("diff --cached", "wide-history"),
        ("diff HEAD", "wide-history"),
        ("diff main...HEAD", "wide-history"),
        ("diff HEAD:a HEAD:b", "wide-history"),
        ("grep x", "wide-tracked"),
        ("grep -l x", "wide-tracked"),
        ("grep -q -e x", "wide-tracked"),
        ("grep x HEAD", "wide-history"),
        ("grep x HEAD:a", "wide-history"),
        ("blame x", "narrow"),
        ("cat-file -t HEAD", "none"),
        ("cat-file -p HEAD", "wide-history"),
        ("cat-file -p HEAD:x", "narrow"),
        ("cat-file blob HEAD:x", "narrow"),
        ("stash show", "none"),
        ("stash show --stat", "none"),
        ("stash show -p", "wide-history"),
        ("stash show --color", "wide-history"),
        ("stash list -p", "wide-history"),
        ("reflog", "none"),
        ("reflog -p", "wide-history"),
        ("status", "none"),
        ("status -v", "wide-history"),
        ("diff-tree -r HEAD", "none"),
        ("diff-tree -p HEAD", "wide-history"),
        ("rev-list --objects HEAD", "none"),
        ("ls-files -s", "none"),
        ("branch -v", "none"),
    ],
)
def test_printed_content_follows_from_the_options(command: str, content: str) -> None:
    assert use_of(command).content == content


@pytest.mark.parametrize(
    ("command", "paths", "stored"),
    [
        ("diff a.py b.py", ("a.py", "b.py"), ()),
        ("diff main -- a.py", ("main", "a.py"), ()),
        ("diff --stat a.py", (), ()),
        ("show HEAD:src/a.py", (), ("src/a.py",)),
        ("show HEAD:./a.py", ("./a.py",), ()),
        ("show :1:src/a.py", (), ("src/a.py",)),
        ("show HEAD@{10:30}:a.py", (), ("a.py",)),
        ("show HEAD:", (), (".",)),
        ("blame -L 1,2 main a.py", ("main", "a.py"), ()),
        ("log -L 1,2:a.py", ("a.py",), ()),
        ("log -L :main:a.py", ("a.py",), ()),
        ("grep x -- a.py '*.env'", ("a.py",), ()),
        ("cat-file -p HEAD:.env", (), (".env",)),
    ],
)
def test_files_that_a_command_shows_are_named(command: str, paths: tuple[str, ...], stored: tuple[str, ...]) -> None:
    found = use_of(command)
    assert (found.paths, found.stored_paths) == (paths, stored)


def test_operand_is_a_path_if_there_is_one_and_a_revision_if_not() -> None:
    assert use_of("diff a.py", a_py="file").content == "narrow"
    assert use_of("diff src", src="folder").content == "wide-tracked"
    assert use_of("diff src", src="folder").limits == ("src",)
    assert use_of("diff HEAD a.py", a_py="file").content == "narrow"
    assert use_of("diff HEAD src", src="folder").content == "wide-history"
    assert use_of("log -p a.py", a_py="file").unlimited_content == "wide-history"
    assert use_of("grep x a.py", a_py="file").unlimited_content == "wide-tracked"
    assert use_of("grep x gone.py").content == "wide-history"
    assert use_of("show HEAD -- a.py", a_py="file").content == "narrow"
    assert use_of("show HEAD -- a.py").content == "wide-history"
    assert use_of("show HEAD -- a.py b.py", a_py="file").content == "wide-history"


def test_pathspec_does_not_limit_rename_tracking_or_blobs() -> None:
    for command in ("log -p --follow -- a.py", "log -p --full-diff -- a.py", "log -L 1,2:a.py"):
        assert use_of(command, a_py="file").content == "wide-history", command
    for command in ("show abcd1234 -- a.py", "diff abcd1234 a.py", "grep x abcd1234 -- a.py", "diff HEAD:b a.py"):
        found = use_of(command, a_py="file")
        assert (found.content, found.limits) == ("wide-history", ()), command


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("grep x", True),
        ("grep -c x", True),
        ("grep --cached x", True),
        ("grep x -- src", False),
        ("grep x -- deploy", True),
        ("grep x -- deploy/", True),
        ("grep x -- .", True),
        ("grep x -- '*.py'", False),
        ("grep x -- '*env'", True),
        ("grep x -- 'deploy/*'", True),
        ("grep x -- '[a-z]*'", True),
        ("grep x -- '*.py' '.e?v'", False),
        ("grep x -- '*.py' '*.e?v'", True),
        ("diff", True),
        ("diff --stat", False),
        ("diff -- src", False),
        ("log", False),
        ("ls-files", False),
        ("status", False),
        ("blame a.py", False),
    ],
)
def test_tracked_secret_asks_only_if_the_command_may_show_it(command: str, found: bool) -> None:
    reason = why_not(use_of(command), repository_with(tracked=("deploy/.env",)))
    assert bool(reason) == found, reason
    assert not found or "deploy/.env" in reason


@pytest.mark.parametrize(
    "command",
    [
        "show", "show HEAD", "log -p", "diff HEAD~1", "diff --cached", "grep x HEAD", "stash show -p", "log -S x",
        "cat-file -p abcd", "status -v",
    ],
)  # fmt: skip
def test_secret_in_the_history_asks_before_any_of_it_is_shown(command: str) -> None:
    assert ".env" in why_not(use_of(command), repository_with(history=("old/.env",)))
    assert "too long" in why_not(use_of(command), repository_with(history=None))
    assert ".env" in why_not(use_of(command), repository_with(tracked=(".env",)))
    assert why_not(use_of(command), repository_with()) == ""


def test_secret_in_the_history_does_not_ask_for_names_messages_and_single_files() -> None:
    repository = repository_with(history=None, files=("a.py",))
    for command in ("log --stat", "show --name-only HEAD", "status", "diff --stat HEAD~3", "blame a.py", "show HEAD:b"):
        assert why_not(use_of(command), repository) == "", command
    assert why_not(use_of("log -p -- a.py", a_py="file"), repository) == ""
    assert why_not(use_of("diff"), repository) == ""


def test_file_that_may_have_been_a_folder_of_secrets_asks() -> None:
    """An untracked file `conf` says nothing about the commits, in which `conf/.env` may be."""
    command = use_of("log -p -- conf", conf="file")
    assert why_not(command, repository_with(history=("conf/.env",)))
    assert why_not(command, repository_with(history=("conf/.env",), files=("conf",))) == ""
    assert why_not(command, repository_with()) == ""
    assert (
        why_not(use_of("log -p -- a.py", a_py="file"), repository_with(history=("x",), files=("src/a.py",)), "src")
        == ""
    )


def test_pathspecs_are_relative_to_the_folder_that_the_command_runs_in() -> None:
    repository = repository_with(tracked=("src/.env",))
    assert why_not(use_of("grep x -- lib"), repository, "src") == ""
    assert why_not(use_of("grep x -- ."), repository, "src")
    assert why_not(use_of("grep x -- ."), repository, "lib") == ""
    assert why_not(use_of("grep x -- '*env'"), repository, "src")


def test_files_that_cannot_be_listed_ask() -> None:
    repository = replace(repository_with(), find_tracked=lambda: None)
    assert "could not be listed" in why_not(use_of("grep x"), repository)
    assert "could not be listed" in why_not(use_of("show"), repository)
    assert why_not(use_of("status"), repository) == ""


def test_folder_that_became_a_link_asks_for_a_search_of_the_work_tree() -> None:
    repository = repository_with(link="src")
    assert "src" in why_not(use_of("grep x"), repository)
    assert "src" in why_not(use_of("grep x -- '*.py'"), repository)
    assert why_not(use_of("grep --cached x"), repository) == ""
    assert why_not(use_of("grep x HEAD"), repository) == ""
    assert why_not(use_of("diff"), repository) == ""


def test_repository_that_is_not_clean_asks() -> None:
    assert why_not(use_of("log"), Repository("it sets core.fsmonitor")) == "it sets core.fsmonitor"
    assert "no repository" in why_not(use_of("diff a b"), Repository(is_present=False))
    assert why_not(use_of("version"), Repository("x", is_present=False)) == ""
    assert why_not(use_of("status"), Repository(has_submodules=True))
    assert why_not(use_of("log -p"), Repository(has_submodules=True)) == ""
    assert why_not(use_of("remote -v"), Repository(has_credentials=True))
    assert why_not(use_of("log"), Repository(has_credentials=True)) == ""


def test_rows_declare_their_reads_and_each_option_once() -> None:
    for name, program in git_commands().items():
        assert program.reads in ("nothing", "objects", "work tree", "configuration"), name
        assert not program.options.keys() & program.refused.keys(), name
        assert program.core_options <= program.options.keys() | {"-NUMBER"}, name
        for option in program.options:
            assert re.fullmatch(r"-[A-Za-z]|--[a-z][a-z-]+", option), (name, option)


@pytest.mark.parametrize(
    "name",
    [
        "--output", "--ext-diff", "--textconv", "--no-index", "-O", "--show-signature", "--remerge-diff", "--submodule",
        "--stdin", "--help", "--recurse-submodules", "--pathspec-from-file", "--contents", "--open-files-in-pager",
        "--filters", "--dirty",
    ],
)  # fmt: skip
def test_dangerous_option_is_in_no_row(name: str) -> None:
    assert [row.name for row in git_commands().values() if name in row.options] == []
