"""Every form of a written call, text that is not a call, and truncated calls."""

from __future__ import annotations

import json

import pytest

from qcode.providers.text_calls.forms import NO_NAME
from tests.providers.text_calls.scanning import READ, READ_ARGUMENTS, calls_in, filtered, visible_in

ONE = [("read", READ_ARGUMENTS)]
TWO = [("read", READ_ARGUMENTS), ("list_files", "{}")]
LIST = '{"name": "list_files", "arguments": {}}'
PARAMETERS = READ.replace("arguments", "parameters")
XML = "<function=read>\n<parameter=path>\na.py\n</parameter>\n</function>"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (f"<tool_call>{READ}</tool_call>", ONE),
        (f"<tool_call>\n{READ}\n</tool_call>", ONE),
        (f"<tool_call>\r\n  {PARAMETERS}\r\n</tool_call>", ONE),
        (f"<tool_call>[{READ}, {LIST}]</tool_call>", TWO),
        (f"<tool_call>\n{READ}\n{LIST}\n</tool_call>", TWO),
        (f"<tool_call>{READ}</tool_call>\n<tool_call>{LIST}</tool_call>", TWO),
        (f"<tool_call>{READ}\n<tool_call>{LIST}", TWO),
        ('<tool_call>{"arguments": {"path": "a.py"}, "name": "read", "id": "7"}</tool_call>', ONE),
        ('<tool_call>{"name": "list_files"}</tool_call>', [("list_files", "{}")]),
        ('<tool_call>{"name": "list_files", "arguments": null}</tool_call>', [("list_files", "{}")]),
        ('<tool_call>{"name": "list_files", "arguments": ""}</tool_call>', [("list_files", "{}")]),
        (r'<tool_call>{"name": "read", "arguments": "{\"path\": \"a.py\"}"}</tool_call>', ONE),
        (f'<tool_call>{{"type": "function", "function": {READ}}}</tool_call>', ONE),
        (f"```json\n{READ}\n```", ONE),
        (f"```json\n[{READ},\n{LIST}]\n```\n", TWO),
        (f"```JSON \r\n{PARAMETERS}\r\n```", ONE),
        (f"  ````json\n{READ}\n````", ONE),
        (f"```tool_call\n{READ}\n```", ONE),
        ('```tool_calls\n{"name": "list_files"}\n```', [("list_files", "{}")]),
        (f"[TOOL_CALLS][{READ}, {LIST}]", TWO),
        (f"[TOOL_CALLS] [{READ}]</s>", ONE),
        (f"[TOOL_CALLS]{READ}", ONE),
        ('[TOOL_CALLS]read[ARGS]{"path": "a.py"}[TOOL_CALLS]list_files{}', TWO),
        (f"<|python_tag|>{PARAMETERS}", ONE),
        (f"<|python_tag|>{PARAMETERS}; {LIST}<|eom_id|>", TWO),
        (f"<|python_tag|>{PARAMETERS}<|eot_id|>\nand more", ONE),
        ('<|python_tag|>read.call(path="a.py")', ONE),
        ('<|python_tag|>read(path="a.py")<|eom_id|>', ONE),
        ('<|python_tag|> read.call( path = "a.py" , )', ONE),
        ("<|python_tag|>list_files.call()<|eot_id|>", [("list_files", "{}")]),
        (
            r'<|python_tag|>read.call(path="a(\"b\").py", deep=True, lines=[1, {"a": null}], limit=-2)',
            [("read", r'{"path": "a(\"b\").py", "deep": true, "lines": [1, {"a": null}], "limit": -2}')],
        ),
        ('<function=read>{"path": "a.py"}</function>', ONE),
        ('<function=read>{"path": "a.py"}</function><function=list_files></function>', TWO),
        ('<function=read>{"path": "a.py"}', ONE),
        (f"<tool_call>\n{XML}\n</tool_call>", ONE),
        (f"{XML}\n</tool_call>", ONE),
        (f"<tool_call>{XML}\n<function=list_files>\n</function>\n</tool_call>", TWO),
        ('<tool_call><function=read>{"path": "a.py"}</function></tool_call>', ONE),
    ],
)
def test_call_is_read_in_every_form(text: str, calls: list[tuple[str, str]]) -> None:
    assert calls_in(text) == calls
    assert calls_in(f"I will look.\n\n{text}") == calls


def test_text_around_a_call_is_kept_and_white_space_after_it_removed() -> None:
    found, _ = filtered([f"First.\n\n<tool_call>{READ}</tool_call>\n\nThen."])
    assert found == [
        ("text", "First.\n\n"),
        ("taken", f"<tool_call>{READ}</tool_call>"),
        ("read", READ_ARGUMENTS),
        ("taken", "\n\n"),
        ("text", "Then."),
    ]


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("<parameter=path>\n  a\n\n</parameter>", {"path": "  a\n"}),
        ("<parameter=path>a</parameter><parameter=limit>\n12\n</parameter>", {"path": "a", "limit": 12}),
        ("<parameter=path>12</parameter><parameter=deep>\nTrue\n</parameter>", {"path": "12", "deep": True}),
        ("<parameter=limit>many</parameter>", {"limit": "many"}),
        ("<parameter=limit>1e999</parameter>", None),
        ('<parameter=lines>[1, "b"]</parameter><parameter=tag>7</parameter>', {"lines": [1, "b"], "tag": "7"}),
        ("<parameter=lines>None</parameter><parameter=new>{}</parameter>", {"lines": None, "new": "{}"}),
        ("<parameter=path>\r\na\r\n</parameter>", {"path": "a"}),
        ("<parameter=path>a </parameter> b</function>x</parameter>", {"path": "a </parameter> b</function>x"}),
        ("<parameter=path>a </parameter> </function>x</parameter>", None),
    ],
)  # fmt: skip
def test_parameters_are_converted_to_the_schema_types(written: str, arguments: dict[str, object] | None) -> None:
    text = f"<tool_call><function=read>{written}</function></tool_call>"
    found = calls_in(text)
    if arguments is None:
        assert found == []
        assert visible_in(text) == text
    else:
        assert [(name, json.loads(raw)) for name, raw in found] == [("read", arguments)]


@pytest.mark.parametrize(
    "content",
    ["</tool_call>", "<tool_call>{}", "```", '"}}', "a\nb\\", "[TOOL_CALLS]", "\u2028é😀", "<think>", "\ud83d"],
)
def test_call_arguments_may_contain_call_markers(content: str) -> None:
    arguments = {"path": "a", "content": content}
    text = json.dumps({"name": "write", "arguments": arguments})
    for form in ("<tool_call>{}</tool_call>", "```json\n{}\n```", "[TOOL_CALLS][{}]", "<|python_tag|>{}"):
        ((name, raw),) = calls_in(form.replace("{}", text))
        assert (name, json.loads(raw)) == ("write", arguments)
        raw.encode("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        f"Use `<tool_call>{READ}</tool_call>` for it.",
        f"Use ``a ` <tool_call>{READ}</tool_call>`` for it.",
        f"```\n<tool_call>{READ}</tool_call>\n```\n",
        f"```python\n[TOOL_CALLS][{READ}]\n```\n",
        f"~~~\n```json\n{READ}\n```\n~~~\n",
        f"````markdown\n```json\n{READ}\n```\n````\n",
        f"```xml\n{XML}\n```\n",
        f"- point\n\n  ```text\n  <|python_tag|>{READ}\n  ```\n",
        f"Inline ```json\n{READ}\n``` fences begin no line.",
        f"<think>I could write <tool_call>{READ}</tool_call> here.</think>No.",
        f"\n <think>\n```json\n{READ}\n```\n",
        READ,
        f"The call is {READ}.",
        '```json\n{"name": "read", "version": "1.0"}\n```\n',
        '```json\n{"name": "read"}\n```\n',
        '```json\n{"name": "read", "arguments": {"path": "a"}, "note": "x"}\n```\n',
        '```json\n[1, 2]\n```\n```json\n[]\n```\n```json\n7\n```\n',
        f"```jsonc\n{READ}\n```\n",
        f"```{READ}```",
    ],
)  # fmt: skip
def test_example_call_is_text(text: str) -> None:
    found, calls = filtered([text])
    assert found == [("text", text)]
    assert calls.rejected_candidates == []
    assert not calls.ends_rejected


@pytest.mark.parametrize(
    "before", ["`<tool_call>` is a tag.\n", "```python\ncode\n```\n", "a ` b\n", "<think>x</think>\n"]
)
def test_call_after_a_code_block_is_a_call(before: str) -> None:
    assert calls_in(f"{before}<tool_call>{READ}</tool_call>") == ONE


def test_continued_code_block_contains_no_call() -> None:
    text = f"<tool_call>{READ}</tool_call>\n```\n<tool_call>{LIST}</tool_call>"
    assert calls_in(text, before="As in\n```python\nx = 1\n") == [("list_files", "{}")]
    assert calls_in(text, before="As in\n```python\nx = 1\n```\n") == ONE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('<tool_call>{"name": "reed", "arguments": {}}</tool_call>', "no tool `reed`"),
        ('<tool_call>{"name": "read", "arguments": [1]}</tool_call>', "not a JSON object"),
        ('<tool_call>{"name": "read", "arguments": "path"}</tool_call>', "JSON is not valid"),
        ('<tool_call>{"arguments": {}}</tool_call>', "has no tool name"),
        ("<tool_call>[1]</tool_call>", "not a JSON object"),
        ("<tool_call>[]</tool_call>", ""),
        ('<tool_call>{"name": "read", "arguments": {"limit": 1e999}}</tool_call>', "cannot represent"),
        (r'<tool_call>{"name": "read", "arguments": {"path": "\u12"}}</tool_call>', "JSON is not valid"),
        ('<tool_call>{"name": "read", "arguments": {"path": "a\nb"}}</tool_call>', "not a valid call"),
        ("<tool_call>{'name': 'read'}</tool_call>", "not a valid call"),
        ('<tool_call>{"name": "read", "arguments": {"path": NaN}}</tool_call>', "not a valid call"),
        ('<tool_call>{"name": "read",}</tool_call>', "not a valid call"),
        ('<tool_call>{"name": "read", "arguments": {}} it is</tool_call>', "not a valid call"),
        (f'<tool_call>[{READ}, {{"name": "reed", "arguments": {{}}}}]</tool_call>', "no tool `reed`"),
        ("<tool_call>read a.py</tool_call>", "no call follows"),
        ("<tool_call></tool_call>", "no call follows"),
        ('[TOOL_CALLS][{"name": "reed", "arguments": {}}]', "no tool `reed`"),
        ('<|python_tag|>{"name": "reed", "parameters": {}}', "no tool `reed`"),
        ('<|python_tag|>print("hi")', "no call follows"),
        ("<|python_tag|>import os\nprint(os)", "no call follows"),
        ("<|python_tag|>read.call(path='a.py')", "not a valid call"),
        ('<|python_tag|>read.call(path="a.py"', "never closed"),
        ('<|python_tag|>read.call(path="a.py", path="b.py")', "path"),
        ('<|python_tag|>read.call(path="a.py" "b")', "arguments are not valid"),
        ('<|python_tag|>read.call(path=open("a.py"))', "not a valid call"),
        ("<|python_tag|>read.call(path=name)", "arguments are not valid"),
        ('<|python_tag|>reed.call(path="a.py")', "no tool `reed`"),
        ("<function=reed>{}</function>", "no tool `reed`"),
        ("<function=reed><parameter=a>1</parameter></function>", "no tool `reed`"),
        ("<function=read>path</function>", "no call follows"),
        ("<function=read path>", "no call follows"),
        ("<function=read><parameter=path>a", "never closed"),
        (f"<tool_call>{READ[:-5]}", "never closed"),
        ('```json\n{"name": "reed", "arguments": {}}\n```', "no tool `reed`"),
        ('```json\n{"name": "read", "arguments": {"path": "a\n"}}\n```', "not a valid call"),
        ("```tool_call\nread a.py\n```", "no call follows"),
    ],
)
def test_unreadable_call_stays_exact_text_and_is_reported(text: str, reason: str) -> None:
    found, calls = filtered([f"So: {text}" if "```" not in text else text])
    assert "".join(item[1] for item in found).endswith(text)
    assert {item[0] for item in found} == {"text"}
    if reason:
        assert [reason in rejected.reason for rejected in calls.rejected_candidates] == [True]
        assert text.startswith(calls.rejected_candidates[0].text.split("\n")[0][:8])


BROKEN = '<tool_call>{"name": "write", "arguments": {"content": "line\nline"}}</tool_call>'


@pytest.mark.parametrize(
    "text",
    [
        f"{BROKEN}\n<tool_call>{READ}</tool_call>",
        f'<tool_call>{{"name": "read", oops\n<tool_call>{READ}</tool_call>',
        f'<tool_call>{{"name": "write", "arguments": {{"content": "a "<tool_call>{READ}</tool_call>""}}}}</tool_call>',
        '<tool_call>{"name": "write", "arguments": {"content": "<function=list_files></function>\n"}}</tool_call>',
        '<tool_call>{"name": "write", "arguments": {"content": "<function=list_files></function>',
        f"[TOOL_CALLS][{READ[:-1]}, [TOOL_CALLS][{READ}]",
        f"{BROKEN}\n```json\n{READ}\n```",
    ],
)
def test_text_after_or_inside_an_unreadable_call_is_not_a_call(text: str) -> None:
    found, calls = filtered([text])
    assert found == [("text", text)]
    assert len(calls.rejected_candidates) == 1
    assert calls.ends_rejected or "```" in text


def test_calls_beside_an_unknown_tool_are_calls() -> None:
    unknown = '<tool_call>{"name": "reed", "arguments": {}}</tool_call>'
    found, calls = filtered([f"{unknown}\n<tool_call>{READ}</tool_call>\n{unknown}"])
    assert [item[0] for item in found] == ["text", "taken", "read", "taken", "text"]
    assert len(calls.rejected_candidates) == 2
    assert calls_in(f"The mark <tool_call> begins a call:\n<tool_call>{READ}</tool_call>") == ONE


@pytest.mark.parametrize(
    ("text", "is_waiting"),
    [
        ('<tool_call>{"name": "reed", "arguments": {}}</tool_call>\n', True),
        ('<tool_call>{"name": "reed", "arguments": {}}</tool_call>\nThat is how.', False),
        ('<tool_call>{"name": "read", "arguments": {"path": "a\nb"}}</tool_call>', True),
        ('<tool_call>{"name": "read", "arguments": {"path": "a\nb"}}</tool_call> So.', False),
        ("<tool_call>read a.py</tool_call>", True),
        ("The <tool_call> mark is for calls.", False),
        (f"<tool_call>{READ[:-3]}", True),
        ('[TOOL_CALLS][{"name": "read" "arguments"', True),
        ('<tool_call>{"name": "reed", "arguments": {}}</tool_call>' + f"<tool_call>{READ}</tool_call>", False),
        ('```json\n{"name": "reed", "arguments": {}}\n```', False),
        ('```tool_call\n{"name": "reed", "arguments": {}}\n```\n', True),
    ],
)
def test_reply_that_ends_in_a_rejected_call_expects_an_answer(text: str, is_waiting: bool) -> None:
    assert filtered([text])[1].ends_rejected is is_waiting


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('<tool_call>{"name": "write", "arguments": {"path": "a", "con', [("~write", '{"path": "a", "con')]),
        ('<tool_call>{"name": "write", "arguments": ', [("~write", "")]),
        ('<tool_call>{"name": "write", "arg', [("~write", "")]),
        ('<tool_call>{"name": "wri', [(f"~{NO_NAME}", "")]),
        ("<tool_call>\n", [(f"~{NO_NAME}", "")]),
        ("<tool_c", [(f"~{NO_NAME}", "")]),
        ('<tool_call>{"name": "read", "arguments": {"path": "a.py"}', [("~read", READ_ARGUMENTS)]),
        (f"<tool_call>{READ}</tool", ONE),
        (f"<tool_call>{READ}\n{READ[:-6]}", [*ONE, ("~read", READ_ARGUMENTS[:-5])]),
        (f"[TOOL_CALLS][{READ}, {READ[:-6]}", [*ONE, ("~read", READ_ARGUMENTS[:-5])]),
        (f"[TOOL_CALLS][{READ},", ONE),
        ('[TOOL_CALLS]write[ARGS]{"path": "a', [("~write", '{"path": "a')]),
        ("[TOOL_CALLS]wri", [(f"~{NO_NAME}", "")]),
        ('<|python_tag|>{"name": "read", "parameters": {"pa', [("~read", '{"pa')]),
        ('<|python_tag|>read.call(path="a', [("~read", "")]),
        ('<tool_call>{"function": {"name": "read", "arguments": {"pa', [("~read", '{"pa')]),
        ("<function=wri", [(f"~{NO_NAME}", "")]),
        ("<function=write>", [("~write", "")]),
        ('<function=write>{"path": "a', [("~write", '{"path": "a')]),
        ("<function=write><parameter=path>\na\n</parameter>\n<param", [("~write", '{"path": "a"')]),
        ("<function=write><parameter=path>\na\n</parameter>", [("~write", '{"path": "a"')]),
        ("<function=write><parameter=path>\na", [("~write", '{"path": "a')]),
        (
            '<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n"1"\n2',
            [("~write", '{"path": "a", "content": "\\"1\\"\\n2')],
        ),
        ("<function=read><parameter=limit>\n1", [("~read", '{"limit": 1')]),
        ('```json\n{"name": "write", "arguments": {"path": "a', [("~write", '{"path": "a')]),
        ('```tool_call\n{"name": "write"', [("~write", "")]),
    ],
)
def test_truncated_call_is_an_incomplete_call_and_not_text(text: str, calls: list[tuple[str, str]]) -> None:
    assert calls_in(f"Now.\n{text}", is_cut=True) == calls
    assert visible_in(f"Now.\n{text}", is_cut=True) == "Now.\n"


@pytest.mark.parametrize(
    "text",
    [
        "a <",
        "so [TOO",
        '<tool_call>{"name": "reed", "arguments": {"a',
        '<tool_call>{"name": 7, "arguments": {"a',
        "<tool_call>[7, 8",
        "<function=reed>{",
        "<function=reed><parameter=a>b",
        '```json\n{"name": "rea',
        '```json\n{"name": "reed", "arguments": {"a',
        '```json\n{"version": 1, "lines": [1,',
        "```python\n<tool_c",
        "see `<tool_call>{",
        "<think>maybe <tool_call>{",
    ],
)
def test_truncated_text_stays_text(text: str) -> None:
    assert filtered([text], is_cut=True)[0] == [("text", text)]


def test_arguments_of_a_complete_call_are_always_an_object() -> None:
    arguments = {"path": "é\u2028😀", "limit": -0.5, "lines": [None, True, {"a": []}]}
    text = json.dumps({"name": "read", "arguments": arguments}, ensure_ascii=False)
    ((_, raw),) = calls_in(f"<tool_call>{text}</tool_call>")
    assert json.loads(raw) == arguments
    assert "é" in raw


def test_partial_call_after_a_complete_one_stays_open() -> None:
    text = f"<tool_call>{LIST}<function=rea"
    assert calls_in(text) == []
    assert calls_in(text, is_cut=True) == [("list_files", "{}"), (f"~{NO_NAME}", "")]
