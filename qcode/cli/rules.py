"""The rules a run begins with: those of the settings with the line of each, and those kept for its folder."""

from __future__ import annotations

from qcode.cli.policy import policy_of
from qcode.cli.surroundings import Surroundings
from qcode.protocol.controls import RuleEffect
from qcode.runtime.kept_rules import KeptRules
from qcode.runtime.permissions import Origins, Permissions

_EFFECTS: tuple[RuleEffect, ...] = ("allow", "ask", "deny")


def origins_of(around: Surroundings) -> Origins:
    """Return where the rules and the mode of this run were written, and where rules for this folder are kept."""
    settings = around.settings
    found = {one: settings.item_origins.get(f"permissions.{one}", ()) for one in _EFFECTS}
    return Origins(
        {effect: tuple(map(str, origins)) for effect, origins in found.items()},
        settings.origin("permissions.mode").where or "the default",
        KeptRules(around.paths.state_dir, around.folder),
    )


def permissions_of(around: Surroundings) -> Permissions:
    """Return the rules a session here would begin with; raise `StartError` for a bad one."""
    return Permissions(policy_of(around), origins_of(around))
