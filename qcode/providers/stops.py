"""Turning a provider's stop reason into ours. The maps themselves stand in each codec, keyed by string.

Pure. Compatible servers send words no SDK lists, and upgrades add some: what no map knows is `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Mapping

from qcode.protocol.stops import StopReason


def normalise(table: Mapping[str, StopReason], raw: str, *, has_calls: bool) -> StopReason:
    """Look `raw` up as it is, then in lower case.

    A reply that ended its turn with calls in it wants them run: Gemini says so for every reply with calls, and
    several compatible servers do.
    """
    stop = table.get(raw) or table.get(raw.lower(), StopReason.UNKNOWN)
    return StopReason.TOOL_USE if has_calls and stop is StopReason.END_TURN else stop
