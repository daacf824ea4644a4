"""300 turns in one process: memory, open files and CPU per turn do not grow, in a pipe and in the app."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.running import KEY, KEY_VARIABLES, PROTOCOLS, CliRunner
from tests.e2e.terminal import Terminal
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import ReceivedRequest, Turn

pytestmark = [pytest.mark.broad, pytest.mark.timeout(600)]

TURNS, WARM_UP, WINDOW = 300, 100, 50
MAX_RATIO = 1.1
MAX_GROWTH_KIB = 4_096


@dataclass
class Usage:
    """Figures of a process after each turn: CPU time in ns, resident memory in KiB, and open files."""

    pid: int
    cpu: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def sample(self) -> None:
        proc = Path("/proc", str(self.pid))
        threads = (path.read_text().split()[0] for path in proc.glob("task/*/schedstat"))
        self.cpu.append(sum(map(int, threads)))
        status = (proc / "status").read_text()
        self.memory.append(int(status.partition("VmRSS:")[2].split()[0]))
        self.files.append(len(list((proc / "fd").iterdir())))

    def turns(self, first: int, last: int) -> float:
        """Return the median of the CPU time of the turns from `first` to `last`."""
        return statistics.median(self.cpu[at] - self.cpu[at - 1] for at in range(first, last))

    def check(self, fresh: Usage) -> None:
        """Compare the last turns with turns of a `fresh` process that took place at the same time."""
        late, early = self.turns(TURNS - WINDOW, TURNS), fresh.turns(WARM_UP, WARM_UP + WINDOW)
        figures = f"CPU {early / 1e6:.2f} ms a turn, late {late / 1e6:.2f} ms; memory {self.memory[WARM_UP]} KiB, late "
        figures += f"{self.memory[-1]} KiB; files {self.files[WARM_UP]}, late {self.files[-1]}"
        print(figures)  # noqa: T201 - shown with -s
        assert late <= MAX_RATIO * early, figures
        assert self.memory[-1] - self.memory[WARM_UP] <= MAX_GROWTH_KIB, figures
        assert max(self.files[-WINDOW:]) <= max(self.files[WARM_UP : WARM_UP + WINDOW]), figures


Step = Callable[[int], None]


def run_turns(long: Step, fresh: Step) -> None:
    """Run the turns of both processes; the ones to compare in turn, so that other load changes both alike."""
    apart = TURNS - WINDOW - WARM_UP
    for number in range(TURNS):
        long(number)
        if number >= apart:
            fresh(number - apart)


def answer(asked: ReceivedRequest) -> Turn:
    return Turn(text=(f"Answer {len(asked.messages) // 2}.", " It is short."))


class Pipe:
    """A process in pipe mode that gets a prompt a line."""

    def __init__(self, base: Path, server: FakeServer, protocol: ProtocolName) -> None:
        base.mkdir()
        cli = CliRunner(base)
        flags = ("-m", f"{protocol}/test-model", "--base-url", server.base_url)
        command = cli.command(*flags, "-p", "--input-format", "stream-json", "-o", "stream-json")
        environment = cli.environment({KEY_VARIABLES[protocol]: KEY})
        self.process = subprocess.Popen(
            command, cwd=cli.work, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.usage = Usage(self.process.pid)

    def __call__(self, number: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = {"type": "user", "message": {"role": "user", "content": f"question {number}"}}
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()
        while json.loads(self.process.stdout.readline())["type"] != "result":
            pass
        self.usage.sample()

    def close(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pipe_needs_no_more_memory_files_and_cpu_per_turn_after_300_turns(
    protocol: ProtocolName, tmp_path: Path
) -> None:
    with FakeServer(protocol, answer) as server:
        long, fresh = (Pipe(tmp_path / name, server, protocol) for name in ("long", "fresh"))
        try:
            run_turns(long, fresh)
        finally:
            long.close()
            fresh.close()
        assert server.complaints == []
        assert max(len(request.messages) for request in server.requests) == 2 * TURNS - 1
    long.usage.check(fresh.usage)


def test_app_needs_no_more_memory_files_and_cpu_per_turn_after_300_turns(tmp_path: Path) -> None:
    with FakeServer("openai", answer) as server, ExitStack() as stack:
        steps = []
        for name in ("long", "fresh"):
            (tmp_path / name).mkdir()
            flags = ("-m", "openai/test-model", "--base-url", server.base_url, "--trust")
            terminal = Terminal(CliRunner(tmp_path / name), *flags, env={KEY_VARIABLES["openai"]: KEY})
            stack.enter_context(terminal)
            terminal.wait_for("test-model")
            steps.append((Usage(terminal.pid), terminal))

        def step(at: int) -> Step:
            usage, terminal = steps[at]

            def run(number: int) -> None:
                terminal.press(f"question {number}\r")
                terminal.wait_for(answered(number))
                usage.sample()

            return run

        run_turns(step(0), step(1))
        assert server.complaints == []
        assert max(len(request.messages) for request in server.requests) == 2 * TURNS - 1
    steps[0][0].check(steps[1][0])


def answered(number: int) -> Callable[[str], bool]:
    """Return a condition: the answer is on screen, and the app waits for the next prompt."""
    return lambda text: f"Answer {number}." in text and "Esc to interrupt" not in text
