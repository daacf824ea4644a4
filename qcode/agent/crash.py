"""Crash reports: an unexpected error becomes one line, and its details go to a private file without secrets.

Separate from `telemetry` because it must work even if most of qcode fails.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from qcode import __version__
from qcode.safety.secret import Secret
from qcode.text.clean import single_spaced

FOLDER = "crashes"
MAX_REPORTS = 5
_MAX_LINE_CHARS = 300
_redacted_keys: set[Secret] = set()
_reports: dict[tuple[Path, str], Path] = {}
"""The reports of this process by folder and text: a repeated error has one report and does not displace others."""


def redact_in_crash_reports(key: Secret) -> None:
    """Remove `key` from every crash report of this process; keys of the environment are always removed."""
    _redacted_keys.add(key)


def describe_crash(error: BaseException, env: Mapping[str, str]) -> str:
    """Write a crash report and return one line for the user with the path of the report. Never raises."""
    return f"internal error: {report_crash(error, env)}"


def report_crash(error: BaseException, env: Mapping[str, str]) -> str:
    """Write a report and return one line without secrets: the error and the path of the report. Never raises."""
    from qcode.safety.redaction import Redactor, named_secrets

    redact = Redactor([*named_secrets(env), *_redacted_keys]).redact
    text = single_spaced(redact(str(error)))[:_MAX_LINE_CHARS]
    description = type(error).__name__ + (f": {text}" if text else "")
    details = redact("".join(traceback.format_exception(error)))
    path = _write_report(f"qcode {__version__}\n{details}", env)
    return f"{description}; see {path}" if path else f"{description}; the crash report could not be written"


def _write_report(text: str, env: Mapping[str, str]) -> Path | None:
    """Write a private file, remove all but the newest reports, and return the path; None if that fails."""
    # A failure here must not hide the error that is reported.
    with suppress(Exception):
        from qcode.config.paths import ConfigPaths
        from qcode.config.state_file import create_private_folder

        folder = ConfigPaths.from_env(env).state_dir / FOLDER
        existing = _reports.get((folder, text))
        if existing is not None and existing.exists():
            return existing
        create_private_folder(folder)
        # File names sort by time. The process id separates two processes that crash in the same microsecond.
        now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        path = folder / f"crash-{now}-{os.getpid()}.txt"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        with suppress(OSError):
            for old in sorted(folder.glob("crash-*.txt"))[:-MAX_REPORTS]:
                old.unlink(missing_ok=True)
        _reports[folder, text] = path
        return path
    return None
