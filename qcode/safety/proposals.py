"""The narrow allow rule that "always" would add, and which rules a person may add with a few keys. Pure.

Neither is ever worth more than it says: nothing is allowed that runs whatever it is given, or that is not named.
"""

from __future__ import annotations

import shlex

from qcode.safety.rules import Rule
from qcode.safety.shell.forms import Command

_NEVER = frozenset(
    {
        # interpreters
        "bash", "sh", "dash", "zsh", "fish", "ksh", "csh", "tcsh", "busybox", "node", "deno", "bun", "ruby", "irb",
        "perl", "php", "lua", "luajit", "osascript", "pwsh", "awk", "gawk", "mawk", "sed", "ed", "vi", "vim", "nvim",
        "emacs", "sqlite3", "psql", "mysql", "gdb", "jshell", "java", "ghci", "erl", "iex", "R", "Rscript", "julia",
        # wrappers, and what changes what later commands mean
        "sudo", "su", "doas", "pkexec", "env", "xargs", "parallel", "timeout", "nice", "ionice", "nohup", "setsid",
        "stdbuf", "time", "watch", "strace", "ltrace", "script", "unshare", "nsenter", "chroot", "flock", "find", "fd",
        "eval", "exec", "source", ".", "command", "builtin", "trap", "alias", "export", "declare", "set", "cd", "if",
        "for", "while", "case", "until", "function", "select", "coproc", "!", "{", "[[",
        # package runners
        "npx", "pnpx", "bunx", "uvx", "pipx", "pip", "pip3", "conda", "gem", "brew", "apt", "apt-get", "dnf", "yum",
        # what destroys
        "rm", "rmdir", "unlink", "shred", "dd", "mkfs", "truncate", "chmod", "chown", "chgrp", "kill", "killall",
        "pkill", "shutdown", "reboot", "systemctl", "crontab", "mount", "umount",
        # network
        "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "dig",
        "nslookup", "ping", "gh", "glab", "aws", "gcloud", "az", "kubectl", "docker", "podman", "helm", "terraform",
        "ansible",
    }
)  # fmt: skip
_NEVER_SECOND = frozenset(
    {
        "exec", "x", "dlx", "install", "i", "add", "ci", "publish", "create", "init", "download", "fetch", "pull",
        "push", "clone", "remote", "submodule", "ls-remote", "config", "bisect", "filter-branch", "rebase",
    }
)  # fmt: skip
_RUNNERS = frozenset({"uv", "poetry", "pipenv", "hatch", "pdm", "rye", "pixi"})
_MANY_IN_ONE = frozenset({"git", "npm", "pnpm", "yarn", "cargo", "go", "dotnet", "mvn", "gradle", "composer", "bundle"})


def propose_shell(command: Command) -> str:
    """Return the rule that allows exactly this command again, or nothing."""
    words = [word.text for word in command.words]
    name = words[0]
    if _why_never(words):
        return ""
    is_odd = any(word.has_glob or word.is_home or not word.text.isprintable() for word in command.words)
    if is_odd or command.inputs or command.outputs or "/" in name or "=" in name or not name.isascii():
        return ""
    return f"shell({shlex.join(words)})"


def why_not_allow(rule: Rule) -> str:
    """Return why an allow rule is refused where a person adds it in passing; empty where it may be added.

    A configuration file may hold such rules: somebody wrote them there on purpose.
    """
    if rule.kind == "read":
        return "no rule is needed to read in the workspace, and none opens what lies outside or holds secrets"
    if not rule.body and rule.kind in ("shell", "fetch", "mcp"):
        return f"{rule.text} alone covers whatever there is; name what you mean, or write it into your config.toml"
    if rule.kind == "fetch" and rule.body.startswith("*."):
        return "an address is allowed by its exact host; a wider rule belongs into your config.toml"
    if rule.kind != "shell":
        return ""
    words = [word.text for word in rule.words]
    why = _why_never(words)
    if why or len(words) < 2 or not rule.words[1].has_glob:
        return why
    if words[0] in _MANY_IN_ONE or words[0] in _RUNNERS:
        return f"it would cover every command of {words[0]}, those that run programs or reach the network too"
    return ""


def _why_never(words: list[str]) -> str:
    """Return why no rule is offered for a command of these words, empty where one may be."""
    name = words[0].rsplit("/", 1)[-1]
    if name in _NEVER or name.startswith(("python", "pypy", "ruby", "perl", "lua", "php")):
        return f"{name} runs, destroys or reaches whatever it is given, so each use of it is asked about"
    if len(words) > 1 and words[1] in _NEVER_SECOND:
        return f"{name} {words[1]} runs or reaches more than the rule would say, so each use of it is asked about"
    if len(words) > 1 and name == "git" and words[1].startswith("-"):
        return "an option of git before its command can make it run anything"
    if name in _RUNNERS and "run" in words:
        return f"{name} run starts whatever it is given, so each use of it is asked about"
    return ""


def propose_edit(below_root: str) -> str:
    """Return the rule that allows changing exactly this file, given relative to the workspace, or nothing."""
    is_plain = below_root.isprintable() and not set(below_root) & set("*?[]\\!#()") and below_root == below_root.strip()
    return f"edit(./{below_root})" if is_plain and below_root else ""
