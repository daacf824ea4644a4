"""Real rules, instruction files and tools in a small project, for the screens that show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qcode.agent.context.memory import InstructionFiles
from qcode.agent.offered_tools import OfferedTool, offered_tools
from qcode.agent.permissions import Origins, Permissions
from qcode.config.folder_rules import FolderRules
from qcode.protocol.messages import ToolCall
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.tools import registry
from tests.safety.policies import NO_SANDBOX

FINDINGS = (
    "terminal",
    "  kitty (TERM=xterm-256color, COLORTERM=truecolor)",
    "  colors: 16 million",
    "sandbox",
    "  bubblewrap: read-only and workspace, with [brackets] that are no markup",
)
MORNING = 1_750_000_000.0


@dataclass
class Project:
    """Files below `base`. `permissions` has two rules of the settings and two decisions."""

    base: Path
    is_trusted: bool = True
    examine: Callable[[], Sequence[str]] = lambda: FINDINGS
    permissions: Permissions = field(init=False)
    memory: InstructionFiles = field(init=False)

    def __post_init__(self) -> None:
        self.work = self.base / "work"
        self.work.mkdir(exist_ok=True)
        rules = Rules.of(allow=["shell(make test)"], deny=["read(private/**)"])
        policy = Policy("default", rules, self.is_trusted, self.work, probes=NO_SANDBOX)
        origins = Origins(
            {"allow": ("~/config.toml:4",), "deny": ("~/config.toml:5",)},
            "the default",
            FolderRules(self.base / "state", self.work),
        )
        self.permissions = Permissions(policy, origins, lambda: MORNING)
        call = ToolCall("c1", "shell", '{"command": "make doc"}')
        self.permissions.record(call, "denied", "build it later")
        self.permissions.record(ToolCall("c2", "read", '{"path": "a.py"}'), "ran", "it only reads", "path:workspace")
        self.memory = InstructionFiles(self.work, self.work, self.base / "home", lambda: self.is_trusted)

    def tools(self) -> tuple[OfferedTool, ...]:
        return offered_tools(registry.specs(), self.permissions.policy, {})
