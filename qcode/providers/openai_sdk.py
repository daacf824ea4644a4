"""The openai SDK as the clients of both its protocols use it: connecting, closing, listing models, its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.providers.streaming import SdkProvider
from qcode.providers.transport import http_client, quiet

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_NO_KEY = "none"
"""A local server needs no key, but the SDK wants to send one."""


class OpenAISdkProvider(SdkProvider["AsyncOpenAI"]):
    """A provider on the openai SDK; what it sends and reads is its protocol's business."""

    def _make_client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        quiet("openai", "httpx2", "httpcore2")
        http = http_client(self._connection)
        return AsyncOpenAI(
            api_key=self._connection.api_key or _NO_KEY,
            base_url=self._connection.base_url,
            default_headers=dict(self._connection.headers),
            timeout=http.timeout,
            max_retries=0,
            http_client=http,
        )

    async def _close_client(self, client: AsyncOpenAI) -> None:
        await client.close()

    async def _list_models(self, client: AsyncOpenAI) -> list[str]:
        page = await client.models.list()
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
