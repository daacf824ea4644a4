"""The openai SDK as the clients of both its protocols use it: connecting, closing, listing models, its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from qcode.providers.streaming import SdkProvider
from qcode.providers.transport import http_client, quiet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openai import AsyncOpenAI, Omit

_NO_KEY = "none"
"""A local server needs no key, but the SDK wants to send one."""


class OpenAISdkProvider(SdkProvider["AsyncOpenAI"]):
    """A provider on the openai SDK; what it sends and reads is its protocol's business."""

    def _make_client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        quiet("openai", "httpx2", "httpcore2")
        http = http_client(self._connection)
        base_url, _, query = self._connection.base_url.partition("?")
        return AsyncOpenAI(
            api_key=self._connection.api_key or _NO_KEY,
            base_url=base_url,
            default_headers={name: value for name, value in self._connection.headers.items() if value},
            default_query=dict(parse_qsl(query)) or None,
            timeout=http.timeout,
            max_retries=0,
            http_client=http,
        )

    def _left_out(self) -> Mapping[str, str | Omit]:
        """Return marks for the headers that are not to be sent although the SDK has them: those given as empty."""
        from openai import omit

        return {name: omit for name, value in self._connection.headers.items() if not value}

    async def _close_client(self, client: AsyncOpenAI) -> None:
        await client.close()

    async def _list_models(self, client: AsyncOpenAI) -> list[str]:
        page = await client.models.list(extra_headers=self._left_out())
        return [model.id for model in page.data or [] if model.id]

    async def check_path(self, path: str) -> None:
        """Get `path` below the base URL, which only a valid key may; raise `ProviderError`."""

        async def get(client: AsyncOpenAI) -> list[str]:
            await client.get(path, cast_to=object)
            return []

        await self._listed(get)

    def _failures(self) -> tuple[type[Exception], ...]:
        from openai import OpenAIError

        return (OpenAIError,)
