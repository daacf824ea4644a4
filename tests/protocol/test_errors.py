from __future__ import annotations

from pathlib import Path

import pytest

from qcode.protocol.errors import (
    ConfigError,
    ExitCode,
    InputError,
    KeyringError,
    KeyStoreError,
    QcodeError,
    SessionBusy,
    SessionNotFound,
    UsageError,
)


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (QcodeError("x"), 1, "internal"),
        (QcodeError("x", ExitCode.NO_CREDENTIAL), 41, "no_credential"),
        (UsageError("x"), 2, "usage"),
        (InputError("x"), 42, "bad_input"),
        (SessionNotFound("x"), 42, "bad_input"),
        (SessionBusy("x"), 42, "bad_input"),
        (ConfigError("x", file=Path("c.toml"), line=3), 52, "bad_config"),
        (KeyStoreError("x"), 1, "internal"),
        (KeyringError("x"), 1, "internal"),
    ],
)
def test_every_error_has_its_exit_code_and_the_kind_of_its_result(error: QcodeError, code: int, kind: str) -> None:
    assert (error.exit_code, error.info.kind) == (code, kind)


def test_exit_code_of_one_error_leaves_its_class_alone() -> None:
    assert SessionNotFound("x", ExitCode.FAILED).exit_code == 1
    assert SessionNotFound("y").exit_code == 42


def test_error_of_several_lines_is_one_line_in_a_result() -> None:
    assert QcodeError("one\n  two").info.message == "one two"
