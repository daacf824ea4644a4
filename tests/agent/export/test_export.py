"""Every form of an export holds all that was said, and nothing in it can do anything."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from qcode.agent.sessions.export import EXPORT_FORMS, About, ExportForm, exported, fenced
from qcode.agent.sessions.history import HistoryEntry
from qcode.agent.sessions.records import message_from_json
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult, assistant, user

ABOUT = About("s1", "<b>Title</b> & more", "m/m")
NASTY = '</pre><script>alert(1)</script> <img src=x onerror="x"> ``` \x1b[31mred'
SAID = (
    user(NASTY),
    assistant(Reasoning("hm"), Text("I look."), ToolCall("c1", "shell", '{"command": "ls"}')),
    Message("user", (ToolResult("c1", "shell", f"out ````\n{NASTY}"),)),
    assistant(Text("Done.")),
    Message("user", (Image('image/png" onload="x', "aGk="), Text("see"))),
)
ENTRIES = tuple(HistoryEntry(message, note="cut" if at == 3 else "") for at, message in enumerate(SAID))


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_all_that_was_said_is_in_every_form(form: ExportForm) -> None:
    text = exported(ENTRIES, ABOUT, form)
    assert text.endswith("\n")
    for said in ("I look.", "Done.", "hm", "shell", "cut", "see"):
        assert said in text, said


def test_json_holds_the_messages_value_for_value() -> None:
    page = json.loads(exported(ENTRIES, ABOUT, "json"))
    assert tuple(message_from_json(one) for one in page["messages"]) == SAID
    lone = exported((HistoryEntry(user("\ud800")),), ABOUT, "json")
    assert json.loads(lone.encode())["messages"][0]["blocks"][0]["text"] == "\ud800"


def test_nothing_in_an_html_page_can_do_anything() -> None:
    seen: list[tuple[str, list[tuple[str, str | None]]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append((tag, attrs))

    page = exported(ENTRIES, ABOUT, "html")
    Reader().feed(page)
    tags = {tag for tag, _ in seen}
    assert not tags & {"script", "iframe", "link", "a", "b", "img"}
    assert not [attrs for _, attrs in seen for name, _ in attrs if name.startswith("on") or name in ("src", "href")]
    assert "\x1b" not in page


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    text = fenced("a ````` b")
    assert text.startswith("``````\n")
    assert text.endswith("\n``````")
    assert "\x1b" not in exported(ENTRIES, ABOUT, "md")
