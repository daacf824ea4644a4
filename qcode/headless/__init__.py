"""Pipe mode: runs one turn for a prompt and writes its events as text, one JSON object, or JSON lines.

It is a client of `agent.Agent`: it submits a prompt and receives `TurnEvent` values, and uses no provider or app code.
stdout contains only the answer or the JSON; messages to the user go to stderr. `host` implements the control protocol
of SDKs. Read `run` first.
"""
