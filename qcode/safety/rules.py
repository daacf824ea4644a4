"""The user's rules: `shell(git log *)`, `edit(src/**)`, `read(...)`, `fetch(host)`, `mcp(server/tool)`. Pure.

A bare name (`shell`) or a `*` covers every call of its kind; `edit` covers every tool that changes files. Shell rules
compare words after unquoting; a final ` *` matches any further words. Paths use gitignore patterns relative to the
workspace; `./x` matches only x at its top, `/x` and `~/x` are absolute. `covers_command` and `may_restrict` match a
rule with a call. `read_rules` checks rules against their examples. `propose_shell` returns the narrow rule that
"always" adds. It proposes no rule for a program that can run any other program.
"""

from __future__ import annotations

import re
import shlex
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from qcode.protocol.approvals import RuleConfig
from qcode.safety.shell.ast import SimpleCommand, UnsupportedSyntax, Word
from qcode.safety.verdict import Decision, Verdict
from qcode.text.clean import quoted
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from qcode.safety.addresses import UrlTarget
    from qcode.safety.shell.table import ProgramSpec

KINDS = ("shell", "edit", "read", "fetch", "mcp")

_HOST = lazy_pattern(
    r"((\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?"
)
_NOT_IN_NAMES = lazy_pattern(r"[^A-Za-z0-9_/-]")
_TOOL = lazy_pattern(r"[\w.-]+/(\*|[\w.-]+)")


class _PathPattern(NamedTuple):
    """A gitignore pattern."""

    text: str
    folder: str
    """The folder that it is relative to."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    kind: str
    body: str
    """The text in parentheses, empty if the rule covers all calls of its kind."""
    text: str
    """The whole rule as written."""
    words: tuple[Word, ...] = ()

    @property
    def has_wildcard(self) -> bool:
        """Whether a shell rule contains a wildcard."""
        return any(word.has_glob for word in self.words)

    def matches_words(self, words: tuple[Word, ...], *, folds: bool = False) -> bool:
        """Return whether a shell rule covers a simple command of these words.

        If `folds`, words are compared in composed form (NFC), because `e` with an accent can be one character or two.
        """
        if not self.body:
            return True
        pattern = self.words
        if pattern[-1] == _ANY:  # `git log *` covers any words after `git log`
            pattern = pattern[:-1]
            words = words[: len(pattern)]
        if len(words) != len(pattern):
            return False
        pairs = zip(pattern, words, strict=True)
        return all(_matches_word(rule_word, word, folds=folds) for rule_word, word in pairs)

    def matches_path(self, path: str, root: str, home: str, *, folds: bool = False) -> bool:
        """Return whether a path rule covers the absolute, normalized `path`.

        If `folds`, the path may differ in case, and in the form of its accents.
        """
        if not self.body:
            return True
        pattern = self._pattern(root, home)
        start = f"{pattern.folder.rstrip('/')}/"
        if not path.startswith(start):
            return False
        below = path.removeprefix(start)
        return _matches_pattern(pattern.text, below) or (
            folds and _matches_pattern(_folded(pattern.text), _folded(below))
        )

    def matches_name(self, name: str) -> bool:
        """Return whether a fetch rule covers a host, or an mcp rule a `server/tool`."""
        if not self.body or self.body == name:
            return True
        if self.kind == "fetch":
            return self.body.startswith("*.") and name.endswith(self.body[1:])
        if self.body.endswith("/*"):
            return name.startswith(self.body[:-1])
        # The name of a tool is changed to one that every provider accepts; a rule may use the server's original name.
        return _NOT_IN_NAMES.sub("_", self.body) == name

    def _pattern(self, root: str, home: str) -> _PathPattern:
        """Return the pattern of a path rule."""
        if self.body.startswith("~/"):
            return _PathPattern(self.body.removeprefix("~"), home)
        if self.body.startswith("/"):
            return _PathPattern(self.body, "/")
        # `./x` becomes `/x`, which matches only at the top of `root`.
        return _PathPattern(self.body[1:] if self.body.startswith("./") else self.body, root)


_ANY = Word("*", has_glob=True)


@dataclass(frozen=True, slots=True)
class Rules:
    """The configured rules. Deny takes precedence over ask, and ask over allow."""

    allow: tuple[Rule, ...] = field(default=())
    ask: tuple[Rule, ...] = field(default=())
    deny: tuple[Rule, ...] = field(default=())

    @staticmethod
    def of(allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = ()) -> Rules:
        """Parse rules; raise `ValueError` with one line for the first invalid one."""
        return Rules(*(tuple(parse_rule(text) for text in texts) for texts in (allow, ask, deny)))


def parse_rule(text: str) -> Rule:
    """Parse a rule; raise `ValueError` with the error and its position in one line."""
    rule = text.strip()
    kind, bracket, enclosed = rule.partition("(")
    if kind not in KINDS:
        hint = "edit(...) covers every tool that changes files" if kind in ("write", "apply_patch") else _kinds_text()
        raise _invalid_rule(text, 0, f"{quoted(kind)} is not a kind of rule; {hint}")
    if not bracket:
        return Rule(kind, "", rule)
    if not enclosed.endswith(")"):
        end = text.rfind(")") + 1
        if end:
            raise _invalid_rule(text, end, "nothing may follow the closing bracket")
        raise _invalid_rule(text, len(text.rstrip()), "the closing bracket is missing")
    body, position = enclosed[:-1].strip(), text.index("(") + 1
    if not body:
        raise _invalid_rule(text, position, f"the brackets are empty; {kind} alone covers everything")
    if body == "*" or (body == "**" and kind in ("edit", "read")):
        return Rule(kind, "", rule)
    if kind == "shell":
        return Rule(kind, body, rule, _words_of(text, body, position))
    _check_body(text, kind, body, position)
    return Rule(kind, body, rule)


def _words_of(text: str, body: str, position: int) -> tuple[Word, ...]:
    """Parse the body of a shell rule, which begins at `position` in `text`. Raise `ValueError` if it is invalid."""
    from qcode.safety.shell.parser import split_words  # loads with the first rule about commands, not at start

    try:
        words = split_words(body)
    except UnsupportedSyntax as error:
        raise _invalid_rule(
            text, position, f"{error}; a shell rule is one plain command, with special characters quoted"
        ) from None
    if words[0].has_glob:
        program, _, arguments = body.partition(":")
        is_claude_form = arguments == "*"  # `git:*` in Claude Code is `git *` here
        hint = f"; for all its arguments, write shell({program} *)" if is_claude_form else ""
        raise _invalid_rule(text, position, f"the name of the program must be written out{hint}")
    return words


def _check_body(text: str, kind: str, body: str, position: int) -> None:
    """Raise `ValueError` if the body of a rule, which begins at `position` in `text`, is invalid for its kind."""
    if kind == "fetch" and _HOST.fullmatch(body) is None:
        raise _invalid_rule(
            text, position, "a host such as docs.python.org, *.python.org or localhost:8000 is expected"
        )
    if kind == "mcp" and _TOOL.fullmatch(body) is None:
        raise _invalid_rule(text, position, "server/tool or server/* is expected")
    if kind in ("edit", "read"):
        if body.startswith(("!", "#")):
            raise _invalid_rule(text, position, f"a pattern cannot start with {quoted(body[0])}")
        if ".." in body.split("/"):
            raise _invalid_rule(text, position + body.index(".."), "a pattern cannot contain '..'")
        try:
            _matches_pattern(body, "x")
        except ValueError:
            raise _invalid_rule(text, position, "the pattern is not valid") from None


def _invalid_rule(text: str, position: int, problem: str) -> ValueError:
    return ValueError(f"invalid rule {quoted(text)} at position {position + 1}: {problem}")


def _kinds_text() -> str:
    return f"there are {', '.join(KINDS)}"


def _folded(text: str) -> str:
    """Return `text` in composed form (NFC) without differences of case, as some file systems compare names."""
    return unicodedata.normalize("NFC", text).casefold()


def _matches_word(rule_word: Word, word: Word, *, folds: bool) -> bool:
    """Return whether a word of a rule covers a word of a command: `*.py` covers `a.py`."""
    expected, actual = (unicodedata.normalize("NFC", item.text) if folds else item.text for item in (rule_word, word))
    if not rule_word.has_glob:
        return expected == actual and rule_word.is_home == word.is_home
    pattern = re.escape(expected).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(pattern, actual, re.DOTALL) is not None


def _matches_pattern(pattern: str, path: str) -> bool:
    """Return whether a gitignore pattern matches a path relative to the root of the pattern."""
    return _path_matcher(pattern).match_file(path)


@lru_cache(maxsize=512)
def _path_matcher(pattern: str) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # loaded with the first rule about a path, not at start

    return GitIgnoreSpec.from_lines([pattern])


_WRAPPERS = frozenset(
    {
        "timeout", "nice", "nohup", "time", "sudo", "doas", "env", "xargs", "command", "builtin", "exec", "eval",
        "bash", "sh", "dash", "zsh", "find", "setsid", "stdbuf", "ionice", "fd", "fdfind", "ksh", "fish", "busybox",
        "toybox", "su", "pkexec", "runuser", "parallel", "watch", "strace", "ltrace", "script", "unshare", "nsenter",
        "chroot", "flock", "taskset", "chrt", "systemd-run", "bwrap",
    }
)  # fmt: skip
"""Programs that run a command from their arguments or their input: `timeout 5 git push`."""


def first_rule(rules: Iterable[Rule], kind: str, test: Callable[[Rule], bool]) -> Rule | None:
    """Return the first rule of a kind that passes the test."""
    return next((rule for rule in rules if rule.kind == kind and test(rule)), None)


def covers_command(rule: Rule, words: tuple[Word, ...]) -> bool:
    """Return whether an allow rule covers a simple command.

    A wildcard never matches an option that writes a file or runs a program: `shell(git log *)` does not cover
    `git log --output=x`. The rule must contain such an option: `shell(git log --output=x *)`. For a program in the
    table of programs, a wildcard matches read-only uses only: `shell(uniq *)` does not cover `uniq in out`. This does
    not apply to a rule that contains an option that does more, such as `shell(git branch -D *)`. A wildcard never
    matches a host with non-ASCII letters, because it may look like another host.
    """
    from qcode.safety.shell.characters import foreign_host
    from qcode.safety.shell.judge import is_table_command, spec_of
    from qcode.safety.shell.table import has_option
    from qcode.safety.shell.wildcards import may_run_or_write

    if not rule.matches_words(words):
        return False
    if not rule.body or not rule.has_wildcard:
        return True
    rule_words = [word.text for word in rule.words if not word.has_glob]
    rule_options = {text for text in rule_words if text.startswith("-")}
    # The texts that the wildcards match, with "" for each word that the rule itself contains.
    matched: list[str] = []
    # The command without the options of the rule: the table decides whether the other words only read.
    checked_words: list[Word] = []
    for index, word in enumerate(words):
        is_in_rule = index < len(rule.words) and not rule.words[index].has_glob
        matched.append("" if is_in_rule else word.text)
        is_option_of_rule = is_in_rule and word.text in rule_options
        if not is_option_of_rule:
            checked_words.append(replace(word, is_quoted=False))
    checked = tuple(checked_words)
    if any(foreign_host(words[0].text, text) for text in matched):
        return False
    program = spec_of(checked)
    if program is None or program.only_prints_version or _names_command(program, rule_words):
        return not may_run_or_write(words[0].text, matched[1:])
    if is_table_command(checked):
        return True
    is_script = not {"sed", "awk", "jq"}.isdisjoint(program.operands.roles)
    does_more = any(not has_option(program, text) for text in rule_options)
    options = (word.text for word in checked[1:] if word.text.startswith("-"))
    return does_more and not is_script and all(has_option(program, text) for text in options)


def _names_command(program: ProgramSpec, rule_words: list[str]) -> bool:
    """Return whether a rule names a subcommand of a command without operands, such as `add` in `git remote add`."""
    words = [text for text in rule_words[1:] if not text.startswith("-")]
    # The words of the command itself: none for `npm`, one for `git remote`, two for `git stash list` (`stash/list`).
    own_words = program.name.count("/") + 1 if rule_words[0] == "git" else 0
    return not program.operands.roles and len(words) > own_words


def is_rule(text: str) -> bool:
    """Return whether a text is a valid rule."""
    try:
        parse_rule(text)
    except ValueError:
        return False
    return True


def covers_target(rule: Rule, target: UrlTarget, *, allows: bool) -> bool:
    """Return whether a rule covers a target. If `allows`, it is an allow rule.

    An allow rule covers one port (the default port if it names none); a deny or ask rule covers the whole host.
    """
    names = target.names if allows else (*target.names, target.host)
    return any(rule.matches_name(name) for name in names)


def verdict_of_rule(rule: Rule, decision: Decision) -> Verdict:
    """Return the verdict of a rule."""
    if decision == "deny":
        return Verdict("deny", f"the rule {rule.text} denies it", rule=rule.text)
    if decision == "ask":
        return Verdict("ask", f"the rule {rule.text} asks for it", rule=rule.text)
    return Verdict("allow", f"the rule {rule.text} allows it", rule=rule.text)


def restricts(rule: Rule, part: SimpleCommand) -> bool:
    """Return whether a deny or ask rule covers a command, even after a wrapper or with a path before its program."""
    program = part.words[0].text.rsplit("/", 1)[-1]
    words = (replace(part.words[0], text=program, is_quoted=False), *part.words[1:])
    if any(rule.matches_words(spelled, folds=True) for spelled in _without_options(words)):
        return True
    if program == "git" and any(_ALIAS.match(word.text) for word in words):
        return rule.words[:1] == (Word("git"),)  # `git -c alias.x=push x` is a push
    return program in _WRAPPERS and contains_rule_words(" ".join(word.text for word in words), rule)


def _without_options(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """Yield the words, then each way to skip the options before a subcommand: `git push` for `git -C x push`."""
    yield words
    if len(words) > 1 and words[1].text.startswith("-"):
        yield from ((words[0], *words[start:]) for start in range(2, len(words)))


def may_restrict(rule: Rule, part: SimpleCommand) -> bool:
    """Return whether a deny or ask rule may cover a command. If words are unknown, the program decides."""
    if not any(word.may_differ for word in part.words):
        return restricts(rule, part)
    return not rule.words or any(word.text.rsplit("/", 1)[-1] == rule.words[0].text for word in part.words)


def contains_rule_words(command: str, rule: Rule) -> bool:
    """Return whether a command that cannot be analyzed contains the fixed words of a rule as adjacent words."""
    plain_text = re.sub(r"['\"\\]", "", unicodedata.normalize("NFC", command))
    words = tuple(Word(text) for text in re.findall(r"[\w./@%+:=-]+", plain_text))
    without_folders = tuple(replace(word, text=word.text.rsplit("/", 1)[-1]) for word in words)
    for start in range(len(words)):
        if any(rule.matches_words(form[start:], folds=True) for form in (words, without_folders)):
            return True
    return False


_ALIAS = lazy_pattern(r"(?:-c|--config-env=)?alias\.[^=]*=", re.IGNORECASE)
_EXAMPLE_ROOT, _EXAMPLE_HOME = "/workspace", "/home/user"
_RuleSource: TypeAlias = "Iterable[str | RuleConfig]"


def read_rules(allow: _RuleSource = (), ask: _RuleSource = (), deny: _RuleSource = ()) -> Rules:
    """Parse configured rules; raise `ValueError` with one line for an invalid one.

    A rule is also invalid if it contradicts one of its examples or counterexamples.
    """
    return Rules(
        allow=tuple(_read_rule(rule, allows=True) for rule in allow),
        ask=tuple(_read_rule(rule, allows=False) for rule in ask),
        deny=tuple(_read_rule(rule, allows=False) for rule in deny),
    )


def _read_rule(entry: str | RuleConfig, *, allows: bool) -> Rule:
    rule = parse_rule(str(entry))
    if isinstance(entry, RuleConfig):
        _check_examples(rule, entry, allows=allows)
    return rule


def _check_examples(rule: Rule, entry: RuleConfig, *, allows: bool) -> None:
    for example in entry.examples:
        if not covers(rule, example, allows=allows):
            raise ValueError(f"the rule {quoted(rule.text)} does not cover its example {quoted(example)}")
    for example in entry.counterexamples:
        if covers(rule, example, allows=allows):
            raise ValueError(f"the rule {quoted(rule.text)} covers its counterexample {quoted(example)}")


def covers(rule: Rule, example: str, *, allows: bool = False) -> bool:
    """Return whether a rule covers a command, path, URL or tool. If `allows`, it is an allow rule.

    A command with several parts is covered if all of them are; a path is relative to the workspace, absolute, or below
    `~/`.
    """
    if rule.kind == "shell":
        from qcode.safety.shell.judge import read_flow

        try:
            parts = read_flow(example, _EXAMPLE_ROOT).parts
        except UnsupportedSyntax:
            return not rule.body
        test = covers_command if allows else partial(Rule.matches_words, folds=True)
        return all(test(rule, part.command.words) for part in parts)
    if rule.kind in ("edit", "read"):
        anchored = f"{_EXAMPLE_HOME}{example[1:]}" if example.startswith("~/") else example
        path = anchored if anchored.startswith("/") else f"{_EXAMPLE_ROOT}/{anchored}"
        return rule.matches_path(path, _EXAMPLE_ROOT, _EXAMPLE_HOME, folds=not allows)
    if rule.kind == "fetch":
        from qcode.safety.addresses import read_url

        target = read_url(example if "://" in example else f"https://{example}/")
        return not isinstance(target, str) and any(rule.matches_name(name) for name in target.names)
    return rule.matches_name(example)


# Programs for which no rule is offered.
_NEVER_PROPOSED = frozenset(
    {
        # interpreters
        "bash", "sh", "dash", "zsh", "fish", "ksh", "csh", "tcsh", "busybox", "node", "deno", "bun", "ruby", "irb",
        "perl", "php", "lua", "luajit", "osascript", "pwsh", "awk", "gawk", "mawk", "sed", "ed", "vi", "vim", "nvim",
        "emacs", "sqlite3", "psql", "mysql", "gdb", "jshell", "java", "ghci", "erl", "iex", "R", "Rscript", "julia",
        # wrappers, and builtins that change the meaning of later commands
        "sudo", "su", "doas", "pkexec", "env", "xargs", "parallel", "timeout", "nice", "ionice", "nohup", "setsid",
        "stdbuf", "time", "watch", "strace", "ltrace", "script", "unshare", "nsenter", "chroot", "flock", "find", "fd",
        "eval", "exec", "source", ".", "command", "builtin", "trap", "alias", "export", "declare", "set", "cd", "if",
        "for", "while", "case", "until", "function", "select", "coproc", "!", "{", "[[",
        # package runners
        "npx", "pnpx", "bunx", "uvx", "pipx", "pip", "pip3", "conda", "gem", "brew", "apt", "apt-get", "dnf", "yum",
        # programs that destroy data
        "rm", "rmdir", "unlink", "shred", "dd", "mkfs", "truncate", "chmod", "chown", "chgrp", "kill", "killall",
        "pkill", "shutdown", "reboot", "systemctl", "crontab", "mount", "umount",
        # network
        "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "dig",
        "nslookup", "ping", "gh", "glab", "aws", "gcloud", "az", "kubectl", "docker", "podman", "helm", "terraform",
        "ansible",
    }
)  # fmt: skip
# Second words of commands that get no rule, such as `npm install` and `git push`.
_NEVER_PROPOSED_SECOND = frozenset(
    {
        "exec", "x", "dlx", "install", "i", "add", "ci", "publish", "create", "init", "download", "fetch", "pull",
        "push", "clone", "remote", "submodule", "ls-remote", "config", "bisect", "filter-branch", "rebase",
    }
)  # fmt: skip
_PATHS_ONLY = frozenset({"touch", "mkdir", "rmdir", "cp", "mv"})
"""Programs whose second word is a path, never a command such as `npm x`."""
_RUNNERS = frozenset({"uv", "poetry", "pipenv", "hatch", "pdm", "rye", "pixi"})
"""Programs whose `run` starts any program, such as `uv run x`."""
# Programs whose first argument is a subcommand: a rule such as `shell(git *)` would cover all subcommands.
_PROGRAMS_WITH_SUBCOMMANDS = frozenset(
    {"git", "npm", "pnpm", "yarn", "cargo", "go", "dotnet", "mvn", "gradle", "composer", "bundle"}
)


def propose_shell(command: SimpleCommand) -> str:
    """Return the rule that allows exactly this command, empty if there is no safe one."""
    words = [word.text for word in command.words]
    name = words[0]
    if _reason_not_to_propose(words):
        return ""
    has_special_words = any(word.has_glob or word.is_home or not word.text.isprintable() for word in command.words)
    if has_special_words or command.inputs or command.outputs or "/" in name or "=" in name or not name.isascii():
        return ""
    return f"shell({' '.join(map(_quoted, words))})"


_PLAIN_CHARS = frozenset(f"{string.ascii_letters}{string.digits} _-+=:,./@%")


def exact_shell_rule(command: str) -> str:
    """Return the rule for exactly this command, empty if it has characters that are special in a rule or a shell.

    No question proposes it for a dangerous command such as `rm -rf build`, but it is narrower than bypass mode.
    """
    return f"shell({command})" if command.strip() and _PLAIN_CHARS.issuperset(command) else ""


def _quoted(word: str) -> str:
    """Return a word as in a rule: in quotes if bash would not leave it unchanged."""
    from qcode.safety.shell.characters import is_bare_text

    return word if not word.isascii() and is_bare_text(word) else shlex.quote(word)


# Commands for which a rule with a wildcard is offered.
_TEST_RUNNERS = (
    ("pytest",),
    ("python", "-m", "pytest"),
    ("python3", "-m", "pytest"),
    ("uv", "run", "pytest"),
    ("npm", "test"),
    ("cargo", "test"),
    ("go", "test"),
)


def propose_prefix(command: SimpleCommand) -> str:
    """Return the rule that covers every use of a test runner, empty if the command does not run one.

    The user is warned first, because such a rule runs code of the project, which the model may have written. `make` has
    no such rule, because further words would be further targets; `propose_shell` covers a single target.
    """
    if command.inputs or command.outputs or any(word.has_glob or word.is_home for word in command.words):
        return ""
    words = tuple(word.text for word in command.words)
    runner = next((runner for runner in _TEST_RUNNERS if words[: len(runner)] == runner), None)
    return f"shell({' '.join(runner)} *)" if runner is not None else ""


def propose_sandboxed(command: SimpleCommand) -> str:
    """Return the rule that lets a test runner or a make target run in the workspace sandbox without approval."""
    words = [word.text for word in command.words]
    is_target = words[0] == "make" and len(words) == 2 and words[1].isidentifier() and words[1].isascii()
    return f"shell(make {words[1]})" if is_target else propose_prefix(command)


def why_not_allow(rule: Rule) -> str:
    """Return why an allow rule cannot be added in the app, empty if it can.

    A configuration file may contain such rules, because the user wrote them there deliberately.
    """
    if rule.kind == "read":
        return "reading in the workspace needs no rule, and no rule allows reading secrets or files outside it"
    if not rule.body and rule.kind in ("shell", "fetch", "mcp"):
        return f"{rule.text} alone covers everything; be more specific, or add it to your config.toml"
    if rule.kind == "fetch" and rule.body.startswith("*."):
        return "only an exact host can be allowed here; add a wider rule to your config.toml"
    if rule.kind != "shell":
        return ""
    words = [word.text for word in rule.words]
    why = _reason_not_to_propose(words)
    if why or len(words) < 2 or not rule.words[1].has_glob:
        return why
    if words[0] in _PROGRAMS_WITH_SUBCOMMANDS or words[0] in _RUNNERS:
        return f"it would cover every {words[0]} command, including those that run programs or use the network"
    return ""


def _reason_not_to_propose(words: list[str]) -> str:
    """Return why no rule is offered for a command of these words, empty if one may be offered."""
    name = words[0].rsplit("/", 1)[-1]
    if name in _NEVER_PROPOSED or name.startswith(("python", "pypy", "ruby", "perl", "lua", "php")):
        return f"{name} can run programs, delete data or use the network, so every use needs approval"
    if len(words) > 1 and words[1] in _NEVER_PROPOSED_SECOND and name not in _PATHS_ONLY:
        return f"{name} {words[1]} can do more than the rule says, so every use needs approval"
    if len(words) > 1 and name == "git" and words[1].startswith("-"):
        return "an option of git before its command can make it run any program"
    if name in _RUNNERS and "run" in words:
        return f"{name} run can start any program, so every use needs approval"
    return ""


def propose_edit(below_root: str) -> str:
    """Return the rule that allows changing exactly this file, relative to the workspace; empty if there is none."""
    is_plain = below_root.isprintable() and not set(below_root) & set("*?[]\\!#()") and below_root == below_root.strip()
    return f"edit(./{below_root})" if is_plain and below_root else ""


def rule_in_words(text: str) -> str:
    """Return what an offered allow rule covers, for a sentence: `edit(./a.py)` is "edits of a.py"."""
    kind, _, body = text.removesuffix(")").partition("(")
    server, _, tool = body.partition("/")
    match kind:
        case "edit" if body:
            return f"edits of {body.removeprefix('./')}"
        case "shell" if body.endswith(" *"):
            return f'any "{body.removesuffix(" *")} …"'
        case "shell" if body:
            return f'exactly "{body}"'
        case "fetch" if body:
            return f"fetches from {body}"
        case "mcp" if tool and tool != "*":
            return f"the tool {tool} of {server}"
        case _:
            return text
