"""What hosts taught about their models, in lines for a person: `qcode models` and `qcode doctor` show the same."""

from __future__ import annotations

from qcode.engine.knowledge import HostKnowledge
from qcode.runtime.limits import LimitStore


def learned_lines(limits: LimitStore, wanted: str = "") -> list[str]:
    """Return a line for each model with `wanted` in its name that a host taught something about."""
    rows = sorted(limits.everything().items())
    return [f"learned from {host}: {model}  {_facts(known)}" for (host, model), known in rows if wanted in model]


def _facts(known: HostKnowledge) -> str:
    facts = [
        f"window {known.window:,}" if known.window else "",
        f"output {known.output:,}" if known.output else "",
        "silently capped: nothing is escalated" if known.is_silently_capped else "",
        "refuses prefill: text is continued in words" if known.refuses_prefill else "",
    ]
    return ", ".join(fact for fact in facts if fact) or "nothing yet"
