"""The agent for Python programs: turns with a result, functions as tools, typed answers, and one-way tools.

Start at `turns`. The package `qcode` exports the public names.
"""
