"""How a stream ends, and turning a provider's stop reason into ours. The maps stand in each codec, keyed by string.

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


class Ending:
    """How far the stream of one reply has come, for decoders whose protocol has a stop reason and an end mark."""

    def __init__(self) -> None:
        self._raw_stop: str | None = None
        self._is_ended = False

    @property
    def is_complete(self) -> bool:
        """Whether a stop reason was seen, or the end mark of a server that gives none."""
        return self._raw_stop is not None or self._is_ended

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def end(self) -> None:
        """Take note of the end mark."""
        self._is_ended = True
