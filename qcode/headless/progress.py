"""What is happening now, in a few words: for the one live line on a terminal, and for `-v`. Pure."""

from __future__ import annotations

from qcode.protocol import events as ev
from qcode.protocol.events import TurnEvent
from qcode.protocol.reply import ReasoningDelta, TextDelta, WebSearched


class Progress:
    """Feed it every event; `status` says what the turn is doing. Nothing of the model's text is in it."""

    def __init__(self) -> None:
        self.status = "starting"
        self._size = 0

    def see(self, event: TurnEvent) -> None:
        match event:
            case ev.StepStarted(step=step):
                self._size = 0
                self.status = "waiting for the model" if step == 1 else f"waiting for the model (reply {step})"
            case ReasoningDelta():
                self.status = "thinking"
            case TextDelta(text=text):
                self._size += len(text)
                self.status = f"writing, {self._size:,} characters"
            case ev.ToolCallProgress(name=name, size=size):
                self.status = f"preparing {name}, {size:,} characters"
            case ev.CompactionStarted():
                self.status = "compacting the conversation"
            case ev.Retry(reason="context"):
                self.status = "going on with more room"
            case ev.Retry():
                self._size = self._size if event.is_continuation else 0
                self.status = f"{_cause(event)}, {_remedy(event)}"
            case ev.AgentEvent(event=ev.ToolStarted(call=call)):
                self.status = f"a sub-agent is running {call.name}"
            case ev.ToolStarted(call=call):
                self.status = f"running {call.name}"
            case ev.Waiting(seconds=seconds, why=why):
                self.status = f"waiting {seconds:.0f} s: {why}"
            case _:
                pass


def remark(event: TurnEvent) -> str:
    """Return what `-v` says of an event; empty for most."""
    match event:
        case ev.AgentEvent(event=inner):
            said = remark(inner)
            return f"sub-agent: {said}" if said else ""
        case ev.Notice(text=text):
            return text
        case WebSearched():
            cited = ", ".join(source.url for source in event.sources)
            return f"searched the web for {'; '.join(event.queries)}" + (f"; cited: {cited}" if cited else "")
        case ev.Compacted():
            return f"the conversation was compacted: about {event.before_tokens:,} to {event.after_tokens:,} tokens"
        case ev.Retry(reason="context"):
            return "the context window was full: going on with more room"
        case ev.Retry():
            return f"{_cause(event)}: {_remedy(event)}"
        case ev.PartialRestored():
            return "the new attempt came to nothing: the text before it is kept"
        case ev.Waiting():
            return f"waiting {event.seconds:.1f} s before retry {event.attempt}: {event.why}"
        case ev.ToolFinished():
            detail = event.outcome.summary
            return f"{event.call.name}: {event.state}" + (f", {detail}" if detail else "")
        case _:
            return ""


def _cause(retry: ev.Retry) -> str:
    """Only the output limit cuts a reply; a stream that broke, or thinking that left no room, is something else."""
    match retry.reason:
        case "max_tokens":
            return "the reply was cut by the output limit"
        case "transport":
            return "the connection broke"
        case "thinking":
            return "thinking took all of the output"
        case "call":
            return "a tool call came incomplete"
        case _:
            return retry.reason


def _remedy(retry: ev.Retry) -> str:
    match retry.reason, retry.is_continuation:
        case "max_tokens", False:
            return f"starting over with up to {retry.max_tokens:,} tokens"
        case "thinking", _:
            return "asking for the answer now"
        case "call", _:
            return f"asking for the rest of it, attempt {retry.attempt}"
        case _, is_continuation:
            return f"{'continuing' if is_continuation else 'starting over'}, attempt {retry.attempt}"


def elapsed(seconds: float) -> str:
    """Return a duration as `8 s` or `2 min 05 s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
