"""The agent for Python programs: turns with a result, Python functions as tools, and answers of a requested type.

Start at `turns`. The package `qcode` exports the public names.
"""
