"""Options of a run, and its context: the folder, its trust, the settings and the keys.

The context is read before any large module is imported, and before there is a client or a session.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from qcode.protocol.approvals import ApprovalMode, TurnOptions
from qcode.protocol.errors import ConfigError, InputError, UsageError
from qcode.protocol.model import DEFAULT_MODEL_ALIASES, EFFORTS, Effort
from qcode.protocol.tools import EDITORS, CommandExecution, FileAccess, NetworkAccess, ToolSpec
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.keys.keys import Keys
    from qcode.agent.mcp.spec import Connect
    from qcode.agent.programs.answer_schema import AnswerSchema
    from qcode.agent.subagent_kinds import SubagentKind
    from qcode.config.paths import ConfigPaths, DefinitionFolder
    from qcode.config.settings import McpServer, Settings
    from qcode.protocol.provider import Provider

LATEST = "latest"  # resume the session of the folder that was written last
CHOOSE = "choose"
"""The user chooses the session to resume: `-r` without an id."""
OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
PathText: TypeAlias = str | Path
InputFormat: TypeAlias = Literal["text", "stream-json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a run. A field is named like the long flag that sets it; `qcode --help` describes each flag.

    A path may be given as a string, and lists become tuples.
    """

    model: str | Provider | None = None
    """A name, or a connected provider, which is used under its own name and not closed."""
    base_url: str | None = None
    fallback_model: Sequence[str] = ()
    reasoning_effort: Effort | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    system_prompt_file: PathText | None = None
    append_system_prompt_file: PathText | None = None
    max_output_tokens: int | None = None
    max_continuations: int | None = None
    no_escalation: bool = False
    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | float | None = None
    timeout: float | None = None
    """The seconds after which a turn is cancelled; None: no limit. The text so far is not lost."""
    wait_for_limit: float | None = None
    """The longest wait for the end of a rate limit in seconds; None: do not wait."""
    permission_mode: ApprovalMode | None = None
    never_asks: bool = False
    """Deny calls that would ask: Claude Code's mode `dontAsk`."""
    allow_dangerously_skip_permissions: bool = False
    """Let the program that controls the run choose bypass mode later."""
    allowed_tools: Sequence[str] = ()
    """Rules of qcode, such as `shell(git log *)`, or of Claude Code, such as `Bash(git log:*)`."""
    disallowed_tools: Sequence[str] = ()
    builtin_tools: Sequence[str] | None = None
    """The only tools of qcode to offer, None for all. The flag is `--tools`."""
    strict_tools: bool = False
    exit_tools: PathText | None = None
    add_dir: Sequence[PathText] = ()
    trust: bool = False
    resume: str | None = None
    """The id of a session, `latest` for the newest session of the folder, None for a new session."""
    fork_session: bool = False
    no_session: bool = False
    cwd: PathText | None = None
    """The folder to work in, None for the current folder."""
    settings: PathText | Mapping[str, object] | None = None
    """A further configuration file, or its content as nested mappings; or settings of Claude Code: a `.json` file, or
    JSON text that begins with `{`."""
    setting_sources: Sequence[str] | None = None
    """The sources of settings, commands, agents and instructions: `user`, `project`; None: both.

    Without `user`, `user_config` is False.
    """
    user_config: bool = True
    """False: the user's rules, tool servers, commands, agents and instructions do not apply.

    Rules that the user saved for this folder do not apply. Providers, models, network and output limits of the user's
    configuration still do.
    """
    no_skills: bool = False
    mcp_config: Sequence[PathText] = ()
    """Files with tool servers, or JSON texts that begin with `{`."""
    strict_mcp_config: bool = False
    no_hooks: bool = False
    """Run no configured hook. Hooks that a program passes to `Agent.open` run."""
    json_schema: str | None = None
    debug_log: PathText | None = None
    record: PathText | None = None
    prompt: str | None = None
    """The first prompt. This field and the fields below are for the front ends of qcode itself."""
    print: bool = False
    verbose: bool = False
    no_stdin: bool = False
    file: Sequence[PathText] = ()
    output_format: OutputFormat = "text"
    input_format: InputFormat = "text"
    include_partial_messages: bool = False
    permission_prompt_tool: str | None = None
    """`stdio`: a host decides approvals, over the control protocol."""
    replay_user_messages: bool = False
    session_id: str | None = None
    """The id of a new session, which is a UUID."""
    theme: str | None = None
    completion: str | None = None
    notices: Sequence[str] = ()
    """Lines for the user, about flags that have no effect."""

    def __post_init__(self) -> None:
        for option in fields(self):
            name, annotation, value = option.name, str(option.type), getattr(self, option.name)
            if "Sequence" in annotation and not (value is None and "None" in annotation):
                object.__setattr__(self, name, _as_tuple(name, value))
            if annotation in _FIELD_TYPES:
                _check_type(name, value, _FIELD_TYPES[annotation])
            if "PathText" in annotation:
                _check_paths(name, getattr(self, name))
        if not (self.model is None or isinstance(self.model, str) or hasattr(self.model, "stream")):
            raise TypeError("Options(model=...) takes a name or a provider")

    @property
    def model_name(self) -> str:
        """The name of the model; empty if no model was chosen, or if the model is a provider."""
        return self.model if isinstance(self.model, str) else ""

    @property
    def reads_project(self) -> bool:
        """Whether the settings, commands, agents and instructions of a trusted project count."""
        return self.setting_sources is None or "project" in self.setting_sources

    @property
    def further_settings(self) -> Path | Mapping[str, object] | None:
        """The value of `settings`, with a string as a path."""
        return Path(self.settings) if isinstance(self.settings, str) else self.settings

    @property
    def budget_usd(self) -> Decimal | None:
        return None if self.max_budget_usd is None else Decimal(str(self.max_budget_usd))

    def flags(self) -> dict[str, object]:
        """Return the settings that were given as flags, by their dotted names in the configuration."""
        values: dict[str, object] = {
            "model": None if self.model_name in DEFAULT_MODEL_ALIASES else self.model_name,
            "fallback": list(self.fallback_model) or None,
            "network.wait_for_limit": None if self.wait_for_limit is None else "always",
            "output.max_tokens": self.max_output_tokens,
            "output.max_continuations": self.max_continuations,
            "output.escalate": False if self.no_escalation else None,
            "hooks.enabled": False if self.no_hooks else None,
            "permissions.mode": self.permission_mode,
            "permissions.allow": list(self.allowed_tools) or None,
            "permissions.deny": [rule for rule in self.disallowed_tools if names_rule(rule)] or None,
            "ui.theme": self.theme,
        }
        return {name: value for name, value in values.items() if value is not None}

    def offers(self, spec: ToolSpec) -> bool:
        """Return whether `--tools` and `--disallowed-tools` let a tool be offered to the model.

        A model is offered the editing tools that suit it, so in `--tools` the name of one editing tool stands for all.
        """
        if spec.is_one_way:
            return True
        kind = _rule_kind_of(spec)
        if any(rule in (spec.name, kind) for rule in self.disallowed_tools):
            return False
        if self.builtin_tools is None:
            return True
        return spec.name in self.builtin_tools or bool(spec.edit_format and not EDITORS.isdisjoint(self.builtin_tools))


def _as_tuple(name: str, value: Sequence[str | Path] | None) -> tuple[str | Path, ...]:
    if value is None or isinstance(value, str):  # iterating a string would yield its letters
        raise TypeError(f"Options({name}=...) takes a list")
    if not all(isinstance(item, str | Path) for item in value):
        raise TypeError(f"Options({name}=...) takes a list of strings")
    return tuple(value)


def _check_type(name: str, value: object, types: tuple[type, ...]) -> None:
    """Raise `TypeError` for a value of another type: the string "false" would count as true."""
    is_wrong_bool = isinstance(value, bool) and bool not in types  # True is also an `int`
    if is_wrong_bool or not isinstance(value, types):
        raise TypeError(f"Options({name}=...) takes {_TYPE_NAMES[types[0]]}, not {type(value).__name__}")


def _check_paths(name: str, value: object) -> None:
    """Raise `UsageError` for a path that no file can have, such as one with a lone surrogate."""
    for path in value if isinstance(value, tuple) else (value,):
        if not isinstance(path, str | Path) or (name in ("settings", "mcp_config") and str(path).startswith("{")):
            continue
        with suppress(UnicodeEncodeError):
            if b"\0" not in os.fsencode(path):
                continue
        raise UsageError(f"Options({name}=...): {str(path)[:80]!a} has a character that no path can have")


_NONE = type(None)
_FIELD_TYPES: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "str | None": (str, _NONE),
    "int | None": (int, _NONE),
    "float | None": (float, int, _NONE),
    "Decimal | float | None": (float, int, Decimal, _NONE),
    "PathText | None": (Path, str, _NONE),
    "PathText | Mapping[str, object] | None": (Mapping, Path, str, _NONE),
}
"""The allowed types of a value, by the annotation of its field."""
_TYPE_NAMES = {
    bool: "True or False",
    str: "a text",
    int: "a whole number",
    float: "a number",
    Path: "a path",
    Mapping: "a path or a mapping",
}
SERVER_SEPARATOR = "__"
"""The separator of server and tool in the name of a server's tool."""


def names_rule(text: str) -> bool:
    """Return whether an item of `--disallowed-tools` is meant as a permission rule, not as the name of a tool."""
    from qcode.safety.rules import KINDS  # not needed for the first paint

    return "(" in text or text in KINDS


def _rule_kind_of(spec: ToolSpec) -> str:
    """Return the kind of rule that covers every call of a tool, empty if no kind does."""
    match spec.safety:
        case FileAccess(access=access):
            return "edit" if access == "write" else "read"
        case CommandExecution():
            return "shell"
        case NetworkAccess(url_argument=argument) if argument:
            return "fetch"
        case None if SERVER_SEPARATOR in spec.name:
            return "mcp"
        case _:
            return ""


def split_rules(texts: Sequence[str]) -> tuple[str, ...]:
    """Split `shell(git log *), Read Edit(src/**)` at commas and blanks outside parentheses.

    A parenthesis in quotes does not end `shell(...)`: `shell(echo '), ')` is one rule.
    """
    rules: list[str] = []
    for text in texts:
        depth = 0
        start = 0
        quote = ""
        for index, char in enumerate(text):
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"" and depth and text[start:].lstrip().startswith("shell("):
                quote = char
            elif char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
            elif (char == "," or char.isspace()) and depth <= 0:
                rules.append(text[start:index].strip())
                start = index + 1
        # A rule with an unclosed parenthesis is returned too, so that the parser of rules reports it.
        rules.append(text[start:].strip())
    return tuple(rule for rule in rules if rule)


MAX_TURNS_UNATTENDED = 100  # the default limit of replies in a turn that no user attends


class TurnLimits(TypedDict):
    """The limits of one turn, by their names in the engine's `TurnSettings`, which explains them."""

    max_turns: int | None
    shows_turns_left: bool
    max_tool_calls: int | None
    max_budget_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class RunContext:
    """The folder that a run works in, its options, settings and keys. "The program" is the caller of the library."""

    options: Options
    env: Mapping[str, str]
    paths: ConfigPaths
    settings: Settings
    keys: Keys
    folder: Path
    root: Path
    """The root of the project that contains `folder`."""
    is_attended: bool
    """A user can answer questions."""
    is_trusted: bool
    exit_tools: tuple[ToolSpec, ...] = ()
    """Tools that are offered but never run; their calls are reported."""
    added_folders: tuple[Path, ...] = ()
    """The further folders that the tools may work in."""
    schema: AnswerSchema | None = None
    client_servers: Mapping[str, McpServer] = field(default_factory=dict)
    """Tool servers that the program names itself, such as an editor. Their settings are used unchanged."""
    program_servers: Mapping[str, Connect] = field(default_factory=dict)
    """Tool servers that run inside the program."""
    program_agents: tuple[SubagentKind, ...] = ()
    """Kinds of sub-agents that the program defines, which replace others of the same name."""
    program_skills: tuple[str, ...] | None = None
    """The only skills that the program lets the model load, None for all."""
    plan_instructions: str = ""
    """Instructions of the program for plan mode, instead of a plan that names files and steps."""
    servers_can_ask: bool = False
    """The program answers questions of tool servers even in an unattended run."""
    offers_patches: bool = True
    """Offer `apply_patch` to models that were trained on it; False if the program does not support that tool."""

    @property
    def reads_project(self) -> bool:
        """Whether settings, commands, agents and servers of the project apply: it is trusted and among the sources."""
        return self.is_trusted and self.options.reads_project

    @property
    def user_folder(self) -> Path | None:
        """The folder with the user's commands, agents and instructions; None if they do not apply to this run."""
        return self.paths.config_dir if self.options.user_config else None

    @property
    def home(self) -> Path | None:
        """The home folder, for the user's files of Claude Code; None if these files do not apply to this run."""
        home = self.env.get("HOME", "")
        return Path(home) if home and self.options.user_config else None

    def definition_folders(self, name: str) -> tuple[DefinitionFolder, ...]:
        """Return the existing folders `name` with definitions, the user's first.

        These folders belong to qcode and, unless `skills.foreign` is off, to Claude Code: `agents` means `agents/` of
        the configuration, `~/.claude/agents`, `.qcode/agents` and `.claude/agents`.
        """
        from qcode.config.paths import CLAUDE_FOLDER, PROJECT_FOLDER, DefinitionFolder, exists_or_unknown

        reads_other_programs = self.settings.skills.foreign
        user_folders = [] if self.user_folder is None else [self.user_folder / name]
        if self.home is not None and reads_other_programs:
            user_folders.append(self.home / CLAUDE_FOLDER / name)
        project_folders: list[Path] = []
        if self.reads_project:
            names = (PROJECT_FOLDER, CLAUDE_FOLDER) if reads_other_programs else (PROJECT_FOLDER,)
            project_folders = [self.root / folder / name for folder in names]
        # If the project is the home folder, its `.claude/agents` is in both lists. It counts as the user's.
        users = {path.resolve() for path in user_folders}
        folders = [
            *(DefinitionFolder(path) for path in user_folders),
            *(DefinitionFolder(path, self.root) for path in project_folders if path.resolve() not in users),
        ]
        return tuple(folder for folder in folders if exists_or_unknown(folder.path))

    def limits(self, turn: TurnOptions) -> TurnLimits:
        """Return the limits of a turn; limits in `turn` take precedence over those of the run."""
        options = self.options
        max_turns = options.max_turns if turn.max_turns is None else turn.max_turns
        return {
            "max_turns": MAX_TURNS_UNATTENDED if max_turns is None and not self.is_attended else max_turns,
            "shows_turns_left": max_turns is not None,
            "max_tool_calls": options.max_tool_calls if turn.max_tool_calls is None else turn.max_tool_calls,
            "max_budget_usd": options.budget_usd if turn.max_budget_usd is None else turn.max_budget_usd,
        }

    def timeout_s(self, turn: TurnOptions) -> float | None:
        """Return the seconds after which a turn is cancelled; None if there is no limit."""
        return self.options.timeout if turn.timeout_s is None else turn.timeout_s

    @classmethod
    def read(
        cls,
        options: Options,
        env: Mapping[str, str],
        *,
        is_attended: bool = False,
        judge_trust: Callable[[Path, Path, Path], bool] | None = None,
        on_wait: Callable[[], None] | None = None,
        paths: ConfigPaths | None = None,
    ) -> RunContext:
        """Return the context of a run; raise `QcodeError` for an option, a setting or a file that cannot be used.

        `judge_trust` (folder, project, state folder) returns whether a folder is trusted, and may ask the user; without
        it, `options.trust` and the trust store decide. `on_wait` is called if the keyring is slow.
        """
        # Not loaded by a program that only creates `Options`.
        from qcode.agent.context.project import find_project_root, resolve_added_folder
        from qcode.agent.keys.keys import open_keys
        from qcode.config.load import load
        from qcode.config.paths import ConfigPaths

        options = _convert(options)
        schema = _answer_schema(options)
        options = _asking_for(schema, options)
        folder = _folder(options.cwd)
        root = find_project_root(folder)
        added_folders = tuple(resolve_added_folder(path, "--add-dir ") for path in options.add_dir)
        _check_flags(options)
        exit_tools = _exit_tools(options.exit_tools)
        paths = paths or ConfigPaths.from_env(env)
        judge_trust = judge_trust or partial(_is_trusted, options)
        is_trusted = judge_trust(folder, root, paths.state_dir)
        settings = load(
            paths,
            env,
            options.flags(),
            root,
            is_trusted,
            further_settings=options.further_settings,
            user_config=options.user_config,
            reads_project=options.reads_project,
            warnings=tuple(options.notices),
        )
        keys = open_keys(env, settings, paths, is_attended=is_attended, on_wait=on_wait)
        return cls(
            options=options, env=env, paths=paths, settings=settings, keys=keys, folder=folder, root=root,
            is_attended=is_attended, is_trusted=is_trusted, exit_tools=exit_tools, added_folders=added_folders,
            schema=schema,
        )  # fmt: skip


def _convert(options: Options) -> Options:
    """Return options with values in Claude Code's format converted, and with the contents of files and pipes."""
    if not _needs_conversion(options):
        return options
    from qcode.agent.claude.settings import convert_options

    return replace(options, **convert_options(_option_values(options)))


def _option_values(options: Options) -> dict[str, Any]:
    return {option.name: getattr(options, option.name) for option in fields(options)}


def _needs_conversion(options: Options) -> bool:
    rules = (*options.allowed_tools, *options.disallowed_tools, *(options.builtin_tools or ()))
    has_claude_names = any(rule[:1].isupper() or rule.startswith("mcp__") or rule == "default" for rule in rules)
    has_files = (
        (options.settings is not None and not isinstance(options.settings, Mapping))
        or any(not str(path).startswith("{") for path in options.mcp_config)
        or options.system_prompt_file is not None
        or options.append_system_prompt_file is not None
    )
    return has_claude_names or has_files or options.setting_sources is not None


def _folder(cwd: PathText | None) -> Path:
    if cwd is None:
        return Path.cwd()
    folder = Path(cwd).absolute()
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except OSError as error:
        raise InputError(f"cannot use the folder {cwd}: {error.strerror}") from None
    if not is_folder:
        raise InputError(f"cannot use the folder {cwd}: {os.strerror(errno.ENOTDIR)}")
    return folder


def _is_trusted(options: Options, folder: Path, root: Path, state_dir: Path) -> bool:
    if options.trust:
        return True
    from qcode.agent.trust.store import TrustStore  # loads late, to answer the first message of an editor sooner

    return TrustStore(state_dir, folder).is_trusted(root)


def _exit_tools(path: PathText | None) -> tuple[ToolSpec, ...]:
    if path is None:
        return ()
    from qcode.agent.programs.exit_tools import read_exit_tools

    return read_exit_tools(Path(path))


def _answer_schema(options: Options) -> AnswerSchema | None:
    """Return the schema of the answer; None if the options name none."""
    if options.json_schema is None:
        return None
    from qcode.agent.programs.answer_schema import read_schema

    return read_schema(options.json_schema)


def _asking_for(schema: AnswerSchema | None, options: Options) -> Options:
    """Return the options with a system prompt that asks for an answer of this schema, if there is one."""
    if schema is None:
        return options
    instructions = "\n\n".join(text for text in (options.append_system_prompt, schema.instructions) if text)
    return replace(options, append_system_prompt=instructions)


def _check_flags(options: Options) -> None:
    """Raise `QcodeError` for a flag with an invalid value: a usage error, unlike the same value in a config file."""
    from qcode.config.load import flag_layer

    check_limits(_option_values(options))
    if options.reasoning_effort is not None and options.reasoning_effort not in EFFORTS:
        raise UsageError(f"reasoning_effort must be one of {', '.join(EFFORTS)}, not {options.reasoning_effort!r}")
    if options.timeout is not None and not 0 < options.timeout < float("inf"):
        raise UsageError(f"timeout must be a number of seconds greater than 0, not {options.timeout!r}")
    if options.wait_for_limit is not None and not options.wait_for_limit >= 0:
        raise UsageError(f"wait_for_limit must be a number of seconds, not {options.wait_for_limit!r}")
    if options.permission_prompt_tool not in (None, "stdio"):
        raise UsageError("--permission-prompt-tool must be stdio: a tool cannot decide approvals")
    if options.session_id is not None:
        if not _UUID.fullmatch(options.session_id):
            raise UsageError(f'--session-id must be a UUID, not "{options.session_id[:80]}"')
        if options.resume is not None and not options.fork_session:
            raise UsageError("--session-id names a new session: it needs --fork-session with -c or -r")
    _check_tool_names("--tools", options.builtin_tools or ())
    _check_tool_names("--disallowed-tools", [item for item in options.disallowed_tools if not names_rule(item)])
    _check_rules("--allowed-tools", options.allowed_tools)
    _check_rules("--disallowed-tools", [item for item in options.disallowed_tools if names_rule(item)])
    try:
        flag_layer(options.flags())
    except ConfigError as error:
        raise UsageError(str(error)) from None


_UUID = lazy_pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_MIN_LIMITS = {"max_turns": 1, "max_tool_calls": 0, "max_output_tokens": 1}


def check_limits(values: Mapping[str, object]) -> None:
    """Raise `UsageError` for a limit of a run or a turn with an invalid value; None is valid: no limit."""
    for name, minimum in _MIN_LIMITS.items():
        value = values.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < minimum):
            raise UsageError(f"{name} must be a whole number of at least {minimum}, not {value!r}")
    money = values.get("max_budget_usd")
    if money is None:
        return
    is_number = isinstance(money, int | float | Decimal) and not isinstance(money, bool)
    if not is_number or not 0 < float(str(money)) < float("inf"):
        raise UsageError(f"max_budget_usd must be an amount in USD greater than 0, not {money!r}")


def _check_rules(flag: str, rules: Sequence[str]) -> None:
    """Raise `QcodeError` for an invalid rule."""
    if not rules:
        return
    from qcode.safety.rules import parse_rule

    for rule in rules:
        try:
            parse_rule(rule)
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from None


def _check_tool_names(flag: str, names: Sequence[str]) -> None:
    """Raise `QcodeError` for a name that no tool has; names of server tools (`SERVER__TOOL`) are not known yet."""
    if not names:
        return
    from qcode.text.match import nearest_hint
    from qcode.tools.registry import all_names

    known_names = all_names()
    for name in names:
        if name not in known_names and SERVER_SEPARATOR not in name:
            raise UsageError(f'{flag}: there is no tool "{name}"; {nearest_hint(name, known_names)}')
