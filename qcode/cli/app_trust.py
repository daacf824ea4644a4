"""`/trust` of the app: trusts the folder; what it brings is shown first where it is not what was trusted before."""

from __future__ import annotations

from qcode.cli.surroundings import Surroundings
from qcode.cli.trusting import remember
from qcode.cli.wiring import Wired
from qcode.runtime.trust import Standing, TrustStore
from qcode.tools.visible import visible

_MOST_NAMES = 10


class AppTrust:
    """Called for each `/trust`; returns what the person is told. A difference has to be seen before it is trusted."""

    def __init__(self, around: Surroundings, ready: Wired) -> None:
        self._around = around
        self._ready = ready
        self._shown: Standing | None = None

    def __call__(self) -> str:
        around, policy = self._around, self._ready.conversation.policy
        standing = TrustStore(around.paths.state_dir).look(around.root)
        if standing.kind in ("changed", "unpinned") and standing != self._shown:
            self._shown = standing
            return f"{_difference(standing)}\n\n/trust once more trusts it as shown, from the next start on."
        is_new = not policy.is_trusted
        if not is_new and standing.is_trusted:
            return f"This folder is trusted{_with(standing)}. A change of that is asked about."
        if is_new:
            self._ready.conversation.trust_folder()
        complaint = standing.problem or remember(around.root, around.paths.state_dir, standing.pieces)
        if complaint:
            return complaint
        return (
            f"This folder is trusted now{_with(standing)}: your rules and modes hold, its instructions from the next "
            "turn on. What else it brings is read from the next start on."
        )


def _difference(standing: Standing) -> str:
    if standing.kind == "changed":
        return f"What this folder brings is not what you trusted:\n\n{visible(standing.differences())}"
    names = "\n".join(f"  {visible(name)}" for name in standing.pieces)
    return f"You trusted this folder before qcode kept what a folder brings. It brings:\n\n{names}"


def _with(standing: Standing) -> str:
    names = [visible(name) for name in standing.pieces]
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f", with {', '.join(names[:_MOST_NAMES])}{more}" if names else ""
