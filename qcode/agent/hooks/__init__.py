"""Hooks: programs and functions of the user that see the events of a session, and may narrow it.

`events` has the events and the handlers, `runner` runs the handlers of one event and merges their answers, `session`
is the interface for a conversation. The package loads only if a hook is configured. A hook never grants a right:
`answers` decides which answers count.
"""
