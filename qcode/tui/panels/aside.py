"""The side question (`/btw`): a question about the conversation, answered above the prompt, also while a turn runs.

`AsideTalk` runs one side question at a time, in the app and in the linear mode. It keeps the last answer until the user
attaches it to the next message. `AsidePanel` shows the answer with a `Presenter`, as the transcript shows a turn; the
panel never has the focus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from qcode.protocol.approvals import TurnApproval
from qcode.protocol.events import TurnEnded, UsageUpdated
from qcode.protocol.reply import Outcome
from qcode.text.clean import one_line
from qcode.tui.presenter import Presenter
from qcode.tui.status import activity_text
from qcode.tui.transcript.layout import ReadingPosition
from qcode.tui.transcript.line import shorten
from qcode.tui.transcript.transcript import Transcript

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.usage import TurnUsage
    from qcode.protocol.messages import Text
    from qcode.tui.shared_widgets import ScrollTarget
    from qcode.tui.status import Activity

USAGE = "Type a question after /btw. The answer does not become part of the conversation."
_ONLY_CALLS = "The model called tools instead of answering, but an aside runs none. Ask again, or send a message."
_SCREEN_SHARE = 0.4
_MIN_ROWS = 3
_MIN_CELLS_FOR_WORDS = 44
"""The minimum width of a panel that shows the keys with their full labels."""


class AsideTalk:
    """Runs the side questions of the app or of the linear mode."""

    def __init__(
        self,
        agent: Agent,
        on_usage: Callable[[TurnUsage], None] = lambda used: None,
        attach: Callable[[str, Text], str] | None = None,
    ) -> None:
        """`on_usage` gets the usage of each side question.

        `attach` gets a side question and its block of the next message; it returns a confirmation for the user.
        """
        self._agent = agent
        self._on_usage = on_usage
        self._attach = attach or self._attach_to_next
        self._task: asyncio.Task[None] | None = None
        self._last_exchange: tuple[str, str] | None = None  # the last question and answer, None once attached

    @property
    def has_answer(self) -> bool:
        """Whether there is an answer that is not attached yet."""
        return self._last_exchange is not None

    async def ask(self, question: str, presenter: Presenter) -> None:
        """Ask `question` and show the answer; return when the answer has ended or was stopped."""
        self.stop()
        self._last_exchange = None
        task = self._task = asyncio.ensure_future(self._stream_answer(question, presenter))
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            if self._task is task:
                self._task = None
        if not task.cancelled():
            task.result()  # raises the error of the task, if any

    def stop(self) -> bool:
        """Cancel the request; return False if there is none."""
        task = self._task
        self._task = None
        if task is None:
            return False
        return task.cancel()

    def attach_answer(self) -> str:
        """Attach the last question and answer to the next message; return a confirmation, or how to use `/btw`."""
        if self._last_exchange is None:
            return USAGE
        from qcode.agent.context.attachments import aside_block

        question, answer = self._last_exchange
        self._last_exchange = None
        return self._attach(question, aside_block(question, answer))

    def _attach_to_next(self, _question: str, block: Text) -> str:
        self._agent.conversation.attach((block,))
        return "Attached the aside to your next message."

    async def _stream_answer(self, question: str, presenter: Presenter) -> None:
        try:
            async with aclosing(self._agent.side_questions.ask(question, on_usage=self._on_usage)) as events:
                async for event in events:
                    if isinstance(event, TurnEnded) and event.outcome is Outcome.MAX_TURN_REQUESTS:
                        presenter.abandon(_ONLY_CALLS)
                    else:
                        presenter.present(event)
                    if isinstance(event, TurnEnded) and event.text.strip():
                        self._last_exchange = question, event.text
                    # Let the app handle keys and paint, even if the provider yields events without ever waiting.
                    await asyncio.sleep(0)

        except ValueError as refusal:
            presenter.abandon(str(refusal))


class AsidePanel(Vertical):
    """The panel of a side question; hidden while closed.

    The panel also is the status line of its presenter (`StatusView`), and takes its questions (`Interaction`).
    """

    def __init__(self, clock: Callable[[], float], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._text = _AsideText(clock=clock, id="aside-text")
        self._text.can_focus = False
        self._title = Static(id="aside-title", markup=False)
        self._foot = Static(id="aside-foot", markup=False)
        self._question = ""
        self._activity_text = ""
        self.attach_key = "Ctrl+S"
        """The key that attaches question and answer to the prompt; empty if there is none."""
        self.display = False

    @property
    def is_open(self) -> bool:
        """Whether the panel is visible. An approval question and the help panel hide it."""
        return bool(self.display) and not (self.screen.has_class("-asking") or self.screen.has_class("-helping"))

    @property
    def plain(self) -> str:
        return self._text.plain_text()

    def presenter(self, question: str, max_continuations: int) -> Presenter:
        """Open the panel for `question` and return the presenter of its answer."""
        if not self.children:
            self.mount(self._title, self._text, self._foot)
            self.watch(self._text, "is_long", self._paint, init=False)
        self._question = one_line(question)
        self._text.begin()
        self.display = True
        self.show_activity(None)
        return Presenter(self._text, self, self, self._clock, max_continuations=max_continuations)

    def close(self) -> bool:
        """Hide the panel; return whether it was visible."""
        was_open = self.is_open
        if was_open:
            self.display = False
        return was_open

    def scroll(self, to: ScrollTarget) -> None:
        """Scroll the answer."""
        match to:
            case "page_up":
                self._text.scroll_page_up(animate=False)
            case "page_down":
                self._text.scroll_page_down(animate=False)
            case "home":
                self._text.scroll_home(animate=False)
            case "end":
                self._text.scroll_end(animate=False)

    def on_resize(self) -> None:
        self._paint()

    def show_activity(self, activity: Activity | None) -> None:
        self._activity_text = activity_text(activity, self._clock()) if activity is not None else ""
        self._paint()

    def show_usage(self, event: UsageUpdated) -> None:
        """Show nothing: the usage is counted at the end."""

    def add_turn(self, event: TurnEnded) -> None:
        """Show nothing: the usage is counted at the end."""

    def ask(self, approval: TurnApproval, position: str) -> None:
        """Ask nothing: a side question runs no calls."""

    def withdraw(self, approval_id: str) -> bool:
        """Do nothing: a side question needs no answers of the user."""
        return False

    def show_steering(self, text: str) -> None:
        """Show nothing: a side question is not steered."""

    def _paint(self) -> None:
        from qcode.tui.shared_widgets import key_hints

        width = max(1, self.size.width - 2)
        title = Content.assemble(("btw ", "bold"), shorten(self._question, max(1, width - 4)))
        self._title.update(title)
        attach = (self.attach_key, "attach to prompt" if width >= _MIN_CELLS_FOR_WORDS else "attach")
        keys = [attach] if self.attach_key and not self._activity_text else []
        if self._text.is_long:
            keys.append(("PgUp PgDn", "scroll"))
        line = key_hints([*keys, ("Esc", "close")], width)
        if self._activity_text:
            line = Content.assemble((f"{self._activity_text}  ·  ", "$text-accent"), line).truncate(
                width, ellipsis=True
            )
        self._foot.update(line)


class _AsideText(Transcript):
    """A transcript as high as its text, up to a share of the screen. The view of a longer text stays at its start."""

    is_long = reactive(False)
    """The text is longer than the view."""

    def begin(self) -> None:
        """Show an empty text, whose beginning stays in view until the user scrolls."""
        self.is_long = False
        self.clear()

    def after_changes(self) -> None:
        super().after_changes()
        limit = max(_MIN_ROWS, int(self.app.size.height * _SCREEN_SHARE))
        self.styles.height = max(1, min(self.row_layout.height, limit))
        was_long = self.is_long
        self.is_long = self.row_layout.height > limit
        if self.is_long and not was_long and self.is_anchored:
            self.go_to(ReadingPosition(self.row_layout.entries[0], 0))
