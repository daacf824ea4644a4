"""The one error of this room."""

from __future__ import annotations

from pathlib import Path

from qcode.protocol.errors import ExitCode, QcodeError


class ConfigError(QcodeError):
    """A setting cannot be used. The text is one line for a person and never holds a configured value.

    `file` and `line` (from 1) say where, as far as that is known.
    """

    exit_code = ExitCode.BAD_CONFIG

    def __init__(self, message: str, *, file: Path | None = None, line: int | None = None) -> None:
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(" ".join((place + message).split("\n")))
        self.file = file
        self.line = line
