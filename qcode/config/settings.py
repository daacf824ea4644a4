"""The settings as dataclasses. Each field declares a configuration key with its kind, default, meaning and flag.

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
    """The schema of a configuration key: its kind, meaning, flag and restrictions."""

    kind: ValueKind
    meaning: str
    """The description of the key in the reference."""
    flag: str = ""
    """The flag that sets the key, empty if none does."""
    is_secret: bool = False
    """The value is never shown."""
    is_joined: bool = False
    """The lists of all layers are joined."""
    is_project_allowed: bool = True
    """A project's file may set the key."""


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
    schema = KeySchema(kind, meaning, flag, is_secret, is_joined, is_project_allowed)
    metadata, is_printed = {"key": schema}, not is_secret
    if isinstance(default, Mapping):
        # dataclasses reject a mapping as a default. Every mapping here is empty by default.
        table: object = field(default_factory=lambda: MappingProxyType({}), metadata=metadata, repr=is_printed)
        return cast(_T, table)
    return field(default=default, metadata=metadata, repr=is_printed)


_NO_STRINGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Output:
    """The output limits, and the recovery of truncated replies."""

    max_tokens: int | None = key(
        None,
        kinds.integer(1),
        "use this output cap for every request; this disables escalation, but not continuation",
        flag="--max-output-tokens",
    )
    escalate: bool = key(
        True, kinds.boolean(), "request a truncated reply again with a larger cap", flag="--no-escalation"
    )
    max_continuations: int = key(
        3, kinds.integer(0), "continue a truncated reply at most this many times", flag="--max-continuations"
    )
    policy: Literal["escalate", "continue"] = key(
        "escalate",
        kinds.choice("escalate", "continue"),
        "escalate: request a truncated reply again; continue: continue it at once if it is plain text",
    )
    tool_call_repair: Literal["reject", "resume"] = key(
        "reject",
        kinds.choice("reject", "resume"),
        "reject: tell the model to split a truncated call that writes a file; resume: ask it for the rest of the call",
    )
    max_tool_repair_attempts: int = key(
        1,
        kinds.integer(0),
        "end the turn after the model was asked this many times in a row to repair an incomplete call",
    )
    max_total_completion_tokens: int | None = key(
        None,
        kinds.integer(1),
        "stop continuing a reply after this many tokens; default: four times the output cap of a continuation",
    )
    max_total_output_chars: int | None = key(
        None,
        kinds.integer(1),
        "stop continuing a reply after this many characters; default: four times the token limit, at least 120,000",
    )
    min_escalation_gain: float = key(
        1.25, kinds.number(1), "escalate only if the larger cap is at least this many times the first one"
    )
    learn_first_cap: bool = key(
        True,
        kinds.boolean(),
        "request up to 16,000 tokens at first from a model whose replies are often longer than 8,000",
    )


@dataclass(frozen=True, slots=True)
class Network:
    """Time limits in seconds, and the retries of a request."""

    connect_timeout_s: float = key(10.0, kinds.number(0, is_exclusive=True), "stop connecting after this many seconds")
    first_event_timeout_s: float = key(
        600.0, kinds.number(0, is_exclusive=True), "give up if a reply has not begun after this many seconds"
    )
    idle_timeout_s: float = key(90.0, kinds.number(0, is_exclusive=True), "give up after this many seconds of silence")
    max_retries: int = key(5, kinds.integer(0), "repeat a request at most this many times after transient failures")
    retry_after_max_s: float = key(
        120.0, kinds.number(0), "wait before a retry as long as the server asks, up to this many seconds"
    )
    wait_for_limit: LimitWait = key(
        "ask",
        kinds.choice(*get_args(LimitWait)),
        "what to do if a server asks for a longer wait: ask you (pipe mode fails), always wait, or never",
        flag="--wait-for-limit",
        is_project_allowed=False,
    )


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """Permission rules as text, parsed by `safety`. The lists of all files and flags are joined."""

    mode: ApprovalMode = key(
        "default",
        kinds.choice(*get_args(ApprovalMode), aliases=MODE_ALIASES),
        "start in this mode; ask is another name for default; bypass can only be set with a flag",
        flag="--permission-mode",
        is_project_allowed=False,
    )
    allow: tuple[str | RuleConfig, ...] = key(
        (),
        kinds.rules(),
        "matching calls run without asking",
        flag="--allowed-tools",
        is_joined=True,
        is_project_allowed=False,
    )
    ask: tuple[str | RuleConfig, ...] = key((), kinds.rules(), "matching calls always ask", is_joined=True)
    deny: tuple[str | RuleConfig, ...] = key(
        (), kinds.rules(), "matching calls never run", flag="--disallowed-tools", is_joined=True
    )


@dataclass(frozen=True, slots=True)
class Tools:
    """Settings of the tools; a limit of None means the limit of each tool."""

    shell_timeout_s: float = key(120.0, kinds.number(0, is_exclusive=True), "stop a command after this many seconds")
    max_output_chars: int | None = key(
        None,
        kinds.integer(1),
        "show the model at most this many characters of a result; default: each tool has its own limit",
    )
    tool_timeout_s: float | None = key(
        None,
        kinds.number(0, is_exclusive=True),
        "stop any other tool after this many seconds; default: each tool has its own limit",
    )
    sandbox: Literal["auto", "required", "off"] = key(
        "auto",
        kinds.choice("auto", "required", "off"),
        "auto: confine commands in a sandbox if one works; required: do not start without a sandbox; off: use none",
    )
    agents: bool = key(True, kinds.boolean(), "let the model delegate tasks to sub-agents")
    text_calls: bool = key(
        True,
        kinds.boolean(),
        "run a tool call that arrives in the text of a reply instead of the API's own form, if it is certainly a call",
    )
    web_search: Literal["off", "host", "brave", "tavily"] = key(
        "off",
        kinds.choice("off", "host", "brave", "tavily"),
        "off: no web search; host: the model's provider searches; brave, tavily: the service does, with the key in "
        "BRAVE_API_KEY or TAVILY_API_KEY",
        is_project_allowed=False,
    )


@dataclass(frozen=True, slots=True)
class Ui:
    """Settings of the app."""

    theme: str | None = key(
        None,
        kinds.text(),
        "use this theme, or auto to follow the terminal; default: your last choice in the app, otherwise auto",
        flag="--theme",
    )
    linear: bool = key(False, kinds.boolean(), "write lines instead of a screen (linear mode)")
    bell: bool | None = key(
        None,
        kinds.boolean(),
        "ring the bell and notify you when a turn, a `!` command or a background job ends, or a question opens; "
        "default: while the terminal has no focus",
    )
    keep_last_reply: bool = key(False, kinds.boolean(), "print the last reply after leaving the app")
    title: bool = key(True, kinds.boolean(), "set the title of the terminal")
    show_thinking: Literal["folded", "expanded", "hidden"] = key(
        "folded",
        kinds.choice("folded", "expanded", "hidden"),
        "folded: show the model's thinking as one line when it is complete; expanded: show all; hidden: show nothing",
    )
    mouse: bool = key(True, kinds.boolean(), "use the mouse")
    partial_redraw: bool = key(
        True,
        kinds.boolean(),
        "write only the cells of the screen that change; set it to false if old text stays visible",
    )
    vim: bool = key(False, kinds.boolean(), "edit the prompt with vim's keys; /vim switches it")
    keys: Mapping[str, str] = key(
        _NO_STRINGS,
        kinds.text(),
        'the keys of the command with this id, such as "ctrl+y, f6", or "none"',
        is_project_allowed=False,
    )


_NO_HOOKS: tuple[HookConfig, ...] = ()


def _event(moment: str, matched: str = "") -> tuple[HookConfig, ...]:
    """Declare the list of the hooks that run at `moment`; `matched` is the text that a matcher is compared with."""
    meaning = f"run {moment}; the matcher is compared with {matched}" if matched else f"run {moment}"
    return key(_NO_HOOKS, kinds.hooks(), meaning, is_joined=True)


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The hooks by event, those of the user first. The names of the events are Claude Code's."""

    enabled: bool = key(True, kinds.boolean(), "run the configured hooks", flag="--no-hooks", is_project_allowed=False)
    claude: Literal["off", "own", "project", "both"] = key(
        "off",
        kinds.choice("off", "own", "project", "both"),
        "also run the hooks that are set up for Claude Code: your own, those of a trusted project (project), or both",
        is_project_allowed=False,
    )
    SessionStart: tuple[HookConfig, ...] = _event("when a session begins", "startup, resume, clear, compact or fork")
    UserPromptSubmit: tuple[HookConfig, ...] = _event("when you send a prompt")
    PreToolUse: tuple[HookConfig, ...] = _event("before a tool call of the model", "the name of the tool")
    PermissionRequest: tuple[HookConfig, ...] = _event("when a call is about to ask you", "the name of the tool")
    PostToolUse: tuple[HookConfig, ...] = _event("when a call has succeeded", "the name of the tool")
    PostToolUseFailure: tuple[HookConfig, ...] = _event("when a call has failed", "the name of the tool")
    Notification: tuple[HookConfig, ...] = _event(
        "when qcode waits for you", "permission_prompt, elicitation_dialog or idle_prompt"
    )
    SubagentStart: tuple[HookConfig, ...] = _event("when a sub-agent begins", "the kind of the agent")
    SubagentStop: tuple[HookConfig, ...] = _event("when a sub-agent is done", "the kind of the agent")
    Stop: tuple[HookConfig, ...] = _event("when the model is done")
    StopFailure: tuple[HookConfig, ...] = _event("when a turn has failed", "the error")
    PreCompact: tuple[HookConfig, ...] = _event("before the conversation is compacted", "manual or auto")
    PostCompact: tuple[HookConfig, ...] = _event("after the conversation was compacted", "manual or auto")
    SessionEnd: tuple[HookConfig, ...] = _event("when a session ends", "clear, resume, prompt_input_exit or other")

    @property
    def has_any(self) -> bool:
        """Whether hooks are enabled and one may be configured."""
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
        "report new problems of an edited file to the model; auto: only if the checkers can run in a sandbox; "
        "true: even if they cannot",
    )
    format: tuple[CommandConfig, ...] = key(
        _NO_COMMANDS,
        kinds.commands(),
        "format an edited file with this command; {file} stands for the path of the file",
    )
    check: tuple[CommandConfig, ...] = key(
        _NO_COMMANDS,
        kinds.commands(),
        "check an edited file with this command; if the command fails, the model gets its output",
    )
    test: tuple[CommandConfig, ...] = key(
        _NO_COMMANDS,
        kinds.commands(),
        "run this command when the model is done and has edited files; if it fails, the model gets its output",
    )
    max_rounds: int = key(
        3, kinds.integer(0), "send failed tests and late problems back to the model at most this many times in a turn"
    )
    servers: Mapping[str, tuple[str, ...]] = key(
        _NO_SERVERS,
        kinds.raw_strings(),
        "start the language server of a language or file ending with this command; [] starts none",
        is_project_allowed=False,
    )

    @property
    def is_off(self) -> bool:
        """Whether all steps after an edit are turned off."""
        return self.diagnostics is False and not (self.format or self.check or self.test)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Settings of stored sessions."""

    retention_days: int = key(
        0,
        kinds.integer(0),
        "delete sessions that did not change for this many days when qcode starts in their folder; 0 keeps all",
        is_project_allowed=False,
    )


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """The selection of the skills of a session."""

    off: tuple[str, ...] = key((), kinds.strings(), "do not use the skills with these names", is_project_allowed=False)
    paths: tuple[str, ...] = key(
        (),
        kinds.strings(),
        "also read the skills in these folders; a path is absolute or begins with ~/",
        is_project_allowed=False,
    )
    foreign: bool = key(
        True,
        kinds.boolean(),
        "also read the skills, commands and agents in .agents and .claude folders",
        is_project_allowed=False,
    )


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider from the configuration, or with an endpoint from the environment."""

    type: ProviderType = key(
        "openai",
        kinds.choice(*PROVIDER_TYPES),
        "the protocol of the provider; required unless NAME is one of these words",
        is_project_allowed=False,
    )
    base_url: str | None = key(None, kinds.url(), "the provider's address", flag="--base-url", is_project_allowed=False)
    api_key_env: str | None = key(
        None,
        kinds.variable(),
        "read the key from this environment variable; the key itself cannot be in the file",
        is_project_allowed=False,
    )
    api_key_command: tuple[str, ...] | None = key(
        None,
        kinds.command(),
        "read the key from the first line that this command prints; it runs once per run, for at most 10 s, in the "
        "configuration folder and without a shell",
        is_project_allowed=False,
    )
    headers: Mapping[str, str] = key(
        _NO_STRINGS, kinds.text(), "send this header with each request", is_secret=True, is_project_allowed=False
    )
    max_tokens_field: str | None = key(
        None,
        kinds.field_name(),
        "send the output cap in this field of the request, if the server does not know the usual one",
        is_project_allowed=False,
    )
    reasoning_field: str | None = key(
        None,
        kinds.field_name(),
        "read the reasoning from this field of the reply, if the server does not use the usual one",
        is_project_allowed=False,
    )
    project: str | None = key(
        None,
        kinds.text(),
        "use the models of this Google Cloud project on Vertex AI; for the types gemini and anthropic",
        is_project_allowed=False,
    )
    location: str | None = key(
        None, kinds.text(), "the location of the project on Vertex AI; default: global", is_project_allowed=False
    )
    default_model: str | None = key(
        None, kinds.text(), "use this model if you name only the provider", is_project_allowed=False
    )
    network: Network = field(default_factory=Network)
    """The network settings of the provider; for keys that it does not set, those of `[network]`."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings of one model. For a fact that is None, the catalog is used."""

    context_window: int | None = key(None, kinds.integer(1), "the maximum number of tokens of a prompt and its reply")
    max_output_tokens: int | None = key(
        None, kinds.integer(1), "the maximum number of tokens in a reply; an escalation requests this many"
    )
    prefill: bool | None = key(
        None, kinds.boolean(), "the model continues a reply whose beginning is part of the request"
    )
    images: bool | None = key(None, kinds.boolean(), "the model accepts images")
    thinking: bool | None = key(None, kinds.boolean(), "the model supports reasoning")
    inline_thinking: bool | None = key(None, kinds.boolean(), "the model writes its reasoning into the text as <think>")
    text_tool_calls: bool | None = key(
        None,
        kinds.boolean(),
        "true: describe the tools in the prompt and read calls from the text of the reply; false: never treat text as "
        "a call",
    )
    web_search: bool | None = key(
        None,
        kinds.boolean(),
        "the provider can search the web for this model (tools.web_search); default: true for Anthropic, OpenAI "
        "(Responses) and Gemini 3 at their own addresses",
    )
    output: Output = field(default_factory=Output)
    """Merged from flags, the settings of the model and `[output]`; the first source that sets a key is used."""
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class Mcp:
    """Settings of all tool servers together."""

    defer: bool | str = key(
        "auto",
        kinds.auto_or_boolean(),
        "send the tools of servers only when the model searches for them; auto: only if there are more than 100, or if "
        "they fill more than a tenth of the context window",
    )


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of the Model Context Protocol: `command` with `args` and `env`, or a `url` with `headers`, never both.

    `${NAME}` in `args`, `env`, `url` and `headers` is an environment variable, not yet replaced by its value.
    """

    command: str | None = key(None, kinds.text(), "start the server with this program; either this or url is required")
    args: tuple[str, ...] = key((), kinds.raw_strings(), "the arguments of the program", is_secret=True)
    env: Mapping[str, str] = key(
        _NO_STRINGS, kinds.raw_text(), "set this environment variable for the program", is_secret=True
    )
    url: str | None = key(None, kinds.url(), "connect to the server at this address, instead of starting a program")
    headers: Mapping[str, str] = key(
        _NO_STRINGS, kinds.text(), "send this header with each request to url", is_secret=True
    )
    transport: str | None = key(
        None,
        kinds.choice("http", "sse"),
        "the transport of url; default: streamable HTTP (http), then the older SSE if the server asks for it",
    )
    client_id: str | None = key(
        None, kinds.text(), "the ID of qcode at the authorization server of url; default: qcode registers itself"
    )
    client_metadata_url: str | None = key(
        None,
        kinds.url(),
        "the https address of a document that describes qcode (client ID metadata), for servers that read it",
    )
    tools: tuple[str, ...] = key(
        (), kinds.strings(), "offer only these tools of the server, by the server's own names; an empty list offers all"
    )
    always: bool = key(
        False, kinds.boolean(), "always send the tools of this server, even if those of other servers are deferred"
    )
    sampling: bool = key(
        False,
        kinds.boolean(),
        "let the server ask your model; you see and approve each request; not for the server of a project",
    )
    timeout_s: float = key(300.0, kinds.number(0, is_exclusive=True), "stop a call after this many seconds")
    startup_timeout_s: float = key(
        30.0,
        kinds.number(0, is_exclusive=True),
        "give up if the server has not listed its tools after this many seconds",
    )
    enabled: bool = key(True, kinds.boolean(), "start or connect to this server")
    is_from_project: bool = False
    """A project's file defines the server. Then it runs only after the user approved this definition."""
    file: str = ""
    """The file that defines the server; empty for a configuration file."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a configured value."""

    kind: Literal["default", "env", "file", "flag"]
    source: str | Callable[[], str] = ""
    """`file:line`, a variable or a flag; empty for a default.

    A function returns the text later: the line of a key is only searched if a message names it.
    """
    is_project: bool = False
    """The value comes from a project's file."""

    @property
    def where(self) -> str:
        """The text of `source`."""
        return self.source if isinstance(self.source, str) else self.source()

    def __str__(self) -> str:
        return self.where or self.kind


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Settings:
    """The merged settings of all layers."""

    model: str | None = key(
        None, kinds.text(), "start with this provider/model; QCODE_MODEL sets it too", flag="--model"
    )
    small_model: str | None = key(
        None,
        kinds.text(),
        "this model writes the summary when a conversation is compacted (default: the current model) and names "
        "sessions (default: your first words)",
    )
    fallback: tuple[str, ...] = key(
        (),
        kinds.models(3),
        "these models continue the turn, in this order, if the current one is overloaded, unreachable or at a limit",
        flag="--fallback-model",
        is_project_allowed=False,
    )
    fallback_on: tuple[str, ...] = key(
        (),
        kinds.subset_of("quota"),
        '["quota"] also falls back if the account has no credit left',
        is_project_allowed=False,
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
    explicit_values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The value of each key that was set, by its dotted TOML name."""

    def origin(self, name: str) -> Origin:
        """Return the origin of the key `name` (`output.max_tokens`), which is the default if it was not set."""
        return self.origins.get(name, DEFAULT)

    def output_for(self, model: str) -> Output:
        """Return the output settings of a `provider/model`, or the global settings if it has none."""
        settings = self.models.get(model)
        return self.output if settings is None else settings.output

    def network_for(self, provider: str) -> Network:
        """Return the network settings of a provider, or the global settings if it has none."""
        settings = self.providers.get(provider)
        return self.network if settings is None else settings.network
