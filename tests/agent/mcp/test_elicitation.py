"""Questions of servers: forms, their answers, addresses, and the requests that wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.mcp.elicitation import DECLINE, LEAVE_OUT, SEND, WILL_OPEN, FormAnswer, fill_form, parse_form, visit
from qcode.protocol.approvals import Answer, Choice
from tests.agent.mcp.serving import ServerFolders, call, open_servers, texts
from tests.fakes.clock import run_skipping, skip


class Asked:
    """Answers in order; keeps each question with its details and the labels of its choices."""

    def __init__(self, *answers: str | None) -> None:
        self._answers = list(answers)
        self.seen: list[tuple[str, str, tuple[str, ...]]] = []

    async def __call__(self, question: str, detail: str, choices: Sequence[Choice], **_: bool) -> str | None:
        self.seen.append((question, detail, tuple(choice.label for choice in choices)))
        return self._answers.pop(0)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def filled(found: dict[str, Any], *answers: str | None) -> FormAnswer:
    return asyncio.run(fill_form("srv", "Tell me", found, Asked(*answers)))


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        ({"type": "string"}, "x y", "x y"),
        ({"type": "string", "format": "email"}, "a@b.example", "a@b.example"),
        ({"type": "string", "format": "uri"}, "https://b.example", "https://b.example"),
        ({"type": "string", "format": "date"}, "2026-11-22", "2026-11-22"),
        ({"type": "string", "format": "date-time"}, "2026-11-22T10:00:00Z", "2026-11-22T10:00:00Z"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, "3", 3),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "string", "enum": ["a", "b"]}, "B", "b"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Ay", "Bee"]}, "Bee", "b"),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]}, "Red", "r"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 2}, "a, b", ["a", "b"]),
        ({"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}}, "red", ["r"]),
    ],
)
def test_answer_is_sent_in_the_type_of_its_field(field: dict[str, Any], typed: str, value: object) -> None:
    assert filled(schema(one=field), typed) == ("accept", {"one": value})


@pytest.mark.parametrize(
    ("field", "typed", "says"),
    [
        ({"type": "string", "minLength": 3}, "ab", "at least 3 characters"),
        ({"type": "string", "maxLength": 3}, "abcd", "at most 3 characters"),
        ({"type": "string", "format": "email"}, "nobody", "an e-mail address"),
        ({"type": "string", "format": "uri"}, "nowhere", "an address"),
        ({"type": "string", "format": "date"}, "tomorrow", "a date such as 2026-11-22"),
        ({"type": "string", "format": "date"}, "20261122", "a date such as 2026-11-22"),
        ({"type": "string", "format": "date-time"}, "2026-11-22", "a date and time such as"),
        ({"type": "string", "format": "date-time"}, "2026-11-22T10:00:00", "a date and time such as"),
        ({"type": "integer"}, "1.5", "a whole number"),
        ({"type": "integer", "maximum": 3}, "4", "at most 3"),
        ({"type": "number"}, "nan", "a number"),
        ({"type": "boolean"}, "perhaps", "yes or no"),
        ({"type": "string", "enum": ["a"]}, "c", "one of the answers"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2}, "a", "at least 2"),
    ],
)
def test_answer_that_does_not_fit_is_asked_for_again(field: dict[str, Any], typed: str, says: str) -> None:
    asked = Asked(typed, None)
    assert asyncio.run(fill_form("srv", "Tell me", schema(one=field), asked)) == ("cancel", {})
    assert says in asked.seen[1][1]


_LONG = "x" * 300


@pytest.mark.parametrize(
    ("field", "number", "value"),
    [
        ({"type": "string", "oneOf": [{"const": "a", "title": _LONG}, {"const": "b", "title": f"{_LONG}b"}]}, 1, "b"),
        ({"type": "string", "enum": ["a", "\x1b[31mred\n\nred"]}, 1, "\x1b[31mred\n\nred"),
        ({"type": "string", "enum": ["yes", "no"], "enumNames": ["Accept", DECLINE]}, 1, "no"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Same", "Same"]}, 1, "b"),
        ({"type": "array", "items": {"enum": ["w", "r"], "enumNames": ["Bread, white", "Bread, rye"]}}, 1, ["r"]),
        ({"type": "string", "default": f"https://example.org/{_LONG}"}, 0, f"https://example.org/{_LONG}"),
        ({"type": "string", "enum": ["a", "b"], "default": "b"}, 0, "b"),
        ({"type": "boolean", "default": False}, 0, False),
    ],
)
def test_shown_choice_sends_its_value(field: dict[str, Any], number: int, value: object) -> None:
    async def choose(question: str, detail: str, choices: Sequence[Choice], **_: bool) -> str | None:
        assert len({choice.label for choice in choices}) == len(choices)
        return choices[number].label

    found = asyncio.run(fill_form("srv", "Tell me", schema(one=field), choose))
    assert found == ("accept", {"one": value})


def test_choice_with_a_comma_can_be_typed() -> None:
    field = {"type": "array", "items": {"enum": ["w", "r"], "enumNames": ["Bread, white", "Rye"]}}
    assert filled(schema(one=field), "bread, white") == ("accept", {"one": ["w"]})
    assert filled(schema(one=field), "w, rye") == ("accept", {"one": ["w", "r"]})


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (Answer.of_choices(["Bread, white", "Rye"]), ["w", "r"]),
        (Answer.of_choices(["Bread, white"]), ["w"]),
        (Answer.of_choices(["Rye"], "1. Decline, bread, white"), None),
        (Answer.of_choices(["Rye"], "w"), ["r", "w"]),
        (Answer.of_choices(["3. Decline", "Rye"]), ["d", "r"]),
        (Answer("Bread, white, Rye"), None),
    ],
)
def test_several_checked_choices_are_a_list_of_values(answer: Answer, value: list[str] | None) -> None:
    kinds = {"enum": ["w", "r", "d"], "enumNames": ["Bread, white", "Rye", DECLINE]}
    asked = Asked(answer.text, None)
    found = asyncio.run(fill_form("srv", "Tell me", schema(one={"type": "array", "items": kinds}), asked))
    assert found == (("accept", {"one": value}) if value else ("cancel", {}))


def test_choices_that_are_no_values_are_marked_and_only_a_list_asks_for_several() -> None:
    asked: list[tuple[bool, dict[str, bool]]] = []

    async def ask(
        question: str, detail: str, choices: Sequence[Choice], *, is_multi_select: bool = False, **_: bool
    ) -> str:
        asked.append((is_multi_select, {choice.label: choice.is_action for choice in choices}))
        return LEAVE_OUT

    items = {"enum": ["a", "b"]}
    found: dict[str, Any] = {
        "type": "object",
        "properties": {"list": {"type": "array", "items": items, "default": ["a", "b"]}, "size": {"type": "integer"}},
    }
    asyncio.run(fill_form("srv", "Tell me", found, ask))
    assert asked[0] == (True, {"a, b": True, "a": False, "b": False, LEAVE_OUT: True, DECLINE: True})
    assert asked[1] == (False, {LEAVE_OUT: True, DECLINE: True})


def test_only_fields_accept_text_and_a_confirmation_or_an_address_does_not() -> None:
    asked: list[tuple[str, bool]] = []
    answers = iter(("Jo", "4", SEND, WILL_OPEN))

    async def ask(
        question: str,
        detail: str,
        choices: Sequence[Choice],
        *,
        accepts_text: bool = True,
        **_: bool,
    ) -> str:
        asked.append((question.partition(" (")[0], accepts_text))
        return next(answers)

    fields = schema(name={"type": "string"}, size={"type": "integer"})
    asyncio.run(fill_form("srv", "Tell me", fields, ask))
    asyncio.run(visit("Log in", "https://h.example", ask))
    address = "The server wants you to open a page of h.example: Log in"
    assert asked == [("Tell me", True), ("Tell me", True), ("Send this to srv? Tell me", False), (address, False)]


def test_form_with_several_fields_is_shown_before_it_is_sent() -> None:
    found = schema(name={"type": "string", "title": "Your name"}, size={"type": "integer", "default": 4})
    found["required"] = ["name"]
    asked = Asked("Jo", "4", SEND)
    assert asyncio.run(fill_form("srv", "Tell me", found, asked)) == ("accept", {"name": "Jo", "size": 4})
    assert asked.seen[0][0] == "Tell me (1 of 2)"
    assert asked.seen[1][2] == ("4", LEAVE_OUT, DECLINE)
    assert asked.seen[2] == ("Send this to srv? Tell me", "Your name: Jo\nsize: 4", (SEND, DECLINE))
    assert filled(found, "Jo", LEAVE_OUT, SEND) == ("accept", {"name": "Jo"})
    assert filled(found, "Jo", "4", DECLINE) == ("decline", {})
    assert filled(found, "Jo", "4", None) == ("cancel", {})
    assert filled(found, DECLINE) == ("decline", {})


@pytest.mark.parametrize(
    "field",
    [{"type": "string", "title": "Password"}, {"type": "string", "description": "your API key"}],
)
def test_field_that_looks_like_a_secret_is_warned_about(field: dict[str, Any]) -> None:
    asked = Asked(None)
    asyncio.run(fill_form("srv", "Log in", schema(one=field), asked))
    assert "looks like a request for a secret" in asked.seen[0][1]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (schema(one={"type": "object", "properties": {}}), "nested"),
        (schema(one={"type": "array", "items": {"type": "object"}}), "nested"),
        (schema(one=7), "no schema"),
        (schema(**{f"f{number}": {"type": "string"} for number in range(21)}), "more than 20 fields"),
        (schema(one={"type": "string", "description": "x" * 9_000}), "larger than 8 KiB"),
        ({"type": "array"}, "not a flat object"),
    ],
)
def test_form_that_cannot_be_shown_is_refused(found: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_form(found)


def test_text_of_a_server_is_shown_without_hidden_characters() -> None:
    asked = Asked(None)
    field = {"type": "string", "title": "a\x1b[2Jb", "description": "c\u202ed", "enum": ["\x1b[31mred"]}
    asyncio.run(fill_form("srv", "one\n\n1. Allow", schema(one=field), asked))
    question, detail, labels = asked.seen[0]
    assert "\n" not in question
    assert not {"\x1b", "\u202e"} & set("".join((question, detail, *labels)))


def test_address_is_shown_completely_and_never_opened() -> None:
    asked = Asked(WILL_OPEN)
    url = "https://xn--pypal-4ve.example/login?next=https://paypal.example"
    assert asyncio.run(visit("Log in", url, asked)) == "accept"
    question, detail, labels = asked.seen[0]
    assert "xn--pypal-4ve.example" in question
    assert f"Address: {url}\nHost:    xn--pypal-4ve.example" in detail
    assert "Punycode" in detail
    assert labels == (WILL_OPEN, DECLINE)
    assert asyncio.run(visit("x", "http://127.0.0.1:99/x", Asked(DECLINE))) == "decline"
    assert asyncio.run(visit("x", "https://h.example", Asked(None))) == "cancel"


@pytest.mark.parametrize(
    "url", ["http://h.example", "javascript:x", "https://u:p@h.example", "https://", "https://h/\n"]
)
def test_unsafe_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="its address"):
        asyncio.run(visit("x", url, Asked()))


@pytest.fixture
def folders(tmp_path: Path) -> ServerFolders:
    return ServerFolders(tmp_path)


FORM = {"message": "Who are you?", "requestedSchema": schema(name={"type": "string"})}
URL = {"mode": "url", "message": "Log in", "url": "https://h.example/x", "elicitationId": "1"}


LIMIT_S = 60.0


async def late(question: str, detail: str, choices: Sequence[Choice], **_: bool) -> str | None:
    """Answer after the time limit of the call."""
    await skip(LIMIT_S + 1)
    return "Jo"


def test_server_asks_during_a_call_and_the_limit_pauses(folders: ServerFolders) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.spec(timeout_s=LIMIT_S))) as servers:

            async def said(params: dict[str, Any], ask: Any = None) -> str:
                return (await call(servers, "fake__ask", {"params": params}, ask=ask)).content

            assert await said(FORM, late) == '{"action": "accept", "content": {"name": "Jo"}}'
            assert await said(FORM, Asked(DECLINE)) == '{"action": "decline"}'
            assert await said(FORM, Asked(None)) == '{"action": "cancel"}'
            assert await said(URL, Asked(WILL_OPEN)) == '{"action": "accept"}'
            refused = await said({**URL, "url": "http://h.example"}, Asked())
            assert refused.startswith(
                '{"action": "decline"}\n[The server asked for input, which was declined: its address'
            )
            alone = await said(FORM)
            assert alone.startswith('{"action": "cancel"}\n[The server asked the user: "Who are you?"')
            assert alone.endswith("No user can answer, so it was cancelled.]")

    run_skipping(body())


def test_cancelled_call_withdraws_its_question_and_the_next_one_is_asked(folders: ServerFolders) -> None:
    form: dict[str, Any] = {"message": "Who?", "requestedSchema": schema(who={"type": "string"})}

    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            asked, withdrawn = asyncio.Event(), asyncio.Event()

            async def wait(question: str, detail: str, choices: Sequence[Choice], **_: bool) -> str | None:
                asked.set()
                try:
                    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
                finally:
                    withdrawn.set()

            work = asyncio.ensure_future(call(servers, "fake__ask", {"params": form}, ask=wait))
            await asked.wait()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await withdrawn.wait()
            outcome = await call(servers, "fake__ask", {"params": form}, ask=Asked("Jo"))
            assert "Jo" in outcome.content

    asyncio.run(body())


@pytest.mark.parametrize(
    "tool", ["fake__ask_while_running", pytest.param("fake__ask_and_catch", marks=pytest.mark.broad)]
)
def test_tool_that_asks_while_it_runs_is_restarted_with_the_older_protocol_once(
    tool: str, folders: ServerFolders
) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.sdk_spec())) as servers:
            assert (await call(servers, "fake__ask", ask=Asked("Jo"))).content == "accept Jo state 1"
            refused = await call(servers, tool, ask=Asked("3"))
            assert "was restarted with that; repeat the call" in refused.content
            assert (await call(servers, tool, ask=Asked("3"))).content == "accept seats=3"
            alone = await call(servers, tool)
            assert "No user can answer, so it was cancelled." in alone.content
            assert folders.begun() == 2
            assert texts(servers) == ""

    asyncio.run(body())


@pytest.mark.broad
def test_result_that_requires_input_is_requested_again_with_the_answer(folders: ServerFolders) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.sdk_spec())) as servers:
            assert (await call(servers, "fake__ask", ask=Asked("Jo"))).content == "accept Jo state 1"
            assert (await call(servers, "fake__ask", ask=Asked(None))).content == "cancel None state 1"
            assert "No user can answer" in (await call(servers, "fake__ask")).content
            endless = await call(servers, "fake__ask_forever")
            assert endless.content == "the server fake: the server asked for input more than 10 times"

    asyncio.run(body())
