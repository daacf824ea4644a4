"""Approvals: the questions to the user, the decisions on them, the modes, the options of one turn, and written rules.

`Approval` is a union of small values: a front end tells them apart with one `match` and answers with a `Decision`. Each
has an `id`, a `question` of one line, and the full text of its subject as `detail`. A front end can show both
unchanged: they contain no invisible characters, as `text.clean` defines them.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from qcode.text.json import JsonObject, parse_object
from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping
    from decimal import Decimal

    from qcode.protocol.messages import Block, ToolCall
    from qcode.protocol.reply import AnswerCheck
    from qcode.protocol.tools import ChangedFile

ApprovalMode: TypeAlias = Literal["plan", "default", "accept-edits", "auto", "bypass"]
RuleEffect: TypeAlias = Literal["allow", "ask", "deny"]
"""The effect of a permission rule on the calls that it matches."""
RULE_EFFECTS: tuple[RuleEffect, ...] = ("deny", "ask", "allow")
"""The strictest first: the order in which rules decide, and in which they are listed."""
MODE_ALIASES: Mapping[str, ApprovalMode] = {"ask": "default"}
"""Other names of modes that the user may type. Front ends show `default` as `ask`."""


def mode_label(mode: str) -> str:
    """Return the name of a permission mode as users see it: `default` is `ask`."""
    return "ask" if mode == "default" else mode


_CLAUDE_MODES = {"accept-edits": "acceptEdits", "bypass": "bypassPermissions"}


def claude_mode(mode: str) -> str:
    """Return Claude Code's name of a permission mode, which hosts, hooks and scripts know."""
    return _CLAUDE_MODES.get(mode, mode)


def effective_mode(mode: ApprovalMode, *, is_trusted: bool) -> ApprovalMode:
    """Return the mode in effect: in an untrusted folder every mode but plan asks as `default` does."""
    return mode if is_trusted or mode == "plan" else "default"


Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges in a text, each as its start and end index."""

Scope: TypeAlias = Literal["once", "session", "folder", "edits", "trust", "prefix", "sandbox"]
"""The scope of `Allow`.

`once` allows this call only. `session` adds the rule of the approval for the rest of the session, `folder` also stores
it for this folder. `edits` switches to accept-edits mode. `trust` is `once`; the front end then trusts the folder.
`prefix` adds `prefix_rule` for the session, after a warning. `sandbox` runs this call, and for the rest of the session
the calls that `sandboxed_rule` covers, in the workspace sandbox without asking.
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """The part of a call that the user may edit before it runs."""

    text: str
    file_name: str
    """A file name with the extension that suits the text, for an editor."""


@dataclass(frozen=True, slots=True)
class ToolApproval:
    """May this call run? Decided by `Allow`, `Deny` or `Revise`."""

    call: ToolCall
    question: str
    detail: str
    """The exact command or the unified diff, depending on `kind`."""
    rule: str = ""
    """The narrow rule that the scopes `session` and `folder` add; empty if neither scope is offered."""
    is_keepable: bool = False
    """The scope `folder` is offered."""
    agent: str = ""
    """The task of the sub-agent that made the call, in the model's words; empty if the main agent made it."""
    kind: Literal["edit", "command", "other"] = "other"
    reason: str = ""
    """One line with the reason for asking and the way in which the call would run; empty if both are obvious."""
    reasons: tuple[str, ...] = ()
    """All reasons for asking, the worst first, if `reason` names only some of them; otherwise empty."""
    offers: tuple[Scope, ...] = ()
    """The offered scopes besides `once`, `session` and `folder`."""
    prefix_rule: str = ""
    """The rule that the scope `prefix` adds."""
    sandboxed_rule: str = ""
    """The rule that the scope `sandbox` adds."""
    draft: Draft | None = None
    """The text that `Revise.text` replaces; None if the user cannot edit the call."""
    is_revised: bool = False
    """The user or a hook has edited the call, and `call` has the edited arguments."""
    changes: tuple[ChangedFile, ...] = ()
    """The files that the call changes, without those that are not text or must not be shown.

    Empty if the front end did not ask for them (`Agent.report_file_texts`).
    """
    location: str = ""
    """The place in which a command would run, as at the end of `reason`: `the command runs outside the sandbox`."""

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

    @property
    def why(self) -> str:
        """The former name of `reason`."""
        return self.reason


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """May this call run, although it just gave the same result several times?

    Decided by `Allow`, `Deny` or an `Answer`, which is sent to the model instead of another result. See `ToolApproval`
    for the fields.
    """

    call: ToolCall
    question: str
    detail: str
    agent: str = ""

    @property
    def id(self) -> str:
        return self.call.call_id


CHANGE_APPROACH = "the same call gave the same result several times; change the approach"
"""The reason with which a `RepeatedCall` is denied, for the model."""


@dataclass(frozen=True, slots=True)
class ImpossibleCall:
    """May the model try again, although its last calls cannot run (an unknown tool, or missing arguments)?

    Decided by `Allow`, by `Deny`, which cancels the turn, or by `Deny` with a reason, which goes to the model instead.
    """

    call: ToolCall
    question: str
    detail: str
    """The arguments of the call."""
    agent: str = ""

    @property
    def id(self) -> str:
        return self.call.call_id


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several answers."""

    label: str
    detail: str = ""
    """Explains the answer; it may be empty."""
    is_action: bool = False
    """The choice is not an answer in itself, such as `Decline`. It is never combined with other choices."""


class Ask(Protocol):
    """Asks the user a question, given its text, details and choices; returns the answer, None if it was dismissed.

    With `is_multi_select`, the answer to several choices is the text of `Answer.of_choices`. Without `accepts_text`,
    the answer is the label of a choice.
    """

    def __call__(
        self,
        question: str,
        detail: str,
        choices: tuple[Choice, ...],
        *,
        is_multi_select: bool = False,
        accepts_text: bool = True,
    ) -> Awaitable[str | None]: ...


SKIPPED_QUESTION = "The user skipped the question. Choose the most likely intention and continue."
"""The answer to a question of the model that the user skips, for the model."""
ASKED_BY_QCODE = "qcode itself"
"""The `server` of a question that qcode itself asks. The name of a real server cannot contain a blank."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the model or of a tool server. Decided by an `Answer` (a choice or any text) or by `Deny`.

    A question with `is_multi_select` may be answered by several choices: `Answer.of_choices`. If a server asks, `Deny`
    dismisses the question and the call continues.
    """

    call: ToolCall
    question: str
    """The first line of the question."""
    detail: str = ""
    """The other lines of the question."""
    choices: tuple[Choice, ...] = ()
    server: str = ""
    """The tool server that asks during a call, and that wrote the question and the choices; empty if the model asks."""
    number: int = 0
    """The number of the question within its call, because a server can ask several times during one call."""
    is_multi_select: bool = False
    """Any number of the choices may be the answer."""
    accepts_text: bool = True
    """The answer may be a text in the user's own words. Otherwise only a choice is an answer, as in a confirmation."""

    @property
    def asker(self) -> str:
        """The asker as the subject of a sentence, not cleaned for display."""
        if self.server == ASKED_BY_QCODE:
            return "qcode"
        return f"The tool server {self.server}" if self.server else "The model"

    @property
    def id(self) -> str:
        return f"{self.call.call_id}:{self.number}" if self.server else self.call.call_id

    @property
    def text(self) -> str:
        """The whole question."""
        return f"{self.question}\n\n{self.detail}" if self.detail else self.question

    def accepted_text(self, decision: Decision) -> str | None:
        """Return the text of an answer; None for `Deny`, and for a text that the question does not accept."""
        if not isinstance(decision, Answer):
            return None
        is_choice = decision.text in [choice.label for choice in self.choices]
        return decision.text if self.accepts_text or is_choice else None


@dataclass(frozen=True, slots=True)
class PlanApproval:
    """The model proposes a plan. Decided by `AcceptPlan`, which ends plan mode, or by `Deny`."""

    call: ToolCall
    question: str
    detail: str
    """The plan, in Markdown."""
    is_trusted: bool = True
    """The folder is trusted. In an untrusted one each edit asks, so `accept-edits` cannot be chosen."""

    @property
    def id(self) -> str:
        return self.call.call_id

    @property
    def plan(self) -> str:
        return self.detail


LIMIT_ID = "limit"
"""The id of every `RateLimitApproval`."""


@dataclass(frozen=True, slots=True)
class RateLimitApproval:
    """Shall the turn wait for the end of a rate limit? Decided by `Allow` or `Deny`, which ends the turn."""

    question: str
    detail: str = ""
    id: str = LIMIT_ID


@dataclass(frozen=True, slots=True)
class ServerApproval:
    """May a tool server run, may its changed tools be offered, or may the browser open to sign in at it?

    Decided by `Allow`, which is stored for later sessions unless its scope is `session`, or by `Deny`. It belongs to no
    turn.
    """

    id: str
    """Different for each question, so a late decision never answers another question."""
    server: str
    question: str
    detail: str
    is_login: bool = False
    """The question is about opening the browser."""


CallApproval: TypeAlias = ToolApproval | RepeatedCall | ImpossibleCall | Question | PlanApproval
"""A question during a turn; each is about one call of the model."""

TurnApproval: TypeAlias = CallApproval | RateLimitApproval
"""A question during a turn."""

Approval: TypeAlias = TurnApproval | ServerApproval


@dataclass(frozen=True, slots=True)
class Allow:
    """Yes. A `scope` that the approval does not offer counts as `once`."""

    scope: Scope = "once"
    input: JsonObject | None = None
    """The arguments with which the call runs; None for those of the model.

    The call is judged again with other arguments, and denied if they are invalid or if a rule denies it. Its result
    tells the model which arguments were changed.
    """


@dataclass(frozen=True, slots=True)
class Deny:
    """No."""

    message: str = ""
    """Sent to the model. Without a message, the app and its linear mode end the turn."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question."""

    text: str
    """The result of the call, which does not run."""

    @staticmethod
    def of_choices(labels: Iterable[str], other: str = "") -> Answer:
        """Return the answer to a question with `is_multi_select`: the labels, separated by commas.

        A label that contains a comma is in quotes: `"Bread, white", Milk`. `other` is an answer in the user's own
        words. After labels, it is on a separate line.
        """
        chosen = ", ".join(map(_quoted_if_ambiguous, labels))
        if chosen and other:
            return Answer(f"{chosen}\nOther: {other}")
        return Answer(chosen or other)


@dataclass(frozen=True, slots=True)
class AcceptPlan:
    """End plan mode and carry out the plan."""

    mode: ApprovalMode = "default"
    """The mode from then on. A mode that a plan may not choose counts as `default`."""
    trusts_folder: bool = False
    """The front end trusts the folder first."""


@dataclass(frozen=True, slots=True)
class Revise:
    """Edit the call.

    The edited call is judged again, and a new approval with the same id asks for it. If it is invalid or a rule denies
    it, a notice says so, and the approval asks for the original call again.
    """

    text: str = ""
    """Replaces the draft of the call."""
    arguments: JsonObject | None = None
    """Replace all arguments of the call; None: only the draft changes."""


def _quoted_if_ambiguous(label: str) -> str:
    is_ambiguous = "," in label or "\n" in label or label.startswith('"')
    return '"' + label.replace('"', '""') + '"' if is_ambiguous else label


Decision: TypeAlias = Allow | Deny | Answer | AcceptPlan | Revise
"""A decision that does not fit the approval denies it, and a notice says so."""


def trusts_folder(decision: Decision) -> bool:
    """Return whether the front end trusts the folder before it passes on this decision."""
    return decision == Allow("trust") or (isinstance(decision, AcceptPlan) and decision.trusts_folder)


def offered_scope(approval: ToolApproval, scope: Scope) -> Scope:
    """Return `scope` if the approval offers it, otherwise `once`."""
    if scope in ("session", "folder"):
        is_offered = bool(approval.rule) and (scope == "session" or approval.is_keepable)
    else:
        is_offered = scope in approval.offers
    return scope if is_offered else "once"


def mismatched_decision_notice(approval: Approval, decision: Decision) -> str:
    """Return the notice about a decision that does not fit the approval."""
    return f"{type(decision).__name__} does not decide a {type(approval).__name__}; it was denied."


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """Options of one turn."""

    model: str = ""
    """`provider/model`; empty for the current model."""
    output: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """Maps keys of the config table `[output]` to validated values."""
    external_spans: Spans = ()
    """The ranges of the prompt that the user did not write: from a file of the project, a skill or a tool server.

    `@path` in these ranges attaches only files that the model may read without asking.
    """
    shown_prompt: str = ""
    """The prompt as the front end shows it; empty if it shows the prompt itself."""
    is_append_only: bool = False
    """The front end cannot remove text that it showed, so a reply with text never starts over."""
    finds_files: bool = True
    """`@path` in the prompt attaches a file."""
    typed_text: str | None = None
    """The end of the prompt that the user typed, if something else precedes it; None: the user typed the whole prompt.

    `/server:prompt` and `@server:uri` are recognized only in this text.
    """
    max_turns: int | None = None
    """This limit and the next three replace the limits of the run. None: the limit of the run applies."""
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | None = None
    timeout_s: float | None = None
    check: AnswerCheck | None = None
    """Replaces the check of the run; None: the check of the run applies."""


NO_OPTIONS = TurnOptions()


@dataclass(frozen=True, slots=True)
class TurnPrompt:
    """A prompt as the model gets it, after a command, skill or tool server has supplied its text."""

    text: str
    options: TurnOptions = NO_OPTIONS
    attached: tuple[Block, ...] = ()
    """The blocks (files, images, resources) that precede the text."""


@dataclass(frozen=True, slots=True)
class RuleConfig:
    """A rule as written in a config file."""

    text: str
    examples: tuple[str, ...] = ()
    """Calls that the rule covers."""
    counterexamples: tuple[str, ...] = ()
    """Calls that the rule does not cover."""

    def __str__(self) -> str:
        return self.text
