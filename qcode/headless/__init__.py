"""Pipe mode: one prompt in, one turn, and its events as text, one JSON object, or JSON lines.

A client of `agent.Agent`: it submits, and sees a turn as `TurnEvent` values. Knows no provider, no tool and no app.
stdout carries the answer (or the JSON) and nothing else; messages to the user go to stderr. Read `run` first.
"""
