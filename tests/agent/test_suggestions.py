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


def explained(names: tuple[str, ...] | ProviderError | None, error: ProviderError = UNKNOWN) -> ProviderError:
    return asyncio.run(with_nearest_models(error, Host(names), "qwen3-codr"))


def test_nearest_names_come_first_with_their_provider() -> None:
    error = explained(("llama4", "qwen3-coder", "qwen3-coder-plus"))
    assert error.message.startswith(
        "no such model (requested: lab/qwen3-codr); the nearest: lab/qwen3-coder, lab/qwen3-coder-plus"
    )
    assert (error.kind, error.status, error.request_id, error.code, error.param) == (
        ErrorKind.UNKNOWN_MODEL, 404, "r1", "c", "p",
    )  # fmt: skip


def test_some_names_are_suggested_if_none_is_similar() -> None:
    message = explained(("a", "b", "c", "d")).message
    assert message == "no such model (requested: lab/qwen3-codr); the nearest: lab/a, lab/b, lab/c"


def test_refused_name_is_not_suggested_although_the_host_lists_it() -> None:
    assert "the nearest: lab/qwen3-coder" in explained(("qwen3-codr", "qwen3-coder")).message
    assert explained(("qwen3-codr",)).message == "no such model (requested: lab/qwen3-codr)"


@pytest.mark.parametrize("names", [(), ProviderError(ErrorKind.SERVER, "down"), None])
def test_host_without_a_model_list_keeps_the_requested_name(
    names: tuple[str, ...] | ProviderError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ASK_TIMEOUT_S", 0.01)
    assert explained(names).message == "no such model (requested: lab/qwen3-codr)"


@pytest.mark.parametrize("names", [(), ProviderError(ErrorKind.AUTH, "no access", status=403)])
def test_host_without_a_model_list_gets_names_of_the_catalog(names: tuple[str, ...] | ProviderError) -> None:
    host = Host(names)
    host.name = "openai"
    message = asyncio.run(with_nearest_models(UNKNOWN, host, "gpt-4o-minx")).message
    assert message.startswith("no such model (requested: openai/gpt-4o-minx); the nearest: openai/gpt-4o-mini")


def test_message_does_not_repeat_the_name() -> None:
    named = ProviderError(ErrorKind.UNKNOWN_MODEL, "model `qwen3-codr` does not exist", status=404)
    assert explained((), named).message == "model `qwen3-codr` does not exist"


BARE = ProviderError(ErrorKind.BAD_REQUEST, "404: Not Found", status=404)


def test_bare_404_is_about_the_model_if_the_host_has_others() -> None:
    error = explained(("qwen3-coder",), BARE)
    assert error.kind is ErrorKind.UNKNOWN_MODEL
    assert error.message == "404: Not Found (requested: lab/qwen3-codr); the nearest: lab/qwen3-coder"


@pytest.mark.parametrize("names", [(), ("qwen3-codr",), ProviderError(ErrorKind.BAD_REQUEST, "404")])
def test_bare_404_is_about_the_address_otherwise(names: tuple[str, ...] | ProviderError) -> None:
    assert explained(names, BARE) is BARE
