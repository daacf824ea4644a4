"""The error for an unknown model lists the model names of the host, the nearest first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from qcode.agent.models import client
from qcode.agent.models.client import with_nearest_models
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEvent

UNKNOWN = ProviderError(ErrorKind.UNKNOWN_MODEL, "no such model. ", status=404, request_id="r1", code="c", param="p")


class Host:
    """A provider that only lists models; None never responds."""

    name = "lab"
    host = "http://lab"

    def __init__(self, names: tuple[str, ...] | ProviderError | None) -> None:
        self.names = names

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        raise AssertionError("no model is asked")

    def warm_up(self) -> None:
        pass

    async def model_names(self) -> tuple[str, ...]:
        if self.names is None:
            await asyncio.Event().wait()
        if isinstance(self.names, ProviderError):
            raise self.names
        return self.names or ()

    async def close(self) -> None: ...


def explained(names: tuple[str, ...] | ProviderError | None) -> ProviderError:
    return asyncio.run(with_nearest_models(UNKNOWN, Host(names), "qwen3-codr"))


def test_the_nearest_names_come_first_with_their_provider() -> None:
    error = explained(("llama4", "qwen3-coder", "qwen3-coder-plus"))
    assert error.message.startswith("no such model; nearest: lab/qwen3-coder, lab/qwen3-coder-plus")
    assert (error.kind, error.status, error.request_id, error.code, error.param) == (
        ErrorKind.UNKNOWN_MODEL, 404, "r1", "c", "p",
    )  # fmt: skip


def test_where_nothing_is_near_a_few_names_help() -> None:
    assert explained(("a", "b", "c", "d")).message == "no such model; nearest: lab/a, lab/b, lab/c"


@pytest.mark.parametrize("names", [(), ProviderError(ErrorKind.SERVER, "down")])
def test_a_host_that_names_none_changes_nothing(names: tuple[str, ...] | ProviderError) -> None:
    assert explained(names) is UNKNOWN


def test_a_host_that_does_not_answer_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ASK_TIMEOUT_S", 0.01)
    assert explained(None) is UNKNOWN
