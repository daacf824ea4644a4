"""The configured hooks: from the settings of qcode and, if the user enables them, of Claude Code.

A hook may run a file of the workspace only if that file is pinned and protected, as files in `.qcode` are. Problems are
one line each and never prevent the start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcode.agent.hooks.events import EVENTS, Handler, HookCommand, HookOrigin, OnFailure
from qcode.config.paths import CLAUDE_SETTINGS
from qcode.text.clean import one_line, visible
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.options import RunContext
    from qcode.config.kinds import HookConfig
    from qcode.config.settings import Origin

_USER_CLAUDE_FILE = ".claude/settings.json"
_PROJECT_VARIABLE = lazy_pattern(r"\$\{?(?:CLAUDE|QCODE)_PROJECT_DIR\}?")
_HOME = lazy_pattern(r"\$\{?HOME\}?(?=/)|^~(?=/)")
_CALL_EVENTS = frozenset({"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"})
_SEPARATORS = lazy_pattern(r"[\s;&|<>()'\"`=]+")
_MAX_TIMEOUT_S = 86_400
"""A longer time limit in Claude Code's settings counts as no time limit: the default of the event applies."""
_ASSIGNMENT = lazy_pattern(r"[A-Za-z_]\w*=")


@dataclass(frozen=True, slots=True)
class UnusedHook:
    """A configured hook that does not run, with the reason in one line."""

    event: str
    label: str
    location: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConfiguredHooks:
    """The hooks that the settings configure for a run."""

    handlers: tuple[Handler, ...] = ()
    """The hooks that run or must fail: first the hooks of the user, then the hooks of the project."""
    unused: tuple[UnusedHook, ...] = ()
    problems: tuple[str, ...] = ()
    """One line for each problem, shown to the user at the start."""


class HookFolders:
    """The folders that decide whether a hook may run: the project at `root`, the working `folder`, and `added` ones."""

    def __init__(self, root: Path, folder: Path, home: str, added: Iterable[Path] = ()) -> None:
        self._root = root
        self._folder = folder
        self._home = home
        self._workspace = tuple(dict.fromkeys(os.path.realpath(path) for path in (root, folder, *added)))

    def uses_project_variable(self, command: HookCommand) -> bool:
        """Return whether a command uses a variable with the project's folder, such as `$QCODE_PROJECT_DIR`."""
        return any("$" in word and _PROJECT_VARIABLE.search(word) for word in (command.line, *command.argv))

    def files(self, command: HookCommand) -> tuple[Path, ...]:
        """Return the real paths of the workspace files that a command names."""
        words = command.argv or _SEPARATORS.split(command.line)
        files: dict[Path, None] = {}
        for word in filter(None, words):
            text = word
            if "$" in word or word.startswith("~"):
                text = _HOME.sub(lambda _: self._home, _PROJECT_VARIABLE.sub(lambda _: str(self._root), word))
            if "\0" in text:
                continue
            path = os.path.join(self._folder, text)  # noqa: PTH118  # pathlib resolves `..` differently after a link
            # Most words are not paths. This check is quick, but wrong for `..`, which may follow a link.
            if ".." not in text and not os.path.exists(path):  # noqa: PTH110  # quicker than pathlib
                continue
            real_path = Path(os.path.realpath(path))
            if self._is_inside(real_path) and os.path.isfile(real_path):  # noqa: PTH113  # never raises
                files[real_path] = None
        return tuple(files)

    def first_unpinned(self, files: Sequence[Path]) -> str:
        """Return the first workspace file of a command that no pinned folder contains; empty if all are pinned."""
        if not files:
            return ""
        from qcode.agent.trust.store import pinned_folders

        pinned = [os.path.realpath(self._root / name) for name in pinned_folders(self._root, self._folder)]
        unpinned = (file for file in files if not any(file.is_relative_to(folder) for folder in pinned))
        return next(map(str, unpinned), "")

    def _is_inside(self, real_path: Path) -> bool:
        return any(real_path.is_relative_to(folder) for folder in self._workspace)


def configured_hooks(context: RunContext) -> ConfiguredHooks:
    """Return the hooks of the settings for this run."""
    settings = context.settings.hooks
    if not settings.enabled:
        return ConfiguredHooks()
    home = context.env.get("HOME", "")
    folders = HookFolders(context.root, context.folder, home, context.added_folders)
    collector = _HookCollector(folders, is_trusted=context.is_trusted)
    for event in EVENTS:
        entries: tuple[HookConfig, ...] = getattr(settings, event)
        origins = context.settings.item_origins.get(f"hooks.{event}", ())
        for hook, origin in zip(entries, origins, strict=False):
            collector.add_configured(event, hook, origin, "project" if origin.is_project else "own")
    if settings.claude in ("own", "both") and home and context.user_folder is not None:
        collector.add_claude(Path(home) / _USER_CLAUDE_FILE, "own")
    if settings.claude in ("project", "both") and context.is_trusted:
        for name in CLAUDE_SETTINGS:
            collector.add_claude(context.root / name, "project")
    handlers = sorted(collector.handlers, key=lambda handler: handler.origin == "project")
    return ConfiguredHooks(tuple(handlers), tuple(collector.unused), tuple(collector.problems))


class _HookCollector:
    """A collector of the hooks of all settings, which decides whether each hook runs."""

    def __init__(self, folders: HookFolders, *, is_trusted: bool) -> None:
        self._folders = folders
        self._is_trusted = is_trusted
        self.handlers: list[Handler] = []
        self.unused: list[UnusedHook] = []
        self.problems: list[str] = []

    def add_configured(self, event: str, hook: HookConfig, location: Origin, origin: HookOrigin) -> None:
        """Add a hook of qcode's settings."""
        event_spec = EVENTS[event]
        on_failure: Any = hook.on_failure or event_spec.on_failure
        self._add(
            Handler(
                event=event,
                matcher=hook.matcher,
                run=HookCommand(hook.command, hook.argv, hook.env),
                timeout_s=event_spec.timeout_s if hook.timeout_s is None else hook.timeout_s,
                on_failure=on_failure,
                origin=origin,
                may_allow=hook.may_allow and origin == "own",
                location=location,
                label=str(hook),
            )
        )

    def _add(self, handler: Handler) -> None:
        """Add a handler, or the reason why its hook must not run."""
        command = handler.run
        assert isinstance(command, HookCommand)
        files = self._folders.files(command)
        if handler.origin == "own" and is_relative(command):
            reason = "the program of a hook must be an absolute path or a name on PATH"
            self._refuse(handler, reason, f"{reason}: {one_line(visible(handler.label), 80)}")
        elif not self._is_trusted and (self._folders.uses_project_variable(command) or files):
            reason = "it runs a file of this folder, which is not trusted"
            self.unused.append(UnusedHook(handler.event, handler.label, str(handler.location), reason))
        elif first_unpinned := self._folders.first_unpinned(files):
            reason = (
                f"it runs {visible(first_unpinned)}, which qcode does not watch for changes; move that file to .qcode"
            )
            self._refuse(handler, reason, reason)
        else:
            self.handlers.append(handler)

    def _refuse(self, handler: Handler, reason: str, problem: str) -> None:
        """Do not run a hook. If its failure decides something, it fails, because the user relies on its decision."""
        self.problems.append(f"{handler.location}: hooks.{handler.event}: {problem}")
        self.unused.append(UnusedHook(handler.event, handler.label, str(handler.location), reason))
        if handler.on_failure != "go-on":
            self.handlers.append(replace(handler, refusal=reason))

    def add_claude(self, file: Path, origin: HookOrigin) -> None:
        """Add the hooks of a settings file of Claude Code."""
        from qcode.agent.claude.hooks import read_claude_hooks  # loads with the first such file

        read = read_claude_hooks(file)
        self.problems += read.problems
        for claude_hook in read.hooks:
            event, hook, location = claude_hook.event, claude_hook.fields, f"{file}:{claude_hook.line}"
            command = str(hook.get("command") or hook.get("type") or "?")
            reason = _unused_reason(event, claude_hook.group, hook)
            if reason:
                self.unused.append(UnusedHook(event, command, location, reason))
            else:
                self._add(_claude_handler(event, str(claude_hook.group.get("matcher") or ""), hook, location, origin))


def is_relative(command: HookCommand) -> bool:
    """Return whether the program of a command depends on the current folder, such as `./check.sh`."""
    if command.argv:
        program = command.argv[0]
    else:
        words = [word for word in command.line.split() if not _ASSIGNMENT.match(word)]
        program = words[0].strip("'\"") if words else ""
    return "/" in program and not program.startswith(("/", "~", "$"))


def _unused_reason(event: str, group: Mapping[str, Any], hook: Mapping[str, Any]) -> str:
    """Return why a hook of Claude Code does not run in qcode, empty if it runs."""
    if event not in EVENTS:
        return "qcode has no such event"
    if hook.get("type", "command") != "command":
        return f"hooks of the type {visible(str(hook.get('type')))} do not run in qcode"
    if hook.get("async") is True or hook.get("asyncRewake") is True:
        return "asynchronous hooks do not run in qcode"
    if not isinstance(hook.get("command"), str) or not hook["command"].strip() or "\0" in hook["command"]:
        return "it has no command"
    args = hook.get("args")
    if args is None:
        args = []
    if not isinstance(args, list) or not all(isinstance(arg, str) and "\0" not in arg for arg in args):
        return "its args are not a list of strings"
    if not isinstance(group.get("matcher", ""), str | None):
        return "its matcher is not a string"
    if hook.get("if") and event not in _CALL_EVENTS:
        return "it has `if`, but its event is not about a call; Claude Code does not run such a hook either"
    return ""


def _claude_handler(event: str, matcher: str, hook: Mapping[str, Any], location: str, origin: HookOrigin) -> Handler:
    event_spec = EVENTS[event]
    line: str = hook["command"]
    argv: tuple[str, ...] = (line, *hook["args"]) if hook.get("args") is not None else ()
    timeout, timeout_s = hook.get("timeout"), event_spec.timeout_s
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout < _MAX_TIMEOUT_S:
        timeout_s = float(timeout)
    on_failure: OnFailure = "block" if hook.get("onFailure") == "block" else event_spec.on_failure
    return Handler(
        event=event,
        matcher=matcher,
        run=HookCommand(argv=argv) if argv else HookCommand(line),
        timeout_s=timeout_s,
        on_failure=on_failure,
        origin=origin,
        may_allow=False,
        location=location,
        label=" ".join(argv) if argv else line,
        condition=_condition(hook.get("if")),
    )


def _condition(rule: object) -> tuple[str, ...]:
    """Return the `if` of a hook as rules of qcode that cover at least as much; empty if no rules do.

    A hook without rules runs for every call. See code.claude.com/docs/en/hooks.
    """
    if not isinstance(rule, str) or not rule.strip():
        return ()
    from qcode.agent.claude.rules import convert_rule

    converted = convert_rule(rule, "deny", "project")
    # An incomplete conversion would skip calls that the hook must see.
    return () if converted.loss else converted.rules
