"""The agent as a library: performs what the engine asks for, keeps sessions, and holds the services of front ends.

This is the only room that waits. It never decides what the engine decides, and shows nothing.
Start at `agent`, which opens everything, then `conversation`, `models.client` and `driver`.
"""
