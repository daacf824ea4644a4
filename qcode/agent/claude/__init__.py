"""Claude Code's tool names, settings and file formats, as hooks, SDK hosts and imported folders use them.

Nothing here grants a permission: translated calls are validated and judged like calls of the model.
"""
