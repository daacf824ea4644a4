"""A run in a warm interpreter is the run that a start would be."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.running import HELLO, CliRunner, Finished


class ColdRunner(CliRunner):
    is_warm = False


def both(tmp_path: Path, *arguments: str, stdin: bytes | None = None) -> tuple[Finished, Finished]:
    """Return how a run ended in a warm interpreter and how after a start."""
    ended = []
    for name, kind in (("warm", CliRunner), ("cold", ColdRunner)):
        base = tmp_path / name
        base.mkdir()
        cli = kind(base)
        (cli.work / "hello.py").write_text(HELLO)
        ended.append(cli.run(*arguments, stdin=stdin))
    return ended[0], ended[1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (("--help",), None, 0),
        (("-p", "read hello.py", "-m", "demo/demo"), None, 0),
        (("-m", "demo/demo"), "héllo\n".encode(), 0),
        (("-m", "demo/demo", "-p", "hi"), b"\xff\xfe\x00\x01\xff", 42),
        (("-p", "hi", "--bogus"), b"not read" * 100_000, 2),
        (("-p", "hi"), None, 41),
        (("-p", "hi", "-m", "openai/x", "-C", "nowhere"), None, 42),
    ],
)
def test_warm_run_ends_like_a_cold_start(
    arguments: tuple[str, ...], stdin: bytes | None, code: int, tmp_path: Path
) -> None:
    warm, cold = both(tmp_path, *arguments, stdin=stdin)
    assert warm == cold
    assert warm.code == code


def test_warm_runs_are_independent(cli: CliRunner) -> None:
    flags = ("-p", "hi", "-m", "demo/demo", "-o", "json")
    ended = [json.loads(cli.run(*flags, env={"QCODE_HOME": str(cli.home / name)}).out) for name in "ab"]
    assert ended[0]["session_id"] != ended[1]["session_id"]
    assert all(list((cli.home / name).rglob("*.jsonl")) for name in "ab")


def test_endless_warm_run_is_killed(cli: CliRunner) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        cli.run("-p", "rate limit", "-m", "demo/demo", timeout=0.2)
    assert cli.run("--version").code == 0
