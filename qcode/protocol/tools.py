"""Tools: the specification that the model sees, the effects that a call may have, and the outcome of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from qcode.protocol.messages import Image
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

SKILL_TOOL = "skill"
"""The name of the tool that loads a skill. Its results contain instructions, which a compaction keeps."""
EXPLORE, GENERAL = "explore", "general"
"""The kinds of sub-agents that are built in."""
EDITORS = frozenset({"edit", "multi_edit", "apply_patch"})
"""The editing tools. A model is offered only those that suit it."""
SAME_MODEL, SMALL_MODEL = "same", "small"
"""The models of a sub-agent: the model of the conversation, or the small model."""


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Calls access files, either to read or to write them."""

    access: Literal["read", "write"]
    paths_of: Callable[[JsonObject], tuple[str, ...] | str] = field(repr=False)
    """Returns the paths in the arguments of a call, at least one and without duplicates.

    If the call is invalid, it returns one line with the reason.
    """


@dataclass(frozen=True, slots=True)
class CommandExecution:
    """Calls run a shell command."""

    command_argument: str = ""
    """The name of the argument that contains the command; empty: the tool itself chooses the command."""
    unconfined_argument: str = ""
    """The name of the boolean argument that asks to run outside the sandbox; empty: there is none."""


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """Calls access the network."""

    url_argument: str = ""
    """The name of the argument that contains the URL; empty: the calls access the search service."""


Safety: TypeAlias = FileAccess | CommandExecution | NetworkAccess | Literal["harmless"]
"""The effects that the calls of a tool may have. `harmless`: a call only changes the session, or starts other calls,
each of which is judged separately."""


SandboxUse: TypeAlias = Literal["", "read-only", "workspace", "protect", "outside"]
"""The level of the sandbox in which a command ran.

`outside`: the command ran outside of the sandbox, although a sandbox works here. Empty: no sandbox works here, or the
call runs no command.
"""


@dataclass(frozen=True, slots=True)
class ReadOnlyIf:
    """The values of an argument with which a call changes nothing."""

    argument: str
    """The name of the argument."""
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool. The model is sent the name, the description and the parameters."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    """The JSON Schema of an object."""
    is_read_only: bool = False
    """A call changes nothing."""
    is_one_way: bool = False
    """A call is recorded as a signal and never run."""
    asks_user: bool = False
    """The result of a call is the user's answer."""
    is_backgroundable: bool = False
    """The user may move a running call to the background."""
    read_only_if: ReadOnlyIf | None = None
    """Calls with certain arguments change nothing; replaces `is_read_only`, unless it is None."""
    is_hosted: bool = False
    """The model's host runs the tool, and the result is part of the reply."""
    edit_format: Literal["", "passage", "patch"] = ""
    """The format of an edit, empty if the tool does not edit. Each model is offered the tools of one format only."""
    is_for_sub_agents: bool = True
    """Sub-agents may use the tool too."""
    draft_argument: str = ""
    """The name of the argument that the user may edit before a call runs; empty: all arguments, as JSON."""
    safety: Safety | None = None
    """The effects by which the permission policy judges a call. None: unknown, as for the tools of a tool server."""

    @property
    def writes_files(self) -> bool:
        """Whether calls write files. After a truncated call, the model is then asked to write the file in parts."""
        return isinstance(self.safety, FileAccess) and self.safety.access == "write"

    def only_reads(self, arguments: JsonObject) -> bool:
        """Return whether a call with these arguments changes nothing."""
        if self.read_only_if is None:
            return self.is_read_only
        return arguments.get(self.read_only_if.argument) in self.read_only_if.values

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the arguments without which a call is invalid."""
        names = self.parameters.get("required", [])
        return tuple(str(name) for name in names) if isinstance(names, list) else ()


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """The whole text of a file before and after a change."""

    path: str
    """Absolute."""
    old_text: str | None
    """The text before the change, None for a new file."""
    new_text: str


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file that a call changed."""

    path: str
    """The real path."""
    before: bytes | None = field(repr=False)
    """The bytes before the change; None: the file did not exist."""
    after: bytes | None = field(repr=False)
    """The bytes after the change; None: the file was deleted."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of a call."""

    content: str
    """The result that the model is sent."""
    is_error: bool = False
    summary: str = ""
    """One line for the user."""
    diff: str = ""
    """A unified diff of the change."""
    images: tuple[Image, ...] = ()
    shown: str | None = None
    """The output as the user sees it, without notes to the model; None: the user sees `content`."""
    exit_code: int | None = None
    """The exit code of a command, negative if a signal killed it."""
    changes: tuple[ChangedFile, ...] = ()
    """The changed files, without those that are not text or must not be shown.

    Empty if the front end did not ask for them (`Agent.report_file_texts`).
    """
    edits: tuple[EditedFile, ...] = ()
    """The input of the formatters and checkers that run after an edit; not passed on to front ends."""
    problems: str = ""
    """The output of those formatters and checkers, which the user sees below the diff."""
    is_signal: bool = False
    """The call was recorded and did not run."""
    sandbox: SandboxUse = ""
    files_without_diff: tuple[str, ...] = ()
    """The files that a command or a sub-agent changed, which `diff` does not show; named as in diffs."""

    @property
    def shown_text(self) -> str:
        """The output as the user sees it: `shown`, or `content` if that is None."""
        return self.content if self.shown is None else self.shown


class Refused(Exception):  # noqa: N818  # an answer, not a failure
    """A tool refuses a call and has changed nothing. The message is sent to the model unchanged."""


DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def command_path(environment: Mapping[str, str]) -> str:
    """Return the PATH of commands: the absolute folders of PATH in `environment`, or `DEFAULT_PATH` if it has none."""
    parts = [part for part in environment.get("PATH", "").split(":") if part.startswith("/")]
    return ":".join(parts) or DEFAULT_PATH


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to start, with the functions to call before and after it. A value is used for one start only."""

    argv: tuple[str, ...]
    """The first item is an absolute path."""
    restrict: Callable[[], None] | None = None
    """Called just before the program starts, in the same thread. The thread is never used again.

    If this raises `OSError`, the program must not be started.
    """
    data: bytes = b""
    """Data that the program reads from an inherited file descriptor, at most 4 kB. Empty: no descriptor."""
    data_index: int = 0
    """The index of the item in `argv` that is replaced by the number of that descriptor."""
    finish: Callable[[], tuple[str, ...]] | None = None
    """Called once after all processes of the program have ended, also if the program could not be started.

    Returns lines for the model and the user about the changes that this function made. It may block on the disk.
    """
