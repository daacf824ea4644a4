"""Tables of protected files, by name (`is_secret`, `is_control_path`) and by location (`judge_home_path`). Pure.

Names are compared in NFC, casefolded, without invisible characters and without trailing dots and blanks (`fold`): some
file systems treat such names as equal. Sources of the locations are the XDG base directory specification and the
documentation of the programs: OpenSSH, GnuPG, AWS CLI, Docker, kubectl, npm, pip, GitHub CLI, Cargo and git. Nothing
here reads the disk; `paths` does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from qcode.safety.verdict import Decision
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_INVISIBLE_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")

# The short name that FAT and NTFS give `.git`: `GIT~1`.
_SHORT_GIT = lazy_pattern(r"git~\d+")
_SECRET = lazy_pattern(
    r"\.env([._~-].*)?|\.envrc(\..*)?"
    r"|.*\.(pem|key|p12|pfx|ppk|jks|keystore|kdbx|asc\.key)"
    r"|\.(netrc|pgpass|pypirc|htpasswd|git-credentials|s3cfg|boto)|credentials\.json"
)
_SSH_KEY = lazy_pattern(r"id_(rsa|dsa|ecdsa|ed25519|xmss)(_sk)?([._-].*)?")
_KEY = lazy_pattern(r"id_[^.]*")
_TEMPLATE = lazy_pattern(r"\.env[._-](.*[._-])?(example|sample|template|dist|defaults?)|.*\.pub")
_INSTRUCTION_FILES = frozenset(
    {
        "agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "qwen.md",
        "copilot-instructions.md", ".cursorrules", ".windsurfrules", ".clinerules",
    }
)  # fmt: skip
_CONTROL_FILES = _INSTRUCTION_FILES | {
    ".mcp.json", "opencode.json", "opencode.jsonc", ".aider.conf.yml", ".gitattributes", ".gitmodules",
    ".gitlab-ci.yml", ".pre-commit-config.yaml", ".npmrc", ".yarnrc", ".yarnrc.yml", "jenkinsfile",
}  # fmt: skip
_CONTROL_FOLDERS = frozenset(
    {
        ".qcode", ".vscode", ".idea", ".husky", ".claude", ".cursor", ".gemini", ".qwen", ".codex", ".windsurf",
        ".devcontainer", ".circleci", ".opencode", ".zed", ".fleet", ".clinerules", ".agents", ".vibe", ".kimi",
    }
)  # fmt: skip
_CONTROL_PAIRS = frozenset({(".github", "workflows"), (".github", "actions")})
_DEPENDENCY_FOLDERS = frozenset({"node_modules", "site-packages", "dist-packages", ".venv", "venv", "bower_components"})


@lru_cache(maxsize=2_048)
def fold(name: str) -> str:
    """Return one component of a path in the form that is used for comparison."""
    if name.isascii():
        return name.casefold().rstrip(". ")
    visible = "".join(char for char in unicodedata.normalize("NFC", name) if not is_invisible(char))
    return visible.casefold().rstrip(". ")


def has_unclear_characters(path: str) -> bool:
    """Return whether `path` contains control, bidi, invisible or undecodable characters, such as line breaks."""
    if path.isascii():
        return not path.isprintable()
    return any(is_invisible(char) or unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in path)


@lru_cache(maxsize=2_048)
def is_git_look_alike(part: str) -> bool:
    """Return whether a file system may open `.git` for `part`, although the name differs in more than case."""
    return part.casefold() != ".git" and (fold(part) == ".git" or _SHORT_GIT.fullmatch(fold(part)) is not None)


def is_secret(part: str) -> bool:
    """Return whether files of this name contain secrets by convention; templates and public keys do not."""
    name = fold(part)
    return _SECRET.fullmatch(name) is not None and _TEMPLATE.fullmatch(name) is None


def is_ssh_key(part: str) -> bool:
    """Return whether ssh-keygen gives this name to a private key."""
    name = fold(part)
    return _SSH_KEY.fullmatch(name) is not None and _TEMPLATE.fullmatch(name) is None


def is_key(part: str) -> bool:
    """Return whether an existing file of this name is a private key by the convention of ssh (`id_*`)."""
    return is_ssh_key(part) or _KEY.fullmatch(fold(part)) is not None


def is_control_path(parts: tuple[str, ...]) -> bool:
    """Return whether a path below a root is a file that is executed later, or that instructs a program."""
    names = tuple(fold(part) for part in parts)
    if any(pair in _CONTROL_PAIRS for pair in pairwise(names)):
        return True
    return bool(names) and (names[-1] in _CONTROL_FILES or any(name in _CONTROL_FOLDERS for name in names))


def control_path_reason(parts: tuple[str, ...]) -> str:
    """Return why writing a file that `is_control_path` needs approval."""
    if fold(parts[-1]) in _INSTRUCTION_FILES:
        return "later sessions follow the instructions in this file"
    return "this file decides what other programs run"


def is_dependency_folder(part: str) -> bool:
    """Return whether `part` names a folder of installed packages."""
    return fold(part) in _DEPENDENCY_FOLDERS


def is_invisible(char: str) -> bool:
    """Return whether a character is drawn as nothing, changes the direction of the text or has no fixed meaning."""
    return char in _BIDI or char in _INVISIBLE_LETTERS or unicodedata.category(char) in ("Cf", "Cn", "Co")


PROTECTED_CHECKS = frozenset({"path:git", "path:credentials", "path:start-up", "path:own", "path:history"})
"""The checks whose denials hold in every mode, for commands too."""

KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
"""File systems of the kernel, which contain no files of the user."""
_SYSTEM = (
    "/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/run", "/sbin", "/srv", "/usr",
    "/var", "/System", "/Library", "/Applications", "/Users", "/private/etc", "/private/var",
)  # fmt: skip
_SCRATCH = ("/var/tmp", "/var/folders", "/private/var/folders", "/private/var/tmp")  # noqa: S108  # compared, not used
_SECRET_SYSTEM = lazy_pattern(
    r"/etc/(g?shadow-?|sudoers|sudoers\.d/.*|security/opasswd|ssh/.*_key|ssl/private/.*|krb5\.keytab)"
    r"|(/var)?/run/(docker|containerd/containerd|podman/podman)\.sock|/(var/)?run/secrets(/.*)?"
)
_HOMES = lazy_pattern(r"/(home|Users)/[^/]+|/root|/var/root")

CREDENTIALS = (
    ".aws", ".azure", ".gnupg", ".docker", ".kube", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".boto",
    ".s3cfg", ".git-credentials", ".vault-token", ".password-store", ".mozilla", ".thunderbird", ".cargo/credentials",
    ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".terraform.d/credentials.tfrc.json",
    ".config/gh", ".config/hub", ".config/git/credentials", ".config/gcloud", ".config/rclone", ".config/op",
    ".config/google-chrome", ".config/chromium", ".config/pip/pip.conf", ".local/share/keyrings", ".claude.json",
    ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".qwen/oauth_creds.json",
    "library/keychains", "library/application support/google/chrome", ".viminfo", ".local/share/fish/fish_history",
)  # fmt: skip
"""Paths relative to the home folder, in lower case like the result of `fold`."""
_SLASH = lazy_pattern("/")
_HISTORY = lazy_pattern(r"\.[a-z0-9]+([_-][a-z0-9]+)*[_-]history|\.lesshst|\.history|\.wget-hsts")
_OPEN_SSH = lazy_pattern(r"\.ssh(/(config(\.d(/.*)?)?|known_hosts.*|authorized_keys.*|rc|environment|[^/]*\.pub))?")
STARTUP = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".xprofile",
    ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment", ".gitconfig", ".vimrc", ".emacs", ".emacs.d", ".vim",
    ".tmux.conf", ".screenrc", ".gdbinit", ".pythonrc", ".curlrc", ".wgetrc", ".config/git", ".config/fish",
    ".config/zsh", ".config/nvim", ".config/autostart", ".config/systemd", ".config/environment.d",
    ".config/plasma-workspace", ".local/bin", ".local/share/applications", ".local/share/systemd", "bin",
    ".cargo/bin", ".cargo/config.toml", "library/launchagents", "library/launchdaemons",
)  # fmt: skip
_QCODE_SECRETS = lazy_pattern(r".*/(credentials?|keys?|auth|trust|secrets?)([._-][^/]*)?(/.*)?")


@dataclass(frozen=True, slots=True)
class LocationVerdict:
    """The verdict on a location, whatever the name of the file."""

    read: Decision
    write: Decision
    reason: str
    check: str
    """As in `Verdict`."""


_NAMED_LAST = "|".join(re.escape(entry.rpartition("/")[2]) for entry in (*CREDENTIALS, *STARTUP))
_SPECIAL_NAME = f"{_SECRET.pattern}|{_KEY.pattern}|{_SSH_KEY.pattern}|config|config\\.worktree|{_NAMED_LAST}"
_ORDINARY_NAME = lazy_pattern(rf"(?!(?:{_SPECIAL_NAME})\Z)[a-z0-9_][a-z0-9_.-]*+(?<!\.)", re.ASCII | re.IGNORECASE)


@lru_cache(maxsize=4_096)
def is_ordinary_name(name: str) -> bool:
    """Return whether `name` is plain ASCII and does not match a table in this module.

    All functions here return the same verdicts for two ordinary names in one folder. Exceptions are the names of roots,
    of the home folder and of the folders of qcode.
    """
    return _ORDINARY_NAME.fullmatch(name) is not None


def is_history(name: str) -> bool:
    """Return whether a file of this name in the home is a history of typed commands."""
    return _HISTORY.fullmatch(fold(name)) is not None


def is_system_secret(path: str) -> bool:
    """Return whether this absolute path is a secret of the system."""
    return _SECRET_SYSTEM.fullmatch(path) is not None


def judge_kernel_path(path: str) -> LocationVerdict | None:
    """Return the verdict for devices and kernel interfaces, even inside a workspace; None for other paths."""
    if any(is_within(path, folder) for folder in KERNEL_FOLDERS):
        return LocationVerdict("deny", "deny", "it is a device or an interface of the kernel", "path:kernel")
    return None


def judge_home_path(below_home: str) -> LocationVerdict | None:
    """Return the verdict for a protected path, which is relative to the home folder; None for other paths."""
    name = "/".join(fold(part) for part in below_home.split("/"))
    ancestors = {name, *(name[: slash.start()] for slash in _SLASH.finditer(name))}
    if not ancestors.isdisjoint(CREDENTIALS):
        return LocationVerdict("deny", "deny", "it holds credentials", "path:credentials")
    if _HISTORY.fullmatch(name):
        return LocationVerdict("deny", "deny", "it is a history of typed commands", "path:history")
    if _OPEN_SSH.fullmatch(name):
        return LocationVerdict("ask", "deny", "it is the configuration of ssh", "path:start-up")
    if is_within(name, ".ssh"):
        return LocationVerdict("deny", "deny", "it holds private keys", "path:credentials")
    if not ancestors.isdisjoint(STARTUP):
        return LocationVerdict("ask", "deny", "it takes effect when you log in or start a program", "path:start-up")
    return None


def judge_qcode_path(path: str, folders: Iterable[str]) -> LocationVerdict | None:
    """Return the verdict for qcode's own files below `folders`, None for other paths."""
    for folder in folders:
        if is_within(path, folder):
            if _QCODE_SECRETS.fullmatch(path.removeprefix(folder).casefold()):
                return LocationVerdict("deny", "deny", "it holds keys or trust decisions of qcode", "path:own")
            return LocationVerdict("ask", "deny", "it belongs to the configuration or sessions of qcode", "path:own")
    return None


def judge_outside_path(path: str, homes: tuple[str, ...]) -> LocationVerdict:
    """Return the verdict for a path outside every root."""
    if _SECRET_SYSTEM.fullmatch(path):
        return LocationVerdict("deny", "deny", "it holds secrets of the system", "path:credentials")
    home_folder = _HOMES.match(path)
    is_own = any(is_within(path, home) or is_within(home, path) for home in homes)
    if home_folder is not None and not is_own:
        return LocationVerdict("deny", "deny", "it is in another user's home folder", "path:home")
    if path == "/" or (any(is_within(path, folder) for folder in _SYSTEM) and not is_own and not _is_scratch(path)):
        return LocationVerdict("ask", "deny", "it is in a system folder", "path:system")
    return LocationVerdict("ask", "ask", "it is outside the workspace", "path:outside")


def is_within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it, component by component."""
    if not path.startswith(folder):
        return False
    return len(path) == len(folder) or folder.endswith("/") or path[len(folder)] == "/"


def is_within_any(path: str, folders: Iterable[str]) -> bool:
    """Return whether `path` is one of `folders` or below one."""
    return any(is_within(path, folder) for folder in folders)


def _is_scratch(path: str) -> bool:
    return any(is_within(path, folder) for folder in _SCRATCH)
