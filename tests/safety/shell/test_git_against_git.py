"""The rows of git against the installed git, under strace in a repository full of traps.

Git writes nothing (it does not even refresh the index), starts no other program and connects nowhere. Outside the
repository it reads only files of the system. It prints no content that `read_git` does not report.
`make test` runs a sample, `make test-all` every option of every command in each position, and thousands of pairs.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from qcode.safety.git_repository import RepositoryProbe
from qcode.safety.shell.ast import Word
from qcode.safety.shell.git import GitUse, Kind, classify_operands, read_git
from qcode.safety.shell.table import ProgramSpec
from tests.safety.shell import git_cases
from tests.safety.shell.git_cases import Case
from tests.safety.shell.git_scratch import PATH, GitScratch, add_submodule, make_scratch
from tests.safety.shell.strace import Run, observe, require_strace

_SEED = 11
_SAMPLE = 1
"""Commands of each row that are tried by default, beside pairs."""
_PAIRS = 600
_SYSTEM = ("/usr/", "/lib/", "/lib64/", "/etc/", "/sys/devices/system/cpu/", "/proc/self/", "/dev/null")
_GIT = re.compile(r"/usr/(?:local/)?(?:bin|lib(?:exec)?/git-core)/git")
_NOT_KEPT = re.compile(r"openat\(/dev/null, .*\)")
_CONSULTED = (".gitattributes", ".gitignore", ".gitmodules", ".mailmap")
_SPRUNG = "a trap was sprung, by this or an earlier command"
_REFUSALS = r"usage:|unrecognized argument: --format|Needed a single revision|--path-format requires an argument"
"""Errors that git makes of another word than the one it does not know."""

_CANARY = re.compile(rb"canary:([\w./]+)")
_COMMITTED = frozenset({"a.txt", "src/b.c", "src/c.c", "old/gone.txt", "deploy/.env", "topic.txt", "image.bin"})
_TRACKED = frozenset({"a.txt", "src/b.c", "src/c.c", "deploy/.env", "image.bin"})
"""Canaries in files of the index. `src/c.c` was renamed from `src/b.c` and has the canary of the old name."""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> GitScratch:
    return make_scratch(tmp_path_factory.mktemp("git"))


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> GitScratch:
    made = make_scratch(tmp_path_factory.mktemp("nested"))
    add_submodule(made)
    return made


def test_repository_with_traps_is_one_that_the_probe_lets_through(scratch: GitScratch, nested: GitScratch) -> None:
    for place in (scratch, nested):
        found = probe(place)()
        assert (found.problem, found.is_present) == ("", True)
        assert found.has_submodules is (place is nested)


def test_sample_of_options_stays_within_its_rows(scratch: GitScratch) -> None:
    chance = random.Random(_SEED)
    cases: list[Case] = []
    for program in git_cases.all_commands():
        singles = understood(git_cases.single_cases(program), scratch)
        cases += chance.sample(singles, min(_SAMPLE, len(singles)))
        cases += understood(git_cases.pair_cases(program, chance, _SAMPLE), scratch)
    assert violations(scratch, cases) == []


@pytest.mark.broad
@pytest.mark.timeout(600)
@pytest.mark.parametrize("program", git_cases.all_commands(), ids=lambda program: program.name)
def test_every_option_succeeds_and_stays_within_its_row(program: ProgramSpec, scratch: GitScratch) -> None:
    cases = understood(git_cases.single_cases(program), scratch)
    runs = list(observed(scratch, cases))
    assert [broken for case, use, run in runs for broken in breaches(scratch, case, use, run)] == []
    succeeded = {name for case, _, run in runs if has_succeeded(run) for name in case.options}
    expected = program.options.keys() | ({"-NUMBER"} if program.has_number_option else set())
    assert sorted(expected - succeeded) == []
    alone = [case.text for case, _, run in runs if not case.options and not has_succeeded(run)]
    assert alone == []


@pytest.mark.broad
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", git_cases.all_commands(), ids=lambda program: program.name)
def test_pairs_of_options_stay_within_the_row(program: ProgramSpec, scratch: GitScratch) -> None:
    count = min(_PAIRS, 6 * len(program.options))
    cases = understood(git_cases.pair_cases(program, random.Random(_SEED), count), scratch)
    assert violations(scratch, cases) == []


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=[pytest.mark.broad, pytest.mark.timeout(600)])])
def test_commands_on_objects_start_nothing_in_a_repository_that_holds_another(
    is_whole: bool, nested: GitScratch
) -> None:
    chance = random.Random(_SEED)
    cases: list[Case] = []
    for program in git_cases.all_commands():
        if program.reads == "objects":
            cases += understood(git_cases.pair_cases(program, chance, 60 if is_whole else 2), nested)
    assert violations(nested, cases) == []


BREAKING = (
    "log -1 --pretty --output=x --format=%B",
    "diff --output=x",
    "log -1 --format=%G?",
    "log -1 --format=%+GK",
    "log --show-signature -1",
    "log -p --remerge-diff",
    "describe --always --dirty",
    "diff --no-index /etc/hostname a.txt",
    "diff /etc/hostname a.txt",
    "grep -Oid needle",
    "grep --untracked canary",
    "config remote.origin.url --get",
    "branch made",
    "-c core.fsmonitor=./.githooks/fsmonitor-watchman status",
    "-c diff.trap.textconv=true log -p",
)
"""Commands that do more than they may, each in its way, so that the proof can fail."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the promises that each of these commands breaks."""
    require_strace()
    scratch = make_scratch(tmp_path_factory.mktemp("broken"))
    runs = observe([("git", *command.split()) for command in BREAKING], scratch.repo, scratch.env)
    use = read(scratch, ("ls-files",))
    assert isinstance(use, GitUse)
    cases = [Case("", (), tuple(command.split())) for command in BREAKING]
    return {
        command: [text for text in breaches(scratch, case, use, run) if not text.endswith(_SPRUNG)]
        for command, case, run in zip(BREAKING, cases, runs, strict=True)
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", BREAKING)
def test_command_that_does_more_is_detected_and_not_understood(
    command: str, scratch: GitScratch, broken: dict[str, list[str]]
) -> None:
    assert isinstance(read(scratch, command.split()), str)
    assert broken[command]


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=[pytest.mark.broad, pytest.mark.timeout(600)])])
def test_git_reads_the_next_word_as_a_value_exactly_if_the_table_says_so(is_whole: bool, scratch: GitScratch) -> None:
    options = [(program, name) for program in git_cases.all_commands() for name in sorted(program.options)]
    chosen = options if is_whole else random.Random(_SEED).sample(options, 150)
    wrong = [
        f"git {program.name} {name}" for program, name in chosen if not takes_values_as_listed(scratch, program, name)
    ]
    assert wrong == []


def takes_values_as_listed(scratch: GitScratch, program: ProgramSpec, name: str) -> bool:
    """Return whether git gives an error about the word after an option, and about an option without its value.

    It gives none about the word if it takes it for the value. A required value was proved by the runs in which it is
    the next word: they would fail if it were an operand.
    """
    command = program.name.split("/")
    if program.options[name].arity == "required":
        # `stash list` adds words, and some options of lists read the head if they are the last word.
        has_default = name in ("--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
        return has_default or program.name == "stash/list" or run_plain(scratch, [*command, name]).returncode != 0
    if (program.name, name) == ("rev-parse", "--revs-only"):
        return True  # it leaves out what it does not know
    operands = [word for word in git_cases.operands_for(program, name)[0] if word != "--"]
    for unknown in ("--no-such-option", "no-such-operand"):
        done = run_plain(scratch, [*command, name, unknown, *operands])
        output = done.stderr + done.stdout
        if unknown.strip("-") in output or re.search(_REFUSALS, output):
            return True
    return False


def probe(scratch: GitScratch) -> RepositoryProbe:
    return RepositoryProbe(scratch.repo, {"PATH": PATH, "HOME": str(scratch.home)})


def read(scratch: GitScratch, words: Sequence[str]) -> GitUse | str:
    found = read_git(tuple(Word(word) for word in words), (str(scratch.repo),))
    return found if isinstance(found, str) else classify_operands(found, lambda path: kind_of(scratch.repo / path))


def kind_of(path: Path) -> Kind:
    return "file" if path.is_file() else "folder" if path.is_dir() else ""


def understood(cases: Iterable[Case], scratch: GitScratch) -> list[Case]:
    """Return the commands that the table understands, each once."""
    return [case for case in dict.fromkeys(cases) if isinstance(case.use(str(scratch.repo)), GitUse)]


def observed(scratch: GitScratch, cases: Sequence[Case]) -> Iterator[tuple[Case, GitUse, Run]]:
    require_strace()
    runs = observe([("git", *case.words) for case in cases], scratch.repo, scratch.env)
    for case, run in zip(cases, runs, strict=True):
        use = read(scratch, case.words)
        assert isinstance(use, GitUse)
        yield case, use, run


def violations(scratch: GitScratch, cases: Sequence[Case]) -> list[str]:
    return [broken for case, use, run in observed(scratch, cases) for broken in breaches(scratch, case, use, run)]


def breaches(scratch: GitScratch, case: Case, use: GitUse, run: Run) -> Iterator[str]:
    """Yield every promise that a run broke."""
    where = str(scratch.repo)
    if run.is_late:
        yield f"{case.text}: took too long"
    for change in run.changed:
        if not _NOT_KEPT.fullmatch(change):
            yield f"{case.text}: changed {change}"
    for program in run.executed:
        if not _GIT.fullmatch(program):
            yield f"{case.text}: started {program}"
    for connection in run.connected:
        yield f"{case.text}: connected {connection}"
    if any(scratch.traps.iterdir()):
        yield f"{case.text}: {_SPRUNG}"
    for opened in run.read:
        for path in {opened.spelled, opened.real}:
            if not path.startswith(_SYSTEM) and not may_be_read(path, where, use, scratch):
                yield f"{case.text}: read {path}"
    for part in _CANARY.findall(run.output + run.errors):
        if not may_be_shown(part.decode(), use):
            yield f"{case.text}: showed {part.decode()}, but shows {use.content} {use.paths} {use.stored_paths}"


def may_be_read(path: str, repo: str, use: GitUse, scratch: GitScratch) -> bool:
    if path.startswith(f"{scratch.home}/.gitconfig") or use.reads == "nothing":
        return path.startswith(f"{scratch.home}/.gitconfig")
    if path.startswith(f"{repo}/.git/") or path.rpartition("/")[2] in _CONSULTED:
        return path.startswith(f"{repo}/")
    # To compare a file of a commit, git may read the same file in the work tree.
    is_tracked = path.removeprefix(f"{repo}/") in _TRACKED
    return path.startswith(f"{repo}/") and (use.reads == "work tree" or (use.reads == "objects" and is_tracked))


def may_be_shown(canary: str, use: GitUse) -> bool:
    """Return whether the words may print content of a named file, or of any file."""
    if use.content == "wide-history":
        return canary in _COMMITTED or canary in ("topic2.txt", ".env", "new.txt", "build/x.o")
    if use.content == "wide-tracked":
        return canary in _TRACKED
    named = {path.removeprefix("./") for path in (*use.paths, *use.stored_paths)}
    # `src/c.c` was renamed and says `src/b.c`.
    return use.content == "narrow" and (canary in named or (canary == "src/b.c" and "src/c.c" in named))


def has_succeeded(run: Run) -> bool:
    """Return whether git did what it was asked; 1 without a word means no match or a difference."""
    return run.code == 0 or (run.code == 1 and not run.errors)


def run_plain(scratch: GitScratch, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *words], cwd=scratch.repo, env=dict(scratch.env), text=True, capture_output=True, check=False,
        stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
