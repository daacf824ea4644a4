"""Counting tokens offline with one vocabulary that ships inside the package (o200k_base).

For prompts a provider has not counted yet, where their bytes do not show already that they fit; a provider's own
figure is better wherever there is one. tiktoken loads with the vocabulary, never on import, and nothing here uses a
network. `counter` is what others use; `vocabulary` reads the data, `build` makes it.
"""

from __future__ import annotations

from qcode.providers.counting.counter import TokenCounter

__all__ = ["TokenCounter"]
