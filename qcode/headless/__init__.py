"""Pipe mode: runs one turn for a prompt and writes its events as text, one JSON object, or JSON lines.

A client of `agent.Agent`: it submits a prompt and receives `TurnEvent` values. It uses no provider, tool or app code.
stdout carries the answer (or the JSON) and nothing else; messages to the user go to stderr. Read `run` first.
"""
