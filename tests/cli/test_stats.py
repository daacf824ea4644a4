"""`qcode stats`: totals over stored sessions, as a table and as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from qcode.agent.sessions.session import Session
from qcode.agent.sessions.store import SessionStore
from qcode.cli.main import main
from qcode.protocol.events import AttemptKind, AttemptRecord
from qcode.protocol.messages import Message, Text, ToolResult, assistant, user
from qcode.protocol.usage import Usage

DAYS = (datetime(2026, 11, 20, 12, tzinfo=UTC), datetime(2026, 11, 21, 12, tzinfo=UTC))
OPUS = "anthropic/claude-opus-4-5"  # 5 and 25 dollars a million tokens in the catalog


def attempt(kind: AttemptKind, output: int, *, is_discarded: bool = False) -> AttemptRecord:
    return AttemptRecord(kind, 8_000, "end_turn", Usage(input=1_000, output=output), is_discarded=is_discarded)


def write_turn(session: Session, *attempts: AttemptRecord) -> None:
    session.append(user("go"), is_turn_start=True)
    session.append(assistant(Text("done")), attempts)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sessions of one folder and one of another."""
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    for name in ("work", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    clock = iter([DAYS[0]] * 7 + [DAYS[1]] * 60)
    store = SessionStore(tmp_path / "home" / "state", tmp_path / "work", clock=lambda: next(clock))
    session = store.create(OPUS, tmp_path / "work")
    write_turn(session, attempt("first", 8_000, is_discarded=True), attempt("escalated", 20_000))
    session.close()
    session = store.create(OPUS, tmp_path / "work")
    write_turn(session, attempt("first", 100))
    session.record_model("nobody/unknown")
    write_turn(session, attempt("first", 8_000), attempt("continuation", 50))
    session.append(Message("user", (ToolResult("c1", "shell", "ok"),)))
    session.close()
    elsewhere = SessionStore(tmp_path / "home" / "state", tmp_path / "other", clock=lambda: next(clock))
    session = elsewhere.create(OPUS, tmp_path / "other")
    write_turn(session, attempt("first", 7))
    session.close()
    return tmp_path


def stats(capfd: pytest.CaptureFixture[str], *flags: str) -> dict[str, object]:
    assert main(["stats", "--json", *flags]) == 0
    found: dict[str, object] = json.loads(capfd.readouterr().out)
    return found


def test_stats_sum_the_sessions_of_the_folder(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = stats(capfd)
    assert found["sessions"] == 2
    assert found["total"] == {
        "turns": 3,
        "requests": 5,
        "input_tokens": 5_000,
        "output_tokens": 36_150,
        "cache_read_input_tokens": 0,
        "discarded_output_tokens": 8_000,
        "escalations": 1,
        "continuations": 1,
        "retries": 0,
        "cost_usd": pytest.approx(3 * 0.005 + 28_100 * 25e-6),
        "requests_without_price": 2,
    }


def test_stats_have_a_row_for_each_day_and_model(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = stats(capfd)["by_day_and_model"]
    assert isinstance(rows, list)
    assert {(row["model"], row["turns"], row["requests"]) for row in rows if row["model"] != OPUS} == {
        ("nobody/unknown", 1, 2)
    }
    assert sum(row["turns"] for row in rows) == 3
    assert {row["day"] for row in rows} <= {"2026-11-20", "2026-11-21"}


def test_stats_of_all_folders_include_the_others(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert stats(capfd, "--all")["sessions"] == 3
    assert stats(capfd, "-C", str(home / "other"))["sessions"] == 1


def test_stats_print_an_aligned_table_with_a_total(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["stats"]) == 0
    header, *rows, total, note = capfd.readouterr().out.splitlines()
    assert header.split() == ["day", "model", "turns", "requests", "input", "cached", "output", "recovered", "cost"]
    assert total.split()[:4] == ["total", "2", "sessions", "3"]
    assert note == "2 requests of unknown price"
    ends = {len(line) for line in (header, *rows, total)}
    assert len(ends) == 1


def test_damaged_lines_are_skipped(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for path in (home / "home" / "state" / "sessions").rglob("*.jsonl"):
        path.write_bytes(path.read_bytes() + b'{"kind":"message","attempts":[7,{}],"blocks":"\n{"kind":"model"\n')
    assert stats(capfd)["sessions"] == 2


def test_stats_of_a_folder_without_sessions_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["stats"]) == 0
    assert capfd.readouterr().out == "no sessions yet\n"


def test_messages_of_a_fork_are_counted_once(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = stats(capfd)["total"]
    store = SessionStore(home / "home" / "state", home / "work")
    session = store.fork(store.ids()[0], cwd=home / "work").session
    session.append(user("only in the copy"), is_turn_start=True)
    session.append(assistant(Text("done")), (attempt("first", 1_000),))
    session.close()
    assert isinstance(before, dict)
    found = stats(capfd)
    assert found["sessions"] == 3
    assert found["total"] == {
        **before,
        "turns": before["turns"] + 1,
        "requests": before["requests"] + 1,
        "input_tokens": before["input_tokens"] + 1_000,
        "output_tokens": before["output_tokens"] + 1_000,
        "cost_usd": before["cost_usd"],
        "requests_without_price": before["requests_without_price"] + 1,
    }


def test_imported_turns_are_counted_separately(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = stats(capfd)
    store = SessionStore(home / "home" / "state", home / "work")
    session = store.create(OPUS, home / "work", imported={"program": "codex", "session": "x", "messages": 4})
    for _ in range(2):
        session.append(user("asked elsewhere"), is_turn_start=True)
        session.append(assistant(Text("answered elsewhere")))
    session.sync()
    found = stats(capfd)
    assert (found["imported_turns"], found["total"], found["sessions"]) == (2, before["total"], before["sessions"])
    assert main(["stats"]) == 0
    assert "2 turns of imported sessions not counted" in capfd.readouterr().out
    write_turn(session, attempt("first", 10))
    session.close()
    found = stats(capfd)
    assert found["sessions"] == 3
    assert isinstance(found["total"], dict)
    assert isinstance(before["total"], dict)
    assert found["total"]["turns"] == before["total"]["turns"] + 1


def test_retries_and_other_models_are_counted_separately(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = stats(capfd)["total"]
    store = SessionStore(home / "home" / "state", home / "work")
    session = store.create("nobody/unknown", home / "work")
    refused = AttemptRecord("first", 8_000, "error", Usage(), is_discarded=True, is_unanswered=True)
    answered = AttemptRecord("continuation", 8_000, "end_turn", Usage(1_000, 10), is_retry=True, model=OPUS)
    write_turn(session, refused, answered)
    session.close()
    total = stats(capfd)["total"]
    assert isinstance(before, dict)
    assert isinstance(total, dict)
    changed = {name: total[name] - before[name] for name in total if total[name] != before[name]}
    assert changed == {
        "turns": 1, "requests": 2, "input_tokens": 1_000, "output_tokens": 10, "retries": 1,
        "cost_usd": pytest.approx(0.00525),
    }  # fmt: skip


def test_cost_is_not_zero_if_only_the_refused_requests_of_a_model_without_a_price_are_known(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = SessionStore(home / "home" / "state", home / "other")
    session = store.create("nobody/unknown", home / "other")
    refused = AttemptRecord("first", 8_000, "error", Usage(), is_discarded=True, is_unanswered=True)
    write_turn(session, refused, attempt("first", 10))
    session.close()
    assert main(["stats", "-C", str(home / "other")]) == 0
    rows = capfd.readouterr().out.splitlines()
    assert next(row for row in rows if "nobody/unknown" in row).split()[-1] == "-"
