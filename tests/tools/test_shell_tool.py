"""A shell command is bounded in time and output, knows no secrets, and leaves nothing running."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pytest

from qcode.tools.processes import command_environment
from qcode.tools.tool import ToolRunContext
from tests.tools.conftest import TOOLS, ToolRunner


def test_output_errors_and_exit_code_are_returned(runner: ToolRunner) -> None:
    outcome = runner.run("shell", command="echo out; echo err >&2; exit 3")
    assert outcome.content == "out\nerr\n[exit code 3]"
    assert (outcome.is_error, outcome.summary) == (True, "exit 3")
    outcome = runner.run("shell", command="pwd; cat")
    assert outcome.content == f"{runner.root}\n[exit code 0]"
    assert not outcome.is_error
    assert runner.run("shell", command="true").content == "[no output]\n[exit code 0]"
    assert "signal 9" in runner.run("shell", command="kill -9 $$").content


def test_output_is_streamed_while_the_command_runs(runner: ToolRunner) -> None:
    """The command continues only after its first output was seen; a character is cut in two at that place."""
    seen: list[str] = []

    def output(text: str) -> None:
        seen.append(text)
        (runner.root / "go").touch()

    command = "printf 'a\\xc3'; until [ -e go ]; do sleep 0.01; done; printf '\\xa9b'"
    context = ToolRunContext(output)
    outcome = asyncio.run(TOOLS["shell"].run({"command": command}, runner.workspace, context))
    assert seen == ["a", "éb"]
    assert outcome.content == "aéb\n[exit code 0]"


def test_secrets_in_the_environment_are_not_inherited(runner: ToolRunner) -> None:
    runner.environment = {
        "PATH": f"/usr/bin:/bin:.::relative:{runner.root}/bin",
        "HOME": "/home/u",
        "LC_ALL": "C.UTF-8",
        "OPENAI_API_KEY": "canary-1",
        "GITHUB_TOKEN": "canary-2",
        "MY_SECRET": "canary-3",
        "LD_PRELOAD": "canary-4",
        "BASH_ENV": "canary-5",
        "GIT_DIR": "canary-6",
        "PYTHONPATH": "canary-7",
        "BASH_FUNC_ls%%": "() { echo canary-8; }",
        "HTTPS_PROXY": "http://user:canary-9@proxy",
        "ENV": "canary-10",
        "PROMPT_COMMAND": "canary-11",
        "LC_SECRET_TOKEN": "canary-12",
    }
    content = runner.run("shell", command="env; ls /dev/null").content
    assert "canary" not in content
    assert f"PATH=/usr/bin:/bin:{runner.root}/bin" in content
    assert {"HOME=/home/u", "PAGER=cat", "GIT_PAGER=cat", "TERM=dumb"} <= set(content.split("\n"))


@pytest.mark.parametrize(
    ("columns", "command", "told"),
    [
        (120, "echo $COLUMNS", "120"),
        (36, "echo $COLUMNS", "60"),
        (None, "echo ${COLUMNS-unset}", "unset"),
        (120, "ps -o args=; echo ${COLUMNS-unset}", "unset"),
        (120, "/bin/ps -p 1 | cat; echo ${COLUMNS-unset}", "unset"),
        (120, "echo caps ps.txt a-ps; echo $COLUMNS", "120"),
        (120, "/bin/true; echo $COLUMNS ${LINES-unset}", "120 unset"),
    ],
)
def test_command_gets_the_width_of_its_output(columns: int | None, command: str, told: str, runner: ToolRunner) -> None:
    runner.environment, runner.columns = {"PATH": "/usr/bin:/bin"}, columns
    assert runner.run("shell", command=command).content.split("\n")[-2] == told


def test_proxy_without_credentials_is_inherited() -> None:
    assert command_environment({"https_proxy": "http://proxy:3128"})["https_proxy"] == "http://proxy:3128"


def test_commands_run_in_utf8_whatever_the_locale_of_the_user() -> None:
    passed = command_environment({"LC_ALL": "ja_JP.SJIS", "LC_CTYPE": "de_DE", "LANG": "fr_FR.ISO-8859-1@euro"})
    assert {name: passed[name] for name in ("LC_ALL", "LC_CTYPE", "LANG")} == dict.fromkeys(
        ("LC_ALL", "LC_CTYPE", "LANG"), "C.UTF-8"
    )
    kept = {"LC_ALL": "de_DE.utf8", "LC_CTYPE": "C", "LANG": "sr_RS.UTF-8@latin", "LC_TIME": "de_DE"}
    assert kept.items() <= command_environment(kept).items()
    assert not {"LC_ALL", "LC_CTYPE", "LANG"} & command_environment({"LC_TIME": "de_DE"}).keys()


def test_shell_start_up_files_are_not_read(runner: ToolRunner) -> None:
    for name in (".bashrc", ".bash_profile", ".profile"):
        runner.add(name, "echo trap\n")
    runner.environment = {"PATH": "/usr/bin:/bin", "HOME": str(runner.root)}
    assert runner.run("shell", command="true").content == "[no output]\n[exit code 0]"


def test_long_output_keeps_both_ends_and_is_complete_in_a_private_file(runner: ToolRunner) -> None:
    runner.max_output_chars = 1_000
    outcome = runner.run("shell", command="seq 1 20000")
    assert len(outcome.content) < 1_300
    assert outcome.content.startswith("1\n2\n")
    assert "\n20000\n[exit code 0]" in outcome.content
    found = re.search(r"\[\.\.\. ([\d,]+) characters omitted; all of it in (\S+) \.\.\.\]", outcome.content)
    assert found is not None
    path = Path(found[2])
    assert path.read_text() == "".join(f"{n}\n" for n in range(1, 20_001))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    left_out = int(found[1].replace(",", ""))
    assert left_out == len(path.read_text()) - 1_000
    assert not runner.run("read", path=str(path), offset=19_999).is_error


def test_model_gets_the_last_state_of_a_progress_bar_and_the_user_every_state(runner: ToolRunner) -> None:
    command = "for n in $(seq 0 100); do printf '\\rfetching %s%%' $n; done; echo; printf 'a\\r\\n'"
    outcome = runner.run("shell", command=command)
    assert outcome.content == "fetching 100%\na\r\n[exit code 0]"
    assert outcome.shown is not None
    assert "fetching 41%" in outcome.shown


def test_progress_bar_takes_no_space_of_other_output(runner: ToolRunner) -> None:
    runner.max_output_chars = 1_000
    command = "echo first; for n in $(seq 0 9999); do printf '\\rfetching %s' $n; done; echo; echo last"
    outcome = runner.run("shell", command=command)
    assert outcome.content == "first\nfetching 9999\nlast\n[exit code 0]"
    assert outcome.shown is not None
    (path,) = re.findall(r"all of it in (\S+)", outcome.shown)
    assert Path(path).read_bytes().count(b"\r") == 10_000


def _has_ended(pid: int) -> bool:
    """Wait until a process that was sent SIGKILL is gone: the kernel takes a moment to carry it out."""
    deadline = time.monotonic() + 10
    while _is_running(pid) and time.monotonic() < deadline:
        os.sched_yield()
    return not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def _pids(path: Path, count: int) -> list[int]:
    while not path.exists() or len(path.read_text().split()) < count:
        await asyncio.sleep(0.01)
    return [int(word) for word in path.read_text().split()]


GRANDCHILDREN = "bash -c 'echo $$ >> pids; (echo $BASHPID >> pids; exec sleep 60) & wait' & echo $$ >> pids; wait"
STUBBORN = f"trap '' TERM; {GRANDCHILDREN}"


@pytest.mark.parametrize("command", [GRANDCHILDREN, STUBBORN])
def test_cancel_ends_all_processes_of_a_command(runner: ToolRunner, command: str) -> None:
    async def cancel_once_it_runs() -> tuple[list[int], float]:
        task = asyncio.ensure_future(TOOLS["shell"].run({"command": command}, runner.workspace, runner.context))
        pids = await _pids(runner.root / "pids", 3)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pids, time.monotonic() - start

    pids, seconds = asyncio.run(cancel_once_it_runs())
    assert [pid for pid in pids if not _has_ended(pid)] == []
    assert seconds < 1


def test_time_limit_ends_all_processes_of_a_command(runner: ToolRunner) -> None:
    outcome = runner.run("shell", command=f"echo before; {STUBBORN}", timeout_s=1)
    assert outcome.is_error
    assert outcome.content == "before\n[timed out: the command and all its processes were killed after 1 s]"
    pids = [int(word) for word in (runner.root / "pids").read_text().split()]
    assert len(pids) == 3
    assert [pid for pid in pids if not _has_ended(pid)] == []


@pytest.mark.parametrize("redirect", ["", "> /dev/null 2>&1"])
def test_leftover_background_processes_are_ended_and_reported(runner: ToolRunner, redirect: str) -> None:
    outcome = runner.run("shell", command=f"sleep 60 {redirect} & echo $!")
    pid = int(outcome.content.split("\n")[0])
    assert outcome.content.endswith("[background processes that the command left running were killed]\n[exit code 0]")
    assert _has_ended(pid)


def test_command_has_no_terminal(runner: ToolRunner) -> None:
    assert runner.run("shell", command="echo x > /dev/tty").is_error


def test_endless_output_is_bounded(runner: ToolRunner) -> None:
    outcome = runner.run("shell", command="yes | head -c 20000000")
    assert len(outcome.content) < 31_000
    assert max(map(len, runner.live)) <= 16_000


def test_preview_shows_the_exact_command(runner: ToolRunner) -> None:
    preview = runner.preview("shell", command="ls\n\x1b[2Jrm\u202e -rf\u00a0x\t#\r")
    assert preview.detail == "ls\u23ce\n\\x1b[2Jrm\\u202e -rf\\xa0x\u21e5   #\\x0d"
    assert preview.refusal == ""


def test_command_that_is_too_long_is_refused(runner: ToolRunner) -> None:
    outcome = runner.run("shell", command="true " + "x" * 4_000_000)
    assert outcome.is_error
    assert "could not be started" in outcome.content


def test_command_leaks_no_descriptor(runner: ToolRunner) -> None:
    runner.run("shell", command="true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        runner.run("shell", command="seq 1 10000")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
