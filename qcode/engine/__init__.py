"""Decides: the turn machine, the reply and its recovery, seams, output caps, the rules of a transcript.

Pure: no clock, no disk, no network, no randomness, no third-party package; time and chance arrive as data.
Start with `turn` (what happens next), then `reply` (one reply over several attempts) and `recovery` (the table).
"""
