"""Sessions that an earlier version stored are listed, shown, exported and resumed; new sessions are pinned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.fakes import replies
from tests.fakes.server import FakeServer
from tests.pins.conversations import CONVERSATIONS, HELLO
from tests.pins.golden import Golden
from tests.pins.runner import KEYS, PinRunner
from tests.pins.stored import SESSIONS, file_of, folder_of, install, listing, records
from tests.pins.test_runs import report
from tests.pins.test_wire import play

PROTOCOL_OF = {"thinking": "anthropic", "thinking-responses": "openai-responses"}
SAMPLE = ("compaction", "killed-in-agent", "thinking", "tools", "torn", "undo")
"""The conversations that run by default; the others are broad."""

WRITTEN = ("agent", "attachments", "edit", "thinking", "truncated", "truncated-call")


def sessions() -> Iterator[object]:
    for name in SESSIONS:
        yield pytest.param(name, marks=() if name in SAMPLE else (pytest.mark.broad,))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sessions())
def test_stored_session_is_shown_and_exported(name: str, cli: PinRunner, golden: Golden) -> None:
    commands = []
    for session_id in install(cli, name):
        commands += [("show", session_id), *(("export", session_id, "--format", form) for form in ("md", "json"))]
    before = records(cli)
    sections = [report(" ".join(command), cli.run("sessions", *command), cli) for command in (("list",), *commands)]
    golden.check_text(f"stored/{name}.txt", "\n".join(sections))
    assert records(cli) == before, "reading a session changed it"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sessions())
def test_stored_session_is_continued(name: str, cli: PinRunner, golden: Golden) -> None:
    protocol = PROTOCOL_OF.get(name, "openai")
    with FakeServer(protocol, [replies.text("Further.")]) as server:  # type: ignore[arg-type]  # one of the five
        *_, session_id = install(cli, name, port=server.port)
        before = file_of(cli, session_id).read_text("utf-8")
        done = cli.ask_host(server, protocol, "-p", "go on", "-r", session_id, "-o", "json")
        after = file_of(cli, session_id).read_text("utf-8")
        requests = cli.recorded(server.requests)
    kept = len(before) if after.startswith(before) else 0
    appended = f"--- appended{'' if kept else ', nothing kept'}\n{cli.normalized(after[kept:])}"
    text = f"{report('resumed', done, cli)}{appended}--- files\n{listing(cli)}"
    golden.check_text(f"stored/{name}.resumed.txt", text)
    golden.check_requests(f"stored/{name}.json", requests)


def test_all_sessions_of_a_folder(cli: PinRunner, golden: Golden) -> None:
    ids = install(cli, *SESSIONS)
    commands = (
        ("list",),
        ("list", "story"),
        ("list", "WÖRLD"),
        ("list", "hello", "you"),
        ("list", "no such words"),
        ("show", ids[0][:-1]),
        ("show", "2025"),
        ("show", "20250301-120011"),
        ("export", ids[0], "--format", "pdf"),
        ("export", "20250301-120011", "-o", "out.md"),
        ("export", "20250301-120011", "-o", "out.md"),
        ("delete", "20250301-120011"),
        ("delete", "20250301-120011"),
        ("list", "blue"),
    )
    sections = [report(" ".join(command), cli.run("sessions", *command), cli) for command in commands]
    golden.check_text("stored/commands.txt", "\n".join(sections))


def test_export_as_a_page(cli: PinRunner, golden: Golden) -> None:
    (session_id,) = install(cli, "tools")
    done = cli.run("sessions", "export", session_id, "--format", "html")
    assert (done.code, done.err) == (0, "")
    golden.check_text("stored/tools.html", cli.normalized(done.out))


@pytest.mark.parametrize(("flags", "name"), [(("-c",), "latest"), (("-c", "--fork-session"), "forked")])
def test_latest_session_is_continued(flags: tuple[str, ...], name: str, cli: PinRunner, golden: Golden) -> None:
    ids = install(cli, "plain", "tools", "refused")
    before = {session_id: file_of(cli, session_id).read_text("utf-8") for session_id in ids}
    with FakeServer("openai", [replies.text("Further.")]) as server:
        done = cli.ask_host(server, "openai", "-p", "go on", *flags)
        golden.check_requests(f"stored/{name}.json", cli.recorded(server.requests))
    changed = [item for item in ids if file_of(cli, item).read_text("utf-8") != before[item]]
    new = sorted(path.stem for path in folder_of(cli).glob("*.jsonl") if path.stem not in ids)
    forked = "".join(cli.normalized(file_of(cli, item).read_text("utf-8")) for item in new)
    changes = f"--- changed\n{' '.join(changed)}\n--- new\n{forked}"
    golden.check_text(f"stored/{name}.txt", f"{report(' '.join(flags), done, cli)}{changes}")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "edit" else (pytest.mark.broad,)) for name in WRITTEN]
)
def test_session_file_of_a_conversation(name: str, cli: PinRunner, golden: Golden) -> None:
    """The files written now, as input for a later version."""
    play(CONVERSATIONS[name], "anthropic", cli)
    golden.check_text(f"stored/written-{name}.txt", f"{records(cli)}--- files\n{listing(cli)}")


@pytest.mark.broad
def test_stored_changes_of_files_are_undone_and_redone(cli: PinRunner) -> None:
    changed = 'def hello(name):\n    return f"Hi, {name}"\n'
    (session_id,) = install(cli, "tools")
    hello, new = cli.work / "hello.py", cli.work / "new.py"
    hello.write_text(changed)
    new.write_text("x = 1\n")
    with (
        FakeServer("openai", []) as server,
        Terminal(
            cli, "-m", "openai/test-model", "--base-url", server.base_url, "-r", session_id, "--trust",
            env=KEYS["openai"],
        ) as terminal,
    ):  # fmt: skip
        terminal.wait_for("Ask ·", 60)
        terminal.press("/undo\r")
        terminal.wait_for(lambda _: hello.read_text() == HELLO and not new.exists(), 60)
        terminal.wait_for("/redo")
        for _ in "say hi instead":
            terminal.press("\x7f")
        terminal.wait_for(lambda text: "say hi instead" not in text.rpartition("/redo")[2], 60)
        terminal.press("/redo\r")
        terminal.wait_for(lambda _: hello.read_text() == changed and _text_of(new) == "x = 1\n", 60)


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""
