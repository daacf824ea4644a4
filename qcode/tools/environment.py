"""What programs that a tool starts may know of qcode's own environment, and where such programs are found."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from qcode.tools.refusal import Refused
from qcode.tools.workspace import Workspace

_PASSED = frozenset(
    {
        "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOSTNAME", "COLUMNS", "LINES",
        "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
        "XDG_STATE_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "NVM_DIR", "NODE_ENV",
        "RBENV_ROOT", "GEM_HOME", "JAVA_HOME", "MAVEN_HOME", "GRADLE_USER_HOME", "GOPATH", "GOROOT", "CARGO_HOME",
        "RUSTUP_HOME", "DOTNET_ROOT", "ANDROID_HOME", "HOMEBREW_PREFIX", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "CI",
    }
)  # fmt: skip
_PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_LOCALE = re.compile(r"LC_[A-Z]+")
_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"

_FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of `environment` that a shell command gets: an allow list, pagers off, a PATH of absolute parts.

    A proxy that holds a password is left out, and so is everything that is not on the list.
    """
    passed = {name: value for name, value in environment.items() if name in _PASSED or _LOCALE.fullmatch(name)}
    passed |= {name: value for name, value in environment.items() if name.lower() in _PROXIES and "@" not in value}
    parts = [part for part in environment.get("PATH", "").split(":") if part.startswith("/")]
    return {**passed, **_FIXED, "PATH": ":".join(parts) or _USUAL_PATH}


def find_program(name: str, environment: Mapping[str, str], workspace: Workspace) -> str | None:
    """Return the absolute path of a program of the system, or of one on PATH outside the workspace, or None."""
    usual = _USUAL_PATH.split(":")
    for folder in (*passed_on(environment)["PATH"].split(":"), *usual):
        path = Path(folder) / name
        is_program = path.is_file() and os.access(path, os.X_OK)
        is_own = workspace.contains(path) or workspace.contains(path.parent)
        if is_program and (folder in usual or not is_own):
            return str(path)
    return None


def required_program(name: str, environment: Mapping[str, str], workspace: Workspace) -> str:
    """`find_program`, or `Refused` where there is none."""
    found = find_program(name, environment, workspace)
    if found is None:
        raise Refused(f"{name} was not found on PATH (programs inside the workspace do not count)")
    return found


MINIMAL = {"PATH": _USUAL_PATH, "LANG": "C.UTF-8"}
"""What qcode's own helper programs get."""
