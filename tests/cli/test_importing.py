"""`qcode sessions import` and the columns of `qcode sessions list`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.sessions.store import SessionStore
from qcode.cli.main import main
from qcode.cli.subcommands.sessions import chosen_numbers
from qcode.protocol.errors import InputError
from qcode.protocol.messages import user
from qcode.text.numbers import bytes_text
from tests.agent.imports.written import Claude, claude_records, codex_records, write


class ImportRunner:
    """A folder, and homes of qcode and of other programs."""

    def __init__(self, base: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.home, self.state, self.work = base / "home", base / "qcode" / "state", base / "work"
        self.work.mkdir()
        self.claude = self.home / ".claude/projects" / str(self.work).replace("/", "-")
        self._capfd = capfd

    def __call__(self, *argv: str, code: int = 0) -> tuple[str, str]:
        assert main(argv) == code
        out, err = self._capfd.readouterr()
        return out, err

    def json(self, *argv: str) -> Any:
        return json.loads(self(*argv, "--json")[0])


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> ImportRunner:
    runner = ImportRunner(tmp_path, capfd)
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "qcode"))
    monkeypatch.setenv("HOME", str(runner.home))
    monkeypatch.chdir(runner.work)
    return runner


def test_file_is_imported_and_left_out_parts_are_reported(runner: ImportRunner) -> None:
    claude = Claude(str(runner.work))
    claude.records = claude_records(str(runner.work))
    claude.user("aside", isSidechain=True)
    claude.records.append({"type": "hologram"})
    path = write(runner.work / "a session.jsonl", claude.records)
    out, err = runner("sessions", "import", path.name)
    first, second = out.splitlines()
    session_id = first.split()[0]
    assert first == f"{session_id}  imported 6 messages  A tab too many"
    assert second == "  left out: messages of sub-agents (1), unknown record hologram (1)"
    assert err == ""
    assert runner("sessions", "import", path.name)[0] == f"{session_id}  already imported  A tab too many\n"
    assert "user: Fix it." in runner("sessions", "show", session_id)[0]
    assert len(runner.json("sessions", "list")) == 1


def test_sessions_found_are_listed_and_imported_with_yes(runner: ImportRunner) -> None:
    write(runner.claude / "1.jsonl", claude_records(str(runner.work)))
    write(runner.home / ".codex/sessions/2026/rollout-2.jsonl", codex_records(str(runner.work)))
    out, err = runner("sessions", "import")
    assert [line.split()[0] for line in out.splitlines()] == ["1", "2"]
    assert {"Codex", "Claude"} == {line.split()[1] for line in out.splitlines()}
    assert err == "qcode: nothing was imported: name a file, or add --yes to import all of these\n"
    assert runner.json("sessions", "list") == []
    rows = runner.json("sessions", "import", "--yes")
    assert {row["status"] for row in rows} == {"imported"}
    assert {row["program"] for row in rows} == {"claude-code", "codex"}
    assert len(runner.json("sessions", "list")) == 2
    assert {row["status"] for row in runner.json("sessions", "import", "--yes")} == {"unchanged"}


def test_newest_found_session_is_the_one_to_continue(runner: ImportRunner) -> None:
    for number in (1, 2, 3):
        records = [{**claude_record, "sessionId": f"s{number}"} for claude_record in claude_records(str(runner.work))]
        path = write(runner.claude / f"{number}.jsonl", records)
        os.utime(path, (1_000 * number, 1_000 * number))
    rows = runner.json("sessions", "import", "--yes")
    assert [Path(row["path"]).stem for row in rows] == ["1", "2", "3"]
    assert SessionStore(runner.state, runner.work).latest() == rows[-1]["session_id"]


def test_sessions_of_all_folders_go_to_their_own(runner: ImportRunner) -> None:
    other = runner.work.parent / "other"
    other.mkdir()
    write(runner.claude.parent / "o" / "1.jsonl", claude_records(str(other)))
    write(
        runner.claude.parent / "g" / "2.jsonl",
        [{**claude_record, "sessionId": "x"} for claude_record in claude_records("/gone")],
    )
    assert runner.json("sessions", "import") == []
    rows = runner.json("sessions", "import", "--all", "--yes")
    assert {row["folder"] for row in rows} == {str(other), str(runner.work)}
    assert len(SessionStore(runner.state, other).ids()) == 1
    assert len(SessionStore(runner.state, runner.work).ids()) == 1


def test_one_bad_file_does_not_stop_the_others(runner: ImportRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    write(runner.work / "in/1.jsonl", claude_records(str(runner.work)))
    (runner.work / "other.jsonl").write_text("hello\n")
    assert "is not a session of" in runner("sessions", "import", "other.jsonl", code=42)[1]
    assert "cannot read missing.jsonl" in runner("sessions", "import", "missing.jsonl", code=42)[1]
    assert "cannot read xx" in runner("sessions", "import", "x" * 300, code=42)[1]
    assert runner("sessions", "import", "a\nb", code=42)[1].count("\n") == 1
    out, err = runner("sessions", "import", "in", "-y")
    assert "imported 6 messages" in out
    store = SessionStore(runner.state, runner.work)
    session = store.resume(store.ids()[0]).session
    claude = Claude(str(runner.work))
    claude.records = claude_records(str(runner.work))
    claude.user("more")
    write(runner.work / "in/1.jsonl", claude.records)
    write(runner.work / "in/2.jsonl", codex_records(str(runner.work)))
    out, err = runner("sessions", "import", "in", "-y", code=42)
    assert "is open in another window" in err
    assert "imported 6 messages" in out
    session.close()


def test_empty_search_names_the_searched_folders(runner: ImportRunner) -> None:
    assert "--all looks in all folders" in runner("sessions", "import")[1]
    assert runner("sessions", "import", "--all")[1].endswith("qwen-code or Gemini CLI\n")


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [("", []), ("2", [2]), ("1,3-4", [1, 3, 4]), ("all", [1, 2, 3, 4]), ("ALL", [1, 2, 3, 4]), ("2 2 1", [2, 1])],
)
def test_numbers_and_ranges_choose_sessions(answer: str, numbers: list[int]) -> None:
    assert chosen_numbers(answer, 4) == numbers


@pytest.mark.parametrize("answer", ["0", "5", "x", "1-", "-2", "3-9", "1;2", "٢", "99999999"])
def test_number_that_is_not_in_the_list_is_refused(answer: str) -> None:
    with pytest.raises(InputError, match="is not a number from 1 to 4"):
        chosen_numbers(answer, 4)


def test_flags_of_one_action_are_refused_by_another(runner: ImportRunner) -> None:
    for argv in (("list", "--yes"), ("show", "x", "--json"), ("import", "--format", "md"), ("export", "x", "--all")):
        assert "use: qcode sessions" in runner("sessions", *argv, code=2)[1]


def test_list_shows_size_date_and_remaining_retention(runner: ImportRunner) -> None:
    store = SessionStore(runner.state, runner.work)
    session = store.create("demo/demo", runner.work)
    session.append(user("hello you"))
    assert session.blobs is not None
    session.blobs.mkdir()
    (session.blobs / "blob").write_bytes(b"x" * 5_000)
    session.close()
    (row,) = runner.json("sessions", "list")
    assert row.keys() == {"session_id", "title", "model", "created", "updated", "messages", "size_bytes", "expires"}
    assert (row["title"], row["model"], row["messages"], row["expires"]) == ("hello you", "demo/demo", 1, None)
    assert row["size_bytes"] == store.folder.joinpath(f"{session.session_id}.jsonl").stat().st_size + 5_000
    out, _ = runner("sessions", "list")
    assert out.split()[0] == session.session_id
    assert f"  1 message  {bytes_text(row['size_bytes'])}  hello you" in out
    config = runner.state.parent / "config.toml"
    config.write_text("[sessions]\nretention_days = 30\n")
    out, _ = runner("sessions", "list")
    assert " kB  29 days left  hello you" in out
    (row,) = runner.json("sessions", "list", "hello")
    assert row["expires"] > row["updated"]
