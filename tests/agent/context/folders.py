"""Projects on disk for the tests of the system prompt."""

from __future__ import annotations

import subprocess
from pathlib import Path

HOME_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def git(root: Path, *arguments: str) -> None:
    """Run git as a user would, with a separate configuration."""
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    env = {**HOME_ENV, "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(("git", "-C", str(root), *identity, *arguments), check=True, capture_output=True, env=env)


def make_repository(root: Path) -> Path:
    """Make a repository with one commit on `main` and nothing changed since."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-b", "main")
    write(root / "a.txt", "one\n")
    git(root, "add", "a.txt")
    git(root, "commit", "-m", "first")
    return root


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def make_executable(path: Path, script: str) -> Path:
    write(path, f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
