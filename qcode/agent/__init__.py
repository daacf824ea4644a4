"""The agent as a library: performs the effects of the engine, stores sessions, and offers the services of front ends.

All I/O of a turn happens in this package. The engine makes the decisions of a turn, and front ends display it.
Start at `agent`, which opens everything, then `conversation`, `models.client` and `driver`.
"""
