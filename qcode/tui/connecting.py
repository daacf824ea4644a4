"""What the connect screen asks of the outside: providers, checking and storing a key. The composition root answers.

A key passes through here in a type that does not print, and is kept by nobody in this room.
"""

from __future__ import annotations

from typing import Protocol

from qcode.protocol.values import dataclass
from qcode.safety.secret import Secret


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    """A provider as it is offered. `state` says what is there, empty where nothing is.

    `takes_key`: one can be typed. `is_ready`: it works without typing one.
    """

    name: str
    state: str = ""
    takes_key: bool = True
    is_ready: bool = False


@dataclass(frozen=True, slots=True)
class CheckedKey:
    """A key the host did not refuse; None: the one that is there already.

    `is_accepted` False: the host did not say. `note` is one line about it, empty where all is well.
    """

    key: Secret | None
    is_accepted: bool = True
    note: str = ""
    models: tuple[str, ...] = ()


class Connecting(Protocol):
    """How the app connects to a provider."""

    @property
    def is_first(self) -> bool:
        """Whether this is the first start of somebody who has no key: the screen then opens by itself."""
        ...

    @property
    def wants_theme(self) -> bool:
        """Whether the person has not chosen a theme yet."""
        ...

    def choices(self) -> tuple[ProviderChoice, ...]: ...

    async def check(self, name: str, typed: str) -> CheckedKey:
        """Ask the host of provider `name` about what was typed or pasted; raise `ValueError` with one line."""
        ...

    async def keep(self, name: str, checked: CheckedKey) -> tuple[str, ...]:
        """Store a new key; return what to tell the person. Raise `ValueError` with one line."""
        ...

    def model_of(self, name: str, listed: tuple[str, ...]) -> str:
        """Return the model to switch to (`provider/model`), empty where the person has to choose among `listed`."""
        ...

    def finish(self, model: str) -> None:
        """The person was through with it, or left: the screen does not open by itself again.

        `model` was chosen, and is where the next start begins; empty for none.
        """
        ...
