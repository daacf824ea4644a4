"""What the app asks of the outside about models: which there are, and to remember which was chosen.

The composition root answers. Nothing here knows where a fact comes from.
"""

from __future__ import annotations

from typing import Protocol

from qcode.protocol.model import Effort, ModelFacts
from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model of one provider; `name` is what stands after the slash."""

    name: str
    facts: ModelFacts


@dataclass(frozen=True, slots=True)
class OfferedProvider:
    """A provider with the models that are known of it, the likeliest first.

    `is_ready`: it can be used as it is; `state` says why. `is_to_ask`: its host may know more models, see `served`.
    """

    name: str
    state: str = ""
    is_ready: bool = True
    models: tuple[OfferedModel, ...] = ()
    is_to_ask: bool = False


class Offering(Protocol):
    """The models a person can switch to."""

    def providers(self) -> tuple[OfferedProvider, ...]:
        """Return what is known without asking anybody; it may read files."""
        ...

    async def served(self, provider: str) -> tuple[OfferedModel, ...]:
        """Ask the host what it serves; nothing where it does not say, or not soon. Never raises but for cancelling."""
        ...

    @property
    def effort(self) -> Effort | None:
        """The effort that was chosen last."""
        ...

    def keep_model(self, name: str) -> str:
        """Begin with this model the next time; return what stands against it in one line, empty for nothing."""
        ...

    def keep_effort(self, effort: Effort | None) -> None: ...
