"""The values every room speaks: frozen, slotted, without behaviour that needs a clock, a disk or a network.

Nothing here imports another room, asyncio, os, time, random or a third-party package.
Read `messages` first, then `reply` (what a provider says), `events` (what a front end sees).
"""
