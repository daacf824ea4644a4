"""What a host and a network do wrong, and what becomes of the turn: every fault over every protocol."""
