"""Output limits over real HTTP: rows that say what a host does and what must hold, and how a row is played.

`row` is the vocabulary, `host` the fake host's side, `play` runs a row, `checks` and `invariants` judge it, `table`
holds the rows.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.e2e.limits.checks", "tests.e2e.limits.invariants", "tests.e2e.limits.table")
