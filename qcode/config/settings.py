"""The settings as values, and the one list of keys: each field is a key, with its kind, default, meaning and flag.

`schema` collects the keys from here, for the loader, `/config` and the tables of `docs/configuration.md`. A default of
None leaves the choice to the code that uses the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar, cast, get_args

from qcode.config import kinds
from qcode.config.kinds import CommandConfig, HookConfig, ValueKind
from qcode.protocol.approvals import MODE_ALIASES, ApprovalMode, RuleConfig
from qcode.protocol.model import LimitWait
from qcode.protocol.usage import Price
from qcode.values import dataclass

ProviderType: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini", "bedrock"]
PROVIDER_TYPES: tuple[ProviderType, ...] = get_args(ProviderType)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class KeySchema:
    """The schema of a key: its kind, the meaning for the reference, and its flag, empty if it has none.

    `is_secret`: the value is never shown. `is_joined`: the lists of all layers are joined. `is_project_allowed`: a
    project's file may set the key.
    """

    kind: ValueKind
    meaning: str
    flag: str = ""
    is_secret: bool = False
    is_joined: bool = False
    is_project_allowed: bool = True


def key(
    default: _T,
    kind: ValueKind,
    meaning: str,
    *,
    flag: str = "",
    is_secret: bool = False,
    is_joined: bool = False,
    is_project_allowed: bool = True,
) -> _T:
    """Declare a field as a key of the configuration."""
    meta = KeySchema(kind, meaning, flag, is_secret, is_joined, is_project_allowed)
    if isinstance(default, Mapping):
        empty: object = field(default_factory=lambda: MappingProxyType({}), metadata={"key": meta}, repr=not is_secret)
        return cast(_T, empty)
    return field(default=default, metadata={"key": meta}, repr=not is_secret)


_NO_STRINGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Output:
    """Output limits. `max_tokens` overrides the caps and turns escalation off. A budget of None follows the cap."""

    max_tokens: int | None = key(
        None,
        kinds.integer(1),
        "output cap of every request; it disables escalation, not continuation",
        flag="--max-output-tokens",
    )
    escalate: bool = key(
        True, kinds.boolean(), "request a truncated reply again with a larger cap", flag="--no-escalation"
    )
    max_continuations: int = key(
        3, kinds.integer(0), "how often a reply that is still truncated is continued", flag="--max-continuations"
    )
    policy: Literal["escalate", "continue"] = key(
        "escalate",
        kinds.choice("escalate", "continue"),
        "continue: continue a truncated plain-text reply instead of requesting it again",
    )
    tool_call_repair: Literal["reject", "resume"] = key(
        "reject",
        kinds.choice("reject", "resume"),
        "what to do with a truncated call that writes a file: have it split, or ask for the rest",
    )
    max_tool_repair_attempts: int = key(
        1, kinds.integer(0), "how many incomplete calls in a row are sent back before the turn ends"
    )
    max_total_completion_tokens: int | None = key(
        None, kinds.integer(1), "token budget of one reply; default: four times the cap of a continuation"
    )
    max_total_output_chars: int | None = key(
        None,
        kinds.integer(1),
        "character budget of one reply; default: the larger of 120,000 and four times the token budget",
    )
    min_escalation_gain: float = key(1.25, kinds.number(1), "escalate only if the larger cap is larger by this factor")
    learn_first_cap: bool = key(
        True,
        kinds.boolean(),
        "raise the cap of first requests, up to 16,000, for a model whose replies are often longer than 8,000 tokens",
    )


@dataclass(frozen=True, slots=True)
class Network:
    """Time limits in seconds, and the retries of a request."""

    connect_timeout_s: float = key(10.0, kinds.number(0, is_exclusive=True), "seconds to connect")
    first_event_timeout_s: float = key(600.0, kinds.number(0, is_exclusive=True), "seconds until a reply begins")
    idle_timeout_s: float = key(90.0, kinds.number(0, is_exclusive=True), "longest silence within a reply, in seconds")
    max_retries: int = key(5, kinds.integer(0), "retries of a request after a transient failure")
    retry_after_max_s: float = key(120.0, kinds.number(0), "longest wait that a server may request, in seconds")
    wait_for_limit: LimitWait = key(
        "ask",
        kinds.choice(*get_args(LimitWait)),
        "at a rate limit with a later end: ask (pipe mode: fail), always wait for it, or never",
        flag="--wait-for-limit",
        is_project_allowed=False,
    )


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """Permission rules as text, parsed by `safety`. The lists of all files and flags are joined."""

    mode: ApprovalMode = key(  # the call creates the field itself
        "default",
        kinds.choice(*get_args(ApprovalMode), aliases=MODE_ALIASES),
        "the initial mode; ask is another name for default; bypass can only be set with a flag",
        flag="--permission-mode",
        is_project_allowed=False,
    )
    allow: tuple[str | RuleConfig, ...] = key(
        (), kinds.rules(), "runs without asking", flag="--allowed-tools", is_joined=True, is_project_allowed=False
    )
    ask: tuple[str | RuleConfig, ...] = key((), kinds.rules(), "always asks", is_joined=True)
    deny: tuple[str | RuleConfig, ...] = key((), kinds.rules(), "never runs", flag="--disallowed-tools", is_joined=True)


@dataclass(frozen=True, slots=True)
class Tools:
    """Limits of tools; None means the tool's own limit."""

    shell_timeout_s: float = key(120.0, kinds.number(0, is_exclusive=True), "time limit of a command, in seconds")
    max_output_chars: int | None = key(
        None, kinds.integer(1), "how much of a result the model sees; default: the limit of each tool"
    )
    tool_timeout_s: float | None = key(
        None,
        kinds.number(0, is_exclusive=True),
        "time limit of any other tool, in seconds; default: the limit of each tool",
    )
    sandbox: Literal["auto", "required", "off"] = key(
        "auto",
        kinds.choice("auto", "required", "off"),
        "the sandbox around commands: auto uses one if it works, required refuses to start without one, off uses none",
    )
    agents: bool = key(True, kinds.boolean(), "let the model delegate tasks to sub-agents")
    text_calls: bool = key(
        True, kinds.boolean(), "treat a tool call that a server passed on as text as a call, if it certainly is one"
    )
    web_search: Literal["off", "host", "brave", "tavily"] = key(
        "off",
        kinds.choice("off", "host", "brave", "tavily"),
        "web search: off, by the model's provider (host), or by a service with a key in "
        "BRAVE_API_KEY or TAVILY_API_KEY",
        is_project_allowed=False,
    )


@dataclass(frozen=True, slots=True)
class Ui:
    """Settings of the app. `keys` maps the id of a command to its key."""

    theme: str | None = key(
        None,
        kinds.text(),
        "a theme, or auto to follow the terminal; default: the last choice in the app, otherwise auto",
        flag="--theme",
    )
    linear: bool = key(False, kinds.boolean(), "write lines instead of a screen (linear mode)")
    bell: bool | None = key(
        None,
        kinds.boolean(),
        "ring the bell and notify when a turn ends or needs an answer; default: while the terminal has no focus",
    )
    keep_last_reply: bool = key(False, kinds.boolean(), "print the last reply after leaving the app")
    title: bool = key(True, kinds.boolean(), "set the title of the terminal")
    show_thinking: Literal["folded", "expanded", "hidden"] = key(
        "folded",
        kinds.choice("folded", "expanded", "hidden"),
        "show the model's thinking as one line once it is over, in full, or not at all",
    )
    mouse: bool = key(True, kinds.boolean(), "use the mouse")
    partial_redraw: bool = key(
        True, kinds.boolean(), "write only the cells that change; false if the terminal keeps remains of old text"
    )
    vim: bool = key(False, kinds.boolean(), "edit the prompt with vim's keys; /vim switches it")
    keys: Mapping[str, str] = key(
        _NO_STRINGS, kinds.text(), 'the keys of a command, by its id: "ctrl+y, f6", or "none"', is_project_allowed=False
    )


_NO_HOOKS: tuple[HookConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The hooks by event, those of the user first. The names of the events are Claude Code's."""

    enabled: bool = key(
        True, kinds.boolean(), "false: no configured hook runs", flag="--no-hooks", is_project_allowed=False
    )
    claude: Literal["off", "own", "project", "both"] = key(
        "off",
        kinds.choice("off", "own", "project", "both"),
        "also run the hooks of Claude Code: your own, those of a trusted project, or both",
        is_project_allowed=False,
    )
    SessionStart: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "a session begins; matches startup, resume, clear, compact or fork", is_joined=True
    )
    UserPromptSubmit: tuple[HookConfig, ...] = key(_NO_HOOKS, kinds.hooks(), "you send a prompt", is_joined=True)
    PreToolUse: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "the model calls a tool; matches its name", is_joined=True
    )
    PermissionRequest: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "a call is about to ask you; matches the tool", is_joined=True
    )
    PostToolUse: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "a call has ended; matches the tool", is_joined=True
    )
    PostToolUseFailure: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "a call has failed; matches the tool", is_joined=True
    )
    Notification: tuple[HookConfig, ...] = key(
        _NO_HOOKS,
        kinds.hooks(),
        "qcode waits for you; matches permission_prompt, elicitation_dialog or idle_prompt",
        is_joined=True,
    )
    SubagentStart: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "a sub-agent begins; matches its kind", is_joined=True
    )
    SubagentStop: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "a sub-agent is done; matches its kind", is_joined=True
    )
    Stop: tuple[HookConfig, ...] = key(_NO_HOOKS, kinds.hooks(), "the model is done", is_joined=True)
    StopFailure: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "a turn failed; matches the error", is_joined=True
    )
    PreCompact: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "the conversation is about to be compacted; matches manual or auto", is_joined=True
    )
    PostCompact: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "the conversation was compacted; matches manual or auto", is_joined=True
    )
    SessionEnd: tuple[HookConfig, ...] = key(
        _NO_HOOKS, kinds.hooks(), "a session ends; matches clear, resume, prompt_input_exit or other", is_joined=True
    )

    @property
    def has_any(self) -> bool:
        """Whether a hook may be configured."""
        values = (getattr(self, item.name) for item in fields(self))
        return self.enabled and (self.claude != "off" or any(value for value in values if isinstance(value, tuple)))


_NO_COMMANDS: tuple[CommandConfig, ...] = ()
_NO_SERVERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AfterEditSettings:
    """The steps after an edit of the model, in a trusted folder."""

    diagnostics: bool | str = key(
        "auto",
        kinds.auto_or_boolean(),
        "report new problems of an edited file to the model; auto: only if the checkers can run in a sandbox, "
        "true: also without one",
    )
    format: tuple[CommandConfig, ...] = key(
        _NO_COMMANDS, kinds.commands(), "a command that formats an edited file; {file} is its path"
    )
    check: tuple[CommandConfig, ...] = key(
        _NO_COMMANDS, kinds.commands(), "a command that checks an edited file; if it fails, the model gets its output"
    )
    test: tuple[CommandConfig, ...] = key(
        _NO_COMMANDS, kinds.commands(), "a command that runs when the model is done, if it edited files"
    )
    max_rounds: int = key(
        3, kinds.integer(0), "how often in a turn failed tests and late problems are sent back to the model"
    )
    servers: Mapping[str, tuple[str, ...]] = key(
        _NO_SERVERS,
        kinds.raw_strings(),
        "the command of the language server of a language or file ending; [] for none",
        is_project_allowed=False,
    )

    @property
    def is_off(self) -> bool:
        """Whether nothing follows an edit."""
        return self.diagnostics is False and not (self.format or self.check or self.test)


@dataclass(frozen=True, slots=True)
class Sessions:
    """`retention_days`: sessions are removed this many days after the last write; 0 keeps all."""

    retention_days: int = key(
        0,
        kinds.integer(0),
        "sessions of this folder without a change for so many days are deleted when qcode starts there; 0 keeps all",
        is_project_allowed=False,
    )


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """Which skills a session has. `off` are their names, `paths` further folders of skills."""

    off: tuple[str, ...] = key((), kinds.strings(), "skills that are not used, by name", is_project_allowed=False)
    paths: tuple[str, ...] = key(
        (), kinds.strings(), "further folders of skills, absolute or below your home folder", is_project_allowed=False
    )
    foreign: bool = key(
        True,
        kinds.boolean(),
        "also read the skills, commands and agents in .agents and .claude folders",
        is_project_allowed=False,
    )


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider from the configuration, or with an endpoint from the environment.

    `network` is complete: the provider's values override those of `[network]`. `headers` may contain secrets.
    """

    type: ProviderType = key(
        "openai", kinds.choice(*PROVIDER_TYPES), "the protocol; a known provider has its own", is_project_allowed=False
    )
    base_url: str | None = key(None, kinds.url(), "the address", flag="--base-url", is_project_allowed=False)
    api_key_env: str | None = key(
        None,
        kinds.variable(),
        "the environment variable that holds the key; a key itself is never in a file",
        is_project_allowed=False,
    )
    api_key_command: tuple[str, ...] | None = key(
        None,
        kinds.command(),
        "a command that prints the key in its first line; runs without a shell, in the configuration folder, at most "
        "10 s, once per run",
        is_project_allowed=False,
    )
    headers: Mapping[str, str] = key(
        _NO_STRINGS, kinds.text(), "a header to send with each request", is_secret=True, is_project_allowed=False
    )
    max_tokens_field: str | None = key(
        None,
        kinds.field_name(),
        "the request field for the output cap, if the server requires another one",
        is_project_allowed=False,
    )
    reasoning_field: str | None = key(
        None, kinds.field_name(), "the field for reasoning, if the server uses another one", is_project_allowed=False
    )
    project: str | None = key(
        None,
        kinds.text(),
        "a Google Cloud project: its models are used, on Vertex AI; for the types gemini and anthropic",
        is_project_allowed=False,
    )
    location: str | None = key(
        None, kinds.text(), "the location on Vertex AI; default: global", is_project_allowed=False
    )
    default_model: str | None = key(None, kinds.text(), "the model if none is named", is_project_allowed=False)
    network: Network = field(default_factory=Network)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings of one model; a fact of None is taken from the catalog.

    `output` is complete: flags override the model's values, which override those of `[output]`.
    """

    context_window: int | None = key(None, kinds.integer(1), "tokens of prompt and reply together")
    max_output_tokens: int | None = key(
        None, kinds.integer(1), "the model's output limit, which an escalation requests"
    )
    prefill: bool | None = key(None, kinds.boolean(), "the provider can continue an assistant message")
    images: bool | None = key(None, kinds.boolean(), "the model accepts images")
    thinking: bool | None = key(None, kinds.boolean(), "the model supports reasoning")
    inline_thinking: bool | None = key(None, kinds.boolean(), "its reasoning arrives as <think> text")
    text_tool_calls: bool | None = key(
        None, kinds.boolean(), "true: its calls are only text, and so are the tools; false: text is never a call"
    )
    web_search: bool | None = key(
        None,
        kinds.boolean(),
        "its provider can search the web (tools.web_search); default: Anthropic, OpenAI (Responses) "
        "and Gemini 3 at their own addresses",
    )
    output: Output = field(default_factory=Output)
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class Mcp:
    """Settings of all tool servers. `defer`: their tools are searched for instead of sent with each request."""

    defer: bool | str = key(
        "auto",
        kinds.auto_or_boolean(),
        "send the tools of servers only when the model searches for them; auto: if they are over 100, or over a tenth "
        "of the context window",
    )


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of the Model Context Protocol: `command` with `args` and `env`, or a `url` with `headers`, never both.

    `${NAME}` in `args`, `env`, `url` and `headers` is an environment variable, not yet replaced by its value.
    """

    command: str | None = key(None, kinds.text(), "the program; required without url")
    args: tuple[str, ...] = key((), kinds.raw_strings(), "its arguments", is_secret=True)
    env: Mapping[str, str] = key(_NO_STRINGS, kinds.raw_text(), "an environment variable for it", is_secret=True)
    url: str | None = key(None, kinds.url(), "the address of the server, instead of a program")
    headers: Mapping[str, str] = key(
        _NO_STRINGS, kinds.text(), "a header to send with each request to url", is_secret=True
    )
    transport: str | None = key(
        None,
        kinds.choice("http", "sse"),
        "the transport of url; absent: streamable HTTP, then the older SSE if the server asks for it",
    )
    client_id: str | None = key(
        None, kinds.text(), "the ID of qcode at the authorization server of url; absent: it registers itself"
    )
    client_metadata_url: str | None = key(
        None, kinds.url(), "the https address of a client ID metadata document, for servers that read one"
    )
    tools: tuple[str, ...] = key((), kinds.strings(), "the only tools to offer, by the server's names; empty: all")
    always: bool = key(False, kinds.boolean(), "true: always send its tools, also if those of others are deferred")
    sampling: bool = key(
        False, kinds.boolean(), "true: it may ask for answers of your model, each shown and approved; not for a project"
    )
    timeout_s: float = key(300.0, kinds.number(0, is_exclusive=True), "seconds for one call")
    startup_timeout_s: float = key(
        30.0, kinds.number(0, is_exclusive=True), "seconds until it must have listed its tools"
    )
    enabled: bool = key(True, kinds.boolean(), "false: do not start it")
    is_from_project: bool = False
    """A project's file defines the server, so it runs only after the user approved exactly this server."""
    file: str = ""
    """The file that defines the server; empty for a configuration file."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value. `source` is `file:line`, a variable or a flag; empty for a default."""

    kind: Literal["default", "env", "file", "flag"]
    source: str | Callable[[], str] = ""
    """A function returns the text later: the line of a key is only searched if a message names it."""
    is_project: bool = False

    @property
    def where(self) -> str:
        """The text of `source`."""
        return self.source if isinstance(self.source, str) else self.source()

    def __str__(self) -> str:
        return self.where or self.kind


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Settings:
    """The merged settings."""

    model: str | None = key(None, kinds.text(), "provider/model to start with; also QCODE_MODEL", flag="--model")
    small_model: str | None = key(
        None,
        kinds.text(),
        "the model that writes summaries when a conversation is compacted (default: the current "
        "model) and names sessions (default: your first words)",
    )
    fallback: tuple[str, ...] = key(
        (),
        kinds.models(3),
        "models that continue the turn if this one is overloaded, unreachable or at a limit",
        flag="--fallback-model",
        is_project_allowed=False,
    )
    fallback_on: tuple[str, ...] = key(
        (), kinds.subset_of("quota"), 'also fall back if the account is empty: ["quota"]', is_project_allowed=False
    )
    output: Output = field(default_factory=Output)
    mcp: Mcp = field(default_factory=Mcp)
    network: Network = field(default_factory=Network)
    permissions: PermissionSettings = field(default_factory=PermissionSettings)
    tools: Tools = field(default_factory=Tools)
    ui: Ui = field(default_factory=Ui)
    sessions: Sessions = field(default_factory=Sessions)
    hooks: HookSettings = field(default_factory=HookSettings)
    after_edit: AfterEditSettings = field(default_factory=AfterEditSettings)
    skills: SkillSettings = field(default_factory=SkillSettings)
    providers: Mapping[str, ProviderSettings] = field(default_factory=lambda: MappingProxyType({}))
    models: Mapping[str, ModelSettings] = field(default_factory=lambda: MappingProxyType({}))
    mcp_servers: Mapping[str, McpServer] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[str, ...] = ()
    """Lines about ignored settings, shown once to the user."""
    origins: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))
    """The origin of each key that was set, by its dotted TOML name."""
    item_origins: Mapping[str, tuple[Origin, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The origin of each item of a joined list (rules), in order."""
    given: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The value of each key that was set, by its dotted TOML name."""

    def origin(self, name: str) -> Origin:
        """Return the origin of the key `name` (`output.max_tokens`), which is the default if it was not set."""
        return self.origins.get(name, DEFAULT)

    def output_for(self, model: str) -> Output:
        """Return the output settings of a `provider/model`: flags, then the model's own, then the global ones."""
        settings = self.models.get(model)
        return self.output if settings is None else settings.output

    def network_for(self, provider: str) -> Network:
        """Return the network settings of a provider, which override the global ones."""
        settings = self.providers.get(provider)
        return self.network if settings is None else settings.network
