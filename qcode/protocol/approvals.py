"""Approvals: what is asked of the user, how it is decided, modes, options of one turn, and rules as written.

`Approval` is a sum of small values: a front end tells them apart in one `match` and gives back a `Decision`. Each has
an `id`, a `question` of one line, and all of what is asked about as `detail`. Both are to be painted as they are:
nothing in them is invisible, as `text.clean` defines it.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from qcode.text.json import JsonObject, parse_object
from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from decimal import Decimal

    from qcode.protocol.messages import ToolCall
    from qcode.protocol.reply import AnswerCheck
    from qcode.protocol.tools import ChangedFile

ApprovalMode: TypeAlias = Literal["plan", "default", "accept-edits", "auto", "bypass"]
MODE_ALIASES: Mapping[str, ApprovalMode] = {"ask": "default"}
"""Other names of modes that the user may type: the front ends show `default` as `ask`."""


def mode_label(mode: str) -> str:
    """Return the name of a permission mode as users see it: `default` is `ask`."""
    return "ask" if mode == "default" else mode


Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Parts of a text, as start and end."""

Scope: TypeAlias = Literal["once", "session", "folder", "edits", "trust", "prefix", "sandbox"]
"""How far a yes reaches.

`session` adds the rule of the approval for the rest of the session, `folder` also keeps it for this folder. `edits`
switches to accept-edits mode. `trust` is `once`; the front end then trusts the folder. `prefix` adds `prefix_rule` for
the session, after a warning. `sandbox` runs this call, and what `sandboxed_rule` covers, in the workspace sandbox
without asking, for the session.
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """The part of a call that the user may edit before it runs: its `text`, and a file name that suits an editor."""

    text: str
    file_name: str


@dataclass(frozen=True, slots=True)
class ToolApproval:
    """May this call run? Decided by `Allow`, `Deny` or `Revise`.

    `detail` is the exact command or unified diff, which `kind` tells apart. `rule` is the narrow rule that the scopes
    `session` and `folder` add, empty if neither is offered; `is_keepable`: `folder` is offered. `agent` is the task of
    the sub-agent whose call it is, in the words of the model; empty for a call of the conversation itself. `why` says
    in one line why it asks and how it would run, if that is not obvious. `offers` are further scopes; `prefix_rule` and
    `sandboxed_rule` are the rules of two of them. `Revise` replaces the `draft`, None if nothing can be edited.
    `is_revised`: the user or a hook has edited the call, and `call` has the arguments with which it would run.
    See `ToolOutcome` for `changes`.
    """

    call: ToolCall
    question: str
    detail: str
    rule: str = ""
    is_keepable: bool = False
    agent: str = ""
    kind: Literal["edit", "command", "other"] = "other"
    why: str = ""
    offers: tuple[Scope, ...] = ()
    prefix_rule: str = ""
    sandboxed_rule: str = ""
    draft: Draft | None = None
    is_revised: bool = False
    changes: tuple[ChangedFile, ...] = ()

    @property
    def id(self) -> str:
        return self.call.call_id

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return self.call.name

    @property
    def input(self) -> JsonObject:
        """The arguments of the call."""
        return parse_object(self.call.arguments) or {}

    @property
    def preview(self) -> str:
        return self.detail


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """May this call run although it has just brought the same result several times?

    Decided by `Allow`, `Deny` or an `Answer`, which the model gets instead of another result. Fields as in
    `ToolApproval`.
    """

    call: ToolCall
    question: str
    detail: str
    agent: str = ""

    @property
    def id(self) -> str:
        return self.call.call_id


@dataclass(frozen=True, slots=True)
class ImpossibleCall:
    """May the model try again, although its last calls cannot run (an unknown tool, or missing arguments)?

    Decided by `Allow`, by `Deny`, which ends the turn, or by `Deny` with a reason, which goes to the model instead.
    `detail` has the arguments of the call.
    """

    call: ToolCall
    question: str
    detail: str
    agent: str = ""

    @property
    def id(self) -> str:
        return self.call.call_id


Ask: TypeAlias = "Callable[[str, str, tuple[Choice, ...]], Awaitable[str | None]]"
"""Asks the user a question with its details and choices; returns the answer, None if it was dismissed."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several answers. `detail` explains it and may be empty."""

    label: str
    detail: str = ""


OWN_QUESTION = "qcode itself"
"""In place of the server of a question: qcode asks about the settings. No server can have a name with a blank."""


@dataclass(frozen=True, slots=True)
class Question:
    """The model asks something. Decided by an `Answer`, one of `choices` or any text, or by `Deny`.

    `detail` is what its first line leaves out. `server` is not empty if a tool server asks during a call, whose words
    the question and the choices then are; `Deny` dismisses it, and the call continues. A call can ask several times:
    `number` tells these questions apart.
    """

    call: ToolCall
    question: str
    detail: str = ""
    choices: tuple[Choice, ...] = ()
    server: str = ""
    number: int = 0

    @property
    def asker(self) -> str:
        """The one who asks, at the start of a sentence, not cleaned."""
        if self.server == OWN_QUESTION:
            return "qcode"
        return f"The tool server {self.server}" if self.server else "The model"

    @property
    def id(self) -> str:
        return f"{self.call.call_id}:{self.number}" if self.server else self.call.call_id

    @property
    def text(self) -> str:
        """The whole question."""
        return f"{self.question}\n\n{self.detail}" if self.detail else self.question


@dataclass(frozen=True, slots=True)
class PlanApproval:
    """The model proposes a plan, which is Markdown. Decided by `AcceptPlan`, which ends plan mode, or by `Deny`."""

    call: ToolCall
    question: str
    detail: str

    @property
    def id(self) -> str:
        return self.call.call_id

    @property
    def plan(self) -> str:
        return self.detail


LIMIT_ID = "limit"


@dataclass(frozen=True, slots=True)
class LimitApproval:
    """Shall the turn wait for the end of a rate limit? Decided by `Allow` or `Deny`, which ends the turn."""

    question: str
    detail: str = ""
    id: str = LIMIT_ID


@dataclass(frozen=True, slots=True)
class ServerApproval:
    """May a tool server run, may its changed tools be offered, or may the browser open to sign in at it (`is_login`)?

    Decided by `Allow` or `Deny`. It belongs to no turn. `id` changes with what is asked, so that a decision can never
    be taken for an answer to another question.
    """

    id: str
    server: str
    question: str
    detail: str
    is_login: bool = False


CallApproval: TypeAlias = ToolApproval | RepeatedCall | ImpossibleCall | Question | PlanApproval
"""A question during a turn; each is about one call of the model."""

TurnApproval: TypeAlias = CallApproval | LimitApproval
"""A question during a turn."""

Approval: TypeAlias = TurnApproval | ServerApproval


@dataclass(frozen=True, slots=True)
class Allow:
    """Yes. A `scope` that the approval does not offer is `once`."""

    scope: Scope = "once"


@dataclass(frozen=True, slots=True)
class Deny:
    """No. `message` goes to the model. The app and the linear mode end the turn at a denial without one."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is the result of the call, which does not run."""

    text: str


@dataclass(frozen=True, slots=True)
class AcceptPlan:
    """End plan mode and carry the plan out in `mode`; one that no plan may choose is `default`."""

    mode: ApprovalMode = "default"


@dataclass(frozen=True, slots=True)
class Revise:
    """Edit the call: `text` replaces its draft, or `arguments` all of its arguments, if they are given.

    It is judged again, and asked for again with the same id. If the edited call is invalid or a rule denies it, a
    notice says so, and the call is asked for as it was.
    """

    text: str = ""
    arguments: JsonObject | None = None


Decision: TypeAlias = Allow | Deny | Answer | AcceptPlan | Revise
"""One that the approval does not take denies it, and a notice says so."""


def misfit(approval: Approval, decision: Decision) -> str:
    """Return the notice about a decision that the approval does not take."""
    return f"{type(decision).__name__} does not decide a {type(approval).__name__}; it was denied."


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """Options of one turn. `model` is `provider/model`, empty for the current one.

    `output` maps keys of the config table `[output]` to validated values. `foreign` are the parts of the prompt, as
    start and end, that came from a file of the project and not from the user: `@path` in them attaches only files that
    the model may read without asking. `shown_prompt` is the prompt as the front end shows it, if it differs.
    `is_append_only`: the front end cannot take back text that it showed, so a reply with text never starts over.
    `finds_files`: `@path` in the prompt attaches a file. `typed_text` is the end of the prompt that the user typed, if
    that is not all of it: only there `/server:prompt` and `@server:uri` name something of a tool server. `check` checks
    the answer, and the limits apply, in place of those of the run.
    """

    model: str = ""
    output: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    foreign: Spans = ()
    shown_prompt: str = ""
    is_append_only: bool = False
    finds_files: bool = True
    typed_text: str | None = None
    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | None = None
    timeout_s: float | None = None
    check: AnswerCheck | None = None


NO_OPTIONS = TurnOptions()


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """`examples` are calls that the rule covers and `counterexamples` ones that it does not, as its author intends."""

    text: str
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text
