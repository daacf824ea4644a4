"""Ratios measured in one run, never absolute times: `pytest -n 0 -m perf tests/perf`."""
