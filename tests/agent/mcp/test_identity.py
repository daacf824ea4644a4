"""The files that belong to an approved server: a change of any of them needs a new approval."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from qcode.agent.mcp.identity import files_of
from qcode.agent.mcp.spec import NOT_FOUND, TOO_LARGE
from qcode.agent.trust.store import TrustedFile
from qcode.config.settings import McpServer

FILES = {
    "server.py": "print(1)\n",
    "tools/server.js": "1\n",
    "tools/hook.js": "1\n",
    "lib/a.jar": "1\n",
    "lib/b.jar": "1\n",
    "pkg/__init__.py": "",
    "pkg/cli/__main__.py": "1\n",
    "pkg/core.py": "1\n",
    "single.py": "1\n",
    "src/later/__init__.py": "1\n",
    "local/package.json": "{}\n",
    "local/index.js": "1\n",
    "package.json": "{}\n",
    "Makefile": "mcp:\n",
    "settings.json": "{}\n",
    "data/notes.txt": "1\n",
}


class Work:
    """A workspace, and programs outside it."""

    def __init__(self, base: Path) -> None:
        self.work, self.bin = base / "work", base / "bin"
        for name, text in FILES.items():
            self.write(name, text)
        for name in ("python3", "node", "npx", "npm", "uv", "uvx", "sh", "java", "make", "env", "tool"):
            self.program(self.bin / name)

    def write(self, name: str, text: str) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, path: Path, text: str = "\x7fELF") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def files(
        self, command: str, *args: str, env: Mapping[str, str] | None = None, is_from_project: bool = True
    ) -> dict[str, TrustedFile]:
        config = McpServer(command, args, env or {}, is_from_project=is_from_project)
        return files_of(config, self.work, {"PATH": str(self.bin)}, (self.work,))


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


@pytest.mark.parametrize(
    ("command", "args", "file"),
    [
        ("python3", ["server.py"], "server.py"),
        ("python3", ["-u", "./server.py", "--port", "1"], "server.py"),
        ("python3", ["{work}/server.py"], "server.py"),
        ("python3", ["tools/../server.py"], "server.py"),
        ("python3", ["-m", "pkg.cli"], "pkg/core.py"),
        ("python3", ["-mpkg"], "pkg/core.py"),
        ("python3", ["-m", "single"], "single.py"),
        ("python3", ["pkg"], "pkg/core.py"),
        ("node", ["--require", "./tools/hook.js", "tools/server.js"], "tools/hook.js"),
        ("node", ["--require=./tools/hook.js", "tools/server.js"], "tools/hook.js"),
        ("node", ["-r./tools/hook.js", "tools/server.js"], "tools/hook.js"),
        ("node", ["--import", "file://{work}/tools/hook.js"], "tools/hook.js"),
        ("node", ["local"], "local/index.js"),
        ("java", ["-cp", "lib/a.jar:lib/b.jar", "Main"], "lib/b.jar"),
        ("java", ["@settings.json"], "settings.json"),
        ("npx", ["-y", "./local"], "local/index.js"),
        ("npx", ["--package=./local", "thing"], "local/index.js"),
        ("npx", ["--package", "file:local", "thing"], "local/index.js"),
        ("npx", ["thing"], "node_modules/.bin/thing"),
        ("npm", ["run", "mcp"], "package.json"),
        ("uvx", ["--from", "./pkg", "thing"], "pkg/core.py"),
        ("uv", ["run", "--directory", "pkg", "thing"], "pkg/core.py"),
        ("uv", ["run", "thing"], ".venv/bin/thing"),
        ("uv", ["run", "server.py"], "server.py"),
        ("env", ["python3", "server.py"], "server.py"),
        ("sh", ["-c", "exec python3 './server.py' --x"], "server.py"),
        ("sh", ["-c", "cd . && npx ./local"], "local/index.js"),
        ("sh", ["-c", "python3 <server.py"], "server.py"),
        ("sh", ["-c", "cat server.py|python3"], "server.py"),
        ("sh", ["-c", "cd tools && node ./hook.js"], "tools/hook.js"),
        ("node", ["tools/hook"], "tools/hook.js"),
        ("make", ["mcp"], "Makefile"),
        ("tool", ["--config", "settings.json"], "settings.json"),
        ("./tools/run", [], "tools/run"),
        ("tools/run", [], "tools/run"),
        ("linked", ["x"], "tools/run"),
    ],
)
def test_workspace_file_that_a_server_starts_is_part_of_its_identity(
    work: Work, command: str, args: list[str], file: str
) -> None:
    work.program(work.work / "tools/run", "#!/bin/sh\n")
    for name in ("node_modules/.bin/thing", ".venv/bin/thing"):
        work.program(work.work / name, "1\n")
    (work.bin / "linked").symlink_to(work.work / "tools/run")
    given = [argument.replace("{work}", str(work.work)) for argument in args]
    before = work.files(command, *given)
    assert work.files(command, *given) == before
    path = work.work / file
    path.write_text(path.read_text() + "# evil\n")
    assert work.files(command, *given) != before


@pytest.mark.parametrize(
    ("command", "args", "file"),
    [
        ("npx", ["-y", "server-filesystem", "."], "data/notes.txt"),
        ("npx", ["-y", "server-filesystem", "{work}"], "server.py"),
        ("tool", ["data"], "data/notes.txt"),
        ("python3", ["server.py"], "single.py"),
    ],
)
def test_data_of_a_server_is_not_part_of_its_identity(work: Work, command: str, args: list[str], file: str) -> None:
    given = [argument.replace("{work}", str(work.work)) for argument in args]
    before = work.files(command, *given)
    (work.work / file).write_text("changed\n")
    assert work.files(command, *given) == before


def test_program_that_shadows_a_package_is_part_of_the_identity(work: Work) -> None:
    before = work.files("npx", "thing")
    work.program(work.work / "node_modules/.bin/thing")
    assert work.files("npx", "thing") != before


def test_resolved_program_is_part_of_the_identity_of_a_project_server(work: Work) -> None:
    before = work.files("python3", "server.py")
    assert set(before) == {f"program python3 ({work.bin / 'python3'})", "server.py"}
    real = work.program(work.bin / "python3.99", "new")
    (work.bin / "python3").unlink()
    (work.bin / "python3").symlink_to(real)
    after = work.files("python3", "server.py")
    assert f"program python3 ({real})" in after
    work.program(real, "newer")
    assert work.files("python3", "server.py") != after


def test_program_that_cannot_be_reached_is_not_found(work: Work) -> None:
    command = "/" + "n" * 300  # a name that raises an error, like a program in the home of another user
    found = work.files(command, "server.py")
    assert [(name, file.hash) for name, file in found.items()] == [(f"program {command}", NOT_FOUND)]


def test_updated_program_outside_the_project_keeps_a_user_server_approved(work: Work) -> None:
    before = work.files("python3", "server.py", is_from_project=False)
    assert set(before) == {"server.py"}
    work.program(work.bin / "python3", "new")
    assert work.files("python3", "server.py", is_from_project=False) == before
    work.program(work.work / "tools/run")
    assert list(work.files("tools/run", is_from_project=False)) == [f"program tools/run ({work.work / 'tools/run'})"]


def test_link_is_identified_by_its_target(work: Work, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("1\n")
    (work.work / "link.py").symlink_to(outside)
    before = work.files("python3", "link.py")
    (work.work / "link.py").unlink()
    (work.work / "link.py").symlink_to(work.work / "server.py")
    assert work.files("python3", "link.py") != before
    inward = tmp_path / "inward.py"
    inward.symlink_to(work.work / "server.py")
    before = work.files("python3", str(inward))
    work.write("server.py", "evil\n")
    assert work.files("python3", str(inward)) != before


@pytest.mark.parametrize("line", ["#!{work}/tools/run", "#!./tools/run -x", "#!/usr/bin/env run"])
def test_interpreter_inside_the_workspace_is_part_of_the_identity(work: Work, line: str) -> None:
    run = work.program(work.work / "tools/run")
    work.program(work.work / "script", line.replace("{work}", str(work.work)) + "\n")
    env = {"PATH": f"{work.work / 'tools'}:{work.bin}"}
    before = work.files("./script", env=env)
    work.program(run, "evil")
    assert work.files("./script", env=env) != before


def test_scripts_that_name_each_other_are_read_once(work: Work) -> None:
    work.program(work.work / "a", "#!./b\n")
    work.program(work.work / "b", "#!./a\n")
    assert {"b"} <= set(work.files("./a"))


@pytest.mark.parametrize("name", ["NODE_OPTIONS", "BASH_ENV", "LD_PRELOAD", "PYTHONSTARTUP"])
def test_code_loaded_by_a_variable_is_part_of_the_identity(work: Work, name: str) -> None:
    env = {name: "--require ./tools/hook.js" if name == "NODE_OPTIONS" else "./tools/hook.js"}
    before = work.files("tool", env=env)
    work.write("tools/hook.js", "evil\n")
    assert work.files("tool", env=env) != before


def test_module_is_found_on_pythonpath(work: Work) -> None:
    before = work.files("python3", "-m", "later", env={"PYTHONPATH": "src"})
    work.write("src/later/more.py", "evil\n")
    assert work.files("python3", "-m", "later", env={"PYTHONPATH": "src"}) != before


def test_missing_program_and_huge_folder_are_reported(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    assert work.files("nothing") == {"program nothing": TrustedFile(NOT_FOUND, "")}
    monkeypatch.setattr("qcode.agent.mcp.identity.MAX_FILES", 1)
    assert work.files("node", "local")["local/"].hash == TOO_LARGE


@pytest.mark.parametrize(
    "argument", ["", "a\0b", "x" * 5_000, "/dev/zero", "/proc/self/mem", "loop", "pipe", "~", "//", "="]
)
def test_arguments_that_are_not_paths_are_ignored(work: Work, argument: str) -> None:
    (work.work / "loop").symlink_to("loop")
    os.mkfifo(work.work / "pipe")
    assert set(work.files("npx", argument)) == {f"program npx ({work.bin / 'npx'})"}


def test_database_is_data_unless_an_interpreter_runs_it(work: Work) -> None:
    database = work.work / "data.db"
    database.write_bytes(b"SQLite format 3\0")
    assert "data.db" not in work.files("tool", "--db", "data.db")
    assert "data.db" in work.files("tool", "data.db")


def test_http_server_has_no_program_identity(work: Work) -> None:
    assert files_of(McpServer(url="https://example.com/"), work.work, {}, (work.work,)) == {}
