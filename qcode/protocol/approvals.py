"""Approvals: modes, answers and rules as written; and the conversation that a front end holds.

A front end submits to a `Conversation`, answers its questions, steers and cancels it. The real one is
`agent.conversation.Conversation`; front ends are tested against scripted ones.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from qcode.protocol.events import TurnEvent
    from qcode.protocol.library import Library
    from qcode.protocol.messages import Block, Message
    from qcode.protocol.model import Effort
    from qcode.protocol.reports import Reports
    from qcode.protocol.rewinding import Rewinds

ApprovalMode: TypeAlias = Literal["plan", "default", "accept-edits", "auto", "bypass"]

Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Parts of a text, as start and end."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer to `ApprovalRequested`.

    `scope` `always` adds the rule the request proposed for the rest of the session, `folder` keeps it for this folder
    beyond that. `reason` goes to the model with a denial. `text` is the result of the call, which then does not run:
    the answer to a question. `mode` is the one the person goes on in where a plan is approved; None: `default`.
    """

    is_allowed: bool
    scope: Literal["once", "always", "folder"] = "once"
    reason: str = ""
    text: str = ""
    mode: ApprovalMode | None = None


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What holds for one turn only. `model` is `provider/model`, empty for the one in use.

    `output` maps keys of the table `[output]` of the configuration to values that were checked already. `foreign` are
    the parts of the prompt, as start and end, that a file of the project wrote and not the user: `@path` in them
    attaches only what the model may read without asking.
    """

    model: str = ""
    output: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    foreign: Spans = ()


NO_OPTIONS = TurnOptions()


class Background(Protocol):
    """The running calls that need not be waited for."""

    @property
    def calls(self) -> tuple[str, ...]:
        """Ids of the calls that could go on in the background, in the order they began."""
        ...

    def move(self, call_id: str) -> None:
        """Let a call end now with its output so far, and what it runs go on as a job of the session.

        Raise `ValueError` with one line where it cannot; a call that is over is ignored.
        """
        ...


class Conversation(Protocol):
    """One session with one model. One turn runs at a time.

    `effort` is how much the model is asked to think from the next turn on; None: as much as it likes.
    """

    effort: Effort | None

    @property
    def session_id(self) -> str: ...

    @property
    def model(self) -> str:
        """`provider/model`."""
        ...

    @property
    def mode(self) -> ApprovalMode: ...

    @property
    def messages(self) -> tuple[Message, ...]:
        """The committed transcript."""
        ...

    @property
    def takes_images(self) -> bool:
        """Whether images may be sent: False where the model is known to take none."""
        ...

    @property
    def thinks(self) -> bool:
        """Whether the model is known to think."""
        ...

    def attach(self, blocks: tuple[Block, ...]) -> None:
        """Put these blocks (files, output of commands) before what the person says next."""
        ...

    @property
    def library(self) -> Library: ...

    @property
    def rewinds(self) -> Rewinds: ...

    @property
    def reports(self) -> Reports: ...

    @property
    def background(self) -> Background: ...

    def submit(
        self, prompt: str, attached: tuple[Block, ...] = (), options: TurnOptions = NO_OPTIONS
    ) -> AsyncIterator[TurnEvent]:
        """Run one turn; the last event is always `TurnEnded`. Closing the iterator cancels the turn.

        `attached` are the images of this prompt.
        """
        ...

    def compact(self, focus: str = "") -> AsyncIterator[TurnEvent]:
        """Shorten what is sent of the conversation, in a turn of its own; the last event is `TurnEnded`."""
        ...

    def answer(self, call_id: str, answer: Answer) -> None:
        """Answer an open `ApprovalRequested`; an unknown or settled id is ignored."""
        ...

    def steer(self, text: str, attached: tuple[Block, ...] = ()) -> None:
        """Add `text` to the running turn before its next step; ignored where no turn runs."""
        ...

    def unsteer(self, text: str) -> bool:
        """Take back what `steer` added last with this text; False where the turn has it already."""
        ...

    def cancel(self) -> None:
        """End the running turn; what was shown stays. No request is sent after this."""
        ...

    def clear(self) -> None:
        """Begin a new session in the same folder with the same model."""
        ...

    def set_model(self, name: str) -> None:
        """Switch to `provider/model` for the next turn; raise `ValueError` with one line where it cannot."""
        ...

    def set_mode(self, mode: ApprovalMode) -> None: ...


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """`examples` are calls that the rule covers and `counterexamples` ones that it does not, as its author thinks."""

    text: str
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text
