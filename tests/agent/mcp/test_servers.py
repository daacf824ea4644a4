"""Server processes: start, list, call and end. Their failures are reported and affect nothing else."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path

import pytest

from qcode.agent.mcp import transports
from qcode.agent.mcp.connection import ServerConnection
from qcode.agent.mcp.spec import ServerError
from qcode.text.json import JsonObject
from tests.agent.mcp.serving import ServerFolders, call, is_running, names, open_servers, texts, until
from tests.fakes.tool_server import CONTROLS


@pytest.fixture
def folders(tmp_path: Path) -> ServerFolders:
    return ServerFolders(tmp_path)


def test_tools_are_listed_and_called(folders: ServerFolders, tmp_path: Path) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.sdk_spec())) as servers:
            assert names(servers) == sorted(names(servers))
            assert {"fake__add", "fake__slow"} <= set(names(servers))
            added = await call(servers, "fake__add", {"a": 2, "b": 3})
            assert (added.content, added.is_error) == ("5", False)
            failed = await call(servers, "fake__fail", {"why": "no such thing"})
            assert failed.is_error
            assert "no such thing" in failed.content
            unknown = await call(servers, "fake__nothing")
            assert unknown.is_error
            assert unknown.content.startswith("the tool fake__nothing is not available now; use another tool")
            drawn = await call(servers, "fake__draw")
            assert [image.media_type for image in drawn.images] == ["image/png"]
            found = await call(servers, "fake__resource")
            assert "[resource memo://1]\nremember" in found.content
            assert json.loads(found.content.split("remember\n")[1]) == {"deep": [1, 2]}
            assert (await call(servers, "fake__controls")).content.startswith(CONTROLS)
            assert (await call(servers, "fake__folder")).content.startswith(str(folders.work))
            environment = (await call(servers, "fake__environment")).content.split()
            assert "TOOL_SERVER_STATE" in environment
            assert "OPENAI_API_KEY" not in environment
            long = await call(servers, "fake__flood", {"size": 300_000}, folder=tmp_path, limit=2_000)
            assert len(long.content) < 2_500
            (kept_file,) = tmp_path.glob("*.txt")
            assert kept_file.read_text().startswith("x" * 300_000)
            assert texts(servers) == ""
        (pid,) = folders.pids()
        assert not is_running(pid)

    asyncio.run(body())


def test_error_of_a_cancelled_call_is_not_reported(folders: ServerFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def fail_when_cancelled(*_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ServerError("the server ended during the call") from None

    async def body() -> list[str]:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        async with open_servers(folders.servers(folders.sdk_spec())) as servers:
            monkeypatch.setattr(ServerConnection, "request", fail_when_cancelled)
            work = asyncio.ensure_future(call(servers, "fake__slow"))
            await begun.wait()
            work.cancel()
            await asyncio.wait({work})
            assert work.cancelled()
            del work
            gc.collect()
        return reported

    assert asyncio.run(body()) == []


def test_cancelled_or_timed_out_call_ends_and_notifies_the_server(folders: ServerFolders) -> None:
    heard: list[str] = []

    async def body() -> None:
        async with open_servers(
            folders.servers(folders.sdk_spec(), folders.sdk_spec("hasty", timeout_s=0.4))
        ) as servers:
            work = asyncio.ensure_future(call(servers, "fake__slow", {"seconds": 60}, output=heard.append))
            await until(lambda: bool(heard) and (folders.state / "begun").exists())
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await until((folders.state / "cancelled").exists)
            late = await call(servers, "hasty__slow", {"seconds": 60})
            assert (late.is_error, "ran longer than 0.4 s" in late.content) == (True, True)
            assert (await call(servers, "fake__add", {"a": 1, "b": 1})).content.startswith("2")

    asyncio.run(body())
    assert heard == ["1/3 on the way\n"]


def test_crashed_server_is_restarted_once(folders: ServerFolders) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            crashed = await call(servers, "fake__crash")
            assert (crashed.is_error, crashed.content) == (True, "the server fake: the server ended during the call")
            assert crashed.summary == "the server ended during the call"
            await until(lambda: folders.begun() == 2 and servers.statuses()[0].state == "ready")
            assert "fake exited and is restarting" in texts(servers)
            assert "it hurts" in servers.statuses()[0].log
            assert (await call(servers, "fake__add", {"a": 1, "b": 1})).content.startswith("2")
            await call(servers, "fake__crash")
            await until(lambda: servers.statuses()[0].state == "failed")
            assert "exit code 3" in texts(servers)
            assert (folders.begun(), names(servers)) == (2, [])
            gone = await call(servers, "fake__add", {"a": 1, "b": 1})
            assert gone.is_error
            servers.restart("fake")
            await until(lambda: servers.statuses()[0].state == "ready")
            assert (await call(servers, "fake__add", {"a": 1, "b": 1})).content.startswith("2")
            servers.kill()
            await until(lambda: not is_running(folders.pids()[2]))

    asyncio.run(body())


def test_turn_after_a_restart_waits_for_the_server(folders: ServerFolders) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            servers.restart("fake")
            await servers.wait_until_started(60)
            assert servers.statuses()[0].state == "ready"
            servers.switch("fake", is_on=False)
            servers.switch("fake", is_on=True)
            await servers.wait_until_started(60)
            assert servers.statuses()[0].state == "ready"

    asyncio.run(body())


def test_minimal_or_noisy_servers_work(folders: ServerFolders) -> None:
    async def body() -> None:
        specs = (folders.spec("old", kind="strict"), folders.spec("noisy", kind="noisy"))
        async with open_servers(folders.servers(*specs)) as servers:
            assert "old__add" in names(servers)
            assert (await call(servers, "old__add", {"a": 2, "b": 3})).content == "5"
            assert "noisy__add" in names(servers)
            assert "Welcome to the noisy server!" in servers.statuses()[1].log
            assert texts(servers) == ""

    asyncio.run(body())


def test_unusable_server_is_named_with_its_reason(folders: ServerFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "MAX_LINE_BYTES", 200_000)

    async def body() -> None:
        specs = (
            folders.spec("absent", command="no-such-program-here"),
            folders.spec("leaving", kind="exits"),
            folders.spec("silent", kind="silent", startup_timeout_s=0.5),
            folders.spec("endless", kind="endless"),
            folders.spec("unset", args=("${NOT_SET_ANYWHERE}",)),
            folders.spec("off", enabled=False),
        )
        async with open_servers(folders.servers(*specs)) as servers:
            notices = texts(servers)
            assert {status.state for status in servers.statuses()} == {"failed", "off"}
            assert names(servers) == []
        assert "absent failed: the program no-such-program-here was not found on PATH" in notices
        assert "leaving failed: the connection ended" in notices or "leaving failed: it answered" in notices
        assert "no license found" in notices or "exit code 4" in notices
        assert "silent failed: it was not ready within 0.5 s" in notices
        assert "endless failed: it sent a message larger than 0 MiB;" in notices
        assert "unset failed: the variable NOT_SET_ANYWHERE is not set" in notices
        assert [is_running(pid) for pid in folders.pids()] == [False] * len(folders.pids())

    asyncio.run(body())


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("misnumbered", "it answered a request that was not sent (id 999)"),
        ("confused", "it answered with an error: expected XML"),
        ("wordy", "its response is not a message of the protocol"),
    ],
)
def test_wrong_response_fails_the_server_at_once(kind: str, says: str, folders: ServerFolders) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.spec(kind=kind, startup_timeout_s=3_600))) as servers:
            assert servers.statuses()[0].problem.startswith(says)

    asyncio.run(body())


def test_server_that_is_never_ready_is_started_once(folders: ServerFolders) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.spec(kind="silent", startup_timeout_s=0.5))):
            assert folders.begun() == 1

    asyncio.run(body())


def test_slow_server_does_not_delay_the_first_turn(folders: ServerFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    timeout = asyncio.timeout

    def recorded(seconds: float) -> asyncio.Timeout:
        if seconds <= 0.2:
            waits.append(seconds)
        return timeout(seconds)

    async def body() -> None:
        servers = folders.servers(folders.spec(kind="silent"))
        monkeypatch.setattr(asyncio, "timeout", recorded)
        try:
            await servers.wait_until_started(0.2)
            assert "still starting, so their tools become available later: fake" in texts(servers)
            assert sum(waits) == pytest.approx(0.2)
            await servers.wait_until_started()  # waits no second time
        finally:
            await servers.close()

    asyncio.run(body())


def test_invalid_tool_is_disabled_with_its_reason_and_the_others_work(folders: ServerFolders) -> None:
    extra = [{"name": "bad", "inputSchema": {"type": "array"}}, {"name": "worse"}, 7, {"inputSchema": {}}]
    (folders.state / "extra").write_text(json.dumps(extra))

    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            assert names(servers) == ["fake__add", "fake__ask", "fake__crash"]
            assert (await call(servers, "fake__add", {"a": 1, "b": 1})).content == "2"
            notices = texts(servers)
            assert (
                "the tool bad of fake is disabled: its definition is not valid (tools.0.inputSchema.type: " in notices
            )
            assert "the tool worse of fake is disabled: its definition is not valid (tools.0.inputSchema: " in notices
            assert "the tool (unnamed) of fake is disabled: its definition is not valid (tools.0: " in notices

    asyncio.run(body())


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ({"code": -32000, "message": "quota used up"}, "answered with an error: quota used up"),
        ({"code": -32001, "message": "no session"}, "answered with an error: no session"),
        ({"code": -32603, "message": ""}, "answered with an error: error -32603"),
        (
            {"code": -32022, "message": "old", "data": {"supported": ["2027-01-01"], "requested": "x"}},
            "old (it supports only the protocol versions 2027-01-01)",
        ),
        (
            {"code": -32021, "message": "need", "data": {"requiredCapabilities": {"sampling": {}}}},
            "need (it requires a feature that is off or not supported: sampling)",
        ),
        ({"code": -32020, "message": "odd"}, "odd (headers and body of the request differ"),
    ],
)
def test_error_of_a_server_keeps_its_message(folders: ServerFolders, error: JsonObject, says: str) -> None:
    (folders.state / "error").write_text(json.dumps(error))

    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            failed = await call(servers, "fake__add", {"a": 1, "b": 1})
            assert failed.is_error
            assert says in failed.content
            assert servers.statuses()[0].state == "ready"

    asyncio.run(body())


def test_invalid_result_is_one_line_with_the_wrong_field(folders: ServerFolders) -> None:
    (folders.state / "result").write_text('{"content": "x"}')

    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            failed = await call(servers, "fake__add", {"a": 1, "b": 1})
            assert failed.is_error
            assert (
                failed.content == "the server fake: its response is not valid (content: Input should be a valid list)"
            )
            assert servers.statuses()[0].state == "ready"

    asyncio.run(body())


@pytest.mark.parametrize("result", ['"done"', "[]", "null", "7"])
def test_result_that_is_not_an_object_fails_the_call_at_once(folders: ServerFolders, result: str) -> None:
    (folders.state / "result").write_text(result)

    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            async with asyncio.timeout(20):
                failed = await call(servers, "fake__add", {"a": 1, "b": 1})
            assert failed.is_error
            assert failed.content == "the server fake: its response is not a message of the protocol"
            assert servers.statuses()[0].state == "ready"

    asyncio.run(body())


def test_half_of_a_character_in_a_result_is_replaced(folders: ServerFolders) -> None:
    # The fake server writes it as an escape, as JavaScript does for a text that was cut inside an emoji.
    (folders.state / "result").write_text('{"content": [{"type": "text", "text": "cut \\ud83d"}]}')

    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            async with asyncio.timeout(20):
                assert (await call(servers, "fake__add", {"a": 1, "b": 1})).content == "cut ?"

    asyncio.run(body())


def test_too_large_result_is_named_as_the_reason_of_the_restart(
    folders: ServerFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transports, "MAX_LINE_BYTES", 200_000)
    (folders.state / "result").write_text(json.dumps({"content": [{"type": "text", "text": "x" * 1_000_000}]}))

    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            failed = await call(servers, "fake__add", {"a": 1, "b": 1})
            assert failed.content == "the server fake: it sent a message larger than 0 MiB"
            await until(lambda: "is restarting: it sent a message larger than 0 MiB" in texts(servers))

    asyncio.run(body())


def test_last_lines_of_a_failed_server_are_shown_and_one_shots_continue(folders: ServerFolders) -> None:
    (folders.state / "complaint").write_text("line one\nline \x1b[31mtwo\nsee the log")

    async def body() -> None:
        async with open_servers(folders.servers(folders.spec(kind="exits")), is_attended=False) as servers:
            notices = texts(servers)
        assert "; continuing without it; the end of its output:\n" in notices
        assert "the connection ended (exit code 4: see the log)" in notices
        assert "\n  line one\n  line " in notices
        assert notices.count("line one") == 1  # of the second start only
        assert "\n  see the log" in notices
        assert "\x1b" not in notices

    asyncio.run(body())


def test_log_messages_of_a_server_are_in_its_log_one_line_each(folders: ServerFolders) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.spec(kind="prompts"))) as servers:
            lines = servers.statuses()[0].log.splitlines()
        assert lines[:2] == ["[warning] db: the index is old", '[info] {"rows": 3}']

    asyncio.run(body())


def test_failed_refresh_keeps_the_previous_lists(folders: ServerFolders) -> None:
    async def body() -> None:
        async with open_servers(folders.servers(folders.spec())) as servers:
            (folders.state / "unlisted").write_text("yes")
            (folders.state / "announces").write_text("yes")
            assert (await call(servers, "fake__add", {"a": 1, "b": 1})).content == "2"
            await until(lambda: "cannot be refreshed" in servers.statuses()[0].log)
            assert names(servers) == ["fake__add", "fake__ask", "fake__crash"]
            assert servers.statuses()[0].state == "ready"

    asyncio.run(body())
