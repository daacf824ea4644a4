"""The programs in the page about Python run unchanged, against a scripted host."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from qcode.protocol.reply import StopReason
from tests.docs.blocks import ROOT, Block, blocks_of
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Turn

PROGRAMS = [block for block in blocks_of(ROOT / "docs/how-to/embed.md") if block.language == "python"]


def call(name: str, **arguments: object) -> Turn:
    return Turn(calls=(Call(name, json.dumps(arguments)),))


# The replies of the host to each program, and what it prints.
SCRIPTS: Sequence[tuple[tuple[Turn, ...], str]] = (
    ((Turn(text="It greets people."),), "It greets people."),
    (
        (call("edit", path="hello.py", old_text="Hello", new_text="Hi"), Turn(text="It needs your approval.")),
        "It needs your approval.",
    ),
    (
        (
            call("edit", path="hello.py", old_text="Hello", new_text="Hi"),
            call("shell", command="make deploy"),
            Turn(text="Edited."),
        ),
        "Edited. 1",
    ),
    ((call("ticket", number=7), Turn(text="It is about a cart.")), "It is about a cart."),
    ((call("shell", command="ping prod"), Turn(text="It is off limits.")), "It is off limits."),
    ((Turn(text="First this, then that."), Turn(text="Done.")), ""),
    (
        (Turn(text='{"score": 3, "problems": ["no tests"]}'),),
        "3 ['no tests']",
    ),
    ((), ""),
)


@pytest.mark.parametrize(
    ("program", "script"), zip(PROGRAMS, SCRIPTS, strict=True), ids=[str(block.line) for block in PROGRAMS]
)
def test_program_of_the_page_runs(
    program: Block,
    script: tuple[tuple[Turn, ...], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    turns, printed = script
    (tmp_path / "repo").mkdir()
    (tmp_path / "README.md").write_text("# Project\n\nIt greets.\n")
    (tmp_path / "repo/hello.py").write_text('print("Hello")\n')
    monkeypatch.chdir(tmp_path)
    with FakeServer("openai", turns) as server:
        for name, value in {
            "QCODE_HOME": str(tmp_path / "home"),
            "QCODE_MODEL": "openai/some-model",
            "OPENAI_API_KEY": "k" * 20,
            "OPENAI_BASE_URL": server.base_url,
        }.items():
            monkeypatch.setenv(name, value)
        exec(compile(program.text, str(program), "exec"), {"__name__": "__main__"})
        assert len(server.requests) == len(turns)
    found = capfd.readouterr()
    assert found.out.startswith(printed)
    assert bool(found.out) == bool(printed)
    assert found.err == ""


def test_truncated_answer_of_the_typed_program_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "repo").mkdir()
    monkeypatch.chdir(tmp_path)
    cut = tuple(Turn(text=f"part {number} of a long answer, ", stop=StopReason.MAX_TOKENS) for number in range(5))
    with FakeServer("openai", cut) as server:
        for name, value in {
            "QCODE_HOME": str(tmp_path / "home"),
            "QCODE_MODEL": "openai/some-model",
            "OPENAI_API_KEY": "k" * 20,
            "OPENAI_BASE_URL": server.base_url,
        }.items():
            monkeypatch.setenv(name, value)
        exec(compile(PROGRAMS[6].text, "embed.md", "exec"), {"__name__": "__main__"})
    assert capfd.readouterr().out.startswith("cut: part ")
