"""Runs qcode as a program, in a temporary folder and home."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.warm import machine_variables, warm
from tests.fakes.server import FakeServer, ProtocolName, wire_of

KEY = "sk-canary-0123456789abcdef"
PROTOCOLS: tuple[ProtocolName, ...] = ("openai", "anthropic", "gemini")
KEY_VARIABLES: Mapping[str, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
NO_KEYRING = "keyring.backends.fail.Keyring"
_INTERPRETER_PREFIXES = ("PYTHON", "LANG", "LC_")
"""The prefixes of variables that configure the interpreter."""
HELLO = 'def hello(name):\n    return f"Hello, {name}"\n'


@dataclass(frozen=True)
class Finished:
    """The result of a run."""

    code: int
    """The exit code, minus n if signal n ended the run."""
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        (result,) = [line for line in self.lines if line["type"] == "result"]
        assert self.lines[-1] is not None
        assert self.lines[-1]["type"] == "result"
        return result


class CliRunner:
    """Runs qcode in an empty workspace with an empty home."""

    is_warm = True
    """A run is a fork of an interpreter that has loaded qcode.

    A run whose variables configure the interpreter itself, such as `PYTHONPATH`, is always a new process.
    """

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.work = base / "work"
        self.home.mkdir()
        self.work.mkdir()

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables of a run, without any key, proxy or setting of the machine; `extra` adds others."""
        own = {"HOME": str(self.home), "NO_COLOR": "1", "PYTHON_KEYRING_BACKEND": NO_KEYRING}
        return {**machine_variables(), **own, **(extra or {})}

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float = 60,
    ) -> Finished:
        environment = self.environment(env)
        if self.can_fork(env):
            code, out, err = warm().run(arguments, self.work, environment, stdin, timeout)
            return Finished(code, out.decode(), err.decode())
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.work,
            env=environment,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout,
        )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    def can_fork(self, env: Mapping[str, str] | None) -> bool:
        """Return whether a run with these variables may be a fork."""
        return self.is_warm and not any(name.startswith(_INTERPRETER_PREFIXES) for name in env or ())

    def ask(self, server: FakeServer, *arguments: str, stdin: bytes | None = None) -> Finished:
        """Run qcode against `server`, with the key of its protocol."""
        protocol = protocol_of(server)
        given = ("-m", f"{protocol}/test-model", "--base-url", server.base_url, *arguments)
        return self.run(*given, env={KEY_VARIABLES[protocol]: KEY}, stdin=stdin)

    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "qcode", *arguments]


def protocol_of(server: FakeServer) -> ProtocolName:
    (name,) = [name for name in PROTOCOLS if isinstance(server.wire, type(wire_of(name)))]
    return name
