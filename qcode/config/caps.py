"""Which output cap the person asked for, if any: a flag, then files, then the environment.

In files the model's own cap beats the global one. Everywhere else the environment beats files; here it does not.
"""

from __future__ import annotations

from qcode.config.schema import dotted
from qcode.config.settings import Origin, Settings
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class CapOverride:
    """An output cap in tokens that was asked for, and where. It is not yet fitted to the model's own limit."""

    tokens: int
    origin: Origin


def output_override(settings: Settings, model: str) -> CapOverride | None:
    """Return the cap that holds for `provider/model`, or None when nobody asked for one."""
    tokens = settings.output_for(model).max_tokens
    if tokens is None:
        return None
    own, general = dotted(("models", model, "output", "max_tokens")), settings.origin("output.max_tokens")
    is_own = own in settings.origins and general.kind != "flag"
    return CapOverride(tokens, settings.origin(own) if is_own else general)
