"""A tool as the model sees it, and what running one gives back."""

from __future__ import annotations

from collections.abc import Mapping

from qcode.protocol.json import Json, JsonObject
from qcode.protocol.messages import Image
from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Name, description and parameters (JSON Schema of an object) of a tool.

    `is_read_only`: running it changes nothing. `writes_files`: it is a write or edit, so a cut call is answered
    with split guidance. `is_one_way`: it is recorded as a signal and never executed.
    `asks_person`: its result is what the person answers; it touches nothing. `can_go_on`: while it runs, the person may
    let it go on in the background. `reads_when` is an argument and the values of it with which a call changes nothing,
    of a tool that otherwise may. `is_hosted`: the host of the model runs it itself, and what it came to is part of the
    reply.
    """

    name: str
    description: str
    parameters: Mapping[str, Json]
    is_read_only: bool = False
    writes_files: bool = False
    is_one_way: bool = False
    asks_person: bool = False
    can_go_on: bool = False
    reads_when: tuple[str, tuple[str, ...]] | None = None
    is_hosted: bool = False

    def only_reads(self, arguments: JsonObject) -> bool:
        """Return whether a call with these arguments changes nothing."""
        if self.reads_when is None:
            return self.is_read_only
        name, values = self.reads_when
        return arguments.get(name) in values

    @property
    def required(self) -> tuple[str, ...]:
        names = self.parameters.get("required", [])
        return tuple(str(name) for name in names) if isinstance(names, list) else ()


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool gave back: `content` for the model, `summary` one line for a person, `diff` a unified diff."""

    content: str
    is_error: bool = False
    summary: str = ""
    diff: str = ""
    images: tuple[Image, ...] = ()
