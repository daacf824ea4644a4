"""Pipe mode: one prompt in, one turn, and its events as text, one JSON object, or JSON lines.

Sees a turn only as `TurnEvent` values of a `Conversation`. Knows no provider, no tool and no app. stdout carries the
answer (or the JSON) and nothing else; what is for a person goes to stderr. Read `run` first.
"""

from __future__ import annotations

from qcode.agent.outcomes import exit_code
from qcode.headless.lines import HeadlessSetup, OutputFormat
from qcode.headless.run import run_headless

__all__ = ["HeadlessSetup", "OutputFormat", "exit_code", "run_headless"]
