"""Where on a machine things are that deserve more care than an ordinary file: tables by location. Pure.

Locations in the home follow the documentation of the programs that own them (OpenSSH, GnuPG, AWS CLI, Docker,
kubectl, npm, pip, GitHub CLI, Cargo, git) and the XDG base directory specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from qcode.safety.names import fold
from qcode.safety.verdict import Decision

_KERNEL = ("/proc", "/sys", "/dev")
_SYSTEM = (
    "/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/run", "/sbin", "/srv", "/usr",
    "/var", "/System", "/Library", "/Applications", "/Users", "/private/etc", "/private/var",
)  # fmt: skip
_SCRATCH = ("/var/tmp", "/var/folders", "/private/var/folders", "/private/var/tmp")  # noqa: S108  # compared, not used
_SECRET_SYSTEM = re.compile(
    r"/etc/(g?shadow-?|sudoers|sudoers\.d/.*|security/opasswd|ssh/.*_key|ssl/private/.*|krb5\.keytab)"
    r"|(/var)?/run/(docker|containerd/containerd|podman/podman)\.sock|/(var/)?run/secrets(/.*)?"
)
_HOMES = re.compile(r"/(home|Users)/[^/]+|/root|/var/root")

CREDENTIALS = (
    ".aws", ".azure", ".gnupg", ".docker", ".kube", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".boto",
    ".s3cfg", ".git-credentials", ".vault-token", ".password-store", ".mozilla", ".thunderbird", ".cargo/credentials",
    ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".terraform.d/credentials.tfrc.json",
    ".config/gh", ".config/hub", ".config/git/credentials", ".config/gcloud", ".config/rclone", ".config/op",
    ".config/google-chrome", ".config/chromium", ".config/pip/pip.conf", ".local/share/keyrings", ".claude.json",
    ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".qwen/oauth_creds.json",
    "library/keychains", "library/application support/google/chrome", ".viminfo", ".local/share/fish/fish_history",
)  # fmt: skip
"""Below the home, in small letters as `fold` writes them."""
_HISTORY = re.compile(r"\.[a-z0-9]+([_-][a-z0-9]+)*[_-]history|\.lesshst|\.history|\.wget-hsts")
_OPEN_SSH = re.compile(r"\.ssh(/(config(\.d(/.*)?)?|known_hosts.*|authorized_keys.*|rc|environment|[^/]*\.pub))?")
_STARTUP = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".xprofile",
    ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment", ".gitconfig", ".vimrc", ".emacs", ".emacs.d", ".vim",
    ".tmux.conf", ".screenrc", ".gdbinit", ".pythonrc", ".curlrc", ".wgetrc", ".config/git", ".config/fish",
    ".config/zsh", ".config/nvim", ".config/autostart", ".config/systemd", ".config/environment.d",
    ".config/plasma-workspace", ".local/bin", ".local/share/applications", ".local/share/systemd", "bin",
    ".cargo/bin", ".cargo/config.toml", "library/launchagents", "library/launchdaemons",
)  # fmt: skip
_OWN_SECRETS = re.compile(r".*/(credentials?|keys?|auth|trust|secrets?)([._-][^/]*)?(/.*)?")

Located = tuple[Decision, Decision, str, str]
"""Verdict for reading, verdict for writing, why, and the name of the rule."""


def is_history(name: str) -> bool:
    """Return whether a file of this name in the home is a history of what was typed."""
    return _HISTORY.fullmatch(fold(name)) is not None


def in_kernel(path: str) -> Located | None:
    """Return the verdict for devices and kernel interfaces, which hold even where a workspace leads there."""
    if any(is_within(path, folder) for folder in _KERNEL):
        return "deny", "deny", "a device or kernel interface", "path:kernel"
    return None


def in_home(below_home: str) -> Located | None:
    """Return the verdict for a protected place in the home, given its path below the home, else None."""
    name = "/".join(fold(part) for part in below_home.split("/"))
    if any(is_within(name, place) for place in CREDENTIALS):
        return "deny", "deny", "credentials in the home folder", "path:credentials"
    if _HISTORY.fullmatch(name):
        return "deny", "deny", "a history of what was typed", "path:history"
    if _OPEN_SSH.fullmatch(name):
        return "ask", "deny", "the configuration of ssh", "path:start-up"
    if is_within(name, ".ssh"):
        return "deny", "deny", "private keys in the home folder", "path:credentials"
    if any(is_within(name, place) for place in _STARTUP):
        return "ask", "deny", "it runs or is obeyed when you log in or start a program", "path:start-up"
    return None


def in_own(path: str, folders: Iterable[str]) -> Located | None:
    """Return the verdict for qcode's own files below `folders`, else None."""
    for folder in folders:
        if is_within(path, folder):
            if _OWN_SECRETS.fullmatch(path.removeprefix(folder).casefold()):
                return "deny", "deny", "keys or the trust store of qcode", "path:own"
            return "ask", "deny", "configuration or sessions of qcode", "path:own"
    return None


def outside(path: str, homes: tuple[str, ...]) -> Located:
    """Return the verdict for a place that is in no root."""
    if _SECRET_SYSTEM.fullmatch(path):
        return "deny", "deny", "secrets of the system", "path:credentials"
    other = _HOMES.match(path)
    is_ours = any(is_within(path, home) or is_within(home, path) for home in homes)
    if other is not None and not is_ours:
        return "deny", "deny", "the home of somebody else", "path:home"
    if path == "/" or (any(is_within(path, folder) for folder in _SYSTEM) and not is_ours and not _is_scratch(path)):
        return "ask", "deny", "a system folder", "path:system"
    return "ask", "ask", "outside the workspace", "path:outside"


def is_within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it, component by component."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_scratch(path: str) -> bool:
    return any(is_within(path, folder) for folder in _SCRATCH)
