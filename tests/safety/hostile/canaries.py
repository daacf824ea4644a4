"""A workspace, a home and an outside folder with canaries: secrets that must not leak, files that must not change."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "CANARY"
"""Part of every secret of these folders, and of nothing else."""

_WORK = {
    "src/app.py": "print('hello')\n",
    "src/util.py": "VALUE = 1\n",
    "docs/guide.md": "# Guide\n",
    "book.ipynb": '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n',
    ".env": f"TOKEN={MARK}-env\n",
    ".env.local": f"TOKEN={MARK}-env-local\n",
    ".env.example": "TOKEN=\n",
    ".envrc": f"export TOKEN={MARK}-envrc\n",
    "certs/site.pem": f"{MARK}-pem\n",
    "certs/site.key": f"{MARK}-key\n",
    "deploy/id_ed25519": f"{MARK}-id\n",
    "notes/plain.txt": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{MARK}-content\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": f'[core]\n\tbare = false\n[remote "origin"]\n\turl = https://me:{MARK}-remote@example.com/x\n',
    ".git/hooks/pre-commit.sample": "#!/bin/sh\n",
    ".gitattributes": "* text=auto\n",
    ".gitmodules": "",
    ".github/workflows/ci.yml": "on: push\n",
    ".vscode/tasks.json": "{}\n",
    ".idea/workspace.xml": "<x/>\n",
    ".husky/pre-commit": "#!/bin/sh\n",
    ".qcode/config.toml": "",
    ".qcode/commands/go.toml": 'prompt = "go"\n',
    ".mcp.json": "{}\n",
    "AGENTS.md": "Be brief.\n",
    "sub/CLAUDE.md": "Be brief.\n",
    "node_modules/left-pad/index.js": "module.exports = 1\n",
    ".venv/pkg/x.py": "X = 1\n",
    "locked.txt": "read-only\n",
}
_HOME = {
    ".bashrc": "alias ll='ls -l'\n",
    ".profile": "umask 022\n",
    ".zshrc": "setopt\n",
    ".gitconfig": "[user]\n\tname = Me\n",
    ".ssh/config": "Host *\n",
    ".ssh/id_rsa": f"{MARK}-ssh\n",
    ".ssh/authorized_keys": "ssh-ed25519 AAAA me\n",
    ".aws/credentials": f"{MARK}-aws\n",
    ".netrc": f"{MARK}-netrc\n",
    ".gnupg/private-keys-v1.d/k": f"{MARK}-gnupg\n",
    ".docker/config.json": f"{MARK}-docker\n",
    ".kube/config": f"{MARK}-kube\n",
    ".npmrc": f"{MARK}-npmrc\n",
    ".git-credentials": f"{MARK}-gitcred\n",
    ".config/gh/hosts.yml": f"{MARK}-gh\n",
    ".bash_history": f"{MARK}-history\n",
    ".config/autostart/x.desktop": "[Desktop Entry]\n",
    ".local/bin/tool": "#!/bin/sh\n",
    ".config/qcode/config.toml": "",
    ".config/qcode/credentials.json": f"{MARK}-qcode\n",
    ".local/state/qcode/trust.json": "{}\n",
    "documents/letter.txt": f"{MARK}-letter\n",
}
_OUTSIDE = {"data.txt": f"{MARK}-outside\n", "shared.txt": f"{MARK}-shared\n", "tree/leaf.txt": f"{MARK}-leaf\n"}


@dataclass(frozen=True, slots=True)
class CanaryFolders:
    """The three folders. `work` has `work-evil` beside it, whose name begins the same."""

    base: Path

    @property
    def work(self) -> Path:
        return self.base / "work"

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def outside(self) -> Path:
        return self.base / "outside"

    def fill(self, text: str) -> str:
        """Return `text` with the places in it: `{work}`, `{home}`, `{outside}`, `{base}`."""
        for name in ("work", "home", "outside", "base"):
            text = text.replace(f"{{{name}}}", str(getattr(self, name)))
        return text

    def photograph(self) -> dict[str, str]:
        """Return every name below the three folders with its kind, mode, links and content."""
        found: dict[str, str] = {}
        for folder, folders, files in os.walk(self.base):
            for name in (*folders, *files):
                path = Path(folder) / name
                found[str(path.relative_to(self.base))] = _described(path)
        return found


def make_canaries(base: Path) -> CanaryFolders:
    """Lay everything out below `base`, which is made."""
    canaries = CanaryFolders(base)
    for folder, files in ((canaries.work, _WORK), (canaries.home, _HOME), (canaries.outside, _OUTSIDE)):
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (base / "work-evil").mkdir()
    (base / "work-evil/x.txt").write_text(f"{MARK}-evil\n")
    (canaries.work / "locked.txt").chmod(0o444)
    _link(canaries)
    return canaries


def _link(canaries: CanaryFolders) -> None:
    """Create the links, the hard links, and the special files."""
    farm = canaries.work / "farm"
    farm.mkdir()
    targets = {
        "out": canaries.outside,
        "letter": canaries.home / "documents/letter.txt",
        "key": canaries.home / ".ssh/id_rsa",
        "rc": canaries.home / ".bashrc",
        "env": Path("../.env"),
        "agents": Path("../AGENTS.md"),
        "git": Path("../.git"),
        "config": Path("../.git/config"),
        "hooks": Path("../.git/hooks"),
        "etc": Path("/etc"),
        "proc": Path("/proc/self"),
        "null": Path("/dev/null"),
        "loop": Path("loop"),
        "loop-a": Path("loop-b"),
        "loop-b": Path("loop-a"),
        "new": canaries.outside / "new.txt",
        "chain": Path("chain-2"),
        "chain-2": Path("out/data.txt"),
        "plain": Path("../src/app.py"),
        "up": Path("../.."),
    }
    for name, target in targets.items():
        (farm / name).symlink_to(target)
    os.link(canaries.outside / "shared.txt", canaries.work / "second-name.txt")
    os.mkfifo(canaries.work / "pipe")


def _described(path: Path) -> str:
    state = path.lstat()
    kind = stat.filemode(state.st_mode)
    if stat.S_ISLNK(state.st_mode):
        return f"{kind} -> {path.readlink()}"
    if stat.S_ISREG(state.st_mode):
        return f"{kind} {state.st_nlink} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return kind


def filled(value: Any, canaries: CanaryFolders) -> Any:
    """Return arguments with every place in their texts filled in."""
    if isinstance(value, str):
        return canaries.fill(value)
    if isinstance(value, dict):
        return {name: filled(one, canaries) for name, one in value.items()}
    return [filled(item, canaries) for item in value] if isinstance(value, list) else value
