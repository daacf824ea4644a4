"""Which sub-agents a run has: by the settings of the person."""

from __future__ import annotations

from qcode.config.settings import Settings
from qcode.runtime.agents.kinds import Kind
from qcode.tools.agent import Agent


def offered_agent(settings: Settings, kinds: tuple[Kind, ...]) -> Agent | None:
    """Return the tool that starts sub-agents of these kinds, None where the person wants none."""
    if not settings.tools.agents:
        return None
    return Agent(tuple((kind.name, kind.purpose) for kind in kinds), has_small=settings.small_model is not None)
