"""The answer of a turn as far as events have told it: what is printed when a turn is cut short before it can say.

Pure. The rule is the one of the turn itself: the text of the last reply that has any, with what it paused on; of a
reply that started over, the longer of the old and the new text.
"""

from __future__ import annotations

from qcode.protocol.events import PartialRestored, ReplyFinished, Retry, StepStarted, TurnEvent
from qcode.protocol.reply import TextDelta
from qcode.protocol.stops import StopReason


class AnswerSoFar:
    """Feed it every event; `text` is the answer at that point."""

    def __init__(self) -> None:
        self._settled = ""
        self._paused = ""
        self._set_aside = ""
        self._live: list[str] = []

    def see(self, event: TurnEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._live.append(text)
            case Retry(is_continuation=False):
                self._set_aside = self._reply_text()
                self._live = []
            case PartialRestored(text=text):
                self._set_aside, self._live = "", [text]
            case ReplyFinished(message=message):
                text = self._paused + (message.text if message else "")
                self._settled = text if text.strip() else self._settled
                self._paused = text if event.stop is StopReason.PAUSED else ""
                self._set_aside, self._live = "", []
            case StepStarted():
                self._settled = self.text
                self._set_aside, self._live = "", []
            case _:
                pass

    @property
    def text(self) -> str:
        text = self._paused + self._reply_text()
        return text if text.strip() else self._settled

    def _reply_text(self) -> str:
        live = "".join(self._live)
        return live if len(live) > len(self._set_aside) else self._set_aside
