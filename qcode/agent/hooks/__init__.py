"""Hooks: programs and functions of the user that see the events of a session, and may restrict it.

`events` defines the events and handlers. `runner` runs the handlers of one event. `answers` parses and merges their
answers. `session` is the interface for a conversation. The package is loaded only if a hook is configured.
"""
