"""Random commands from the grammar of the table, judged, and run under strace without a sandbox if they are allowed.

`make fuzz` runs 100,000 of them: `python -m tests.safety.shell.fuzz --count N --seed S`. A sandbox is taken to work, so
that every form of the table takes part, but not to hide protected files: the judge alone has to keep them unread.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from qcode.safety.git_repository import RepositoryProbe
from qcode.safety.launcher import BashSyntax
from qcode.safety.policy import Policy
from qcode.safety.probes import Probes
from qcode.safety.protected_paths import is_key, is_secret
from qcode.safety.rules import Rules
from qcode.safety.sandbox.index import WorkspaceIndex
from qcode.safety.shell.ast import UnsupportedSyntax
from qcode.safety.shell.flow import FlowPart
from qcode.safety.shell.judge import read_flow
from qcode.safety.shell.table import ProgramSpec, git_commands, programs
from qcode.values import dataclass
from tests.fakes.tools import spec_of
from tests.safety.policies import LANDLOCK
from tests.safety.shell.scratch import Scratch, make_scratch
from tests.safety.shell.strace import Run, observe, shell_argv

BATCH = 250
_SEARCHED = ("/usr/local/bin", "/usr/bin", "/bin")
_FILES = (
    "data.txt", "README.md", "other.txt", "data.csv", "data.json", "src/app.py", "src", ".", "./src",
    "docs/guide.md", "-",
    "with space.txt", "empty.txt", "binary.bin", "*.txt", "src/*.py", "*", "src/*", "missing", "src/deep/..",
    "résumé.txt", "re\u0301sume\u0301.txt", "報告/資料１.txt", "報告", "Привет…", "é*", "報告/*", "{résumé,data}.txt",
)  # fmt: skip
_LETTER_FILES = ("résumé.txt", "re\u0301sume\u0301.txt", "報告/資料１.txt", "報告/.env", "Привет…", "–n")
_DECOYS = (
    ".env", "./.env", "src/../.env", "link_out", "folder_out", "src/link_key", "src/folder_out", "src/deep/up",
    "broken",
    "../outside/secret.txt", "../home/.bashrc", "~/.ssh/id_rsa", "~", "/etc/passwd", "@.env", "@data.txt",
    ".git/config",
    ".hidden/inside.txt", ".*", "..", "../*", "/dev/null", "/proc/self/environ", "-o", "--output=made", "made",
    "host:x",
    "報告/.env", "報告/../.env", "lié", "lié/x", "{é,.env}", "é/../.env", ".ｅnv", "－o", "–n", "é\u00a0x", "é；id",
    "é｜id", "é’", "\u0301", "é\u200b", "é#x", "é=1", "~é", "é~",
    "{.env,data.txt}", ".en?", "HEAD:.env", ":/", ":(top).env", "HEAD", "HEAD~1", "main", "--",
)  # fmt: skip
_TEXTS = (
    "line", "a", "1", "5", "-1", "+1", "0", "x=1", "s/a/b/", "1p", "s/a/b/w made", "1e id", "r .env", "w made", "$p",
    "{print $1}", '{print > "made"}', 'BEGIN{system("id")}', "NR==1", ".", ".a[]", "env", 'input_filename', "%s\\n",
    "%n",
    "+%F", "never", "always", "auto", "--", "", "a b", "'", '"', "$HOME", "$x", "$(pwd)", "`pwd`", "${x}", "$((1+1))",
    "é", "ü ö", "字", "s/é/à/", "é=1", "$é", "${x}é", "５", "－1", "²", "« a »", "\u0301e",
    "*.py", "f", "d", "-name", "-type", "-exec", "-delete", "-newer", "(", ")", "!", "touch made", "{}", ";", "+",
)  # fmt: skip
_JOINTS = (" | ", " | ", " | ", " && ", "; ", " || ", "\n", " & ", " |& ")
_TAILS = (
    *[""] * 20, " 2>/dev/null", " 2>&1", " >/dev/null", " < data.txt", " < .env", " > made", " >> made", " 2>made",
    " # x",
)  # fmt: skip
_FRAMES = (
    *["{}"] * 24, "cd src && {}", "cd .. && {}", "({})", "{{ {}; }}", "! {}",
    "for f in data.txt .env; do {}; done",
    'for f in *.txt; do {} "$f"; done', "for f in src docs; do (cd $f && {}); done", 'echo "$({})"',
    "[ -f .env ] && {}",
    "x=1; {}", "if true; then {}; fi", "echo data.txt | xargs {}", "find . -exec {} \\;", "time {}", "env {}",
    "{} \\\n",
)  # fmt: skip


# bash itself looks for a terminal and the name of the user at every start.
_OF_BASH = re.compile(
    r"openat?\(/dev/(?:tty|null), |connect\([^{]*\{sa_family=AF_UNIX, sun_path=\"/var/run/nscd/socket\"\}"
)
_CONSULTED = frozenset(
    {".gitconfig", ".config/git/config", ".config/git/ignore", ".config/fd/ignore", "excluded", ".jq", ".magic"}
)
"""Settings of the user, below the home folder, that programs read by themselves; no output shows them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An allowed command that did something the judge must not allow."""

    command: str
    what: str


class Commands:
    """An endless supply of commands, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._rows = sorted(programs().items())
        self._git_rows = sorted(git_commands().items())

    def __iter__(self) -> Iterator[str]:
        while True:
            yield self._line()

    def _line(self) -> str:
        chance = self._random
        command = self._simple()
        while chance.random() < 0.2:
            command += chance.choice(_JOINTS) + self._simple()
        return chance.choice(_FRAMES).replace("{}", command).replace("{{", "{").replace("}}", "}")

    def _simple(self) -> str:
        chance = self._random
        if chance.random() < 0.2:
            name, row = chance.choice(self._git_rows)
            words = ["git", *name.split("/")]
        else:
            name, row = chance.choice(self._rows)
            words = [name]
        count = chance.choice((0, 0, 1, 1, 1, 2, 2, 3))
        pieces = [self._option(row) for _ in range(count)]
        pieces += [[self._operand()] for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3)))]
        if chance.random() < 0.3:
            chance.shuffle(pieces)
        words += [word for piece in pieces for word in piece]
        return " ".join(words) + chance.choice(_TAILS)

    def _option(self, row: ProgramSpec) -> list[str]:
        chance = self._random
        known, refused = sorted(row.options), sorted(row.refused)
        if not known or (refused and chance.random() < 0.08):
            name = chance.choice(refused) if refused else "-x"
            return [name, self._quoted(chance.choice(_TEXTS))] if chance.random() < 0.5 else [name]
        name = chance.choice(known)
        option = row.options[name]
        value = (
            chance.choice((*_TEXTS, *_FILES, *_DECOYS))
            if chance.random() < 0.5
            else chance.choice(("1", "2", "line", "never"))
        )
        way = chance.random()
        if way < 0.05 and len(name) > 5:
            return [name[: chance.randint(3, len(name) - 1)]]
        if way < 0.15:
            return [f"{name}={self._quoted(value)}"] if name.startswith("--") else [f"{name}{self._quoted(value)}"]
        if option.arity == "none":
            others = [item for item in known if len(item) == 2 and not item.startswith("--")]
            return [name + chance.choice(others)[1:]] if len(name) == 2 and others and way < 0.4 else [name]
        if option.arity == "required":
            return [name, self._quoted(value)] if way < 0.6 else self._attached(name, value)
        return [name] if way < 0.5 else self._attached(name, value)

    def _attached(self, name: str, value: str) -> list[str]:
        return [f"{name}={self._quoted(value)}" if name.startswith("--") else f"{name}{self._quoted(value)}"]

    def _operand(self) -> str:
        chance = self._random
        kind = chance.random()
        if kind < 0.7:
            return self._quoted(chance.choice(_FILES))
        return self._quoted(chance.choice(_DECOYS if kind < 0.83 else _TEXTS))

    def _quoted(self, text: str) -> str:
        way = self._random.random()
        if way < 0.25 or not text or (set(text) & set(" ;(){}!'\"\\|&<>\n") and way < 0.9):
            return "'" + text.replace("'", "'\\''") + "'"
        if way < 0.35 and not set(text) & set('"\\$`'):
            return f'"{text}"'
        if way < 0.4 and len(text) > 1:
            return f"{text[0]}'{text[1:]}'" if "'" not in text else text
        if way < 0.45:
            return self._with_letters(text)
        return text

    def _with_letters(self, text: str) -> str:
        """Return a word with random characters of any script in it, among them lookalikes and invisible ones."""
        chance = self._random
        at = chance.randint(0, len(text))
        ranges = ((0x80, 0x2FF), (0x300, 0x36F), (0x370, 0x7FF), (0x2000, 0x27BF), (0x3000, 0x30FF), (0xFF01, 0xFFEE))
        added = (chr(chance.randint(*chance.choice(ranges))) for _ in range(chance.choice((1, 1, 2))))
        return f"{text[:at]}{''.join(added)}{text[at:]}"


def make_repository(root: Path) -> Scratch:
    """Build a scratch tree whose workspace is a repository with a history; `.env` is not tracked."""
    scratch = make_scratch(root, _LETTER_FILES)
    (scratch.workspace / "lié").symlink_to("../outside/secret.txt")
    env = {"PATH": scratch.env["PATH"], "HOME": str(root / "tmp"), "GIT_CONFIG_NOSYSTEM": "1"}
    settings = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main")
    for number, names in enumerate(
        (["README.md", "data.txt"], ["src/app.py", "résumé.txt"], ["docs/guide.md", "data.csv"])
    ):
        for argv in (["init", "-q"], ["add", *names], ["commit", "-q", "-m", f"commit {number}"]):
            subprocess.run(["git", *settings, *argv], cwd=scratch.workspace, env=env, check=True, capture_output=True)
    return scratch


def policy_of(scratch: Scratch) -> Policy:
    """Return the policy of a trusted session in default mode whose sandbox hides nothing in the workspace."""
    path = scratch.env["PATH"]
    root = scratch.workspace
    index = WorkspaceIndex((str(root),))
    probes = Probes(
        BashSyntax(path, (root,)), RepositoryProbe(root, scratch.env, (root,)), lambda: LANDLOCK, index.refresh
    )
    return Policy("default", Rules.of(), True, root, home=scratch.home, search_path=path, probes=probes)


def hunt(scratch: Scratch, commands: Iterator[str], count: int) -> tuple[list[Finding], int]:
    """Judge `count` commands and run the allowed ones; return the forbidden effects, and how many commands ran."""
    policy = policy_of(scratch)
    findings: list[Finding] = []
    allowed: list[str] = []
    ran = 0
    for number in range(count):
        command = next(commands)
        if policy.judge(spec_of("shell"), {"command": command}).is_allowed:
            allowed.append(command)
        if allowed and (len(allowed) == BATCH or number == count - 1):
            runs = observe([shell_argv(item) for item in allowed], scratch.workspace, scratch.env)
            findings += [
                Finding(command, what)
                for command, run in zip(allowed, runs, strict=True)
                for what in misdeeds(scratch, command, run)
            ]
            ran += len(allowed)
            allowed = []
    return findings, ran


def misdeeds(scratch: Scratch, command: str, run: Run) -> Iterator[str]:
    """Yield the effects of an allowed command that none may have."""
    yield from (f"changed: {call}" for call in run.changed if _OF_BASH.match(call) is None)
    yield from (f"connected: {call}" for call in run.connected if _OF_BASH.match(call) is None)
    named = {part.command.words[0].text for part in _parts(command)} | {"bash"}
    yield from (f"executed: {program}" for program in run.executed if Path(program).name not in named)
    for opened in run.read:
        if scratch.holds(opened.real) and _is_protected(scratch, opened.real):
            yield f"read: {opened.real}"


def _is_protected(scratch: Scratch, path: str) -> bool:
    if Path(path).is_relative_to(scratch.home):
        return str(Path(path).relative_to(scratch.home)) not in _CONSULTED
    if not Path(path).is_relative_to(scratch.workspace):
        return True
    name = os.path.basename(path)  # noqa: PTH119  # plain text
    return is_secret(name) or is_key(name)


def _parts(command: str) -> list[FlowPart]:
    try:
        return list(read_flow(command, "/").parts)
    except UnsupportedSyntax:
        return []


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz the judge of commands with strace as the referee.")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = parser.parse_args()
    sys.stdout.write(f"seed {given.seed}, {given.count:,} commands\n")
    with tempfile.TemporaryDirectory(prefix="qcode-fuzz-") as folder:
        findings, ran = hunt(make_repository(Path(folder).resolve()), iter(Commands(given.seed)), given.count)
    for finding in dict.fromkeys(findings):
        sys.stdout.write(f"{finding.command!r}\n  {finding.what}\n")
    sys.stdout.write(f"{ran:,} of {given.count:,} were allowed and run; {len(findings)} findings\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
