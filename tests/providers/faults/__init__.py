"""Faults of hosts and networks, and the outcome of the turn: every fault over every protocol."""
