"""A tool as the model sees it, what its calls may do, and what running one gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from qcode.protocol.messages import Image
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class Files:
    """Calls that read or write files and do nothing else.

    `paths_of` returns the paths that a call names, at least one and each once, or one line that says why it names none.
    """

    access: Literal["read", "write"]
    paths_of: Callable[[JsonObject], tuple[str, ...] | str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Runs:
    """Calls that run a shell command.

    `command` is the argument that holds it; if it is empty, a call stands for a command that only its tool knows.
    `unconfined` is a flag among the arguments that asks to run outside the sandbox.
    """

    command: str = ""
    unconfined: str = ""


@dataclass(frozen=True, slots=True)
class Fetches:
    """Calls that reach the network. `url` is the argument that says where; empty: the search service of the session."""

    url: str = ""


Safety: TypeAlias = Files | Runs | Fetches | Literal["harmless"]
"""What the calls of a tool may do. `harmless`: they touch only what the session itself made, or start what is judged
call by call."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Name, description and parameters (JSON Schema of an object) of a tool: the model is sent these three.

    `is_read_only`: running it changes nothing. `is_one_way`: it is recorded as a signal and never executed.
    `asks_person`: its result is what the person answers; it touches nothing. `can_go_on`: while it runs, the person may
    let it go on in the background. `reads_when` is an argument and the values of it with which a call changes nothing,
    of a tool that otherwise may. `is_hosted`: the host of the model runs it itself, and what it came to is part of the
    reply. `safety` is what a policy judges a call by. Nobody vouches for a tool without it, such as one of a server.
    """

    name: str
    description: str
    parameters: Mapping[str, Json]
    is_read_only: bool = False
    is_one_way: bool = False
    asks_person: bool = False
    can_go_on: bool = False
    reads_when: tuple[str, tuple[str, ...]] | None = None
    is_hosted: bool = False
    safety: Safety | None = None

    @property
    def writes_files(self) -> bool:
        """Whether it is a write or edit, so that a cut call is answered with split guidance."""
        return isinstance(self.safety, Files) and self.safety.access == "write"

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


class Refused(Exception):  # noqa: N818  # an answer, not a failure
    """A tool refuses a call and changed nothing. The text goes to the model as it is."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to start and what happens before and after it. One value starts one program."""

    argv: tuple[str, ...]
    """The first item is an absolute path."""
    restrict: Callable[[], None] | None = None
    """Called in the thread that starts the program, just before. The thread is never used again.

    If this raises `OSError`, the program must not be started.
    """
    data: bytes = b""
    """What the program reads from an inherited file descriptor. At most 4 kB; empty: no descriptor."""
    data_at: int = 0
    """The item of `argv` that is replaced by the number of that descriptor."""
    finish: Callable[[], tuple[str, ...]] | None = None
    """Called once when nothing of the program runs any more, also if it could not be started.

    Returns lines about what it did, for the model and the user. Blocks on the disk.
    """
