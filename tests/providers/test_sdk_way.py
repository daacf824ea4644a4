"""Behavior of requests over the SDKs only."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from qcode.protocol.provider import Provider
from tests.providers.clients import PATIENT, collect, each_protocol, run_against, stream_of
from tests.providers.loopback import Answer, Loopback


@each_protocol
def test_only_connecting_is_limited_by_the_http_client(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is watched by the loop that reads; a limit of the SDK's would end long thinking."""
    monkeypatch.setattr("qcode.providers.direct.can_connect_directly", lambda *given: False)
    seen: list[object] = []
    send = httpx2.AsyncClient.send

    async def record(client: httpx2.AsyncClient, request: httpx2.Request, **more: Any) -> httpx2.Response:
        response = await send(client, request, **more)
        seen.append(request.extensions["timeout"])
        return response

    monkeypatch.setattr(httpx2.AsyncClient, "send", record)

    async def scene(provider: Provider, _server: Loopback) -> None:
        await collect(provider, protocol)
        assert seen == [{"connect": PATIENT.connect, "read": None, "write": None, "pool": None}]

    run_against(Answer([stream_of(protocol)]), protocol, scene)
