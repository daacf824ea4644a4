"""One long session in one app at 80x24: about 60 actions of a user one after the other, each with its effect."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.e2e.running import KEY, KEY_VARIABLES, CliRunner
from tests.e2e.terminal import Terminal
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, ReceivedRequest, Turn

UP, DOWN, TAB, ESCAPE, ENTER = "\x1b[A", "\x1b[B", "\t", "\x1b", "\r"
PASTE = "\x1b[200~{}\x1b[201~"
_CART = "import os\n\n\ndef total(items):\n    return sum(items)\n"


@dataclass(frozen=True)
class Action:
    """Keys, the text that the screen shows then, and a text that it does not show. `is_answer`: to a question."""

    keys: str
    shows: str
    hides: str = ""
    is_answer: bool = False


def _call(name: str, number: int, **arguments: object) -> Call:
    return Call(name, json.dumps(arguments), f"call_{name}_{number}")


def _edit(old: str, new: str, number: int) -> Call:
    return _call("edit", number, path="cart.py", old_text=old, new_text=new)


class Host:
    """A model that does what the first word of the prompt says. Ids differ from turn to turn."""

    def __init__(self) -> None:
        self._turn = self._step = 0
        self._prompt = ""

    def answer(self, asked: ReceivedRequest) -> Turn:
        prompts = [message.text for message in asked.messages if message.role == "user" and message.text.strip()]
        prompt = prompts[-1].split("\n")[-1]
        if not asked.tools:
            return Turn(text="A short summary.")
        self._step = self._step + 1 if prompt == self._prompt else 0
        self._turn += self._step == 0
        self._prompt = prompt
        calls = self._calls(prompt.split()[0], self._step)
        return Turn(text=f"Step {self._step + 1}.", calls=calls) if calls else self._reply(prompt.split())

    def _reply(self, words: list[str]) -> Turn:
        if words[:1] == ["slow"]:
            return Turn(text=["One. ", "Two. ", "Three."], faults=Faults(stall_after=3))
        if words[:1] == ["code"]:
            return Turn(text="# Title\n\nSome *text*:\n\n```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
        if words[:1] == ["long"]:
            return Turn(text="\n\n".join(f"Paragraph {number}." for number in range(1, 41)))
        return Turn(text=f"You said {' '.join(words)}.")

    def _calls(self, word: str, done: int) -> list[Call]:
        number = self._turn
        script = {
            "edit": [
                [_call("read", number, path="cart.py")],
                [_edit("import os\n", "import os\nimport sys\n", number), _call("shell", number, command="touch made")],
            ],
            "run": [[_call("shell", number, command="touch other")]],
            "ask": [
                [_call("ask_person", number, question="Which one?", choices=[{"label": "Tea"}, {"label": "Mate"}])]
            ],
            "todo": [[_call("todo", number, items=[{"task": "Boil water", "state": "in_progress"}])]],
            "fail": [[_call("read", number, path="missing.py")]],
            "plan": [[_call("exit_plan_mode", number, plan="# Plan\n\n1. Change `total`\n")]],
        }.get(word, [])
        return script[done] if done < len(script) else []


ACTIONS = (
    # The prompt.
    Action("helo", "› helo"),
    Action("\x17", "Ask · / commands", "› helo"),
    Action("one\ntwo", "two"),
    Action("\x15\x08\x15", "Ask · / commands"),
    Action(PASTE.format("\n".join(["row"] * 60)), "[Pasted text #1 +60 lines]"),
    Action("\x15", "Ask · / commands", "[Pasted"),
    Action("/mo", "/model [name]"),
    Action("\x15", "Ask · / commands", "/model"),
    Action("/nothing\r", "Unknown command"),
    Action("\x15look at @ca", "› cart.py"),
    Action(TAB, "look at @cart.py"),
    Action("\x15", "Ask · / commands"),
    Action("?", "Shift+Enter, Alt+Enter, Ctrl+J"),
    Action(ESCAPE, "Ask · / commands", "Shift+Enter"),
    # Turns.
    Action("hello\r", "You said hello."),
    Action("look at @cart.py\r", "+ cart.py 5 lines"),
    Action("code\r", "print(1)"),
    Action("long\r", "Paragraph 40."),
    Action("\x1b[5~", "Paragraph 2", "Paragraph 40."),
    Action("\x1b[1;5F", "Paragraph 40."),
    Action("\x06", "Find"),
    Action("Paragraph 12", "1 of 1"),
    Action(ESCAPE, "Ask · / commands", "Find"),
    Action(UP, "› long"),
    Action(DOWN, "Ask · / commands"),
    Action("\x12hel", "history: hel"),
    Action(ENTER, "› hello"),
    Action("\x15!echo shell line\r", "│ shell line"),
    # Questions.
    Action("edit it\r", "Edit cart.py  +1"),
    Action("1", "2 of 2", is_answer=True),
    Action("n", "1 file +1", is_answer=True),
    Action("run it\r", "touch other"),
    Action("t", "Why not, or what to do instead?", is_answer=True),
    Action("not now\r", "declined · not now"),
    Action("run again\r", "2 Yes, and stop asking for"),
    Action("2", "exit 0", is_answer=True),
    Action("run more\r", "You said run more."),
    Action("ask me\r", "Which one?"),
    Action("2", "You said ask me.", is_answer=True),
    Action("todo list\r", "Boil water"),
    Action("fail now\r", "does not exist"),
    Action("\x1b[Z", "accept edits"),
    Action("\x1b[Z", "plan mode"),
    Action("plan it\r", "2 Yes, and accept edits"),
    Action("1", "Plan approved", is_answer=True),
    Action("/plan show\r", "Esc close"),
    Action(ESCAPE, "Ask · / commands", "Esc close"),
    # A running turn.
    Action("slow one\r", "Two."),
    Action("and then\r", "queued: and then"),
    Action(UP, "› and then", "queued:"),
    Action("\x15/btw what is it\r", "Ctrl+S attach to prompt"),
    Action(ESCAPE, "Esc to interrupt", "Ctrl+S add"),
    Action(ESCAPE, "interrupted"),
    # Screens.
    Action("/diff\r", "All changes"),
    Action(DOWN, "›   other"),
    Action(ESCAPE, "Ask · / commands", "Everything since"),
    Action("/copy\r", "Enter copy"),
    Action(ENTER, "Copied"),
    Action("/theme\r", "high-contrast"),
    Action("light", "1 of 8"),
    Action(ENTER, "Ask · / commands", "high-contrast"),
    Action("/model\r", "Enter select"),
    Action(ESCAPE, "Ask · / commands", "Enter select"),
    Action("/cost\r", "API calls"),
    Action(ESCAPE, "Ask · / commands", "API calls"),
    Action("/config\r", "Vim keys in the prompt"),
    Action(ESCAPE, "Ask · / commands", "Vim keys"),
    Action("/permissions\r", "shell(touch other)"),
    Action(ESCAPE, "Ask · / commands", "Ctrl+T try"),
    Action("\x10", "Type to filter"),
    Action("vim\r", "INSERT"),
    Action("abc", "› abc"),
    Action(ESCAPE, "NORMAL"),
    Action("0x", "› bc"),
    Action("dd", "Ask · / commands", "› bc"),
    Action("i", "INSERT"),
    Action("/vim\r", "Vim mode off", "INSERT"),
    # The session.
    Action("/rename Tea time\r", "Session renamed"),
    Action("/export tea.html\r", "Exported to"),
    Action("/compact\r", "Compacted"),
    Action("/undo\r", "Undone"),
    Action("/redo\r", "Redone"),
    Action("/fork\r", "Forked to"),
    Action("/resume\r", "Tea time"),
    Action(ESCAPE, "Ask · / commands", "Sessions of this folder"),
    Action(ESCAPE + ESCAPE, "Rewind to the state before a message"),
    Action(ESCAPE, "Ask · / commands", "Rewind to"),
    Action("/clear\r", "Enter sends, Ctrl+J makes a new line."),
    Action("/jobs\r", "No background jobs"),
)


def take(terminal: Terminal, action: Action, question: str) -> None:
    if action.is_answer:
        terminal.answer(question, action.keys)
    else:
        terminal.press(action.keys)
    shown = terminal.wait_for(
        lambda text: action.shows in text and not (action.hides and action.hides in text), timeout_s=10
    )
    assert "Internal error" not in shown
    assert max(map(len, shown.split("\n"))) <= 80


@pytest.mark.broad
def test_long_session_shows_the_effect_of_each_action(cli: CliRunner) -> None:
    (cli.work / "cart.py").write_text(_CART)
    flags = ("-m", "openai/test-model", "--trust")
    with (
        FakeServer("openai", Host().answer, is_strict=False) as server,
        Terminal(cli, *flags, "--base-url", server.base_url, env={KEY_VARIABLES["openai"]: KEY}) as terminal,
    ):
        terminal.wait_for("Ask · / commands")
        before = ""
        for action in ACTIONS:
            take(terminal, action, before)
            before = action.shows
        for columns, rows in ((40, 20), (120, 40), (80, 24)):
            terminal.resize(columns, rows)
            terminal.wait_for("ask before edits")
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
    assert "sys" in (cli.work / "cart.py").read_text()
