"""Each export format has the same content, and none contains active content."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from decimal import Decimal

import pytest

from qcode.agent.sessions.export import (
    EXPORT_FORMATS,
    ExportFormat,
    ExportHeading,
    ExportRequest,
    export_request,
    export_turns,
)
from qcode.agent.sessions.history import AgentWork, HistoryEntry, InnerMessage, SessionHistory, StoredMessage
from qcode.agent.sessions.records import message_from_json
from qcode.agent.sessions.shown import ShownItem, ShownResult
from qcode.agent.sessions.turns import SessionTurn, session_turns
from qcode.engine.synthetic import placeholder_arguments
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import ApiCalls, AttemptRecord, TurnEnded
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.reply import Outcome
from qcode.protocol.usage import Price, Usage
from qcode.safety.redaction import Redactor
from qcode.text.fences import fenced
from qcode.text.json import Json

ABOUT = ExportHeading("s1", "<b>Title</b> & more", "m/m")
NASTY = '</pre><script>alert(1)</script> <img src=x onerror="x"> ``` \x1b[31mred'
KEY = "sk-proj-" + "a1B2" * 6
SAID = (
    user(NASTY),
    assistant(Reasoning("hm"), Text("I look."), ToolCall("c1", "shell", '{"command": "ls"}')),
    Message("user", (ToolResult("c1", "shell", f"out ````\n{NASTY}"),)),
    assistant(Text("Done.")),
    Message("user", (Image('image/png" onload="x', "aGk="), Text("see"))),
    assistant(Text("Seen.")),
)
TRUNCATED = (
    AttemptRecord("first", 8000, "max_tokens", Usage(1000, 8000), is_discarded=True),
    AttemptRecord("escalated", 64000, "max_tokens", Usage(1000, 64000)),
    AttemptRecord("continuation", 64000, "end_turn", Usage(1000, 300)),
)
MARKDOWN = """# Cause

The **discount** is in `total`, see [docs](https://example.org/a?b=1&c=2), [mail](mailto:a@example.org).

| file | line |
|------|-----:|
| cart | 12   |

```python
def total(): return "x"  # cart
```

- [bad](javascript:alert(1)), [worse](data:text/html,x), <https://example.org>, ![pixel](https://example.org/p.png)
- <script>alert(2)</script><b>bold</b>
"""


def history_of(
    messages: Iterable[Message], attempts: dict[int, tuple[AttemptRecord, ...]] | None = None
) -> SessionHistory:
    history = SessionHistory()
    history.use_model("m/m")
    for number, message in enumerate(messages):
        made, note = (attempts or {}).get(number, ()), "cut" if number == 3 else ""
        at = f"2026-11-22T12:00:{5 * number:02d}.000+00:00"
        is_prompt = message.role == "user" and not any(isinstance(block, ToolResult) for block in message.blocks)
        history.add(StoredMessage(HistoryEntry(message, made, note, at, numbers=(number,)), is_prompt))
    return history


def turns_of(history: SessionHistory) -> tuple[SessionTurn, ...]:
    prices = {"m/m": Price(Decimal(1), Decimal(2)), "m/dear": Price(Decimal(100), Decimal(200))}
    return session_turns(history, prices.get, Redactor().redact)


def written(export_format: ExportFormat, *messages: Message, turns: str = "", has_tools: bool = True) -> str:
    return export_turns(
        turns_of(history_of(messages or SAID)), ABOUT, ExportRequest(export_format, "", turns, has_tools)
    )


def parsed(page: str) -> ElementTree.Element:
    """Return the page, which must be well-formed, with all ids unique and every link to a turn valid."""
    tree = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    ids = [element.attrib["id"] for element in tree.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    inside = [link for link in links(tree) if link.startswith("#")]
    assert {link[1:] for link in inside} <= set(ids)
    return tree


def links(tree: ElementTree.Element) -> list[str]:
    return [element.attrib["href"] for element in tree.iter("a")]


def words(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


@pytest.mark.parametrize("export_format", EXPORT_FORMATS)
def test_every_format_contains_all_messages(export_format: ExportFormat) -> None:
    text = written(export_format)
    assert text.endswith("\n")
    for part in ("I look.", "Done.", "hm", "shell" if export_format == "json" else "Run", "cut", "see"):
        assert part in text, part


def test_prompt_added_to_a_running_turn_begins_no_other_turn() -> None:
    """The numbers are those of `/rewind`, `/copy` and `/diff`, in which such a prompt belongs to its turn."""
    messages = (user("first"), assistant(Text("One.")), user("and this"), assistant(Text("Two.")), user("second"))
    history = SessionHistory()
    for number, message in enumerate(messages):
        begins_turn = message.role == "user" and number != 2
        history.add(StoredMessage(HistoryEntry(message, numbers=(number,)), begins_turn))
    turns = turns_of(history)
    assert [[step.entry.message for step in turn.steps] for turn in turns] == [[*messages[:4]], [messages[4]]]
    assert "and this" in export_turns(turns, ABOUT, ExportRequest("md", "", "1", has_tools=True))


def test_json_contains_the_messages_value_for_value() -> None:
    page = json.loads(written("json"))
    assert tuple(message_from_json(message) for message in page["messages"]) == SAID
    assert [message["turn"] for message in page["messages"]] == [1, 1, 1, 1, 2, 2]
    lone = export_turns(turns_of(history_of([user("\ud800")])), ABOUT, ExportRequest("json"))
    assert json.loads(lone.encode())["messages"][0]["blocks"][0]["text"] == "\ud800"


def test_untrusted_text_never_becomes_markup() -> None:
    page = written("html", *SAID[:3], assistant(Text(MARKDOWN)), user(NASTY), assistant(Text(NASTY)))
    tree = parsed(page)
    tags = {element.tag for element in tree.iter()}
    assert not tags & {"script", "iframe", "link", "img", "form", "object"}
    assert not [name for element in tree.iter() for name in element.attrib if name.startswith("on") or name == "src"]
    assert "\x1b" not in page
    assert "alert(2)" in words(tree)


def test_only_web_and_mail_links_of_a_reply_are_links() -> None:
    tree = parsed(written("html", user("why?"), assistant(Text(MARKDOWN))))
    outside = [link for link in links(tree) if not link.startswith("#")]
    web = ["https://example.org", "https://example.org/p.png"]
    assert outside == ["https://example.org/a?b=1&c=2", "mailto:a@example.org", *web]
    assert "[bad](javascript:alert(1))" in words(tree)


def test_addresses_in_prompts_and_replies_are_links() -> None:
    prompt = "see https://a.example/x_y?q=1&r=2, (http://b.example/z)."
    messages = [
        user(prompt),
        assistant(Text("Read https://c.example/ä_b. Not `https://d.example` <https://e.example>")),
    ]
    tree = parsed(written("html", *messages))
    assert [link for link in links(tree) if not link.startswith("#")] == [
        "https://a.example/x_y?q=1&r=2",
        "http://b.example/z",
        "https://c.example/%C3%A4_b",
        "https://e.example",
    ]
    assert "see https://a.example/x_y?q=1&r=2, (http://b.example/z)." in words(tree)


def test_reply_markdown_is_rendered_below_the_page_headings_with_highlighted_code() -> None:
    tree = parsed(written("html", user("why?"), assistant(Text(MARKDOWN))))
    assert [words(item) for item in tree.iter("h1")] == ["<b>Title</b> & more"]
    assert [words(item) for item in tree.iter("h3")] == ["Cause"]
    assert [words(item) for item in tree.iter("td")] == ["cart", "12"]
    code = next(item for item in tree.iter("code") if item.attrib.get("class") == "language-python")
    assert {span.attrib["class"]: span.text for span in code.iter("span")}["nf"] == "total"


def test_headings_of_a_reply_skip_no_level() -> None:
    page = written("html", user("a"), assistant(Text("## Two\n\n#### Four\n\n# One\n\n### Three")))
    tree = parsed(page)
    levels = [item.tag for item in tree.iter() if item.tag in ("h3", "h4", "h5", "h6")]
    assert levels == ["h3", "h4", "h3", "h4"]


def test_tasks_of_a_list_have_their_marks() -> None:
    tree = parsed(written("html", user("a"), assistant(Text("- [ ] open\n- [x] done\n\n1. [X] loose\n\n2. [y] none"))))
    assert [words(item).strip() for item in tree.iter("li")][-4:] == ["☐ open", "☑ done", "☑ loose", "[y] none"]


@pytest.mark.parametrize("export_format", ["md", "html"])
def test_calls_have_the_names_and_arguments_of_the_app(export_format: ExportFormat) -> None:
    arguments = json.dumps({"pattern": "def total", "path": "src"})
    asked, told = ToolCall("c1", "grep", arguments), ToolResult("c1", "grep", "src/cart.py:1")
    text = written(export_format, user("a"), assistant(asked), Message("user", (told,)))
    assert "Search" in text
    assert "def total in src" in text
    # The line of the card says both in full.
    assert "pattern" not in text.partition("Search")[2]


@pytest.mark.parametrize("export_format", ["md", "html"])
@pytest.mark.parametrize("is_error", [False, True])
def test_todo_list_is_shown_as_json_only_if_the_call_failed(export_format: ExportFormat, is_error: bool) -> None:
    asked = ToolCall("c1", "todo", json.dumps({"items": [{"task": "read it", "state": "done"}]}))
    told = ToolResult("c1", "todo", "too long" if is_error else "[x] read it", is_error=is_error)
    text = written(export_format, user("a"), assistant(asked), Message("user", (told,)))
    assert text.count("read it") == 1
    assert ("[x] read it" in text) is not is_error


@pytest.mark.parametrize("export_format", ["md", "html"])
def test_choices_of_a_question_are_a_numbered_list(export_format: ExportFormat) -> None:
    choices: list[Json] = [{"label": "Red"}, {"label": "Blue", "detail": "as now"}]
    arguments = {"question": "Which color?", "choices": choices}
    call = assistant(ToolCall("c1", "ask_person", json.dumps(arguments)))
    text = written(export_format, user("look"), call, Message("user", (ToolResult("c1", "ask_person", "Red"),)))
    assert "1. Red\n2. Blue: as now" in text
    assert "label" not in text.partition("Which color?")[2]


@pytest.mark.parametrize("export_format", ["md", "html", "json"])
def test_question_with_several_answers_and_its_answer_are_exported(export_format: ExportFormat) -> None:
    choices: list[Json] = [{"label": "Red"}, {"label": "Blue"}, {"label": "Green"}]
    arguments = {"question": "Which colors?", "choices": choices, "multi_select": True}
    call = assistant(ToolCall("c1", "ask_person", json.dumps(arguments)))
    result = Message("user", (ToolResult("c1", "ask_person", "Red, Green\nOther: and white"),))
    text = written(export_format, user("look"), call, result)
    if export_format == "json":
        assert '\\"multi_select\\": true' in text
        assert "Red, Green\\nOther: and white" in text
        return
    assert "choices (several allowed)" in text
    assert "1. Red\n2. Blue\n3. Green" in text
    assert "Red, Green\nOther: and white" in text
    assert "multi_select" not in text


def test_page_passes_a_strict_html_parser() -> None:
    html5lib = pytest.importorskip("html5lib")
    messages = (*SAID[:3], assistant(Text(MARKDOWN), Reasoning("*hm*")), user(NASTY), assistant(Text(NASTY)))
    html5lib.HTMLParser(strict=True).parse(written("html", *messages))


def test_page_loads_nothing_and_follows_the_color_scheme_of_the_reader() -> None:
    page = written("html")
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_printed_page_shows_the_contents_of_collapsed_cards() -> None:
    printed = written("html", *SAID).partition("@media print {")[2]
    assert "details::details-content { content-visibility: visible;" in printed


def test_call_is_one_collapsed_card_with_its_result() -> None:
    failed = Message("user", (ToolResult("c1", "shell", "no such file", is_error=True),))
    tree = parsed(written("html", SAID[0], SAID[1], failed, assistant(Text("Hm."))))
    card = next(item for item in tree.iter("details") if "call" in item.attrib["class"])
    assert "open" not in card.attrib
    assert words(card) == "Run ls failedno such file"
    assert [words(item) for item in card.iter("summary")] == ["Run ls failed"]


DIFF = "--- a/cart.py\n+++ b/cart.py\n@@ -7,2 +7,2 @@\n same\n-old <b>\n+new <b>\n"


@pytest.mark.parametrize("export_format", EXPORT_FORMATS)
def test_call_has_the_summary_and_diff_shown_in_the_app(export_format: ExportFormat) -> None:
    call = ToolCall("c1", "edit", '{"path": "cart.py", "old_text": "old <b>", "new_text": "new <b>"}')
    result = Message("user", (ToolResult("c1", "edit", "Edited cart.py at line 8."),))
    history = history_of([user("go"), assistant(call), result, assistant(Text("Done."))])
    history.stored[1].shown_results["c1"] = ShownResult("done", f"+1 -1 lines {KEY}", DIFF, 2.0)
    text = export_turns(turns_of(history), ABOUT, ExportRequest(export_format))
    assert "+1 -1 lines [redacted]" in text
    if export_format == "html":
        card = next(parsed(text).iter("details"))
        assert [words(item) for item in card.iter("summary")] == ["Edit cart.py +1 -1 lines [redacted]"]
        lines = {item.attrib["class"]: words(item) for item in card.iter("span")}
        assert lines == {"same": "7 same", "remove": "8-old <b>", "add": "8+new <b>"}
    elif export_format == "md":
        assert f"```diff\n{DIFF}" in text
    else:
        shown_result = json.loads(text)["messages"][1]["shown"]["c1"]
        assert shown_result == {"state": "done", "summary": "+1 -1 lines [redacted]", "diff": DIFF, "seconds": 2.0}


@pytest.mark.parametrize("export_format", ("html", "md"))
def test_command_says_that_it_ran_outside_the_sandbox(export_format: ExportFormat) -> None:
    call = ToolCall("c1", "shell", '{"command": "make"}')
    result = Message("user", (ToolResult("c1", "shell", "built"),))
    history = history_of([user("go"), assistant(call), result])
    history.stored[1].shown_results["c1"] = ShownResult("done", "exit 0", sandbox="outside")
    text = export_turns(turns_of(history), ABOUT, ExportRequest(export_format))
    assert (
        "<small>outside the sandbox</small>" if export_format == "html" else "(exit 0 · outside the sandbox)"
    ) in text


def plan_history(result: str, shown: ShownResult) -> SessionHistory:
    call = ToolCall("c1", "exit_plan_mode", json.dumps({"plan": "# Fix it\n\n1. Read **a.py**\n"}))
    told = Message("user", (ToolResult("c1", "exit_plan_mode", result),))
    history = history_of([user("plan"), assistant(call), told, assistant(Text("Done."))])
    history.stored[1].shown_results["c1"] = shown
    return history


def test_approved_plan_is_shown_whole_and_rendered() -> None:
    history = plan_history("The mode is now default. Carry it out.", ShownResult("done", "Plan approved · asks"))
    card = next(parsed(export_turns(turns_of(history), ABOUT, ExportRequest("html"))).iter("details"))
    assert "open" in card.attrib
    assert words(card) == "Plan approved · asksFix it Read a.py"
    assert [words(item) for item in card.iter("strong")] == ["a.py"]
    text = export_turns(turns_of(history), ABOUT, ExportRequest("md"))
    assert "**Plan approved · asks**\n\n> # Fix it\n>\n> 1. Read **a.py**\n" in text
    assert "Carry it out." not in text


def test_plan_that_was_not_approved_is_folded_and_has_its_answer() -> None:
    history = plan_history("Smaller steps, please.", ShownResult("denied", "denied"))
    card = next(parsed(export_turns(turns_of(history), ABOUT, ExportRequest("html"))).iter("details"))
    assert "open" not in card.attrib
    assert words(card) == "Plan Fix it deniedFix it Read a.py Smaller steps, please."


@pytest.mark.parametrize("export_format", ["md", "html"])
def test_failed_call_names_its_file_once(export_format: ExportFormat) -> None:
    call, told = ToolCall("c1", "read", '{"path": "no.txt"}'), "no.txt does not exist"
    failed = Message("user", (ToolResult("c1", "read", told, is_error=True),))
    history = history_of([user("go"), assistant(call), failed, assistant(Text("Hm."))])
    history.stored[1].shown_results["c1"] = ShownResult("failed", told)
    text = export_turns(turns_of(history), ABOUT, ExportRequest(export_format))
    if export_format == "md":
        assert "**Read** `no.txt` (failed · does not exist)" in text
    else:
        card = next(parsed(text).iter("details"))
        assert [words(item) for item in card.iter("summary")] == ["Read no.txt failed does not exist"]


def test_result_belongs_to_the_reply_of_its_call_if_the_server_uses_an_id_again() -> None:
    messages = [user("look")]
    for path in ("a.py", "b.py"):
        messages += [
            assistant(ToolCall("call_0", "read", json.dumps({"path": path}))),
            Message("user", (ToolResult("call_0", "read", f"contents of {path}"),)),
        ]
    cards = [words(card) for card in parsed(written("html", *messages, assistant(Text("Done.")))).iter("details")]
    assert [card.partition("contents of ")[2] for card in cards] == ["a.py", "b.py"]


def test_reason_for_declining_a_call_is_in_the_export_once() -> None:
    history = history_of(SAID)
    history.stored[1].shown_results["c1"] = ShownResult("denied", "declined", output="Declined: use rg\nor ag")
    text = export_turns(turns_of(history), ABOUT, ExportRequest("md"))
    assert "**Run** `ls` (declined)" in text
    assert "use rg\nor ag" in text
    assert "Declined" not in text


def test_denied_call_is_marked() -> None:
    history = history_of(SAID)
    for summary, word in (("", "denied"), ("denied", "denied"), ("declined", "declined")):
        history.stored[1].shown_results["c1"] = ShownResult("denied", summary)
        assert f"**Run** `ls` ({word})" in export_turns(turns_of(history), ABOUT, ExportRequest("md"))
        page = export_turns(turns_of(history), ABOUT, ExportRequest("html"))
        card = next(item for item in parsed(page).iter("details") if "call" in item.attrib["class"])
        assert [words(item) for item in card.iter("summary")] == [f"Run ls {word}"]


@pytest.mark.parametrize("export_format", ["md", "html"])
def test_truncated_call_has_no_marker_of_the_stored_session(export_format: ExportFormat) -> None:
    call = ToolCall("c1", "write", placeholder_arguments('{"path": "a.py", "content": "x'))
    text = written(
        export_format, user("go"), assistant(call), Message("user", (ToolResult("c1", "write", "Split it."),))
    )
    assert "a.py" in text
    assert "_qcode" not in text
    cut = ToolCall("c1", "shell", placeholder_arguments('{"command": "ls'))
    text = written(export_format, user("go"), assistant(cut), Message("user", (ToolResult("c1", "shell", "Again."),)))
    assert "incomplete arguments" in text
    assert "_qcode" not in text


def test_markdown_has_no_blank_lines_at_the_ends_of_its_blocks() -> None:
    history = history_of([user("go"), assistant(Text("\n\nI edit.\n\n"), ToolCall("c1", "edit", '{"path": "a"}'))])
    history.add(StoredMessage(HistoryEntry(Message("user", (ToolResult("c1", "edit", "ok"),)), numbers=(2,)), False))
    history.stored[1].shown_results["c1"] = ShownResult("done", diff="--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n")
    text = export_turns(turns_of(history), ABOUT, ExportRequest("md"))
    assert "### Assistant\n\nI edit.\n\n**Edit** `a`\n\n```diff\n" in text
    assert "+y\n```\n" in text


def test_call_interrupted_by_a_crash_is_marked() -> None:
    tree = parsed(written("html", *SAID[:2]))
    card = next(item for item in tree.iter("details") if "call" in item.attrib["class"])
    assert words(card).startswith("Run ls not run qcode ended before this call was started")
    assert "**Run** `ls` (not run · qcode ended before this call was started)" in written("md", *SAID[:2])


@pytest.mark.parametrize("unfinished", [SAID[:1], SAID[:2]], ids=["no reply", "no result"])
def test_prompt_after_an_unfinished_turn_begins_a_turn(unfinished: Sequence[Message]) -> None:
    turns = turns_of(history_of([*unfinished, user("next"), assistant(Text("Done."))]))
    assert [turn.prompt.typed_text for turn in turns] == [SAID[0].text, "next"]
    assert turns[1].steps[-1].entry.message.text == "Done."
    text = export_turns(turns, ABOUT, ExportRequest("md"))
    assert ("not run · qcode ended" in text) == (len(unfinished) > 1)
    assert "\n## Turn 2\n\n### You\n\nnext\n" in text


@pytest.mark.parametrize("export_format", ["md", "html"])
@pytest.mark.parametrize("note", ["", "[Not a finished answer: it was cancelled.]"])
def test_shortened_answer_of_a_sub_agent_is_written_once(export_format: ExportFormat, note: str) -> None:
    answer = "\n".join(f"line {number}" for number in range(200))
    shortened = f"{answer[:200]}\n[... 1,000 characters omitted; all of it is in /x/shell-1.txt ...]\n{answer[-200:]}"
    result = f"{note}\n\n{shortened}" if note else shortened
    said = [
        user("go"),
        assistant(ToolCall("c1", "agent", '{"description": "look"}')),
        Message("user", (ToolResult("c1", "agent", result),)),
    ]
    history = history_of(said)
    history.stored[1].agent_work["c1"] = AgentWork([InnerMessage(user("look")), InnerMessage(assistant(Text(answer)))])
    text = export_turns(turns_of(history), ABOUT, ExportRequest(export_format))
    assert text.count("line 0\n") == text.count("line 199") == 1
    assert "omitted" not in text
    assert note in text


def test_work_of_a_sub_agent_is_inside_its_card() -> None:
    history = history_of([user("go"), assistant(ToolCall("c1", "task", '{"prompt": "look"}'))])
    inner = (assistant(Text("Inside."), ToolCall("i1", "grep", '{"pattern": "x"}')),)
    for message in (*inner, Message("user", (ToolResult("i1", "grep", "found it"),))):
        history.add_inner("c1", InnerMessage(message))
    turns = turns_of(history)
    card = next(parsed(export_turns(turns, ABOUT, ExportRequest("html"))).iter("details"))
    assert "Inside." in words(card)
    assert "found it" in words(next(card.iter("details")))
    assert "> Inside." in export_turns(turns, ABOUT, ExportRequest("md"))
    assert json.loads(export_turns(turns, ABOUT, ExportRequest("json")))["messages"][1]["agents"]["c1"]


@pytest.mark.parametrize("export_format", ["html", "md"])
@pytest.mark.parametrize("before", ["", "[Not a finished answer: it was cancelled]\n\n"])
def test_last_reply_of_a_sub_agent_is_shown_once(export_format: ExportFormat, before: str) -> None:
    call, result = ToolCall("c1", "agent", '{"prompt": "look"}'), ToolResult("c1", "agent", f"{before}It is there.")
    history = history_of([user("go"), assistant(call), Message("user", (result,))])
    history.stored[1].agent_work["c1"] = AgentWork([InnerMessage(assistant(Text("It is there.\n")))])
    text = export_turns(turns_of(history), ABOUT, ExportRequest(export_format))
    assert text.count("It is there.") == 1
    assert text.count("Not a finished answer") == bool(before)


def test_hunks_of_a_diff_are_separated_without_their_headers() -> None:
    call = ToolCall("c1", "edit", '{"path": "cart.py"}')
    history = history_of([user("go"), assistant(call), Message("user", (ToolResult("c1", "edit", "Edited."),))])
    diff = f"{DIFF}@@ -20 +20 @@ def total():\n-a\n+b\n@@ -40 +40 @@\n-c\n+d\n"
    history.stored[1].shown_results["c1"] = ShownResult("done", "+3 -3 lines", diff, 2.0)
    page = export_turns(turns_of(history), ABOUT, ExportRequest("html"))
    assert "@@" not in page
    hunks = [words(item) for item in parsed(page).iter("span") if "hunk" in item.attrib["class"]]
    assert hunks == ["def total():", ""]


def test_every_format_reports_truncation_and_cost() -> None:
    turns = turns_of(history_of(SAID, {3: TRUNCATED}))
    expected = (
        "3 API calls for 1 reply: 1 retry with a higher output limit, 1 continuation; 8,000 output "
        "tokens were discarded."
    )
    # 3,000 tokens in at $1 and 72,300 out at $2 per million
    for export_format in EXPORT_FORMATS:
        assert expected in export_turns(turns, ABOUT, ExportRequest(export_format)), export_format
    assert "15 s · 75.3k tokens · $0.15 · m/m" in export_turns(turns, ABOUT, ExportRequest("md"))
    assert "15 s · 75.3k tokens · $0.15 · m/m" in words(parsed(export_turns(turns, ABOUT, ExportRequest("html"))))
    assert json.loads(export_turns(turns, ABOUT, ExportRequest("json")))["turns"][0] == {
        "number": 1,
        "models": ["m/m"],
        "usage": {"input": 3000, "output": 72300},
        "cost_usd": 0.1476,
    }


def test_each_turn_has_the_model_and_price_at_that_time() -> None:
    history = history_of(SAID[:4], {1: TRUNCATED[2:], 3: TRUNCATED[2:]})
    history.use_model("m/dear")
    attempts = (AttemptRecord("first", 8000, "end_turn", Usage(1000, 100)),)
    history.add(StoredMessage(HistoryEntry(SAID[4], numbers=(4,)), is_turn_start=True))
    history.add(StoredMessage(HistoryEntry(SAID[5], attempts, numbers=(5,)), is_turn_start=False))
    first, second = turns_of(history)
    assert (first.models, first.cost) == (("m/m",), Decimal("0.0032"))
    assert (second.models, second.cost) == (("m/dear",), Decimal("0.12"))


@pytest.mark.parametrize("export_format", EXPORT_FORMATS)
def test_secrets_are_redacted_in_every_part(export_format: ExportFormat) -> None:
    call = ToolCall("c1", "shell", json.dumps({"command": f"curl -H 'x-api-key: {KEY}'"}))
    result = Message("user", (ToolResult("c1", "shell", f"key {KEY}"),))
    text = written(
        export_format, user(KEY), assistant(Reasoning(KEY), Text(KEY), call), result, assistant(Text("done"))
    )
    assert KEY not in text
    assert text.count("[redacted]") >= 5


def test_secrets_are_redacted_in_the_problems_of_an_edit() -> None:
    history = SessionHistory()
    stored = StoredMessage(HistoryEntry(assistant(ToolCall("c1", "edit", "{}")), numbers=(1,)), is_turn_start=False)
    stored.shown_results["c1"] = ShownResult("done", problems=f'1: error: unknown name "{KEY}"')
    history.add(StoredMessage(HistoryEntry(user("fix it"), numbers=(0,)), is_turn_start=True))
    history.add(stored)
    (turn,) = turns_of(history)
    assert KEY not in turn.steps[1].shown_results["c1"].problems


@pytest.mark.parametrize(
    ("expected", "numbers"), [("1", [1]), ("2-3", [2, 3]), ("2-", [2, 3, 4]), ("-2", [1, 2]), ("3-9", [3, 4])]
)
def test_turn_range_is_exported_with_turn_numbers(expected: str, numbers: list[int]) -> None:
    messages = [message for number in range(4) for message in (user(f"ask {number}"), assistant(Text("yes")))]
    page = json.loads(written("json", *messages, turns=expected))
    assert [turn["number"] for turn in page["turns"]] == numbers
    tree = parsed(written("html", *messages, turns=expected))
    assert [item.attrib["id"] for item in tree.iter("section")] == [f"turn-{number}" for number in numbers]


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("7", "No turn in 7: this session has 2 turns."),
        ("2-1", "No turn in 2-1: this session has 2 turns."),
        ("x", '"x" is not a range of turns. Use 3, 3-7, 3- or -7.'),
        ("-", '"-" is not a range of turns. Use 3, 3-7, 3- or -7.'),
    ],
)
def test_range_without_turns_is_a_one_line_error(expected: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^.") as refused:
        written("md", turns=expected)
    assert str(refused.value) == message


@pytest.mark.parametrize("export_format", EXPORT_FORMATS)
def test_export_without_tools_has_only_prompts_and_replies(export_format: ExportFormat) -> None:
    text = written(export_format, has_tools=False)
    assert "out `" not in text
    assert not any(name in text for name in ("**Run**", "<b>Run</b>", "shell"))
    assert "I look." in text


@pytest.mark.parametrize(
    ("typed", "request_"),
    [
        ("", ExportRequest("md")),
        ("html", ExportRequest("html")),
        ("html my page.htm", ExportRequest("html", "my page.htm")),
        ("a b.json", ExportRequest("json", "a b.json")),
        ("html --turns 3-7 out.html --no-tools", ExportRequest("html", "out.html", "3-7", has_tools=False)),
        ("--turns=2", ExportRequest("md", "", "2")),
    ],
)
def test_command_argument_is_a_format_a_path_and_options(typed: str, request_: ExportRequest) -> None:
    assert export_request(typed) == request_


def test_unknown_option_is_named() -> None:
    with pytest.raises(ValueError, match=r"^Cannot use --pdf here\. Type /export \[md\|json\|html\]"):
        export_request("html --pdf")
    with pytest.raises(ValueError, match=r'Unknown format "pdf"\. Choose md, json or html'):
        export_request("pdf")
    assert export_request("./pdf").path == "./pdf"


def test_fence_is_longer_than_any_in_the_text() -> None:
    text = fenced("a ````` b")
    assert text.startswith("``````\n")
    assert text.endswith("\n``````")
    assert "\x1b" not in written("md")


def ended_turns(outcome: Outcome, error: ErrorInfo | None = None) -> tuple[SessionTurn, ...]:
    """Return a turn of 5 seconds between messages that are 15 seconds apart, and the `/compact` after it."""
    history = history_of(SAID[:4])
    for seconds in (5.0, 70.0):
        ended = TurnEnded(
            outcome, None, "", "Done.", 2, Usage(), None, ApiCalls(initial=2), error=error, seconds=seconds
        )
        history.add_shown([ShownItem(ended)])
    return turns_of(history)


@pytest.mark.parametrize("export_format", ["md", "html"])
def test_turn_shows_the_time_it_worked_without_the_wait_for_the_user(export_format: ExportFormat) -> None:
    text = export_turns(ended_turns(Outcome.END_TURN), ABOUT, ExportRequest(export_format))
    assert "5 s" in text
    assert "15 s" not in text
    assert "interrupted" not in text


@pytest.mark.parametrize("export_format", ["md", "html"])
def test_attachment_is_below_the_prompt_as_in_the_app(export_format: ExportFormat) -> None:
    blocks = (Text('<file path="cart.py">\nTOTAL = 3\n</file>'), Text("Explain the file."))
    text = written(export_format, Message("user", blocks), assistant(Text("Fine.")))
    assert text.index("Explain the file.") < text.index("TOTAL = 3")


@pytest.mark.parametrize("export_format", ["md", "html"])
def test_turn_shows_that_it_was_interrupted(export_format: ExportFormat) -> None:
    assert "interrupted · 5 s" in export_turns(ended_turns(Outcome.CANCELLED), ABOUT, ExportRequest(export_format))


@pytest.mark.parametrize("export_format", EXPORT_FORMATS)
def test_turn_shows_the_error_that_ended_it_without_secrets(export_format: ExportFormat) -> None:
    failed = ended_turns(Outcome.ERROR, ErrorInfo("auth", f"The provider rejected the key {KEY}."))
    text = export_turns(failed, ABOUT, ExportRequest(export_format))
    assert "The provider rejected the key" in text
    assert KEY not in text


def test_json_turn_has_its_outcome_and_duration() -> None:
    (turn,) = json.loads(export_turns(ended_turns(Outcome.CANCELLED), ABOUT, ExportRequest("json")))["turns"]
    assert (turn["outcome"], turn["seconds"]) == ("cancelled", 5.0)
