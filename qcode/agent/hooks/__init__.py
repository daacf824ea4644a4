"""Hooks: programs and functions of the user that see the events of a session, and may restrict it.

`events` has the events and the handlers, `runner` runs the handlers of one event and merges their answers, `session`
is the interface for a conversation. The package loads only if a hook is configured. `answers` decides which answers
count.
"""
