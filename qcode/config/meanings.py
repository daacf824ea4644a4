"""What each setting means, in one line for a list of them; `docs/configuration.md` says more."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "model": "the model to start with, as provider/model",
    "small_model": "the model that writes summaries (not set: the model in use) and names sessions (not set: nobody)",
    "output.max_tokens": "output cap of each request; set, a cut reply is continued and not asked for again",
    "output.escalate": "ask again with a larger cap when a reply was cut",
    "output.max_continuations": "how often a reply that is still cut is continued",
    "output.policy": "continue: a cut reply of plain text is continued instead of asked for again",
    "output.tool_call_repair": "what happens to a cut call that writes a file",
    "output.max_tool_repair_attempts": "incomplete calls in a row that are sent back before the turn ends",
    "output.max_total_completion_tokens": "most tokens of one reply, all attempts together",
    "output.max_total_output_chars": "most characters of one reply, all attempts together",
    "output.min_escalation_gain": "do not ask again for less than this ratio of caps",
    "network.connect_timeout_s": "seconds until a connection stands",
    "network.first_event_timeout_s": "seconds until a reply begins",
    "network.idle_timeout_s": "seconds of silence within a reply",
    "network.max_retries": "how often a request that failed in passing is sent again",
    "network.retry_after_max_s": "longest wait in seconds that a server may ask for",
    "permissions.mode": "the permission mode to start in",
    "permissions.allow": "what runs without asking",
    "permissions.ask": "what always asks",
    "permissions.deny": "what never runs",
    "tools.shell_timeout_s": "seconds a command may run",
    "tools.max_output_chars": "how much of a result the model sees; not set: each tool's own limit",
    "tools.tool_timeout_s": "seconds any other tool may run; not set: each tool's own limit",
    "tools.agents": "the model may hand tasks to sub-agents",
    "tools.web_search": "who searches the web: nobody, the host of the model, or a service you have a key for",
    "tools.sandbox": "walls around commands; required: do not start without them",
    "ui.theme": "colours; auto: light or dark as the terminal says",
    "ui.linear": "lines instead of a screen, for screen readers and logs",
    "ui.bell": "ring when a turn ends or needs an answer",
    "ui.title": "show in the terminal's title what qcode does",
    "ui.show_thinking": "what becomes of the model's thinking once it is over",
    "ui.mouse": "use the mouse",
    "sessions.retention_days": "days after which a session nobody wrote to is removed; 0 keeps them all",
}
