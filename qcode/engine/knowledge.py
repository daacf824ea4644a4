"""What is known of the model on its host: the catalog's facts with what the host itself taught on top."""

from __future__ import annotations

from dataclasses import field, replace

from qcode.engine.effects import Learn
from qcode.engine.learned import LearnedLimit
from qcode.protocol.model import ModelFacts
from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class HostKnowledge:
    """`output` and `window` are limits in tokens that the host named; they win over the catalog.

    `refuses_marks`: it no longer knows the signatures in this history; that is no fact about the model.
    """

    output: int | None = None
    window: int | None = None
    is_silently_capped: bool = False
    refuses_prefill: bool = False
    refuses_images: bool = False
    refuses_marks: bool = False

    def with_fact(self, learn: Learn) -> HostKnowledge:
        fact = learn.fact
        if isinstance(fact, LearnedLimit):
            return replace(self, output=fact.tokens) if fact.kind == "output" else replace(self, window=fact.tokens)
        match fact:
            case "silently_capped":
                return replace(self, is_silently_capped=True)
            case "refuses_prefill":
                return replace(self, refuses_prefill=True)
            case "refuses_images":
                return replace(self, refuses_images=True)
            case "refuses_marks":
                return replace(self, refuses_marks=True)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model as the engine plans for it."""

    provider: str
    name: str
    facts: ModelFacts = field(default_factory=ModelFacts)
    host: HostKnowledge = field(default_factory=HostKnowledge)

    @property
    def output_limit(self) -> int | None:
        return self.host.output or self.facts.max_output_tokens

    @property
    def window(self) -> int | None:
        return self.host.window or self.facts.context_window

    @property
    def can_prefill(self) -> bool:
        return self.facts.prefill and not self.host.refuses_prefill

    @property
    def sees_images(self) -> bool:
        """Whether images may be sent; where nobody knows they may, and the host says."""
        return self.facts.images is not False and not self.host.refuses_images

    def learning(self, learn: Learn) -> KnownModel:
        return replace(self, host=self.host.with_fact(learn))
