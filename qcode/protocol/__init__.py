"""The frozen values that all packages share, without a clock, a disk or a network.

The package imports only `text` and `values`: no asyncio, os, time or random, and no third-party package. Read
`messages` first, then `reply` (the events of a provider) and `events` (the events for a front end).
"""
