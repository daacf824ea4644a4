"""What commands behind the walls of this machine can and cannot do, by running them. Each kind that works is tried."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qcode.safety.sandbox.confinement import Confinement
from qcode.safety.sandbox.finding import Kind, Sandbox, find_sandbox

KINDS: tuple[Kind, ...] = ("bubblewrap", "landlock")
FOUND = {kind: find_sandbox(allows=(kind,)) for kind in KINDS}


class Walled:
    """A workspace with a file, a secret beside it, and commands that run in it confined."""

    def __init__(self, sandbox: Sandbox, base: Path) -> None:
        self.sandbox = sandbox
        self.work, self.home = base / "work", base / "home"
        self.work.mkdir()
        (self.home / ".ssh").mkdir(parents=True)
        (self.work / "file.txt").write_text("seen\n")
        (self.home / ".ssh" / "id_ed25519").write_text("canary\n")
        (self.home / ".netrc").write_text("canary\n")

    def run(self, command: str, **walls: tuple[Path, ...]) -> subprocess.CompletedProcess[str]:
        confinement = Confinement(
            **{"visible": (self.work, self.home), "hidden": (self.home / ".ssh", self.home / ".netrc"), **walls}
        )
        argv = self.sandbox.wrap(["/bin/sh", "-c", command], confinement)
        return subprocess.run(argv, cwd=self.work, capture_output=True, text=True, timeout=60)


@pytest.fixture(params=KINDS)
def walled(request: pytest.FixtureRequest, tmp_path: Path) -> Walled:
    sandbox = FOUND[request.param]
    if sandbox is None:
        pytest.skip(f"{request.param} does not work on this machine")
    return Walled(sandbox, tmp_path)


@pytest.fixture
def bubble(tmp_path: Path) -> Walled:
    sandbox = FOUND["bubblewrap"]
    if sandbox is None:
        pytest.skip("bubblewrap does not work on this machine")
    return Walled(sandbox, tmp_path)


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_reading_and_running_go_on_as_before(walled: Walled) -> None:
    done = walled.run("cat file.txt && ls && echo x > /dev/null && sort file.txt | head -n 1; exit 3")
    assert (done.returncode, done.stdout) == (3, "seen\nfile.txt\nseen\n")


@pytest.mark.parametrize(
    "command",
    [
        "echo x > file.txt",
        "echo x > new.txt",
        "rm file.txt",
        "mkdir d",
        "chmod 777 .",
        "touch file.txt",
        "ln file.txt b",
    ],
)
def test_nothing_in_the_workspace_can_be_changed(walled: Walled, command: str) -> None:
    before = walled.work.stat().st_mode
    assert walled.run(command).returncode != 0
    assert [path.name for path in walled.work.iterdir()] == ["file.txt"]
    assert (walled.work / "file.txt").read_text() == "seen\n"
    assert walled.work.stat().st_mode == before


def test_nothing_outside_can_be_changed(walled: Walled) -> None:
    target = walled.home / "made"
    walled.run(
        f"echo x > '{target}'; echo x > /etc/qcode-made; echo x > /tmp/qcode-made; echo 1 > /proc/sys/vm/panic_on_oom"
    )
    assert not target.exists()
    assert not Path("/etc/qcode-made").exists()
    assert not Path("/tmp/qcode-made").exists()  # the name the command tried
    assert Path("/proc/sys/vm/panic_on_oom").read_text() == "0\n"


def test_what_is_hidden_cannot_be_read(walled: Walled) -> None:
    done = walled.run("cat ../home/.ssh/id_ed25519 ../home/.netrc; true")
    assert "canary" not in done.stdout


def test_nobody_can_be_reached(walled: Walled, listening: int) -> None:
    program = f"import socket; socket.create_connection(('127.0.0.1', {listening}), 5); print('reached')"
    done = walled.run(f"'{sys.executable}' -I -S -c \"{program}\"", visible=(walled.work, Path(sys.prefix)))
    assert "reached" not in done.stdout
    assert done.returncode != 0


def test_a_socket_of_the_system_cannot_be_reached(walled: Walled) -> None:
    path = f"/tmp/qcode-test-{os.getpid()}.sock"  # where such sockets are
    program = f"import socket; socket.socket(socket.AF_UNIX).connect('{path}'); print('reached')"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        try:
            server.listen()
            done = walled.run(f"'{sys.executable}' -I -S -c \"{program}\"", visible=(walled.work, Path(sys.prefix)))
        finally:
            Path(path).unlink()
    assert "reached" not in done.stdout


def test_no_process_outside_can_be_signalled(walled: Walled) -> None:
    # The number may belong to nobody behind the walls of bubblewrap: either way nothing is sent.
    victim = subprocess.Popen(["/bin/sleep", "60"])
    try:
        walled.run(f"kill -9 {victim.pid}")
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def test_a_workspace_that_may_be_written_keeps_what_is_protected_in_it(bubble: Walled) -> None:
    hooks = bubble.work / ".git" / "hooks"
    hooks.mkdir(parents=True)
    done = bubble.run(
        "echo new > file.txt; echo x > .git/hooks/pre-commit; echo x > ../home/made; true",
        writable=(bubble.work,),
        protected=(hooks,),
    )
    assert (bubble.work / "file.txt").read_text() == "new\n"
    assert list(hooks.iterdir()) == []
    assert not (bubble.home / "made").exists()
    assert "Read-only" in done.stderr


def test_what_is_left_in_the_background_ends_with_the_command(bubble: Walled) -> None:
    done = bubble.run("(while :; do echo x >> file.txt; done) & echo $!", writable=(bubble.work,))
    assert done.returncode == 0
    size = (bubble.work / "file.txt").stat().st_size
    assert (bubble.work / "file.txt").stat().st_size == size


def test_landlock_says_no_to_protecting_a_part_of_what_may_be_written(tmp_path: Path) -> None:
    sandbox = Sandbox("landlock", ("read-only",))
    with pytest.raises(ValueError, match="protect"):
        sandbox.wrap(["/bin/true"], Confinement(writable=(tmp_path,), protected=(tmp_path / ".git",)))


def test_a_command_that_cannot_be_started_says_so(walled: Walled) -> None:
    argv = walled.sandbox.wrap(["/no/such/program"], Confinement())
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "/no/such/program" in done.stderr


def test_a_wall_that_cannot_be_put_up_runs_nothing(tmp_path: Path) -> None:
    script = Path(find_sandbox.__code__.co_filename).with_name("confine.py")
    broken = tmp_path / "confine.py"
    broken.write_text(
        script.read_text().replace(
            "_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444", "_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 9999"
        )
    )
    marked = tmp_path / "ran"
    argv = [sys.executable, "-I", "-S", str(broken), "1", "0", "/usr", "/bin/sh", "-c", f"echo x > '{marked}'"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 126
    assert "was not run" in done.stderr
    assert not marked.exists()
