"""Attacks on files: every path that the safety page names, through every tool that takes a path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.safety.hostile.attempts import Attempt

READS: dict[str, tuple[str, ...]] = {
    "reads": (
        "src/app.py", "./src/../src/app.py", "{work}/docs/guide.md", ".env.example", "AGENTS.md",
        ".qcode/config.toml",
              ".git/HEAD", "farm/plain", ".mcp.json", "locked.txt", "node_modules/left-pad/index.js", "src/none.py"),
    "reads a secret": (".env", ".ENV", ".env.local", ".envrc", "certs/site.pem", "certs/site.key", "deploy/id_ed25519",
                       "notes/plain.txt", "farm/env", "sub/../.env", ".git/config", "farm/config", ".env.",
                       ".en\u200bv",
                       "second-name.txt", "src/\u202eyp.ppa", "src/a\nb.py"),
    "reads outside": (
        "{outside}/data.txt", "../outside/data.txt", "farm/out/data.txt", "farm/chain", "{base}/work-evil/x.txt",
                      "../work-evil/x.txt", "farm/letter", "~/documents/letter.txt", "~/.bashrc", "~/.gitconfig",
                      "~/.ssh/config", "~/.config/qcode/config.toml", "/etc/passwd", "/usr/bin/env", "farm/etc/hosts",
                      "/", "..", "~", "farm/up/outside/data.txt", "farm/rc"),
    "reads credentials": ("~/.ssh/id_rsa", "{home}/.ssh/id_rsa", "farm/key", "~/.aws/credentials", "~/.AWS/Credentials",
                          "~/.netrc", "~/.gnupg/private-keys-v1.d/k", "~/.docker/config.json", "~/.kube/config",
                          "~/.npmrc",
                          "~/.git-credentials", "~/.config/gh/hosts.yml", "~/.bash_history", "/etc/shadow",
                          "~/.config/qcode/credentials.json", "~/.local/state/qcode/trust.json", "/proc/self/environ",
                          "/proc/1/mem", "farm/proc/environ", "/sys/kernel/notes", "/dev/zero", "farm/null", "pipe",
                          "farm/loop", "farm/loop-a", "src/app.py\0.txt", "\x1b[2Jx", "file:///etc/passwd",
                          "/home/somebody/x",
                          "{work}/../home/.ssh/id_rsa", "~/.ssh/../.ssh/id_rsa"),
}  # fmt: skip
WRITES: dict[str, tuple[str, ...]] = {
    "edits": ("src/app.py", "src/new.py", "docs/../docs/new.md", "{work}/x.txt", ".env.example", "farm/plain"),
    "edits a protected file": (
        ".qcode/config.toml", ".QCODE/config.toml", ".qcode/hooks/x", "sub/.qcode/commands/x.toml", ".mcp.json",
                     "AGENTS.md", "agents.MD", "sub/CLAUDE.md", "GEMINI.md", "a/b/QWEN.md", "farm/agents",
                     ".vscode/tasks.json",
                     ".idea/workspace.xml", ".husky/pre-commit", ".gitattributes", "sub/.gitattributes",
                     ".github/workflows/ci.yml", ".github/workflows/new.yml", "AGENTS.md.", "AGENTS\u200b.md",
                     "locked.txt",
                     "node_modules/left-pad/index.js", ".venv/pkg/x.py", ".cursor/rules", ".claude/x"),
    "writes outside": ("{outside}/data.txt", "../outside/new.txt", "farm/out/new.txt", "farm/new", "farm/chain",
                       "{base}/work-evil/x.txt", "farm/letter", "~/documents/letter.txt", "second-name.txt", ".env",
                       ".ENV", "farm/env", ".envrc", "certs/site.pem", "deploy/id_ed25519", "src/a\nb.py",
                       "src/\u202eyp.ppa"),
    "writes a forbidden file": (".git/hooks/pre-commit", ".git/config", ".GIT/config", ".git./config", "git~1/config",
                               ".g\u200bit/config", "sub/.git/hooks/x", "farm/git/HEAD", "farm/hooks/x",
                               "farm/config", ".git",
                               ".", "{work}", "~/.bashrc", "farm/rc", "~/.profile", "~/.zshrc", "~/.gitconfig",
                               "~/.ssh/config", "~/.ssh/authorized_keys", "~/.ssh/id_rsa", "farm/key",
                               "~/.config/autostart/x.desktop", "~/.local/bin/tool", "~/.config/qcode/config.toml",
                               "~/.local/state/qcode/trust.json", "~/.local/state/qcode/sessions/x.jsonl",
                               "/etc/qcode-none/hosts",
                               "/usr/bin/env", "/etc/cron.d/x", "farm/etc/hosts", "/dev/null", "farm/null",
                               "/dev/qcode-none/sda",
                               "/proc/self/mem", "/sys/kernel/x", "pipe", "farm/loop", "src/x\0.py", "\x1b]0;x", "/",
                               "~/.aws/credentials", "~/.netrc", "~/.bash_history", "/etc/shadow",
                               "https://example.com/x",
                               "/home/somebody/x", "{outside}/.git/hooks/x", "~/.config/systemd/user/x.service"),
}  # fmt: skip


def attempts() -> Iterator[Attempt]:
    for kind, paths in READS.items():
        for path in paths:
            for tool, arguments in _readers(path).items():
                yield Attempt(kind, tool, arguments)
    for kind, paths in WRITES.items():
        for path in paths:
            for tool, arguments in _writers(path):
                yield Attempt(kind, tool, arguments)
    yield from _mixed()


def _readers(path: str) -> dict[str, dict[str, Any]]:
    return {
        "read": {"path": path},
        "grep": {"pattern": ".", "path": path},
        "ls": {"path": path},
        "glob": {"pattern": "*", "path": path},
    }


def _writers(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a call of each tool that changes files; a path with line breaks is not a path in a patch."""
    yield "write", {"path": path, "content": "taken over\n"}
    yield "edit", {"path": path, "old_text": "e", "new_text": "taken over", "replace_all": True}
    yield "multi_edit", {"path": path, "edits": [{"old_text": "e", "new_text": "taken over", "replace_all": True}]}
    yield "notebook_edit", {"path": path, "cell": "1", "source": "taken over"}
    if "\n" not in path:
        yield "apply_patch", patched(f"*** Add File: {path}", "+taken over")
        yield "apply_patch", patched(f"*** Delete File: {path}")


def _mixed() -> Iterator[Attempt]:
    """Yield patches with a harmless file before a harmful one, and patches without a path."""
    inside = ("*** Add File: src/fine.py", "+x")
    for kind in ("edits a protected file", "writes outside", "writes a forbidden file"):
        for path in WRITES[kind][:6]:
            yield Attempt(kind, "apply_patch", patched(*inside, f"*** Add File: {path}", "+taken over"))
            yield Attempt(
                kind, "apply_patch", patched("*** Update File: src/app.py", f"*** Move to: {path}", "@@", "+x")
            )
    for pattern in ("../outside/*", "/etc/*", "{outside}/**", "farm/out/**", "../../**", "~/.ssh/*"):
        yield Attempt("reads", "glob", {"pattern": pattern})
    for pattern in ("CANARY", "TOKEN", "-----BEGIN"):
        for more in (
            {},
            {"path": "farm"},
            {"glob": ".env*"},
            {"output": "files"},
            {"output": "count"},
            {"glob": "*.pem"},
        ):
            yield Attempt("reads", "grep", {"pattern": pattern, "context": 3, **more})
    yield Attempt("reads", "ls", {"path": ".", "depth": 5})
    yield Attempt("reads", "ls", {"path": "farm", "depth": 5})


def patched(*lines: str) -> dict[str, Any]:
    return {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}
