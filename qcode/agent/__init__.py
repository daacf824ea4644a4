"""The agent as a library: performs what the engine asks for, keeps sessions, and holds the services of front ends.

All I/O of a turn happens in this room. It leaves the decisions of a turn to the engine, and displays nothing.
Start at `agent`, which opens everything, then `conversation`, `models.client` and `driver`.
"""
