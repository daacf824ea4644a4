"""Invariants of the calls of one step; used by `world`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.engine.effects import AskApproval

if TYPE_CHECKING:
    from tests.engine.world import World


def check_may_be_beside_others(world: World, name: str) -> None:
    """Assert that only read-only calls are judged or run at the same time."""
    under_way = [*(item.call.name for item in world.asking), *(item.call.name for item in world.running)]
    if under_way:
        read_only = {tool.name for tool in world.settings.tools if tool.is_read_only}
        assert {name, *under_way} <= read_only, "calls that change something side by side"


def check_repeats(world: World, effect: AskApproval) -> None:
    """Assert that a call counts as repeated only if the last three were the same call with one result."""
    if effect.repeats:
        last = [*world.same, *ran_of_this_step(world)][-3:]
        assert len(last) == 3
        assert len(set(last)) == 1, "not the same call with the same result"
        assert last[0][0] == effect.call.name


def ran_of_this_step(world: World) -> list[tuple[str, str, str]]:
    finished, outcomes = world.step.finished, world.step.outcomes
    calls = finished.message.calls if finished is not None and finished.message is not None else ()
    return [(call.name, call.arguments, outcomes[call.call_id]) for call in calls if call.call_id in outcomes]
