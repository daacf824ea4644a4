"""Which sub-agents a run has: the built-in kinds, and those that the person and a trusted project described."""

from __future__ import annotations

from qcode.cli.surroundings import Surroundings
from qcode.config.custom_agents import load_custom_agents
from qcode.runtime.agents.kinds import KINDS, Kind, own_kind
from qcode.tools.agent import Agent


def kinds_of(around: Surroundings) -> tuple[tuple[Kind, ...], tuple[str, ...]]:
    """Return the kinds there are, and a line for each file that cannot be used."""
    if not around.settings.tools.agents:
        return (), ()
    taken = tuple(kind.name for kind in KINDS)
    found = load_custom_agents(around.paths.config_dir, around.root, is_trusted=around.is_trusted, taken=taken)
    own = (
        own_kind(one.name, one.description, one.prompt, only_reads=one.only_reads, tools=one.tools, model=one.model)
        for one in found.agents
    )
    return (*KINDS, *own), found.problems


def offered_agent(kinds: tuple[Kind, ...], *, has_small: bool) -> Agent | None:
    """Return the tool that starts sub-agents of these kinds, None where there are none."""
    if not kinds:
        return None
    readers = tuple(kind.name for kind in kinds if kind.only_reads)
    return Agent(tuple((kind.name, kind.purpose) for kind in kinds), readers=readers, has_small=has_small)
