"""The environment of programs that qcode starts.

A separate module because judging a command needs the environment, but not the event loop that `processes` imports.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from qcode.text.pattern import lazy_pattern

_PASSED_VARIABLES = frozenset(
    {
        "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOSTNAME", "COLUMNS", "LINES",
        "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
        "XDG_STATE_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "NVM_DIR", "NODE_ENV",
        "RBENV_ROOT", "GEM_HOME", "JAVA_HOME", "MAVEN_HOME", "GRADLE_USER_HOME", "GOPATH", "GOROOT", "CARGO_HOME",
        "RUSTUP_HOME", "DOTNET_ROOT", "ANDROID_HOME", "HOMEBREW_PREFIX", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "CI", "QCODE_HOME",
    }
)  # fmt: skip
_PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_LOCALE = lazy_pattern(r"LC_[A-Z]+")
_OTHER_ENCODING = lazy_pattern(r"(?i)(LC_ALL|LC_CTYPE|LANG)=(?!(C|POSIX|.*\.utf-?8(@.*)?)?$).*")
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
MINIMAL_ENVIRONMENT = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8"}
"""The environment of qcode's own helper programs."""
DEPTH_VARIABLE = "QCODE_DEPTH"
"""The number of qcode processes above a process. A program that qcode starts gets a number one higher."""

_FIXED_VARIABLES = {
    **dict.fromkeys(("PAGER", "MANPAGER", "GIT_PAGER"), "cat"),
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a shell command: the harmless variables of `environment`, with pagers turned off.

    PATH contains absolute folders only. A proxy with a password is omitted. `DEPTH_VARIABLE` is one higher. Locales of
    other encodings become `C.UTF-8`, like the text of commands: in `ja_JP.SJIS`, bash reads `ă\\` as two letters.
    """
    passed = {name: environment[name] for name in environment if name in _PASSED_VARIABLES or _LOCALE.fullmatch(name)}
    if sys.getfilesystemencoding() == "utf-8":
        passed |= {name: "C.UTF-8" for name, value in passed.items() if _OTHER_ENCODING.fullmatch(f"{name}={value}")}
    passed |= {name: value for name, value in environment.items() if name.lower() in _PROXIES and "@" not in value}
    parts = [part for part in environment.get("PATH", "").split(":") if part.startswith("/")]
    depth = environment.get(DEPTH_VARIABLE, "")
    child_depth = str(int(depth) + 1) if depth.isdecimal() and len(depth) < 4 else "1"  # it may be any text
    return {**passed, **_FIXED_VARIABLES, DEPTH_VARIABLE: child_depth, "PATH": ":".join(parts) or DEFAULT_PATH}
