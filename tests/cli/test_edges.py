"""Unexpected errors, signals before the run, and closed output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import qcode.cli.main
from qcode.agent.crash import MAX_REPORTS, describe_crash
from qcode.cli.main import Terminated, block_signals, main, terminated_by_signals, unblock_signals

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a temporary folder and home."""
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def boom(*_: object, **__: object) -> int:
    raise LookupError(f"lost\nthe {KEY}\x1b[31m")


def test_unexpected_error_is_one_line_with_the_path_of_its_report(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("qcode.cli.pipe.open_run", boom)
    assert main(["-p", "hi"]) == 1
    out, err = capfd.readouterr()
    (details,) = (home / "state" / "crashes").iterdir()
    assert out == ""
    assert err == f"qcode: internal error: LookupError: lost the [redacted]; see {details}\n"
    text = details.read_text()
    assert "Traceback" in text
    assert "boom" in text
    assert KEY not in text
    assert details.stat().st_mode & 0o777 == 0o600


def test_unexpected_error_is_one_result_in_json(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("qcode.cli.pipe.open_run", boom)
    assert main(["-p", "hi", "-o", "stream-json"]) == 1
    init, result = map(json.loads, capfd.readouterr().out.splitlines())
    assert init["subtype"] == "init"
    assert (result["subtype"], result["error"]["kind"]) == ("error_during_execution", "internal")


def test_unwritable_crash_report_is_not_another_error(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    home.write_text("a file where the folder should be")
    monkeypatch.setattr("qcode.cli.pipe.open_run", boom)
    assert main(["-p", "hi"]) == 1
    assert capfd.readouterr().err.endswith("the crash report could not be written\n")


@pytest.mark.parametrize(
    ("argv", "code", "kind"),
    [
        (["-p", "hi", "-o", "json", "--bogus"], 2, "usage"),
        (["-p", "hi", "-o", "json", "-m", "nobody/x"], 2, "usage"),
        (["-p", "hi", "-o", "json", "-m", "anthropic/claude"], 41, "no_credential"),
        (["-p", "hi", "-o", "json", "-m", "demo/demo", "-f", "missing.txt"], 42, "bad_input"),
        (["-p", "hi", "-o", "json", "-m", "demo/demo", "-C", "missing"], 42, "bad_input"),
        (["-p", "hi", "-o", "json", "-m", "demo/demo", "--add-dir", "missing"], 42, "bad_input"),
        (["-p", "hi", "-o", "json", "-m", "demo/demo", "--settings", "missing.toml"], 52, "bad_config"),
    ],
)
def test_error_before_the_run_is_one_result(
    argv: list[str], code: int, kind: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setattr("qcode.cli.pipe.standard_input", lambda: None)
    assert main(argv) == code
    out, err = capfd.readouterr()
    (line,) = out.splitlines()
    result = json.loads(line)
    assert (result["type"], result["is_error"], result["error"]["kind"]) == ("result", True, kind)
    assert result["stop_reason"] is None
    assert result["error"]["message"] in err
    assert len(err.splitlines()) == 1


_SIGNAL_AT_IMPORT = """
import os, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "qcode.cli.main":
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Finder())
sys.argv[1:] = {arguments}
from qcode.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_while_the_program_loads_still_gives_a_result(number: int, code: int, tmp_path: Path) -> None:
    arguments = ["-p", "hi", "-m", "demo/demo", "-o", "json", "--no-session"]
    script = _SIGNAL_AT_IMPORT.format(number=int(number), arguments=arguments)
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(tmp_path)},
        cwd=tmp_path,
        check=False,
    )
    assert (ran.returncode, json.loads(ran.stdout)["subtype"]) == (code, "error_cancelled")


def test_ctrl_c_before_the_program_loads_leaves_no_traceback(tmp_path: Path) -> None:
    script = (
        "import gc, signal, sys\n"
        "gc.disable = lambda: signal.raise_signal(signal.SIGINT)\n"
        "from qcode.__main__ import main\n"
        "sys.exit(main())"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_signal_before_the_run_begins_is_one_result(
    number: int, code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("qcode.cli.pipe.open_run", lambda *_: os.kill(os.getpid(), number))
    assert main(["-p", "hi", "-o", "json"]) == code
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["subtype"] == "error_cancelled"


def test_blocked_signal_is_delivered_after_release() -> None:
    steps: list[str] = []
    with pytest.raises(Terminated), terminated_by_signals():
        block_signals()
        try:
            # To this thread: a mask is a thread's own, and the suite may run beside others.
            signal.raise_signal(signal.SIGTERM)
            steps.append("held")
        finally:
            unblock_signals()
        steps.append("never")
    assert steps == ["held"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_signal_ignored_at_the_start_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminated_by_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_untrusted_text_in_a_message_cannot_steer_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-p", "hi", "-C", "no\x1b[2J\x1b]0;title\x07where"]) == 42
    assert capfd.readouterr().err == "qcode: cannot use the folder nowhere: No such file or directory\n"


def test_pipe_mode_is_chosen_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []

    def chooses(name: str) -> Callable[[object], int]:
        def run(*_: object) -> int:
            chosen.append(name)
            return 0

        return run

    monkeypatch.setattr("qcode.cli.pipe.run_pipe", chooses("pipe"))
    monkeypatch.setattr("qcode.cli.app.run_app", chooses("app"))
    for terminals in ({0, 1}, {0}, {1}, set[int]()):
        monkeypatch.setattr(qcode.cli.main, "is_terminal", lambda descriptor, among=terminals: descriptor in among)
        main(["hi"])
    monkeypatch.setattr(qcode.cli.main, "is_terminal", lambda _: True)
    main(["hi", "-p"])
    assert chosen == ["app", "pipe", "pipe", "pipe", "pipe"]


def test_only_the_newest_reports_are_kept(home: Path) -> None:
    messages = [describe_crash(LookupError(f"number {number}"), os.environ) for number in range(MAX_REPORTS + 3)]
    kept_file = sorted((home / "state" / "crashes").iterdir())
    assert [path.read_text().rstrip().endswith(f"number {at + 3}") for at, path in enumerate(kept_file)] == [
        True
    ] * MAX_REPORTS
    assert messages[-1].endswith(str(kept_file[-1]))


def test_crash_report_contains_no_local_values(home: Path) -> None:
    def fail() -> None:
        held = "a value of no known shape"
        raise LookupError(len(held))

    try:
        fail()
    except LookupError as error:
        describe_crash(error, {**os.environ, "HELD_TOKEN": "another value"})
    (report,) = (home / "state" / "crashes").iterdir()
    assert "in fail" in report.read_text()
    assert "value of no known shape" not in report.read_text().replace('held = "a value of no known shape"', "")
