"""Instruction files below the folder of the session, given to the model when it touches a file there."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from qcode import Agent, Options
from qcode.agent.context.memory import InstructionFiles, memory_text
from qcode.agent.context.nested import NestedInstructions
from qcode.protocol.messages import Message, Text, ToolResult
from qcode.testing import Call, Scripted
from tests.agent.context.folders import write


class Monorepo:
    """A project with instructions in five folders below the folder of the session."""

    def __init__(self, base: Path) -> None:
        self.root = base / "project"
        for name in ("", "packages", "packages/web", "packages/web/src", "packages/api", "docs"):
            write(self.root / name / "AGENTS.md", f"rules of {name or 'the root'}")
        for name in ("packages/web/src/a.py", "packages/web/src/b.py", "packages/api/a.py", "docs/a.md", "top.py"):
            write(self.root / name, "x = 1\n")
        self.is_trusted = True

    def memory(self, folder: str = ".") -> InstructionFiles:
        return InstructionFiles(self.root / folder, self.root, None, lambda: self.is_trusted)

    def touched(self, nested: NestedInstructions, *names: str) -> list[str]:
        text = nested.text_for(str(self.root / name) for name in names)
        return [line.removeprefix("rules of ") for line in text.split("\n") if line.startswith("rules of ")]


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Monorepo:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))  # an agent stores the lengths of replies there
    return Monorepo(tmp_path)


def test_files_between_the_folder_and_the_touched_file_come_once_outermost_first(repo: Monorepo) -> None:
    nested = repo.memory().nested()
    assert repo.touched(nested, "top.py") == []
    assert repo.touched(nested, "packages/web/src/a.py") == ["packages", "packages/web", "packages/web/src"]
    assert repo.touched(nested, "packages/web/src/b.py") == []
    assert repo.touched(nested, "packages/api/a.py", "docs/a.md") == ["packages/api", "docs"]


def test_session_in_a_subfolder_gets_only_files_below_it(repo: Monorepo) -> None:
    nested = repo.memory("packages").nested()
    assert repo.touched(nested, "docs/a.md") == []
    assert repo.touched(nested, "packages/web/src/a.py") == ["packages/web", "packages/web/src"]


def test_nested_file_is_added_again_after_a_change_or_a_compaction(repo: Monorepo) -> None:
    nested = repo.memory().nested()
    repo.touched(nested, "docs/a.md")
    write(repo.root / "docs/AGENTS.md", "rules of the docs, changed")
    assert repo.touched(nested, "docs/a.md") == ["the docs, changed"]
    nested.forget()
    assert repo.touched(nested, "docs/a.md") == ["the docs, changed"]
    assert repo.touched(nested.for_subagent(), "docs/a.md") == ["the docs, changed"]
    assert repo.touched(nested, "docs/a.md") == []


def test_instructions_come_once_if_two_calls_touch_the_same_folder_at_the_same_time(repo: Monorepo) -> None:
    texts: list[list[str]] = []
    second = threading.Thread(target=lambda: texts.append(repo.touched(nested, "docs/a.md")))

    def may_read(path: Path) -> bool:
        if path.parent.name == "docs" and not second.ident:  # the first call reads the file
            second.start()
            second.join(timeout=0.2)  # ends at once if it does not wait for the first call
        return True

    nested = InstructionFiles(repo.root, repo.root, None, lambda: True, may_read).nested()
    texts.append(repo.touched(nested, "docs/a.md"))
    second.join()
    assert sorted(texts) == [[], ["docs"]]


def test_instructions_of_untrusted_projects_dependencies_and_nested_repositories_are_not_read(repo: Monorepo) -> None:
    nested = repo.memory().nested()
    for name in ("node_modules/x", "packages/api/node_modules/y"):
        write(repo.root / name / "AGENTS.md", "rules of a dependency")
        assert "a dependency" not in repo.touched(nested, f"{name}/index.js")
    for name in ("HEAD", "objects/x", "refs/x"):
        write(repo.root / "sub/.git" / name, "ref: refs/heads/main\n")
    write(repo.root / "sub/AGENTS.md", "rules of another repository")
    assert repo.touched(nested, "sub/a.py") == []
    assert repo.touched(nested, "../elsewhere/a.py") == []
    repo.is_trusted = False
    assert repo.touched(nested, "docs/a.md") == []


def test_nested_file_that_is_secret_or_linked_outside_is_not_read(repo: Monorepo, tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere.md", "rules of elsewhere")
    (repo.root / "linked").mkdir()
    (repo.root / "linked/AGENTS.md").symlink_to(elsewhere)
    memory = repo.memory()
    assert repo.touched(memory.nested(), "linked/a.py") == []
    assert "linked/AGENTS.md leads outside the project and was not read" in memory.notes()


def test_rules_with_paths_are_added_with_the_first_file_they_cover(repo: Monorepo) -> None:
    write(repo.root / ".claude/rules/web.md", "---\npaths:\n  - packages/web/**/*.{py,ts}\n---\nrules of the web")
    write(repo.root / ".qwen/rules/top.md", '---\npaths: "*.py"\n---\nrules of the top')
    nested = repo.memory().nested()
    assert repo.touched(nested, "docs/a.md") == ["docs"]
    assert repo.touched(nested, "packages/web/src/a.py")[-1] == "the web"
    assert repo.touched(nested, "packages/web/src/b.py") == []
    assert repo.touched(nested, "top.py") == ["the top"]
    (web,) = [file for file in nested.files if file.label == ".claude/rules/web.md"]
    assert web.reason == "a rule for packages/web/**/*.{py,ts}, read for packages/web/src/a.py"


def test_files_are_bounded_one_by_one_and_together(repo: Monorepo) -> None:
    for number in range(10):
        write(repo.root / f"big{number}/AGENTS.md", "rule\n" * 10_000)
    nested = repo.memory().nested()
    texts = [nested.text_for([str(repo.root / f"big{number}/a.py")]) for number in range(10)]
    assert "one file below the folder of the session may have 16384" in texts[0]
    assert sum(map(len, texts)) < 64 * 1024 + 5_000
    assert texts[9] == "" or len(texts[9]) < 1_000


def test_memory_says_why_a_file_was_read(repo: Monorepo) -> None:
    memory = repo.memory()
    memory.nested().text_for([str(repo.root / "docs/a.md")])
    text = memory_text(memory)
    assert "  docs/AGENTS.md: for this project, read for docs/a.md; 13 bytes" in text.split("\n")
    assert "  AGENTS.md: for this project; 17 bytes" in text.split("\n")


def results(messages: tuple[Message, ...]) -> list[str]:
    return [block.content for message in messages for block in message.blocks if isinstance(block, ToolResult)]


def run(repo: Monorepo, replies: list[Any], *prompts: str, **options: Any) -> tuple[Message, ...]:
    async def work() -> tuple[Message, ...]:
        expected = Options(cwd=repo.root, model=Scripted(replies), no_session=True, trust=True, **options)
        async with Agent.open(expected) as agent:
            for prompt in prompts:
                await agent.run(prompt)
            return agent.conversation.messages

    return asyncio.run(work())


def test_result_of_a_read_or_write_has_the_instructions_of_its_folder_once(repo: Monorepo) -> None:
    replies = [
        Call("read", path="packages/web/src/a.py"),
        Call("read", path="packages/web/src/b.py"),
        Call("write", path="docs/new.md", content="x\n"),
        "done",
    ]
    first, second, third = results(run(repo, replies, "go", permission_mode="accept-edits"))
    assert first.index("rules of packages\n") < first.index("rules of packages/web\n")
    assert "Instructions of the project for the files that this call touched:" in first
    assert "rules of" not in second
    assert "rules of docs" in third


def test_result_of_a_failed_call_has_no_instructions(repo: Monorepo) -> None:
    (missing,) = results(run(repo, [Call("read", path="docs/missing.md"), "done"], "go"))
    assert "rules of" not in missing


def test_result_of_a_call_in_an_untrusted_folder_has_no_instructions(repo: Monorepo) -> None:
    async def work() -> tuple[Message, ...]:
        model = Scripted([Call("read", path="docs/a.md"), "done"])
        async with Agent.open(Options(cwd=repo.root, model=model, no_session=True)) as agent:
            await agent.run("go")
            return agent.conversation.messages

    (text,) = results(asyncio.run(work()))
    assert "rules of" not in text


def test_attached_file_adds_the_instructions_of_its_folder(repo: Monorepo) -> None:
    async def work() -> tuple[Message, ...]:
        expected = Options(cwd=repo.root, model=Scripted(["done"]), no_session=True, trust=True)
        async with Agent.open(expected) as agent:
            agent.conversation.attach((Text('<file path="docs/a.md">\nx\n</file>'),))
            await agent.run("look")
            return agent.conversation.messages

    texts = [block.text for block in asyncio.run(work())[0].blocks if isinstance(block, Text)]
    assert [("rules of docs" in text) for text in texts] == [False, True, False]
