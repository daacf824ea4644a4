"""`qcode replay`: a recording played back in a folder, and where the run differs from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qcode.cli.main import main


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Path:
    """A recorded run of the demo model that lists the folder, with an attached file."""
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("content\n")
    monkeypatch.chdir(work)
    file = tmp_path / "r.jsonl"
    monkeypatch.setattr("sys.stdin", None)
    assert main(["-p", "list the folder", "-f", "a.txt", "-m", "demo/demo", "--no-session", "--record", str(file)]) == 0
    capfd.readouterr()
    return file


def test_answers_are_printed_again(recording: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording)]) == 0
    assert "a.txt" in capfd.readouterr().out
    assert main(["-p", "list the folder", "-m", f"replay/{recording}", "--no-session"]) == 0
    assert "a.txt" in capfd.readouterr().out


def test_replay_in_the_same_folder_has_no_differences(recording: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording), "--diff"]) == 0
    assert capfd.readouterr().out == "2 requests, no differences\n"


def test_first_difference_of_each_request_is_named(
    recording: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work/b.txt").write_text("more\n")
    assert main(["replay", str(recording), "--diff"]) == 1
    line = capfd.readouterr().out
    assert line.startswith("request 2: message 3 (user) result of glob: content was ")
    assert "b.txt" in line


def test_recording_that_was_cut_ends_early(recording: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each prefix of the file is one that a killed run can leave behind; none of them counts as the whole run."""
    lines = recording.read_text().splitlines(keepends=True)
    kinds = [next(iter(json.loads(line))) for line in lines]
    assert kinds == ["qcode", "prompt", "request", "reply", "request", "reply"]
    cut = tmp_path / "cut.jsonl"
    expected = {
        2: "request 1: the recording ended early, it has no such request\n",
        3: "request 1: the recording ended early, its reply has no end\n",
        4: "request 2: the recording ended early, it has no such request\n",
        5: "request 2: the recording ended early, its reply has no end\n",
    }
    for count, text in expected.items():
        for torn in ("", lines[count][:20]):
            cut.write_text("".join(lines[:count]) + torn)
            assert main(["replay", str(cut), "--diff"]) == 1
            assert capfd.readouterr().out == text


def test_recording_of_another_user_runs_under_the_rules_of_this_run(
    recording: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hostile = tmp_path / "hostile.jsonl"
    text = recording.read_text().replace('"name": "glob"', '"name": "shell"')
    hostile.write_text(text.replace(r"{\"pattern\": \"*\"}", r"{\"command\": \"touch x\"}"))
    assert "touch x" in hostile.read_text()
    main(["replay", str(hostile)])
    capfd.readouterr()
    assert not (tmp_path / "work/x").exists()


def test_missing_or_unusable_file_is_an_input_error(
    recording: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "none.jsonl"]) == 42
    assert main(["replay", "a.txt"]) == 42
    (tmp_path / "deep.jsonl").write_text("[" * 100_000 + "\n{}\n")
    assert main(["replay", str(tmp_path / "deep.jsonl")]) == 42
    assert main(["-p", "x", "-m", "replay/none.jsonl"]) == 42
    assert main(["replay"]) == 2
    assert len(capfd.readouterr().err.splitlines()) == 5
