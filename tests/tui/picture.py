"""The picture of the app in the README, exported by the app: `python -m tests.tui.picture` writes it."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path

from qcode.protocol.approvals import ToolApproval
from qcode.protocol.events import (
    ApprovalRequested,
    Retry,
    StepStarted,
    ToolFinished,
    ToolStarted,
    UsageUpdated,
)
from qcode.protocol.reply import StopReason, TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from tests.tui.harness import make_app, until_ready
from tests.tui.scripted import Script, ScriptedConversation, UntilAnswered, call, reply
from tests.tui.staged_app import WELCOME

PICTURE = Path(__file__).parents[2] / "docs" / "app.svg"
SIZE = (96, 38)

_SOURCE = "     1  def greet(name):\n     2      return 'Hello ' + name\n"
_DIFF = """\
--- a/greeting.py
+++ b/greeting.py
@@ -1,2 +1,3 @@
-def greet(name):
-    return 'Hello ' + name
+def greet(name: str) -> str:
+    \"\"\"Return a greeting for `name`.\"\"\"
+    return f"Hello {name}"
"""


def _script() -> Script:
    read, edit = call("read", '{"path": "greeting.py"}', "c1"), call("edit", '{"path": "greeting.py"}', "c2")
    return [
        StepStarted(1),
        TextDelta(0, "I will read `greeting.py` first."),
        reply("", read, stop=StopReason.TOOL_USE),
        ToolStarted(read),
        ToolFinished(read, ToolOutcome(_SOURCE, summary="2 lines"), "done"),
        StepStarted(2),
        TextDelta(0, "The function is fine. Three things would make it **easier to use**:\n\n1. type hints\n2. a doc"),
        Retry(True, "max_tokens", 1, 64_000),
        TextDelta(0, "string\n3. an f-string instead of `+`"),
        reply("", edit, stop=StopReason.TOOL_USE),
        UsageUpdated(Usage(11_800, 640), None, 12_440, 200_000),
        ApprovalRequested(
            ToolApproval(edit, "Edit greeting.py?", _DIFF, "edit(greeting.py)", True, kind="edit", offers=("edits",))
        ),
        UntilAnswered("c2"),
    ]


async def draw() -> str:
    """Return the picture as SVG, with ids that are the same in every run."""
    name = "anthropic/claude-sonnet-4-5"
    app = make_app(
        ScriptedConversation(_script(), model=name),
        welcome=replace(WELCOME, model_lines=(name,), instructions=()),
    )
    async with app.run_test(size=SIZE) as pilot:
        await until_ready(app, pilot)
        app.widgets.prompt.insert("make greet nicer to use")
        await pilot.press("enter")
        while app.widgets.approval.shown_approval is None:
            await pilot.pause()
        await pilot.pause()
        app.widgets.transcript.flush()
        await pilot.pause()
        picture = app.export_screenshot(title="qcode")
    return re.sub(r"terminal-\d+", "terminal", picture).rstrip() + "\n"


def main() -> None:
    os.environ["COLORTERM"] = "truecolor"
    PICTURE.write_text(asyncio.run(draw()), encoding="utf-8")


if __name__ == "__main__":
    main()
