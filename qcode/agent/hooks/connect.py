"""Creates the hooks of a session from the settings and from the program that opens the agent.

Separate from `session`, which sub-agents use too and which does not depend on settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from qcode.agent.hooks.events import Hook, program_handler
from qcode.agent.hooks.runner import HookRunner
from qcode.agent.hooks.session import SessionFacts, SessionHooks
from qcode.agent.hooks.sources import configured_hooks
from qcode.agent.options import RunContext
from qcode.protocol.errors import UsageError
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class ConnectedHooks:
    """The result of `connect_hooks`."""

    hooks: SessionHooks | None
    """None if no hook is configured."""
    problems: tuple[str, ...]
    """A line for each hook that cannot be used."""


def connect_hooks(
    context: RunContext,
    program_hooks: Mapping[str, Sequence[Hook]],
    facts: Callable[[], SessionFacts],
    *,
    scratch: Callable[[], Path],
    redact: Callable[[str], str],
    source: str,
) -> ConnectedHooks:
    """Create the hooks of a session.

    `facts` returns the current state of the session; `source` is `startup`, `resume` or `fork`. Raise `UsageError` for
    an invalid hook of the program.
    """
    configured = configured_hooks(context)
    try:
        program_handlers = [program_handler(event, hook) for event, hooks in program_hooks.items() for hook in hooks]
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"hooks: {error}") from None
    # In the order of `HookRunner`.
    handlers = [handler for handler in configured.handlers if handler.origin != "project"]
    handlers += program_handlers
    handlers += [handler for handler in configured.handlers if handler.origin == "project"]
    if not handlers and not configured.unused:
        return ConnectedHooks(None, configured.problems)
    runner = HookRunner(handlers, folder=context.folder, root=context.root, environment=context.env)
    hooks = SessionHooks(
        runner,
        facts,
        state_dir=None if context.options.no_session else context.paths.state_dir,
        folder=context.folder,
        scratch=scratch,
        redact=redact,
        source=source,
    )
    hooks.unused = configured.unused
    return ConnectedHooks(hooks, configured.problems)
