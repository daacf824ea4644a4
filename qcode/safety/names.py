"""Which file names are protected: tables, and the folding that makes look-alikes equal. Pure: knows no disk.

Names are compared in NFC, casefolded, without invisible characters and without trailing dots and blanks, because a
file system that folds them would open the protected file.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_INVISIBLE_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")

_SHORT_GIT = re.compile(r"git~\d+")
_SECRET = re.compile(
    r"\.env([._~-].*)?|\.envrc(\..*)?"
    r"|.*\.(pem|key|p12|pfx|ppk|jks|keystore|kdbx|asc\.key)"
    r"|\.(netrc|pgpass|pypirc|htpasswd|git-credentials|s3cfg|boto)|credentials\.json"
)
_SSH_KEY = re.compile(r"id_(rsa|dsa|ecdsa|ed25519|xmss)(_sk)?([._-].*)?")
_KEY = re.compile(r"id_[^.]*")
_TEMPLATE = re.compile(r"\.env[._-](.*[._-])?(example|sample|template|dist|defaults?)|.*\.pub")
_STEERING_FILES = frozenset(
    {
        ".mcp.json", "agents.md", "agents.override.md", "opencode.json", "opencode.jsonc", "claude.md",
        "claude.local.md", "gemini.md", "qwen.md", "copilot-instructions.md",
        ".cursorrules", ".windsurfrules", ".clinerules", ".aider.conf.yml", ".gitattributes", ".gitmodules",
        ".gitlab-ci.yml", ".pre-commit-config.yaml", ".npmrc", ".yarnrc", ".yarnrc.yml", "jenkinsfile",
    }
)  # fmt: skip
_STEERING_FOLDERS = frozenset(
    {
        ".qcode", ".vscode", ".idea", ".husky", ".claude", ".cursor", ".gemini", ".qwen", ".codex", ".windsurf",
        ".devcontainer", ".circleci", ".opencode", ".zed", ".fleet", ".clinerules",
    }
)  # fmt: skip
_STEERING_PAIRS = frozenset({(".github", "workflows"), (".github", "actions")})
_DEPENDENCY_FOLDERS = frozenset({"node_modules", "site-packages", "dist-packages", ".venv", "venv", "bower_components"})


def fold(name: str) -> str:
    """Return the form in which one component of a path is compared."""
    visible = "".join(char for char in unicodedata.normalize("NFC", name) if not _is_invisible(char))
    return visible.casefold().rstrip(". ")


def has_unclear_characters(path: str) -> bool:
    """Return whether `path` holds line breaks, other controls, bidi marks, invisible or undecodable characters."""
    return any(_is_invisible(char) or unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in path)


def is_git_look_alike(part: str) -> bool:
    """Return whether `part` is not `.git` in any case, yet some file system would open `.git` for it."""
    return part.casefold() != ".git" and (fold(part) == ".git" or _SHORT_GIT.fullmatch(fold(part)) is not None)


def is_secret(part: str) -> bool:
    """Return whether a file of this name holds secrets by convention; templates and public keys do not."""
    name = fold(part)
    return _SECRET.fullmatch(name) is not None and _TEMPLATE.fullmatch(name) is None


def is_ssh_key(part: str) -> bool:
    """Return whether this is a name that ssh itself gives to a private key."""
    name = fold(part)
    return _SSH_KEY.fullmatch(name) is not None and _TEMPLATE.fullmatch(name) is None


def is_key(part: str) -> bool:
    """Return whether an existing file of this name is a private key by the convention of ssh (`id_*`)."""
    return is_ssh_key(part) or _KEY.fullmatch(fold(part)) is not None


def is_steering(parts: tuple[str, ...]) -> bool:
    """Return whether a path below a root is something that runs or instructs later."""
    names = tuple(fold(part) for part in parts)
    if any(pair in _STEERING_PAIRS for pair in pairwise(names)):
        return True
    return bool(names) and (names[-1] in _STEERING_FILES or any(name in _STEERING_FOLDERS for name in names))


def is_dependency_folder(part: str) -> bool:
    """Return whether `part` names a folder of installed packages."""
    return fold(part) in _DEPENDENCY_FOLDERS


def _is_invisible(char: str) -> bool:
    return char in _BIDI or char in _INVISIBLE_LETTERS or unicodedata.category(char) in ("Cf", "Cn", "Co")
