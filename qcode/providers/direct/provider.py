"""When the direct way may be taken, and a provider that takes it for replies and its SDK for everything else."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from qcode.protocol.errors import ProviderError
from qcode.protocol.model import ModelRequest
from qcode.providers.addresses import is_loopback, proxy_variable
from qcode.providers.connection import Connection
from qcode.providers.direct.client import DirectClient, Post
from qcode.providers.direct.errors import BadHeader, BrokenOff, DirectError, NotReached, Refused
from qcode.providers.streaming import Answer, ClientT, SdkProvider
from qcode.providers.transport import bad_header, broken_off, late_reason, reason_of, refusal, unreachable

_PLAIN = re.compile(
    r"https?://(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?"
)


def is_plain(connection: Connection, variables: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether `connection` can be made directly: nothing about it is for an SDK or httpx2 to work out.

    `variables` are those from which the host's SDK would take more than key and address.
    """
    if not _PLAIN.fullmatch(connection.base_url) or any(environ.get(name) for name in variables):
        return False
    return not _has_proxy(connection.base_url, environ)


class DirectProvider(SdkProvider[ClientT]):
    """A provider that needs its SDK for what is not plain only: a proxy, other ways to sign in, listing models."""

    sdk_variables: tuple[str, ...] = ()
    """Environment variables that change what the SDK sends beside key and address."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._direct = DirectClient(connection) if is_plain(connection, self.sdk_variables) else None

    @abstractmethod
    def _post(self, request: ModelRequest) -> Post:
        """Return the request as the SDK would send it."""
        ...

    def warm_up(self) -> None:
        """Load what the first request needs, so that it need not wait. It blocks: call it in a thread."""
        if self._direct is None:
            super().warm_up()
        else:
            self._direct.prepare()

    async def close(self) -> None:
        """Release connections; safe to call twice and before the first request."""
        if self._direct is not None:
            self._direct.close()
        await super().close()

    @asynccontextmanager
    async def _answer(self, request: ModelRequest) -> AsyncIterator[Answer]:
        opened = super()._answer(request) if self._direct is None else self._direct.open(self._post(request))
        async with opened as answer:
            yield answer

    def _breaks(self) -> tuple[type[Exception], ...]:
        return super()._breaks() if self._direct is None else (BrokenOff,)

    def _stream_failures(self) -> tuple[type[Exception], ...]:
        return super()._stream_failures() if self._direct is None else (DirectError,)

    def _failure(self, error: Exception) -> ProviderError:
        match error:
            case Refused():
                return refusal(self._connection, error.status, error.headers, error.content)
            case NotReached(seconds=float(seconds)):
                return unreachable(self._connection, late_reason(seconds))
            case NotReached():
                return unreachable(self._connection, reason_of(error))
            case BadHeader():
                return bad_header(self._connection)
            case DirectError():
                return broken_off(self._connection)
            case _:
                return super()._failure(error)


def _has_proxy(url: str, environ: Mapping[str, str]) -> bool:
    if is_loopback(url):
        return False
    if os.uname().sysname == "Darwin":
        from urllib.request import getproxies

        return bool(getproxies())
    return bool(proxy_variable(url, environ))
