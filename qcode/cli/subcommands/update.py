"""`qcode update`: shows how this copy was installed, how to update it, and with `--check` the newest version.

Only `--check` uses the network, and it sends nothing but the request for the list of files.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from qcode import __version__
from qcode.cli.arguments import invalid_arguments, parse_subcommand
from qcode.cli.terminal import write_lines
from qcode.protocol.errors import ExitCode, QcodeError
from qcode.text.clean import one_line, visible
from qcode.text.proxies import is_loopback
from qcode.values import dataclass

DISTRIBUTION = "qcode-cli"
INDEX = "https://pypi.org/simple"
INDEX_VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX")
_USE = "use: qcode update [--check]"
_JSON = "application/vnd.pypi.simple.v1+json"
_TIMEOUT_S = 15.0
MAX_BYTES = 10 * 1024 * 1024
"""The maximum size of the answer of the package index."""
_FILE = re.compile(r"qcode[-_.]cli-(\d{1,9}(?:\.\d{1,9})*)(?:\.tar\.gz|-[^/]*\.whl)", re.IGNORECASE)

Installer: TypeAlias = Literal["pipx", "uv", "pip"]


@dataclass(frozen=True, slots=True)
class Installation:
    """The way in which this copy was installed.

    A copy from a package index has no `clone`, `archive` or `repository`.
    """

    installer: Installer
    clone: Path | None = None
    """The folder from which the copy was installed."""
    pip: str = "pip"
    """A command that runs the pip that installed the copy. In a virtual environment this is not the pip on `PATH`."""
    is_editable: bool = False
    archive: str = ""
    """The path or URL of a wheel or sdist."""
    repository: str = ""
    """A URL for pip such as `git+https://…`."""

    @property
    def is_released(self) -> bool:
        return self.clone is None and not self.archive and not self.repository

    @property
    def source(self) -> str:
        if self.clone is not None:
            return f"from {self.clone}"
        origin = self.archive or self.repository
        return f"from {visible(origin)}" if origin else f"with {self.installer}"

    @property
    def update_command(self) -> str:
        """The command that installs the newest version. In a clone, `git pull` must come before it."""
        if self.clone is not None:
            return self._install("--editable ." if self.is_editable else ".")
        if self.archive or self.repository:
            return self._install(shlex.quote(visible(self.repository)) if self.repository else "ARCHIVE")
        return {
            "pipx": f"pipx upgrade {DISTRIBUTION}",
            "uv": f"uv tool upgrade {DISTRIBUTION}",
            "pip": f"{self.pip} install --upgrade {DISTRIBUTION}",
        }[self.installer]

    def _install(self, requirement: str) -> str:
        match self.installer:
            case "pipx":
                return f"pipx install --force {requirement}"
            case "uv":
                return f"uv tool install --force {requirement}"
            case "pip" if self.repository:
                # Otherwise pip keeps the installed copy, because a repository often has the same version number.
                return f"{self.pip} install --force-reinstall {requirement}"
            case "pip":
                return f"{self.pip} install {requirement}"

    @property
    def remove_command(self) -> str:
        commands = {"pipx": "pipx uninstall", "uv": "uv tool uninstall", "pip": f"{self.pip} uninstall"}
        return f"{commands[self.installer]} {DISTRIBUTION}"


def installation(prefix: str | None = None) -> Installation:
    """Return how this copy was installed, from the folder of its interpreter and the installer's metadata."""
    installer, pip = _installer(Path(sys.prefix if prefix is None else prefix)), _pip()
    try:
        direct_url = json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        url = str(direct_url.get("url", ""))
        path = unquote(urlsplit(url).path) if urlsplit(url).scheme == "file" else ""
        if "dir_info" in direct_url:
            is_editable = direct_url["dir_info"].get("editable") is True
            return Installation(installer, Path(path) if path else None, pip, is_editable=is_editable)
        if "vcs_info" in direct_url:
            return Installation(installer, pip=pip, repository=f"{direct_url['vcs_info']['vcs']}+{url}")
        return Installation(installer, pip=pip, archive=path or url)
    except (metadata.PackageNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return Installation(installer, pip=pip)


def _installer(prefix: Path) -> Installer:
    """Return the installer that created the environment. pipx and uv store a file in each of their environments."""
    pairs = set(pairwise(prefix.parts))
    if ("pipx", "venvs") in pairs or (prefix / "pipx_metadata.json").exists():
        return "pipx"
    return "uv" if ("uv", "tools") in pairs or (prefix / "uv-receipt.toml").exists() else "pip"


def _pip() -> str:
    """Return the command of the pip that belongs to this interpreter. An environment made by uv has none."""
    if sys.prefix == sys.base_prefix or not sys.executable:
        return "pip"
    if find_spec("pip") is None:
        return f"VIRTUAL_ENV={shlex.quote(sys.prefix)} uv pip"
    return f"{shlex.quote(sys.executable)} -m pip"


def run_update(arguments: Sequence[str]) -> int:
    """Print how to update; with `--check` ask the package index first. Raise `QcodeError` if it cannot be reached."""
    _, words, flags = parse_subcommand("update", arguments, _USE)
    if words:
        raise invalid_arguments(words, _USE)
    current = installation()
    newest = newest_release(os.environ) if "check" in flags else None
    lines = [f"qcode {__version__}, installed {current.source}"]
    if "check" not in flags:
        lines.append("The network was not used; qcode update --check asks the package index for a newer version.")
        lines.append(f"To update: {_update_advice(current)}")
    elif newest is None:
        lines.append(f"No version of {DISTRIBUTION} is published yet.")
        # The usual command of the installer would find nothing.
        advice = "install it again from a newer clone" if current.is_released else _update_advice(current)
        lines.append(f"To update: {advice}")
    elif _numbers(newest) <= _numbers(__version__):
        lines.append(f"The newest published version is {newest}: this one is current.")
    else:
        lines.append(f"Version {newest} is available.")
        # A copy from an archive can be updated from the index now.
        from_index = Installation(current.installer, pip=current.pip)
        advice = from_index.update_command if current.archive else _update_advice(current)
        lines.append(f"To update: {advice}")
    write_lines(*lines)
    return ExitCode.OK


def _update_advice(current: Installation) -> str:
    """Return what the user has to do to update this copy, if there is a newer version."""
    if current.archive:
        return f"get a newer archive and run {current.update_command} with it"
    if current.clone is None:
        return current.update_command
    if not current.clone.is_dir():
        return "install it again from a newer clone; that folder does not exist here"
    return f"run git pull and then {current.update_command} in that folder"


def newest_release(env: Mapping[str, str]) -> str | None:
    """Return the newest version on the package index that is not withdrawn, None if there is none.

    Raise `QcodeError` if the index cannot be used.
    """
    import httpx2

    index = next((env[name].strip() for name in INDEX_VARIABLES if env.get(name, "").strip()), INDEX).rstrip("/")
    try:
        host = urlsplit(index).hostname or index
    except ValueError as error:
        text = f"cannot check for updates: the address of the index is invalid: {one_line(str(error), 200)}"
        raise QcodeError(text, ExitCode.USAGE) from None
    try:
        with (
            httpx2.Client(
                timeout=_TIMEOUT_S,
                follow_redirects=True,
                verify=httpx2.create_ssl_context(),
                trust_env=not is_loopback(index),
            ) as client,
            client.stream("GET", f"{index}/{DISTRIBUTION}/", headers={"Accept": _JSON}) as response,
        ):
            if response.status_code == 404:
                return None
            response.raise_for_status()
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > MAX_BYTES:
                    raise _unusable(host, "the answer is too large")
    except httpx2.HTTPStatusError as error:
        raise _unusable(host, f"it answered {error.response.status_code}") from None
    except httpx2.HTTPError as error:
        raise _unusable(host, one_line(str(error), 200) or type(error).__name__) from None
    except (httpx2.InvalidURL, ValueError, OSError) as error:
        raise QcodeError(f"cannot check for updates at {host}: {one_line(str(error), 200)}", ExitCode.USAGE) from None
    return _newest(bytes(data), host)


def _unusable(host: str, why: str) -> QcodeError:
    return QcodeError(f"cannot check for updates at {host}: {why}; try again later", ExitCode.TRANSIENT)


def _newest(data: bytes, host: str) -> str | None:
    """Return the newest version in a list of files (PEP 691) without pre-releases, None if there is none.

    Raise `QcodeError` if the list is invalid.
    """
    try:
        files = json.loads(data)["files"]
        names = [file["filename"] for file in files if not file.get("yanked")]
        versions = {match[1] for name in names if (match := _FILE.fullmatch(name))}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise QcodeError(
            f"cannot check for updates at {host}: it does not answer with the JSON of PEP 691; "
            "set PIP_INDEX_URL to an index that does"
        ) from None
    return max(versions, key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version for a comparison, without trailing zeros: (1, 2) for `1.2.0`."""
    numbers = [int(digits) for digits in re.findall(r"\d+", version)]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
