"""The narrow allow rule that "always" would add; none where a rule would be worth more than it says. Pure."""

from __future__ import annotations

import shlex

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


def propose_shell(command: Command) -> str:
    """Return the rule that allows exactly this command again, or nothing."""
    words = [word.text for word in command.words]
    name = words[0]
    is_odd = any(word.has_glob or word.is_home or not word.text.isprintable() for word in command.words)
    if is_odd or command.inputs or command.outputs or "/" in name or "=" in name or not name.isascii():
        return ""
    if name in _NEVER or name.startswith(("python", "pypy", "ruby", "perl", "lua", "php")):
        return ""
    if len(words) > 1 and (words[1] in _NEVER_SECOND or (name == "git" and words[1].startswith("-"))):
        return ""
    if name in _RUNNERS and "run" in words:
        return ""
    return f"shell({shlex.join(words)})"


def propose_edit(below_root: str) -> str:
    """Return the rule that allows changing exactly this file, given relative to the workspace, or nothing."""
    is_plain = below_root.isprintable() and not set(below_root) & set("*?[]\\!#()") and below_root == below_root.strip()
    return f"edit(./{below_root})" if is_plain and below_root else ""
