"""Runs commands in a real sandbox, in a workspace and a home made for the test."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from qcode.agent.sandbox import SessionSandbox
from qcode.protocol.tools import Launch
from qcode.safety.paths import SandboxScope
from qcode.safety.sandbox.detection import Kind, Sandbox, candidates, is_effective
from qcode.safety.verdict import Level
from qcode.tools.processes import run_program

KINDS: tuple[Kind, ...] = ("bubblewrap", "landlock")


def working_sandboxes() -> dict[str, Sandbox]:
    """Return every sandbox that works here, by a name: root can use bubblewrap in several ways."""
    found = {}
    for kind in KINDS:
        for sandbox in candidates(kind):
            variant = sandbox.variant
            words: list[str] = [kind]
            if kind == "bubblewrap" and variant.is_root:
                words.append(
                    "prepared" if variant.mounts_in_thread else "namespace" if variant.has_user_namespace else "plain"
                )
            found["-".join(words)] = sandbox
    return found


WORKING = {name: sandbox for name, sandbox in working_sandboxes().items() if is_effective(sandbox)}
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass
class Done:
    code: int
    text: str


class Box:
    """A repository as workspace, a home with secrets, a private folder, and the sandbox of one kind around them."""

    def __init__(self, sandbox: Sandbox, base: Path, search_path: str = SEARCH_PATH) -> None:
        base = Path(os.path.realpath(base))
        self.kind = sandbox.kind
        self.mounts_in_thread = sandbox.variant.mounts_in_thread
        self.work, self.home, self.scratch = base / "home/work", base / "home", base / "scratch"
        self.outside = base / "outside"
        for folder in (self.work / "src", self.home / ".ssh", self.home / ".config/git", self.scratch, self.outside):
            folder.mkdir(parents=True)
        (self.work / "file.txt").write_text("seen\n")
        (self.work / ".env").write_text("CANARY-env\n")
        (self.home / ".ssh/id_ed25519").write_text("CANARY-key\n")
        (self.home / ".netrc").write_text("CANARY-netrc\n")
        (self.home / ".bashrc").write_text("# mine\n")
        (self.home / "notes.txt").write_text("CANARY-notes\n")
        git("init", "-q", cwd=self.work)
        self.search_path = search_path
        self.session = SessionSandbox("auto", self.scope, lambda: sandbox)

    @property
    def scope(self) -> SandboxScope:
        own = (self.home / ".local/state/qcode",)
        return SandboxScope(self.work, (), self.scratch, self.home, own, self.search_path)

    @property
    def levels(self) -> tuple[Level, ...]:
        return self.session.levels()

    def launch(self, level: Level, command: str | Sequence[str]) -> Launch:
        if level not in self.levels:
            pytest.skip(f"{self.kind} does not give the level {level}")
        argv = ["/bin/bash", "--noprofile", "--norc", "-c", command] if isinstance(command, str) else list(command)
        return self.session.launch(level, argv)

    def run(self, level: Level, command: str | Sequence[str], env: Mapping[str, str] | None = None) -> Done:
        """Run a command as the tools do; `text` is its output and errors."""
        return run_launch(self.launch(level, command), self.work, {**self.environment, **(env or {})})

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": self.search_path, "HOME": str(self.home)}

    def python(self, level: Level, program: str, *arguments: str) -> Done:
        """Run a Python program with the interpreter of the system."""
        found = shutil.which("python3", path=SEARCH_PATH)
        if found is None:
            pytest.skip("the system has no python3")
        return self.run(level, [found, "-I", "-S", "-c", program, *arguments])


def run_launch(launch: Launch, cwd: Path, environment: Mapping[str, str]) -> Done:
    output = bytearray()

    async def run() -> int:
        ended = await run_program(launch, cwd=cwd, environment=environment, on_output=output.extend, timeout_s=60)
        return ended.exit_code

    return Done(asyncio.run(run()), output.decode(errors="replace"))


def git(*arguments: str, cwd: Path) -> str:
    env = {"PATH": SEARCH_PATH, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *arguments], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout
