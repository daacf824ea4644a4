"""What the commands of a session act on, put together: its rules, tools, instruction files and findings."""

from __future__ import annotations

from qcode.cli.surroundings import Surroundings
from qcode.cli.wiring import Wired
from qcode.protocol.controls import Controls, OfferedTool


def controls_of(around: Surroundings, ready: Wired) -> Controls:
    """Return what the commands of one conversation act on."""
    conversation, toolbox = ready.conversation, ready.toolbox

    def tools() -> tuple[OfferedTool, ...]:
        from qcode.runtime.offered import offered_tools

        statuses = toolbox.servers.statuses() if toolbox.servers is not None else ()
        servers = {tool.name: status.name for status in statuses for tool in status.tools}
        return offered_tools(conversation.tools, conversation.policy, servers)

    def examine() -> tuple[str, ...]:
        from qcode.cli.doctor import report

        return tuple(report(around, is_in_app=True, is_trusted=conversation.policy.is_trusted))

    return Controls(conversation.permissions, ready.memory, tools, examine)
