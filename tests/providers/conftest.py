"""Fixtures that hide the machine's AWS settings and choose how requests are sent."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_amazon_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-test-1")


@pytest.fixture(scope="session", autouse=True)
def shared_service_models() -> Iterator[None]:
    """Let all sessions of botocore share one loader: its data files do not change, and parsing them is slow."""
    session = importlib.import_module("botocore.session")  # ships no types
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "create_loader", functools.cache(session.create_loader))
        yield


@pytest.fixture(params=["direct", "sdk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Send requests directly, or over the SDK, as with a proxy."""
    if request.param == "sdk":
        monkeypatch.setattr("qcode.providers.direct.can_connect_directly", lambda *given: False)
    return str(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bedrock has one way. Each test is run over the SDK of one protocol, and over the others in the broad run."""
    items[:] = [item for item in items if not _is_second_way_of_bedrock(item)]
    seen: set[str] = set()
    for item in items:
        if isinstance(item, pytest.Function) and _given(item).get("way") == "sdk":
            name = f"{item.path}::{item.originalname}"
            if name in seen:
                item.add_marker(pytest.mark.broad)
            seen.add(name)


def _is_second_way_of_bedrock(item: pytest.Item) -> bool:
    given = _given(item)
    return given.get("way") == "sdk" and given.get("protocol") == "bedrock"


def _given(item: pytest.Item) -> dict[str, object]:
    """Return the parameters of a test by name."""
    return dict(item.callspec.params) if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
