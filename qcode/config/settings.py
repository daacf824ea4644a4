"""The settings as values, and the one list of keys: each field is a key, with its kind, default and flag.

`schema` reads the list from here; `docs/configuration.md` names the same keys, which a test proves. A default is what
holds if nothing is set; None means that the part concerned decides. `MEANINGS` explains each key in one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar, cast, get_args

from qcode.config import kinds
from qcode.config.kinds import Kind
from qcode.protocol.approvals import ApprovalMode, WrittenRule
from qcode.protocol.usage import Price
from qcode.values import dataclass

ProviderType: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini", "bedrock"]
PROVIDER_TYPES: tuple[ProviderType, ...] = get_args(ProviderType)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Meta:
    """What the schema knows of a key beside its name. `is_joined`: the lists of all layers are put together."""

    kind: Kind
    flag: str = ""
    is_secret: bool = False
    is_joined: bool = False
    is_project_allowed: bool = True


def key(
    default: _T,
    kind: Kind,
    *,
    flag: str = "",
    is_secret: bool = False,
    is_joined: bool = False,
    is_project_allowed: bool = True,
) -> _T:
    """Declare a field that is a key of the configuration."""
    meta = Meta(kind, flag, is_secret, is_joined, is_project_allowed)
    if isinstance(default, Mapping):
        empty: object = field(default_factory=lambda: MappingProxyType({}), metadata={"key": meta}, repr=not is_secret)
        return cast(_T, empty)
    return field(default=default, metadata={"key": meta}, repr=not is_secret)


_NO_TEXTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Output:
    """`max_tokens` is an override: set, it switches escalation off. None in a budget: computed from the cap."""

    max_tokens: int | None = key(None, kinds.whole(1), flag="--max-output-tokens")
    escalate: bool = key(True, kinds.boolean(), flag="--no-escalation")
    max_continuations: int = key(3, kinds.whole(0), flag="--max-continuations")
    policy: Literal["escalate", "continue"] = key("escalate", kinds.choice("escalate", "continue"))
    tool_call_repair: Literal["reject", "resume"] = key("reject", kinds.choice("reject", "resume"))
    max_tool_repair_attempts: int = key(1, kinds.whole(0))
    max_total_completion_tokens: int | None = key(None, kinds.whole(1))
    max_total_output_chars: int | None = key(None, kinds.whole(1))
    min_escalation_gain: float = key(1.25, kinds.number(1))


@dataclass(frozen=True, slots=True)
class Network:
    """Seconds, and the retries of one request."""

    connect_timeout_s: float = key(10.0, kinds.number(0, above=True))
    first_event_timeout_s: float = key(600.0, kinds.number(0, above=True))
    idle_timeout_s: float = key(90.0, kinds.number(0, above=True))
    max_retries: int = key(5, kinds.whole(0))
    retry_after_max_s: float = key(120.0, kinds.number(0))


@dataclass(frozen=True, slots=True)
class Permissions:
    """Rules as text: the safety room reads them. The lists of every file and flag are joined, none replaces another."""

    mode: ApprovalMode = key(  # the call makes the field itself
        "default",
        kinds.choice(*get_args(ApprovalMode)),
        flag="--permission-mode",
        is_project_allowed=False,
    )
    allow: tuple[str | WrittenRule, ...] = key(
        (), kinds.rules(), flag="--allowed-tools", is_joined=True, is_project_allowed=False
    )
    ask: tuple[str | WrittenRule, ...] = key((), kinds.rules(), is_joined=True)
    deny: tuple[str | WrittenRule, ...] = key((), kinds.rules(), flag="--disallowed-tools", is_joined=True)


@dataclass(frozen=True, slots=True)
class Tools:
    """Limits of tools; None leaves a limit to the tool."""

    shell_timeout_s: float = key(120.0, kinds.number(0, above=True))
    max_output_chars: int | None = key(None, kinds.whole(1))
    tool_timeout_s: float | None = key(None, kinds.number(0, above=True))
    sandbox: Literal["auto", "required", "off"] = key("auto", kinds.choice("auto", "required", "off"))
    agents: bool = key(True, kinds.boolean())
    web_search: Literal["off", "host", "brave", "tavily"] = key(
        "off", kinds.choice("off", "host", "brave", "tavily"), is_project_allowed=False
    )


@dataclass(frozen=True, slots=True)
class Ui:
    """`keys` maps a command's id to the key that runs it."""

    theme: str | None = key(None, kinds.text(), flag="--theme")
    linear: bool = key(False, kinds.boolean())
    bell: bool = key(False, kinds.boolean())
    title: bool = key(True, kinds.boolean())
    show_thinking: Literal["folded", "expanded", "hidden"] = key("folded", kinds.choice("folded", "expanded", "hidden"))
    mouse: bool = key(True, kinds.boolean())
    keys: Mapping[str, str] = key(_NO_TEXTS, kinds.text(), is_project_allowed=False)


@dataclass(frozen=True, slots=True)
class Sessions:
    """`retention_days`: sessions nobody wrote to for so long are removed; 0 keeps them all."""

    retention_days: int = key(0, kinds.whole(0), is_project_allowed=False)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider named in the configuration or given an endpoint by the environment.

    `network` is complete: the provider's own values over those of `[network]`. `headers` may hold secrets.
    """

    type: ProviderType = key("openai", kinds.choice(*PROVIDER_TYPES), is_project_allowed=False)
    base_url: str | None = key(None, kinds.url(), flag="--base-url", is_project_allowed=False)
    api_key_env: str | None = key(None, kinds.variable(), is_project_allowed=False)
    headers: Mapping[str, str] = key(_NO_TEXTS, kinds.text(), is_secret=True, is_project_allowed=False)
    max_tokens_field: str | None = key(None, kinds.field_name(), is_project_allowed=False)
    reasoning_field: str | None = key(None, kinds.field_name(), is_project_allowed=False)
    default_model: str | None = key(None, kinds.text(), is_project_allowed=False)
    network: Network = field(default_factory=Network)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What was said about one model; None leaves a fact to the catalog.

    `output` is complete: flags over the model's own values over those of `[output]`.
    """

    context_window: int | None = key(None, kinds.whole(1))
    max_output_tokens: int | None = key(None, kinds.whole(1))
    prefill: bool | None = key(None, kinds.boolean())
    images: bool | None = key(None, kinds.boolean())
    thinking: bool | None = key(None, kinds.boolean())
    inline_thinking: bool | None = key(None, kinds.boolean())
    text_tool_calls: bool | None = key(None, kinds.boolean())
    web_search: bool | None = key(None, kinds.boolean())
    output: Output = field(default_factory=Output)
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of the Model Context Protocol: `command` with `args` and `env`, or a `url` with `headers`, never both.

    Texts are as they were written: `${NAME}` in `args`, `env`, `url` and `headers` is a variable of the environment.
    Seconds: `timeout_s` for one call, `startup_timeout_s` until it has listed its tools. `tools` are the only ones
    taken where it is not empty. `is_from_project`: a project file named it, so it runs only once the person approved
    exactly this server. `file` is the one that named it, where that is neither configuration.
    """

    command: str | None = key(None, kinds.text())
    args: tuple[str, ...] = key((), kinds.words(), is_secret=True)
    env: Mapping[str, str] = key(_NO_TEXTS, kinds.raw_text(), is_secret=True)
    url: str | None = key(None, kinds.url())
    headers: Mapping[str, str] = key(_NO_TEXTS, kinds.text(), is_secret=True)
    tools: tuple[str, ...] = key((), kinds.texts())
    timeout_s: float = key(300.0, kinds.number(0, above=True))
    startup_timeout_s: float = key(30.0, kinds.number(0, above=True))
    enabled: bool = key(True, kinds.boolean())
    is_from_project: bool = False
    file: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from. `where` is `file:line`, a variable or a flag; empty for a default."""

    kind: Literal["default", "env", "file", "flag"]
    where: str = ""
    is_project: bool = False

    def __str__(self) -> str:
        return self.where or self.kind


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that was set, merged. `warnings` are lines for a person about what was ignored, shown once.

    `origins` and `given` hold the origin and the value of each key that was set, by its dotted name as TOML writes it;
    `item_origins` the origin of each item of a list that is joined (rules), in its order.
    """

    model: str | None = key(None, kinds.text(), flag="--model")
    small_model: str | None = key(None, kinds.text())
    output: Output = field(default_factory=Output)
    network: Network = field(default_factory=Network)
    permissions: Permissions = field(default_factory=Permissions)
    tools: Tools = field(default_factory=Tools)
    ui: Ui = field(default_factory=Ui)
    sessions: Sessions = field(default_factory=Sessions)
    providers: Mapping[str, ProviderSettings] = field(default_factory=lambda: MappingProxyType({}))
    models: Mapping[str, ModelSettings] = field(default_factory=lambda: MappingProxyType({}))
    mcp_servers: Mapping[str, McpServer] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))
    item_origins: Mapping[str, tuple[Origin, ...]] = field(default_factory=lambda: MappingProxyType({}))
    given: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    def origin(self, name: str) -> Origin:
        """Return where the value of the key `name` (`output.max_tokens`) came from; a default if it was not set."""
        return self.origins.get(name, DEFAULT)

    def output_for(self, model: str) -> Output:
        """Return the output settings of `provider/model`: flags, then the model's own, then the global ones."""
        found = self.models.get(model)
        return self.output if found is None else found.output

    def network_for(self, provider: str) -> Network:
        """Return the network settings of a provider: its own over the global ones."""
        found = self.providers.get(provider)
        return self.network if found is None else found.network


MEANINGS: Mapping[str, str] = {
    "model": "the model to start with, as provider/model",
    "small_model": "the model that writes summaries (not set: the model in use) and names sessions (not set: nobody)",
    "output.max_tokens": "output cap of each request; set, a cut reply is continued and not asked for again",
    "output.escalate": "ask again with a larger cap when a reply was cut",
    "output.max_continuations": "how often a reply that is still cut is continued",
    "output.policy": "continue: a cut reply of plain text is continued instead of asked for again",
    "output.tool_call_repair": "what happens to a cut call that writes a file",
    "output.max_tool_repair_attempts": "incomplete calls in a row that are sent back before the turn ends",
    "output.max_total_completion_tokens": "most tokens of one reply, all attempts together",
    "output.max_total_output_chars": "most characters of one reply, all attempts together",
    "output.min_escalation_gain": "do not ask again for less than this ratio of caps",
    "network.connect_timeout_s": "seconds until a connection stands",
    "network.first_event_timeout_s": "seconds until a reply begins",
    "network.idle_timeout_s": "seconds of silence within a reply",
    "network.max_retries": "how often a request that failed in passing is sent again",
    "network.retry_after_max_s": "longest wait in seconds that a server may ask for",
    "permissions.mode": "the permission mode to start in",
    "permissions.allow": "what runs without asking",
    "permissions.ask": "what always asks",
    "permissions.deny": "what never runs",
    "tools.shell_timeout_s": "seconds a command may run",
    "tools.max_output_chars": "how much of a result the model sees; not set: each tool's own limit",
    "tools.tool_timeout_s": "seconds any other tool may run; not set: each tool's own limit",
    "tools.agents": "the model may hand tasks to sub-agents",
    "tools.web_search": "who searches the web: nobody, the host of the model, or a service you have a key for",
    "tools.sandbox": "walls around commands; required: do not start without them",
    "ui.theme": "colours; auto: light or dark as the terminal says",
    "ui.linear": "lines instead of a screen, for screen readers and logs",
    "ui.bell": "ring when a turn ends or needs an answer",
    "ui.title": "show in the terminal's title what qcode does",
    "ui.show_thinking": "what becomes of the model's thinking once it is over",
    "ui.mouse": "use the mouse",
    "sessions.retention_days": "days after which a session nobody wrote to is removed; 0 keeps them all",
}
