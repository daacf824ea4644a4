"""Counting tokens offline with one vocabulary that ships inside the package (o200k_base).

For prompts a provider has not counted yet and for text that still streams; a provider's own figure is better
wherever there is one. tiktoken loads with the first exact count, never on import, and nothing here uses a network.
`counter` is what others use; `vocabulary` reads the data, `build` makes it.
"""

from __future__ import annotations

from qcode.providers.counting.counter import StreamCounter, TokenCounter, estimate, upper_bound

__all__ = ["StreamCounter", "TokenCounter", "estimate", "upper_bound"]
