"""Instruction files as the user sees and changes them, with real files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qcode.agent.agent import Agent
from qcode.agent.context.memory import InstructionFiles, split_memory_line
from qcode.agent.models.selection import select_model
from qcode.agent.options import Options, RunContext


class MemoryFolders:
    """A project with a subfolder, and the folder of the user."""

    def __init__(self, base: Path) -> None:
        self.root = base / "project"
        self.home = base / "home"
        self.folder = self.root / "pkg"
        self.folder.mkdir(parents=True)
        self.is_trusted = True

    def memory(self, folder: Path | None = None) -> InstructionFiles:
        return InstructionFiles(folder or self.root, self.root, self.home, lambda: self.is_trusted)


@pytest.fixture
def folders(tmp_path: Path) -> MemoryFolders:
    return MemoryFolders(tmp_path)


def test_files_below_the_home_folder_are_shown_with_a_tilde(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "qcode"
    memory = InstructionFiles(tmp_path / "p", tmp_path / "p", config, lambda: True, home=tmp_path)
    assert [file.label for file in memory.editable_files()] == ["AGENTS.md", "~/.config/qcode/AGENTS.md"]
    config.mkdir(parents=True)
    (config / "AGENTS.md").write_text("mine\n")
    assert [file.label for file in memory.files()] == ["~/.config/qcode/AGENTS.md", "AGENTS.md"]


def test_files_are_listed_in_prompt_order_then_possible_ones(folders: MemoryFolders) -> None:
    folders.home.mkdir()
    (folders.home / "AGENTS.md").write_text("mine\n")
    (folders.root / "CLAUDE.md").write_text("See @more.md\n")
    (folders.root / "more.md").write_text("more\n")
    files = folders.memory(folders.folder).files()
    assert [(file.owner, file.label, file.size) for file in files] == [
        ("yours", str(folders.home / "AGENTS.md"), 5),
        ("project", "CLAUDE.md", 13),
        ("project", "more.md", 5),
        ("project", "pkg/AGENTS.md", None),
    ]
    assert files[2].imported_by == "CLAUDE.md"


def test_restricted_folder_reads_no_file_and_offers_only_the_user_file(folders: MemoryFolders) -> None:
    (folders.root / "AGENTS.md").write_text("orders\n")
    folders.is_trusted = False
    memory = folders.memory()
    assert "restricted" in memory.notes()[0]
    assert [(file.owner, file.size) for file in memory.files()] == [("yours", None)]
    with pytest.raises(ValueError, match="instruction file does not exist"):
        memory.append(str(folders.root / "AGENTS.md"), "more")
    with pytest.raises(ValueError, match="Type /trust first"):
        memory.init_prompt("")
    (folders.root / "AGENTS.md").rename(folders.root / "away")
    assert [file.owner for file in memory.editable_files()] == ["yours"]
    (folders.root / "away").rename(folders.root / "AGENTS.md")
    folders.is_trusted = True
    assert "orders" in memory.read().text
    assert memory.notes() == ()


def test_run_without_project_sources_names_the_flag_and_not_a_missing_trust(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("orders\n")
    env = {"QCODE_HOME": str(tmp_path / "qcode"), "HOME": str(tmp_path)}
    context = RunContext.read(Options(cwd=work, trust=True, setting_sources=["user"]), env)
    memory = Agent.begin(context, select_model("demo/demo", context.settings, "a test")).memory
    assert memory.notes() == ("--setting-sources excludes the project, so its instruction files are not read.",)
    assert [file.owner for file in memory.files()] == ["yours"]
    assert "AGENTS.md" in memory.init_prompt("")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"- use tabs\n"),
        (b"# Rules\n", b"# Rules\n\n- use tabs\n"),
        (b"- one", b"- one\n- use tabs\n"),
        (b"- one\r\n", b"- one\r\n- use tabs\r\n"),
    ],
)
def test_line_is_added_as_a_list_item_with_the_line_endings_of_the_file(
    folders: MemoryFolders, before: bytes, after: bytes
) -> None:
    file = folders.root / "AGENTS.md"
    file.write_bytes(before)
    message = folders.memory().append(str(file), "  - use\n tabs ")
    assert file.read_bytes() == after
    assert "AGENTS.md" in message
    assert "use tabs" in folders.memory().read().text


def test_missing_memory_files_are_created(folders: MemoryFolders) -> None:
    project, own = folders.memory().editable_files()
    folders.memory().append(project.path, "a")
    folders.memory().append(own.path, "b")
    assert (folders.root / "AGENTS.md").read_text() == "- a\n"
    assert (folders.home / "AGENTS.md").read_text() == "- b\n"


def test_nearest_file_comes_first_and_links_inside_the_project_are_followed(folders: MemoryFolders) -> None:
    (folders.root / "CLAUDE.md").write_text("root\n")
    (folders.root / "AGENTS.md").symlink_to("CLAUDE.md")
    (folders.folder / "AGENTS.md").write_text("pkg\n")
    places = folders.memory(folders.folder).editable_files()
    assert [place.label for place in places[:2]] == ["pkg/AGENTS.md", "AGENTS.md"]
    folders.memory(folders.folder).append(places[1].path, "more")
    assert (folders.root / "CLAUDE.md").read_text() == "root\n\n- more\n"
    assert (folders.root / "AGENTS.md").is_symlink()


def test_line_goes_to_a_shared_instruction_file_before_a_local_one_and_a_rule(tmp_path: Path) -> None:
    root, home, config = tmp_path / "project", tmp_path / "home", tmp_path / "config"
    for file in ("AGENTS.md", "CLAUDE.local.md", ".claude/rules/tests.md"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("x\n")
    (home / ".claude/rules").mkdir(parents=True)
    (home / ".claude/rules/style.md").write_text("x\n")
    files = InstructionFiles(root, root, config, lambda: True, home=home).editable_files()
    assert [(file.owner, file.label) for file in files] == [
        ("project", "AGENTS.md"),
        ("project", "CLAUDE.local.md"),
        ("project", ".claude/rules/tests.md"),
        ("yours", str(config / "AGENTS.md")),
        ("yours", "~/.claude/rules/style.md"),
    ]
    line = split_memory_line("project: use tabs", files)
    (selected,) = line.files
    assert (selected.label, line.text) == ("AGENTS.md", "use tabs")


def test_file_that_is_not_utf_8_is_left_unchanged(folders: MemoryFolders) -> None:
    file = folders.root / "AGENTS.md"
    file.write_bytes("übung".encode("utf-16"))
    memory = folders.memory()
    places = memory.editable_files()
    for place in places:
        if place.path == str(file):
            with pytest.raises(ValueError, match="UTF-8"):
                memory.append(place.path, "x")
    assert file.read_bytes() == "übung".encode("utf-16")
    with pytest.raises(ValueError, match="up to 4,000"):
        memory.append(places[-1].path, "  ")


def test_unwritable_file_is_named(folders: MemoryFolders) -> None:
    if os.geteuid() == 0:
        folders.home.parent.joinpath("home").write_text("no folder")
        path = folders.memory().editable_files()[-1].path
    else:
        folders.home.mkdir(mode=0o500)
        path = str(folders.home / "AGENTS.md")
    with pytest.raises(ValueError, match="cannot write"):
        folders.memory().append(path, "x")


def test_init_requests_a_new_file_or_an_improved_one(folders: MemoryFolders) -> None:
    assert "write an AGENTS.md" in folders.memory().init_prompt("")
    (folders.root / "CLAUDE.md").write_text("x\n")
    better = folders.memory().init_prompt("say how to release")
    assert "improve its CLAUDE.md" in better
    assert "say how to release" in better
