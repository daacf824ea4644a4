"""Every command of the README and the pages that can run offline does run, and every example can be read."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, Block, PageRunner, blocks_of

BLOCKS = {page.relative_to(ROOT).as_posix(): blocks_of(page) for page in PAGES}
COMMANDS = {
    name: [block for block in blocks if block.language in ("sh", "console") and not block.skip]
    for name, blocks in BLOCKS.items()
}
LANGUAGES = {"", "text", "sh", "console", "toml", "json", "python", "ts"}


def pages(*, slow: bool) -> list[str]:
    return [name for name, blocks in COMMANDS.items() if any(block.is_slow is slow for block in blocks)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("page", pages(slow=False))
def test_commands_of_a_page_run_offline(page: str, tmp_path: Path) -> None:
    runner = PageRunner(tmp_path)
    for block in COMMANDS[page]:
        if not block.is_slow:
            check(block, runner)


@pytest.mark.broad
@pytest.mark.parametrize("page", pages(slow=True))
def test_slow_commands_of_a_page_run_offline(page: str, tmp_path: Path) -> None:
    runner = PageRunner(tmp_path)
    for block in COMMANDS[page]:
        if block.is_slow:
            check(block, runner)


@pytest.mark.parametrize("page", BLOCKS)
def test_examples_of_a_page_can_be_read(page: str, tmp_path: Path) -> None:
    for block in BLOCKS[page]:
        assert block.language in LANGUAGES, str(block)
        if block.language == "toml":
            assert tomllib.loads(block.text), str(block)
        if block.language == "json":
            assert [json.loads(line) for line in block.text.splitlines()], str(block)


def test_examples_of_the_configuration_are_valid(tmp_path: Path) -> None:
    runner = PageRunner(tmp_path)
    config = Path(runner.bash("qcode config path").stdout.strip())
    config.parent.mkdir(parents=True)
    for block in (block for blocks in BLOCKS.values() for block in blocks if block.info == "config"):
        config.write_text(block.text)
        done = runner.bash("qcode config show")
        assert done.returncode == 0, f"{block}: {done.stderr}"


def test_every_page_of_the_guide_starts_with_a_command() -> None:
    late = [
        name
        for name, blocks in BLOCKS.items()
        if name.startswith("docs/guide/")
        and not (blocks and blocks[0].language in ("sh", "console") and blocks[0].line < 20)
    ]
    assert late == []


def check(block: Block, runner: PageRunner) -> None:
    """Run a block, line by line if it shows the output of its commands."""
    if block.language == "console":
        for command, expected in sessions(block.text):
            done = runner.bash(command)
            assert re.fullmatch(pattern(expected), done.stdout), f"{block}: {command}\n{done.stdout}{done.stderr}"
        return
    done = runner.bash(block.text)
    fitting = block.exit_code == "any" or done.returncode == int(block.exit_code)
    assert fitting, f"{block}: exit code {done.returncode}\n{block.text}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr


def sessions(text: str) -> Iterator[tuple[str, str]]:
    """Yield each `$ command` with the output below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        assert shlex.split(command)
        yield command, output


def pattern(expected: str) -> str:
    """Return a pattern for an expected output, in which `…` stands for any text."""
    return re.escape(expected).replace("…", "(?s:.*)")


def test_git_hooks_of_the_page_work(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "git-hooks.md"
    draft, check_change = (block.text for block in blocks_of(page) if block.text.startswith("#!/bin/sh"))
    runner = PageRunner(tmp_path)
    hooks = runner.work / ".git/hooks"
    for name, text in (("prepare-commit-msg", draft), ("pre-push", check_change)):
        (hooks / name).write_text(text)
        (hooks / name).chmod(0o755)
    author = "git -c user.name=Author -c user.email=author@project.test -c core.editor=true"
    done = runner.bash(f"{author} commit -qa")
    assert done.returncode == 0, done.stderr
    message = runner.bash("git log -1 --format=%B").stdout
    assert len(message) > 20
    done = runner.bash(f"{author} commit -q --allow-empty -m mine && git log -1 --format=%B")
    assert done.stdout.strip() == "mine"
    runner.bash("git init -q --bare ../remote.git && git remote add origin ../remote.git")
    done = runner.bash("git push -q -u origin HEAD:main")
    assert done.returncode == 0, done.stderr
