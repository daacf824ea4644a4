"""What the demo model sees in a request: who asked for what, which calls ran, and where a cut reply stopped.

Everything comes from the request alone, so the same request gives the same reply whenever it is sent. Requests
that qcode makes on its own (go on, answer now, the rest of a call) are known by their plain words.
"""

from __future__ import annotations

import re

from qcode.protocol.messages import Message, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.protocol.values import dataclass

_GO_ON = re.compile(r"\b(continue|resume|go on|carry on|pick up)\b", re.IGNORECASE)
_WAS_CUT = re.compile(r"\b(limit|cut|stopped|broke|broken|interrupted)\b", re.IGNORECASE)
_TYPED_GO_ON = re.compile(r"\W*(please\s+)?(continue|go on|keep going|carry on|resume)(\s+please)?\W*", re.IGNORECASE)
_HURRY = re.compile(r"\banswer\b[^.\n]{0,40}\b(now|directly|straight away|right away|at once)\b", re.IGNORECASE)
_MACHINE = re.compile(r"\boutput[- ](token )?limit|\boutput tokens\b|\braw JSON\b", re.IGNORECASE)
_TAGGED = re.compile(r"<([A-Za-z][\w-]*)[^>\n]*>\n?(.*?)\n?</\1>", re.DOTALL)
_TICKED = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)\n\1", re.DOTALL | re.MULTILINE)
_SPARING = frozenset({"none", "minimal", "low"})


@dataclass(frozen=True, slots=True)
class Step:
    """A call of this turn and its result."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Scene:
    """One request, understood.

    `wish` is what the person asked, `steering` what they added while the turn ran. `partial` is the text of this
    reply so far, None where the reply begins; `is_typed`: the person asked to go on in their own words. `tails` are
    passages quoted from a cut call whose rest is wanted as text. `is_sparing`: answer without thinking.
    `number` is that of the next call in the transcript, from 1.
    """

    wish: str
    steps: tuple[Step, ...] = ()
    steering: str = ""
    partial: str | None = None
    is_typed: bool = False
    tails: tuple[str, ...] = ()
    is_sparing: bool = False
    number: int = 1

    @property
    def last(self) -> Step | None:
        return self.steps[-1] if self.steps else None


def read_scene(request: ModelRequest, *, may_resume: bool = True) -> Scene:
    """Return what `request` shows; with `may_resume` False its last message is taken as a new wish."""
    messages = list(request.messages)
    latest = _words(messages[-1]) if messages else ""
    tails = () if request.allows_calls and request.tools else _quoted(latest)
    partial, is_typed = _take_partial(messages, bool(tails)) if may_resume else (None, False)
    start = max((at for at, message in enumerate(messages) if _is_wish(message)), default=0)
    turn = messages[start:]
    return Scene(
        wish=_wish(turn[0]) if turn else "",
        steps=_steps(turn),
        steering=_own_words(_words(turn[-1])) if len(turn) > 1 else "",
        partial=partial,
        is_typed=is_typed,
        tails=tails,
        is_sparing=request.effort in _SPARING or bool(_HURRY.search(latest)),
        number=sum(len(message.calls) for message in messages) + 1,
    )


def paragraphs(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def _take_partial(messages: list[Message], is_repair: bool) -> tuple[str | None, bool]:
    """Take the unfinished assistant text, and what asks to go on with it, off the end of `messages`."""
    partial: str | None = None
    is_typed = False
    if messages and messages[-1].role == "assistant":
        partial = messages.pop().text
    while len(messages) > 1 and _is_text_reply(messages[-2]) and _is_wish(messages[-1]):
        asked = _words(messages[-1])
        typed = bool(_TYPED_GO_ON.fullmatch(asked))
        if not (typed or is_repair or (_GO_ON.search(asked) and _WAS_CUT.search(asked))):
            break
        is_typed = is_typed or typed
        partial = messages[-2].text + (partial or "")
        del messages[-2:]
        is_repair = False
    return partial, is_typed


def _is_text_reply(message: Message) -> bool:
    return message.role == "assistant" and not message.calls and bool(message.text)


def _is_wish(message: Message) -> bool:
    """Say whether `message` is a person's (or a resume) message, and not the results of calls."""
    return message.role == "user" and not any(isinstance(block, ToolResult) for block in message.blocks)


def _steps(turn: list[Message]) -> tuple[Step, ...]:
    calls = {call.call_id: call for message in turn for call in message.calls}
    results = [block for message in turn for block in message.blocks if isinstance(block, ToolResult)]
    return tuple(Step(calls[result.call_id], result) for result in results if result.call_id in calls)


def _words(message: Message) -> str:
    return "\n\n".join(block.text for block in message.blocks if isinstance(block, Text))


def _wish(message: Message) -> str:
    return _own_words(_words(message)) or _words(message)


def _own_words(text: str) -> str:
    """Return the paragraphs of `text` before the first one that qcode itself must have written."""
    kept: list[str] = []
    for paragraph in paragraphs(text):
        if _MACHINE.search(paragraph) or _HURRY.search(paragraph):
            break
        kept.append(paragraph)
    return "\n\n".join(kept)


def _quoted(text: str) -> tuple[str, ...]:
    return tuple(match[2] for pattern in (_TAGGED, _TICKED) for match in pattern.finditer(text) if match[2].strip())
