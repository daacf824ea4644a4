"""The events of hooks as a table, and their handlers: a command, or a function of the program that uses the library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from qcode.protocol.errors import ConfigError
from qcode.text.clean import quoted, visible, visible_line
from qcode.text.json import JsonObject
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.config.settings import Origin

OnFailure: TypeAlias = Literal["ask", "block", "go-on"]
"""The decision if a hook fails: ask the user, deny, or continue as without the hook."""
HookOrigin: TypeAlias = Literal["own", "project", "program"]
"""The author of a hook: the user, the project, or the program that opened the agent."""
HookFunction: TypeAlias = Callable[[dict[str, Any], str | None], Awaitable[Mapping[str, Any] | None]]
"""A function that gets the input of a hook and the id of its call, and returns the answer: a mapping, or None."""

DEFAULT_TIMEOUT_S = 600.0
PROMPT_TIMEOUT_S = 30.0
END_TIMEOUT_S = 1.5
"""The default time limit of a handler of SessionEnd. They run concurrently, so it is the limit of all together."""
MAX_END_TIMEOUT_S = 60.0
"""The maximum time limit of a handler of SessionEnd."""
_MAX_COMMAND_CHARS = 400


@dataclass(frozen=True, slots=True)
class EventSpec:
    """The specification of one event."""

    can_block: bool = True
    """Exit code 2 and `decision: "block"` have an effect."""
    text_is_context: bool = False
    """Plain text on stdout is added to the conversation."""
    has_context: bool = False
    """`additionalContext` is added to the conversation."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """The default time limit of a handler."""
    on_failure: OnFailure = "go-on"
    """The default decision if a handler fails."""


EVENTS: Mapping[str, EventSpec] = {
    "SessionStart": EventSpec(can_block=False, text_is_context=True, has_context=True),
    "UserPromptSubmit": EventSpec(
        text_is_context=True, has_context=True, timeout_s=PROMPT_TIMEOUT_S, on_failure="block"
    ),
    "PreToolUse": EventSpec(has_context=True, on_failure="ask"),
    "PermissionRequest": EventSpec(can_block=False, on_failure="ask"),
    "PostToolUse": EventSpec(has_context=True),
    "PostToolUseFailure": EventSpec(has_context=True),
    "Notification": EventSpec(can_block=False),
    "SubagentStart": EventSpec(can_block=False, has_context=True),
    "SubagentStop": EventSpec(),
    "Stop": EventSpec(),
    "StopFailure": EventSpec(can_block=False),
    "PreCompact": EventSpec(),
    "PostCompact": EventSpec(can_block=False),
    "SessionEnd": EventSpec(can_block=False, timeout_s=END_TIMEOUT_S),
}


@dataclass(frozen=True, slots=True)
class HookCommand:
    """A program to run: a `line` for bash, or the words `argv` without a shell."""

    line: str = ""
    argv: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """The names of environment variables that the program gets in addition to the environment of a shell command."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook of a program. Provisional until version 1.0."""

    matcher: str
    """Names of tools (`shell|edit`, or Claude Code's `Bash|Edit`) or a regular expression; empty: all events."""
    function: HookFunction
    timeout: float | None = None
    """In seconds; None: the default of the event."""
    on_failure: OnFailure | None = None
    """Applies if the function raises or takes longer than `timeout`; None: the default of the event."""
    may_allow: bool = False
    """The hook can allow a call if only the mode would ask about it.

    A call that asks because of a rule, a protected file or an untrusted folder still asks.
    """


@dataclass(frozen=True, slots=True)
class Handler:
    """A hook with all its defaults filled in."""

    event: str
    matcher: str
    """Selects events by the names of their `HookInput`; empty for all events."""
    run: HookCommand | HookFunction
    timeout_s: float
    on_failure: OnFailure
    origin: HookOrigin
    may_allow: bool = False
    """The author of the hook lets it allow calls. Use `can_allow`, which also considers the origin."""
    location: str | Origin = ""
    """The place that defines the hook; its `str` is `file:line`. Empty for a hook of a program."""
    label: str = ""
    """The command line, or the name of the function."""
    condition: tuple[str, ...] = ()
    """Permission rules: the hook runs only for calls that one of them covers. Empty: for all calls."""
    refusal: str = ""
    """Why qcode does not run the hook: it fails each time instead, and `on_failure` decides. Empty: it runs."""

    @property
    def can_allow(self) -> bool:
        """Whether the hook can allow calls: a hook of a project cannot."""
        return self.may_allow and self.origin != "project"


def program_handler(event: str, hook: Hook) -> Handler:
    """Return the handler for a hook of a program; raise `ValueError` with one line if the event does not exist."""
    event_spec = EVENTS.get(event)
    if event_spec is None:
        from qcode.text.match import nearest_hint

        raise ValueError(f"unknown hook event {quoted(event)}; {nearest_hint(event, EVENTS)}")
    return Handler(
        event=event,
        matcher=hook.matcher,
        run=hook.function,
        timeout_s=event_spec.timeout_s if hook.timeout is None else hook.timeout,
        on_failure=hook.on_failure or event_spec.on_failure,
        origin="program",
        may_allow=hook.may_allow,
        label=getattr(hook.function, "__qualname__", type(hook.function).__name__),
    )


@dataclass(frozen=True, slots=True)
class HookInput:
    """One event for the handlers."""

    fields: JsonObject
    """The JSON object that a handler gets."""
    names: tuple[str, ...] = ()
    """The names that a matcher selects, such as the names of the tool. Without names, all matchers select the event."""
    tool_use_id: str | None = None
    """The id of the call; None for an event without a call."""
    is_patch_part: bool = False
    """The input is one file of a patch, so that an answer cannot replace it."""
    is_covered: Callable[[tuple[str, ...]], bool] | None = None
    """Returns whether one of the given rules covers the call; None for an event without a call."""


def project_hook_rows(root: Path) -> list[tuple[str, str]]:
    """Return rows for the trust question: the name and command line of each hook in a project's settings.

    Hooks in Claude Code's settings are included, although they run only if the user enables them.
    """
    return [*_settings_rows(root), *_claude_rows(root)]


def _claude_rows(root: Path) -> list[tuple[str, str]]:
    from qcode.agent.claude.hooks import read_claude_hooks
    from qcode.config.paths import CLAUDE_SETTINGS

    rows: list[tuple[str, str]] = []
    for name in CLAUDE_SETTINGS:
        for hook in read_claude_hooks(root / name).hooks:
            args = hook.fields.get("args")
            command = hook.fields.get("command") or hook.fields.get("type") or "?"
            words = [command, *(args if isinstance(args, list) else ())]
            command = visible_line(" ".join(map(str, words)), _MAX_COMMAND_CHARS)
            rows.append((f"hook {visible(hook.event)}", f"runs {command} if hooks.claude is on ({name})"))
    return rows


def _settings_rows(root: Path) -> list[tuple[str, str]]:
    from qcode.config.load import parse_toml, read_config_text
    from qcode.config.paths import project_file

    file = project_file(root)
    try:
        hooks = parse_toml(read_config_text(file, must_exist=False) or "", file).get("hooks", {})
    except ConfigError:
        return []
    rows: list[tuple[str, str]] = []
    for event, entries in hooks.items() if isinstance(hooks, dict) else ():
        for hook in entries if isinstance(entries, list) else ():
            if isinstance(hook, dict):
                argv = hook.get("argv")
                command = hook.get("command") or " ".join(map(str, argv if isinstance(argv, list) else ()))
                rows.append((f"hook {visible(event)}", f"runs {visible_line(str(command), _MAX_COMMAND_CHARS)}"))
    return rows
