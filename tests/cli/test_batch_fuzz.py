"""Random lines as the tasks of a batch, and random options of the library: an answer in words, or a result each."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

import qcode
from qcode.cli.main import main
from qcode.cli.subcommands.batch.tasks import read_tasks
from qcode.protocol.errors import InputError, QcodeError
from tests.fakes.server import FakeServer
from tests.fakes.turns import ReceivedRequest, Turn

KEYS = [
    "id", "prompt", "cwd", "files", "schema", "model", "system_prompt", "append_system_prompt", "reasoning_effort",
    "max_turns", "max_tool_calls", "max_output_tokens", "max_budget_usd", "timeout", "made_up", "",
]  # fmt: skip
TEXTS = [
    "", "x", ".", "..", "/", "sub", "no/such", "a.txt", "\0", "\ud800", "\u2028", "high", "openai/m", "nobody/m", "~",
    "$(touch hacked)", "@a.txt", "/compact", "x" * 5_000,
]  # fmt: skip
NUMBERS: list[Any] = [0, 1, -1, 3, 2**70, 1.5, -0.0, 1e308, True, False, None, float("inf"), float("nan")]
BROKEN = ["", "  ", "{", "[]", "null", "5", "{}", '{"prompt":"x"} trailing', "\ufeff{}"]
LINES = [*BROKEN, "[" * 100_000, '"' * 999, "1" * 6_000]
OPTIONS = ["model", "system_prompt", "max_turns", "max_output_tokens", "max_budget_usd", "timeout", "reasoning_effort"]


class Fuzzer:
    """Makes lines of a file of tasks from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int = 0) -> Any:  # any JSON
        match self.random.randrange(6 if depth < 3 else 3):
            case 0:
                return self.random.choice(TEXTS)
            case 1:
                return self.random.choice(NUMBERS)
            case 2:
                return "".join(chr(self.random.randrange(1, 0x250)) for _ in range(self.random.randrange(40)))
            case 3:
                return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
            case _:
                return {self.random.choice(KEYS): self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def row(self, number: int) -> dict[str, Any]:
        """Return a task that is often accepted."""
        row: dict[str, Any] = {"id": f"{number}", "prompt": "x"}
        for _ in range(self.random.randrange(3)):
            key = self.random.choice(KEYS)
            row[key] = self.value() if self.random.random() < 0.5 else self.random.choice([*TEXTS, *NUMBERS])
        return row

    def line(self, number: int) -> str:
        if self.random.random() < 0.1:
            return self.random.choice(LINES)
        line = json.dumps(self.row(number) if self.random.random() < 0.8 else self.value())
        return line[: self.random.randrange(len(line) + 1)] if self.random.random() < 0.05 else line


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\n")
    monkeypatch.chdir(folder)
    return folder


def hello(asked: ReceivedRequest) -> Turn:
    return Turn(text="Hello.")


def accepted(lines: list[str], folder: Path) -> list[str]:
    """Return the lines that are usable one by one; the others are refused with file and line."""
    path, found = folder / "one.jsonl", list[str]()
    for line in lines:
        path.write_text(line, "utf-8", "surrogatepass")
        try:
            if read_tasks(path, folder):
                found.append(line)
        except InputError as refusal:
            assert str(refusal).startswith((f"{path}:1: ", f"cannot read {path}: ")), refusal
    return found


@pytest.mark.parametrize(
    ("seed", "count", "seconds"),
    [(1, 150, 0.0), pytest.param(2, 150, 60.0, marks=[pytest.mark.broad, pytest.mark.timeout(300)])],
)
def test_each_task_of_random_lines_is_refused_in_words_or_has_one_result(
    seed: int, count: int, seconds: float, work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fuzzer, until, refused = Fuzzer(seed), time.monotonic() + seconds, 0
    with FakeServer("openai", hello) as server:
        while True:
            lines = [fuzzer.line(number) for number in range(count)]
            kept_id = accepted(lines, work)
            tasks = {str(json.loads(line).get("id", number)): line for number, line in enumerate(kept_id, 1)}
            assert len(tasks) > 10
            (work / "tasks.jsonl").write_text("\n".join(tasks.values()), "utf-8")
            (work / "out.jsonl").unlink(missing_ok=True)
            # The ids of the file are those of the results.
            ids = [task.id for task in read_tasks(work / "tasks.jsonl", work)]
            model = ("-m", "openai/m", "--base-url", server.base_url, "--no-session")
            assert main(["batch", "tasks.jsonl", "--out", "out.jsonl", "--jobs", "4", *model]) in (0, 1)
            rows = [json.loads(line) for line in (work / "out.jsonl").read_bytes().splitlines()]
            assert sorted(row["id"] for row in rows) == sorted(ids)
            assert not [row for row in rows if "internal error" in str(row.get("error"))]
            refused += len(lines) - len(kept_id)
            if time.monotonic() >= until:
                break
    assert refused > 10
    assert sorted(path.name for path in work.iterdir()) == ["a.txt", "one.jsonl", "out.jsonl", "sub", "tasks.jsonl"]
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("seed", "seconds"), [(1, 0.5), pytest.param(2, 60.0, marks=[pytest.mark.broad, pytest.mark.timeout(300)])]
)
def test_random_options_of_the_library_raise_its_own_errors_or_give_a_result(
    seed: int, seconds: float, work: Path
) -> None:
    fuzzer, until, answered, refused = Fuzzer(seed), time.monotonic() + seconds, 0, 0
    with FakeServer("openai", hello) as server:
        while time.monotonic() < until or not (answered and refused):
            names = fuzzer.random.sample(OPTIONS, fuzzer.random.randrange(3))
            options: dict[str, Any] = {name: fuzzer.random.choice([*TEXTS, *NUMBERS]) for name in names}
            prompt = fuzzer.random.choice(["x", "x", *TEXTS])
            given = {"model": "openai/m", "base_url": server.base_url, "no_session": True, **options}
            try:
                result = qcode.run(prompt, check=False, **given)
            except QcodeError:
                refused += 1
            else:
                answered += 1
                assert result.outcome, given
