"""An agent with fake services, the app with that agent, and the context of a run without files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qcode.agent.agent import Agent
from qcode.agent.context.file_index import FileIndex, FileMatches
from qcode.agent.context.memory import InstructionFiles
from qcode.agent.keys.keys import Keys
from qcode.agent.models.selection import Selection
from qcode.agent.options import Options, RunContext
from qcode.agent.permissions import Origins, Permissions
from qcode.agent.settings import SettingsService
from qcode.agent.toolbox import Toolbox
from qcode.agent.trust.service import TrustService
from qcode.config.definitions import CustomCommand, CustomCommands
from qcode.config.folder_rules import FolderRules
from qcode.config.paths import ConfigPaths
from qcode.config.saved_choices import Choices
from qcode.config.settings import PermissionSettings as PermissionSettings
from qcode.config.settings import Settings, Ui
from qcode.protocol.approvals import ApprovalMode
from qcode.protocol.events import Notice
from qcode.protocol.tools import ToolOutcome
from qcode.providers.registry import PROVIDERS
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.text.clean import one_line
from qcode.tools.jobs import Jobs
from qcode.tui.app import AppOptions, QcodeApp
from qcode.tui.welcome import Welcome
from tests.safety.policies import NO_SANDBOX
from tests.tui.scripted import ScriptedConversation, ScriptedLibrary
from tests.tui.scripted_keys import ScriptedKeysService
from tests.tui.scripted_models import ScriptedModelsService

if TYPE_CHECKING:
    from qcode.agent.context.clipboard import ClipboardContent
    from qcode.agent.context.pictures import Picture
    from qcode.agent.conversation import Conversation
    from qcode.agent.offered_tools import OfferedTool
    from qcode.agent.sessions.library import SessionLibrary
    from tests.tui.sample_project import Project

NOWHERE = Path("/proc/nowhere")
"""A folder that does not exist and cannot be created."""

WELCOME = Welcome(
    ("demo/scripted (no key is set)", "Set ANTHROPIC_API_KEY to use a real model."),
    "~/project",
    "main",
    ("AGENTS.md",),
    "0.1.0",
)


def run_context(
    *,
    model: str | None = "demo/scripted",
    mode: ApprovalMode = "default",
    prompt: str = "",
    theme: str = "dark",
    keys: Mapping[str, str] | None = None,
    has_title: bool = False,
    has_bell: bool | None = False,
    show_thinking: Literal["folded", "expanded", "hidden"] = "folded",
    partial_redraw: bool = True,
    vim: bool = False,
    folder: Path = NOWHERE,
    config_dir: Path = NOWHERE,
    no_session: bool = True,
) -> RunContext:
    """Return the context of a run in a trusted folder. With `model` None, the settings have no model."""
    ui = Ui(
        theme=theme,
        bell=has_bell,
        title=has_title,
        show_thinking=show_thinking,
        partial_redraw=partial_redraw,
        keys=keys or {},
        vim=vim,
    )
    return RunContext(
        Options(prompt=prompt, no_session=no_session),
        {},
        ConfigPaths(config_dir, NOWHERE),
        Settings(model=model, ui=ui, permissions=PermissionSettings(mode=mode)),
        Keys({}),
        folder,
        folder,
        is_attended=True,
        is_trusted=True,
    )


class NoFiles(FileIndex):
    """A file index without files."""

    def __init__(self) -> None:
        """List nothing."""

    def find(self, query: str, recent: Any = (), limit: int = 50) -> FileMatches:
        return FileMatches()

    def refresh(self, changed: Callable[[], None]) -> None:
        """Return at once: the index is complete."""


class StagedTrust(TrustService):
    """Trust that the test controls: `/trust` calls `trust`, and every check calls `is_trusted`."""

    def __init__(self, trust: Callable[[], str], is_trusted: Callable[[], bool]) -> None:
        self._trust = trust
        self._trusted = is_trusted

    @property
    def is_trusted(self) -> bool:
        return self._trusted()

    def accept(self) -> str:
        return self._trust()


class StagedToolbox(Toolbox):
    """A toolbox without tools; the test defines the result of shell lines."""

    def __init__(
        self,
        servers: Any,
        run_user_command: Callable[[str, Callable[[str], None]], Awaitable[ToolOutcome]] | None,
        has_sandbox: Callable[[], bool],
    ) -> None:
        self.servers = servers
        self._run_user_command = run_user_command
        self._has_sandbox = has_sandbox
        self.jobs = Jobs()

    async def run_user_command(
        self, line: str, output: Callable[[str], None], background_requested: asyncio.Event | None = None
    ) -> ToolOutcome:
        assert self._run_user_command is not None, "the test gives no shell"
        return await self._run_user_command(line, output)

    def has_sandbox(self) -> bool:
        return self._has_sandbox()


@dataclass
class Services:
    """The services of a staged agent; each default does nothing."""

    models: ScriptedModelsService | None = None
    connect: ScriptedKeysService | None = None
    settings: SettingsService | None = None
    choices: Choices | None = None
    files: FileIndex | None = None
    servers: Any = None
    project: Project | None = None
    trust: Callable[[], str] = lambda: "Trusted."
    is_trusted: Callable[[], bool] = lambda: True
    has_sandbox: Callable[[], bool] | None = None
    run_user_command: Callable[[str, Callable[[str], None]], Awaitable[ToolOutcome]] | None = None
    toolbox: Toolbox | None = None
    read_picture: Callable[[str], Picture] | None = None
    read_clipboard: Callable[[], ClipboardContent] | None = None
    warm_up: Callable[[], None] = lambda: None
    commands: tuple[CustomCommand, ...] = ()
    notices: tuple[Notice, ...] = ()
    sessions: SessionLibrary | None = None


class StagedAgent(Agent):
    """An agent on a scripted or a real conversation."""

    def __init__(self, conversation: Conversation, context: RunContext, services: Services) -> None:
        self.context = context
        self.services = services
        self.conversation = conversation
        scripted = conversation.library if isinstance(conversation, ScriptedConversation) else ScriptedLibrary()
        self.sessions = services.sessions or scripted
        self.models = services.models or ScriptedModelsService()
        self.keys = services.connect or ScriptedKeysService()
        self.settings = services.settings or SettingsService(context)
        self.settings.choices = services.choices or Choices(NOWHERE)
        self.files = services.files or NoFiles()
        self.trust = StagedTrust(services.trust, services.is_trusted)
        staged = StagedToolbox(services.servers, services.run_user_command, services.has_sandbox or (lambda: True))
        self.toolbox = services.toolbox or staged
        policy = Policy("default", Rules.of(), True, NOWHERE, probes=NO_SANDBOX)
        self.permissions = Permissions(
            policy, Origins({}, "the default", FolderRules(NOWHERE, Path(__file__).parent)), lambda: 0.0
        )
        self.redact = str
        self.memory = InstructionFiles(NOWHERE, NOWHERE, NOWHERE, lambda: True)
        if services.project is not None:
            self.permissions, self.memory = services.project.permissions, services.project.memory

    def start_notices(self) -> tuple[Notice, ...]:
        return self.services.notices

    def custom_commands(self, taken: Any = ()) -> CustomCommands:
        return CustomCommands(self.services.commands)

    def offered_tools(self) -> tuple[OfferedTool, ...]:
        return self.services.project.tools() if self.services.project is not None else ()

    def doctor_lines(self, *, is_in_app: bool = False) -> tuple[str, ...]:
        assert self.services.project is not None
        return tuple(self.services.project.examine())

    def warm_up(self) -> None:
        self.services.warm_up()

    def read_picture(self, path: str) -> Picture:
        read = self.services.read_picture or super().read_picture
        return read(path)

    def read_clipboard(self) -> ClipboardContent:
        assert self.services.read_clipboard is not None, "the test gives no clipboard"
        return self.services.read_clipboard()

    def report_crash(self, failure: BaseException) -> str:
        return f"{type(failure).__name__}: {one_line(str(failure))}"

    def release(self, end_reason: str = "") -> None:
        """Close nothing."""


def selection_of(name: str, *, is_last_resort: bool = False) -> Selection:
    """Return the selection of the model `provider/model`."""
    provider, _, model = name.partition("/")
    return Selection(replace(PROVIDERS["demo"], name=provider), model, "no key is set", is_last_resort)


class StagedApp(QcodeApp):
    """The app with a staged agent. It shows the state of the sandbox only if the test sets `has_sandbox`."""

    def __init__(self, agent: StagedAgent, welcome: Welcome = WELCOME, options: AppOptions | None = None) -> None:
        selection = selection_of(agent.conversation.model, is_last_resort=agent.context.settings.model is None)
        super().__init__(agent.context, selection, welcome, options)
        self.staged = agent

    def open_agent(self) -> Agent:
        return self.staged

    async def show_sandbox(self) -> None:
        if self.staged.services.has_sandbox is not None:
            await super().show_sandbox()
