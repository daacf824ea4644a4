"""A crash of the app in a real terminal, in the middle of a turn."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.e2e.running import KEY, CliRunner
from tests.e2e.terminal import Terminal

# A callback fails again and again once there is a file of that name: the app survives single errors. The key is in the
# message, and another secret in a local value.
LAUNCHER = f"""
import sys
from pathlib import Path
from qcode.tui.status import StatusLine
plain = StatusLine.render
def fail(self):
    held = "canary-of-no-known-shape"
    self.call_later(fail, self)
    raise LookupError("lost the {KEY}")
def render(self):
    if Path("crash").exists():
        self.call_later(fail, self)
    return plain(self)
StatusLine.render = render
from qcode.cli.main import main
sys.exit(main())
"""


class CrashingRunner(CliRunner):
    is_warm = False

    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-c", LAUNCHER, *arguments]


def test_crash_restores_the_terminal_keeps_the_session_and_names_its_report(tmp_path: Path) -> None:
    cli = CrashingRunner(tmp_path)
    with Terminal(cli, "-m", "demo/demo", env={"OPENAI_API_KEY": KEY}, columns=100) as terminal:
        terminal.wait_for("demo/demo")
        terminal.press("a long reply\r")
        terminal.wait_for("Esc to interrupt")
        (cli.work / "crash").touch()
        assert terminal.wait_for_end() == 1
        assert terminal.is_echoing
        assert {mode for mode, is_on in terminal.modes.items() if is_on} <= {7, 25}
        assert terminal.modes[25]
        assert {1049, 1000, 1003, 1006, 2004, 2031} <= terminal.modes.keys()
        printed = terminal.raw[terminal.raw.rindex("\x1b[?1049l") :]
    assert "Traceback" not in printed
    reports = list(cli.home.rglob("crash-*.txt"))
    assert len(reports) <= 2  # an error that repeats is reported once, wherever it is caught
    assert any(f"qcode stopped: LookupError: lost the [redacted]; see {report}" in printed for report in reports)
    for report in reports:
        assert report.stat().st_mode & 0o777 == 0o600
        assert "in fail" in report.read_text()
        assert KEY not in report.read_text()
    found = re.search(r"To resume this session: qcode -r (\S+)", printed)
    assert found is not None
    output = cli.run("sessions", "show", found[1])
    assert output.code == 0
    assert "a long reply" in output.out
