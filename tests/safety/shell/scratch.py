"""A workspace with difficult files, and a home and an outside folder that programs must not touch."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from qcode.safety.git_repository import override_variables
from qcode.tools.processes import command_environment
from qcode.values import dataclass

PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin"

_LINES = "".join(f"line {number}\n" for number in range(1, 13))

_WORKSPACE: Mapping[str, str | bytes] = {
    "README.md": "# Title\n\nsome words, some words\n",
    "data.txt": _LINES,
    "other.txt": _LINES.replace("line 3\n", "line X\n"),
    "left.txt": "a 1\nb 2\nc 3\n",
    "right.txt": "a 4\nc 5\nd 6\n",
    "pairs.txt": "a b\nb c\n",
    "words.txt": "alpha\nbeta\ngamma\n",
    "data.csv": "name,count\nx,1\ny,2\n",
    "data.json": '{"a": [1, 2], "b": {"c": "x"}}\n',
    "more.json": '{"a": []}\n{"a": [3]}\n',
    "encoded": "bGluZSAxCg==",
    "encoded32": "NRUW4ZJAGE======",
    "binary.bin": bytes(range(256)) * 8,
    "empty.txt": "",
    "numbers.bc": "1 + 2\n",
    "with space.txt": "in a name with a space\n",
    "-": "a file called dash\n",
    "src/app.py": "import os\n\n\ndef main():\n    print('line')\n",
    "src/test_app.py": "from app import main\n",
    "src/deep/inner.py": "line = 1\n",
    "docs/guide.md": "a line of a guide\n",
    "build.log": "an ignored line\n",
    ".env": "TOKEN=line\n",
    ".ignore": "!.env\n",
    ".gitignore": "*.log\n",
    ".hidden/inside.txt": "a hidden line\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\tbare = false\n",
    ".git/info/exclude": "*.tmp\n",
    ".info": "docs\n\tan annotation\n",
}
_HOME: Mapping[str, str] = {
    ".ssh/id_rsa": "a private key, line 1\n",
    ".bashrc": "echo line\n",
    ".profile": "echo line\n",
    ".env": "SECRET=line\n",
    ".netrc": "machine line\n",
    ".ripgreprc": "--hidden\n",
    ".jq": 'def greet: "line";\n',
    ".magic": "0\tstring\tline\tlines of a test\n",
    ".gitconfig": "[core]\n\texcludesFile = ~/excluded\n",
    "excluded": "*.bak\n",
    ".config/git/ignore": "*.orig\n",
    ".config/git/config": "[core]\n",
    ".config/fd/ignore": "*.old\n",
    ".config/ripgrep/config": "--hidden\n",
    ".config/terminal-colors.d/hexdump.enable": "",
    ".config/tree": "",
    ".dircolors": "",
    ".digrc": "",
    ".awkrc": "",
    ".wgetrc": "",
    ".curlrc": "",
    ".vimrc": "",
    ".gdbinit": "",
    ".toprc": "",
    ".inputrc": "",
    ".popt": "",
}
_OUTSIDE: Mapping[str, str] = {
    "secret.txt": "an outside line\n",
    "folder/inner.txt": "an outside line below\n",
}
_LINKS: Mapping[str, str] = {
    "workspace/link_in": "data.txt",
    "workspace/link_out": "../outside/secret.txt",
    "workspace/folder_out": "../outside/folder",
    "workspace/src/link_key": "../../home/.ssh/id_rsa",
    "workspace/src/folder_out": "../../outside",
    "workspace/src/deep/up": "../..",
    "workspace/broken": "nowhere",
}


@dataclass(frozen=True, slots=True)
class Scratch:
    """The folders, and the environment that a command of qcode gets."""

    root: Path
    workspace: Path
    home: Path
    outside: Path
    env: Mapping[str, str]

    def holds(self, path: str) -> bool:
        """Return whether an absolute path is the root or below it."""
        return Path(path).is_relative_to(self.root)


def make_scratch(root: Path, more: Iterable[str] = ()) -> Scratch:
    """Build the folders in `root`, an absolute path without links; `more` are further files of the workspace."""
    workspace, home, outside = root / "workspace", root / "home", root / "outside"
    for folder, files in ((workspace, _WORKSPACE), (home, _HOME), (outside, _OUTSIDE)):
        for name, content in files.items():
            _write(folder / name, content)
    _write(outside / "bin/evil", f"#!/bin/sh\ntouch {root}/pwned\n")
    (outside / "bin/evil").chmod(0o755)
    for link, target in _LINKS.items():
        (root / link).symlink_to(target)
    for name in more:
        path = workspace / name
        if not path.exists() and not path.is_symlink():
            _write(path, _LINES)
    (root / "tmp").mkdir()
    given = {
        "HOME": str(home),
        "PATH": PROGRAM_PATH,
        "LANG": "C.UTF-8",
        "USER": "user",
        "TMPDIR": str(root / "tmp"),
        "RIPGREP_CONFIG_PATH": str(home / ".ripgreprc"),
        "SECRET_TOKEN": "line",
    }
    return Scratch(root, workspace, home, outside, {**command_environment(given), **override_variables()})


def is_installed(program: str) -> bool:
    return shutil.which(program, path=PROGRAM_PATH) is not None


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
