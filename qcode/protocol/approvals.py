"""Approvals: modes, answers, options of one turn, and rules as written."""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

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


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """`examples` are calls that the rule covers and `counterexamples` ones that it does not, as its author thinks."""

    text: str
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text
