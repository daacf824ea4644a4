"""A home, a workspace and a fake server for the agent side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from qcode.agent.options import Options
from tests.acp.editor import FIRST, Choose, Editor, InThread
from tests.fakes.server import FakeServer
from tests.fakes.turns import Turn

_OF_PROVIDERS = ("_API_KEY", "_TOKEN", "_BASE_URL", "_proxy", "_PROXY")
Connect: TypeAlias = Callable[..., AbstractContextManager[Editor]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty the environment but for a home with a key; return the home."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL", "_proxy", "_PROXY")) or name.startswith(
            ("AWS_", "QCODE_")
        ):
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("QCODE_HOME", str(folder / "qcode"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789abcdef")
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def connect(home: Path) -> Connect:
    """Return a function that connects an editor to an agent whose model gives the scripted answers."""

    @contextmanager
    def connected(
        script: Sequence[Turn] = (),
        capabilities: Mapping[str, object] | None = None,
        choose: Choose = FIRST,
        options: Options | None = None,
    ) -> Iterator[Editor]:
        with FakeServer("openai", script) as server:
            given = replace(options or Options(trust=True), model="openai/some-model", base_url=server.base_url)
            with InThread(Editor(capabilities, choose), given) as editor:
                editor.server = server
                editor.initialize()
                yield editor

    return connected
