"""Sub-agents: turns inside a turn, each with a transcript of its own and never more rights than the person gave.

A sub-agent is the same engine and the same driver as any turn. Start at `agents`, then `run`.
"""
