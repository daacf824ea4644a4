"""What the app is told when it starts. The composition root fills it in; nothing here looks anything up."""

from __future__ import annotations

import time
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from qcode.agent.choices import Choices
    from qcode.agent.context.clipboard import Clip
    from qcode.agent.context.file_index import FileIndex
    from qcode.agent.context.memory import Memory
    from qcode.agent.context.pictures import Picture
    from qcode.agent.conversation import Conversation
    from qcode.agent.keys.connect import KeysService
    from qcode.agent.mcp.servers import Servers
    from qcode.agent.models.offered import ModelsService
    from qcode.agent.offered_tools import OfferedTool
    from qcode.agent.permissions import Permissions
    from qcode.agent.settings import SettingsService
    from qcode.config.definitions import CustomCommand
    from qcode.protocol.approvals import ApprovalMode
    from qcode.protocol.events import Notice
    from qcode.protocol.tools import ToolOutcome

from qcode.tui.failures import Report, plain_report

ShowThinking: TypeAlias = Literal["folded", "expanded", "hidden"]


@dataclass(frozen=True, slots=True)
class Opening:
    """A conversation that is still to be made: what is shown of it before.

    `open` makes it, in a thread, and returns it with all the app is told; None: it cannot be, and the app leaves.
    """

    model: str
    mode: ApprovalMode
    open: Callable[[], tuple[Conversation, AppSetup] | None]


@dataclass(frozen=True, slots=True)
class Controls:
    """What the commands of a session act on. `examine` blocks: it returns the findings of `qcode doctor` as lines."""

    permissions: Permissions
    memory: Memory
    tools: Callable[[], tuple[OfferedTool, ...]]
    examine: Callable[[], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AppSetup:
    """Everything the app shows or uses that is not part of the conversation.

    model_note       what was chosen and why, one line each (with the demo model: how to add a key)
    instructions     names of the instruction files that were loaded
    first_prompt     sent as soon as the screen is up; empty for none
    user_themes      folder of the person's own theme files, None for none
    history_file     where prompts are kept across sessions, None to keep them for this run only
    trust            trusts the folder and returns a line that says so; None where there is nothing to trust
    offering         the models there are to switch to; None: none but the one in use
    help_topics      `/help TOPIC`; the text is made when asked for
    commands         ids of the commands that are enabled, None for all
    keys             command id to keys (`"fold": "ctrl+y"`), replacing the ones in the table
    max_continuations  how many continuations a reply may get; only shown ("continued 1/3")
    configuring      lists and changes the settings for `/config`; None: they cannot be seen here
    connect          connects to a provider for `/connect` and the first start; None: it cannot be done here
    usage            remembers which commands are used; None: nothing is remembered
    keep_theme       told each theme the person switches to
    show_thinking    folded to a line once it is over, expanded, or hidden
    files            finds files for `@path`; None where there are none to find
    read_picture     reads the image of a path; raises `InputError` where there is none
    read_clipboard   reads the system's clipboard; blocks, so it is called in a thread
    run_shell        runs a line the person typed after `!`, its output as it comes; cancelling it ends what it runs
    custom_commands  the commands from files
    problem          why no model can be reached, in two words for the status line; empty: one can
    is_restricted    whether the folder is not trusted, as it is now
    has_sandbox      whether commands can be confined here; blocks, so it is called in a thread. None: nothing is said
    warm_up          run in a thread once the first screen is painted (importing the SDK, say)
    servers          the tool servers, started once the first screen is painted; None where there are none
    notices          shown below the welcome
    painted          called once the first screen is painted
    controls         rules, tools, instruction files and findings, for the commands about them; None: there are none
    save             writes an export to a new file and returns where; raises `ValueError` with one line; None: nowhere
    report           keeps the details of a failure nobody foresaw and says in one line what it was and where they are
    is_kept          whether sessions are kept, so that one can be gone on with
    clock            seconds, only differences are used
    """

    version: str
    cwd: str
    model_note: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    first_prompt: str = ""
    theme: str = "dark"
    git_branch: str = ""
    user_themes: Path | None = None
    history_file: Path | None = None
    trust: Callable[[], str] | None = None
    offering: ModelsService | None = None
    help_topics: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    commands: frozenset[str] | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    max_continuations: int = 3
    has_title: bool = True
    has_bell: bool = False
    configuring: SettingsService | None = None
    connect: KeysService | None = None
    usage: Choices | None = None
    keep_theme: Callable[[str], None] | None = None
    show_thinking: ShowThinking = "folded"
    files: FileIndex | None = None
    read_picture: Callable[[str], Picture] | None = None
    read_clipboard: Callable[[], Clip] | None = None
    run_shell: Callable[[str, Callable[[str], None]], Awaitable[ToolOutcome]] | None = None
    custom_commands: tuple[CustomCommand, ...] = ()
    problem: str = ""
    is_restricted: Callable[[], bool] = lambda: False
    has_sandbox: Callable[[], bool] | None = None
    warm_up: Callable[[], None] | None = None
    servers: Servers | None = None
    notices: tuple[Notice, ...] = ()
    painted: Callable[[], None] | None = None
    controls: Controls | None = None
    save: Callable[[str, str], str] | None = None
    report: Report = plain_report
    is_kept: bool = False
    clock: Callable[[], float] = time.monotonic
