"""The hooks of one session, except those of tool calls.

`SessionHooks` belongs to a conversation, `HookScope` to the conversation or one of its sub-agents. A scope adds the
common fields to the inputs of hooks, and shows their notices to the user. Hooks of events that cannot change anything
run in parallel with the turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qcode.agent.hooks.events import END_TIMEOUT_S, HookInput
from qcode.engine.effects import Compact, Confirm, Confirmed
from qcode.protocol.approvals import Approval, ApprovalMode, Question, claude_mode
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import (
    ApprovalRequested,
    Compacted,
    CompactionStarted,
    HookEnded,
    HookStarted,
    Notice,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from qcode.protocol.messages import Message, Text
from qcode.protocol.reply import Outcome
from qcode.text.clean import clean
from qcode.text.json import JsonObject
from qcode.text.numbers import uuid_text
from qcode.tools.output import bounded_text
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.hooks.answers import HookAnswer
    from qcode.agent.hooks.runner import HookRunner
    from qcode.agent.hooks.sources import UnusedHook
    from qcode.agent.hooks.transcript import TranscriptFile

MAX_CONTEXT_CHARS = 10_000
"""The maximum number of characters of one text of a hook for the model; a longer text is saved to a file."""
_MAX_SHOWN_CONTEXT_CHARS = 2_000
"""The number of characters that the model gets of a longer text."""
IDLE_S = 60.0
"""The idle time after a turn until a notification is sent, as in Claude Code."""
_IDLE_TEXT = "qcode is waiting for your input"
_CLAUDE_ERROR_NAMES: dict[str, str] = {
    ErrorKind.RATE_LIMIT: "rate_limit",
    ErrorKind.QUOTA: "billing_error",
    ErrorKind.AUTH: "authentication_failed",
    ErrorKind.NO_CREDENTIAL: "authentication_failed",
    ErrorKind.BAD_REQUEST: "invalid_request",
    ErrorKind.OVERLOADED: "server_error",
    ErrorKind.SERVER: "server_error",
}
_EVENT_BY_STEP: Mapping[Literal["stop", "compact"], str] = {"stop": "Stop", "compact": "PreCompact"}
"""The event whose hooks confirm a step of a turn."""
Show = Callable[[TurnEvent], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The current state of a session, which is part of each input."""

    session_id: str
    mode: ApprovalMode
    model: str


class SessionHooks:
    """The hooks of a session.

    `facts` returns the current state of the session, `scratch` a private folder for long texts. The transcripts are
    kept in `state_dir`; if it is None, they are in the scratch folder, which is removed at the end. `source` is the
    reason for the next SessionStart hooks: `startup`, `resume`, `fork`, later also `clear` or `compact`.
    """

    def __init__(
        self,
        runner: HookRunner,
        facts: Callable[[], SessionFacts],
        *,
        state_dir: Path | None,
        folder: Path,
        scratch: Callable[[], Path],
        redact: Callable[[str], str],
        source: str,
    ) -> None:
        self.runner = runner
        self.show: Show = self._hold_event  # shows an event to the user; between turns, holds it for the next turn
        self.scope = HookScope(self)
        self._facts = facts
        self._state_dir = state_dir
        self._folder = folder
        self._scratch = scratch
        self._redact = redact
        self._source = source  # empty after the SessionStart hooks ran
        self._transcript: TranscriptFile | None = None
        self._transcript_name = ""  # the id of the session
        self._unwritten_messages: list[tuple[datetime, Message]] = []
        self._prompt_id = ""
        self.prompt_context: tuple[Text, ...] | None = ()
        """The text that hooks add to the current prompt; None if the prompt is not sent."""
        self._start_contexts: list[str] = []
        self._held_events: list[TurnEvent] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._prompt_task: asyncio.Task[Any] | None = None
        self._compaction_trigger = "auto"
        self._compaction_summary = ""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._has_ended = False
        self.end_reason = "other"  # the reason that SessionEnd hooks get
        self.unused: tuple[UnusedHook, ...] = ()  # the configured hooks that do not run

    @property
    def steps_to_confirm(self) -> frozenset[Literal["stop", "compact"]]:
        """The steps of a turn that hooks must confirm."""
        return frozenset(step for step, event in _EVENT_BY_STEP.items() if self.runner.has(event))

    async def emit(self, event: HookStarted | HookEnded) -> None:
        """Show the user that a slow hook started, or that a hook ended."""
        await self.show(event)

    async def _hold_event(self, event: TurnEvent) -> None:
        self._held_events.append(event)

    def end_turn(self, unshown: Sequence[TurnEvent] = ()) -> None:
        """Hold events from now on, because no turn is running to show them; first the `unshown` events of the turn."""
        self.show = self._hold_event
        self._held_events += unshown

    def take_held_events(self) -> list[TurnEvent]:
        """Return the events that arrived while no turn ran."""
        events, self._held_events = self._held_events, []
        return events

    def open_transcript(self, messages: Sequence[Message]) -> None:
        """Start the transcript of a session with its existing messages.

        The file is written when the first hook gets its path, because most turns run no hook.
        """
        self._transcript = None
        self._transcript_name = self._facts().session_id
        now = datetime.now(UTC)
        self._unwritten_messages = [(now, message) for message in messages]

    def _transcript_path(self) -> str:
        """Return the path of the transcript, which exists now and gets each further message at once."""
        if not self._transcript_name:
            return ""
        if self._transcript is None:
            self._transcript = self._create_transcript(self._transcript_name)
            self._transcript.begin(self._unwritten_messages)
            self._unwritten_messages = []
        return str(self._transcript.path)

    def _create_transcript(self, name: str) -> TranscriptFile:
        from qcode.agent.hooks.transcript import TranscriptFile  # loads with the first hook that runs

        return TranscriptFile(self._state_dir or self._scratch(), name, self._folder, self._redact)

    def record(self, message: Message) -> None:
        """Add a committed message to the transcript."""
        now = datetime.now(UTC)
        if self._transcript is None:
            self._unwritten_messages.append((now, message))
        else:
            self._transcript.append(message, now)

    def begin_session(self, source: str, messages: Sequence[Message]) -> None:
        """Begin another session. The SessionEnd hooks run now, the SessionStart hooks before the next prompt."""
        self._cancel_idle_notice()
        reason = "clear" if source == "clear" else "resume"
        if self.runner.has("SessionEnd"):
            # `common_fields` would name the new session, which is already open.
            ended: JsonObject = {"session_id": self._transcript_name, "transcript_path": self._transcript_path()}
            self.spawn("SessionEnd", HookInput({"reason": reason, **ended}, names=(reason,)))
        self._source = source
        self._start_contexts.clear()
        self.open_transcript(messages)

    async def end(self) -> None:
        """Wait for the background hooks and cancel them after `END_TIMEOUT_S`; then run the SessionEnd hooks.

        A second call does nothing.
        """
        self._cancel_idle_notice()
        if self._has_ended:
            return
        self._has_ended = True
        # Tasks of another event loop ended with that loop.
        tasks = {task for task in self._tasks if task.get_loop() is asyncio.get_running_loop()}
        if tasks:
            await asyncio.wait(tasks, timeout=END_TIMEOUT_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.runner.has("SessionEnd"):
            await self.scope.run("SessionEnd", [HookInput({"reason": self.end_reason}, names=(self.end_reason,))])

    def end_now(self, reason: str) -> None:
        """Run the SessionEnd hooks for a front end whose event loop has ended; Ctrl+C ends them."""
        self.end_reason = reason
        if self.runner.has("SessionEnd"):
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(self.end())

    async def _run_session_start(self) -> None:
        """Run the SessionStart hooks if the session has just begun or was compacted; their text precedes the prompt."""
        source = self._source
        if source and self.runner.has("SessionStart"):
            fields: JsonObject = {"source": source, "model": self._facts().model}
            answer = await self.scope.run("SessionStart", [HookInput(fields, names=(source,))])
            self._start_contexts += [self.scope.in_hook_tag("SessionStart", text) for text in answer.context]
        self._source = ""

    async def run_before_prompt(self, prompt: str) -> AsyncGenerator[TurnEvent, None]:
        """Run the UserPromptSubmit hooks, before the first prompt also the SessionStart hooks; yield their events.

        `prompt_context` has their text for the model. If a hook blocks the prompt or the user cancels, `prompt_context`
        is None, and the last events are `TurnStarted` and `TurnEnded` of a turn whose prompt is not sent.
        """
        self._cancel_idle_notice()
        queue: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        self.show = queue.put
        self.prompt_context = None
        self._prompt_task = task = asyncio.ensure_future(self._run_prompt_hooks(prompt))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            for event in self.take_held_events():
                yield event
            while (next_event := await queue.get()) is not None:
                yield next_event
        finally:
            self._prompt_task = None
            self.show = self._hold_event
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            # A background hook may have shown an event after the end of the task.
            queued = [queue.get_nowait() for _ in range(queue.qsize())]
            self._held_events += [event for event in queued if event is not None]
        for event in self.take_held_events():
            yield event
        block_reason = "" if task.cancelled() else task.result()
        if self.prompt_context is None:
            for event in _unsent_turn(prompt, block_reason):
                yield event

    async def _run_prompt_hooks(self, prompt: str) -> str:
        """Run the hooks of a prompt; return why they block it, empty if they do not."""
        self._prompt_id = ""  # `common_fields` creates the id of this prompt when the first hook runs
        await self._run_session_start()
        added: list[str] = []
        if self.runner.has("UserPromptSubmit"):
            answer = await self.scope.run("UserPromptSubmit", [HookInput({"prompt": prompt})])
            if answer.stops_turn or answer.decision == "deny":
                return answer.stop_reason or answer.reason or "no reason was given"
            added = [self.scope.in_hook_tag("UserPromptSubmit", text) for text in answer.context]
        start_contexts, self._start_contexts = self._start_contexts, []
        self.prompt_context = tuple(Text(text) for text in (*start_contexts, *added))
        return ""

    @property
    def is_prompting(self) -> bool:
        """Whether the hooks before a prompt are running now."""
        return self._prompt_task is not None

    def cancel(self) -> None:
        """End the hooks that run before a turn."""
        if self._prompt_task is not None:
            self._prompt_task.cancel()

    async def confirm(self, request: Confirm) -> Confirmed:
        """Ask the hooks to confirm a step of the conversation's turn."""
        if not self.runner.has(_EVENT_BY_STEP[request.step]):
            return Confirmed()
        if request.step == "compact":
            trigger = "manual" if request.is_asked else "auto"
            fields: JsonObject = {"trigger": trigger, "custom_instructions": request.text}
            answer = await self.scope.run("PreCompact", [HookInput(fields, names=(trigger,))])
            if answer.stops_turn or answer.decision == "deny":
                return Confirmed(reason=answer.stop_reason or answer.reason or "no reason was given")
            return Confirmed()
        fields = {
            "stop_hook_active": request.is_again,
            "last_assistant_message": request.text,
            "background_tasks": [],
            "session_crons": [],
        }
        return await self.scope.confirm_stop("Stop", fields, names=())

    def observe(self, event: TurnEvent, *, is_attended: bool) -> None:
        """Start the hooks of an event that has already happened; they run in parallel with the turn.

        `is_attended`: a user is present who can answer, so the Notification hooks run too.
        """
        match event:
            case ApprovalRequested(approval=approval) if is_attended:
                self._notify(_notification_type(approval), approval.question)
            case TurnEnded(outcome=Outcome.ERROR | Outcome.MAX_TOKENS) if self.runner.has("StopFailure"):
                error = _claude_error_name(event)
                message = event.error.message if event.error is not None else ""
                fields: JsonObject = {
                    "error": error,
                    "error_details": message,
                    "last_assistant_message": event.text,
                }
                self.spawn("StopFailure", HookInput(fields, names=(error,)))
            case CompactionStarted(cause=cause):
                self._cancel_idle_notice()
                self._compaction_trigger = "manual" if cause == "asked" else "auto"
            case Compacted():
                fields = {"trigger": self._compaction_trigger, "compact_summary": self._compaction_summary}
                self.spawn("PostCompact", HookInput(fields, names=(self._compaction_trigger,)))
                self._source = self._source or "compact"  # the SessionStart hooks run again before the next prompt
            case _:
                pass
        if isinstance(event, TurnEnded) and is_attended and self.runner.has("Notification"):
            self._cancel_idle_notice()
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_S, self._notify, "idle_prompt", _IDLE_TEXT)

    def _notify(self, kind: str, message: str) -> None:
        fields: JsonObject = {"message": message, "title": "qcode", "notification_type": kind}
        self.spawn("Notification", HookInput(fields, names=(kind,)))

    def _cancel_idle_notice(self) -> None:
        """Cancel the idle notification, because the user is active."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def record_compaction(self, effect: Compact) -> None:
        """Record the summary of a compaction for the PostCompact hooks."""
        self._compaction_summary = next(
            (part.text for part in effect.items if isinstance(part, Message) and part.text), ""
        )

    def spawn(self, event: str, hook_input: HookInput) -> None:
        """Run the handlers of an event in parallel with the turn."""
        if not self.runner.has(event):
            return

        async def run_handlers() -> None:
            await self.scope.run(event, [hook_input])

        task = asyncio.get_running_loop().create_task(run_handlers())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def common_fields(self, event: str) -> JsonObject:
        """Return the fields that the inputs of all events have."""
        facts = self._facts()
        if not self._prompt_id:
            self._prompt_id = uuid_text(os.urandom(16))
        return {
            "session_id": facts.session_id,
            "prompt_id": self._prompt_id,
            "transcript_path": self._transcript_path(),
            "cwd": str(self._folder),
            "permission_mode": claude_mode(facts.mode),
            "hook_event_name": event,
        }

    def limit_text(self, text: str) -> str:
        """Return a text for the model; a long text is saved to a file, and its beginning and end are returned."""
        text = clean(text)
        return text if len(text) <= MAX_CONTEXT_CHARS else bounded_text(text, _MAX_SHOWN_CONTEXT_CHARS, self._scratch)


class HookScope:
    """The hooks of the conversation, or of the sub-agent with `agent_id` and `agent_type`."""

    def __init__(self, session: SessionHooks, agent_id: str = "", agent_type: str = "") -> None:
        self._session = session
        self._agent: JsonObject = {"agent_id": agent_id, "agent_type": agent_type} if agent_id else {}
        self._transcript: TranscriptFile | None = None

    def for_subagent(self, agent_id: str, agent_type: str) -> HookScope:
        """Return the scope of a sub-agent, which has a separate transcript."""
        scope = HookScope(self._session, agent_id, agent_type)
        session_id = self._session._facts().session_id
        file_id = "".join(char if char.isalnum() or char in "-_" else "_" for char in agent_id)
        scope._transcript = self._session._create_transcript(f"{session_id}-{file_id}")
        scope._transcript.begin()
        return scope

    def has(self, event: str) -> bool:
        return self._session.runner.has(event)

    def record(self, message: Message) -> None:
        """Add a message of the sub-agent to its transcript."""
        if self._transcript is not None:
            self._transcript.append(message, datetime.now(UTC))

    async def run(self, event: str, inputs: Sequence[HookInput], whole_patch: HookInput | None = None) -> HookAnswer:
        """Run the handlers of an event, and show their messages and failures to the user.

        `inputs` may be the files of a patch; handlers for the patch tool itself then get `whole_patch`.
        """
        session = self._session
        common = {**session.common_fields(event), **self._agent}
        complete_inputs = [_with_fields(hook_input, common) for hook_input in inputs]
        complete_patch = None if whole_patch is None else _with_fields(whole_patch, common)
        answer = await session.runner.run(event, complete_inputs, session.emit, complete_patch)
        for line in answer.failures:
            await self.warn(line)
        for text in answer.messages:
            await session.show(Notice("warning", f"{event} hook: {text}"))
        return answer

    async def warn(self, text: str) -> None:
        """Show a failure of a hook to the user."""
        await self._session.show(Notice("warning", text))

    def in_hook_tag(self, event: str, text: str) -> str:
        """Return the text of a hook for the model, in a `<hook>` tag."""
        body = self.limit_text(text).replace("</hook", "< /hook")
        return f'<hook event="{event}">\n{body}\n</hook>'

    def limit_text(self, text: str) -> str:
        return self._session.limit_text(text)

    async def run_subagent_start(self) -> list[Text]:
        """Run the SubagentStart hooks of this sub-agent; return the text they add to its task."""
        if not self.has("SubagentStart"):
            return []
        answer = await self.run("SubagentStart", [HookInput({}, names=(str(self._agent["agent_type"]),))])
        return [Text(self.in_hook_tag("SubagentStart", text)) for text in answer.context]

    async def confirm_subagent_stop(self, request: Confirm) -> Confirmed:
        """Ask the SubagentStop hooks whether this sub-agent may end."""
        fields: JsonObject = {
            "stop_hook_active": request.is_again,
            "last_assistant_message": request.text,
            "agent_transcript_path": "" if self._transcript is None else str(self._transcript.path),
        }
        return await self.confirm_stop("SubagentStop", fields, names=(str(self._agent["agent_type"]),))

    async def confirm_stop(self, event: str, fields: JsonObject, names: tuple[str, ...]) -> Confirmed:
        """Run the Stop or SubagentStop hooks; the reason of a denial is the next message to the model.

        `names` are the names that a matcher selects.
        """
        answer = await self.run(event, [HookInput(fields, names)])
        if answer.stops_turn:
            reason = f": {answer.stop_reason}" if answer.stop_reason else "."
            await self._session.show(Notice("info", f"A hook stopped the turn{reason}"))
            return Confirmed(is_final=True)
        if answer.decision == "deny":
            return Confirmed(reason=self.in_hook_tag(event, answer.reason or "Continue."))
        return Confirmed()


def _with_fields(hook_input: HookInput, common: JsonObject) -> HookInput:
    return replace(hook_input, fields={**common, **hook_input.fields})


def _notification_type(approval: Approval) -> str:
    """Return the type that Claude Code gives to the notification about an approval."""
    return "elicitation_dialog" if isinstance(approval, Question) and approval.server else "permission_prompt"


def _unsent_turn(prompt: str, block_reason: str) -> tuple[TurnEvent, ...]:
    """Return the events of a turn whose prompt is not sent: a hook blocked it, or the user cancelled (no reason)."""
    outcome, error = Outcome.CANCELLED, None
    if block_reason:
        outcome = Outcome.ERROR
        error = ErrorInfo(ErrorKind.PROMPT_BLOCKED, f"a hook blocked the prompt: {block_reason}")
    ended = TurnEnded.without_reply(outcome, error=error)
    return TurnStarted(prompt), ended


def _claude_error_name(ended: TurnEnded) -> str:
    """Return Claude Code's name for the failure of a turn."""
    if ended.outcome is Outcome.MAX_TOKENS:
        return "max_output_tokens"
    return _CLAUDE_ERROR_NAMES.get(ended.error.kind, "unknown") if ended.error is not None else "unknown"
