"""Output limits over real HTTP: rows with the behavior of a host and the expected result, and their player.

`row` is the vocabulary, `host` the fake host's side, `play` runs a row, `checks` and `invariants` judge it, `table`
holds the rows.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.e2e.limits.checks", "tests.e2e.limits.invariants", "tests.e2e.limits.table")
