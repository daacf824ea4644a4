"""The table against the real programs: the effects of a command under strace are those of its row.

Each command that is made from a row and that `read_arguments` understands is run in a scratch workspace. It must change
nothing, start nothing and connect to nothing, and read no file but those the arguments claim. If it succeeds, each file
that is claimed must have been read: a flag that the table takes for an option with a value, or the other way round,
shows as a file too many or too few.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path

import pytest

from qcode.safety.protected_paths import judge_kernel_path
from qcode.safety.shell.ast import Word
from qcode.safety.shell.table import (
    PATH_ROLES,
    Operands,
    OptionSpec,
    ParsedArguments,
    ProgramSpec,
    programs,
    read_arguments,
)
from tests.safety.shell.generated import Case, generate, operand_lists, proofs_needed, spread, values_of_options
from tests.safety.shell.samples import HELP, samples_of
from tests.safety.shell.scratch import Scratch, is_installed, make_scratch
from tests.safety.shell.strace import Opened, Run, observe, require_strace, shell_argv

SAMPLE = 1
"""Commands of each program in the quick run."""

UNKNOWN = "--qcode-no-such-option"

SYSTEM_FILES = re.compile(
    r"/(?:usr/)?lib(?:32|64|x32)?/.*|/usr/share/.*|/usr/libexec/.*|/usr/(?:local/)?(?:s?bin|include|src)(?:/.*)?|/s?bin/.*"
    r"|/etc/(?:ld\.so\.(?:cache|preload|conf|conf\.d/.*)|passwd|group|nsswitch\.conf|localtime|timezone|magic(?:\.mime)?"
    r"|locale\.alias|gai\.conf|host\.conf|inputrc|terminfo/.*|mtab|alternatives/.*)"
    r"|/proc/(?:self|thread-self|\d+)/(?:cgroup|mountinfo|mounts|maps|stat|status|attr/.*|fd|loginuid|sessionid|auxv)"
    r"|/proc/(?:meminfo|cpuinfo|stat|uptime|loadavg|filesystems|mounts|bus/.*|sys/(?:kernel|vm)/.*)"
    r"|/sys/(?:devices|fs/cgroup|kernel|hypervisor|firmware)/.*|/(?:var/)?run/utmp|/dev/(?:null|urandom|random)"
)
"""System files that any program may read: libraries, locale, user names, facts of the machine."""

QUIET_CHANGES = re.compile(r"openat\(/dev/(?:null|tty), (?:O_RDWR|O_WRONLY)[^)]*\)")
"""bash opens the terminal at its start."""

NAME_SERVICE = re.compile(r'connect\(.*sun_path="/var/run/nscd/socket".*\)')
"""libc asks the cache of its name service, if one runs, for the names of users."""

SILENT = frozenset({"awk", "gawk", "mawk", "xxd", "jq", "tput", "getconf", "whereis"})
"""Programs that do not name an unknown option in their error message."""

COMPLAINS = re.compile(
    r"unrecognized option|invalid option|unknown option|unknown arguments?|unknown predicate|unexpected argument"
    r"|found argument|not an option|illegal option|invalid argument -|wasn't expected|ambiguous",
    re.IGNORECASE,
)


class Claim:
    """Files that a command may read in the scratch folder, by the arguments that the table reads."""

    def __init__(self, scratch: Scratch, program: ProgramSpec, arguments: ParsedArguments) -> None:
        self._scratch, self._program = scratch, program
        roles = [(self._absolute(word), role) for word, role in arguments.roles if role in PATH_ROLES]
        # fd warns if a folder has the name of the pattern.
        self._patterns = {self._absolute(word) for word in arguments.by_role("pattern") if "fd" in program.name}
        self.files = {path for path, role in roles if role in ("read", "file", "tree")}
        self.named = {path for path, _ in roles}
        self.walked = {path for path, role in roles if role in ("names", "tree")}
        self.searched = {path for path, role in roles if role == "tree"}
        # "-" may be standard input, and awk takes n=3 for an assignment.
        is_named = {path: path.rsplit("/", 1)[-1] != "-" and "=" not in path for path, _ in roles}
        self.required = {(path, role) for path, role in roles if is_named[path] and os.path.lexists(path)}

    def _absolute(self, word: Word) -> str:
        return os.path.normpath(self._scratch.workspace / word.text)

    def may_read(self, opened: Opened) -> bool:
        """Return whether the table says that this file is read."""
        if opened.real in {os.path.realpath(path) for path in self.files}:
            return True
        return opened.spelled in self._below(self.searched, with_links=False) or self._is_consulted(opened.spelled)

    def may_list(self, real: str) -> bool:
        """Return whether the entries of this folder may be read."""
        folders = {os.path.realpath(path) for path in self.named}
        return real in folders or real in {
            os.path.realpath(path) for path in self._below(self.walked, with_links=False)
        }

    def may_look_at(self, path: str) -> bool:
        """Return whether the metadata of this path or of its link target may be read."""
        if path in self._visible or path in self._patterns or self._is_consulted(path):
            return True
        # diff looks in one tree for the names of the other.
        below = self._below(self.walked, with_links=False)
        return not os.path.lexists(path) and any(str(parent) in below for parent in Path(path).parents)

    @cached_property
    def _visible(self) -> frozenset[str]:
        found = {*self.named, *self._below(self.walked, with_links=True)}
        for folder in map(Path, self.named):
            if folder.is_dir():
                found |= {str(entry) for entry in folder.iterdir()}
        found.add(str(self._scratch.workspace))
        found |= {os.path.realpath(path) for path in found}
        return frozenset({*found, *(str(parent) for path in found for parent in Path(path).parents)})

    @staticmethod
    def _below(tops: set[str], *, with_links: bool) -> set[str]:
        return {path for top in tops for path in below(top, with_links)}

    def _is_consulted(self, path: str) -> bool:
        """Return whether the row says that the program looks for this file by itself."""
        for entry in self._program.consults:
            if entry.startswith("~/"):
                file = self._scratch.home / entry[2:]
                names_another = entry == "~/.gitconfig" and path == str(self._scratch.home / "excluded")
                if path == str(file) or Path(path) in file.parents or names_another:
                    return True
            elif path.endswith(f"/{entry}"):
                folder = path.removesuffix(f"/{entry}")
                if folder in self._visible:
                    return True
        return False


@lru_cache(maxsize=200)
def below(top: str, with_links: bool) -> frozenset[str]:
    """Return a path and all that is below it without a link on the way. The scratch folder does not change."""
    found = {top}
    for folder, folders, files in os.walk(top):
        paths = [Path(folder, name) for name in (*folders, *files)]
        found |= {str(path) for path in paths if with_links or not path.is_symlink()}
    return frozenset(found)


def complaints(scratch: Scratch, program: ProgramSpec, arguments: ParsedArguments, run: Run) -> Iterator[str]:
    """Yield the effects of a run that the table does not name."""
    claim = Claim(scratch, program, arguments)
    if run.is_late:
        yield "did not end in time"
    yield from (f"changed {change}" for change in run.changed if not QUIET_CHANGES.fullmatch(change))
    if len(run.executed) != 1:
        yield f"started {run.executed[1:]}"
    yield from (f"connected {item}" for item in run.connected if not NAME_SERVICE.fullmatch(item))
    for opened in run.read:
        is_system = not scratch.holds(opened.real) and SYSTEM_FILES.fullmatch(opened.real)
        if not is_system and not claim.may_read(opened):
            yield f"read {opened.spelled}"
    yield from (f"listed {folder}" for folder in run.listed if scratch.holds(folder) and not claim.may_list(folder))
    yield from (f"looked at {path}" for path in run.looked if scratch.holds(path) and not claim.may_look_at(path))


def omissions(scratch: Scratch, program: ProgramSpec, arguments: ParsedArguments, run: Run) -> Iterator[str]:
    """Yield the files that a successful run should have read by the table, and did not."""
    samples = samples_of(program.name)
    if arguments.has(*HELP, *samples.ends, *samples.skips):
        return
    read = {opened.real for opened in run.read}
    seen = {*read, *run.listed, *run.looked, *(opened.real for opened in run.entered)}
    seen |= {os.path.realpath(path) for path in run.looked}
    for path, role in Claim(scratch, program, arguments).required:
        if samples.looks_on_path and Path(path).parent == scratch.workspace:
            continue
        real = os.path.realpath(path)
        is_read = real in read if role in ("read", "file") and Path(path).is_file() else real in seen
        if not is_read:
            yield f"did not read {path}"


def run_cases(
    scratch: Scratch, program: ProgramSpec, cases: Sequence[Case]
) -> Iterator[tuple[Case, ParsedArguments, Run]]:
    """Run the commands that the table understands; yield each with how the table reads it."""
    understood: list[tuple[Case, ParsedArguments]] = []
    for case in cases:
        arguments = read_arguments(program, tuple(Word(text) for text in case.words))
        if isinstance(arguments, ParsedArguments) and not names_the_kernel(arguments):
            understood.append((case, arguments))
    runs = observe([argv(program, case.words) for case, _ in understood], scratch.workspace, scratch.env)
    for (case, arguments), run in zip(understood, runs, strict=True):
        yield case, arguments, run


def names_the_kernel(arguments: ParsedArguments) -> bool:
    """Return whether an operand is below /proc, which the path layer denies: tac copies such a file first."""
    return any(role in PATH_ROLES and judge_kernel_path(word.text) for word, role in arguments.roles)


def argv(program: ProgramSpec, words: Sequence[str]) -> list[str]:
    if program.is_builtin:
        return [*shell_argv(f'{program.name} "$@"'), program.name, *words]
    return [program.name, *words]


def denies(run: Run, option: str) -> bool:
    """Return whether the program said that it has no such option."""
    text = run.errors.decode(errors="replace")
    spelled = f"option '{option}'" if option.startswith("--") else f"option -- '{option[1:]}'"
    return any(
        form in text
        for form in (spelled, f"argument '{option}' ", f"unknown predicate `{option}'", f"Invalid argument `{option}'")
    )


def require(program: ProgramSpec) -> None:
    require_strace()
    if not program.is_builtin and not is_installed(program.name):
        pytest.skip(f"{program.name} is not installed")


def check(program: ProgramSpec, cases: Sequence[Case], scratch: Scratch) -> frozenset[str]:
    """Run the cases, assert that each behaves as the table says, and return the proofs."""
    samples = samples_of(program.name)
    proved: set[str] = set()
    failures: list[str] = []
    for case, arguments, run in run_cases(scratch, program, cases):
        found = list(complaints(scratch, program, arguments, run))
        errors = run.errors.decode(errors="replace")
        is_done = run.code in samples.codes
        if case.is_proper:
            if COMPLAINS.search(errors) and not (samples.accepts and samples.accepts in errors):
                found.append(f"complained: {errors.strip()[:200]}")
            if is_done:
                found += omissions(scratch, program, arguments, run)
        if found:
            failures.append(
                f"{program.name} {' '.join(map(repr, case.words))} -> {run.code}: {'; '.join(sorted(found)[:4])}"
            )
        elif is_done:
            proved.add(case.proof)
    assert not failures, f"{len(failures)} of {len(cases)}:\n" + "\n".join(failures[:25])
    return frozenset(proved)


def scratch_for(program: ProgramSpec, folder: Path) -> Scratch:
    """Build a workspace in which every word that could be mistaken for an operand is a file."""
    words = {word for word in values_of_options(program) if word and "/" not in word and len(word) < 100}
    return make_scratch(folder.resolve(), words)


def is_copy(program: ProgramSpec) -> bool:
    """Return whether another name has the same row, and comes before this one in the table."""
    same = (name for name, row in programs().items() if replace(row, name=program.name) == program)
    return next(same) != program.name


def changed(program: str, **changes: object) -> ProgramSpec:
    """Return a row of the table with other fields."""
    return replace(programs()[program], **changes)  # type: ignore[arg-type]  # fields by name


def named(program: ProgramSpec) -> str:
    return program.name


ROWS = sorted(programs().values(), key=named)
JUDGED_ELSEWHERE = frozenset({"test", "["})
"""Their operands are expressions, which the table does not describe."""
PROVABLE = [program for program in ROWS if program.name not in JUDGED_ELSEWHERE]
REFUSING = [program for program in PROVABLE if program.refused.keys() - {"-", "--"} and program.name not in SILENT]
READING = [
    program
    for program in PROVABLE
    if program.operands.roles and program.style == "getopt" and not program.is_builtin and program.name not in SILENT
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROVABLE, ids=named)
def test_sample_of_a_row_behaves_as_the_table_says(program: ProgramSpec, tmp_path: Path) -> None:
    require(program)
    scratch = scratch_for(program, tmp_path)
    check(program, spread(generate(program), SAMPLE, program.name), scratch)


@pytest.mark.broad
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", PROVABLE, ids=named)
def test_every_option_of_a_row_behaves_as_the_table_says(program: ProgramSpec, tmp_path: Path) -> None:
    require(program)
    scratch = scratch_for(program, tmp_path)
    proved = check(program, generate(program, is_short=is_copy(program)), scratch)
    unproved = proofs_needed(program) - proved
    assert not unproved, f"never part of a successful run: {sorted(unproved)}"


@pytest.mark.broad
@pytest.mark.parametrize("program", REFUSING, ids=named)
def test_refused_options_of_a_row_are_known_to_the_program(program: ProgramSpec, tmp_path: Path) -> None:
    require(program)
    scratch = make_scratch(tmp_path.resolve())
    names = [name for name, why in program.refused.items() if name not in ("-", "--") and "(since" not in why]
    commands = [argv(program, (name, "x", UNKNOWN)) for name in names]
    *runs, unknown = observe([*commands, argv(program, (UNKNOWN,))], scratch.workspace, scratch.env)
    assert denies(unknown, UNKNOWN), "an option that it does not have is not reported"
    assert not [name for name, run in zip(names, runs, strict=True) if denies(run, name)]


@pytest.mark.broad
@pytest.mark.parametrize("program", READING, ids=named)
def test_options_end_at_the_first_operand_only_if_the_row_says_so(program: ProgramSpec, tmp_path: Path) -> None:
    require(program)
    scratch = make_scratch(tmp_path.resolve())
    operand = operand_lists(program, frozenset())[-1][0]
    (run,) = observe([argv(program, (operand, UNKNOWN))], scratch.workspace, scratch.env)
    assert denies(run, UNKNOWN) != program.stops_at_operand, run.errors


WRONG_ROWS = {
    "a flag that takes a value": changed("sort", options={"-k": OptionSpec("none")}),
    "a value that is optional": changed("uniq", options={"--group": OptionSpec("required", "word")}),
    "an optional value that is required": changed("grep", options={"--max-count": OptionSpec("optional", "number")}),
    "an option that writes": changed("sort", options={"-o": OptionSpec("required", "text")}, refused={}),
    "an option that writes for many operands": changed("sort", options={"-m": OptionSpec("none")}, refused={}),
    "a date that reads": changed("date", options={"-d": OptionSpec("required", "text")}),
    "an option that reads": changed("grep", options={"-f": OptionSpec("required", "text")}, refused={}),
    "an option that runs a program": changed("diff", options={"-l": OptionSpec("none")}, refused={}),
    "an option that does not exist": changed("cat", options={"--no-such-option": OptionSpec("none")}),
    "an option that follows links": changed("du", options={"-L": OptionSpec("none")}, refused={}),
    "an operand that is written": changed("uniq", options={}, operands=Operands(("read", "text"))),
    "an operand that is not read": changed("basename", options={}, operands=Operands(("read",), 0)),
    "a command that does not walk": changed("cat", options={}, operands=Operands(("names",), 0)),
    "a program that runs another": changed("basename", name="egrep", options={}, operands=Operands(("text", "read"))),
}


QUICK = ("a flag that takes a value", "an option that writes", "an option that reads", "an operand that is not read")
"""The wrong rows that `make test` tries: one for each kind of proof."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(row, id=name, marks=() if name in QUICK else (pytest.mark.broad,))
        for name, row in WRONG_ROWS.items()
    ],
)
def test_wrong_row_is_found(program: ProgramSpec, tmp_path: Path) -> None:
    require(program)
    scratch = scratch_for(program, tmp_path)
    with pytest.raises(AssertionError):
        proved = check(program, generate(program), scratch)
        assert proofs_needed(program) <= proved
